"""Scores on the parties' rows: their value, their noise, and whose rows count in them."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score, r2_score
from sklearn.pipeline import make_pipeline

from sklearn_fedpriv import (
    FederatedDPDecisionTree,
    Federation,
    Party,
    compose,
    privacy_budget,
)
from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.exceptions import BudgetExceeded, FedPrivError, LocalFailure, NotPrivateWarning
from sklearn_fedpriv.federation._query import Tools
from sklearn_fedpriv.metrics import federated_score
from sklearn_fedpriv.metrics._federated_score import (
    Moments,
    Outcomes,
    Predictor,
    accuracy_of,
    f1_weighted_of,
    predictions_by_row,
    r2_of,
    standard_error,
)
from sklearn_fedpriv.preprocessing import PublicEncoder
from sklearn_fedpriv.privacy._randomness import Stream

RNG = np.random.default_rng(7)
X = RNG.normal(size=(900, 3))
Y = (X[:, 0] + RNG.normal(size=900) > 0).astype(int) + (X[:, 1] > 1)
MODEL = LogisticRegression().fit(X, Y)
LABELS = np.arange(900) % 3
TARGET = X @ [1.0, 2.0, 0.0] + RNG.normal(size=900)
LINE = LinearRegression().fit(X, TARGET)
BOUNDS = (-10.0, 10.0)


class Ranks(ClassifierMixin, BaseEstimator):
    """Predicts by the place of a row among the others."""

    classes_ = np.array([0, 1, 2])
    n_features_in_ = 3

    def fit(self, X, y):
        return self

    def predict(self, X):
        return (X[:, 0] > np.median(X[:, 0])).astype(int)


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        ("accuracy", MODEL.score(X, Y)),
        ("f1_weighted", f1_score(Y, MODEL.predict(X), average="weighted")),
        ("confusion_matrix", confusion_matrix(Y, MODEL.predict(X))),
        ("r2", r2_score(TARGET, LINE.predict(X))),
    ],
)
def test_without_noise_a_score_is_scikit_learns(scoring, expected):
    model, y = (LINE, TARGET) if scoring == "r2" else (MODEL, Y)
    with pytest.warns(NotPrivateWarning):
        score = federated_score(
            model, X, y, parties=LABELS, scoring=scoring, bounds=BOUNDS, epsilon=np.inf
        )
    np.testing.assert_allclose(score.value, expected, atol=2e-3)
    assert score.standard_error == 0 and not score.privacy_.private


@pytest.mark.parametrize("scoring", ["accuracy", "f1_weighted", "r2"])
def test_the_standard_error_is_the_spread_of_the_score(scoring):
    """60 releases: their spread is within 40 % of what is said, but for one in 10^5 runs."""
    model, y = (LINE, TARGET) if scoring == "r2" else (MODEL, Y)
    scores = [
        federated_score(
            model, X, y, scoring=scoring, bounds=(-6.0, 6.0), epsilon=1.5, random_state=seed
        )
        for seed in range(60)
    ]
    spread = np.std([float(score) for score in scores])
    assert 0.6 < spread / np.median([score.standard_error for score in scores]) < 1.5


def test_every_form_of_input_gives_the_same_score():
    rows = [(X[LABELS == i], Y[LABELS == i]) for i in range(3)]
    fits = [
        federated_score(MODEL, rows, random_state=1),
        federated_score(MODEL, [x for x, _ in rows], [y for _, y in rows], random_state=1),
        federated_score(MODEL, X, Y, parties=LABELS.astype(str), random_state=1),
        federated_score(MODEL, Federation(rows), random_state=1, n_jobs=2),
    ]
    assert len({score.value for score in fits}) == 1 and fits[0].privacy_.seeded
    assert fits[0].privacy_.n_parties == 3 and dict(fits[0].privacy_.releases) == {"Outcomes": 1}


def test_a_score_has_a_bill_and_is_charged_first():
    clinic = Party(X, Y, name="clinic", max_epsilon=1.5)
    score = federated_score(MODEL, [clinic], epsilon=1.0)
    assert (score.privacy_.unit, score.privacy_.epsilon, score.privacy_.private) == (
        "record",
        1.0,
        True,
    )
    assert clinic.ledger.epsilon == 1 and compose(score, score).epsilon == 2.0
    with pytest.raises(BudgetExceeded):
        federated_score(MODEL, [clinic], epsilon=1.0)
    with privacy_budget(0.5), pytest.raises(BudgetExceeded):
        federated_score(MODEL, X, Y, epsilon=1.0)
    assert "from the noise" in str(score)


@pytest.mark.parametrize("matrix", [False, True])
def test_G7_a_row_counts_once_and_by_itself(matrix):
    """Each row of a hostile batch by itself gives what it adds in the batch."""
    query = Outcomes(3, matrix)
    tools = Tools(Stream(bytes(32)), Predictor(MODEL, np.array([0, 1, 2])))
    rows, labels = np.vstack([X[:20], [[1e300] * 3], [[-1e-310] * 3]]), np.append(Y[:20], [1, 7])
    alone = [query.ticks(rows[[i]], labels[[i]], tools) for i in range(22)]
    assert query.ticks(rows, labels, tools).tolist() == np.sum(alone, axis=0).tolist()
    assert all(ticks.sum() == (ticks**2).sum() <= 1 for ticks in alone)
    assert alone[-1].sum() == 0  # an unknown label counts nowhere


def test_G7_moments_are_held_to_their_bound():
    query = Moments(-1.0, 3.0)
    hostile = np.array([[np.nan, 0], [np.inf, -np.inf], [1e300, -1e300], [3, -1], [-1, 3], [1, 1]])
    with np.errstate(all="ignore"):
        rows = query.contributions(hostile, None)
    assert (np.linalg.norm(rows, axis=1) <= 2).all() and np.abs(rows).max() == 1
    assert from_bytes(to_bytes(query), Moments) == query


class Contagious(Ranks):
    """A row tips all others, once there are more than enough of them."""

    def predict(self, X):
        return np.full(len(X), int(len(X) > 1 and (X[:, 0] > 6).any()))


@pytest.mark.parametrize("model", [Ranks(), Contagious()])
@pytest.mark.parametrize("n_rows", [1, 31, 700])
def test_G7_a_model_that_looks_at_other_rows_sees_none(model, n_rows):
    """Alone no row is above its own median, and none is tipped: all are predicted as 0."""
    rows = np.vstack([X[:n_rows], [[7.0] * 3]])
    with pytest.warns(NotPrivateWarning):
        score = federated_score(
            model, rows, np.zeros(n_rows + 1, int), scoring="confusion_matrix", epsilon=np.inf
        )
    assert score.value[0, 0] == score.value.sum() == n_rows + 1


def test_G7_last_bits_of_a_prediction_do_not_hang_on_the_number_of_rows():
    """A float that lies on the edge between two ticks must not move with the batch."""

    class Odd:
        def predict(self, X):
            return np.full(len(X), edge * (1 + 1e-7 * (1 if len(X) % 2 else -1)))

    query = Moments(0.0, 1.0)
    tick = 2.0**query.lattice.exponent
    edge = (2000.5 * tick) ** 0.5
    tools = Tools(Stream(bytes(32)), Predictor(Odd()))
    less, more = (query.ticks(np.zeros((n, 1)), np.zeros(n), tools) for n in (4000, 4001))
    assert ((more - less) ** 2).sum() <= query.squared_norm


def test_our_own_steps_that_work_by_value_predict_together():
    calls = []

    class Last(Ranks):
        def predict(self, X):
            calls.append(X.shape)
            return np.zeros(len(X), int)

    tree = FederatedDPDecisionTree(classes=[0, 1, 2], bounds=(-4, 4)).fit(X, Y)
    encoder = PublicEncoder(bounds=(-4, 4)).fit(X)
    assert len(list(predictions_by_row(tree, X))) == 1
    assert len(list(predictions_by_row(make_pipeline(encoder, tree), X))) == 1
    pipeline = make_pipeline(encoder, encoder, Last())
    assert len(list(predictions_by_row(pipeline, X[:5]))) == 5 and calls == [(1, 3)] * 5

    class Other(FederatedDPDecisionTree):
        pass

    other = Other(classes=[0, 1, 2], bounds=(-4, 4)).fit(X, Y)
    assert len(list(predictions_by_row(other, X[:7]))) == 7
    assert list(predictions_by_row(tree, X[:0])) == []


@pytest.mark.parametrize("scoring", ["accuracy", "f1_weighted", "confusion_matrix"])
def test_a_prediction_outside_the_classes_is_wrong(scoring):
    known = np.minimum(Y, 1)
    expected = {
        "accuracy": MODEL.score(X, known),
        "f1_weighted": f1_score(known, MODEL.predict(X), average="weighted"),
        "confusion_matrix": confusion_matrix(known, MODEL.predict(X), labels=[0, 1]),
    }[scoring]
    assert (MODEL.predict(X) == 2).any()
    with pytest.warns(NotPrivateWarning):
        score = federated_score(MODEL, X, known, classes=[0, 1], scoring=scoring, epsilon=np.inf)
    np.testing.assert_allclose(score.value, expected, atol=1e-12)


def test_G7_one_label_that_is_a_text_is_refused():
    clinic = Party(X, [*Y[:-1].tolist(), str(Y[-1])])
    with pytest.raises(ValueError, match="labels outside"):
        federated_score(MODEL, [clinic], classes=list(range(50)))
    days = np.arange(900).astype("datetime64[D]")
    with pytest.raises(TypeError, match="convert them to numbers"):
        federated_score(LINE, [Party(X, days)], scoring="r2", bounds=(0, 900))
    assert not clinic.ledger.entries


def test_another_fitted_model_has_another_fingerprint():
    prints = {
        Predictor(LogisticRegression().fit(X, labels), MODEL.classes_).fingerprint
        for labels in (Y, Y, 2 - Y)
    }
    assert len(prints) == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"scoring": "roc_auc"}, "must be one of"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": 1e16}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"scoring": "r2"}, "public bounds"),
        ({"scoring": "r2", "bounds": (1, 1)}, "public bounds"),
        ({"scoring": "r2", "bounds": (0, np.inf)}, "public bounds"),
        ({"classes": [0, 1]}, "Party '0' holds labels outside"),
        ({"classes": [0]}, "two distinct"),
        ({"y": None}, "has no y"),
        ({"model": LINE}, "no classes_"),
        ({"max_dropouts": 1}, "max_dropouts"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, text):
    arguments = {"model": MODEL, "y": Y} | arguments
    clinic = Party(X, arguments.pop("y"))
    with pytest.raises(ValueError, match=text):
        federated_score(arguments.pop("model"), [clinic], **arguments)
    assert not clinic.ledger.entries


@pytest.mark.parametrize("kind", [KeyError, LocalFailure, BudgetExceeded, SystemExit])
def test_G24_a_failing_prediction_names_the_party_and_not_its_rows(kind):
    class Broken(Ranks):
        def predict(self, X):
            raise kind(f"secret {X[0, 0]}")

    with pytest.raises(
        FedPrivError, match=f"Party '0': Broken.predict failed with a {kind.__name__}"
    ) as caught:
        federated_score(Broken(), X, Y)
    error = caught.value
    assert "secret" not in str(error) and error.__context__ is error.__cause__ is None


def test_G24_a_model_warns_nobody_of_rows():
    class Warns(Ranks):
        def predict(self, X):
            warnings.warn(f"secret {X[0, 0]}", stacklevel=1)
            return np.zeros(len(X), int)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        federated_score(Warns(), X[:9], Y[:9])
    assert not caught


def test_a_model_gives_one_prediction_a_row():
    class Short(Ranks):
        def predict(self, X):
            return np.zeros(0)

    with pytest.raises(FedPrivError, match="wrong number of predictions"):
        federated_score(Short(), X, Y)


def test_scores_of_nothing_but_noise_stay_in_their_range():
    counts = np.array([-3.0, 1.0])
    assert accuracy_of(counts) == 0.0 and accuracy_of(np.array([9.0, -4.0])) == 1.0
    assert 0 <= f1_weighted_of(np.array([-3.0, 1.0, 2.0, -9.0])) <= 1
    assert r2_of(np.array([5.0, 0.0, -1.0, 2.0])) == -np.inf


def test_the_error_of_a_linear_function_is_known():
    """A sample of 1,000: within 12 %, five of its own standard errors."""
    spread = standard_error(lambda v: 3 * v[0] - 4 * v[1], np.zeros(2), 2.0)
    assert spread == pytest.approx(10.0, rel=0.12)
    assert standard_error(lambda v: 3 * v[0], np.zeros(2), 0.0) == 0.0


@pytest.mark.parametrize(("n_rows", "rate", "sd"), [(1000, 1.0, 5.0), (20, 0.9, 10.0)])
def test_the_error_knows_the_limits_of_a_score(n_rows, rate, sd):
    """What is said on the median release is within 15 % of the spread of 4,000 releases."""
    counts = n_rows * np.array([rate, 1 - rate])
    released = counts + sd * np.random.default_rng(3).normal(size=(4000, 2))
    said = np.median([standard_error(accuracy_of, each, sd) for each in released[:300]])
    assert said == pytest.approx(np.std([accuracy_of(each) for each in released]), rel=0.15)


def test_an_error_is_infinite_where_noise_may_leave_no_score():
    assert standard_error(r2_of, np.array([10.0, 0.0, 5.0, 3.0]), 40.0) == np.inf


def test_a_constant_model_of_texts():
    names = np.array(["a", "b", "c"])[Y]
    model = DummyClassifier().fit(X, names)
    score = federated_score(model, X, names, epsilon=1e6)
    assert score.value == pytest.approx((names == model.predict(X)).mean(), abs=1e-2)

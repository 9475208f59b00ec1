"""Scores on the parties' rows: their value, their noise, and whose rows count in them."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score, r2_score

from sklearn_fedpriv import Federation, Party, compose, privacy_budget
from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.exceptions import BudgetExceeded, FedPrivError, NotPrivateWarning
from sklearn_fedpriv.federation._query import Tools
from sklearn_fedpriv.metrics import federated_score
from sklearn_fedpriv.metrics._federated_score import (
    Moments,
    Outcomes,
    Predictor,
    accuracy_of,
    depends_on_neighbours,
    f1_weighted_of,
    in_equal_batches,
    r2_of,
    standard_error,
)
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


class RanksTexts(Ranks):
    """The same, and fails on made-up rows, so that only parties can find out."""

    def predict(self, X):
        if not np.any(np.isin(X, ROWS)):
            raise ValueError("unknown rows")
        return super().predict(X)


ROWS = X


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


def test_G7_a_model_that_looks_at_other_rows_is_refused():
    with pytest.raises(ValueError, match="Ranks predicts a row otherwise when it stands alone"):
        federated_score(Ranks(), X, Y)
    assert depends_on_neighbours(Ranks(), X[:9]) and not depends_on_neighbours(MODEL, X[:9])


def test_G7_a_party_that_finds_out_predicts_row_by_row_and_tells_nobody():
    """Alone no row is above its own median: all are predicted as 0."""
    with pytest.warns(NotPrivateWarning):
        score = federated_score(
            RanksTexts(), X, np.minimum(Y, 2), scoring="confusion_matrix", epsilon=np.inf
        )
    assert score.value[:, 1:].sum() == 0 and score.value.sum() == 900


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"scoring": "roc_auc"}, "must be one of"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
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


def test_a_failing_prediction_names_the_party_and_not_its_rows():
    class Broken(Ranks):
        def predict(self, X):
            raise KeyError(f"secret {X[0, 0]}")

    with pytest.raises(FedPrivError, match="Party '0' failed.*KeyError") as caught:
        federated_score(Broken(), X, Y)
    assert "secret" not in str(caught.value)


def test_scores_of_nothing_but_noise_stay_in_their_range():
    counts = np.array([-3.0, 1.0])
    assert accuracy_of(counts) == 0.0 and accuracy_of(np.array([9.0, -4.0])) == 1.0
    assert 0 <= f1_weighted_of(np.array([-3.0, 1.0, 2.0, -9.0])) <= 1
    assert r2_of(np.array([5.0, 0.0, -1.0, 2.0])) == -np.inf


def test_the_error_of_a_linear_function_is_exact():
    assert standard_error(lambda v: 3 * v[0] - 4 * v[1], np.zeros(2), 2.0) == pytest.approx(10.0)


def test_a_constant_model_of_texts():
    names = np.array(["a", "b", "c"])[Y]
    model = DummyClassifier().fit(X, names)
    score = federated_score(model, X, names, epsilon=1e6)
    assert score.value == pytest.approx((names == model.predict(X)).mean(), abs=1e-2)


@pytest.mark.parametrize("n_rows", [1, 255, 256, 600])
def test_G7_rows_are_predicted_in_batches_whose_size_says_nothing(n_rows):
    """Another batch size means other kernels, and other last bits of every row."""
    sizes = []

    class Sums:
        def predict(self, X):
            sizes.append(len(X))
            return X.sum(axis=1)

    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    assert np.array_equal(in_equal_batches(Sums(), X), X.sum(axis=1))
    assert set(sizes) == {256}

"""The estimator: what a user sees, from every side."""

import pickle
import warnings
from math import inf

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from sklearn_fedpriv import FederatedDPDecisionTree, Federation, PaillierSum, Party, privacy_budget
from sklearn_fedpriv.datasets import load_hospitals
from sklearn_fedpriv.exceptions import (
    BudgetExceeded,
    FedPrivError,
    NoiseWarning,
    NotPrivateWarning,
    PublicFactWarning,
    UnknownValueWarning,
    UnprovenPrivacyWarning,
)
from sklearn_fedpriv.federation._public_facts import Column
from sklearn_fedpriv.tree._coding import TableCoder

HOSPITALS = load_hospitals()
PARTIES = HOSPITALS.parties


def tree(**arguments):
    return FederatedDPDecisionTree(**{"random_state": 0, **HOSPITALS.public, **arguments})


def same(a, b):
    return all(
        np.array_equal(getattr(a.tree_, name), getattr(b.tree_, name))
        for name in ("feature", "goes_right", "children", "counts", "probabilities")
    )


def labelled():
    X = np.concatenate([X for X, _ in PARTIES])
    y = np.concatenate([y for _, y in PARTIES])
    return X, y, np.repeat(np.arange(len(PARTIES)), [len(y) for _, y in PARTIES])


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_all_input_forms_give_the_same_tree(mechanism):
    model = tree(mechanism=mechanism)
    X, y, labels = labelled()
    first = clone(model).fit(PARTIES)
    for other in (
        clone(model).fit([X for X, _ in PARTIES], [y for _, y in PARTIES]),
        clone(model).fit(X, y, parties=labels),
        clone(model).fit(Federation(PARTIES)),
        clone(model).fit([Party(X, y) for X, y in PARTIES]),
        clone(model).fit(PARTIES[::-1]),
    ):
        assert same(first, other)
        assert other.privacy_.n_parties == 5


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_all_secure_sums_give_the_same_tree(small_primes, mechanism):
    paillier = PaillierSum(key_size=512, insecure_key=True)
    plain = tree(mechanism=mechanism, secure_sum="plain", max_dropouts=1).fit(PARTIES)
    for secure_sum in ("masks", paillier):
        other = tree(mechanism=mechanism, secure_sum=secure_sum, max_dropouts=1).fit(PARTIES)
        assert same(plain, other)


def test_jobs_do_not_matter():
    assert same(tree().fit(PARTIES), tree(n_jobs=2).fit(PARTIES))


def test_one_party_is_fit_x_y():
    X, y = PARTIES[0]
    assert same(tree().fit(X, y), tree().fit([(X, y)]))
    assert tree().fit(X, y).privacy_.secure_sum == "one party, no secure sum"


def test_fits_repeat_under_a_seed_and_differ_without():
    assert same(tree().fit(PARTIES), tree().fit(PARTIES))
    model = tree(random_state=None)
    counts = {tuple(clone(model).fit(PARTIES).tree_.counts[0]) for _ in range(8)}
    assert len(counts) == 8
    assert model.fit(PARTIES).privacy_.private
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    tree().fit(PARTIES)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")
def test_epsilon_set_later_changes_the_noise():
    model = tree()
    counts = [
        model.set_params(epsilon=epsilon).fit(PARTIES).tree_.counts[0, 0] for epsilon in (0.01, 100)
    ]
    exact = sum((y == 0).sum() for _, y in PARTIES)
    assert abs(counts[0] - exact) > 50 > abs(counts[1] - exact)


def test_without_noise_it_is_as_good_as_scikit_learn():
    X, y, _ = labelled()
    theirs = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
    with pytest.warns(NotPrivateWarning):
        ours = tree(epsilon=inf, max_depth=4).fit(PARTIES)
    gap = theirs.score(HOSPITALS.X_test, HOSPITALS.y_test) - ours.score(
        HOSPITALS.X_test, HOSPITALS.y_test
    )
    assert gap < 0.03
    assert not ours.privacy_.private and ours.privacy_.epsilon == inf
    assert tree(epsilon=1e6, max_depth=4).fit(PARTIES).score(X, y) > ours.score(X, y) - 0.02


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 10, 1e4, 1e9])
@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")
def test_any_epsilon_gives_a_finite_model(epsilon):
    model = tree(epsilon=epsilon).fit(PARTIES)
    probabilities = model.predict_proba(HOSPITALS.X_test)
    assert np.isfinite(probabilities).all() and np.allclose(probabilities.sum(axis=1), 1)
    assert model.privacy_.epsilon == epsilon


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), "1", None, True])
def test_a_senseless_epsilon_is_refused_before_anything_is_charged(epsilon):
    party = Party(*PARTIES[0])
    with pytest.raises(ValueError, match="epsilon"):
        tree(epsilon=epsilon).fit([party])
    assert party.ledger.entries == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 1}, "delta"),
        ({"max_depth": 0}, "max_depth"),
        ({"n_bins": 1}, "n_bins"),
        ({"mechanism": "exponential"}, "mechanism"),
        ({"min_honest": 6}, "needs at least as many parties; got 5"),
        ({"max_dropouts": 5}, "max_dropouts"),
        ({"secure_sum": "none"}, "secure_sum"),
        ({"classes": [0]}, "at least two distinct labels"),
        ({"classes": [0, 1, 1]}, "at least two distinct labels"),
        ({"classes": [1, 2]}, "Party '0' holds labels outside classes"),
        ({"bounds": [(0, 0)] * 30}, "'x0' must be finite with low < high"),
        ({"bounds": [(0, inf)] * 30}, "'x0' must be finite"),
        ({"bounds": [(0, 1)] * 29}, "an entry for each of 30 columns; got 29"),
        ({"bounds": {"age": (0, 1)}}, "no column 'age'"),
        ({"bounds": {30: (0, 1)}}, "no column 30"),
        ({"bounds": None, "categories": {0: ["a", 1]}}, "all texts or all numbers"),
        ({"bounds": None, "categories": {0: [1, 1]}}, "distinct"),
        ({"bounds": None, "categories": {0: "abc"}}, "must be a list"),
        ({"bounds": None, "categories": {0: [1, None]}}, "all texts or all numbers"),
        ({"categories": {0: [1, 2]}}, "both categories and bounds"),
        ({"delta": 0}, "delta"),
        ({"epsilon": 1e20}, "epsilon"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": 1.5}, "random_state"),
    ],
)
def test_wrong_arguments_name_themselves_and_charge_nothing(arguments, message):
    parties = [Party(*pair) for pair in PARTIES]
    with pytest.raises((ValueError, FedPrivError), match=message):
        tree(**arguments).fit(parties)
    assert all(party.ledger.entries == [] for party in parties)


def test_undeclared_facts_are_named_once_with_the_line_to_paste():
    X, y = PARTIES[0][0][:, :2], PARTIES[0][1]
    with pytest.warns(PublicFactWarning) as caught:
        model = FederatedDPDecisionTree().fit(X, y)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "classes, bounds of 2 columns were taken" in text
    line = text[text.index("FederatedDPDecisionTree(") : -1]
    report = model.privacy_
    assert report.proved == "conditional" and not report.private
    assert report.facts_from_rows == ("classes", "bounds of 2 columns")
    declared = eval(line)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert declared.fit(X, y).privacy_.private


def test_n_and_n_plus_one_rows_have_the_same_plan(monkeypatch):
    plans = []
    start = Federation.start
    monkeypatch.setattr(
        Federation,
        "start",
        lambda self, budget, plan, **kwargs: (
            plans.append(plan) or start(self, budget, plan, **kwargs)
        ),
    )
    X, y = PARTIES[0]
    tree().fit(X, y)
    tree().fit(np.concatenate([X, X[:1]]), np.concatenate([y, y[:1]]))
    assert plans[0] == plans[1]


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "grade": rng.choice([1, 2, 5], n),
        }
    )
    return X, np.where((X["age"] > 50) ^ (X["colour"] == "red"), "yes", "no")


FACTS = {
    "categories": {"colour": ["red", "green", "blue", "white"], "grade": [1, 2, 5]},
    "bounds": {"age": (20, 80)},
    "classes": ["no", "yes", "maybe"],
}


def test_frames_with_texts_numbers_and_classes_that_never_occur():
    X, y = frame()
    model = FederatedDPDecisionTree(epsilon=50.0, random_state=0, **FACTS).fit([(X, y)] * 3)
    assert model.feature_names_in_.tolist() == ["age", "colour", "grade"]
    assert model.classes_.tolist() == ["maybe", "no", "yes"]
    assert model.predict_proba(X).shape == (300, 3)
    assert set(model.predict(X)) <= {"no", "yes"}
    assert accuracy_score(y, model.predict(X)) > 0.9
    text = model.export_text()
    assert "colour in {" in text and "age <= " in text and "class: yes" in text
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmin() == 2
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[["colour", "age", "grade"]])


def test_G7_one_record_with_a_fraction_recodes_nobody_else():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(1, 3, 200), rng.integers(0, 5, 200)])
    coder = TableCoder((Column("a", ("1", "2")), Column("b", (), 0.0, 5.0)), 5, (0, 1))
    assert np.array_equal(coder.encode(np.vstack([X, [[1, 0.5]]]))[:-1], coder.encode(X))
    assert coder.encode(X)[:, 0].max() == 1


def test_columns_in_another_order_are_refused_with_the_party():
    X, y = frame()
    with pytest.raises(ValueError, match=r"Party '1': The feature names should match"):
        FederatedDPDecisionTree(**FACTS).fit([(X, y), (X[["grade", "age", "colour"]], y)])


def test_more_categories_than_16_bits_hold_are_kept_apart():
    X = np.array([[0, 65531], [1, 7]] * 50)
    facts = {"categories": [[0, 1, 2, 3], list(range(70_000))], "classes": [0, 1]}
    with pytest.warns(NotPrivateWarning):
        model = FederatedDPDecisionTree(epsilon=inf, n_rows_hint=100, max_depth=1, **facts).fit(
            X, X[:, 0]
        )
    assert model._coder.encode(X).tolist() == X.tolist()
    assert model.score(X, X[:, 0]) == 1.0


def test_texts_and_predictions_agree_on_an_edge():
    X = np.repeat(np.arange(1, 17), 20)[:, None]
    y = (X[:, 0] > 8).astype(int)
    model = FederatedDPDecisionTree(
        epsilon=100.0, bounds=(0, 16), classes=[0, 1], random_state=0, max_depth=1
    ).fit(X, y)
    assert "x0 <= 8.00" in model.export_text()
    assert model.predict([[8.0], [8.0001]]).tolist() == [0, 1]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("epsilon", [2.0, 8.0, 100.0])
def test_a_published_fit_of_wide_features_stays_within_its_plan(mechanism, epsilon):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 7, size=(20_000, 6))
    facts = {"categories": [list(range(7))] * 6, "classes": [0, 1]}
    with pytest.warns(UnprovenPrivacyWarning):
        model = FederatedDPDecisionTree(
            epsilon=epsilon, mechanism=mechanism, calibration="published", **facts
        ).fit(X, X[:, 0] % 2)
    assert model.score(X, X[:, 0] % 2) > 0.9


@pytest.mark.parametrize("value", [None, inf, np.nan])
def test_missing_values_in_columns_of_objects_are_refused(value):
    X = np.array([[0.5, "a"], [value, "b"]], dtype=object)
    for bounds in ({0: (0, 1)}, None):
        with pytest.raises(ValueError, match="column 'x0' has missing|contains NaN|infinity"):
            FederatedDPDecisionTree(bounds=bounds, categories={1: ["a", "b"]}).fit(X, [0, 1])


def test_labels_of_two_kinds_are_refused():
    X, y = PARTIES[0]
    with pytest.raises(ValueError, match="texts and others' are numbers"):
        tree(classes=None).fit([(X, y), (X, y.astype(str))])
    with pytest.raises(ValueError, match="Party '0' mixes|Unknown label type"):
        tree(classes=None).fit(X, np.array([1, "a"] * len(y), dtype=object)[: len(y)])


def test_a_failed_first_fit_leaves_an_unfitted_tree():
    model = tree(classes=[5, 6])
    with pytest.raises(ValueError, match="labels outside"):
        model.fit(PARTIES)
    with pytest.raises(NotFittedError):
        model.predict(HOSPITALS.X_test)
    with pytest.raises(TypeError, match="for one table, not for parties"):
        tree().fit(PARTIES).predict(PARTIES)


def test_whole_numbers_of_numpy_are_numbers():
    arguments = {
        "max_depth": np.int64(2),
        "n_bins": np.int64(8),
        "min_honest": np.int64(4),
        "max_dropouts": np.int64(1),
        "n_rows_hint": np.int64(400),
    }
    plain = {name: int(value) for name, value in arguments.items()}
    assert same(tree(**arguments).fit(PARTIES), tree(**plain).fit(PARTIES))
    X, y, labels = labelled()
    search = GridSearchCV(tree(), {"max_depth": np.arange(1, 3)}, cv=2, error_score="raise")
    assert search.fit(X, y, parties=labels).best_score_ > 0.5


def test_the_line_to_paste_repeats_what_was_declared():
    X, y = PARTIES[0][0][:, :3], PARTIES[0][1]
    with pytest.warns(PublicFactWarning) as caught:
        FederatedDPDecisionTree(bounds={0: (5, 30)}, classes=[0, 1]).fit(X, y)
    text = str(caught[0].message)
    assert "bounds of 2 columns were taken" in text
    line = text[text.index("FederatedDPDecisionTree(") : -1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = eval(line).fit(X, y)
    assert model.bounds["x0"] == (5.0, 30.0) and model.privacy_.proved == "yes"


def test_a_key_for_tests_is_not_private(small_primes):
    settings = PaillierSum(key_size=512, insecure_key=True)
    report = tree(secure_sum=settings, random_state=None).fit(PARTIES).privacy_
    assert not report.private and report.insecure and report.server_epsilon > 2
    assert "key for tests" in report.reasons[0]
    plain = tree(secure_sum="plain", random_state=None).fit(PARTIES).privacy_
    assert "private: yes, towards the server as its line says" in str(plain)


@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning")
def test_the_published_tree_stops_at_empty_nodes_without_noise():
    X, y = PARTIES[0]
    model = tree(calibration="published", epsilon=inf, max_depth=3).fit(X[:50], y[:50])
    assert model.tree_.node_count < 5000


def test_missing_texts_and_pandas_na_are_refused_by_name():
    X, y = frame()
    X.loc[3, "colour"] = None
    with pytest.raises(ValueError, match="column 'colour' has missing values|contains NaN"):
        FederatedDPDecisionTree(**FACTS).fit(X.astype(object).where(X.notna(), None), y)
    labels = pd.array(["a"] * 299 + [pd.NA], dtype="string")
    with pytest.raises(ValueError, match="parties must name every row's party"):
        FederatedDPDecisionTree(**FACTS).fit(frame()[0], y, parties=labels)
    with pytest.raises(ValueError, match="distinct"):
        tree(bounds=None, categories={0: [2**53, 2**53 + 1]}).fit(PARTIES)


def test_generators_seed_a_fit():
    first = tree(random_state=np.random.default_rng(0)).fit(PARTIES)
    assert same(first, tree(random_state=np.random.default_rng(0)).fit(PARTIES))
    assert not first.privacy_.private
    assert same(tree(random_state=2**100).fit(PARTIES), tree(random_state=2**100).fit(PARTIES))


@pytest.mark.parametrize(
    ("arguments", "numbers", "message"),
    [
        ({}, (0, 10, 3), "n_parties of preview must be an int of at least 1"),
        ({}, (3, 10, 0), "n_features of preview"),
        ({"min_honest": 9}, (3, 10, 3), "needs at least as many parties"),
        ({"epsilon": "a"}, (3, 10, 3), "epsilon"),
        ({"calibration": "published"}, (3, 10, 3), "about proved noise"),
        ({"delta": 0}, (3, 10, 3), "above 0 with Gaussian noise"),
        ({"epsilon": True}, (3, 10, 3), "epsilon"),
    ],
)
def test_a_senseless_preview_is_refused(arguments, numbers, message):
    with pytest.raises(ValueError, match=message):
        tree(**arguments).preview(*numbers)


def test_pure_epsilon_needs_no_delta():
    model = tree(mechanism="laplace", epsilon=20.0, delta=0).fit([Party(*PARTIES[0], max_delta=0)])
    assert model.privacy_.delta == 0
    with pytest.raises(ValueError, match="above 0 with Gaussian noise"):
        tree(delta=0).fit(PARTIES)


def test_unknown_values_are_counted_nowhere_and_told_once_for_all_parties():
    X, y = frame()
    strange = X.assign(colour=X["colour"].replace("red", "pink"))
    with pytest.warns(
        UnknownValueWarning, match="Parties '1', '2': .* categories of colour"
    ) as caught:
        model = FederatedDPDecisionTree(epsilon=50.0, **FACTS).fit(
            [(X, y), (strange, y), (strange, y)]
        )
    assert len(caught) == 1
    assert len(model.predict(strange)) == 300


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X[:, :5], y), r"Party '1': X has 5 features, but .* expecting 30"),
        (lambda X, y: (np.where(X > 20, np.nan, X), y), "Party '1': Input X contains NaN"),
        (lambda X, y: (np.where(X > 20, np.inf, X), y), "Party '1': Input X contains infinity"),
        (lambda X, y: (X[:0], y[:0]), r"Party '1': Found array with 0 sample"),
        (lambda X, y: (X, y[:-1]), "Party '1': Found input variables with inconsistent numbers"),
        (lambda X, y: (X, y + 0.5), "Party '1': Unknown label type"),
        (lambda X, y: (X, y + 1), "Party '1' holds labels outside classes"),
        (lambda X, y: (X.astype(str).astype(object) + "?", y), "Party '1': column 'x0' has bounds"),
    ],
)
def test_bad_rows_of_one_party_name_it_and_charge_nobody(spoil, message):
    parties = [Party(*PARTIES[0]), Party(*spoil(*PARTIES[1]))]
    with pytest.raises(ValueError, match=message):
        tree().fit(parties)
    assert all(party.ledger.entries == [] for party in parties)


def test_one_class_needs_the_others_declared():
    X, y = PARTIES[0]
    with pytest.raises(ValueError, match="hold 1 class"):
        FederatedDPDecisionTree().fit(X, np.zeros(len(y), dtype=int))
    assert tree(classes=[0, 1]).fit(X, np.zeros(len(y), dtype=int)).predict(X[:3]).shape == (3,)


def test_parties_with_one_class_each_train_together():
    X, y, _ = labelled()
    model = tree(epsilon=8.0).fit([(X[y == c], y[y == c]) for c in (0, 1)])
    assert model.score(HOSPITALS.X_test, HOSPITALS.y_test) > 0.8


def test_every_category_of_an_undeclared_text_column_is_conditional():
    X, y = frame()
    with pytest.warns(PublicFactWarning, match="categories of 1 columns, bounds of 2 columns"):
        FederatedDPDecisionTree().fit(X, y)


def test_the_report_bills_the_plan_and_says_who_saw_what():
    report = tree(random_state=None).fit(PARTIES).privacy_
    assert (report.epsilon, report.delta, report.proved) == (1.0, 1e-5, "yes")
    assert dict(report.releases)["RowCount"] == 1 and report.private
    assert report.server_epsilon == 1.0 and "masked sums" in report.secure_sum
    plain = tree(random_state=None, secure_sum="plain").fit(PARTIES).privacy_
    assert plain.server_epsilon > 1.0
    pure = tree(mechanism="laplace", secure_sum="plain").fit(PARTIES).privacy_
    assert pure.delta == 0 and pure.server_epsilon == inf
    hinted = tree(n_rows_hint=400).fit(PARTIES).privacy_
    assert "RowCount" not in dict(hinted.releases)
    assert tree(min_honest=1, secure_sum="plain").fit(PARTIES).privacy_.server_epsilon < 1.1


def test_a_published_fit_says_that_nothing_is_proved():
    with pytest.warns(UnprovenPrivacyWarning):
        model = tree(calibration="published", epsilon=100.0).fit(PARTIES)
    report = model.privacy_
    assert report.epsilon == inf and report.claimed_epsilon == 100.0 and not report.private
    assert model.score(HOSPITALS.X_test, HOSPITALS.y_test) > 0.5
    careful = Party(*PARTIES[0], max_epsilon=1000.0)
    with (
        pytest.warns(UnprovenPrivacyWarning),
        pytest.raises(BudgetExceeded, match="was asked for inf more"),
    ):
        tree(calibration="published").fit([careful])


def test_the_published_tree_without_noise_is_id3():
    """The class follows from two features in turn; ID3 finds both, in order of information."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(3000, 4))
    y = np.where(X[:, 2] == 0, 0, np.where(X[:, 2] == 1, 1 + (X[:, 0] > 0), 3))
    facts = {"categories": [[0, 1, 2]] * 4, "classes": [0, 1, 2, 3]}
    with pytest.warns(NotPrivateWarning):
        model = FederatedDPDecisionTree(
            calibration="published", epsilon=inf, max_depth=2, **facts
        ).fit(X, y)
    assert model.tree_.feature[0] == 2
    assert model.score(X, y) == 1.0


def test_ledgers_and_ceilings_stop_a_fit():
    parties = [Party(X, y, name=str(i), max_epsilon=2.0) for i, (X, y) in enumerate(PARTIES)]
    with privacy_budget(1.5) as ceiling:
        tree().fit(parties)
        with pytest.raises(BudgetExceeded, match="privacy_budget"):
            tree().fit(parties)
        assert ceiling.spent[0] == 1.0
    tree().fit(parties)
    with pytest.raises(BudgetExceeded, match="Party '0' allows epsilon=2"):
        tree().fit(parties)
    assert [party.ledger.epsilon for party in parties] == [2] * 5


def test_a_search_inside_a_ceiling_pays_for_every_fit():
    X, y, labels = labelled()
    with privacy_budget(3.5, delta=1e-3) as ceiling, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = cross_val_score(tree(), X, y, cv=5, params={"parties": labels})
        assert ceiling.spent[0] == 3.0
    assert np.isnan(scores).sum() == 2


def test_meta_estimators_take_labels_and_refuse_lists():
    X, y, labels = labelled()
    pipeline = make_pipeline(FunctionTransformer(), tree())
    assert pipeline.fit(X, y, federateddpdecisiontree__parties=labels).score(X, y) > 0.7
    search = GridSearchCV(tree(), {"max_depth": [1, 2]}, cv=2)
    assert search.fit(X, y, parties=labels).best_estimator_.privacy_.n_parties == 5
    with pytest.raises(ValueError, match="use DPHypeSearchCV"):
        GridSearchCV(tree(), {"max_depth": [1, 2]}, cv=2, scoring=lambda *args: 0.0).fit(PARTIES)


def test_score_of_parties_names_the_way_out():
    with pytest.raises(TypeError, match="federated_score"):
        tree().fit(PARTIES).score(PARTIES)


def test_a_pickle_holds_no_row_and_predicts_the_same():
    X, y = PARTIES[0]
    X = X.copy()
    X[0, 0] = 13.123456789
    model = tree().fit([(X, y), *PARTIES[1:]])
    frozen = pickle.dumps(model)
    for canary in (np.float64(13.123456789).tobytes(), b"13.123456789", X[1].tobytes()):
        assert canary not in frozen
    assert np.array_equal(pickle.loads(frozen).predict_proba(X), model.predict_proba(X))
    assert pickle.loads(frozen).privacy_ == model.privacy_


def test_no_attribute_holds_a_raw_count():
    """Every released number carries noise: none of the root's counts is the exact one."""
    model = tree(random_state=None, epsilon=0.5).fit(PARTIES)
    exact = [sum((y == c).sum() for _, y in PARTIES) for c in (0, 1)]
    assert not np.isin(exact, model.tree_.counts).any()


def test_probabilities_come_from_released_counts_only():
    parties = [(X.copy(), y.copy()) for X, y in PARTIES]
    model = tree().fit(parties)
    before = model.predict_proba(HOSPITALS.X_test)
    for X, y in parties:
        X[:], y[:] = 0, 0
    assert np.array_equal(before, model.predict_proba(HOSPITALS.X_test))


def test_twenty_rows_and_a_thousand_levels_are_quick():
    rng = np.random.default_rng(0)
    with pytest.warns(NoiseWarning):
        tree(bounds=(0, 1), n_rows_hint=20).fit(rng.random((20, 5)), rng.integers(0, 2, 20))
    X = rng.integers(0, 1000, size=(500, 2))
    tree(bounds=None, categories=[list(range(1000))] * 2).fit(X, rng.integers(0, 2, 500))


def test_hopeless_noise_is_announced_and_previewed():
    with pytest.warns(NoiseWarning, match="preview"):
        tree(epsilon=0.01).fit(PARTIES)
    preview = tree(epsilon=0.01).preview(5, 426, 30)
    assert 0.1 < preview.smallest_epsilon < 0.4
    assert "noise wins" in str(preview) and "signal wins" in str(tree().preview(5, 426, 30))
    assert [planned.query for planned in preview.releases] == ["RowCount", "LevelHistogram"]
    hinted = tree(n_rows_hint=426).preview(5, 426, 30)
    assert [planned.query for planned in hinted.releases] == ["LevelHistogram"]


def test_verbose_writes_a_line_a_release_and_quiet_none(capsys):
    tree().fit(PARTIES)
    assert capsys.readouterr().out == ""
    model = tree(verbose=1).fit(PARTIES)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum(count for _, count in model.privacy_.releases)
    assert (
        lines[0].startswith("release 1: RowCount, 1 numbers of 5 parties")
        and "2% spent" in lines[0]
    )


def test_set_fit_request_lists_parties_only():
    request = tree().get_metadata_routing().fit.requests
    assert request == {"parties": True}

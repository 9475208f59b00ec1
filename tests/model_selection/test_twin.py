"""What runs inside a party: the twin, its scoring, and the fingerprint that stands for it."""

import datetime
import inspect
import os
import threading
import warnings
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_fedpriv import DPHypeSearchCV, FederatedDPDecisionTree, FederatedDPSVC, privacy_budget
from sklearn_fedpriv.datasets import load_hospitals
from sklearn_fedpriv.exceptions import BudgetExceeded, ProtocolError
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.federation._fingerprint import fingerprint_of
from sklearn_fedpriv.federation._party import PartyRun
from sklearn_fedpriv.model_selection import local_twin
from sklearn_fedpriv.model_selection._odds import plan_of
from sklearn_fedpriv.model_selection._twin import (
    Failure,
    LocalScoring,
    local_work,
    splitter_for,
)
from sklearn_fedpriv.model_selection._votes import Votes
from sklearn_fedpriv.privacy._ledger import budget
from tests.model_selection.toys import Known, parties

HOSPITALS = load_hospitals()
TREE = FederatedDPDecisionTree(
    epsilon=3.0, min_honest=4, max_dropouts=2, verbose=1, n_rows_hint=100, **HOSPITALS.public
)


class Talkative(ClassifierMixin, BaseEstimator):
    """Has what a twin must lose."""

    def __init__(self, callbacks=None, verbose=True, parties_per_round=None):
        self.callbacks = callbacks
        self.verbose = verbose
        self.parties_per_round = parties_per_round

    def fit(self, X, y):
        print("secret", X[0, 0])
        return self


def trees_in(estimator):
    if isinstance(estimator, FederatedDPDecisionTree):
        return [estimator]
    values = estimator.get_params(deep=True).values()
    return [value for value in values if isinstance(value, FederatedDPDecisionTree)]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tree: tree,
        lambda tree: make_pipeline(StandardScaler(), tree),
        lambda tree: BaggingClassifier(tree, n_estimators=2, n_jobs=2),
        lambda tree: VotingClassifier([("a", make_pipeline(tree)), ("b", tree)]),
        lambda tree: DPHypeSearchCV(tree, {"max_depth": [1, 2]}, min_honest=3),
    ],
)
def test_every_federated_step_of_a_twin_fits_one_party(wrap):
    original = wrap(TREE)
    twin = local_twin(original)
    assert trees_in(twin)
    for tree in trees_in(twin):
        assert (tree.min_honest, tree.max_dropouts, tree.verbose) == (None, 0, 0)
        assert tree.epsilon == 3.0
    assert (TREE.min_honest, TREE.max_dropouts, TREE.verbose) == (4, 2, 1)
    X, y = HOSPITALS.data, HOSPITALS.target
    with privacy_budget(1e-9) as ceiling, local_work():
        twin.fit(X, y)
    assert ceiling.spent[0] == 0


def test_a_ceiling_holds_again_outside_of_local_work():
    with privacy_budget(1e-9):
        with local_work():
            local_twin(TREE).fit(HOSPITALS.data, HOSPITALS.target)
        with pytest.raises(BudgetExceeded):
            local_twin(TREE).fit(HOSPITALS.data, HOSPITALS.target)


def test_callbacks_are_gone_and_frozen_steps_stay():
    noisy = Talkative(callbacks=["print"])
    noisy._skl_callbacks = ["watch"]
    twin = local_twin(make_pipeline(FrozenEstimator(StandardScaler()), noisy))
    assert twin[-1].callbacks is None and twin[-1].verbose is False
    assert not hasattr(twin[-1], "_skl_callbacks") and noisy._skl_callbacks == ["watch"]
    assert noisy.callbacks == ["print"]


def test_local_work_warns_of_nothing_and_makes_no_process():
    X, y = parties(1, 40)[0]
    seen = []

    class Watching(Known):
        def fit(self, X, y):
            seen.append(os.getpid())
            warnings.warn(f"secret {X[0, 0]}", stacklevel=2)
            return super().fit(X, y)

    bag = BaggingClassifier(Watching(), n_estimators=4, n_jobs=2)
    assert isinstance(LocalScoring(bag, [{}]).score(0, X, y), float)
    assert set(seen) == {os.getpid()}


def test_the_score_is_that_of_the_held_out_rows():
    X, y = parties(1, 50)[0]
    code = LocalScoring(LogisticRegression(), [{"C": 0.1}, {"C": 10.0}], "accuracy")
    [(train, test)] = splitter_for(None, y, True).split(X, y)
    assert (len(train), len(test)) == (40, 10) and y[test].sum() == 5
    for i, C in enumerate((0.1, 10.0)):
        model = LogisticRegression(C=C).fit(X[train], y[train])
        assert code.score(i, X, y) == model.score(X[test], y[test])


@pytest.mark.parametrize("cv", [None, 3, KFold(3, shuffle=True), ShuffleSplit(2)])
def test_all_candidates_of_a_party_see_the_same_folds(cv):
    y = np.arange(30) % 2
    first, again = ([*splitter_for(cv, y, True).split(y, y)] for _ in range(2))
    for (train, test), (train_again, test_again) in zip(first, again, strict=True):
        assert train.tolist() == train_again.tolist() and test.tolist() == test_again.tolist()
    assert getattr(cv, "random_state", None) is None


def test_folds_are_stratified_where_they_can_be():
    assert isinstance(splitter_for(3, np.arange(30) % 2, True), StratifiedKFold)
    assert isinstance(splitter_for(None, np.arange(30) % 2, False), ShuffleSplit)
    assert isinstance(splitter_for(None, [0] * 29 + [1], True), ShuffleSplit)
    assert isinstance(splitter_for(None, np.linspace(0, 1, 30), True), ShuffleSplit)


@pytest.mark.parametrize("scoring", [lambda e, X, y: {"a": 1.0}, lambda e, X, y: "text"])
def test_a_score_that_is_no_number_is_a_failure(scoring):
    X, y = parties(1)[0]
    assert LocalScoring(Known(), [{}], scoring).score(0, X, y) == Failure("TypeError")


def test_a_failure_holds_the_type_of_the_error_only():
    X, y = parties(1)[0]
    assert LocalScoring(Known(fails="foreign"), [{}]).score(0, X, y) == Failure("KeyError")
    assert [*inspect.signature(Failure).parameters] == ["kind"]


def scorer(estimator, X, y):
    return 0.0


def scorer_of(value, *, sign=1):
    def score(estimator, X, y):
        return sign * value

    return score


def signed(*, sign):
    def score(estimator, X, y, *, sign=sign):
        return sign

    return score


class Rule:
    def __init__(self, value):
        self.value = value

    def score(self, estimator, X, y):
        return self.value


def written_in_a_script(value):
    def predict(self):
        return value + 1

    return type("Model", (), {"__module__": "__main__", "predict": predict})


class Described(ABC):
    weight = 1
    lock = threading.Lock()

    @property
    def value(self):
        return 1

    @cached_property
    def other(self):
        return 2

    @staticmethod
    def third():
        return 3

    @abstractmethod
    def fourth(self):
        """Nothing."""


def of_a_script(text):
    names = {"__name__": "__main__", "np": np}
    exec(text, names)
    return names["score"]


SCRIPT = "W = {}\ndef part(x): return {}\ndef score(m, X, y): return np.sum(W) * part(0)"

DIFFERENT = [
    of_a_script(SCRIPT.format(1, "x")),
    of_a_script(SCRIPT.format(2, "x")),
    of_a_script(SCRIPT.format(1, "-x")),
    Described,
    scorer_of(1),
    scorer_of(2),
    signed(sign=1),
    signed(sign=-1),
    Rule(1).score,
    Rule(2).score,
    written_in_a_script(1),
    written_in_a_script(2),
    written_in_a_script(1)(),
    written_in_a_script(2)(),
    range(3),
    range(2, -1, -1),
    1j,
    2j,
    np.add,
    np.subtract,
    len,
    datetime.date(2020, 1, 1),
    datetime.date(2020, 1, 2),
    LogisticRegression(),
    LogisticRegression(C=2.0),
    LogisticRegression(C=2),
    TREE,
    clone(TREE).set_params(max_depth=2),
    make_pipeline(TREE),
    make_pipeline("passthrough", TREE),
    BaggingClassifier(TREE),
    LogisticRegression,
    StratifiedKFold(3),
    StratifiedKFold(4),
    KFold(3),
    scorer,
    lambda x: x,
    lambda x: x + 1,
    lambda x: x + 2,
    make_scorer(np.mean),
    make_scorer(np.median),
    [1, 2],
    (1, 2),
    [2, 1],
    {"a": 1},
    {"a": True},
    {"a": "1"},
    {"b": 1},
    {1, 2},
    np.arange(3),
    np.arange(3.0),
    np.array(["a", None], dtype=object),
    None,
    np.nan,
    b"x",
    "x",
]


def test_G19_a_fingerprint_differs_with_class_parameters_and_versions(monkeypatch):
    prints = [fingerprint_of(value) for value in DIFFERENT]
    assert len(set(prints)) == len(DIFFERENT) and {len(p) for p in prints} == {32}
    assert prints == [fingerprint_of(value) for value in DIFFERENT]
    assert fingerprint_of({"a": 1, "b": 2}) == fingerprint_of({"b": 2, "a": 1})
    monkeypatch.setattr("sklearn.__version__", "0.0")
    assert fingerprint_of(LogisticRegression()) != prints[0]


def test_G19_a_fingerprint_leaves_out_what_was_learned():
    X, y = parties(1)[0]
    assert fingerprint_of(LogisticRegression().fit(X, y)) == fingerprint_of(LogisticRegression())


@pytest.mark.parametrize(
    "model", [LogisticRegression(), DecisionTreeClassifier(), KNeighborsClassifier()]
)
def test_G19_a_fingerprint_of_a_fitted_model_has_what_was_learned(model):
    X, y = parties(1)[0]

    def learned(labels):
        return fingerprint_of(clone(model).fit(X, labels), learned=True)

    assert learned(y) == learned(y) != learned(y[::-1])


def test_a_fingerprint_of_a_loop_ends():
    loop = []
    loop.append(loop)
    assert len(fingerprint_of(loop)) == 32


def test_G19_a_party_with_another_grid_refuses_to_vote():
    federation = Federation(parties())
    mine, theirs = (LocalScoring(Known(), [{"quality": q}, {}]) for q in (1, 2))
    run = federation.start(
        budget(1.0, 1e-5, "gaussian"),
        plan_of(Votes(2, 1)),
        unit="party",
        adjacency="replace",
        code=mine,
    )
    party = run._parties["0"]
    arguments = (party._party, party._X, party._y, run.terms, None, party._side, None)
    with pytest.raises(ProtocolError):
        PartyRun(*arguments, theirs)


def test_a_hint_on_the_rows_of_all_parties_becomes_that_of_one():
    """With the other hint its mean gradient would be a thousand times too small."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (X[:, 0] > 0.8).astype(int)
    svc = FederatedDPSVC(epsilon=np.inf, n_rows_hint=200_000, classes=[0, 1])
    scoring = LocalScoring(svc, [{"C": 1.0}, {"C": 10.0}])
    majority = 1 - y.mean()
    assert scoring.score(0, X, y) > majority + 0.05

"""The search as an estimator: forms of input, attributes, bills, refusals."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_validate,
)
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_fedpriv import (
    DPHypeRandomizedSearchCV,
    DPHypeSearchCV,
    FederatedDPDecisionTree,
    Federation,
    Party,
    privacy_budget,
)
from sklearn_fedpriv.datasets import load_hospitals
from sklearn_fedpriv.exceptions import (
    BudgetExceeded,
    LocalFailure,
    NotPrivateWarning,
    SelectionNoiseWarning,
)
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.model_selection import _base
from sklearn_fedpriv.model_selection._refit import cost_of
from sklearn_fedpriv.model_selection._twin import LocalScoring
from sklearn_fedpriv.preprocessing import PublicEncoder
from tests.model_selection.toys import Known, parties

HOSPITALS = load_hospitals()
TREE = FederatedDPDecisionTree(epsilon=4.0, n_rows_hint=400, **HOSPITALS.public)
QUALITIES = {"quality": [0.1, 0.9, 0.3, 0.2]}
LOUD = {"epsilon": 30.0}  # so much that four parties decide

quiet = pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.SelectionNoiseWarning")
pooling = pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning")


def known(param_grid=QUALITIES, estimator=Known(), **arguments):  # noqa: B008
    return DPHypeSearchCV(estimator, param_grid, **({"refit": False} | LOUD | arguments))


def test_the_candidate_that_all_parties_prefer_is_chosen():
    search = known().fit(parties())
    assert search.best_index_ == 1 and search.best_params_ == {"quality": 0.9}
    assert search.cv_results_["rank"][1] == 1 and search.cv_results_["params"][1]["quality"] == 0.9
    assert isinstance(search.cv_results_["param_quality"], np.ma.MaskedArray)
    assert not hasattr(search, "best_estimator_") and not hasattr(search, "predict")
    assert search.n_votes_ == 1 and search.selection_bound_ > 0


def test_parameters_are_laid_out_as_in_grid_search():
    grid = [
        {"solver": ["lbfgs"], "C": [1, 2]},
        {"class_weight": [None, {0: 1.0, 1: 2.0}], "fit_intercept": [True]},
    ]
    X, y = parties(1)[0]
    theirs = GridSearchCV(LogisticRegression(), grid, cv=2).fit(X, y).cv_results_
    search = DPHypeSearchCV(LogisticRegression(), grid, refit=False, epsilon=200.0)
    ours = search.fit(parties()).cv_results_
    assert ours["params"] == theirs["params"]
    for name in theirs:
        if name.startswith("param_"):
            assert ours[name].dtype == theirs[name].dtype
            assert ours[name].mask.tolist() == theirs[name].mask.tolist()
            assert ours[name].tolist() == theirs[name].tolist()


def test_G24_nothing_in_a_fitted_search_is_a_local_score():
    """Whatever the parties score, with the same released votes the attributes are the same."""
    fitted = []
    for qualities in ([0.125, 0.875, 0.375, 0.25], [12.5, 87.5, 37.5, 25.0]):

        class Told(Known):
            scores = iter(qualities * 4)

            def score(self, X, y):
                return next(self.scores)

        search = known({"fails": [None] * 4}, Told(), random_state=0).fit(parties())
        state = {k: v for k, v in vars(search).items() if k.endswith("_") and k != "scorer_"}
        votes = state["cv_results_"]["noisy_votes"].tolist()
        assert set(state["cv_results_"]) == {"params", "param_fails", "noisy_votes", "rank"}
        fitted.append((sorted(state), votes, state["selection_bound_"], state["privacy_"]))
    assert fitted[0] == fitted[1]
    assert fitted[0][0] == [
        "best_index_",
        "best_params_",
        "cv_results_",
        "multimetric_",
        "n_votes_",
        "privacy_",
        "selection_bound_",
    ]


def test_all_forms_of_input_give_the_same_search():
    rows = parties()
    X, y = np.concatenate([r[0] for r in rows]), np.concatenate([r[1] for r in rows])
    labels = np.repeat([str(i) for i in range(4)], 20)
    search = known({"quality": [0.1, 0.2, 0.2, 0.2]}, random_state=3, epsilon=100.0)
    named = [Party(*row, name=str(i)) for i, row in enumerate(rows)]
    fits = [
        search.fit(rows).cv_results_,
        search.fit([r[0] for r in rows], [r[1] for r in rows]).cv_results_,
        search.fit(X, y, parties=labels).cv_results_,
        search.fit(Federation(named)).cv_results_,
        search.set_params(n_jobs=2).fit(rows).cv_results_,
    ]
    for results in fits[1:]:
        assert results["noisy_votes"].tolist() == fits[0]["noisy_votes"].tolist()


def test_G21_plain_and_masked_votes_are_the_same():
    search = known(random_state=1, secure_sum="plain")
    plain = search.fit(parties()).cv_results_["noisy_votes"].tolist()
    masked = search.set_params(secure_sum="masks").fit(parties()).cv_results_["noisy_votes"]
    assert plain == masked.tolist() and search.privacy_.seeded


def test_the_refit_runs_on_the_same_federation_and_both_are_charged():
    clinics = [Party(*rows, name=f"clinic {i}") for i, rows in enumerate(HOSPITALS.parties)]
    federation = Federation(clinics, min_honest=4)
    search = DPHypeSearchCV(TREE, {"max_depth": [1, 4]}, epsilon=8.0).fit(federation)
    assert [entry.epsilon for entry in clinics[0].ledger.entries] == [8, 4]
    assert search.best_estimator_.privacy_.min_honest == 4
    report = search.privacy_
    assert (report.unit, report.adjacency) == ("record", "add_remove")
    assert report.epsilon == 8.0 + 4.0 and report.private
    assert dict(report.releases) == {"Votes": 1, "LevelHistogram": report.releases[1][1]}
    assert search.score(HOSPITALS.X_test, HOSPITALS.y_test) > 0.7
    assert search.classes_.tolist() == [0, 1] and search.n_features_in_ == 30


def test_G2_the_selection_alone_is_about_a_whole_party():
    for adjacency in ("replace", "add_remove"):
        report = known(adjacency=adjacency).fit(parties()).privacy_
        assert (report.unit, report.adjacency, report.epsilon) == ("party", adjacency, 30.0)


def test_a_refit_without_privacy_makes_the_whole_report_say_so():
    search = DPHypeSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1.0]},
        **LOUD,
    )
    with pytest.warns(NotPrivateWarning, match="refit of Pipeline"):
        report = search.fit(parties()).privacy_
    assert not report.private and report.epsilon == np.inf and report.proved == "no"
    assert "StandardScaler, LogisticRegression read rows without noise" in str(report)
    assert type(report).from_dict(report.to_dict()) == report


def test_G6_nothing_runs_in_a_party_before_everybody_is_charged():
    Known.seen.clear()
    clinics = [Party(*rows, name=str(i)) for i, rows in enumerate(parties())]
    clinics[3].ledger.max_epsilon = Fraction(1)
    with pytest.raises(BudgetExceeded, match="'3'"):
        known(epsilon=30.0).fit(clinics)
    assert Known.seen == [] and all(not clinic.ledger.entries for clinic in clinics)
    with privacy_budget(29.0), pytest.raises(BudgetExceeded):
        known(epsilon=30.0).fit(parties())
    assert Known.seen == []


@pooling
def test_G6_pooled_rows_cost_everything_and_are_charged_first():
    Known.seen.clear()
    careful = [Party(*rows, name=str(i), max_epsilon=99.0) for i, rows in enumerate(parties())]
    with pytest.raises(BudgetExceeded, match="Party '0' allows epsilon=99"):
        known(refit=True).fit(careful)
    with privacy_budget(99.0), pytest.raises(BudgetExceeded, match="privacy_budget"):
        known(refit=True).fit(parties())
    assert Known.seen == [] and not careful[0].ledger.entries
    easy = [Party(*rows, name=str(i)) for i, rows in enumerate(parties())]
    known(refit=True).fit(easy)
    assert easy[0].ledger.epsilon == np.inf
    swapped = Pipeline([("model", TREE)])
    search = DPHypeSearchCV(swapped, {"model": [Known(), Known(0.5)]}, **LOUD)
    with pytest.raises(BudgetExceeded, match="allows epsilon=99"):
        search.fit(careful)
    assert not careful[0].ledger.entries
    search.fit(easy)
    assert easy[0].ledger.epsilon == np.inf and "Votes" in dict(search.privacy_.releases)


def test_G14_local_fits_are_charged_nowhere():
    with privacy_budget(8.0) as ceiling:
        tree = clone(TREE).set_params(epsilon=100.0)
        search = DPHypeSearchCV(tree, {"max_depth": [1, 2]}, epsilon=8.0, refit=False)
        search.fit(HOSPITALS.parties)
        assert ceiling.spent[0] == 8.0
        with pytest.raises(BudgetExceeded):
            clone(tree).fit(HOSPITALS.parties)


@pytest.mark.parametrize("how", ["foreign", "ours", "exit"])
def test_G24_a_party_in_which_all_fail_is_named_without_the_errors_text(how):
    with pytest.raises(LocalFailure, match="Party '0': each of 4 candidates failed") as caught:
        known(estimator=Known(fails=how)).fit(parties())
    text = str(caught.value)
    assert {"foreign": "KeyError", "ours": "FedPrivError", "exit": "SystemExit"}[
        how
    ] in text and "secret" not in text
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_failed_candidates_rank_last_or_end_the_search():
    grid = {"fails": [None, "foreign"], "quality": [-5.0]}
    assert known(grid).fit(parties()).best_index_ == 0
    with pytest.raises(LocalFailure, match="Party '0': candidate 1 failed with a KeyError"):
        known(grid, error_score="raise").fit(parties())


def test_a_loud_vote_is_announced_before_anything_is_charged():
    """The figure, the epsilon that would do, and the way out; as an error it costs nothing."""
    clinics = [Party(*rows, name=str(i)) for i, rows in enumerate(parties(3))]
    search = known({"quality": [1, 2, 3]}, epsilon=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            SelectionNoiseWarning, match=r"all 3 parties .* 0\.41 only \(0\.42"
        ) as w:
            search.fit(clinics)
    assert not clinics[0].ledger.entries
    assert "From epsilon 5.9 on" in str(w.value) and "fewer candidates" in str(w.value)
    assert known({"quality": [1, 2, 3]}, epsilon=6.0).preview(3).probability >= 0.9
    text = str(search.preview(3))
    assert "probability 0.41 (0.42" in text and "from epsilon 5.9 on" in text
    with pytest.warns(SelectionNoiseWarning, match=r"0\.62 only \(0\.64"):
        search.fit(parties(10))


def test_with_high_epsilon_nothing_is_said():
    known().fit(parties())  # warnings are errors here


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"n_votes": 4}, ValueError, "below the number of candidates, 4"),
        ({"n_votes": 9}, ValueError, "below the number of candidates, 4"),
        ({"param_grid": {"quality": [1]}}, ValueError, "at least 2 candidates"),
        ({"param_grid": {"quality": [1, 2], "nope": [1]}}, ValueError, "Invalid parameter 'nope'"),
        ({"local_estimator": DummyClassifier()}, ValueError, "Invalid parameter 'quality'"),
        ({"scoring": ["accuracy", "f1"]}, ValueError, "scoring"),
        ({"cv": [([0], [1])]}, ValueError, "cv"),
        ({"adjacency": "both"}, ValueError, "adjacency"),
        ({"epsilon": True}, ValueError, "epsilon"),
        ({"min_honest": 9}, ValueError, "min_honest=9"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_charged(changes, error, text):
    clinics = [Party(*rows, name=str(i)) for i, rows in enumerate(parties())]
    with pytest.raises(error, match=text):
        known(**changes).fit(clinics)
    assert not clinics[0].ledger.entries


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ((np.zeros((1, 3)), [0]), "Party '1': n_samples = 1"),
        ((np.zeros((0, 3)), []), "Party '1': .*0 sample"),
        ((np.zeros((4, 2)), [0, 1, 0, 1]), "Party '1': has other columns"),
        ((np.full((4, 3), np.nan), [0, 1, 0, 1]), "Party '1': .*NaN"),
        ((np.zeros((4, 3)), None), "Party '1': .*requires y"),
        ((np.zeros((4, 3)), [0, 1, 0]), "Party '1': .*inconsistent"),
    ],
)
def test_rows_that_cannot_be_fitted_are_refused_with_the_partys_name(rows, text):
    with pytest.raises(ValueError, match=text):
        known().fit([parties()[0], rows])


def test_what_cannot_be_private_is_missing_and_says_why():
    search = known().fit(parties())
    for name, reason in (("best_score_", "federated_score"), ("refit_time_", "how long")):
        assert not hasattr(search, name)
        with pytest.raises(AttributeError, match=reason):
            getattr(search, name)
    with pytest.raises(AttributeError, match="predict") as caught:
        search.predict(np.zeros((1, 3)))
    assert "refit=False" in str(caught.value.__cause__)
    with pytest.raises(TypeError, match="federated_score"):
        search.score(parties())
    assert search.n_splits_ == 1 and search.set_params(cv=3).n_splits_ == 3
    assert search.set_params(cv=KFold(4)).n_splits_ == 4
    with pytest.raises(AttributeError, match="refit=False"):
        _ = search.classes_
    search.set_params(cv=LeaveOneOut())
    assert not hasattr(search, "n_splits_")


@pooling
def test_every_other_attribute_of_grid_search_exists():
    X, y = parties(1)[0]
    grid = {"C": [0.1, 1.0]}
    theirs = GridSearchCV(LogisticRegression(), grid, cv=2).fit(pd.DataFrame(X).add_prefix("x"), y)
    frames = [(pd.DataFrame(X).add_prefix("x"), y) for X, y in parties()]
    ours = DPHypeSearchCV(LogisticRegression(), grid, **LOUD).fit(frames)
    public = {name for name in dir(theirs) if not name.startswith("_") and hasattr(theirs, name)}
    constructor = {"pre_dispatch", "return_train_score"}
    callbacks = {"set_callbacks"}
    missing = {name for name in public if not hasattr(ours, name)}
    assert missing <= {"best_score_", "refit_time_"} | constructor | callbacks
    assert ours.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        assert len(getattr(ours, method)(frames[0][0])) == 20
    assert not hasattr(ours, "transform") and not hasattr(ours, "score_samples")
    reducer = DPHypeSearchCV(PCA(), {"n_components": [1, 2]}, **LOUD).fit([x for x, _ in frames])
    low = reducer.transform(frames[0][0])
    assert reducer.inverse_transform(low).shape == (20, 3) and reducer.score_samples(
        frames[0][0]
    ).shape == (20,)


@pooling
def test_any_estimator_and_any_rows_that_it_takes():
    texts = [(["good day", "bad day", "good", "bad"] * 5, [1, 0, 1, 0] * 5)] * 3
    words = Pipeline([("count", CountVectorizer()), ("bayes", MultinomialNB())])
    labels = np.arange(60) % 3
    X, y = sum((x for x, _ in texts), []), sum((y for _, y in texts), [])
    search = DPHypeSearchCV(words, {"bayes__alpha": [0.1, 1.0]}, **LOUD).fit(X, y, parties=labels)
    assert search.predict(["good"]).tolist() == [1]
    clusters = DPHypeSearchCV(KMeans(n_init=1), {"n_clusters": [2, 3]}, **LOUD)
    assert clusters.fit([X for X, _ in parties()]).predict(np.zeros((1, 3))).shape == (1,)
    ridge = DPHypeSearchCV(Ridge(), {"alpha": [0.1, 1e6]}, scoring="r2", **LOUD)
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(40, 3)) for _ in range(4)]
    assert ridge.fit([(X, X.sum(axis=1)) for X in tables]).best_index_ == 0
    dummy = DPHypeSearchCV(DummyRegressor(), {"strategy": ["mean", "median"]}, refit=False, **LOUD)
    assert "best_params_" in vars(dummy.fit([(X, X[:, 0]) for X in tables]))


def test_sampled_candidates_are_public_and_the_same_everywhere():
    space = {"quality": loguniform(1e-3, 1e3)}
    search = DPHypeRandomizedSearchCV(Known(), space, n_iter=6, refit=False, **LOUD)
    first = search.fit(parties())
    assert first.best_params_["quality"] == max(p["quality"] for p in first.cv_results_["params"])
    again = clone(search).set_params(random_state=5).fit(parties())
    assert again.cv_results_["params"] == first.cv_results_["params"]
    other = clone(search).set_params(candidates_seed=1).fit(parties())
    assert other.cv_results_["params"] != first.cv_results_["params"]


def test_print_shows_candidates_votes_and_both_budgets():
    search = DPHypeSearchCV(TREE, {"max_depth": [1, 4]}, epsilon=8.0)
    line = "2 candidates, auto votes a party, epsilon 8 for the selection, epsilon 4 for the refit"
    assert str(search).endswith(line) and line not in repr(search)
    fitted = search.fit(HOSPITALS.parties)
    assert "2 candidates, 1 vote a party" in str(fitted)
    assert "no refit" in str(known())
    assert "not private" in str(DPHypeSearchCV(Ridge(), {"alpha": [1, 2]}))
    assert "DPHypeSearchCV" in search._repr_html_()


@quiet
@pooling
def test_the_search_works_inside_scikit_learn():
    rows = parties()
    X, y = np.concatenate([r[0] for r in rows]), np.concatenate([r[1] for r in rows])
    labels = np.arange(80) // 2 % 4
    search = DPHypeSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, **LOUD)
    scores = cross_validate(search, X, y, params={"parties": labels}, cv=2)["test_score"]
    assert scores.shape == (2,) and np.isfinite(scores).all()
    with sklearn.config_context(enable_metadata_routing=True):
        cross_validate(search, X, y, params={"parties": labels}, cv=2, error_score="raise")
    pipeline = make_pipeline(StandardScaler(), search).fit(X, y, dphypesearchcv__parties=labels)
    assert pipeline[-1].privacy_.n_parties == 4
    assert pickle.loads(pickle.dumps(search.fit(rows))).predict(X).shape == (80,)


def test_a_stand_in_ranks_and_the_estimator_is_refitted():
    class Stand(Known):
        def __init__(self, quality=0.0, fails=None, max_depth=1):
            super().__init__(quality, fails)
            self.max_depth = max_depth

        def score(self, X, y):
            return -self.max_depth

    search = DPHypeSearchCV(TREE, {"max_depth": [5, 2, 7]}, local_estimator=Stand(), epsilon=30.0)
    search.fit(HOSPITALS.parties)
    assert search.best_params_ == {"max_depth": 2}
    assert isinstance(search.best_estimator_, FederatedDPDecisionTree)


def test_progress_under_verbose(capsys):
    known(verbose=1).fit(parties())
    out = capsys.readouterr().out
    assert "Fitting 4 candidates at each of 4 parties" in out and "release 1: Votes" in out


class Falling(FederatedDPDecisionTree):
    """Fits one party's rows, and fails after the releases of a fit on many."""

    def fit(self, X, y=None, *, parties=None):
        super().fit(X, y, parties=parties)
        if isinstance(X, Federation):
            raise RuntimeError("too late")
        return self


@pytest.mark.parametrize(
    "estimator", [Falling(epsilon=4.0, **HOSPITALS.public), Known(fails="many")]
)
@pooling
@quiet
def test_a_refit_that_fails_leaves_a_report_that_promises_nothing(estimator):
    clinics = [Party(*rows, name=str(i)) for i, rows in enumerate(HOSPITALS.parties)]
    grid = {"epsilon": [4.0, 4.5]} if isinstance(estimator, Falling) else {"quality": [0.1, 0.2]}
    search = DPHypeSearchCV(estimator, grid, epsilon=8.0)
    with pytest.raises((RuntimeError, KeyError)) as caught:
        search.fit(clinics)
    assert any("selection has been released" in note for note in caught.value.__notes__)
    assert search.privacy_.epsilon == np.inf and not search.privacy_.private
    assert set(search.best_params_) == set(grid) and clinics[0].ledger.epsilon > 8.0


@pytest.mark.parametrize(
    "wrap",
    [
        make_pipeline,
        lambda tree: make_pipeline(make_pipeline(tree)),
        lambda tree: make_pipeline(
            PublicEncoder(bounds=(-5, 5)), make_pipeline("passthrough", make_pipeline(tree))
        ),
    ],
)
@quiet
def test_G2_a_step_is_on_the_bill_however_deep_it_stands(wrap):
    clinics = [Party(*rows, name=str(i)) for i, rows in enumerate(HOSPITALS.parties)]
    tree = clone(TREE).set_params(bounds=(-5, 5))
    pipeline = wrap(tree)
    name = next(key for key in pipeline.get_params() if key.endswith("decisiontree__max_depth"))
    search = DPHypeSearchCV(pipeline, {name: [1, 3]}, epsilon=1.0).fit(clinics)
    assert search.privacy_.epsilon == clinics[0].ledger.epsilon == 5.0
    assert "Votes" in dict(search.privacy_.releases) and len(search.privacy_.releases) > 1


@quiet
@pytest.mark.parametrize(
    ("grid", "dearest"),
    [
        ({"max_depth": [1, 3]}, 4.0),
        ({"max_depth": [1, 3], "epsilon": [1.0, 6.0, 2.0]}, 6.0),
        ({"calibration": ["proved", "published"]}, np.inf),
    ],
)
def test_G6_a_search_whose_dearest_refit_is_not_allowed_asks_nobody(grid, dearest):
    def clinics(ceiling):
        rows = enumerate(HOSPITALS.parties)
        return [Party(*pair, name=str(i), max_epsilon=ceiling) for i, pair in rows]

    careful = clinics(min(8.0 + dearest, 99.0) - 0.01)
    search = DPHypeSearchCV(TREE, grid, epsilon=8.0)
    with pytest.raises(BudgetExceeded, match="Nothing was released"):
        search.fit(careful)
    with privacy_budget(min(8.0 + dearest, 99.0) - 0.01) as ceiling:
        with pytest.raises(BudgetExceeded, match="privacy_budget"):
            search.fit(clinics(None))
        assert ceiling.spent == (0.0, 0.0)
    assert not careful[0].ledger.entries and not hasattr(search, "cv_results_")
    if dearest < np.inf:
        search.fit(clinics(8.0 + dearest))
        with privacy_budget(8.0 + dearest) as ceiling:
            search.fit(clinics(None))
            assert ceiling.spent[0] == search.privacy_.epsilon


def test_the_cost_of_a_search_in_a_search_is_that_of_both():
    inner = DPHypeSearchCV(TREE, {"epsilon": [1.0, 3.0]}, epsilon=2.0)
    assert cost_of(inner) == (5, 2 * Fraction("1e-5"))
    outer = DPHypeSearchCV(make_pipeline(inner), {"dphypesearchcv__epsilon": [2.0, 7.0]})
    assert cost_of(outer) == (1 + 7 + 3, 3 * Fraction("1e-5"))
    assert cost_of(clone(TREE).set_params(mechanism="laplace")) == (4, 0)
    assert cost_of(clone(inner).set_params(refit=False)) == (2, Fraction("1e-5"))
    with pytest.raises(ValueError, match="epsilon of FederatedDPDecisionTree"):
        cost_of(clone(TREE).set_params(epsilon=-1))


@pytest.mark.parametrize("state", [np.random.RandomState(0), np.random.default_rng(0), None])
def test_G21_folds_do_not_hang_on_who_came_before(state):
    X, y = parties(1, 60)[0]
    code = [
        LocalScoring(Known(), [{}], cv=ShuffleSplit(2, test_size=0.3, random_state=state))
        for _ in range(2)
    ]
    folds = [each._folds(X, y, True) for each in code]
    np.testing.assert_equal(folds[0], folds[1])


def test_infinite_epsilon_says_that_nothing_is_private():
    with pytest.warns(NotPrivateWarning, match="epsilon=inf"):
        search = known(epsilon=np.inf).fit(parties())
    assert search.cv_results_["noisy_votes"].tolist() == [0, 4, 0, 0]
    assert search.selection_bound_ == 0 and not search.privacy_.private


def test_rows_of_a_federation_are_transformed_before_they_are_voted_on(monkeypatch):
    class Half:
        def apply(self, X, y):
            return X[::2], y[::2]

    Known.seen.clear()
    monkeypatch.setattr("sklearn_fedpriv.federation._federation.Terms", _untyped_terms)
    known().fit(Federation(parties()).with_transform(Half()))
    assert {rows for _, rows in Known.seen} == {8}


def _untyped_terms(**fields):
    from sklearn_fedpriv.federation._terms import Terms

    return Terms(**(fields | {"transforms": ()}))


def test_the_bound_counts_the_noise_of_all_shares(monkeypatch):
    """Of 4 parties three shares carry the guarantee, and four are in the sum."""
    seen = []
    monkeypatch.setattr(
        _base, "selection_bound", lambda noisy, winner, sd, beta: seen.append((sd, beta)) or 1.0
    )
    runs = []
    report = Run.report
    monkeypatch.setattr(Run, "report", lambda self, *a: runs.append(self) or report(self, *a))
    known().fit(parties())
    (sd, beta), run = seen[0], runs[0]
    assert beta == 0.05 and run.terms.unknown_shares == 3
    assert sd == pytest.approx(run.noise_sd(2, 2, Fraction(1)))


def test_G19_the_terms_name_the_code(monkeypatch):
    """Two searches that differ in a candidate, the scoring or cv are about other code."""
    codes = {
        known(grid)._code(known(grid)._candidates()).fingerprint
        for grid in ({"quality": [1, 2]}, {"quality": [1, 3]})
    }
    codes |= {known(cv=3)._code([{}]).fingerprint, known(scoring="f1")._code([{}]).fingerprint}
    assert len(codes) == 4
    runs = []
    report = Run.report
    monkeypatch.setattr(Run, "report", lambda self, *a: runs.append(self) or report(self, *a))
    search = known().fit(parties())
    assert runs[0].terms.code == search._code(search._candidates()).fingerprint != b""

"""What fit accepts: the table of forms, and errors that show the right call for the rest."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.pipeline import make_pipeline

from sklearn_fedpriv.federation import Federation, Party
from sklearn_fedpriv.federation._estimator import FederatedMixin
from sklearn_fedpriv.federation._inputs import gather, is_table
from sklearn_fedpriv.federation._query import MAX_ROWS


class Trust:
    """The arguments that a federation is made of."""

    def __init__(self, min_honest=None, max_dropouts=0, secure_sum="plain", n_jobs=None):
        self.min_honest = min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = secure_sum
        self.n_jobs = n_jobs


class Classifier(Trust, FederatedMixin, ClassifierMixin, BaseEstimator):
    """Keeps the federation that its ``fit`` was given."""

    def fit(self, X, y=None, *, parties=None):
        self.federation_ = gather(self, X, y, parties)
        return self


class Transformer(Trust, FederatedMixin, TransformerMixin, BaseEstimator):
    """The same without labels."""

    def fit(self, X, y=None, *, parties=None):
        self.federation_ = gather(self, X, y, parties)
        return self

    def transform(self, X):
        return X


X1, X2 = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(4, 2)
Y1, Y2 = np.array([0, 1, 0]), np.array([1, 1, 0, 0])
PAIRS = [(X1, Y1), (X2, Y2)]
TABLE, LABELS = np.concatenate([X1, X2]), np.array(["b"] * 3 + ["a"] * 4)


def rows(model):
    return [(X.tolist(), None if y is None else y.tolist()) for X, y in model.federation_.rows]


EXPECTED = [(X1.tolist(), Y1.tolist()), (X2.tolist(), Y2.tolist())]


@pytest.mark.parametrize(
    "arguments",
    [
        (PAIRS,),
        ([Party(X1, Y1), Party(X2, Y2)],),
        ([Party(X1, Y1), (X2, Y2)],),
        ([(X1, list(Y1)), (X2, Y2)],),
        ([pd.DataFrame(X1), pd.DataFrame(X2)], [pd.Series(Y1), Y2]),
        ([X1, X2], [Y1, Y2]),
        ([X1, X2], [list(Y1), tuple(Y2)]),
        (Federation(PAIRS),),
    ],
)
def test_lists_of_parties(arguments):
    model = Classifier().fit(*arguments)
    assert rows(model) == EXPECTED
    assert model.federation_.names == ("0", "1")
    assert model.n_features_in_ == 2


def test_labels_split_one_table_and_name_the_parties():
    model = Classifier().fit(TABLE, np.concatenate([Y1, Y2]), parties=LABELS)
    assert model.federation_.names == ("a", "b") and model.federation_.named
    assert rows(model) == EXPECTED[::-1]
    mixed = np.array(["a", "b", "a", "b", "b", "a", "b"])
    split = Classifier().fit(TABLE, np.concatenate([Y1, Y2]), parties=mixed)
    assert rows(split)[0][0] == TABLE[mixed == "a"].tolist()


@pytest.mark.parametrize("X", [X1, X1.tolist(), pd.DataFrame(X1), list(X1), [tuple(r) for r in X1]])
def test_one_table_is_one_party(X):
    model = Classifier().fit(X, Y1)
    assert rows(model) == EXPECTED[:1] and not model.federation_.named


def test_transformers_take_tables_without_labels():
    for arguments in (([X1, X2],), (PAIRS,), ([Party(X1), Party(X2)],), (Federation(PAIRS),)):
        model = Transformer().fit(*arguments)
        assert [X for X, _ in rows(model)] == [X1.tolist(), X2.tolist()]
    assert [X for X, _ in rows(Transformer().fit(X1))] == [X1.tolist()]
    labelled = Transformer().fit(TABLE, parties=LABELS)
    assert labelled.federation_.names == ("a", "b")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((tuple(PAIRS),), TypeError, r"A tuple of parties came; pass a list. Use fit\(\[\(X_1"),
        ((Party(X1, Y1),), TypeError, "single party came; put it in a list"),
        (((X1, Y1),), TypeError, "single party came; put it in a list"),
        (([(X1, Y1), X2],), TypeError, "mixes parties with something else"),
        (([(X1, Y1), "no"],), TypeError, "mixes parties with something else"),
        ((PAIRS, Y1), TypeError, "comes with a y"),
        (([X1, X2], [Y1]), ValueError, "y must be a list of 2 sequences of labels"),
        (([X1, X2], Y1), ValueError, "y must be a list of 2 sequences of labels"),
        (([X1, X2], [0, 1]), ValueError, "y must be a list of 2 sequences of labels"),
        (([X1, X2], [Y1, Y1]), ValueError, "Party '1': Found input variables with inconsistent"),
        (([X1, X2],), ValueError, "requires y to be passed, but the target y is None"),
        ((X1,), ValueError, "requires y to be passed, but the target y is None"),
        ((np.zeros((2, 3, 2)), [0, 1]), ValueError, "Found array with dim 3"),
        (([], []), ValueError, "Expected 2D array, got 1D array"),
        ((Federation(PAIRS), Y1), ValueError, "takes neither y nor parties"),
        (([(X1, Y1), (X2[:, :1], Y2)],), ValueError, "Party '1': X has 1 features"),
        (([(X1, Y1), (csr_array(X2), Y2)],), TypeError, "Party '1': Sparse data was passed"),
        (([(X1, Y1), (X2, None)],), ValueError, "Party '1': .* requires y"),
    ],
)
def test_everything_else_is_an_error_that_helps(arguments, error, message):
    with pytest.raises(error, match=message):
        Classifier().fit(*arguments)


def test_the_note_of_a_third_dimension_shows_the_right_call():
    with pytest.raises(ValueError, match="dim 3") as info:
        Classifier().fit(np.zeros((2, 3, 2)), [0, 1])
    assert "fit([(X_1, y_1)" in info.value.__notes__[0]


@pytest.mark.parametrize(
    ("arguments", "labels", "error", "message"),
    [
        ((TABLE, np.concatenate([Y1, Y2])), LABELS[:-1], ValueError, "got 6 labels for 7 rows"),
        ((PAIRS,), LABELS, TypeError, "goes with one table, not with a list of parties"),
        ((Federation(PAIRS),), LABELS, ValueError, "takes neither y nor parties"),
        ((TABLE, np.concatenate([Y1, Y2])), np.ones((7, 2)), ValueError, "1d array"),
    ],
)
def test_labels_must_fit_the_table(arguments, labels, error, message):
    with pytest.raises(error, match=message):
        Classifier().fit(*arguments, parties=labels)


def test_frames_keep_their_names_and_strangers_are_named():
    frames = [pd.DataFrame(X, columns=["age", "dose"]) for X in (X1, X2)]
    model = Classifier().fit(frames, [Y1, Y2])
    assert model.feature_names_in_.tolist() == ["age", "dose"]
    with pytest.raises(ValueError, match=r"Party '1': The feature names should match"):
        Classifier().fit([frames[0], frames[1].rename(columns={"dose": "weight"})], [Y1, Y2])


def test_a_federation_and_an_estimator_must_not_disagree():
    federation = Federation(PAIRS, min_honest=1)
    assert Classifier().fit(federation).federation_.min_honest == 1
    assert Classifier(min_honest=1).fit(federation).federation_.min_honest == 1
    with pytest.raises(ValueError, match=r"min_honest=2\) contradicts the federation"):
        Classifier(min_honest=2).fit(federation)
    with pytest.raises(ValueError, match="secure_sum='paillier'"):
        Classifier(secure_sum="paillier").fit(federation)


def test_views_of_a_federation_share_ledgers_and_leave_rows_alone():
    federation = Federation(PAIRS)
    model = Classifier().fit(federation)
    assert model.federation_ is not federation
    assert model.federation_.parties is federation.parties
    assert federation.rows[0][0] is X1


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr("sklearn_fedpriv.federation._inputs.MAX_ROWS", 3)
    with pytest.raises(ValueError, match="Party '1': One party may hold at most 3 rows"):
        Classifier().fit(PAIRS)
    assert MAX_ROWS == 2**24


@pytest.mark.parametrize("routing", [True, False])
def test_pipelines_route_labels_without_a_request(routing):
    pipeline = make_pipeline(Transformer(), Classifier())
    labels = {"parties": LABELS} if routing else {"classifier__parties": LABELS}
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline.fit(TABLE, np.concatenate([Y1, Y2]), **labels)
    assert pipeline[-1].federation_.names == ("a", "b")


def test_clones_keep_their_arguments():
    model = Classifier(min_honest=1, max_dropouts=0)
    assert clone(model).get_params() == model.get_params()


def test_tables_are_known_by_their_shape():
    assert is_table(X1) and is_table(pd.DataFrame(X1)) and is_table(csr_array(X1))
    assert not any(map(is_table, ([[1, 2]], Y1, pd.Series(Y1), "text", None)))

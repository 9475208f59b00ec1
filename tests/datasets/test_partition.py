import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.utils import check_random_state

from sklearn_fedpriv.datasets import partition

X = np.arange(200).reshape(100, 2)
y = np.repeat(["a", "b", "c", "d"], 25)


@st.composite
def cuts(draw):
    """Draw labels and the arguments of a cut."""
    labels = draw(st.lists(st.integers(0, 4), min_size=1, max_size=60))
    n_parties = draw(st.integers(1, len(labels)))
    arguments = {"n_parties": n_parties, "random_state": draw(st.integers(0, 2**32 - 1))}
    how = draw(st.sampled_from(["iid", "dirichlet", "by_label", "counts", "shares"]))
    if how == "dirichlet":
        arguments["alpha"] = draw(st.floats(0, exclude_min=True, allow_infinity=False))
    elif how == "counts":
        extra = len(labels) - n_parties
        inner = draw(
            st.lists(st.integers(0, extra), min_size=n_parties - 1, max_size=n_parties - 1)
        )
        arguments["sizes"] = np.diff([0, *sorted(inner), extra]) + 1
    elif how == "shares":
        weights = draw(st.lists(st.floats(1e-6, 1), min_size=n_parties, max_size=n_parties))
        arguments["sizes"] = np.array(weights) / np.sum(weights)
    arguments["how"] = "sizes" if "sizes" in arguments else how
    return labels, arguments


@settings(max_examples=150, deadline=None)
@given(cuts())
def test_every_row_goes_to_one_party_in_order_and_no_party_is_empty(cut):
    labels, arguments = cut
    rows = np.arange(len(labels))
    parties = partition(rows, labels, **arguments)
    assert len(parties) == arguments["n_parties"]
    assert_array_equal(np.sort(np.concatenate([X_i for X_i, _ in parties])), rows)
    for X_i, y_i in parties:
        assert len(X_i) >= 1
        assert np.all(np.diff(X_i) > 0)
        assert y_i == [labels[row] for row in X_i]


@settings(max_examples=50, deadline=None)
@given(cuts())
def test_the_seed_fixes_the_cut_and_the_global_state_is_left_alone(cut):
    labels, arguments = cut
    rows = np.arange(len(labels))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (partition(rows, labels, **arguments) for _ in range(2))
    partition(rows, labels, **{**arguments, "random_state": None})
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    for (X_1, _), (X_2, _) in zip(first, second, strict=True):
        assert_array_equal(X_1, X_2)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.data())
def test_iid_sizes_differ_by_at_most_one(n_rows, data):
    n_parties = data.draw(st.integers(1, n_rows))
    sizes = [len(X_i) for X_i, _ in partition(range(n_rows), range(n_rows), n_parties)]
    assert max(sizes) - min(sizes) <= 1


def test_iid_deals_at_random():
    parties = partition(X, y, 4, random_state=0)
    assert all(set(y_i) == set("abcd") for _, y_i in parties)


def label_spread(alpha):
    """Return how far the parties' label shares are from those of all rows, 0 to 1."""
    labels = np.repeat([0, 1, 2, 3], 500)
    parties = partition(labels, labels, 10, "dirichlet", alpha=alpha, random_state=0)
    shares = np.array([np.bincount(y_i, minlength=4) / len(y_i) for _, y_i in parties])
    return np.abs(shares - 0.25).sum(axis=1).mean() / 1.5


def test_a_smaller_alpha_gives_more_skew():
    assert label_spread(1e9) < 0.01 < label_spread(10) < label_spread(0.5) < label_spread(0.01)
    assert label_spread(0.01) > 0.8


def test_the_largest_float_is_an_alpha_of_equal_shares():
    parties = partition(X, y, 5, "dirichlet", alpha=np.finfo(float).max)
    assert [len(y_i) for _, y_i in parties] == [20] * 5


def test_dirichlet_shares_have_the_spread_of_the_law():
    labels = np.zeros(100_000, dtype=int)
    sizes = [
        len(X_i)
        for seed in range(50)
        for X_i, _ in partition(labels, labels, 4, "dirichlet", alpha=2.0, random_state=seed)
    ]
    shares = np.array(sizes) / 100_000
    assert abs(shares.mean() - 1 / 4) < 1e-12
    # Each share is Beta(2, 6): variance 1/4 * 3/4 / (4 * 2 + 1).
    assert 0.75 < shares.var() / (3 / 16 / 9) < 1.25


def test_by_label_gives_each_party_few_labels_and_one_size():
    labels = np.tile(np.arange(10), 100)
    parties = partition(labels, labels, 20, "by_label", random_state=0)
    assert all(len(y_i) == 50 for _, y_i in parties)
    n_labels = [len(set(y_i)) for _, y_i in parties]
    assert max(n_labels) == 2
    assert n_labels.count(2) > 10


def test_by_label_takes_rows_of_a_label_at_random():
    labels = np.zeros(100, dtype=int)
    for X_i, _ in partition(np.arange(100), labels, 2, "by_label", random_state=0):
        assert np.count_nonzero(np.diff(X_i) > 1) > 10


def test_sizes_are_kept():
    assert [len(y_i) for _, y_i in partition(X, y, 3, "sizes", sizes=[50, 49, 1])] == [50, 49, 1]
    parties = partition(X, y, 3, "sizes", sizes=[0.5, 0.3, 0.2], random_state=0)
    assert [len(y_i) for _, y_i in parties] == [50, 30, 20]
    assert all(set(y_i) == set("abcd") for _, y_i in parties)
    thirds = partition(X, y, 3, "sizes", sizes=[1 / 3, 1 / 3, 1 / 3])
    assert sorted(len(y_i) for _, y_i in thirds) == [33, 33, 34]
    tiny = partition(X, y, 3, "sizes", sizes=[0.998, 0.001, 0.001])
    assert [len(y_i) for _, y_i in tiny] == [98, 1, 1]


@pytest.mark.parametrize(
    "table",
    [
        X,
        X.reshape(100, 2, 1),
        X.tolist(),
        pd.DataFrame(X, columns=["u", "v"], index=np.arange(100)[::-1]),
        sparse.csr_array(X),
        sparse.csc_array(X),
        sparse.coo_matrix(X),
    ],
    ids=["array", "array_3d", "list", "frame", "csr_array", "csc_array", "coo_matrix"],
)
@pytest.mark.parametrize("labels", [y, y.tolist(), pd.Series(y)], ids=["array", "list", "series"])
@pytest.mark.parametrize("how", ["iid", "by_label"])
def test_types_are_kept_and_rows_stay_with_their_label(table, labels, how):
    for X_i, y_i in partition(table, labels, 3, how, random_state=0):
        assert type(X_i) is type(table)
        assert type(y_i) is type(labels)
        dense = X_i.toarray() if sparse.issparse(X_i) else np.asarray(X_i).reshape(-1, 2)
        assert_array_equal(y[dense[:, 0] // 2], np.asarray(y_i))


def test_a_frame_keeps_columns_and_index():
    frame = pd.DataFrame(X, columns=["u", "v"], index=[f"row {i}" for i in range(100)])
    X_0, _ = partition(frame, y, 3, random_state=0)[0]
    assert list(X_0) == ["u", "v"]
    assert_array_equal(X_0, frame.loc[X_0.index])


def test_generators_and_random_states_are_seeds():
    by_generator = [partition(X, y, 2, random_state=np.random.default_rng(7)) for _ in range(2)]
    assert_array_equal(by_generator[0][0][0], by_generator[1][0][0])
    legacy = [partition(X, y, 2, random_state=check_random_state(7)) for _ in range(2)]
    assert_array_equal(legacy[0][0][0], legacy[1][0][0])
    assert_array_equal(legacy[0][0][0], partition(X, y, 2, random_state=7)[0][0])
    used_on = np.random.default_rng(7)
    first, second = (partition(X, y, 2, random_state=used_on) for _ in range(2))
    assert not np.array_equal(first[0][0], second[0][0])


def test_regression_targets_can_be_dealt_without_labels():
    target = np.linspace(0, 1, 100)
    assert len(partition(X, target, 3)) == 3
    for how in ("dirichlet", "by_label"):
        with pytest.raises(ValueError, match="Unknown label type: continuous"):
            partition(X, target, 3, how)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_parties": 0}, r"'n_parties' .* must be an int in the range \[1, inf\). Got 0"),
        ({"n_parties": 2.0}, "'n_parties' .* Got 2.0 instead"),
        ({"n_parties": True}, "'n_parties' .* Got True instead"),
        ({"n_parties": 101}, "n_parties=101 parties at least one row each: n_rows=100"),
        ({"how": "label"}, "'how' .*{'iid', 'dirichlet', 'by_label', 'sizes'}. Got 'label'"),
        ({"how": None}, "'how' .* Got None instead"),
        ({"alpha": 0}, r"'alpha' .* a float in the range \(0, inf\). Got 0 instead"),
        ({"alpha": np.inf}, "'alpha' .* Got inf instead"),
        ({"alpha": np.nan}, "'alpha' .* Got nan instead"),
        ({"alpha": "1"}, "'alpha' .* Got '1' instead"),
        ({"alpha": True}, "'alpha' .* Got True instead"),
        ({"sizes": [50, 50]}, "'sizes' .* goes with how='sizes', and only with it"),
        ({"how": "sizes"}, "'sizes' .* goes with how='sizes', and only with it"),
        ({"how": "sizes", "sizes": [100]}, "array-like of n_parties=2 numbers. Got .100."),
        ({"how": "sizes", "sizes": ["a", "b"]}, "array-like of n_parties=2 numbers"),
        ({"how": "sizes", "sizes": [True, True]}, "array-like of n_parties=2 numbers"),
        ({"how": "sizes", "sizes": [50, 49]}, "sum n_rows=100. Got .50, 49., sum 99"),
        ({"how": "sizes", "sizes": [100, 0]}, "each at least 1"),
        ({"how": "sizes", "sizes": [0.5, 0.4]}, r"each in \(0, 1\], with sum 1. Got .0.5, 0.4."),
        ({"how": "sizes", "sizes": [1.0, 0.0]}, r"each in \(0, 1\], with sum 1"),
        ({"how": "sizes", "sizes": [0.5, np.nan]}, r"each in \(0, 1\], with sum 1"),
        ({"how": "sizes", "sizes": [50.0, 50.0]}, "For numbers of rows give integers"),
        ({"random_state": "seed"}, "'seed' cannot be used to seed"),
        ({"y": None}, "requires y to be passed, but the target y is None"),
        ({"y": y[:-1]}, r"inconsistent numbers of samples: \[100, 99\]"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        partition(**{"X": X, "y": y, "n_parties": 2, **arguments})

"""Coded rows are whole, bounded, and each depends on itself alone (G7, G8)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from sklearn_fedpriv.svm._rows import ROW_TICKS, RowCoder, hold

HOSTILE = [np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, 0.0, -0.0, 1.0, 3.0]
tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 6)),
    elements=st.sampled_from(HOSTILE) | st.floats(allow_nan=True, allow_infinity=True),
)


def squared(ticks):
    return [sum(int(v) ** 2 for v in row) for row in ticks]


@given(tables, st.sampled_from([1e-50, 0.5, 1.0, 100.0, 1e50]))
def test_no_row_is_longer_than_the_bound_and_none_looks_at_another(X, bound):
    ticks = hold(X, bound)
    assert ticks.dtype == np.int32
    assert max(squared(ticks)) <= ROW_TICKS**2
    assert np.array_equal(ticks, np.vstack([hold(row[None], bound) for row in X]))
    sparse = hold(csr_matrix(X), bound)
    assert sparse.dtype == np.int32 and np.array_equal(sparse.toarray(), ticks)


def test_many_rows_are_coded_as_few_are():
    X = np.random.default_rng(0).normal(size=(5000, 7))
    assert np.array_equal(hold(X, 1.0), np.vstack([hold(X[:1], 1.0), hold(X[1:], 1.0)]))
    assert np.array_equal(hold(np.asfortranarray(X), 1.0), hold(X, 1.0))


def test_ticks_are_the_row_up_to_half_a_tick_or_a_tick_where_it_is_shrunk():
    X = np.array([[0.3, -0.4, 0.0], [3.0, -4.0, 0.0]])
    ticks = hold(X, 1.0) / ROW_TICKS
    assert np.allclose(ticks[0], X[0], atol=0.5 / ROW_TICKS, rtol=0)
    assert np.allclose(ticks[1], X[1] / 5, atol=1.0 / ROW_TICKS, rtol=0)
    assert np.allclose(hold(X, 100.0)[1] / ROW_TICKS * 100, X[1], atol=50.0 / ROW_TICKS)


def test_entries_of_a_sparse_row_that_stand_for_one_are_one():
    parts = ([0.8, 0.8, -0.5, 0.1], [1, 1, 0, 2], [0, 3, 4])
    X = csr_matrix(parts, shape=(2, 3))
    assert np.array_equal(hold(X, 1.0).toarray(), hold(X.toarray(), 1.0))
    assert X.nnz == 4


def test_frequencies_are_whole_numbers_so_that_angles_are_exact():
    whole = kernel_coder()._frequencies
    assert np.array_equal(whole, np.rint(whole)) and whole.any()
    assert np.sqrt((whole**2).sum(axis=0)).max() * ROW_TICKS < 2.0**53


def kernel_coder(**changes):
    settings = {"bound": 2.0, "gamma": 0.7, "n_components": 4000} | changes
    return RowCoder(5, settings.pop("bound"), (0, 1), **settings)


def test_random_features_approximate_the_kernel():
    """5,000 pairs; a product of 2,000 pairs of features has a standard deviation below .023."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 5)) / 3
    coded = kernel_coder().code(X) / ROW_TICKS
    exact = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    assert np.abs(coded @ coded.T - exact).max() < 5.5 * 0.023
    assert np.abs(coded @ coded.T - exact).mean() < 0.02


@pytest.mark.parametrize("n_components", [2, 30, 500])
def test_random_features_have_length_one_and_do_not_look_at_other_rows(n_components):
    X = np.random.default_rng(1).normal(size=(60, 5)) * 3
    X[0] = [np.nan, np.inf, -1e300, 0, 1]
    coder = kernel_coder(n_components=n_components)
    coded = coder.code(X)
    assert max(squared(coded)) <= ROW_TICKS**2
    assert min(squared(coded)) >= (ROW_TICKS - n_components) ** 2
    assert np.array_equal(coded, np.vstack([coder.code(row[None]) for row in X]))
    assert np.array_equal(coded, coder.code(csr_matrix(X)))


@pytest.mark.parametrize("n_components", [2, 4, 6, 8, 16, 32, 64, 500])
@pytest.mark.parametrize("towards", [-np.inf, np.inf])
def test_the_last_bit_of_a_sine_decides_nothing(n_components, towards, monkeypatch):
    """Some values are whole before they are cut: with 4 components those of 45 degrees."""
    expected = kernel_coder(n_components=n_components)._wave
    sine = np.sin
    monkeypatch.setattr(np, "sin", lambda angle: np.nextafter(sine(angle), towards))
    assert np.array_equal(kernel_coder(n_components=n_components)._wave, expected)


def test_a_kernel_that_is_too_narrow_for_exact_angles_is_refused():
    with pytest.raises(ValueError, match="gamma=1e[+]20 is too large"):
        kernel_coder(gamma=1e20).code(np.ones((1, 5)))

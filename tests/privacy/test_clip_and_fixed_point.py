"""Bounds hold for anything that comes in (G7); rounding adds what is charged and no more (G8)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sklearn_fedpriv.privacy._clip import clip_integer_rows, clip_rows
from sklearn_fedpriv.privacy._fixed_point import Lattice, lattice_for, squared_ticks

HOSTILE = [np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e-310, 0.0, -0.0, 1.0, 3.0]
rows = arrays(
    np.float64,
    st.tuples(st.integers(0, 6), st.integers(1, 6)),
    elements=st.sampled_from(HOSTILE) | st.floats(allow_nan=True, allow_infinity=True),
)


@given(rows, st.sampled_from([1e-12, 0.5, 1.0, 1e6]))
def test_clip_rows_holds_its_bound(X, bound):
    clipped = clip_rows(X, bound)
    assert np.isfinite(clipped).all()
    norms = np.sqrt(np.sum((clipped / bound) ** 2, axis=1))
    assert np.all(norms <= 1 + X.shape[1] * 2.0**-52)


def test_clip_rows_leaves_short_rows_and_scales_long_ones():
    X = np.array([[0.3, 0.4], [3.0, 4.0], [np.nan, 0.5], [0.0, 0.0], [np.inf, 1e300]])
    clipped = clip_rows(X, 1.0)
    assert np.array_equal(clipped[0], [0.3, 0.4])
    assert np.allclose(clipped[1], [0.6, 0.8], rtol=1e-15)
    assert np.array_equal(clipped[2], [0.0, 0.5])
    assert np.array_equal(clipped[3], [0.0, 0.0])
    assert np.array_equal(clipped[4], [0.0, 1.0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_row_is_clipped_alike_alone_and_among_others(order):
    """To the last bit, or one record would move what others contribute."""
    X = np.asarray(np.random.default_rng(0).normal(size=(50, 129)), order=order)
    alone = np.vstack([clip_rows(row, 1.0) for row in X[:, None]])
    assert np.array_equal(clip_rows(X, 1.0), alone)


integers = arrays(
    np.int64,
    st.tuples(st.integers(0, 6), st.integers(1, 6)),
    elements=st.sampled_from([2**62, -(2**63), 2**31, 0, 1, -1, 2]) | st.integers(-3, 3),
)


@given(integers, st.integers(1, 20))
def test_clip_integer_rows_is_exact(X, squared_bound):
    clipped = clip_integer_rows(X, squared_bound)
    for before, after in zip(X.tolist(), clipped.tolist(), strict=True):
        fits = sum(value * value for value in before) <= squared_bound
        assert after == (before if fits else [0] * len(before))


def test_clips_take_no_other_types_and_do_not_wrap():
    with pytest.raises(TypeError, match="must be integers; got float64"):
        clip_integer_rows(np.array([[np.nan, 1.0]]), 1)
    huge = np.full((1, 4), 2**31)  # its squared norm is 2**64
    assert not clip_integer_rows(huge, 2**62).any()
    assert clip_integer_rows(huge, 2**64).all()
    assert not clip_integer_rows(huge, 2**64, 2**32).any()
    assert clip_rows(np.array([[np.longdouble("1e400"), 0.5]]), 1.0).tolist() == [[0.0, 0.5]]


@given(rows, st.sampled_from([0.37, 1.0, 12.5]))
def test_a_rounded_row_moves_a_sum_by_at_most_what_is_charged(X, bound):
    d = X.shape[1]
    lattice = lattice_for(bound, d)
    ticks = lattice.encode(clip_rows(X, bound))
    charged = squared_ticks(bound, d, lattice)
    for row in ticks.tolist():
        assert sum(value * value for value in row) <= charged


@pytest.mark.parametrize("bound", [1e-9, 0.3, 1.0, 1e9])
@pytest.mark.parametrize("d", [1, 7, 26010, 10**6])
def test_rounding_costs_under_a_thousandth(bound, d):
    lattice = lattice_for(bound, d)
    in_ticks = bound / 2.0**lattice.exponent
    assert in_ticks <= squared_ticks(bound, d, lattice) ** 0.5 <= 1.001 * in_ticks


def test_a_coarse_tick_is_refused():
    with pytest.raises(AssertionError, match="too coarse"):
        squared_ticks(1.0, 26010, Lattice(-10))


def test_encoding_is_exact_on_the_lattice_and_rounds_half_a_tick_off_it():
    lattice = Lattice(-4)
    values = np.array([-1e6, -1.0, -0.5, 0.0, 0.5, 1e6])
    assert np.array_equal(lattice.decode(lattice.encode(values)), values)
    assert np.abs(lattice.decode(lattice.encode(values + 0.03)) - values - 0.03).max() <= 1 / 32


def test_the_sum_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)) * 10.0 ** rng.integers(-8, 8, size=(500, 1))
    lattice = lattice_for(1.0, 3)
    sums = {
        tuple(lattice.encode(clip_rows(X[rng.permutation(500)], 1.0)).sum(axis=0))
        for _ in range(20)
    }
    assert len(sums) == 1

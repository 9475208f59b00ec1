"""The pure functions of released histograms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv.tree._growth import Growth, _even_weights, planned_depth
from sklearn_fedpriv.tree._histogram import MAX_WEIGHT
from sklearn_fedpriv.tree._published import information
from sklearn_fedpriv.tree._splits import (
    Schema,
    best_cut,
    group_variance,
    leaf_probabilities,
    make_cells,
    make_consistent,
    order_values,
)

QUIET = 1e-6


def cut_one(counts, numeric, noise=QUIET):
    """Best cut of one node's feature from exact counts, shape (n_values, n_classes)."""
    counts = np.asarray(counts, dtype=float)[None]
    totals = counts.sum(axis=1)
    starts = np.ones(counts.shape[:2], dtype=bool)
    one = np.array([noise])
    return best_cut(counts, starts, numeric, totals, one, one, np.array([counts.shape[1]]))


def gini_rows(counts):
    size = counts.sum(axis=-1)
    return size - (counts**2).sum(axis=-1) / np.maximum(size, 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_without_noise_the_best_cut_has_the_largest_gini_gain(seed, numeric):
    """Against brute force: all thresholds, or (two classes, Breiman) all subsets of categories."""
    rng = np.random.default_rng(seed)
    n_values, n_classes = rng.integers(2, 6), rng.integers(2, 4) if numeric else 2
    counts = rng.integers(1, 200, size=(n_values, n_classes)).astype(float)
    score, right, left_totals, _ = cut_one(counts, numeric)
    shares = counts.sum(axis=0) / counts.sum()
    gains = []
    for subset in range(1, 2**n_values - 1):
        side = np.array([bool(subset >> i & 1) for i in range(n_values)])
        if numeric and (np.diff(side.astype(int)) < 0).any():
            continue
        left, other = counts[~side].sum(axis=0), counts[side].sum(axis=0)
        gains.append(gini_rows(left + other) - gini_rows(left) - gini_rows(other))
    chance = 2.0 * (1 - (shares**2).sum())
    assert score[0] == pytest.approx(max(gains) - chance, rel=1e-6, abs=1e-3)
    assert np.allclose(left_totals[0], counts[~right[0]].sum(axis=0))


@pytest.mark.parametrize("numeric", [True, False])
def test_the_excess_tells_signal_from_noise(monkeypatch, numeric):
    """1,000 nodes of 8 noisy cells, without and with signal."""
    rng = np.random.default_rng(0)
    noisy = 50 + 20 * rng.normal(size=(1000, 8, 2))
    signal = np.array([[40, -40]] * 4 + [[-40, 40]] * 4)
    one, starts = np.full(1000, 400.0), np.ones((1000, 8), dtype=bool)

    def rate(counts):
        totals = counts.sum(axis=1)
        score, *_ = best_cut(counts, starts, numeric, totals, 8 * one, one, np.full(1000, 8))
        return (score > 0).mean()

    assert rate(noisy) < 0.33 and rate(noisy + signal) > 0.99
    monkeypatch.setattr("sklearn_fedpriv.tree._splits.EXCESS", 0.0)
    assert rate(noisy) > 0.99


def test_a_feature_with_one_cell_cannot_be_cut():
    counts = np.array([[[5.0, 5.0], [0.0, 0.0]]])
    starts = np.array([[True, False]])
    one = np.array([QUIET])
    for numeric in (True, False):
        score, *_ = best_cut(counts, starts, numeric, counts.sum(1), one, one, np.array([1]))
        assert score[0] == -np.inf


def test_values_within_noise_tie():
    counts = np.array([[[100.0, 0.0], [52.0, 48.0], [48.0, 52.0], [0.0, 100.0]]])
    shares = np.array([[0.5, 0.5]])
    starts = np.ones((1, 4), dtype=bool)
    place = order_values(counts, starts, shares, np.array([25.0]), np.array([4]))[0].tolist()
    assert place in ([0, 1, 2, 3], [3, 1, 2, 0])  # the middle two keep their natural order


def test_cells_hold_enough_rows_and_cover_what_is_reachable():
    schema = Schema(np.array([16, 3]), np.array([True, False]), 2)
    reachable = np.ones((3, 19), dtype=bool)
    reachable[1, :5] = False
    start, starts = make_cells(schema, reachable, np.array([64.0, 320.0, 1e6]), np.full(3, 10.0))
    assert starts[:, :16].sum(axis=1).tolist() == [2, 4, 16]
    assert starts[:, 16:].all()  # categories are never grouped
    for node in range(3):
        codes = np.flatnonzero(reachable[node])
        assert starts[node, start[node, codes]].all()
        assert (start[node, codes] <= codes).all()


def test_consistent_counts_agree_and_exact_ones_stay():
    schema = Schema(np.array([2, 3]), np.array([False, False]), 2)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 50, size=(2, 2))
    second = np.array([first.sum(axis=0) // 2, [1, 1], [0, 0]])
    second[2] = first.sum(axis=0) - second.sum(axis=0)
    exact = np.concatenate([first, second]).astype(float)[None]
    starts, asked = np.ones((1, 5), dtype=bool), np.ones((1, 2), dtype=bool)
    prior = (np.zeros((1, 2)), np.array([1e18]))
    same, totals, _, _ = make_consistent(schema, exact, starts, asked, np.ones(1), *prior)
    assert np.allclose(same, exact) and np.allclose(totals, first.sum(axis=0))
    noisy = exact + rng.normal(size=exact.shape)
    counts, totals, variance, _ = make_consistent(schema, noisy, starts, asked, np.ones(1), *prior)
    assert np.allclose(counts[:, :2].sum(axis=1), totals)
    assert np.allclose(counts[:, 2:].sum(axis=1), totals)
    assert variance[0] == pytest.approx(1 / (1 / 2 + 1 / 3))


def test_the_variance_of_groups_of_consistent_cells_is_the_predicted_one():
    """20,000 draws; five standard errors of a variance are 5 %."""
    schema = Schema(np.array([4, 6]), np.array([True, True]), 2)
    rng = np.random.default_rng(1)
    n, sd = 20_000, 3.0
    noisy = sd * rng.normal(size=(n, 10, 2))
    counts, totals, variance, n_cells = make_consistent(
        schema,
        noisy,
        np.ones((n, 10), dtype=bool),
        np.ones((n, 2), dtype=bool),
        np.full(n, sd),
        np.zeros((n, 2)),
        np.full(n, 1e18),
    )
    assert totals[:, 0].var() == pytest.approx(variance[0], rel=0.05)
    for size in (1, 2, 3):
        expected = group_variance(np.array(size), np.array(4), np.array(sd**2), variance[0])
        assert counts[:, :size, 0].sum(axis=1).var() == pytest.approx(expected, rel=0.05)


def test_leaves_lean_on_their_parent_where_noise_explains_the_difference():
    parents = np.array([-1, 0, 0])
    counts = np.array([[80.0, 20.0], [40.0, 10.0], [41.0, 9.0]])
    far = leaf_probabilities(parents, counts, np.array([1.0, 100.0, 100.0]))
    near = leaf_probabilities(parents, counts, np.array([1e-6, 1e-6, 1e-6]))
    assert np.allclose(far[0], [0.8, 0.2]) and np.allclose(far[2], far[0])
    assert np.allclose(near[2], [0.82, 0.18], atol=1e-6)
    assert np.allclose(far.sum(axis=1), 1)


def test_probabilities_are_sound_for_senseless_counts():
    parents = np.array([-1, 0, 1, 2])
    counts = np.array([[-5.0, -5.0], [0.0, 0.0], [-1e9, 3.0], [1e150, 1.0]])
    probabilities = leaf_probabilities(parents, counts, np.ones(4))
    assert np.isfinite(probabilities).all() and (probabilities >= 0).all()
    assert np.allclose(probabilities.sum(axis=1), 1)


def test_the_planned_depth_grows_with_the_rows():
    depths = [planned_depth(n, lambda depth: 10.0 * depth**0.5) for n in (0, 100, 1e3, 1e4, 1e9)]
    assert depths == sorted(depths) and depths[0] == 1 and depths[-1] == 12


def test_growing_asks_only_what_was_worth_asking():
    """Feature 0 decides the class, feature 1 is noise: below the root neither is asked again."""
    schema = Schema(np.array([2, 2]), np.array([False, False]), 2)
    growth = Growth(schema, 400.0)
    query = growth.ask(lambda squared, absolute: 1.0)
    X = np.array([[a, b] for a in (0, 1) for b in (0, 1)] * 100, dtype=np.int16)
    y = X[:, 0].astype(int)
    growth.learn(query.ticks(X, y, None).astype(float))
    assert growth.ask(lambda squared, absolute: 1.0) is None
    tree = growth.finish()
    assert tree.node_count == 3 and tree.feature[0] == 0
    assert np.array_equal(tree.probabilities[tree.apply(X)].argmax(axis=1), y)


def test_weights_even_out_sensitivity_within_their_limit():
    n_asked = np.array([2300, 1, 40])
    for laplace, power in ((True, 1), (False, 2)):
        weights = _even_weights(n_asked, laplace)
        assert (weights >= 1).all() and (weights <= MAX_WEIGHT).all()
        assert (n_asked * weights**power).max() <= 2300 * weights[0] ** power


def test_information_is_that_of_the_paper():
    value_counts = np.array([[10.0, 0.0, -3.0, 4.0]])
    class_counts = np.array([[[5.0, 5.0], [2.0, 1.0], [1.0, 1.0], [4.0, -1.0]]])
    assert information(value_counts, class_counts)[0] == pytest.approx(10 * np.log(0.5))

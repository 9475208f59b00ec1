"""Sums over rows are exact, equal to the row-by-row definition, and bounded (G7, G8)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.federation._query import RowQuery
from sklearn_fedpriv.svm._queries import (
    LARGEST_LOSS,
    LEVELS,
    SCALE_LEVELS,
    HingeGradient,
    HingeLoss,
    RowScale,
    exact_weights,
)
from sklearn_fedpriv.svm._rows import ROW_TICKS, hold

MOST = 2**31 - 1


def table(n=300, d=5, n_classes=3, seed=0):
    """Coded rows, some of them hostile: too long, duplicates, zeros, labels of no class."""
    rng = np.random.default_rng(seed)
    X = hold(rng.normal(size=(n, d)), 1.5)
    X[0] = MOST
    X[1] = -MOST
    X[2] = 0
    X[3, 0] = ROW_TICKS + 1
    X[4] = X[5]
    y = rng.integers(0, n_classes, size=n)
    y[6:9] = [-1, n_classes, 10**6]
    return X, y


def query(kind=HingeGradient, n_classes=3, d=5, intercept=True, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(1 if n_classes == 2 else n_classes, d + 1)) * 2
    levels = rng.integers(1, LEVELS, n_classes) if weighted else np.full(n_classes, LEVELS)
    levels[0] = LEVELS
    constant = 20_000 if intercept else 0
    return kind(*exact_weights(weights, 1.5), constant, tuple(levels.tolist()))


CASES = [
    query(kind, n_classes, 5, intercept, weighted)
    for kind in (HingeGradient, HingeLoss)
    for n_classes in (2, 3, 7)
    for intercept in (True, False)
    for weighted in (True, False)
]


@pytest.mark.parametrize("case", [*CASES, RowScale(True), RowScale(False)])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_fast_sum_is_the_definition_and_both_are_bounded(case, sparse):
    n_classes = 3 if isinstance(case, RowScale) else len(case.class_levels)
    X, y = table(n_classes=n_classes)
    rows = csr_matrix(X) if sparse else X
    expected = RowQuery.ticks(case, X, y, None)
    assert np.array_equal(case.ticks(rows, y, None), expected)
    alone = [case.ticks(rows[i : i + 1], y[i : i + 1], None) for i in range(len(y))]
    assert np.array_equal(np.sum(alone, axis=0), expected)
    moves = np.array(alone).astype(object)
    assert max((moves**2).sum(axis=1)) <= case.bound
    if not isinstance(case, RowScale):
        assert not any(moves[i].any() for i in (0, 1, 3, 6, 7, 8))
    assert expected.any()


def test_a_sum_over_many_blocks_is_the_sum_over_their_parts():
    X, y = table(n=5000)
    case = query()
    parts = case.ticks(X[:77], y[:77], None) + case.ticks(X[77:], y[77:], None)
    assert np.array_equal(case.ticks(X, y, None), parts)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_gradient_is_the_derivative_of_the_loss(n_classes):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(200, 4))
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    y = rng.integers(0, n_classes, 200)
    blocks = 1 if n_classes == 2 else n_classes
    w = rng.normal(size=(blocks, 5))

    def loss(w):
        scores = Z @ w[:, :-1].T + 0.25 * w[:, -1]
        if blocks == 1:
            return np.maximum(0, 1 - np.where(y == 1, 1, -1) * scores[:, 0]).sum()
        own = scores[np.arange(200), y].copy()
        scores[np.arange(200), y] = -np.inf
        return np.maximum(0, 1 - own + scores.max(axis=1)).sum()

    case = HingeGradient(*exact_weights(w, 1.0), ROW_TICKS // 4, (LEVELS,) * n_classes)
    gradient = case.ticks(hold(Z, 1.0), y, None).reshape(w.shape) / ROW_TICKS
    step = np.zeros_like(w)
    for place in np.ndindex(w.shape):
        step[place] = 1e-6
        slope = (loss(w + step) - loss(w - step)) / 2e-6
        assert -gradient[place] == pytest.approx(slope, abs=0.02)
        step[place] = 0
    losses = HingeLoss(case.weights, case.margin, case.intercept, case.class_levels)
    share = losses.ticks(hold(Z, 1.0), y, None)[0] / LEVELS * LARGEST_LOSS
    assert share <= loss(w)
    gentle = replace(losses, weights=case.weights // 8)
    expected = loss(w / 8)
    assert gentle.ticks(hold(Z, 1.0), y, None)[0] / LEVELS * LARGEST_LOSS == pytest.approx(
        expected, abs=0.5
    )


def test_a_row_that_is_far_wrong_counts_as_much_as_any_other_wrong_one():
    X, weights = hold(np.array([[1.0], [1.0]]), 1.0), np.array([[50.0, 0.0]])
    case = HingeLoss(*exact_weights(weights, 1.0), 0, (LEVELS, LEVELS))
    assert case.ticks(X, np.array([0, 1]), None).tolist() == [LEVELS]


def test_losses_are_weighted_like_the_gradients():
    """The same row in a class of a quarter of the weight has a quarter of the loss."""
    X, weights = hold(np.array([[1.0], [-1.0]]), 1.0), np.array([[0.5, 0.0]])
    case = HingeLoss(*exact_weights(weights, 1.0), 0, (LEVELS // 4, LEVELS))
    losses = [case.ticks(X[i : i + 1], np.array([i]), None)[0] for i in range(2)]
    assert losses == [1.5 / 4 * LEVELS / LARGEST_LOSS, 1.5 * LEVELS / LARGEST_LOSS]


def test_the_scale_is_counts_and_lengths():
    X = hold(np.array([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    answer = RowScale(True).ticks(X, None, None) / SCALE_LEVELS
    assert np.allclose(answer, [1.5, 1.25, 3], atol=1e-3)
    assert len(RowScale(False).ticks(X, None, None)) == RowScale(False).length == 2


@pytest.mark.parametrize("size", [0.0, 1e-30, 1.0, 1e30])
def test_whole_weights_are_the_weights(size):
    w = np.array([[3.0, -4.0, 1.0]]) * size
    whole, margin = exact_weights(w, 1.5)
    scores = whole @ np.array([ROW_TICKS, 0, 0])
    assert scores[0] / margin == pytest.approx(3 * size * 1.5, rel=1e-8)
    HingeGradient(whole, margin, 0, (LEVELS, LEVELS))


@pytest.mark.parametrize(
    "change",
    [
        {"weights": np.full((3, 6), 2**32, dtype=np.int64)},
        {"intercept": ROW_TICKS + 1},
        {"intercept": -1},
        {"class_levels": (LEVELS + 1, 1, 1)},
        {"class_levels": (LEVELS, LEVELS)},
    ],
)
def test_a_query_that_is_past_what_is_exact_cannot_be_made(change):
    with pytest.raises(ValueError, match=r"too large|levels|block"):
        replace(query(), **change)


def test_weights_that_are_not_whole_are_refused():
    with pytest.raises(TypeError, match="whole numbers"):
        replace(query(), weights=query().weights / 2)


def test_rows_of_another_type_are_refused():
    with pytest.raises(TypeError, match="int32"):
        query().ticks(np.full((3, 5), np.nan), np.zeros(3, dtype=int), None)


def test_a_query_travels():
    case = query()
    assert np.array_equal(from_bytes(to_bytes(case)).weights, case.weights)

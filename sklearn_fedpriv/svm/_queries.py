"""What is asked of the rows: how long they are, their subgradients of the hinge, its loss."""

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._query import MAX_ROWS, RowQuery, Tools, blocks_of
from sklearn_fedpriv.svm._rows import ROW_TICKS

LEVELS = 2**10  # of a loss and of a class weight
SCALE_LEVELS = 2**20  # of a length and of its square
LARGEST_LOSS = 2.0  # of a row: the loss of a zero model on a row scored wrong by as much
_LARGEST_WEIGHT = 2.0**33  # of one class's weights, so that scores and their differences are exact


def as_block(X: Any) -> tuple[Any, np.ndarray]:
    """Rows as float64, those longer than the bound as zeros, and which those are.

    Whole numbers in, so nothing is NaN or infinite; a squared length that is too large to be exact
    is far beyond the bound.
    """
    if X.dtype != np.int32:
        raise TypeError(f"Coded rows must be int32; got {X.dtype}.")
    if issparse(X):
        rows = X.astype(np.float64)
        long = np.asarray(rows.multiply(rows).sum(axis=1)).ravel() > ROW_TICKS**2
        if long.any():
            rows.data[np.repeat(long, np.diff(rows.indptr))] = 0.0
        return rows, long
    rows = X.astype(np.float64)
    long = np.einsum("ij,ij->i", rows, rows) > ROW_TICKS**2
    rows[long] = 0.0
    return rows, long


@record
@dataclass(frozen=True)
class RowScale(RowQuery):
    """Sums of the rows' lengths and squared lengths, and the number of rows.

    Each is at most 1 a row in parts of the bound, which is ``SCALE_LEVELS``.

    Parameters
    ----------
    counted : bool
        Whether the number of rows is asked too.
    """

    integral = True
    counted: bool

    @property
    def length(self) -> int:
        """Two numbers, or three."""
        return 2 + self.counted

    @property
    def bound(self) -> int:
        """Squared."""
        return self.length * SCALE_LEVELS**2

    @property
    def absolute_bound(self) -> int:
        """Every number at most ``SCALE_LEVELS``."""
        return self.length * SCALE_LEVELS

    def contributions(self, X: Any, y: Any) -> np.ndarray:
        """Length, squared length and 1, in levels, rounded down."""
        rows, _ = as_block(X)
        squared = rows.multiply(rows).sum(axis=1) if issparse(rows) else (rows * rows).sum(axis=1)
        part = np.asarray(squared).reshape(-1, 1) / ROW_TICKS**2
        parts = [np.sqrt(part), part, np.ones_like(part)][: self.length]
        return np.floor(np.hstack(parts) * SCALE_LEVELS).astype(np.int64)


@record
@dataclass(frozen=True, eq=False)
class HingeQuery(RowQuery):
    """What the queries about a model have in common: its weights, and rows scored exactly.

    Parameters
    ----------
    weights : ndarray of shape (n_blocks, n_columns + 1), int64
        One block for two classes, else one a class; the intercept's last. Each block's length is
        below 2^33.
    margin : float
        The score that counts as 1.
    intercept : int
        The constant that goes with the last column, in ticks of a row; 0 for none.
    class_levels : tuple of int
        Weight of each class, in levels of the largest.
    """

    integral = True
    weights: np.ndarray
    margin: float
    intercept: int
    class_levels: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.weights.dtype != np.int64:
            raise TypeError(f"Weights must be whole numbers, int64; got {self.weights.dtype}.")
        lengths = np.sqrt((self.weights.astype(np.float64) ** 2).sum(axis=1))
        if not (lengths < _LARGEST_WEIGHT).all() or not 0 <= self.intercept <= ROW_TICKS:
            raise ValueError("The weights or the intercept are too large for exact scores.")
        if not all(0 <= level <= LEVELS for level in self.class_levels):
            raise ValueError(f"Class weights must be in [0, {LEVELS}] levels.")
        if self.weights.shape[0] != (1 if len(self.class_levels) == 2 else len(self.class_levels)):
            raise ValueError("There must be one block of weights a class, or one for two classes.")

    @property
    def weighted(self) -> bool:
        """Whether classes have different weights."""
        return len(set(self.class_levels)) > 1

    @property
    def _levels(self) -> np.ndarray:
        """Weight of each class; and none for a label that is no class."""
        levels = self.class_levels if self.weighted else (1,) * len(self.class_levels)
        return np.array([*levels, 0], dtype=np.float64)

    def _known(self, y: np.ndarray) -> np.ndarray:
        n_classes = len(self.class_levels)
        return np.where((y >= 0) & (y < n_classes), y, n_classes).astype(np.int64)

    def _gaps(self, rows: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much each row's own class leads the best other one, and which that is.

        Whole numbers below 2^53, hence exact; for two classes the other block is none.
        """
        w = self.weights.astype(np.float64)
        scores = np.asarray(rows @ w[:, :-1].T) + self.intercept * w[:, -1]
        if scores.shape[1] == 1:
            return np.where(y == 1, scores[:, 0], -scores[:, 0]), np.zeros(len(y), dtype=np.int64)
        here = np.arange(len(y)), np.minimum(y, scores.shape[1] - 1)
        own = scores[here]
        scores[here] = -np.inf
        best = scores.argmax(axis=1)
        return own - scores[here[0], best], best


@record
@dataclass(frozen=True, eq=False)
class HingeGradient(HingeQuery):
    """Sum of negative subgradients of the hinge; for several classes that of Crammer and Singer.

    A row whose own class leads by less than the margin adds itself to its class's block and, of
    several, takes itself from the best other class's.
    """

    @property
    def length(self) -> int:
        """All weights, without the intercept's if there is none."""
        return self.weights.shape[0] * (self.weights.shape[1] - (self.intercept == 0))

    @property
    def bound(self) -> int:
        """Squared: one row, its constant and its class's weight, in one block or in two."""
        blocks = 1 if len(self.class_levels) == 2 else 2
        levels = LEVELS if self.weighted else 1
        return blocks * levels**2 * (ROW_TICKS**2 + self.intercept**2)

    def coefficients(self, rows: Any, y: np.ndarray, long: np.ndarray) -> np.ndarray:
        """How often each row goes into each block, whole numbers of shape (n, n_blocks)."""
        y = self._known(y)
        lead, other = self._gaps(rows, y)
        push = np.where((lead < self.margin) & ~long, self._levels[y], 0.0)
        if len(self.weights) == 1:
            return (push * np.where(y == 1, 1.0, -1.0))[:, None]
        coefficients = np.zeros((len(y), len(self.weights)))
        place = np.arange(len(y))
        coefficients[place, np.minimum(y, len(self.weights) - 1)] = push
        coefficients[place, other] -= push
        return coefficients

    def contributions(self, X: Any, y: Any) -> np.ndarray:
        """The definition, row by row."""
        rows, long = as_block(X)
        parts = self.coefficients(rows, y, long)
        rows = np.asarray(rows.todense() if issparse(rows) else rows)
        if self.intercept:
            rows = np.hstack([rows, np.full((len(rows), 1), float(self.intercept))])
        return (parts[:, :, None] * rows[:, None, :]).reshape(len(rows), -1).astype(np.int64)

    def ticks(self, X: Any, y: Any, tools: Tools | None) -> np.ndarray:
        """The same sum by matrix products, exact since every number in them is whole.

        A row adds at most 2^10 levels x 2^16 ticks to any number.
        """
        total = np.zeros((len(self.weights), self.weights.shape[1]))
        for block in blocks_of(X):
            rows, long = as_block(X[block])
            parts = self.coefficients(rows, y[block], long)
            total[:, :-1] += np.asarray(rows.T @ parts).T
            total[:, -1] += self.intercept * parts.sum(axis=0)
        kept = total if self.intercept else total[:, :-1]
        return kept.astype(np.int64).ravel()


@record
@dataclass(frozen=True, eq=False)
class HingeLoss(HingeQuery):
    """Sum of the rows' hinge losses, each at most ``LARGEST_LOSS``, which is ``LEVELS``.

    Losses are weighted by class, in parts of the largest weight, like the gradients.
    """

    length = 1
    bound = LEVELS**2

    @property
    def absolute_bound(self) -> int:
        """One number of at most ``LEVELS``."""
        return LEVELS

    def contributions(self, X: Any, y: Any) -> np.ndarray:
        """The loss of each row in levels."""
        rows, long = as_block(X)
        y = self._known(y)
        lead, _ = self._gaps(rows, y)
        loss = np.clip(1 - lead / self.margin, 0, LARGEST_LOSS) * (LEVELS / LARGEST_LOSS)
        part = self._levels[y] / self._levels.max()
        return np.where(long, 0, np.floor(loss * part))[:, None].astype(np.int64)


def exact_weights(weights: np.ndarray, row_bound: float) -> tuple[np.ndarray, float]:
    """Whole-number weights whose scores are exact, and the score that counts as 1.

    Parameters
    ----------
    weights : ndarray of shape (n_blocks, n_columns + 1)
        In data units.
    row_bound : float
        Length of ``ROW_TICKS`` ticks of a row, in data units.

    Returns
    -------
    whole : ndarray of the same shape, int64
    margin : float
    """
    largest = np.sqrt((weights * weights).sum(axis=1)).max()
    # Rounding adds half a tick a number; with the largest length at 2^32 that is no matter.
    exponent = 32 - ceil(np.log2(max(largest, 2.0**-64)))
    whole = np.rint(np.ldexp(weights, exponent)).astype(np.int64)
    return whole, float(np.ldexp(ROW_TICKS / row_bound, exponent))


assert MAX_ROWS * LEVELS * ROW_TICKS < 2**53  # a party's sum is exact in float64

"""Growing a tree level by level: what to ask next, and what to make of the answer."""

from collections.abc import Callable

import numpy as np

from sklearn_fedpriv.tree._histogram import MAX_WEIGHT, LevelHistogram
from sklearn_fedpriv.tree._splits import (
    Schema,
    best_cut,
    group_variance,
    leaf_probabilities,
    make_cells,
    make_consistent,
)
from sklearn_fedpriv.tree._tree import LEAF, Tree

MAX_DEPTH = 12  # the deepest tree that is grown unless the user asks for more
ROWS_PER_LEAF = 2.0  # an average leaf of the planned depth holds so many noise sd of rows
FINEST_WEIGHT = 32
_NO_NOISE = 1e-6
_IGNORANCE = 1e18

NoiseSd = Callable[[int, int], float]  # of a count, from squared L2 and L1 sensitivity


def planned_depth(n_rows: float, sd_at: Callable[[int], float], deepest: int = MAX_DEPTH) -> int:
    """Most levels for which the average leaf of a full tree still stands out of the noise.

    Parameters
    ----------
    n_rows : float
        Hint or noisy count.
    sd_at : callable
        Noise of a count when the budget is split over so many levels and all features are asked.
    """
    depth = 1
    while depth < deepest and stands_out(n_rows / 2**depth, sd_at(depth + 1)):
        depth += 1
    return depth


def stands_out(n_rows: float, sd: float) -> bool:
    """Whether the halves of so many rows stand out of the noise of a count."""
    return n_rows / 2 >= ROWS_PER_LEAF * sd


class Growth:
    """A tree that grows: ``ask`` for the next level's query, ``learn`` from its answer, ``finish``.

    A node is asked only those features that were worth a split at its parent, as its noise grows
    with the number of features asked.

    Parameters
    ----------
    schema : Schema
    n_rows : float
        Hint or noisy count, for the coarseness of the first bins.
    laplace : bool
        Whether noise grows with the L1 sensitivity.
    """

    def __init__(self, schema: Schema, n_rows: float, *, laplace: bool = False) -> None:
        self.schema = schema
        self._laplace = laplace
        self._feature: list[int] = []
        self._right: list[np.ndarray] = []
        self._children: list[tuple[int, int]] = []
        self._parent: list[int] = []
        self._counts: list[np.ndarray] = []
        self._variance: list[float] = []
        self._reachable: list[np.ndarray] = []
        self._worth_asking: list[np.ndarray] = []
        even = np.full(schema.n_classes, max(n_rows, 1.0) / schema.n_classes)
        everything = np.ones(schema.n_codes, dtype=bool)
        n_features = len(schema.n_values)
        self._open = [self._add(-1, even, _IGNORANCE, everything, np.ones(n_features, dtype=bool))]

    def _add(
        self,
        parent: int,
        counts: np.ndarray,
        variance: float,
        reachable: np.ndarray,
        worth_asking: np.ndarray,
    ) -> int:
        self._feature.append(LEAF)
        self._right.append(np.zeros(self.schema.n_values.max() + 1, dtype=bool))
        self._children.append((LEAF, LEAF))
        self._parent.append(parent)
        self._counts.append(counts)
        self._variance.append(variance)
        self._reachable.append(reachable)
        self._worth_asking.append(worth_asking)
        return len(self._feature) - 1

    def ask(self, noise_sd: NoiseSd) -> LevelHistogram | None:
        """The query of the next level; None when no node is left to split."""
        schema = self.schema
        asked = {node: self._asked_at(node) for node in self._open}
        self._open = [node for node in self._open if asked[node].any()]
        if not self._open:
            return None
        self._asked = np.array([asked[node] for node in self._open])
        reachable = np.array([self._reachable[node] for node in self._open])
        size = np.array([self._counts[node].sum() for node in self._open])

        n_asked = self._asked.sum(axis=1)
        self._weight = _even_weights(n_asked, self._laplace)
        squared = int((n_asked * self._weight**2).max())
        absolute = int((n_asked * self._weight).max())
        self._sd = np.maximum(noise_sd(squared, absolute) / self._weight, _NO_NOISE)

        start, starts = make_cells(schema, reachable, np.maximum(size, 1), self._sd)
        self._starts = starts & self._asked[:, schema.feature_of]
        number = np.cumsum(self._starts.ravel()).reshape(self._starts.shape) - 1
        answered = reachable & self._asked[:, schema.feature_of]
        cell = np.where(answered, np.take_along_axis(number, start, axis=1), -1)
        slot = np.full(len(self._feature), -1)
        slot[self._open] = np.arange(len(self._open))
        unknown = schema.first + schema.n_values  # one more code a feature, asked nowhere
        return LevelHistogram(
            feature=np.array(self._feature, dtype=np.int32),
            goes_right=np.array(self._right),
            children=np.array(self._children, dtype=np.int32),
            slot=slot.astype(np.int32),
            cell=np.insert(cell, unknown, -1, axis=1).astype(np.int32),
            weight=self._weight,
            n_values=schema.n_values,
            n_classes=schema.n_classes,
        )

    def _asked_at(self, node: int) -> np.ndarray:
        n_left = np.add.reduceat(self._reachable[node], self.schema.first, dtype=int)
        return self._worth_asking[node] & (n_left > 1)

    def learn(self, answer: np.ndarray) -> None:
        """Split the nodes of the level where the answer is worth it."""
        schema = self.schema
        counts = np.zeros((*self._starts.shape, schema.n_classes))
        counts[self._starts] = answer.reshape(-1, schema.n_classes)
        counts /= self._weight[:, None, None]
        counts, totals, variance, n_cells = make_consistent(
            schema,
            counts,
            self._starts,
            self._asked,
            self._sd,
            np.array([self._counts[node] for node in self._open]),
            np.array([self._variance[node] for node in self._open]),
        )
        noise = self._sd**2
        score = np.full(self._asked.shape, -np.inf)
        cuts = {}
        for feature in np.flatnonzero(self._asked.any(axis=0)):
            nodes = np.flatnonzero(self._asked[:, feature])
            codes = schema.codes(feature)
            score[nodes, feature], *cut = best_cut(
                counts[nodes, codes],
                self._starts[nodes, codes],
                bool(schema.numeric[feature]),
                totals[nodes],
                variance[nodes],
                noise[nodes],
                n_cells[nodes, feature],
            )
            for i, node in enumerate(nodes):
                cuts[node, feature] = [part[i] for part in cut]
        opened = []
        for i, node in enumerate(self._open):
            self._counts[node], self._variance[node] = totals[i], float(variance[i])
            best = int(score[i].argmax())
            if score[i, best] > 0:
                opened += self._split(
                    node, best, cuts[i, best], noise[i], n_cells[i, best], score[i] > 0
                )
        self._open = opened

    def _split(
        self,
        node: int,
        feature: int,
        cut: list,
        noise: float,
        n_cells: int,
        worth_asking: np.ndarray,
    ) -> list[int]:
        right, left_counts, n_left = cut
        right_counts = self._counts[node] - left_counts
        self._feature[node] = feature
        n_values = self.schema.n_values[feature]
        self._right[node][:n_values] = right
        self._right[node][n_values:] = right_counts.sum() > left_counts.sum()  # unknown values
        children = []
        for side, counts, n_side in (
            (~right, left_counts, n_left),
            (right, right_counts, n_cells - n_left),
        ):
            reachable = self._reachable[node].copy()
            reachable[self.schema.codes(feature)] &= side
            variance = float(group_variance(n_side, n_cells, noise, self._variance[node]))
            children.append(self._add(node, counts, variance, reachable, worth_asking))
        self._children[node] = (children[0], children[1])
        return children

    def finish(self) -> Tree:
        """The tree as it stands; leaves have the counts of the split that made them."""
        counts = np.array(self._counts)
        return Tree(
            feature=np.array(self._feature, dtype=np.int32),
            goes_right=np.array(self._right),
            children=np.array(self._children, dtype=np.int32),
            counts=counts,
            probabilities=leaf_probabilities(
                np.array(self._parent), counts, np.array(self._variance)
            ),
        )


def _even_weights(n_asked: np.ndarray, laplace: bool) -> np.ndarray:
    """Whole weights that bring each node's sensitivity up to that of the node asked most."""
    if (n_asked == n_asked.max()).all():
        return np.ones(len(n_asked), dtype=np.int64)
    ratio = n_asked.max() / n_asked
    weights = np.floor(FINEST_WEIGHT * (ratio if laplace else np.sqrt(ratio)))
    return np.minimum(weights, MAX_WEIGHT).astype(np.int64)

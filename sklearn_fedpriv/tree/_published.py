"""Algorithm 2 of Truex et al. (2019), query by query, as printed.

Private ID3 over categories: a node's count decides whether to stop; a leaf asks its class counts;
an inner node asks, for each feature left, the counts of its values and of its values by class, and
splits on all values of the feature with the largest information gain. The budget is divided evenly
over the layers; half of a layer's goes to the node counts, half to the classes or the features, and
each query is noised by itself. Not found in the paper and settled here: noisy counts below 0 count
as 0, and ties go to the first feature.

A split on many values is stored as a chain of splits of one value against the others, so that all
trees have one form.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sklearn_fedpriv.tree._histogram import LevelHistogram
from sklearn_fedpriv.tree._splits import Schema
from sklearn_fedpriv.tree._tree import LEAF, Tree

Release = Callable[[LevelHistogram, Fraction], np.ndarray]


def published_depth(n_features: int) -> int:
    """Half the number of features, as in all of the paper's experiments."""
    return max(1, n_features // 2)


def published_numbers(schema: Schema, depth: int) -> int:
    """How many numbers the releases of a tree may have, at most."""
    widest = np.sort(schema.n_values)[::-1]
    nodes, numbers = 1, 0
    for level in range(depth + 1):
        numbers += nodes * (1 + schema.n_classes + schema.n_codes * (1 + schema.n_classes))
        nodes = min(nodes * int(widest[min(level, len(widest) - 1)]), 2**40)
    return numbers


def grow_published(schema: Schema, depth: int, epsilon: float, release: Release) -> Tree:
    """Grow the tree of Algorithm 2.

    Parameters
    ----------
    schema : Schema
    depth : int
        Layers below the root.
    epsilon : float
        The whole budget, for the stop rule.
    release : callable
        Takes a query and its share of the budget.
    """
    tree = _Chains(schema)
    layer_half = Fraction(1, 2 * (depth + 1))
    threshold = 2**0.5 / (epsilon * float(layer_half))
    n_features = len(schema.n_values)
    layer = [(0, np.ones(n_features, dtype=bool))]
    for level in range(depth + 1):
        nodes = [node for node, _ in layer]
        size = release(tree.totals(nodes, by_class=False), layer_half)
        leaves, inner = [], []
        for (node, left), count in zip(layer, size, strict=True):
            widest = schema.n_values[left].max(initial=1)
            stop = not left.any() or level == depth
            stop = stop or count / (widest * schema.n_classes) <= threshold
            (leaves if stop else inner).append((node, left))
        if leaves:
            nodes = [node for node, _ in leaves]
            answer = release(tree.totals(nodes, by_class=True), layer_half)
            tree.counts[nodes] = answer.reshape(len(nodes), schema.n_classes)
        layer = _split_inner(tree, inner, layer_half, release)
        if not layer:
            break
    return tree.finish()


def _split_inner(
    tree: "_Chains",
    inner: list[tuple[int, np.ndarray]],
    layer_half: Fraction,
    release: Release,
) -> list[tuple[int, np.ndarray]]:
    """Split each inner node on its best feature; returns the next layer."""
    if not inner:
        return []
    schema = tree.schema
    nodes = [node for node, _ in inner]
    left = np.array([features for _, features in inner])
    share = layer_half / int(2 * left[0].sum())  # all nodes of a layer have as many features left
    gain = np.full(left.shape, -np.inf)
    for feature in range(len(schema.n_values)):
        asking = np.flatnonzero(left[:, feature])
        if len(asking):
            who = [nodes[i] for i in asking]
            shape = (len(who), schema.n_values[feature])
            n = release(tree.values(who, feature, by_class=False), share).reshape(shape)
            n_c = release(tree.values(who, feature, by_class=True), share)
            gain[asking, feature] = information(n, n_c.reshape(*shape, schema.n_classes))
    layer = []
    for node, features, best in zip(nodes, left, gain.argmax(axis=1), strict=True):
        remaining = features.copy()
        remaining[best] = False
        layer += [(child, remaining) for child in tree.split(node, int(best))]
    return layer


def information(value_counts: np.ndarray, class_counts: np.ndarray) -> np.ndarray:
    """``sum_v sum_c N_vc log(N_vc / N_v)``, largest where the information gain is.

    Parameters
    ----------
    value_counts : ndarray of shape (n_nodes, n_values)
    class_counts : ndarray of shape (n_nodes, n_values, n_classes)
    """
    counted = (class_counts > 0) & (value_counts > 0)[..., None]
    ratio = np.divide(
        class_counts, value_counts[..., None], out=np.ones_like(class_counts), where=counted
    )
    return np.where(counted, class_counts * np.log(ratio), 0.0).sum(axis=(1, 2))


class _Chains:
    """A growing tree whose splits on many values are chains of splits in two."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.feature = np.array([LEAF], dtype=np.int32)
        self.goes_right = np.zeros((1, schema.n_values.max() + 1), dtype=bool)
        self.children = np.full((1, 2), LEAF, dtype=np.int32)
        self.counts = np.zeros((1, schema.n_classes))

    def totals(self, nodes: list[int], *, by_class: bool) -> LevelHistogram:
        """One count a node, or one a class: all values of the first feature are one cell."""
        cell = np.full((len(nodes), int((self.schema.n_values + 1).sum())), -1, dtype=np.int32)
        cell[:, : self.schema.n_values[0] + 1] = np.arange(len(nodes))[:, None]
        return self._query(nodes, cell, by_class)

    def values(self, nodes: list[int], feature: int, *, by_class: bool) -> LevelHistogram:
        """One count a node and value of ``feature``, or one a class of each."""
        n_values = self.schema.n_values
        cell = np.full((len(nodes), int((n_values + 1).sum())), -1, dtype=np.int32)
        first = int((n_values[:feature] + 1).sum())
        number = np.arange(len(nodes) * n_values[feature]).reshape(len(nodes), -1)
        cell[:, first : first + n_values[feature]] = number
        return self._query(nodes, cell, by_class)

    def _query(self, nodes: list[int], cell: np.ndarray, by_class: bool) -> LevelHistogram:
        slot = np.full(len(self.feature), -1, dtype=np.int32)
        slot[nodes] = np.arange(len(nodes))
        return LevelHistogram(
            feature=self.feature,
            goes_right=self.goes_right,
            children=self.children,
            slot=slot,
            cell=cell,
            weight=np.ones(len(nodes), dtype=np.int64),
            n_values=self.schema.n_values,
            n_classes=self.schema.n_classes if by_class else 1,
        )

    def split(self, node: int, feature: int) -> list[int]:
        """Split on every value; returns one child a value."""
        n_values = int(self.schema.n_values[feature])
        ends = []
        for value in range(n_values - 1):
            child, rest = self._add(), self._add()
            self.feature[node] = feature
            self.goes_right[node] = np.arange(self.goes_right.shape[1]) != value
            self.children[node] = child, rest
            ends.append(child)
            node = rest
        return [*ends, node]

    def _add(self) -> int:
        self.feature = np.append(self.feature, np.int32(LEAF))
        self.goes_right = np.pad(self.goes_right, ((0, 1), (0, 0)))
        self.children = np.pad(self.children, ((0, 1), (0, 0)), constant_values=LEAF)
        self.counts = np.pad(self.counts, ((0, 1), (0, 0)))
        return len(self.feature) - 1

    def finish(self) -> Tree:
        """Inner nodes get the sum of their children's counts."""
        for node in np.flatnonzero(self.feature != LEAF)[::-1]:
            self.counts[node] = self.counts[self.children[node]].sum(axis=0)
        kept = np.maximum(self.counts, 0)
        kept = np.where(kept.sum(axis=1, keepdims=True) > 0, kept, 1.0)
        return Tree(
            feature=self.feature,
            goes_right=self.goes_right,
            children=self.children,
            counts=self.counts,
            probabilities=kept / kept.sum(axis=1, keepdims=True),
        )

"""A fitted tree as plain arrays: routing, text and importances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sklearn_fedpriv.tree._coding import TableCoder

LEAF = -1


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree over coded rows; node 0 is the root, children come after their parent.

    Everything in it follows from released sums and public facts.

    Attributes
    ----------
    feature : ndarray of shape (n_nodes,), int32
        Column that the node splits on; -1 for a leaf.
    goes_right : ndarray of shape (n_nodes, most_values + 1), bool
        By code of that column; the code after its last value stands for unknown values.
    children : ndarray of shape (n_nodes, 2), int32
        Left and right child; -1 for a leaf.
    counts : ndarray of shape (n_nodes, n_classes), float64
        Released estimates of the rows of each class; may be negative.
    probabilities : ndarray of shape (n_nodes, n_classes), float64
        Class probabilities; rows sum to 1.
    """

    feature: np.ndarray
    goes_right: np.ndarray
    children: np.ndarray
    counts: np.ndarray
    probabilities: np.ndarray

    @property
    def node_count(self) -> int:
        """Number of nodes, leaves included."""
        return len(self.feature)

    @property
    def max_depth(self) -> int:
        """Length of the longest path from the root."""
        depth = np.zeros(self.node_count, dtype=int)
        for node in np.flatnonzero(self.feature != LEAF):
            depth[self.children[node]] = depth[node] + 1
        return int(depth.max())

    def apply(self, codes: np.ndarray) -> np.ndarray:
        """Leaf of each row, int32 of shape (n_rows,)."""
        return route(codes, self.feature, self.goes_right, self.children)


def route(
    codes: np.ndarray, feature: np.ndarray, goes_right: np.ndarray, children: np.ndarray
) -> np.ndarray:
    """The node without a split that each coded row reaches, int32 of shape (n_rows,)."""
    node = np.zeros(len(codes), dtype=np.int32)
    rows = np.arange(len(codes)) if feature[0] != LEAF else np.arange(0)
    while len(rows):
        at = node[rows]
        right = goes_right[at, codes[rows, feature[at]]]
        node[rows] = children[at, right.astype(np.int8)]
        rows = rows[feature[node[rows]] != LEAF]
    return node


def importances(tree: Tree, n_features: int) -> np.ndarray:
    """Gini importance of each column from the released counts, summing to 1 unless all are 0."""
    counts = np.maximum(tree.counts, 0)
    size = counts.sum(axis=1)
    impurity = size - np.divide(
        (counts**2).sum(axis=1), size, out=np.zeros_like(size), where=size > 0
    )
    gains = np.zeros(n_features)
    for node in np.flatnonzero(tree.feature != LEAF):
        gain = impurity[node] - impurity[tree.children[node]].sum()
        gains[tree.feature[node]] += max(gain, 0.0)
    return gains / gains.sum() if gains.sum() > 0 else gains


def export_text(tree: Tree, coder: TableCoder, *, decimals: int = 2) -> str:
    """The tree as indented rules, in scikit-learn's form.

    Parameters
    ----------
    tree : Tree
    coder : TableCoder
        Names of columns, values and classes.
    decimals : int, default=2
        Of thresholds and probabilities.
    """
    lines: list[str] = []

    def write(node: int, depth: int, reachable: Sequence[np.ndarray]) -> None:
        indent = "|   " * depth + "|--- "
        f = tree.feature[node]
        if f == LEAF:
            best = int(tree.probabilities[node].argmax())
            share = tree.probabilities[node][best]
            lines.append(f"{indent}class: {coder.classes[best]} ({share:.{decimals}f})")
            return
        column = coder.columns[f]
        right = tree.goes_right[node, : len(reachable[f])]
        for side, child in zip((~right, right), tree.children[node], strict=True):
            kept = reachable[f] & side
            if column.numeric:
                edge = coder.edges(column)[np.flatnonzero(~right)[-1]]
                rule = f"{'>' if side is right else '<='} {edge:.{decimals}f}"
            else:
                values = [column.categories[i] for i in np.flatnonzero(kept)]
                rule = "in {" + ", ".join(map(str, values)) + "}"
            lines.append(f"{indent}{column.name} {rule}")
            below = list(reachable)
            below[f] = kept
            write(int(child), depth + 1, below)

    write(0, 0, [np.ones(n, dtype=bool) for n in coder.n_values])
    return "\n".join(lines) + "\n"

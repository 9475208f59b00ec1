"""What is asked of the rows: one histogram a level of the tree."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._query import RowQuery, Tools
from sklearn_fedpriv.tree._tree import LEAF, route

MAX_WEIGHT = 2**16
MOST_NUMBERS = 2**31


@record
@dataclass(frozen=True)
class RowCount(RowQuery):
    """Number of rows of all parties."""

    integral = True
    bound = 1
    length = 1

    def contributions(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.ones((len(X), 1), dtype=np.int64)

    def ticks(self, X: np.ndarray, y: np.ndarray, tools: Tools | None) -> np.ndarray:
        return np.array([len(X)])


@record
@dataclass(frozen=True, eq=False)
class LevelHistogram(RowQuery):
    """Counts of (open node, cell of a feature, class), for all open nodes of a level at once.

    A cell is a value, or several neighbouring bins, of one feature at one node. A row counts at its
    node only, once for each feature asked there, with the node's whole weight: weights even out
    the noise of nodes that are asked fewer features.

    Parameters
    ----------
    feature, goes_right, children : ndarray
        The tree so far, as in ``Tree``.
    slot : ndarray of shape (n_nodes,), int32
        Number of the open node, or -1.
    cell : ndarray of shape (n_open, n_codes), int32
        Number of the cell that a code belongs to, or -1 where nothing is asked. Codes of all
        features stand side by side, each feature with one more for unknown values.
    weight : ndarray of shape (n_open,), int64
        In [1, 2**16].
    n_values : ndarray of shape (n_features,), int64
    n_classes : int
        1 counts rows whatever their class.
    """

    integral = True

    feature: np.ndarray
    goes_right: np.ndarray
    children: np.ndarray
    slot: np.ndarray
    cell: np.ndarray
    weight: np.ndarray
    n_values: np.ndarray
    n_classes: int

    def __post_init__(self) -> None:
        arrays = (self.feature, self.children, self.slot, self.cell, self.weight, self.n_values)
        if not all(np.issubdtype(array.dtype, np.integer) for array in arrays):
            raise ValueError("nodes, cells, weights and numbers of values must be integers")
        if self.weight.dtype != np.int64 or self.n_values.dtype != np.int64:
            raise ValueError("weights and numbers of values must be int64, where products fit")
        if any(array.dtype != np.int32 for array in arrays[:4]):
            raise ValueError("nodes, slots and cells must be int32")
        if self.goes_right.dtype != np.bool_:
            raise ValueError("goes_right must be bool")
        n_nodes, n_open, n_features = len(self.feature), len(self.weight), len(self.n_values)
        if min(n_features, n_nodes, n_open, self.n_classes) < 1 or (self.n_values < 1).any():
            raise ValueError("there must be nodes, features, values and classes")
        n_codes = int(self.n_values.astype(object).sum()) + n_features
        shapes = {
            "feature": (n_nodes,),
            "goes_right": (n_nodes, int(self.n_values.max()) + 1),
            "children": (n_nodes, 2),
            "slot": (n_nodes,),
            "cell": (n_open, n_codes),
            "weight": (n_open,),
            "n_values": (n_features,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}")
        splits = np.flatnonzero(self.feature != LEAF)
        if not ((self.feature >= LEAF) & (self.feature < n_features)).all():
            raise ValueError("splits must name features")
        forwards = self.children[splits] > splits[:, None]
        if not (forwards.all() and (self.children < n_nodes).all()):
            raise ValueError("children must come after their parent")
        if not ((self.slot >= -1) & (self.slot < n_open)).all():
            raise ValueError("slots must name open nodes")
        if not ((self.weight >= 1) & (self.weight <= MAX_WEIGHT)).all():
            raise ValueError(f"weights must be in [1, {MAX_WEIGHT}]")
        if (self.cell < -1).any() or (self.cell >= self.cell.size).any():
            raise ValueError("cells must be numbered from 0, with -1 for none")
        if self.cell.size * self.n_classes > MOST_NUMBERS:
            raise ValueError(f"a histogram may have at most {MOST_NUMBERS} numbers")
        owner = np.arange(n_open)[:, None] * len(self.n_values) + self._feature_of
        asked = self.cell >= 0
        lowest = np.full(self._n_cells, np.iinfo(np.int64).max)
        highest = np.full(self._n_cells, -1)
        np.minimum.at(lowest, self.cell[asked], owner[asked])
        np.maximum.at(highest, self.cell[asked], owner[asked])
        if (lowest != highest).any():
            raise ValueError("each cell must belong to one feature at one node")

    @cached_property
    def _feature_of(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.n_values)), self.n_values + 1)

    @cached_property
    def _n_cells(self) -> int:
        return int(self.cell.max(initial=-1)) + 1

    @property
    def _n_asked(self) -> np.ndarray:
        """Number of features asked at each open node."""
        first = np.cumsum(self.n_values + 1) - self.n_values - 1
        return (np.maximum.reduceat(self.cell, first, axis=1) >= 0).sum(axis=1)

    @property
    def length(self) -> int:
        return self._n_cells * self.n_classes

    @property
    def bound(self) -> int:
        return int((self._n_asked * self.weight**2).max(initial=1))

    @property
    def absolute_bound(self) -> int:
        return int((self._n_asked * self.weight).max(initial=1))

    def _places(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Open node of each row, -1 for none, and the number it counts in for each feature."""
        sound = ((X >= 0) & (X <= self.n_values)).all(axis=1)
        X = np.where(sound[:, None], X, 0)  # such rows count nowhere, and index nothing
        slot = self.slot[route(X, self.feature, self.goes_right, self.children)]
        y = np.zeros_like(y) if self.n_classes == 1 else y
        sound &= (y >= 0) & (y < self.n_classes) & (slot >= 0)
        first = np.cumsum(self.n_values + 1) - self.n_values - 1
        cell = self.cell[slot[:, None], X + first]
        counted = (cell >= 0) & sound[:, None]
        place = cell.astype(np.int64) * self.n_classes + y[:, None]
        return slot, np.where(counted, place, -1)

    def contributions(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        slot, places = self._places(X, y)
        rows = np.zeros((len(X), self.length), dtype=np.int64)
        for row, (node, place) in enumerate(zip(slot, places, strict=True)):
            for at in place[place >= 0]:
                rows[row, at] += self.weight[node]
        return rows

    def ticks(self, X: np.ndarray, y: np.ndarray, tools: Tools | None) -> np.ndarray:
        """One count over all rows and features; the same as the definition, tested so.

        A row counts at most once for each feature asked at its node, since a row has one node and
        a feature one code, so its contribution is within the bounds without a look at it.
        """
        _, places = self._places(X, y)
        counts = np.bincount(places[places >= 0], minlength=self.length)
        return counts * np.repeat(self._cell_weight, self.n_classes)

    @property
    def _cell_weight(self) -> np.ndarray:
        weights = np.zeros(self._n_cells, dtype=np.int64)
        node, code = np.nonzero(self.cell >= 0)
        weights[self.cell[node, code]] = self.weight[node]
        return weights

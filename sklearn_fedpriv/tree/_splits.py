"""Pure functions of released histograms: cells to ask for, consistent counts, splits, leaves.

Arrays are indexed ``[node, code, class]``, with the codes of all features side by side; ``sd`` is
the standard deviation of the noise of one count, by node. All rules were settled by measurement
(``docs/decisions.md``): where they weigh evidence they compare it with what noise alone would give.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

EXCESS = 2.0  # a split must gain so many times what is expected where there is nothing to gain
SIZE_FLOOR = 4.0  # a group counts as no smaller than so many standard deviations of its own size
ROWS_PER_CELL = 8.0  # a cell of neighbouring bins is to hold so many standard deviations of rows
_TINY = 1e-12


@dataclass(frozen=True)
class Schema:
    """Public facts about coded columns.

    Parameters
    ----------
    n_values : ndarray of shape (n_features,)
        Number of codes of each feature.
    numeric : ndarray of shape (n_features,), bool
        Whether codes are ordered bins.
    n_classes : int
    """

    n_values: np.ndarray
    numeric: np.ndarray
    n_classes: int

    @cached_property
    def first(self) -> np.ndarray:
        """First code of each feature."""
        return np.cumsum(self.n_values) - self.n_values

    @cached_property
    def feature_of(self) -> np.ndarray:
        """Feature of each code."""
        return np.repeat(np.arange(len(self.n_values)), self.n_values)

    @property
    def n_codes(self) -> int:
        """Codes of all features together."""
        return int(self.n_values.sum())

    def codes(self, feature: int) -> slice:
        """Codes of one feature."""
        return slice(self.first[feature], self.first[feature] + self.n_values[feature])


def make_cells(
    schema: Schema, reachable: np.ndarray, size: np.ndarray, sd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Group neighbouring bins so that a cell holds enough rows to stand out of the noise.

    Cells carry independent noise, so the cumulative counts of fewer cells are quieter; a child asks
    again, more finely, within its own interval.

    Returns
    -------
    start : ndarray of shape (n_nodes, n_codes), int
        First code of the cell that each code belongs to.
    starts : ndarray of shape (n_nodes, n_codes), bool
        Whether a code is the first of a cell.
    """
    start = np.broadcast_to(np.arange(schema.n_codes), reachable.shape).copy()
    starts = reachable.copy()
    wanted = 2 ** np.floor(np.log2(np.clip(size / (ROWS_PER_CELL * sd), 2, 2.0**20)))
    for feature in np.flatnonzero(schema.numeric):
        codes = schema.codes(feature)
        here = reachable[:, codes]
        n_bins = np.maximum(here.sum(axis=1), 1)[:, None]
        group = (np.cumsum(here, axis=1) - 1) * np.minimum(wanted[:, None], n_bins) // n_bins
        starts[:, codes] = here & (np.diff(group, axis=1, prepend=-1) > 0)
        begin = np.where(starts[:, codes], np.arange(codes.start, codes.stop), codes.start)
        start[:, codes] = np.maximum.accumulate(begin, axis=1)
    return start, starts


def make_consistent(
    schema: Schema,
    counts: np.ndarray,
    starts: np.ndarray,
    asked: np.ndarray,
    sd: np.ndarray,
    prior: np.ndarray,
    prior_variance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Make all features agree on a node's class totals.

    Each asked feature's cells sum to the same totals: they are averaged by precision, with the
    parent's estimate too, and each feature's discrepancy is spread evenly over its cells.

    Returns
    -------
    counts, totals : ndarray of shapes (n_nodes, n_codes, n_classes), (n_nodes, n_classes)
    variance : ndarray of shape (n_nodes,)
        Of a total.
    n_cells : ndarray of shape (n_nodes, n_features)
    """
    n_cells = np.maximum(np.add.reduceat(starts, schema.first, axis=1, dtype=int), 1)
    weight = asked / n_cells
    own = np.add.reduceat(counts, schema.first, axis=1)
    precision = weight.sum(axis=1) / sd**2
    variance = 1 / (precision + 1 / prior_variance)
    evidence = np.einsum("vf,vfc->vc", weight, own) / sd[:, None] ** 2
    totals = variance[:, None] * (evidence + prior / prior_variance[:, None])
    surplus = (totals[:, None] - own) / n_cells[..., None]
    counts = counts + surplus[:, schema.feature_of] * starts[..., None]
    return counts, totals, variance, n_cells


def best_cut(
    counts: np.ndarray,
    starts: np.ndarray,
    numeric: bool,
    totals: np.ndarray,
    variance: np.ndarray,
    noise: np.ndarray,
    n_cells: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Best cut in two of one feature's cells, at each node.

    The score of a cut is its Gini gain in rows, ``sum |D_j|^2 / n_j`` over both sides, where
    ``D_j`` are a side's deviations from the node's class shares; less ``EXCESS`` times what noise
    and sampling are expected to give where there is nothing to gain.

    Parameters
    ----------
    counts : ndarray of shape (n_nodes, n_values, n_classes)
    starts : ndarray of shape (n_nodes, n_values), bool
    numeric : bool
        Cells keep their order; else they are ordered by their classes.
    totals : ndarray of shape (n_nodes, n_classes)
    variance, noise : ndarray of shape (n_nodes,)
        Of a total, and of one count.
    n_cells : ndarray of shape (n_nodes,)

    Returns
    -------
    score : ndarray of shape (n_nodes,)
        Above 0: a split worth making. ``-inf``: there is nothing to cut.
    right : ndarray of shape (n_nodes, n_values), bool
    left_totals : ndarray of shape (n_nodes, n_classes)
    left_cells : ndarray of shape (n_nodes,)
    """
    n_nodes, n_values, n_classes = counts.shape
    shares = _shares(totals)
    if numeric:
        order = np.broadcast_to(np.arange(n_values), (n_nodes, n_values))
    else:
        order = order_values(counts, starts, shares, noise, n_cells)
    live = np.take_along_axis(starts, order, axis=1)
    left = np.cumsum(np.take_along_axis(counts, order[..., None], axis=1), axis=1)[:, :-1]
    n_left = np.cumsum(live, axis=1)[:, :-1]
    n_all = n_cells[:, None]
    gain = np.zeros(n_left.shape)
    by_chance = np.broadcast_to(1 - (shares**2).sum(axis=1)[:, None], n_left.shape).copy()
    for side, n_side in ((left, n_left), (totals[:, None] - left, n_all - n_left)):
        spread = group_variance(n_side, n_all, noise[:, None], variance[:, None])
        size = np.maximum(side.sum(axis=2), SIZE_FLOOR * np.sqrt(n_classes * spread) + 0.5)
        deviation = side - side.sum(axis=2, keepdims=True) * shares[:, None]
        gain += (deviation**2).sum(axis=2) / size
        by_chance += spread / size * _deviation_factor(shares)[:, None]
    valid = (n_left > 0) & (n_left < n_all) & (live[:, 1:] | (not numeric))
    score = np.where(valid, gain - EXCESS * by_chance, -np.inf)
    cut = score.argmax(axis=1)
    nodes = np.arange(n_nodes)
    right = np.zeros((n_nodes, n_values), dtype=bool)
    np.put_along_axis(right, order, np.arange(n_values) > cut[:, None], axis=1)
    return score[nodes, cut], right, left[nodes, cut], n_left[nodes, cut]


def order_values(
    counts: np.ndarray,
    starts: np.ndarray,
    shares: np.ndarray,
    noise: np.ndarray,
    n_cells: np.ndarray,
) -> np.ndarray:
    """Order of a categorical feature's values by their place on the first principal direction.

    Each value's deviation from the node's class shares is first shrunk by what the largest of so
    many noises would give (the universal threshold, 2 ln k), so that values within noise tie.
    """
    size = counts.sum(axis=2)
    deviation = (counts - size[..., None] * shares[:, None]) * starts[..., None]
    by_noise = 2 * np.log(np.maximum(n_cells, 2)) * noise * _deviation_factor(shares)
    square = np.maximum((deviation**2).sum(axis=2), _TINY)
    deviation *= np.maximum(0, 1 - by_noise[:, None] / square)[..., None]
    floor = SIZE_FLOOR * np.sqrt(counts.shape[2] * noise) + 0.5
    size = np.maximum(size, floor[:, None])
    scatter = np.einsum("vkc,vkd->vcd", deviation / size[..., None], deviation)
    direction = np.linalg.eigh(scatter)[1][:, :, -1]
    place = np.einsum("vkc,vc->vk", deviation, direction) / size
    return np.argsort(place, axis=1, kind="stable")


def group_variance(
    n_group: np.ndarray, n_cells: np.ndarray, noise: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Variance of the sum of some of a feature's consistent cells."""
    part = n_group / n_cells
    return noise * n_group * (1 - part) + part**2 * variance


def leaf_probabilities(parents: np.ndarray, counts: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Class probabilities of each node: its parent's, moved by what noise does not explain.

    James-Stein shrinkage of the deviation from the parent, from the root (parent -1) down.
    """
    n_classes = counts.shape[1]
    probabilities = np.full(counts.shape, 1 / n_classes)
    for node, parent in enumerate(parents):
        base = probabilities[max(parent, 0)]
        size = max(counts[node].sum(), 0)
        deviation = counts[node] - counts[node].sum() * base
        by_noise = variance[node] * _deviation_factor(base[None])[0]
        kept = max(0, 1 - by_noise / max((deviation**2).sum(), _TINY)) if parent >= 0 else 1
        expected = np.maximum(size * base + kept * deviation, 0) + 1e-9 * base
        probabilities[node] = expected / expected.sum()
    return probabilities


def _shares(totals: np.ndarray) -> np.ndarray:
    shares = np.maximum(totals, 0) + 1e-9
    return shares / shares.sum(axis=1, keepdims=True)


def _deviation_factor(shares: np.ndarray) -> np.ndarray:
    """Expected squared length of ``e - shares sum(e)`` for noise ``e`` of unit variance."""
    n_classes = shares.shape[-1]
    return n_classes - 2 + n_classes * (shares**2).sum(axis=-1)

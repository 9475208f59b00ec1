"""Hold contributions to a bound, whatever comes in.

Edge cases, the same for floats and integers:

=====================  =============================
input                  result
=====================  =============================
NaN or infinite entry  becomes 0 (the row stays)
zero row               stays zero
norm within the bound  unchanged
norm beyond the bound  scaled down (float), or zero (integer)
=====================  =============================
"""

from math import isqrt

import numpy as np


def clip_rows(rows: np.ndarray, bound: float) -> np.ndarray:
    """Scale each row down to L2 norm ``bound``.

    Parameters
    ----------
    rows : ndarray of shape (n, d), float
    bound : float
        Positive and finite.

    Returns
    -------
    clipped : ndarray of shape (n, d), float64
        Every norm is at most ``bound * (1 + d * 2**-52)``; all entries are finite.
    """
    with np.errstate(over="ignore"):  # wider floats beyond the range become infinite, then 0
        # Rows one after another in memory: else the order of a row's sum, hence its last bit, would
        # depend on how many rows there are, and one record could move another's contribution.
        rows = np.ascontiguousarray(rows, dtype=np.float64)
    clipped = np.where(np.isfinite(rows), rows, 0.0)
    largest = np.max(np.abs(clipped), axis=1, keepdims=True, initial=0.0)
    # Dividing by the largest entry first keeps the squares of 1e300 and 1e-300 in range.
    scaled = np.divide(clipped, largest, out=np.zeros_like(clipped), where=largest > 0)
    length = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))  # in [1, sqrt(d)] or 0
    with np.errstate(over="ignore"):
        over = length > bound / np.where(largest > 0, largest, 1.0)
    shrunk = scaled * np.divide(bound, length, out=np.zeros_like(length), where=length > 0)
    return np.where(over, shrunk, clipped)


def clip_integer_rows(
    rows: np.ndarray, squared_bound: int, absolute_bound: int | None = None
) -> np.ndarray:
    """Zero each integer row that exceeds a bound on its squared L2 norm or on its L1 norm.

    Parameters
    ----------
    rows : ndarray of shape (n, d), integer
    squared_bound : int
    absolute_bound : int or None
        None sets no bound on the L1 norm.

    Returns
    -------
    clipped : ndarray of shape (n, d), int64
        Exact: every row is within the bounds.
    """
    if not np.issubdtype(rows.dtype, np.integer):
        raise TypeError(f"Contributions of whole numbers must be integers; got {rows.dtype}.")
    limit = isqrt(squared_bound) + 1
    # An entry beyond the bound settles it, and keeps the squares of the others in range.
    beyond = np.any((rows > limit) | (rows < -limit), axis=1)
    small = np.where(beyond[:, None], 0, rows).astype(np.int64)
    exact = small.astype(object) if limit**2 * max(1, rows.shape[1]) >= 2**63 else small
    kept = (exact * exact).sum(axis=1) <= squared_bound
    if absolute_bound is not None:
        kept &= np.abs(exact).sum(axis=1) <= absolute_bound
    return np.where(kept.astype(bool)[:, None], small, 0)

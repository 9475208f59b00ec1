"""Rows as whole numbers of a bounded length, so that sums over them are exact.

A float sum over rows has a last bit that depends on the order of addition, and a score computed in
a batch has one that depends on the batch: a record could then move what its neighbours contribute,
past any bound on its own contribution (G8). Rows in whole ticks, multiplied by weights in whole
ticks, give scores and gradients that are exact in float64, in whatever order they are added.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property
from math import pi, sqrt
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, issparse
from scipy.special import ndtri

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import LongRowsWarning
from sklearn_fedpriv.federation._public_facts import known_codes
from sklearn_fedpriv.federation._query import blocks_of
from sklearn_fedpriv.privacy._randomness import Stream, derive_key

ROW_TICKS = 2**16  # the bound on a row's length, in ticks
MAX_FEATURES = 2**20  # so that a squared length in ticks is exact in float64
_TURN = 2**16  # angles of the kernel's features, in parts of a full turn
_FREQUENCY_TICKS = 2**12
_PUBLIC_KEY = bytes(32)  # every party draws the same features
# Far above the error of a sine and far below a tick: see ``RowCoder._wave``.
_MARGIN = 2.0**-24


def hold(X: Any, bound: float) -> Any:
    """Rows in ticks of ``bound / ROW_TICKS``, none longer than ``ROW_TICKS``.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), real
        NaN and infinity become 0.
    bound : float
        Longer rows are scaled down to it.

    Returns
    -------
    ticks : ndarray or CSR matrix of shape (n, d), int32
        Squared lengths are at most ``ROW_TICKS**2``, exactly. Each row depends on itself alone.
    """
    if issparse(X):
        X = csr_matrix(X, dtype=np.float64, copy=True)  # the party's own stays as it is
        X.sum_duplicates()
        owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        values = np.where(np.isfinite(X.data), X.data, 0.0)
        largest = np.full(X.shape[0], bound)
        np.maximum.at(largest, owner, np.abs(values))
        ticks = _within(values, largest[owner])
        squared = np.bincount(owner, weights=ticks * ticks, minlength=X.shape[0])
        held = _shrunk(ticks, squared[owner])
        return csr_matrix((held, X.indices, X.indptr), shape=X.shape)
    held = np.empty(X.shape, dtype=np.int32)
    for part in blocks_of(X):
        block = np.asarray(X[part], dtype=np.float64)
        values = np.where(np.isfinite(block), block, 0.0)
        largest = np.max(np.abs(values), axis=1, keepdims=True, initial=bound)
        ticks = _within(values, largest)
        squared = np.einsum("ij,ij->i", ticks, ticks)[:, None]
        held[part] = _shrunk(ticks, squared)
    return held


def _lengths(X: Any) -> np.ndarray:
    """Of each row, for a warning only."""
    with np.errstate(over="ignore"):
        squares = X.multiply(X) if issparse(X) else X * X
        return np.sqrt(np.asarray(squares.sum(axis=1), dtype=np.float64)).ravel()


def _within(values: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Whole ticks; an entry beyond the bound shrinks its row, which keeps squares in range."""
    return np.rint(values / largest * ROW_TICKS)


def _shrunk(ticks: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """Ticks of rows with these squared lengths, whole and so exact, held to the bound.

    Rounding towards zero keeps a shrunk row within it.
    """
    factor = ROW_TICKS / np.sqrt(np.maximum(squared, float(ROW_TICKS**2)))
    return np.trunc(ticks * factor).astype(np.int32)


@record
@dataclass(frozen=True)
class RowCoder:
    """What each party makes of its rows and labels, as data.

    Parameters
    ----------
    n_features : int
    bound : float
        Longer rows are scaled down to it.
    classes : tuple of labels, sorted
    gamma : float or None
        Of the RBF kernel ``exp(-gamma |x - x'|^2)``; None for the linear kernel.
    n_components : int
        Even; number of random Fourier features (Rahimi & Recht 2007), in pairs of a cosine and a
        sine of one random frequency, so that every row has length 1.
    """

    n_features: int
    bound: float
    classes: tuple
    gamma: float | None = None
    n_components: int = 0

    @property
    def n_columns(self) -> int:
        """Number of columns of coded rows."""
        return self.n_features if self.gamma is None else self.n_components

    @property
    def row_bound(self) -> float:
        """Length of ``ROW_TICKS`` ticks of a coded row, in data units."""
        return self.bound if self.gamma is None else 1.0

    def code(self, X: Any) -> Any:
        """Coded rows, int32 of shape (n, n_columns), sparse if ``X`` is and the kernel linear."""
        ticks = hold(X, self.bound)
        if self.gamma is None:
            return ticks
        coded = np.empty((ticks.shape[0], self.n_components), dtype=np.int32)
        for block in blocks_of(ticks):
            angle = ticks[block] @ self._frequencies  # whole numbers below 2^53: exact
            place = np.floor(angle / _FREQUENCY_TICKS).astype(np.int64)
            coded[block, 0::2] = self._wave[(place + _TURN // 4) % _TURN]
            coded[block, 1::2] = self._wave[place % _TURN]
        return coded

    def apply(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Coded rows and the index of each label in ``classes``; warns if most rows are shrunk."""
        if 2 * (_lengths(X) > 1.001 * self.bound).sum() > X.shape[0]:
            warnings.warn(
                f"most rows are longer than bound={self.bound:g} and are scaled down to it, which "
                "keeps their direction only. Scale the columns first (PublicEncoder gives rows of "
                "length 1), or declare a larger bound.",
                LongRowsWarning,
                stacklevel=2,
            )
        return self.code(X), known_codes(y, self.classes)

    @cached_property
    def _wave(self) -> np.ndarray:
        """One sine wave in ticks, rounded towards zero.

        Some values are whole before that (those of 90 degrees, or of 45 with 4 components), and the
        last bit of a sine, which differs between machines, would decide on a tick. The margin
        decides instead: whole values lose one.
        """
        size = ROW_TICKS / sqrt(self.n_components / 2)
        wave = size * np.sin(2 * pi * np.arange(_TURN) / _TURN)
        return np.trunc(np.sign(wave) * np.maximum(np.abs(wave) - _MARGIN, 0)).astype(np.int32)

    @cached_property
    def _frequencies(self) -> np.ndarray:
        """Parts of a turn that a tick of each column adds, whole numbers as float64."""
        shape = (self.n_features, self.n_components // 2)
        stream = Stream(derive_key(_PUBLIC_KEY, "random Fourier features"))
        uniform = ((stream.uint64(shape[0] * shape[1]) >> np.uint64(11)) + 0.5) / 2.0**53
        normal = ndtri(uniform).reshape(shape)
        turns = normal * sqrt(2 * self.gamma) * self.bound / (2 * pi)
        # bound / ROW_TICKS a tick, times _TURN a turn, times the ticks of a frequency
        whole = np.rint(turns * (_TURN / ROW_TICKS) * _FREQUENCY_TICKS)
        if np.sqrt((whole * whole).sum(axis=0)).max() >= 2.0**36:
            raise ValueError(f"gamma={self.gamma} is too large for rows of length {self.bound}.")
        return whole

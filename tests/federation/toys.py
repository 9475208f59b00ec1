"""Small queries and parties for the tests of the federation."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.federation._query import PartyQuery, RowQuery
from sklearn_fedpriv.privacy._ledger import PlannedRelease


@record
@dataclass(frozen=True)
class ToyCount(RowQuery):
    """How many rows there are."""

    integral = True
    bound: int = 1
    length: int = 1

    def contributions(self, X, y):
        return np.ones((X.shape[0], self.length), dtype=np.int64)


@record
@dataclass(frozen=True)
class ToySum(RowQuery):
    """Sum of the rows, each held to ``bound``."""

    length: int
    bound: float

    def contributions(self, X, y):
        return X


@record
@dataclass(frozen=True)
class ToyMean(PartyQuery):
    """Sum over parties of their means, each held to ``bound``."""

    length: int
    bound: float

    def local(self, X, y, tools):
        return X.mean(axis=0)


@dataclass(frozen=True)
class ToyCode:
    """Code that a party builds for itself."""

    factor: float

    @property
    def fingerprint(self):
        return repr(self.factor).encode()


@record
@dataclass(frozen=True)
class ToyPieces(PartyQuery):
    """Sum over parties of column means times the code's factor, one piece of work a column."""

    length: int
    bound: float

    @property
    def n_pieces(self):
        return self.length

    def piece(self, i, X, y, code):
        return code.factor * X[:, i].mean()

    def local(self, X, y, tools):
        return np.array(tools.pieces)


@record
@dataclass(frozen=True)
class ToyHostile(RowQuery):
    """Promises a bound and ignores it; fails on request."""

    length: int
    bound: float
    fails: bool = False

    def contributions(self, X, y):
        if self.fails:
            raise KeyError(f"secret {X[0, 0]}")
        return np.where(np.arange(X.shape[0]) % 2, 1e300, 1e4)[:, None] * np.ones(self.length)


@record
@dataclass(frozen=True)
class ToyWrapping(RowQuery):
    """Speaks of a foreign error in words of ours."""

    length: int
    bound: float

    def contributions(self, X, y):
        try:
            raise KeyError(f"secret {X[0, 0]}")
        except KeyError as error:
            raise ProtocolError("in our words") from error


ALL, HALF = Fraction(1), Fraction(1, 2)


def plan(query, count=1):
    """A plan of ``count`` releases with the whole budget."""
    name, squared = type(query).__name__, query.squared_norm
    return [PlannedRelease(name, count, ALL, count * query.length, squared)]


def rows(n_parties=4, n_rows=25, n_features=3, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(n_rows, n_features)), rng.integers(0, 2, size=n_rows))
        for _ in range(n_parties)
    ]

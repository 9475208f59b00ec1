"""Small queries and parties for the tests of the federation."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sklearn_fedpriv._wire import record
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

    def local(self, X, y, stream):
        return X.mean(axis=0)


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
        return np.full((X.shape[0], self.length), 1e300)


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

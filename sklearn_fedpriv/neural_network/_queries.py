"""What is asked of the rows: clipped gradients of a sample, or what local training changes."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt, ldexp
from typing import Any

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import LocalFailure
from sklearn_fedpriv.federation._public_facts import known_codes
from sklearn_fedpriv.federation._query import (
    PartyQuery,
    Query,
    RowQuery,
    Tools,
    batches_of,
    poisson_sample,
)

# Float errors of a sum, as a part of the clip norm: the noise covers so much (G8). How many rows
# that allows depends on the net, and a party with more of them is refused at the entrance.
FLOAT_ERROR = 2.0**-11
LARGEST_LOSS = 8.0  # of a row, as far as ``AdaptiveRounds`` is told
LEVELS = 1024


@record
@dataclass(frozen=True)
class NetRows:
    """What each party makes of its rows and labels, as data.

    Parameters
    ----------
    classes : tuple of labels, sorted
        Empty for regression.
    whole : bool
        Whether the net reads whole numbers (tokens).
    double : bool
        Whether its weights are float64.
    column : bool
        Whether targets of a regression are one column, as the net's output is.
    """

    classes: tuple
    whole: bool
    double: bool
    column: bool

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Rows in the type that the net reads; what is too large for it becomes infinite."""
        kind = np.int64 if self.whole else np.float64 if self.double else np.float32
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(X, dtype=kind)

    def apply(self, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and the index of each label or the targets."""
        if self.classes:
            return self.rows(X), known_codes(y, self.classes)
        with np.errstate(over="ignore"):
            targets = np.asarray(y, dtype=np.float64 if self.double else np.float32)
        return self.rows(X), targets[:, None] if self.column else targets


@record
@dataclass(frozen=True, eq=False)
class ClippedGradient(Query):
    """Sum of the loss gradients of a secret sample of rows, each held to ``bound``.

    The float64 sum is rounded once, so a row moves it by the bound, by the float errors of two sums
    and by half a tick a number in each of them.

    Parameters
    ----------
    weights : ndarray of shape (length,), float64
        Of the net that each party built for itself.
    bound : float
        Clip norm.
    sampling_rate : Fraction
        Chance of each row to be in the sample, in (0, 1].
    """

    unit = "record"
    prefer = "threads"  # a module of a script need not reach other processes
    weights: np.ndarray
    bound: float
    sampling_rate: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.sampling_rate <= 1:
            raise ValueError("The sampling rate must be in (0, 1].")

    @property
    def length(self) -> int:
        """All trainable parameters."""
        return len(self.weights)

    @property
    def squared_norm(self) -> int:
        """Squared, in ticks: the bound, float errors, and two roundings."""
        ticks = Fraction(self.bound) / Fraction(ldexp(1.0, self.lattice.exponent))
        return (ceil(ticks * (1 + Fraction(FLOAT_ERROR))) + isqrt(self.length) + 1) ** 2

    def ticks(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """Draw the sample, clip row by row, sum, round."""
        assert tools is not None
        if len(X) > tools.code.row_limit(FLOAT_ERROR):
            raise LocalFailure("there are more rows than a float sum may have.")
        sample = poisson_sample(len(X), self.sampling_rate, tools.stream)
        seed = int(tools.stream.uint64(1)[0])
        total = tools.code.gradient_sum(self.weights, X[sample], y[sample], self.bound, seed)
        return self.lattice.encode(total)


@record
@dataclass(frozen=True, eq=False)
class LocalUpdate(PartyQuery):
    """What a party's own training changes in the weights, held to ``bound``.

    Parameters
    ----------
    weights : ndarray of shape (length,), float64
    bound : float
        Clip norm.
    n_epochs : int
    batch_size : int
    """

    prefer = "threads"
    weights: np.ndarray
    bound: float
    n_epochs: int
    batch_size: int

    @property
    def length(self) -> int:
        """All trainable parameters."""
        return len(self.weights)

    def local(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """Train on the rows in a fresh order each epoch."""
        assert tools is not None
        batches = batches_of(len(X), self.n_epochs, self.batch_size, tools.stream)
        seed = int(tools.stream.uint64(1)[0])
        change: np.ndarray = tools.code.train(self.weights, X, y, batches, seed)
        return change


@record
@dataclass(frozen=True, eq=False)
class NetLoss(RowQuery):
    """Sum of the rows' losses, each at most ``LARGEST_LOSS``, which is ``LEVELS``.

    Parameters
    ----------
    weights : ndarray of shape (length,), float64
    """

    prefer = "threads"
    integral = True
    weights: np.ndarray
    length = 1
    bound = LEVELS**2

    @property
    def absolute_bound(self) -> int:
        """One number of at most ``LEVELS``."""
        return LEVELS

    def contributions(self, X: np.ndarray, y: Any) -> np.ndarray:
        """The rows are the losses already."""
        return in_levels(X)

    def ticks(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """Losses by the party's own net, then as any sum over rows."""
        assert tools is not None
        return super().ticks(tools.code.losses(self.weights, X, y)[:, None], None, tools)


@record
@dataclass(frozen=True, eq=False)
class PartyLoss(PartyQuery):
    """Mean loss of a party's rows, each at most ``LARGEST_LOSS``, which is ``LEVELS``.

    Parameters
    ----------
    weights : ndarray of shape (length,), float64
    """

    prefer = "threads"
    integral = True
    weights: np.ndarray
    length = 1
    bound = LEVELS**2

    @property
    def absolute_bound(self) -> int:
        """One number of at most ``LEVELS``."""
        return LEVELS

    def local(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """Rounded down to a whole level."""
        assert tools is not None
        levels = in_levels(tools.code.losses(self.weights, X, y))
        return np.array([levels.sum() // len(levels)])


def in_levels(losses: np.ndarray) -> np.ndarray:
    """Whole levels from 0 to ``LEVELS``; a loss that is no number is the largest."""
    known = np.nan_to_num(losses, nan=LARGEST_LOSS, posinf=LARGEST_LOSS, neginf=0.0)
    levels = np.floor(np.clip(known, 0, LARGEST_LOSS) * (LEVELS / LARGEST_LOSS))
    return np.asarray(levels, dtype=np.int64)

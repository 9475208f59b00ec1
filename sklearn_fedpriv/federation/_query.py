"""Queries: what is asked of every party, as data.

A query is a frozen dataclass of public facts, registered with ``@record`` so that it travels by
name and fields. It *enforces* the bound of what one unit of privacy may contribute: a wrong formula
in ``contributions`` costs accuracy, never privacy (G7).

* ``RowQuery``: a bounded contribution a row, summed. Unit: one record.
* ``PartyQuery``: one bounded vector a party, the result of a local computation. Unit: one party.

A query may need code that each party builds for itself, since none travels: an estimator, a network
(``tools.code``, whose fingerprint is in the terms). Local work that can be cut in ``n_pieces``
runs in parallel and stays in the party.

Whole numbers (``integral = True``: counts, votes, histograms) are summed as they are. Real numbers
are rounded to ticks, each contribution by itself, and the ticks are summed (G8).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

import numpy as np

from sklearn_fedpriv.privacy._clip import clip_integer_rows, clip_rows
from sklearn_fedpriv.privacy._fixed_point import Lattice, lattice_for, squared_ticks
from sklearn_fedpriv.privacy._randomness import Stream

# A public limit on the rows of one party; it sizes the words of a sum (G12).
MAX_ROWS = 2**24
BLOCK = 2048  # rows that are worked on at one time


@dataclass(frozen=True)
class Tools:
    """What a party brings to an answer beside its rows.

    Parameters
    ----------
    stream : Stream
        Secret randomness for local choices (samples, ties).
    code : object or None
        What the party built for itself; its ``fingerprint`` is in the terms.
    pieces : sequence
        Results of the query's pieces, in order.
    party : str
        Its name.
    """

    stream: Stream
    code: Any = None
    pieces: Sequence = ()
    party: str = ""


class Query(ABC):
    """A bounded vector, to be summed over all parties.

    Subclasses are frozen dataclasses under ``@record`` and define ``length`` and ``bound``:

    * ``length``: how many numbers are released;
    * ``bound``: for ``integral`` queries the *squared* L2 norm of one contribution (an int); else
      its L2 norm (a float).

    A query of a published method whose sensitivity is only claimed sets ``proved = False``; proved
    terms refuse it.

    An integral query may define ``absolute_bound`` too, its L1 norm; by default that is ``bound``,
    as ``|x| <= x**2`` for whole numbers.

    A query that asks some of the parties names them in ``participants``; the others' data is not
    looked at (``Job.takes_part``). What its answers tell without noise stands in ``discloses``.
    """

    unit: ClassVar[str]
    integral: ClassVar[bool] = False
    proved: ClassVar[bool] = True
    # Below 1, ``ticks`` sums over a Poisson sample that it draws from ``tools.stream``.
    sampling_rate: Fraction = Fraction(1)
    # How parties compute at one time, where the user has no say: "threads" or "processes".
    prefer: ClassVar[str | None] = None
    # What answers tell without noise, in words; it stands in the plan and in the report.
    discloses: ClassVar[str] = ""
    length: int
    bound: Any

    @property
    def participants(self) -> tuple[str, ...]:
        """Names, sorted, of the parties whose data is asked for; empty means all."""
        return ()

    def takes_part(self, party: str) -> bool:
        """Whether the data of ``party`` is asked for."""
        return not self.participants or party in self.participants

    @property
    def n_joint(self) -> int:
        """How many of the numbers one draw of metric noise hides together."""
        return self.length

    def noise(self, noise: Any, ticks: np.ndarray, stream: Stream) -> np.ndarray:
        """What the party adds to its scaled ticks.

        Only a query whose noise hangs on the answer, which no proof covers, looks at ``ticks``.
        """
        drawn: np.ndarray = noise.draw(self.length, stream)
        return drawn

    @property
    def n_pieces(self) -> int:
        """In how many pieces the local work can be cut."""
        return 0

    def piece(self, i: int, X: Any, y: Any, code: Any) -> Any:
        """One piece of the local work; its result stays in the party, as ``tools.pieces[i]``."""
        raise NotImplementedError

    @property
    def absolute_bound(self) -> int:
        """L1 norm of one contribution, for whole numbers."""
        return int(self.bound)

    @property
    def lattice(self) -> Lattice:
        """The ticks of the answer; whole numbers are their own ticks."""
        return Lattice(0) if self.integral else lattice_for(self.bound, self.length)

    @property
    def squared_norm(self) -> int:
        """Bound on the squared L2 norm of one contribution, in ticks."""
        if self.integral:
            return int(self.bound)
        return squared_ticks(self.bound, self.length, self.lattice)

    def squared_sensitivity(self, adjacency: str) -> int | Fraction:
        """Largest squared L2 distance, in ticks, of the sums over neighbouring data sets."""
        return self.squared_norm * (4 if adjacency == "replace" else 1)

    def sensitivity(self, adjacency: str) -> int:
        """Largest L1 distance, for whole numbers only."""
        if not self.integral:
            raise ValueError(f"{type(self).__name__} has no L1 sensitivity; use Gaussian noise.")
        return self.absolute_bound * (2 if adjacency == "replace" else 1)

    @property
    def party_limit(self) -> int:
        """Largest size of one number, in ticks, of one party's answer."""
        return party_limit(self.unit, self.squared_norm)

    @abstractmethod
    def ticks(self, X: np.ndarray, y: np.ndarray | None, tools: Tools | None) -> np.ndarray:
        """One party's answer, bounded and in ticks, int64 of shape (length,)."""

    def _bounded_ticks(self, rows: np.ndarray) -> np.ndarray:
        if self.integral:
            return clip_integer_rows(rows, self.bound, self.absolute_bound)
        return self.lattice.encode(clip_rows(rows, self.bound))


def party_limit(unit: str, squared_norm: int) -> int:
    """Largest size of one number of one party's answer, given the bound of one contribution."""
    return (MAX_ROWS if unit == "record" else 1) * (isqrt(squared_norm) + 1)


def blocks_of(X: Any) -> Iterator[slice]:
    """Places of the rows of ``X``, ``BLOCK`` at a time."""
    for start in range(0, X.shape[0], BLOCK):
        yield slice(start, start + BLOCK)


class RowQuery(Query):
    """A sum over rows; a subclass defines ``contributions``."""

    unit = "record"

    @abstractmethod
    def contributions(self, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """What each row adds, shape (n_rows, length)."""

    def ticks(self, X: np.ndarray, y: np.ndarray | None, tools: Tools | None) -> np.ndarray:
        """The definition: contributions held to the bound row by row, rounded, then summed.

        A subclass may replace it by something faster that is tested equal on hostile rows.
        """
        total = np.zeros(self.length, dtype=np.int64)
        for part in blocks_of(X):
            rows = self.contributions(X[part], None if y is None else y[part])
            total += self._bounded_ticks(rows).sum(axis=0)
        return total


def poisson_sample(n_rows: int, rate: Fraction, stream: Stream) -> np.ndarray:
    """Indices of a fresh sample: each row with probability ``rate``, by itself.

    One 64-bit word a row decides, so the probability is ``rate`` rounded down to 64 bits. The size
    of the sample is as secret as its members.
    """
    if rate == 1:
        return np.arange(n_rows)
    words = stream.uint64(n_rows)
    return np.flatnonzero(words < np.uint64(rate.numerator * 2**64 // rate.denominator))


class PartyQuery(Query):
    """One vector a party; a subclass defines ``local``."""

    unit = "party"

    @abstractmethod
    def local(self, X: np.ndarray, y: np.ndarray | None, tools: Tools | None) -> np.ndarray:
        """The party's own result, shape (length,)."""

    def ticks(self, X: np.ndarray, y: np.ndarray | None, tools: Tools | None) -> np.ndarray:
        vector: np.ndarray = self._bounded_ticks(self.local(X, y, tools)[None, :])[0]
        return vector


def batches_of(n_rows: int, n_epochs: int, batch_size: int, stream: Stream) -> list[np.ndarray]:
    """Indices of the rows of each step, in a fresh secret order each epoch."""
    if not batch_size or batch_size >= n_rows:
        return [np.arange(n_rows)] * n_epochs
    batches = []
    for _ in range(n_epochs):
        order = np.argsort(stream.uint64(n_rows), kind="stable")
        batches += [order[start : start + batch_size] for start in range(0, n_rows, batch_size)]
    return batches

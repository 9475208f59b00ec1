"""Who takes part when, and what that costs: from public numbers alone."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from sklearn_fedpriv.cluster._queries import ClusterUpdate
from sklearn_fedpriv.privacy._calibration import exact
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import Stream, derive_key


@dataclass(frozen=True)
class Plan:
    """Rounds of one fit.

    Parameters
    ----------
    n_parties : int
        Of the federation.
    n_chosen : int
        Parties a round.
    n_rounds : int
    """

    n_parties: int
    n_chosen: int
    n_rounds: int

    @property
    def participations(self) -> int:
        """How often the party takes part that does so most often."""
        return ceil(self.n_rounds * self.n_chosen / self.n_parties)

    @property
    def share(self) -> Fraction:
        """Of a party's budget, for one participation."""
        return Fraction(1, self.participations)

    def lots(self, names: tuple[str, ...], key: bytes) -> list[tuple[str, ...]]:
        """The parties of each round, sorted: everybody takes part once before anybody does again.

        Public, and drawn from nothing that is private.
        """
        rounds: list[tuple[str, ...]] = []
        queue: list[str] = []
        passes = 0
        for _ in range(self.n_rounds):
            first = queue[: self.n_chosen]
            queue = queue[self.n_chosen :]
            if len(first) < self.n_chosen:
                words = Stream(derive_key(key, "participation", passes)).uint64(len(names))
                fresh = [names[i] for i in np.argsort(words, kind="stable")]
                # Who is in this round by the pass before comes later in the new one.
                queue = [name for name in fresh if name not in first]
                missing = self.n_chosen - len(first)
                late = [name for name in fresh if name in first]
                first, queue = first + queue[:missing], late + queue[missing:]
                passes += 1
            rounds.append(tuple(sorted(first)))
        return rounds

    def releases(self, query: ClusterUpdate) -> list[PlannedRelease]:
        """One line: a release a round, of which each party takes part in some."""
        return [
            PlannedRelease(
                type(query).__name__,
                self.n_rounds,
                Fraction(1),
                self.n_rounds * query.length,
                query.squared_norm,
                participations=self.participations,
                discloses=query.discloses,
            )
        ]


def leakage_of(query: ClusterUpdate, noise_ratio: float) -> Fraction:
    """Epsilon of one participation under metric noise, with ``noise_ratio`` above 0.

    With ``d`` the dimension of the joint draw and two answers at most twice the clip norm apart,
    ``2 d / noise_ratio``; the published method claims half of it.
    """
    each = Fraction(query.n_joint) / Fraction(exact(noise_ratio))
    return 2 * each if query.proved else each


def metric_budget(query: ClusterUpdate, noise_ratio: float, participations: int) -> Budget:
    """What a party's participations cost together; without noise, everything."""
    if noise_ratio == 0:
        return budget(float("inf"), 0.0, "metric")
    return Budget(participations * leakage_of(query, noise_ratio), Fraction(0), "metric")

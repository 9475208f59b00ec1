"""The published method: local epochs, clipped weights, noisy averages (no proof).

Each round the server picks some parties; each trains from the common weights on its own rows, holds
the weights to a length and adds noise; the server takes the mean (Truex et al. 2019, Algorithms 5
and 6; Yuan et al. 2023, Algorithm 1). Yuan et al. claim that one record moves a party's weights by
at most twice that length over the party's number of rows, and count each party as often as it takes
part *on average*. Neither holds (docs/what_is_proved.md), so the report says infinity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, log
from typing import Any

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._query import PartyQuery, Tools
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease
from sklearn_fedpriv.privacy._randomness import Stream, derive_key
from sklearn_fedpriv.privacy._rounds import initial_variance
from sklearn_fedpriv.svm._training import Problem

LOCAL_EPOCHS = 5  # tau (Yuan et al., experiments)
WEIGHT_LENGTH = 5.0  # C, likewise; for rows of length 1
_STEP = 0.5  # over the squared length of the longest row


@record
@dataclass(frozen=True, eq=False)
class LocalWeights(PartyQuery):
    """Sum of the chosen parties' weights after some local epochs.

    Parameters
    ----------
    problem : Problem
    weights : ndarray of shape (n_blocks, n_columns + 1), float64
        Where the epochs start.
    chosen : tuple of str
        The parties that take part.
    step : float
    party_rows : float
        Public number of rows of a party, by which the papers divide.
    """

    unit = "record"  # what the papers speak of
    proved = False
    problem: Problem
    weights: np.ndarray
    chosen: tuple[str, ...]
    step: float
    party_rows: float

    @property
    def length(self) -> int:
        """All weights."""
        return self.weights.size

    @property
    def bound(self) -> float:
        """Length of one party's weights."""
        return weight_length(self.problem)

    def squared_sensitivity(self, adjacency: str) -> int:
        """As claimed: twice the length of the weights over the number of rows."""
        claim = Fraction(2 * self.bound / self.party_rows)
        return ceil((claim / Fraction(2) ** self.lattice.exponent) ** 2)

    def local(self, X: Any, y: Any, tools: Tools) -> np.ndarray:
        """Full subgradient steps on the party's rows; zeros if it was not chosen."""
        if tools.party not in self.chosen:
            return np.zeros(self.length)
        weights, constant = self.weights, self.problem.largest_intercept()
        ridge = 1 / (self.problem.C * self.party_rows)
        for _ in range(LOCAL_EPOCHS):
            query, unit = self.problem.gradient(weights, constant)
            pull = np.zeros_like(weights)
            total = query.ticks(X, y, None).reshape(len(weights), -1)
            pull[:, : total.shape[1]] = total * (unit / len(y))
            weights = weights + self.step * (pull - ridge * weights)
        return weights.ravel()


def weight_length(problem: Problem) -> float:
    """Bound on the length of weights: that of the paper, for rows of this length."""
    return WEIGHT_LENGTH / problem.row_bound


def published_shares(
    ratio: float,
    n_rounds: int,
    budget: Budget,
    *,
    n_parties: int,
    n_chosen: int,
    unknown_shares: int,
) -> list[Fraction]:
    """Shares of epsilon for which each sum has the published noise.

    Every party adds a share of noise, chosen or not; together they make what ``n_chosen`` noises of
    the published variance would. Under ``calibration="published"`` one release with a share ``s``
    of epsilon has a sum of variance ``(n / m) sensitivity^2 2 ln(1.25 / delta) / (s epsilon)^2``.

    Parameters
    ----------
    ratio : float
        Of the variances of successive rounds.
    n_rounds : int
    budget : Budget
    n_parties, n_chosen, unknown_shares : int
    """
    if budget.epsilon == inf:
        return [Fraction(1, n_rounds)] * n_rounds
    epsilon, delta = float(budget.epsilon), float(budget.delta)
    first = initial_variance(
        n_rounds,
        sensitivity=1.0,
        epsilon=epsilon,
        delta=delta,
        noise_ratio=ratio,
        participation=n_chosen / n_parties,
        calibration="published",
    )
    whole = n_parties / unknown_shares * 2 * log(1.25 / delta) / epsilon**2
    shares = [(whole / (n_chosen * first * ratio**m)) ** 0.5 for m in range(n_rounds)]
    if max(shares) > 1:
        raise ValueError(
            f"The published noise is too small for this protocol at {n_rounds} rounds and "
            f"{n_chosen} of {n_parties} parties a round: take more rounds or parties."
        )
    return [Fraction(share).limit_denominator(10**12) for share in shares]


def published_plan(query: LocalWeights, shares: Sequence[Fraction]) -> list[PlannedRelease]:
    """One line: a release a round."""
    n_rounds = len(shares)
    share = min(Fraction(1), 2 * n_rounds * min(shares))  # so that the sizes of sums are checked
    length = n_rounds * query.length
    return [PlannedRelease("LocalWeights", n_rounds, share, length, query.squared_norm)]


def train_published(
    run: Run, query: LocalWeights, shares: Sequence[Fraction], n_chosen: int, key: bytes
) -> tuple[np.ndarray, dict[str, int]]:
    """Rounds of local training and averaging.

    Parameters
    ----------
    run : Run
    query : LocalWeights
        The first one; its weights are where training starts.
    shares : sequence of Fraction
    n_chosen : int
        Parties a round.
    key : bytes
        Public choice of the parties.

    Returns
    -------
    weights : ndarray of shape (n_blocks, n_columns + 1)
    participations : dict
        How often each party took part.
    """
    names = run.terms.parties
    taken = dict.fromkeys(names, 0)
    weights = query.weights
    for number, share in enumerate(shares):
        lots = Stream(derive_key(key, "participation", number)).uint64(len(names))
        chosen = tuple(sorted(names[i] for i in np.argsort(lots)[:n_chosen]))
        for name in chosen:
            taken[name] += 1
        asked = LocalWeights(query.problem, weights, chosen, query.step, query.party_rows)
        weights = run.release(asked, share).reshape(weights.shape) / n_chosen
    return weights, taken


def first_query(problem: Problem, learning_rate: float | None, party_rows: float) -> LocalWeights:
    """The query of the first round, with all weights 0."""
    step = _STEP / problem.row_bound**2 if learning_rate is None else learning_rate
    return LocalWeights(problem, problem.zeros(), (), float(step), float(party_rows))

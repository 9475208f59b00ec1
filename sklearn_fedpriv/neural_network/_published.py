"""The published method: local epochs of DP-SGD with divided noise, averaged weights (no proof).

Each round every party trains from the common weights on samples of its own rows, with noise in
every step, and the server takes the mean of the parties' weights (Truex et al. 2019, Algorithms 3
and 4). They divide the variance of each step's noise by t - 1, as if only the sum of the parties
were seen after every *step*; but steps inside an epoch pass through the party's own gradients, and
its record may be exposed far beyond the claim (docs/what_is_proved.md). The report says infinity.

What the paper leaves open is settled here: the noise is that at which ``n_rounds`` rounds of
undivided steps would keep the claim by the accountant of ``privacy/_sampling.py``, as the paper's
own bound has unnamed constants; an empty sample makes no step. Sums have words, so a change of the
weights beyond ``LONGEST`` is cut, and each sum has a few ticks of 2^-16 of noise of its own.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from typing import Any

import numpy as np
from scipy.special import ndtri

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._query import PartyQuery, Tools, poisson_sample
from sklearn_fedpriv.privacy._fixed_point import Lattice
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.privacy._sampling import sampled_multiplier

LONGEST = 64.0  # change of the weights in a round: far beyond any training that goes well
_TICK = -16


@record
@dataclass(frozen=True, eq=False)
class NoisyEpochs(PartyQuery):
    """What local epochs of noisy steps change in the weights.

    Parameters
    ----------
    weights : ndarray of shape (length,), float64
        Where the epochs start.
    clip_norm : float
        Of the gradient of a row.
    rate : Fraction
        Chance of each row to be in the sample of a step.
    n_epochs : int
        Of ``1 / rate`` steps each.
    step_noise : float
        Standard deviation of a step's noise in one number, after the division. A party takes it
        from the server, since no credit is given for it.
    """

    unit = "record"  # what the paper speaks of
    proved = False
    prefer = "threads"
    weights: np.ndarray
    clip_norm: float
    rate: Fraction
    n_epochs: int
    step_noise: float

    bound = LONGEST
    lattice = Lattice(_TICK)

    @property
    def length(self) -> int:
        """All trainable parameters."""
        return len(self.weights)

    def squared_sensitivity(self, adjacency: str) -> int:
        """As claimed: the noise is in the steps already, so one tick is left to hide."""
        return 1

    def local(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """Steps of the net's own optimizer; the paper divides by the size of the sample."""
        assert tools is not None
        stream, code = tools.stream, tools.code

        def gradient(weights: np.ndarray) -> np.ndarray | None:
            sample = poisson_sample(len(X), self.rate, stream)
            if not len(sample):
                return None
            seed = int(stream.uint64(1)[0])
            total = code.gradient_sum(weights, X[sample], y[sample], self.clip_norm, seed)
            return (total + self.step_noise * normal_noise(stream, self.length)) / len(sample)

        change: np.ndarray = code.descend(
            self.weights, gradient, self.n_epochs * steps_of(self.rate)
        )
        return change


def steps_of(rate: Fraction) -> int:
    """Steps of an epoch."""
    return ceil(1 / rate)


def normal_noise(stream: Stream, n: int) -> np.ndarray:
    """Float noise for steps that promise nothing; proved noise is never a float (G5)."""
    return np.asarray(ndtri(((stream.uint64(n) >> np.uint64(11)) + 0.5) * 2.0**-53))


def published_noise(
    budget: Budget,
    *,
    clip_norm: float,
    rate: Fraction,
    n_steps: int,
    unknown_shares: int,
) -> float:
    """Standard deviation of each party's noise in a step, divided as printed.

    Parameters
    ----------
    budget : Budget
        The claim.
    clip_norm : float
    rate : Fraction
    n_steps : int
        Of one party in the whole fit.
    unknown_shares : int
        By which the variance is divided; the paper's t - 1.
    """
    if budget.epsilon == inf:
        return 0.0
    if rate == 1:
        multiplier = (n_steps / float(budget.total(1))) ** 0.5
    else:
        multiplier = float(sampled_multiplier(budget.epsilon, budget.delta, 1, rate, n_steps))
    return clip_norm * multiplier / unknown_shares**0.5


def published_plan(query: NoisyEpochs, n_rounds: int) -> list[PlannedRelease]:
    """One line: a release a round."""
    length = n_rounds * query.length
    return [PlannedRelease("NoisyEpochs", n_rounds, Fraction(1), length, query.squared_norm)]

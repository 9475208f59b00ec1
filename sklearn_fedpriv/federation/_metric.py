"""Noise of metric privacy in a release: each participant's own, in full (G17).

One joint multivariate Laplace draw hides the whole answer: two answers at distance ``D`` are told
apart by a factor of at most ``exp(rate * D)``. With the largest distance of any two answers that is
pure epsilon for a party whose whole data is replaced, towards everybody, the server included, and
whatever the other parties do. It is never divided among parties.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import ClassVar

import numpy as np

from sklearn_fedpriv.exceptions import RangeOverflow
from sklearn_fedpriv.federation._terms import Terms
from sklearn_fedpriv.privacy._events import Event, PureEvent, UnprotectedEvent
from sklearn_fedpriv.privacy._metric import LARGEST_SCALE, metric_tail, multivariate_laplace
from sklearn_fedpriv.privacy._randomness import Stream


@dataclass(frozen=True)
class MetricNoise:
    """What each participant adds to one release, and what that is charged.

    ``rate`` is epsilon per tick of Euclidean distance, 0 for no noise; ``dimension`` how many
    numbers the joint draw covers.
    """

    rate: Fraction
    dimension: int
    event: Event
    scale: int = 1
    shared: ClassVar[bool] = False  # who takes no part adds none

    def draw(self, length: int, stream: Stream) -> np.ndarray:
        """One party's noise, int64 of shape (length,), drawn jointly."""
        if not self.rate:
            return np.zeros(length, dtype=np.int64)
        return multivariate_laplace(self.rate, length, stream)

    def sd(self, n_shares: int) -> float:
        """Standard deviation of the sum of so many draws, in ticks."""
        if not self.rate:
            return 0.0
        return (n_shares * (self.dimension + 1)) ** 0.5 / float(self.rate)

    def tail(self, n_shares: int, log2_failure: int) -> int:
        """A size that the sum of so many draws exceeds with chance 2^-log2_failure at most."""
        if not self.rate:
            return 0
        return metric_tail(self.rate, self.dimension, n_shares, log2_failure)


def metric_noise_for(
    terms: Terms, share: Fraction, squared: int | Fraction, dimension: int
) -> MetricNoise:
    """Derive the noise of one participation from the terms, the same at every role (G6).

    Parameters
    ----------
    terms : Terms
    share : Fraction
        Of the fit's epsilon, for this release.
    squared : int or Fraction
        Squared largest distance of two answers, in ticks^2.
    dimension : int
        Numbers in an answer.
    """
    if not terms.budget.private:
        return MetricNoise(Fraction(0), dimension, UnprotectedEvent())
    epsilon = share * Fraction(terms.budget.epsilon)
    distance = isqrt(ceil(squared) - 1) + 1  # the root, rounded up
    proved = terms.calibration == "proved"
    event: Event = PureEvent(epsilon) if proved else UnprotectedEvent()
    noise = MetricNoise(epsilon / distance, dimension, event)
    if noise.sd(1) > LARGEST_SCALE:
        raise RangeOverflow(
            f"Metric noise of {noise.sd(1):.3g} ticks passes {LARGEST_SCALE:.3g}. Ask for less: a "
            "smaller noise_ratio, or fewer numbers in an answer."
        )
    return noise

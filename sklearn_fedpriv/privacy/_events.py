"""What a release did to privacy: frozen records, made by who adds the noise, read by the ledgers.

An event documents the mechanism; it does not say what that costs in sum. A ledger that meets an
event it was not made for refuses it: unknown is never free.
"""

from dataclasses import dataclass
from fractions import Fraction

from sklearn_fedpriv._wire import record


@record
@dataclass(frozen=True)
class GaussianEvent:
    """One release with Gaussian noise of known size, unsampled.

    ``mu_squared`` = (sensitivity / standard deviation)^2, where the noise counted is that of the
    shares nobody else knows (G9, G10).
    """

    mu_squared: Fraction

    def __post_init__(self) -> None:
        if not self.mu_squared > 0:
            raise ValueError("mu_squared must be positive")


@record
@dataclass(frozen=True)
class SampledGaussianEvent:
    """One step with Gaussian noise on a Poisson sample that nobody outside the party knows.

    Each row is in the sample with probability ``sampling_rate``, by itself; ``mu_squared`` is that
    of the same release without sampling.
    """

    sampling_rate: Fraction
    mu_squared: Fraction

    def __post_init__(self) -> None:
        if not (self.mu_squared > 0 and 0 < self.sampling_rate < 1):
            raise ValueError("mu_squared must be positive and sampling_rate in (0, 1)")


@record
@dataclass(frozen=True)
class PureEvent:
    """One release with discrete Laplace noise: pure ``epsilon``."""

    epsilon: Fraction

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError("epsilon must be positive")


@record
@dataclass(frozen=True)
class UnprotectedEvent:
    """One release without noise, or with noise that proves nothing."""


Event = GaussianEvent | SampledGaussianEvent | PureEvent | UnprotectedEvent

"""What parties and server agree to before the first release, and the noise that follows from it.

The terms are one record. Its digest is in every message, so all roles work under the same ones
(G19). No message carries a noise scale: ``noise_for`` derives a party's share from the terms and
the query, the same at every party and at the server (G6).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import ceil, inf, isqrt
from numbers import Integral
from typing import Any, ClassVar

import gmpy2
import numpy as np

from sklearn_fedpriv._wire import digest, record
from sklearn_fedpriv.exceptions import BudgetExceeded, TooFewParties
from sklearn_fedpriv.privacy._calibration import SMOOTHING_LOSS, gaussian_epsilon
from sklearn_fedpriv.privacy._events import (
    Event,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease, check_plan
from sklearn_fedpriv.privacy._noise import discrete_gaussian, polya_share
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.privacy._sampling import sampled_epsilon, sampled_multiplier
from sklearn_fedpriv.privacy._tails import gaussian_tail, polya_tail, ratio_for
from sklearn_fedpriv.secure._protocol import SecureSum

CALIBRATIONS = ("proved", "published")
NEIGHBOURS = tuple(product(("record", "party"), ("add_remove", "replace")))

# G10. The unknown shares together are charged as a Gaussian with LOST ticks^2 less of variance.
# Ticks are multiplied by a whole number until that loss is under 0.4 % of the variance and until a
# single share, too, loses little (it is what a server sees of a party under secure_sum="plain").
LOST = 3
_SMALLEST_TOTAL = 765
_SMALLEST_SHARE = 20
LOG2_FAILURE = 64  # chance of a wrapped word in a fit: 2^-64 (G12)


@record
@dataclass(frozen=True, eq=False)  # equal is what has the same bytes
class Terms:
    """Everything that was agreed for one fit.

    Parameters
    ----------
    federation : bytes
        Random identity of the federation.
    fit : int
        Number of the fit in this federation, from 0.
    parties : tuple of str
        Names, sorted.
    min_honest : int
        At least so many parties do not collude (``t``).
    max_dropouts : int
        At most so many invited parties may be missing from a sum.
    secure_sum : SecureSum
        Protocol and settings.
    keys : bytes
        Digest of the public keys.
    unit, adjacency : str
        What is protected, and what its neighbours are.
    budget : Budget
    calibration : {"proved", "published"}
    plan : tuple of PlannedRelease
    transforms : tuple of records
        Released states of earlier steps, applied to the rows inside each party.
    code : bytes
        Fingerprint of the code that every role built for itself, or empty.
    seeded : bool
        Whether the noise is reproducible, hence not private.
    """

    federation: bytes
    fit: int
    parties: tuple[str, ...]
    min_honest: int
    max_dropouts: int
    secure_sum: SecureSum
    keys: bytes
    unit: str
    adjacency: str
    budget: Budget
    calibration: str
    plan: tuple[PlannedRelease, ...]
    transforms: tuple
    code: bytes
    seeded: bool

    def __post_init__(self) -> None:
        check_trust(len(self.parties), self.min_honest, self.max_dropouts)
        if list(self.parties) != sorted(set(self.parties)):
            raise ValueError("The parties of the terms must be distinct and sorted.")
        if (self.unit, self.adjacency) not in NEIGHBOURS:
            raise ValueError(f"unit and adjacency must be one of {NEIGHBOURS}.")
        check_plan(self.plan, self.budget.mechanism)
        if self.sampled and (self.unit, self.adjacency) != ("record", "add_remove"):
            raise ValueError("Sampled steps protect a record that is added or removed.")
        if self.sampled and self.calibration != "proved":
            raise ValueError("Sampled steps are calibrated by proof only.")
        if self.calibration not in CALIBRATIONS:
            raise ValueError(f"calibration must be one of {CALIBRATIONS}.")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the terms."""
        return digest(self)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Terms) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def charged(self) -> Budget:
        """What ledgers hold the fit to: a method without proof costs everything (G4)."""
        if self.calibration == "proved":
            return self.budget
        return replace(self.budget, epsilon=inf)

    @property
    def n_coordinates(self) -> int:
        """How many numbers the whole plan may release."""
        return sum(planned.length for planned in self.plan)

    @property
    def sampled(self) -> bool:
        """Whether the plan is steps on Poisson samples."""
        return bool(self.plan) and self.plan[0].sampling_rate < 1

    @cached_property
    def multiplier(self) -> Fraction:
        """Noise of each sampled step, over its sensitivity."""
        step, budget = self.plan[0], self.budget
        return sampled_multiplier(
            budget.epsilon, budget.delta, self.n_coordinates, step.sampling_rate, step.count
        )

    @property
    def partial(self) -> bool:
        """Whether some releases may leave out some parties' data."""
        return any(planned.participations for planned in self.plan)

    @property
    def disclosed(self) -> tuple[str, ...]:
        """What the plan's releases tell without noise."""
        return tuple(planned.discloses for planned in self.plan if planned.discloses)

    def invited(self, participants: tuple[str, ...]) -> tuple[str, ...]:
        """Who is in the sum of a release that asks for these parties' data; empty means all.

        Noise in shares is made by all parties, so all are in the sum. Metric noise is made in full
        by each participant; the others are in the sum only where the protocol needs them.
        """
        few = 1 < len(participants) < len(self.parties)
        if few and self.budget.mechanism == "metric" and self.max_dropouts == 0:
            if self.secure_sum.takes_subsets:
                return participants
        return self.parties

    @property
    def unknown_shares(self) -> int:
        """How many shares alone carry the guarantee (G9).

        Of all parties, taken away: colluders, the curious party itself, and those that are missing.
        """
        colluders = len(self.parties) - self.min_honest
        return max(1, len(self.parties) - colluders - 1 - self.max_dropouts)

    def server_epsilon(self) -> float:
        """Epsilon towards a server that sees each party's answer by itself."""
        m = self.unknown_shares
        if self.calibration == "published" or not self.budget.private:
            return inf
        hidden = self.secure_sum.hides_parties and not self.secure_sum.insecure
        if hidden or len(self.parties) == 1 or self.budget.mechanism == "metric":
            return float(self.budget.epsilon)
        if self.budget.mechanism == "laplace":
            return float(self.budget.epsilon) if m == 1 else inf
        # One share has variance (A + LOST) / m where all m have mu^2 A: see noise_for.
        smallest = max(_SMALLEST_TOTAL, _SMALLEST_SHARE * m)
        more = m * smallest / Fraction(smallest + LOST - LOST * m)
        loss = SMOOTHING_LOSS * self.n_coordinates
        delta = self.budget.delta * (1 - loss)
        if self.sampled:
            step, grain = self.plan[0], 2**20
            multiplier = Fraction(isqrt(int(self.multiplier**2 / more * grain**2)), grain)
            epsilon = sampled_epsilon(multiplier, delta, step.sampling_rate, step.count)
        else:
            total = self.budget.total(self.n_coordinates)
            assert isinstance(total, Fraction)
            epsilon = gaussian_epsilon(total * more, delta)
        epsilon += float(2 * loss)
        return max(epsilon, float(self.budget.epsilon))


@dataclass(frozen=True)
class Noise:
    """What each party adds to one release, and what that is charged.

    ``share`` is the variance of a discrete Gaussian share; or, with ``polya`` parties, the ratio of
    a Polya share; zero adds nothing. Answers are multiplied by ``scale`` first.
    """

    scale: int
    share: Fraction
    polya: int
    event: Event
    shared: ClassVar[bool] = True  # part of everybody's, so that it is added by all (G9)

    def draw(self, length: int, stream: Stream) -> np.ndarray:
        """One party's share, int64 of shape (length,), modulo 2^64 like the words (G12)."""
        if self.polya:
            share = polya_share(self.share, self.polya, length, stream)
        else:
            share = discrete_gaussian(self.share, length, stream)
        if share.dtype == object:  # large noise is drawn as Python ints
            share = (share % 2**64).astype(np.uint64).view(np.int64)
        return share

    def sd(self, n_shares: int) -> float:
        """Standard deviation of the sum of so many shares, in ticks of the unscaled answer."""
        if self.polya:
            a = self.share  # a fraction: 1 - a may be tiny
            variance = float(2 * a / (1 - a) ** 2 / self.polya)  # of one Polya share
        else:
            variance = float(self.share)
        return (n_shares * variance) ** 0.5 / self.scale

    def tail(self, n_shares: int, log2_failure: int) -> int:
        """A size that the sum of so many shares exceeds with chance 2^-log2_failure at most."""
        if not self.share:
            return 0
        if self.polya:
            return polya_tail(self.share, n_shares, self.polya, log2_failure)
        return gaussian_tail(n_shares * self.share, log2_failure)


def check_trust(n_parties: int, min_honest: int, max_dropouts: int) -> None:
    """Refuse a trust that makes no sense, or that leaves no honest share of noise (G9)."""
    for name, value, low in (("min_honest", min_honest, 1), ("max_dropouts", max_dropouts, 0)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name} must be an int of at least {low} or None; got {value!r}.")
    if min_honest > n_parties:
        raise TooFewParties(
            f"min_honest={min_honest} needs at least as many parties; got {n_parties}."
        )
    if max_dropouts >= min_honest or max_dropouts >= n_parties:
        raise ValueError(
            f"max_dropouts must be below min_honest={min_honest} and below the number of parties "
            f"{n_parties}; got {max_dropouts}."
        )


def noise_for(
    terms: Terms,
    share: Fraction,
    squared: int | Fraction,
    absolute: int,
    sampling_rate: Fraction = Fraction(1),
) -> Noise:
    """Derive one party's share of the noise.

    Parameters
    ----------
    terms : Terms
    share : Fraction
        Of the fit's budget, for this release.
    squared : int or Fraction
        Squared L2 sensitivity in ticks^2.
    absolute : int
        For Laplace noise, L1 sensitivity in ticks.
    sampling_rate : Fraction
        Below 1 for a step on a Poisson sample, whose noise follows from the number of steps and not
        from a share.
    """
    budget, m = terms.budget, terms.unknown_shares
    proved = terms.calibration == "proved"
    if not budget.private:
        return Noise(1, Fraction(0), 0, UnprotectedEvent())
    if budget.mechanism == "laplace":
        epsilon = share * Fraction(budget.epsilon)
        pure = PureEvent(epsilon) if proved else UnprotectedEvent()
        return Noise(1, ratio_for(epsilon, absolute), m, pure)
    if sampling_rate < 1:
        if not terms.sampled:
            raise BudgetExceeded("The plan has no sampled steps.")
        wanted = squared * terms.multiplier**2
    else:
        wanted = _wanted_variance(terms, share, squared)
    scale = _scale_for(wanted, m)
    variance = _rounded_up((wanted * scale**2 + (LOST if proved else 0)) / m)
    mu_squared = squared * scale**2 / (m * variance - LOST)
    charged: Event = GaussianEvent(mu_squared)
    if sampling_rate < 1:
        charged = SampledGaussianEvent(sampling_rate, mu_squared)
    return Noise(scale, variance, 0, charged if proved else UnprotectedEvent())


def _wanted_variance(terms: Terms, share: Fraction, squared: int | Fraction) -> Fraction:
    """Variance of the unknown shares together, in ticks^2 of the unscaled answer."""
    if terms.calibration == "proved":
        return squared / (share * Fraction(terms.budget.total(terms.n_coordinates)))
    # Published: sd = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon for each query by itself.
    epsilon = share * Fraction(terms.budget.epsilon)
    logarithm = Fraction(float(gmpy2.log(gmpy2.mpfr(Fraction(5, 4) / terms.budget.delta))))
    return squared * 2 * logarithm / epsilon**2


def _scale_for(wanted: Fraction, m: int) -> int:
    """Smallest whole multiplier of the ticks that makes the noise fine enough (G10)."""
    needed = max(_SMALLEST_TOTAL, _SMALLEST_SHARE * m) / wanted
    return 1 if needed <= 1 else isqrt(ceil(needed) - 1) + 1


def _rounded_up(variance: Fraction) -> Fraction:
    return Fraction(ceil(variance * 256), 256)

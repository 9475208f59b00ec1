"""How the budget of a fit is spread over its rounds.

A schedule says how large the noise of each round is *relative* to the others; the budget says how
large it is. With Gaussian noise of variance ``v`` a release of L2 sensitivity ``s`` takes ``s^2/v``
of ``mu^2``, so a round's share of the budget is proportional to its precision ``1/v``, and shares
that add up to the total keep the guarantee, whatever the schedule and also when it is changed after
seeing earlier rounds (the filter of G13). The mathematics is exact: weights and shares are whole
numbers of a fixed grain.

References
----------
Yuan et al., "Amplitude-varying perturbation for balancing privacy and utility in federated
learning", IEEE TIFS 2023 (arXiv 2303.04274): Algorithm 1, Theorems 1 and 2.
Smith and Thakurta, "Fully adaptive composition for Gaussian differential privacy", 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf
from numbers import Real
from typing import Any

import numpy as np

from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.privacy._arguments import count_argument, fraction_argument
from sklearn_fedpriv.privacy._calibration import exact

_WEIGHT_BITS = 192  # the largest weight of a schedule is 2^192
_GRAIN_BITS = 80  # shares are multiples of 2^-80 of the total
# No round gets less than 2^-64 of the total. The grain is 2^16 times finer, so that no rounding
# takes a round's whole share, and shares only grow when later rounds are dropped.
_SMALLEST_BITS = 64


@dataclass(frozen=True)
class GeometricNoise:
    """Noise whose variance changes by the same factor from each round to the next.

    The variance of round ``m`` is proportional to ``ratio**m`` (Yuan et al. 2023, Algorithm 1).

    Parameters
    ----------
    ratio : float, default=1.0
        Positive and finite. Below 1 the noise falls over the rounds, above 1 it rises, 1 keeps it
        constant. It is the ratio of *variances*: standard deviations change by its square root.

    Raises
    ------
    TypeError, ValueError
        ``ratio`` is no real number, or not positive and finite.

    Notes
    -----
    Where the error shrinks by a factor ``a`` a round, ``ratio = sqrt(a)`` is best: early noise is
    forgotten. A ratio chosen by comparing fits on private rows is paid for like any tuning.
    """

    ratio: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", _positive("ratio", self.ratio))

    def weights(self, n_rounds: int) -> list[int]:
        """Relative precision of each of ``n_rounds`` rounds, the largest 2^192."""
        return _geometric(self.ratio, n_rounds)


@dataclass(frozen=True)
class CustomNoise:
    """Noise with a relative variance given for each round.

    Parameters
    ----------
    variances : sequence of float, shape (n_rounds,)
        Positive and finite; only their ratios matter.

    Raises
    ------
    TypeError, ValueError
        ``variances`` is no sequence of real numbers, is empty, or has one that is not positive and
        finite.
    """

    variances: Sequence[float] | np.ndarray

    def __post_init__(self) -> None:
        if not _is_sequence(self.variances):
            raise TypeError(
                f"variances must be a sequence of numbers, one a round; got {self.variances!r}."
            )
        checked = tuple(_positive(f"variances[{i}]", v) for i, v in enumerate(self.variances))
        if not checked:
            raise ValueError("variances must have one number a round; got none.")
        object.__setattr__(self, "variances", checked)  # plain and hashable, for == and repr

    def weights(self, n_rounds: int) -> list[int]:
        """Relative precision of each round, the largest 2^192.

        Raises
        ------
        ValueError
            ``n_rounds`` is not the number of variances.
        """
        if n_rounds != len(self.variances):
            raise ValueError(
                f"The noise schedule has {len(self.variances)} variances and the fit has "
                f"{n_rounds} rounds; give one variance a round."
            )
        variances = [Fraction(exact(v)) for v in self.variances]
        least = min(variances)
        return [int((least / v) * 2**_WEIGHT_BITS) for v in variances]


@dataclass(frozen=True)
class AdaptiveRounds:
    """Fewer rounds, each with less noise, once the loss has stopped falling.

    After ``patience`` rounds in a row without a new smallest loss, the total number of rounds ``M``
    becomes ``ceil(discount * M)``, at least one more than are done, and what is left of the budget
    is spread over the rounds left, in the same geometric series (Yuan et al. 2023, Theorem 2).

    The loss must be public (of ``X_val``) or itself released: a loss taken from the parties' rows
    without noise would leak through the number of rounds.

    Parameters
    ----------
    discount : float, default=0.8
        In (0, 1).
    ratio : float, default=1.0
        Of variances, as in ``GeometricNoise``.
    loss_share : float, default=0.1
        In (0, 1). Part of the fit's budget that pays for noisy losses of the parties where no
        public validation data is given. Unused with validation data.
    patience : int, default=1
        At least 1.

    Raises
    ------
    TypeError, ValueError
        A setting is of another type or out of its range.
    """

    discount: float = 0.8
    ratio: float = 1.0
    loss_share: float = 0.1
    patience: int = 1

    def __post_init__(self) -> None:
        for name in ("discount", "loss_share"):
            part = _positive(name, getattr(self, name))
            if not part < 1:
                raise ValueError(f"{name} must be in (0, 1); got {part!r}.")
            object.__setattr__(self, name, part)
        object.__setattr__(self, "ratio", _positive("ratio", self.ratio))
        object.__setattr__(self, "patience", count_argument("patience", self.patience, 1))

    def weights(self, n_rounds: int) -> list[int]:
        """Relative precision of each of ``n_rounds`` rounds, the largest 2^192."""
        return _geometric(self.ratio, n_rounds)


Schedule = GeometricNoise | CustomNoise | AdaptiveRounds


def as_schedule(noise_schedule: Any) -> Schedule:
    """The schedule that an estimator's ``noise_schedule`` stands for.

    Parameters
    ----------
    noise_schedule : float, sequence of float, or schedule
        A number is the ratio of a ``GeometricNoise``, a sequence the variances of a
        ``CustomNoise``; a schedule is returned as it is.

    Returns
    -------
    schedule : GeometricNoise, CustomNoise or AdaptiveRounds

    Raises
    ------
    TypeError
        ``noise_schedule`` is none of these.
    ValueError
        A ratio or a variance is not positive and finite.
    """
    if isinstance(noise_schedule, Schedule):
        return noise_schedule
    if isinstance(noise_schedule, Real) and not isinstance(noise_schedule, bool):
        return GeometricNoise(noise_schedule)  # type: ignore[arg-type]
    if _is_sequence(noise_schedule):
        return CustomNoise(noise_schedule)
    raise TypeError(
        "noise_schedule must be a positive number (the ratio of GeometricNoise), a sequence of "
        "variances, one a round, or a GeometricNoise, CustomNoise or AdaptiveRounds; got "
        f"{noise_schedule!r}."
    )


class Shares:
    """What each round of one fit may take of the budget, handed out round by round.

    ::

        shares = Shares(noise_schedule, n_rounds, Fraction(1))
        while shares.left:
            step = run.release(query, shares.take())
            ...
            shares.observe(validation_loss)

    The shares add up to ``total`` exactly once no round is left, however often ``observe`` changed
    the rounds to come. Declare ``total`` and the first ``n_rounds`` in the plan of the fit.

    Parameters
    ----------
    schedule : float, sequence of float, or schedule
        See ``as_schedule``.
    n_rounds : int
        At least 1.
    total : Fraction
        In (0, 1]: part of the fit's budget for all rounds; of ``mu^2`` for Gaussian noise.

    Raises
    ------
    TypeError, ValueError
        An argument is of another type or out of its range; or the schedule leaves some round less
        than 2^-64 of the total.

    Notes
    -----
    Each share is within ``n_rounds`` times 2^-80 of the total of its exact value, so that their
    denominators stay small.
    """

    def __init__(self, schedule: Any, n_rounds: int, total: Fraction) -> None:
        self.schedule = as_schedule(schedule)
        self._total = fraction_argument("total", total)
        if not 0 < self._total <= 1:
            raise ValueError(f"total must be in (0, 1]; got {total}.")
        n_rounds = count_argument("n_rounds", n_rounds, 1)
        weights = self.schedule.weights(n_rounds)
        least = min(weights)
        if least << _SMALLEST_BITS < sum(weights):
            raise ValueError(
                f"{self.schedule} leaves round {weights.index(least) + 1} of {n_rounds} less than "
                f"2^-{_SMALLEST_BITS} of the budget, so its noise would drown the fit. Take a "
                "ratio nearer to 1, closer variances or fewer rounds."
            )
        self._grains = _spread(2**_GRAIN_BITS, weights)  # of the rounds to come
        self._done = 0
        self._best, self._waited = inf, 0

    @property
    def left(self) -> int:
        """How many rounds are to come."""
        return len(self._grains)

    @property
    def n_rounds(self) -> int:
        """How many rounds there are by now, those done included."""
        return self._done + self.left

    def planned(self) -> tuple[Fraction, ...]:
        """Shares of the rounds to come, in order; takes none."""
        return tuple(self._total * grains / 2**_GRAIN_BITS for grains in self._grains)

    def take(self) -> Fraction:
        """Share of the next round.

        Raises
        ------
        BudgetExceeded
            No round is left.
        """
        if not self._grains:
            raise BudgetExceeded(
                f"All {self._done} rounds have taken their shares; nothing is left for another."
            )
        self._done += 1
        return self._total * self._grains.pop(0) / 2**_GRAIN_BITS

    def observe(self, loss: float) -> None:
        """Tell the loss after a round; shortens what is left under ``AdaptiveRounds``.

        Parameters
        ----------
        loss : float
            Public, or released. NaN and infinity count as a loss that did not fall.
        """
        if not isinstance(self.schedule, AdaptiveRounds):
            return
        if loss < self._best:
            self._best, self._waited = loss, 0
            return
        self._waited += 1
        if self._waited < self.schedule.patience or not self._grains:
            return
        self._waited = 0
        # Exact: in floats ceil(0.07 * 100) would be 8.
        shortened = ceil(Fraction(exact(self.schedule.discount)) * self.n_rounds)
        left = max(1, shortened - self._done)
        # A geometric series goes on from any round in the same proportions.
        self._grains = _spread(sum(self._grains), self.schedule.weights(left))


def _spread(whole: int, weights: list[int]) -> list[int]:
    """``whole`` in proportion to ``weights``, each part rounded down; the parts sum to it exactly.

    What a rounding leaves over stays with the rounds after it; the last takes all that is left.
    """
    parts, weight = [], sum(weights)
    for w in weights:
        parts.append(whole * w // weight)
        whole, weight = whole - parts[-1], weight - w
    return parts


def _geometric(ratio: float, n_rounds: int) -> list[int]:
    """Whole numbers in proportion to ``ratio**-m``, from the largest down: none can overflow."""
    fraction = Fraction(exact(ratio))
    factor = min(fraction, 1 / fraction)
    weights = [2**_WEIGHT_BITS]
    for _ in range(n_rounds - 1):
        weights.append(weights[-1] * factor.numerator // factor.denominator)
    return weights if ratio >= 1 else weights[::-1]


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number; got {value!r}.")
    number = float(value)
    if not 0 < number < inf:
        raise ValueError(f"{name} must be positive and finite; got {value!r}.")
    return number


def _is_sequence(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 1
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)

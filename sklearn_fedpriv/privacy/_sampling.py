"""Noise for a fixed number of steps, each on a fresh Poisson sample that nobody else sees.

A step adds Gaussian noise of standard deviation ``multiplier * sensitivity`` to a sum over a sample
in which each row is with probability ``rate``, by itself. What ``count`` such steps cost follows
from the privacy loss distribution of one step composed with itself, for adding and for removing a
row. dp-accounting computes it, with discretisations that err on the private side.

All roles derive the multiplier for themselves (G6). It is rounded up to a coarse grid, so that the
last digits of the library do not matter.

References
----------
Koskela, Jaelkoe and Honkela, "Computing tight differential privacy guarantees using FFT", 2020.
Doroshenko et al., "Connect the dots: tighter discrete approximations of privacy loss
distributions", PETS 2022.
"""

from fractions import Fraction
from functools import lru_cache
from math import ceil, sqrt
from typing import Any

from sklearn_fedpriv.privacy._calibration import (
    SMOOTHING_LOSS,
    Exact,
    gaussian_budget,
    gaussian_epsilon,
)

GRID = 1024  # multipliers are multiples of 1 / GRID
# The library composes by fast Fourier transforms, whose rounding none of its estimates covers:
# about 1e-16 of mass a point, and some 10^4 points count. The delta aimed at is less by this.
_FOURIER = 1e-11
SMALLEST_DELTA = Fraction(1, 10**10)
# Beyond it the steps are charged as if nothing were sampled, which is always an upper bound.
LARGEST_EPSILON = 100
_POINTS = 50_000  # of the losses of one step


@lru_cache(maxsize=64)
def sampled_multiplier(
    epsilon: Exact, delta: Fraction, n_coordinates: int, rate: Fraction, count: int
) -> Fraction:
    """Smallest noise multiplier on the grid at which the steps cost at most (epsilon, delta).

    Parameters
    ----------
    epsilon : Fraction
        Positive.
    delta : Fraction
        At least ``SMALLEST_DELTA``.
    n_coordinates : int
        Upper bound on the numbers released in all steps, for the cost of G10.
    rate : Fraction
        Sampling rate, in (0, 1).
    count : int
        Steps.

    Returns
    -------
    multiplier : Fraction
        Standard deviation over sensitivity, rounded up to a multiple of ``1 / GRID``.

    Raises
    ------
    ValueError
        ``delta`` or ``epsilon`` is too small for the accountant.
    """
    if delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta must be at least {float(SMALLEST_DELTA):g} where rows are sampled, as the "
            f"accountant's arithmetic is no finer; got {float(delta):g}. Use sampling_rate=1."
        )
    unsampled = count / Fraction(gaussian_budget(epsilon, delta, n_coordinates))
    high = ceil(GRID * Fraction(sqrt(unsampled)) * (1 + Fraction(1, 2**40)))
    if epsilon > LARGEST_EPSILON:
        return Fraction(high, GRID)
    loss = SMOOTHING_LOSS * n_coordinates
    target, goal = float(epsilon - 2 * loss), float(delta * (1 - loss)) - _FOURIER

    def enough(step: int) -> bool:
        composed = _composed(step / GRID, rate, count, target)
        return float(composed.get_delta_for_epsilon(target)) <= goal

    low = high // 2  # halve while that is enough: much less noise would have endless losses
    while low and enough(low):
        low, high = low // 2, low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Fraction(high, GRID)


@lru_cache(maxsize=64)
def sampled_epsilon(multiplier: Fraction, delta: Fraction, rate: Fraction, count: int) -> float:
    """What the steps cost at a given multiplier: an upper bound."""
    bound = gaussian_epsilon(count / multiplier**2, delta)
    if delta < SMALLEST_DELTA or multiplier < Fraction(1, 20):
        return bound
    for _ in range(4):  # each bound tells how fine the losses of the next should be
        composed = _composed(float(multiplier), rate, count, bound)
        bound = min(bound, float(composed.get_epsilon_for_delta(float(delta) - _FOURIER)))
    return bound


def _composed(multiplier: float, rate: Fraction, count: int, epsilon: float) -> Any:
    """Privacy loss distribution of all steps."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    # Fine against the loss of one step, which is some epsilon / sqrt(count); and not too many.
    widest = 0.5 / multiplier**2 + 10 / multiplier
    interval = max(epsilon / (200 * sqrt(count)), widest / _POINTS)
    one = from_gaussian_mechanism(
        standard_deviation=multiplier,
        pessimistic_estimate=True,
        value_discretization_interval=min(interval, 1e-2),
        sampling_prob=float(rate),
        use_connect_dots=True,
    )
    return one.self_compose(count)

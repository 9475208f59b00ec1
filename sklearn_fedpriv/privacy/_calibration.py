"""How much noise a budget buys, on the private side of every rounding.

All Gaussian releases of a fit together are one Gaussian mechanism with
``mu^2 = sum (sensitivity / sd)^2`` (Gaussian-DP composition; valid too when each release is chosen
after seeing the ones before it, as long as the sum never passes the budget: Smith & Thakurta 2022).
Its exact curve is (Balle & Wang 2018, Theorem 8)::

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)

evaluated here with 256 bits, so that no cancellation or overflow reaches the result.
"""

from fractions import Fraction
from functools import lru_cache
from math import inf, isinf

import gmpy2
from gmpy2 import mpfr

Exact = Fraction | float  # a Fraction, or the float infinity

_PRECISION = 256
_STEPS = 64
# Beyond this epsilon exp() leaves the range of MPFR, and the zCDP bound is as good as exact.
_LARGE = 10**8

# G10: charging sums of integer shares as one Gaussian costs 2g of epsilon and e^g times delta, with
# g = coordinates released in the fit times this constant (docs/noise.md).
SMOOTHING_LOSS = Fraction(1, 10**19)


def exact(value: float | Fraction) -> Exact:
    """The decimal number that the user wrote, exactly: ``exact(0.1) == Fraction(1, 10)``."""
    if isinstance(value, Fraction) or isinf(value):
        return value
    return Fraction(repr(float(value)))


def _gaussian_delta(epsilon: "mpfr", mu: "mpfr") -> "mpfr":
    root = gmpy2.sqrt(mpfr(2))
    above = gmpy2.erfc((epsilon / mu - mu / 2) / root)
    below = gmpy2.erfc((epsilon / mu + mu / 2) / root)
    return (above - gmpy2.exp(epsilon) * below) / 2


@lru_cache(maxsize=1024)
def gaussian_budget(epsilon: Exact, delta: Fraction, n_coordinates: int = 0) -> Exact:
    """Largest ``mu^2`` that all Gaussian releases of a fit may add up to.

    Parameters
    ----------
    epsilon : Fraction or inf
        Positive.
    delta : Fraction
        In (0, 1).
    n_coordinates : int
        Upper bound on the numbers released in the fit, for the cost of G10.

    Returns
    -------
    mu_squared : Fraction or inf
        Rounded down: the delta of the mechanism is at most ``delta``.
    """
    if isinstance(epsilon, float):
        return inf
    loss = SMOOTHING_LOSS * n_coordinates
    target = epsilon - 2 * loss
    if target <= 0:
        raise ValueError(
            f"epsilon={float(epsilon)} is too small for a plan of {n_coordinates} released numbers."
        )
    with gmpy2.context(precision=_PRECISION):
        eps, goal = mpfr(target), mpfr(delta * (1 - loss))  # e^-g >= 1 - g
        if eps > _LARGE:  # rho-zCDP, rho = mu^2 / 2, gives epsilon = rho + 2 sqrt(rho ln(1/delta))
            spare = -gmpy2.log(goal)
            low = gmpy2.sqrt(mpfr(2)) * (gmpy2.sqrt(eps + spare) - gmpy2.sqrt(spare))
            return _fraction(low * (1 - mpfr(2) ** -200)) ** 2
        high = mpfr(1)
        while _gaussian_delta(eps, high) <= goal:
            high *= 2
        low = high / 2
        while _gaussian_delta(eps, low) > goal:
            low, high = low / 2, low
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if _gaussian_delta(eps, middle) <= goal:
                low = middle
            else:
                high = middle
        return _fraction(low) ** 2


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu_squared: Exact, delta: Fraction) -> float:
    """Smallest epsilon of Gaussian releases that add up to ``mu_squared``, rounded up."""
    if isinstance(mu_squared, float):
        return inf
    if mu_squared == 0:
        return 0.0
    with gmpy2.context(precision=_PRECISION):
        mu, goal = gmpy2.sqrt(mpfr(mu_squared)), mpfr(delta)
        if mu**2 > 2 * _LARGE:
            return _up(mu**2 / 2 + mu * gmpy2.sqrt(-2 * gmpy2.log(goal)))
        if _gaussian_delta(mpfr(0), mu) <= goal:
            return 0.0
        high = mpfr(1)
        while _gaussian_delta(high, mu) > goal:
            high *= 2
        low = mpfr(0)
        for _ in range(_STEPS + int(high).bit_length()):
            middle = (low + high) / 2
            if _gaussian_delta(middle, mu) <= goal:
                high = middle
            else:
                low = middle
        return _up(high)


def _fraction(value: "mpfr") -> Fraction:
    return Fraction(*map(int, value.as_integer_ratio()))


def _up(value: "mpfr") -> float:
    with gmpy2.context(precision=53, round=gmpy2.RoundUp):
        return float(mpfr(value))

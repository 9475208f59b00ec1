"""How wide noise must be for an epsilon, and how large its sum can get.

Words and ciphertexts need room for the noise. Tails decide their size, never what is done with a
result. Everything is rounded to the safe side.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Any

import gmpy2

from sklearn_fedpriv.privacy._arguments import count_argument, fraction_argument, ratio_argument
from sklearn_fedpriv.privacy._lazy import rounded, rounding

_TAIL_BITS = 96  # relative precision of tail bounds and ratios, far beyond need


def ratio_for(epsilon: Fraction, sensitivity: int) -> Fraction:
    """Return the ratio of discrete Laplace noise for an epsilon: exp(-epsilon / sensitivity).

    Rounded up, which means more noise, by a relative 2**-96 of 1 - ratio at most.

    Parameters
    ----------
    epsilon : Fraction or int > 0
    sensitivity : int >= 1
        L1 sensitivity in ticks.

    Returns
    -------
    Fraction in (0, 1)
    """
    epsilon = fraction_argument("epsilon", epsilon)
    sensitivity = count_argument("sensitivity", sensitivity, 1)
    if epsilon <= 0:
        raise ValueError(f"epsilon must be above 0. Got {epsilon}.")
    exponent = epsilon / sensitivity
    # 1 - exp(-x) >= x / 2 for x <= 1, so these bits keep the result below 1.
    bits = _TAIL_BITS + 2 + int(1 / exponent).bit_length()
    down, up = rounding(bits)
    value = up.exp(up.minus(rounded(exponent, down)))
    return Fraction(_ceil(up.mul_2exp(value, bits)), 2**bits)


def gaussian_tail(variance: Fraction, log2_failure: int) -> int:
    """Return a bound that a sum of discrete Gaussians exceeds with probability <= 2**-k.

    Sums of independent discrete Gaussians are sub-Gaussian: E exp(sS) <= exp(s**2 V / 2), V the
    sum of their variance parameters (CKS, section 3; proof in ``docs/noise.md`` (d)). Hence
    P(|S| > B) <= 2 exp(-(B + 1)**2 / (2V)).

    Parameters
    ----------
    variance : Fraction or int >= 0
        V, in ticks squared, of all the shares in the sum.
    log2_failure : int >= 0
        k.

    Returns
    -------
    int
        The smallest B for which the right side is at most 2**-k; 0 if V is 0.
    """
    variance = fraction_argument("variance", variance)
    k = count_argument("log2_failure", log2_failure, 0)
    if variance < 0:
        raise ValueError(f"variance must be 0 or more. Got {variance}.")
    _, up = rounding(_TAIL_BITS + 2 * max(variance.numerator.bit_length(), k.bit_length()))
    square = up.mul(up.mul(up.log(gmpy2.mpz(2)), 2 * (k + 1)), rounded(variance, up))
    return max(0, _ceil(up.sqrt(square)) - 1)


def polya_tail(ratio: Fraction, shares: int, parties: int, log2_failure: int) -> int:
    """Return a bound that a sum of Polya shares exceeds with probability <= 2**-k.

    The sum S of `shares` shares is A - A' with A, A' negative binomial of shape
    r = shares / parties. For every q in (a, 1) and x >= 1 (``docs/noise.md`` (d)),
    P(S >= x) <= M c (a / q)**x, where M = ((1 - a)**2 / ((1 - q) (1 - a**2 / q)))**r and
    c = min(1, p / (1 - a / q)), p being the largest probability of a negative binomial (r, q).
    For r < 1 also P(S >= x) <= a**x. A few q are tried; the smallest bound is kept.

    Parameters
    ----------
    ratio : Fraction or int in [0, 1)
    shares : int >= 0
        Shares in the sum; any number, also below `parties`.
    parties : int >= 1
        As in ``polya_share``.
    log2_failure : int >= 0
        k.

    Returns
    -------
    int
        B with P(|S| > B) <= 2**-k. For k from 20 to 64 and shares >= parties it was at most 3 %
        above the exact quantile; for fewer shares it is that of one full discrete Laplace.
    """
    ratio = ratio_argument(ratio)
    shares, parties = count_argument("shares", shares, 0), count_argument("parties", parties, 1)
    k = count_argument("log2_failure", log2_failure, 0)
    if ratio == 0 or shares == 0:
        return 0
    return _polya_tail(ratio, Fraction(shares, parties), shares, k)


@lru_cache(maxsize=256)  # some 30 ms a bound, and a fit asks for the same one at every release
def _polya_tail(ratio: Fraction, shape: Fraction, shares: int, k: int) -> int:
    # Everything below is a sum of at most a dozen terms, each far smaller than 2**64 times the
    # scale; this precision leaves their rounding errors below 2**-96, which the last line covers.
    bits = _TAIL_BITS + 128 + 2 * (int(1 / (1 - ratio)).bit_length() + shares.bit_length())
    with gmpy2.context(precision=bits):
        need = (k + 1) * gmpy2.log(gmpy2.mpfr(2))
        if shape < 1:
            best = need / -_log(ratio)
        else:
            # 1 - q = (1 - a) / (1 + 2**(j/2)): from hardly any tilt to nearly all there is.
            reach = 2 * (16 + k.bit_length() + shares.bit_length())
            roots = [Fraction(1), Fraction(181, 128)]
            tilts = [roots[j % 2] * Fraction(2) ** (j // 2) for j in range(-reach, reach)]
            gaps = [(1 - ratio) / (1 + tilt) for tilt in tilts]
            best = min(_tilted_tail(ratio, 1 - gap, shape, need) for gap in gaps)
        return max(0, _ceil(best * (1 + gmpy2.mpfr(2) ** -_TAIL_BITS)) - 1)


def _tilted_tail(a: Fraction, q: Fraction, r: Fraction, need: Any) -> Any:
    """The x at which the bound of `polya_tail` for this q falls to exp(-need)."""
    log_m = _mpq(r) * (2 * _log(1 - a) - _log(1 - q) - _log(1 - a * a / q))
    # A negative binomial with r >= 1 rises while q (k + r) > k + 1.
    mode = max(0, -((1 - q * r) // (1 - q)))
    log_p = (
        gmpy2.lngamma(gmpy2.mpfr(_mpq(mode + r)))
        - gmpy2.lngamma(gmpy2.mpfr(mode + 1))
        - gmpy2.lngamma(gmpy2.mpfr(_mpq(r)))
        + mode * _log(q)
        + _mpq(r) * _log(1 - q)
    )
    log_c = min(gmpy2.mpfr(0), log_p - _log(1 - a / q))
    return (need + log_m + log_c) / _log(q / a)


def _mpq(x: Fraction | int) -> Any:
    return gmpy2.mpq(x)


def _log(x: Fraction) -> Any:
    """log of a rational in the current context; log1p keeps the digits of what is near 1."""
    return gmpy2.log1p(gmpy2.mpfr(_mpq(x - 1))) if 2 * x > 1 else gmpy2.log(gmpy2.mpfr(_mpq(x)))


def _ceil(x: Any) -> int:
    top, bottom = x.as_integer_ratio()
    return -int(-top // bottom)

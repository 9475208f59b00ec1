"""Exact integer noise, and shares of noise that add up.

Objects. Noise is counted in *ticks*, the steps of the integer grid on which answers are added. A
*share* is the noise that one party adds to its own answer; the shares of several parties together
hide the sum. There are two laws:

* discrete Gaussian, P(k) proportional to exp(-k**2 / (2 variance)); shares nearly add up, which
  costs a correction proved in ``docs/noise.md``;
* Polya shares: the difference of two negative binomials of shape 1/m. Any m of them add up, with
  no error at all, to the discrete Laplace law P(k) = (1 - a) / (1 + a) * a**|k|.

Who makes them. Each party, in its own process, from a :class:`Stream` that nobody else has. Who
may see them. Nobody: what leaves the party is its answer with the share added, and protected.

Exactness. Every draw has exactly the law stated, given uniform bits; no law is rounded. How floats
can be used all the same, see ``_lazy``.

Time. The draws reject and retry, so their time is random. Timing is outside the guarantee.

References
----------
Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", 2020 (CKS).
Kemp, "Efficient generation of logarithmically distributed pseudo-random variables", 1981.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from sklearn_fedpriv.privacy._arguments import count_argument, fraction_argument, ratio_argument
from sklearn_fedpriv.privacy._lazy import (
    SMALL_UNIFORM,
    Enclosure,
    Floats,
    bernoulli_exp,
    floor_of_ratio,
    quantiles,
    rounded,
    rounding,
    unit_interval,
)
from sklearn_fedpriv.privacy._randomness import Stream

_BLOCK = 1 << 14  # draws made at once; small enough for the processor's cache
_FAST_SCALE = 2**45  # above it, noise is made of Python ints
_FAST_GAP = Fraction(1, 2**40)  # the same for 1 - ratio
_LAST_LAPLACE = 2**16  # beyond it, _FAST_SCALE times the count might not fit an int64
_LAST_PART = 2**56  # the same for a sum of logarithmic variables


def discrete_gaussian(variance: Fraction, size: int, stream: Stream) -> NDArray[Any]:
    """Draw from the discrete Gaussian: P(k) proportional to exp(-k**2 / (2 variance)).

    CKS, Algorithm 3: a discrete Laplace draw Y of scale t = floor(sqrt(variance)) + 1 is kept with
    probability exp(-(|Y| - variance / t)**2 / (2 variance)).

    Parameters
    ----------
    variance : Fraction or int, 0 or in [2**-64, infinity)
        The parameter of the law, in ticks squared. From about 5 on the true variance is the same
        to 40 digits; below 1 it is smaller.
    size : int >= 0
    stream : Stream

    Returns
    -------
    ndarray of shape (size,)
        int64 if ``variance < 2 ** 90``, else Python ints in an object array.

    Raises
    ------
    TypeError
        If `variance` is not a Fraction or int: a float would be rounded already.
    ValueError
        If it is negative, or positive and below 2**-64.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sklearn_fedpriv.privacy._randomness import Stream
    >>> discrete_gaussian(Fraction(49, 4), 5, Stream(bytes(32))).dtype
    dtype('int64')
    """
    variance = fraction_argument("variance", variance)
    size = count_argument("size", size, 0)
    if variance < 0 or 0 < variance < Fraction(1, 2**64):
        raise ValueError(f"variance must be 0 or at least 2**-64 ticks squared. Got {variance}.")
    t = isqrt(variance.numerator // variance.denominator) + 1
    wide = t > _FAST_SCALE
    out = np.zeros(size, dtype=object if wide else np.int64)
    if variance == 0:
        return out
    centre = variance / t
    factor = gmpy2.mpq(2 * variance * centre.denominator**2)

    def exponent(y: Any) -> Any:
        return gmpy2.mpz(abs(int(y)) * centre.denominator - centre.numerator) ** 2 / factor

    filled = 0
    while filled < size:
        y = _discrete_laplace(t, min(_BLOCK, 3 * (size - filled) + 64), stream)
        # Error of the float exponent g, with z = |y| / sigma and d = z - (centre / sigma):
        # |y| and centre are off by a relative 2**-53, so d is off by at most 2**-52 (z + 1), and g
        # by 2**-52 (z + 1)**2 + 2**-51 g. What counts is exp(-g) times that. As g is at least
        # (z - 1)**2 / 2 for z > 1, exp(-g) (z + 1)**2 is below 6 for all z: in total below 2**-49.
        if wide:
            g = np.array([float(exponent(v)) for v in y], dtype=np.float64)
        else:
            d = np.abs(y).astype(np.float64) - float(centre)
            g = d * d / (2 * float(variance))
        kept = y[bernoulli_exp(g, y, exponent, stream)][: size - filled]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out


def polya_share(ratio: Fraction, parties: int, size: int, stream: Stream) -> NDArray[Any]:
    """Draw shares of discrete Laplace noise, any `parties` of which add up to it exactly.

    A share is the difference of two negative binomials of shape 1/m, m = `parties`, with
    P(k) = C(k + 1/m - 1, k) a**k (1 - a)**(1/m), a = `ratio`. It is drawn in the form that is
    equal in law and needs no table however large the noise (``docs/noise.md`` (c)): a Poisson
    number, of mean -2 log(1 - a) / m, of logarithmic variables, each with a fair sign.

    Parameters
    ----------
    ratio : Fraction or int in [0, 1)
        exp(-epsilon / sensitivity), rounded up: see ``_tails.ratio_for``.
    parties : int >= 1
        How many shares make up one full discrete Laplace.
    size : int >= 0
    stream : Stream

    Returns
    -------
    ndarray of shape (size,)
        int64 if ``1 - ratio >= 2 ** -40``, else Python ints in an object array.

    Raises
    ------
    TypeError
        If `ratio` is not a Fraction or int.
    ValueError
        If it is outside [0, 1), or `parties` is below 1.
    """
    ratio = ratio_argument(ratio)
    parties, size = count_argument("parties", parties, 1), count_argument("size", size, 0)
    gap = 1 - ratio
    wide = gap < _FAST_GAP
    out = np.zeros(size, dtype=object if wide else np.int64)
    if ratio == 0:
        return out
    table = _poisson_table(gap, parties)
    for start in range(0, size, _BLOCK):
        block = out[start : start + _BLOCK]
        counts = _poisson(table, gap, parties, len(block), stream)
        parts = _logarithmic(gap, int(counts.sum()), wide, stream)
        parts = np.where(_coins(len(parts), stream), -parts, parts)
        used = np.flatnonzero(counts)
        if len(used):
            block[used] = np.add.reduceat(parts, (np.cumsum(counts) - counts)[used])
    return out


def _discrete_laplace(t: int, tries: int, stream: Stream) -> NDArray[Any]:
    """Draws with P(k) proportional to exp(-|k| / t): CKS, Algorithm 2; fewer than `tries`."""
    wide = t > _FAST_SCALE
    tried = stream.below(t, tries)
    if wide:
        tried = tried.astype(object)
    # tried / t is off by a relative 2**-52, and exp(-g) g is at most 0.37.
    g = (tried / t).astype(np.float64)
    u = tried[bernoulli_exp(g, tried, lambda v: gmpy2.mpq(int(v), t), stream)]
    one, last = gmpy2.mpfr(1), None if wide else _LAST_LAPLACE
    v = floor_of_ratio(np.float64(1), len(u), None, lambda _, __: (one, one), last, stream)
    x = u + t * v
    negative = _coins(len(x), stream)
    kept: NDArray[Any] = np.where(negative, -x, x)[~(negative & (x == 0))]
    return kept


def _coins(n: int, stream: Stream) -> NDArray[np.bool_]:
    bits = np.frombuffer(stream.bytes(-(-n // 8)), dtype=np.uint8)
    return np.unpackbits(bits, count=n).astype(np.bool_)


def _logarithmic(gap: Fraction, n: int, wide: bool, stream: Stream) -> NDArray[Any]:
    """n draws with P(k) = -(1 - gap)**k / (k log(gap)), k >= 1 (Kemp 1981, method LK).

    Given U uniform, k - 1 is geometric with ratio 1 - gap**U, that is of rate -log(1 - gap**U).

    Error of the rate, for U >= 2**-20 and L = -log(gap) < 28. U is off by 2**-64 + 2**-53 U, so
    LU by less than 2**-47 and a relative 2**-43.9. P = exp(-LU) is then off by a relative 2**-46.
    Where P <= 1/2, -log(1 - P) is off by 2 P 2**-46 and a relative 2**-48: a relative 2**-44.
    Elsewhere 1 - P, from expm1, is off by a relative 2**-43 and its logarithm, which is at least
    0.69, by a relative 2**-42.4.
    """

    def enclose(values: Sequence[Any], bits: int) -> Enclosure:
        down, up = rounding(bits)
        u_low, u_high = unit_interval(values[0], bits)
        length_low, length_high = _minus_log(gap, bits)
        p_low = down.exp(down.minus(up.mul(length_high, u_high)))
        p_high = up.exp(up.minus(down.mul(length_low, u_low)))
        return down.minus(up.log1p(up.minus(p_low))), up.minus(down.log1p(down.minus(p_high)))

    words = stream.uint64(n)
    rates: Floats = np.full(n, np.nan)
    if not wide:
        u = words.astype(np.float64) * 2.0**-64
        usable = np.maximum(u, SMALL_UNIFORM)
        product = float(_minus_log(gap, 128)[0]) * usable
        p = np.exp(-product)
        small = p <= 0.5
        rates = np.empty(n)
        rates[small] = -np.log1p(-p[small])
        rates[~small] = -np.log(-np.expm1(-product[~small]))
        rates[u < SMALL_UNIFORM] = np.nan
    last = None if wide else _LAST_PART
    return 1 + floor_of_ratio(rates, n, words, enclose, last, stream)


def _poisson_cdf(gap: Fraction, parties: int, bits: int) -> list[Enclosure]:
    """Enclosures of P(N <= j), j = 0, 1, ..., to within 2**-bits of 1; mean -2 log(gap) / parties.

    P(N <= j) falls as the mean grows: its lower end is computed at the upper end of the mean.
    """
    down, up = rounding(bits)
    length_low, length_high = _minus_log(gap, bits)
    ends = []
    mean_low = down.div(down.mul(length_low, 2), parties)
    mean_high = up.div(up.mul(length_high, 2), parties)
    for context, mean in ((down, mean_high), (up, mean_low)):
        term = context.exp(context.minus(mean))
        ends.append((context, mean, term, term))
    table: list[Enclosure] = []
    j = 0
    while True:
        table.append((ends[0][3], ends[1][3]))
        if ends[1][3] >= 1 or j > mean_high and ends[0][2] < gmpy2.mpfr(2) ** -(bits + 8):
            return table
        j += 1
        ends = [
            (context, mean, grown := context.div(context.mul(term, mean), j), context.add(s, grown))
            for context, mean, term, s in ends
        ]


def _poisson_table(gap: Fraction, parties: int) -> Floats:
    """P(N <= j) in float, off by 2**-53 and ending above 1 - 2**-50."""
    table = np.array([float(low) for low, _ in _poisson_cdf(gap, parties, 64)])
    return table[: np.searchsorted(table, 1.0) + 1]


def _poisson(
    table: Floats, gap: Fraction, parties: int, n: int, stream: Stream
) -> NDArray[np.int64]:
    """n Poisson draws of mean -2 log(gap) / parties; `table` is that of `_poisson_table`."""
    return quantiles(table, n, lambda bits: _poisson_cdf(gap, parties, bits), stream)


@lru_cache(maxsize=64)
def _minus_log(x: Fraction, bits: int) -> Enclosure:
    down, up = rounding(bits)
    return down.minus(up.log(rounded(x, up))), up.minus(down.log(rounded(x, down)))

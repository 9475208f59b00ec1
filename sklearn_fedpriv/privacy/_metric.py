"""Noise for metric privacy: the multivariate Laplace law, rounded to the grid, exactly.

Objects. A vector of d whole numbers of ticks gets noise X from all of R^d at once, of density
proportional to exp(-rate * |x|), |x| the Euclidean length; the sum is rounded to whole ticks, once.
By the triangle inequality two vectors at distance D are told apart by a factor of at most
exp(rate * D): pure epsilon = rate * D, whatever is done with the answer afterwards, rounding too.

Who makes it. Each party, in full: it is never split into shares (G17). Who may see it. Nobody.

The form drawn. For Z standard normal in d dimensions and S the length of a standard normal vector
in d + 1 others, X = Z S / rate. Proof: given w = S**2 / rate**2, X has variance w in each
coordinate, and w has density proportional to w**((d-1)/2) exp(-rate**2 w / 2). The density of X is
the integral over w of (2 pi w)**(-d/2) exp(-x**2 / 2w) times that, which leaves
w**(-1/2) exp(-x**2 / 2w - rate**2 w / 2), whose integral is proportional to exp(-rate |x|). QED.
(Laplace transform of the law of a first passage time.)
S**2 / 2 is a sum of (d + 1) // 2 exponential variables, and half a squared normal if d is even.

Exactness. What is returned has exactly the law of the rounded sum, given uniform bits. Every
uniform number has as many bits as are needed to round for certain (see ``_lazy``): no float, no
finite precision and so no statistical distance enters the law. As the vector is whole, rounding
the sum is the same as adding the rounded noise: the result carries no trace of the vector in its
last bits (Mironov 2012).

Time. Random and dependent on the draw, as in ``_noise``: outside the guarantee.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from sklearn_fedpriv.privacy import _lazy
from sklearn_fedpriv.privacy._arguments import count_argument, fraction_argument
from sklearn_fedpriv.privacy._lazy import SMALL_UNIFORM, Enclosure, rounded, rounding, unit_interval
from sklearn_fedpriv.privacy._randomness import Stream

_RADIUS_BITS = 128
LARGEST_SCALE = 2.0**40  # of the noise in one number; rounding could no more be settled in float
_LARGEST_DRAW = 2**62


def metric_noise(ticks: NDArray[np.int64], rate: Fraction, stream: Stream) -> NDArray[np.int64]:
    """Add multivariate Laplace noise to a vector of ticks and round, once.

    Parameters
    ----------
    ticks : ndarray of shape (d,), int64
        The encoded answer, all of it: the noise is drawn jointly.
    rate : Fraction or int > 0
        Epsilon per tick of Euclidean distance.
    stream : Stream

    Returns
    -------
    ndarray of shape (d,), int64

    Raises
    ------
    TypeError
        If `ticks` is not int64, or `rate` not a Fraction or int.
    ValueError
        If `rate` is not positive, or so small that the noise is beyond 2**40 ticks.
    """
    if not isinstance(ticks, np.ndarray) or ticks.dtype != np.int64 or ticks.ndim != 1:
        raise TypeError("ticks must be an int64 array with one axis: encode first, then add noise.")
    return ticks + multivariate_laplace(rate, len(ticks), stream)


def multivariate_laplace(rate: Fraction, dimension: int, stream: Stream) -> NDArray[np.int64]:
    """One draw of the multivariate Laplace law, each number rounded to the nearest integer.

    Parameters
    ----------
    rate : Fraction or int > 0
        Of the density exp(-rate * length). A number has standard deviation
        sqrt(dimension + 1) / rate.
    dimension : int >= 1
    stream : Stream

    Returns
    -------
    ndarray of shape (dimension,), int64
        Uncorrelated but not independent.
    """
    rate = fraction_argument("rate", rate)
    d = count_argument("dimension", dimension, 1)
    if rate <= 0 or sqrt(d + 1) / float(rate) > LARGEST_SCALE:
        raise ValueError(f"rate must be above 0 and at least sqrt(dimension) / 2**40. Got {rate}.")
    radius = _Radius(rate, d + 1, stream)
    words = stream.uint64(2 * d).reshape(2, d)
    # Z = sqrt(g) cos(2 pi V), g = -2 log(U) (Box and Muller). For U >= 2**-20, g is off by 2**-41
    # at most (as in `floor_of_ratio`), so its root r by 2**-41 / r for r >= 2**-10, the others
    # going the exact way; the cosine by 2**-45 (numpy's own error, and 2**-49 from the angle).
    u, v = words * 2.0**-64
    g = -2 * np.log(np.maximum(u, SMALL_UNIFORM))
    usable = (u >= SMALL_UNIFORM) & (g >= 2.0**-20)
    r = np.sqrt(np.maximum(g, 2.0**-20))
    z = r * np.cos(2 * np.pi * v)
    low, high = radius.enclose(_RADIUS_BITS)
    size = float(high)  # off by a relative 2**-52; the other end is further
    loose = (size - float(low)) / size + _lazy._WINDOW
    half_up = z * size + 0.5
    error = size * _lazy._WINDOW * (1 / r + r) + loose * np.abs(z * size) + 2.0**-52
    floor = np.floor(half_up - error)
    certain = (floor == np.floor(half_up + error)) & usable
    out = np.where(certain, floor, 0).astype(np.int64)
    for i in np.flatnonzero(~certain):
        value = _lazy._until_certain(
            lambda values, bits: _rounded_product(values, bits, radius), list(words[:, i]), stream
        )
        if abs(value) > _LARGEST_DRAW:
            raise OverflowError("A draw of probability below exp(-2**20): the stream is broken.")
        out[i] = value
    return out


@lru_cache(maxsize=64)  # every role asks for the same at every release
def metric_tail(rate: Fraction, dimension: int, shares: int, log2_failure: int) -> int:
    """Return a bound that one number of a sum of draws exceeds with probability <= 2**-k.

    E exp(s X_1) = (1 - s**2 / rate**2)**(-(d + 1) / 2), from the form Z S / rate. Hence for every
    q in (0, 1), with p = shares (d + 1) / 2, P(|sum| >= x) <= 2 exp(-q rate x - p log(1 - q**2)).
    A few q are tried. Rounding adds half a tick a share.

    Parameters
    ----------
    rate, dimension
        As in :func:`multivariate_laplace`.
    shares : int >= 0
    log2_failure : int >= 0
        k.
    """
    rate = fraction_argument("rate", rate)
    d, shares = count_argument("dimension", dimension, 1), count_argument("shares", shares, 0)
    k = count_argument("log2_failure", log2_failure, 0)
    down, up = rounding(128)
    need = up.mul(up.log(gmpy2.mpz(2)), k + 1)
    p, best = gmpy2.mpq(shares * (d + 1), 2), None
    for j in range(1, 512):
        q = gmpy2.mpq(j, 512)
        x = up.div(up.minus(up.mul(down.log(rounded(1 - q * q, down)), p) - need), rounded(q, down))
        best = x if best is None or x < best else best
    return int(gmpy2.ceil(up.mul(best, rounded(1 / rate, up)))) + (shares + 1) // 2


class _Radius:
    """S / rate, S the length of a standard normal vector: one number, as exact as is asked for."""

    def __init__(self, rate: Fraction, dimension: int, stream: Stream) -> None:
        self._inverse = 1 / rate
        self._odd = dimension % 2  # a squared normal, from the last two uniforms
        self._values = [gmpy2.mpz(0)] * (dimension // 2 + 2 * self._odd)
        self._bits = 0
        self._stream = stream

    def enclose(self, bits: int) -> Enclosure:
        """Certain bounds, from uniforms of at least so many bits; the upper one may be infinite."""
        while self._bits < bits:
            words = self._stream.uint64(len(self._values))
            self._values = [x << 64 | int(w) for x, w in zip(self._values, words, strict=True)]
            self._bits += 64
        down, up = rounding(self._bits)
        cut = len(self._values) - 2 * self._odd
        low, high = gmpy2.mpfr(1), gmpy2.mpfr(1)
        for value in self._values[:cut]:  # mpfr exponents have 62 bits: no underflow
            low, high = down.mul(low, value), up.mul(high, value + 1)
        scale = self._bits * cut
        half_low = down.minus(up.log(up.div_2exp(high, scale)))
        half_high = up.minus(down.log(down.div_2exp(low, scale)))
        if self._odd:
            root = _root(self._values[-2], self._bits)
            cosine = _cosine(self._values[-1], self._bits)
            near = max(gmpy2.mpfr(0), cosine[0], down.minus(cosine[1]))
            far = max(cosine[1], up.minus(cosine[0]))
            half_low = down.add(half_low, down.div_2exp(down.square(down.mul(root[0], near)), 1))
            half_high = up.add(half_high, up.div_2exp(up.square(up.mul(root[1], far)), 1))
        return (
            down.mul(down.sqrt(down.mul_2exp(half_low, 1)), rounded(self._inverse, down)),
            up.mul(up.sqrt(up.mul_2exp(half_high, 1)), rounded(self._inverse, up)),
        )


def _root(value: Any, bits: int) -> Enclosure:
    """sqrt(-2 log(U)) for U in [value, value + 1] / 2**bits."""
    down, up = rounding(bits)
    low, high = unit_interval(value, bits)
    return (
        down.sqrt(down.mul_2exp(down.minus(up.log(high)), 1)),
        up.sqrt(up.mul_2exp(up.minus(down.log(low)), 1)),
    )


def _cosine(value: Any, bits: int) -> Enclosure:
    """cos(2 pi V): its slope is below 2 pi < 7, and rounding is far below 2**-bits."""
    down, up = rounding(bits)
    c = down.cos(down.mul(down.const_pi(), down.div_2exp(value, bits - 1)))
    slack = gmpy2.mpfr(2) ** (3 - bits)
    return down.sub(c, slack), up.add(c, slack)


def _rounded_product(values: Sequence[Any], bits: int, radius: _Radius) -> int | None:
    """The integer nearest to sqrt(-2 log(U)) cos(2 pi V) S / rate, or None while it is not sure."""
    if values[0] == 0:
        return None
    down, up = rounding(bits)
    root, cosine, size = _root(values[0], bits), _cosine(values[1], bits), radius.enclose(bits)
    if not gmpy2.is_finite(size[1]):
        return None
    reach_low, reach_high = down.mul(root[0], size[0]), up.mul(root[1], size[1])
    x_low = down.mul(cosine[0], reach_low if cosine[0] > 0 else reach_high)
    x_high = up.mul(cosine[1], reach_high if cosine[1] > 0 else reach_low)
    half = gmpy2.mpfr(0.5)
    low, high = _lazy._floor(down.add(x_low, half)), _lazy._floor(up.add(x_high, half))
    return low if low == high else None

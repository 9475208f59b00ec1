"""Lazily exact decisions: what depends on a uniform number, settled without any rounding.

Exactness. A uniform number is a sequence of bits of which 64 are drawn at first. What depends on it
is computed in double precision, and taken if no number within the proven error could change the
outcome; in the other cases (about one in 2**20, more for noise beyond 2**30 ticks) the same number
gets more bits and the outcome is computed with enclosures (MPFR, directed rounding) of rising
precision until it is certain. So every outcome has exactly its law, given uniform bits.

The error bound. All windows below are ``_WINDOW`` = 2**-40. They rest on one assumption about the
machine: that numpy's exp, log, log1p and expm1 have a relative error of at most 2**-48 (their
makers state 4 units in the last place, 2**-50; a test compares them with MPFR). The sums of errors
stand where they are used, here and in ``_noise``.

There are three decisions: :func:`bernoulli_exp`, :func:`floor_of_ratio` and :func:`quantiles`.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import gmpy2
import numpy as np
from numpy.typing import NDArray

from sklearn_fedpriv.privacy._randomness import Stream

_WINDOW = 2.0**-40  # tests widen it, to send more draws the exact way
SMALL_UNIFORM = 2.0**-20  # below it, 64 bits may be too few for the windows

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
T = TypeVar("T")
Enclosure = tuple[Any, Any]  # two mpfr numbers, the lower and the upper end


def bernoulli_exp(
    g: Floats, items: NDArray[Any], exact: Callable[[Any], Any], stream: Stream
) -> NDArray[np.bool_]:
    """Heads with probability exp(-exact(item)) for each item; `g` is the exponent in float.

    Heads means U < exp(-g), U uniform. The 53 bits used of U are off by 2**-53, exp by a relative
    2**-48, and the callers show that exp(-g) is off by at most 2**-48 through g: together far
    below 2**-40.
    """
    words = stream.uint64(len(g))
    u = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    difference = np.exp(-g) - u
    heads = difference > 0
    for i in np.flatnonzero(np.abs(difference) <= _WINDOW):
        heads[i] = _exact_bernoulli_exp(words[i], exact(items[i]), stream)
    return heads


def _exact_bernoulli_exp(word: np.uint64, g: Any, stream: Stream) -> bool:
    def decide(values: Sequence[Any], bits: int) -> bool | None:
        down, up = rounding(bits)
        if values[0] + 1 <= down.mul_2exp(down.exp(down.minus(rounded(g, up))), bits):
            return True
        if values[0] >= up.mul_2exp(up.exp(up.minus(rounded(g, down))), bits):
            return False
        return None

    return _until_certain(decide, [word], stream)


def floor_of_ratio(
    rates: Floats | np.float64,
    n: int,
    others: Words | None,
    enclose: Callable[[Sequence[Any], int], Enclosure],
    last: int | None,
    stream: Stream,
) -> NDArray[Any]:
    """n draws of floor(-log(V) / rate), V uniform: geometric, P(at least k) = exp(-k rate).

    `rates` are the rates in float, off by a relative 2**-42 at most, or nan where they are not to
    be used; `enclose` gives certain bounds of a rate from the uniforms `others` it depends on. The
    counts are int64 up to `last`; Python ints, all drawn in the exact way, if `last` is None.

    -log(V) is off by at most 2**-42 for V >= 2**-20: by 2**-53 from rounding V, by 2**-64 / V =
    2**-44 from the bits not drawn yet, by 2**-44 from log. So the quotient x is off by at most
    2**-42 / rate + 2**-41 x, within 2**-40 (1 / rate + x).
    """
    words = stream.uint64(n)
    v = words.astype(np.float64) * 2.0**-64
    if last is None:
        out, doubtful = np.zeros(n, dtype=object), np.arange(n)
    else:
        x = -np.log(np.maximum(v, SMALL_UNIFORM)) / rates
        error = _WINDOW * (1 / rates + x)
        low = np.floor(x - error)
        certain = (low == np.floor(x + error)) & (v >= SMALL_UNIFORM)
        out, doubtful = np.where(certain, low, 0).astype(np.int64), np.flatnonzero(~certain)
    for i in doubtful:
        start = [words[i]] if others is None else [words[i], others[i]]
        count = _exact_floor(start, enclose, stream)
        if last is not None and count > last:
            raise OverflowError("A draw of probability below exp(-2**16): the stream is broken.")
        out[i] = count
    return out


def _exact_floor(
    words: Sequence[Any], enclose: Callable[[Sequence[Any], int], Enclosure], stream: Stream
) -> int:
    def decide(values: Sequence[Any], bits: int) -> int | None:
        down, up = rounding(bits)
        rate_low, rate_high = enclose(values[1:], bits)
        if values[0] == 0 or rate_low == 0:
            return None
        v_low, v_high = unit_interval(values[0], bits)
        low = _floor(down.div(down.minus(up.log(v_high)), rate_high))
        high = _floor(up.div(up.minus(down.log(v_low)), rate_low))
        return low if low == high else None

    return _until_certain(decide, words, stream)


def quantiles(
    table: Floats, n: int, enclose: Callable[[int], Sequence[Enclosure]], stream: Stream
) -> NDArray[np.int64]:
    """n draws of the j with P(N < j) <= U < P(N <= j), U uniform.

    `table` is P(N <= j) in float, j = 0, 1, ..., off by at most 2**-50 and ending above 1 - 2**-50;
    `enclose(bits)` gives enclosures of the same to within about 2**-bits. U is off by 2**-53: all
    far within the window.
    """
    words = stream.uint64(n)
    u = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    counts = np.searchsorted(table, u - _WINDOW, side="right")
    doubtful = counts != np.searchsorted(table, u + _WINDOW, side="right")

    def decide(values: Sequence[Any], bits: int) -> int | None:
        low, high = unit_interval(values[0], bits)
        for j, (cdf_low, cdf_high) in enumerate(enclose(bits)):
            if high <= cdf_low:
                return j
            if low < cdf_high:
                return None
        return None

    for i in np.flatnonzero(doubtful):
        counts[i] = _until_certain(decide, [words[i]], stream)
    return counts


def _until_certain(
    decide: Callable[[Sequence[Any], int], T | None], words: Sequence[Any], stream: Stream
) -> T:
    """Give uniforms 64 more bits each until `decide(values, bits)` is certain.

    A uniform lies in [value, value + 1] / 2**bits; its first 64 bits are the word already used.
    """
    values, bits = [gmpy2.mpz(int(word)) for word in words], 64
    while (answer := decide(values, bits)) is None:
        more = stream.uint64(len(values))
        values = [value << 64 | int(word) for value, word in zip(values, more, strict=True)]
        bits += 64
    return answer


@lru_cache(maxsize=64)
def rounding(bits: int) -> tuple[Any, Any]:
    """Contexts that round down and up, with 64 bits beyond `bits`."""
    precision = bits + 64
    down = gmpy2.context(precision=precision, round=gmpy2.RoundDown)
    return down, gmpy2.context(precision=precision, round=gmpy2.RoundUp)


def unit_interval(value: Any, bits: int) -> Enclosure:
    """Both ends, exactly, of what a uniform can be whose first `bits` bits are `value`."""
    down, up = rounding(bits)
    return down.div_2exp(value, bits), up.div_2exp(value + 1, bits)


def rounded(x: Any, context: Any) -> Any:
    """A rational rounded in the direction of a context."""
    return gmpy2.mpfr(gmpy2.mpq(x), 0, context)


def _floor(x: Any) -> int:
    top, bottom = x.as_integer_ratio()  # exact; int(x) would round to the nearest
    return int(top // bottom)

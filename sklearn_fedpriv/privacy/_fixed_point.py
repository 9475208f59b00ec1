"""Fixed point: real numbers as integer counts of a tick, a public power of two.

Noise is added to ticks, never to floats, and only after rounding (G5). Each contribution is
rounded by itself and the ticks are summed as integers, so the sum does not depend on the order of
the rows and its sensitivity is exact (G8).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, frexp, isqrt, ldexp

import numpy as np

_TICKS = 4000  # a bound is at least this many ticks, times the root of the length
_SURPLUS = Fraction(1, 1000)  # what rounding may add to a sensitivity, relative (G8)


@dataclass(frozen=True)
class Lattice:
    """The ticks of one release.

    Parameters
    ----------
    exponent : int
        One tick is ``2.0 ** exponent`` in data units.
    """

    exponent: int

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Ticks nearest to ``values``, int64 of the same shape."""
        ticks = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), -self.exponent))
        return ticks.astype(np.int64)

    def decode(self, ticks: np.ndarray) -> np.ndarray:
        """Data units of ``ticks``, float64 of the same shape."""
        return np.ldexp(ticks.astype(np.float64), self.exponent)


def lattice_for(bound: float, length: int) -> Lattice:
    """The coarsest lattice on which rounding adds under 0.1 % to a sensitivity of ``bound``."""
    _, exponent = frexp(bound / (_TICKS * max(1.0, length**0.5)))
    return Lattice(exponent - 1)


def squared_ticks(bound: float, length: int, lattice: Lattice) -> int:
    """Squared L2 bound in ticks of a vector held to ``bound`` and then rounded.

    Rounding moves each of ``length`` coordinates by at most half a tick; the float clip is exact up
    to ``length * 2**-52`` of the bound. Rounded up to whole ticks.
    """
    exact_bound = Fraction(bound) / Fraction(ldexp(1.0, lattice.exponent))
    norm = ceil(exact_bound * (1 + Fraction(length + 1, 2**52)) + Fraction(isqrt(length) + 1, 2))
    if norm > exact_bound * (1 + _SURPLUS):
        raise AssertionError(
            f"The tick 2**{lattice.exponent} is too coarse for a bound of {bound} on {length} "
            "coordinates."
        )
    return norm**2

"""Arguments of the noise laws: exact numbers only."""

import operator
from fractions import Fraction
from typing import Any


def fraction_argument(name: str, value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Fraction | int):
        raise TypeError(
            f"{name} must be a Fraction or an int, because noise is exact. "
            f"Got {value!r} of type {type(value).__name__}; convert it with fractions.Fraction."
        )
    return Fraction(value)


def ratio_argument(value: object) -> Fraction:
    ratio = fraction_argument("ratio", value)
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio must be in [0, 1). Got {ratio}. See ratio_for.")
    return ratio


def count_argument(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an int. Got {value!r}.")
    number = operator.index(value)
    if number < least:
        raise ValueError(f"{name} must be {least} or more. Got {number}.")
    return number

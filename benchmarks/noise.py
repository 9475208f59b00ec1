"""What exact noise costs: ``python -m benchmarks.noise``, about ten seconds.

One core, CPU time, medians of five; beside it ``np.rint(rng.normal(...))``, floating-point noise
that is fast and guarantees nothing. Then a chi-square test against the exact law. Seed: 0.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from scipy.stats import chisquare

from benchmarks._common import pin_to_one_core, print_table, seconds, three_digits
from sklearn_fedpriv.privacy._noise import discrete_gaussian, polya_share
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.privacy._tails import ratio_for

REPEATS = 5
MANY, FEW = 2**19, 2**12  # samples a timing; few where noise is made of Python ints
GAUSSIANS = (
    # name, variance, samples
    ("3.5", Fraction(49, 4), MANY),
    ("2^10", Fraction(2**20), MANY),
    ("2^20", Fraction(2**40), MANY),
    ("2^32", Fraction(2**64), MANY),
    ("2^45, the last in int64", Fraction(2**90 - 1), MANY),
    ("2^45 + 1, the first in Python ints", Fraction((2**45 + 1) ** 2), FEW),
)
RATIOS = ("0.01", "0.1", "1")  # epsilon over sensitivity
SHARES = (1, 10, 100)
TEST_SAMPLES = 2_000_000
LEAST_EXPECTED = 10  # samples in a cell of the chi-square test

Row = tuple[str, str, str, str]


def seeded_stream() -> Stream:
    """A stream that gives the same bits every time."""
    return Stream(bytes(32))


def compare(name: str, draw: Callable[[int], object], sd: float, size: int, goal: str) -> Row:
    """Samples a second of a sampler beside those of rounded normals, in short turns."""
    rng = np.random.default_rng(0)
    ours, floats = seconds(
        lambda: draw(size), lambda: np.rint(rng.normal(0.0, sd, size)), repeats=REPEATS
    )
    return (name, f"{three_digits(size / ours / 1e6)} M/s", goal, three_digits(ours / floats))


def time_gaussians() -> list[Row]:
    """Discrete Gaussian noise from narrow to as wide as it gets."""
    rows = []
    for name, variance, size in GAUSSIANS:
        draw = partial(discrete_gaussian, variance, stream=seeded_stream())
        goal = ">= 2 M/s" if size == MANY else ""
        name = f"discrete Gaussian, sigma {name}"
        rows.append(compare(name, draw, float(variance) ** 0.5, size, goal))
    return rows


def time_polya_shares() -> list[Row]:
    """Polya shares, a few or many to one discrete Laplace."""
    rows = []
    for quotient in RATIOS:
        ratio = ratio_for(Fraction(quotient), 1)
        for parties in SHARES:
            draw = partial(polya_share, ratio, parties, stream=seeded_stream())
            name = f"Polya share, epsilon/sensitivity {quotient}, m = {parties}"
            sd = (2 / parties) ** 0.5 / float(Fraction(quotient))
            rows.append(compare(name, draw, sd, MANY, ""))
    return rows


def chi_square(variance: Fraction, size: int) -> tuple[float, int]:
    """p value of a sample against the exact law, and the cells; thin tails are put together."""
    far = int(20 * float(variance) ** 0.5)
    values = np.arange(-far, far + 1)
    law = np.exp(-(values**2) / (2 * float(variance)))
    expected = law / law.sum() * size
    drawn = discrete_gaussian(variance, size, seeded_stream())
    found = np.bincount(np.clip(drawn, -far, far) + far, minlength=len(values))
    last = int(np.abs(values[expected >= LEAST_EXPECTED]).max())
    cell = np.clip(values, -last, last) + last
    p_value = chisquare(np.bincount(cell, found), np.bincount(cell, expected)).pvalue
    return float(p_value), 2 * last + 1


def main() -> None:
    """Measure and print Markdown tables."""
    pin_to_one_core()
    print_table(
        "Samples a second of one core",
        ("sampler", "median", "goal", "times the time of rounded normals"),
        [*time_gaussians(), *time_polya_shares()],
    )
    p_value, n_cells = chi_square(Fraction(49, 4), TEST_SAMPLES)
    print_table(
        "Chi-square test",
        ("law", "samples", "cells", "p value"),
        [("discrete Gaussian, sigma 3.5", f"{TEST_SAMPLES:,}", str(n_cells), f"{p_value:.3f}")],
    )


if __name__ == "__main__":
    main()

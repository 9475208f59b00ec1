"""Metric noise: its law on the grid, and that floats never decide it.

Seeds are fixed. Had a seed been drawn at random, a right sampler would fail one law test about once
in a million runs: ``ERROR_RATE``.
"""

from fractions import Fraction
from itertools import product
from math import exp, log

import gmpy2
import numpy as np
import pytest
from scipy import integrate, stats

from sklearn_fedpriv.privacy import _lazy, _metric
from sklearn_fedpriv.privacy._metric import metric_noise, metric_tail, multivariate_laplace
from sklearn_fedpriv.privacy._randomness import Stream, seed_key

ERROR_RATE = 1e-6


def stream(seed=0):
    return Stream(seed_key(seed))


def draws(rate, d, n, seed=1):
    s = stream(seed)
    return np.array([multivariate_laplace(Fraction(rate), d, s) for _ in range(n)])


def fits(seen, expected):
    """Chi-square; every cell has an expectation of at least 20."""
    seen, expected = np.asarray(seen, float), np.asarray(expected, float)
    assert expected.min() >= 20
    assert abs(seen.sum() - expected.sum()) < 0.01
    return stats.chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > ERROR_RATE


def fits_law(x, ppf, n_cells=50):
    """Chi-square on cells of equal probability; the grid is fine against a cell."""
    edges = ppf(np.arange(1, n_cells) / n_cells)
    return fits(
        np.bincount(np.searchsorted(edges, x), minlength=n_cells),
        np.full(n_cells, len(x) / n_cells),
    )


# --- what goes in, what comes out ---------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 64, 10_000])
def test_noise_is_added_to_the_ticks(d):
    ticks = np.arange(d, dtype=np.int64) - 7
    x = metric_noise(ticks, Fraction(d, 4000), stream())
    assert x.shape == (d,) and x.dtype == np.int64
    assert (x - ticks == multivariate_laplace(Fraction(d, 4000), d, stream())).all()


@pytest.mark.parametrize(
    "ticks", [np.zeros(3), np.zeros(3, np.int32), [1, 2], np.zeros((2, 2), int)]
)
def test_only_whole_vectors_get_noise(ticks):
    with pytest.raises(TypeError, match="encode first"):
        metric_noise(ticks, Fraction(1), stream())


@pytest.mark.parametrize("rate", [0.5, True, None, np.float64(1)])
def test_inexact_rate_is_refused(rate):
    with pytest.raises(TypeError, match="rate must be"):
        multivariate_laplace(rate, 3, stream())


@pytest.mark.parametrize("rate", [0, -1, Fraction(1, 2**40)])
def test_rate_out_of_range_is_refused(rate):
    with pytest.raises(ValueError, match="rate must be above 0"):
        multivariate_laplace(rate, 3, stream())


# --- the law ------------------------------------------------------------------------------------


def test_one_number_has_the_rounded_laplace_law():
    """d = 1: every probability on the grid is known, and the grid is as coarse as the noise."""
    for rate in (Fraction(1, 2), Fraction(1), Fraction(3)):
        x, a = draws(rate, 1, 20_000)[:, 0], float(rate)
        reach = int(log(20_000 * np.sinh(a / 2) / 30) / a)
        k = np.arange(-reach, reach + 1)
        law = np.where(k == 0, 1 - exp(-a / 2), np.exp(-a * abs(k)) * np.sinh(a / 2))
        tail = (1 - law.sum()) / 2
        seen = np.bincount(np.clip(x, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
        law = np.array([tail, *law, tail])
        if 20_000 * tail < 20:
            seen[1], law[1] = seen[1] + seen[0], law[1] + law[0]
            seen[-2], law[-2] = seen[-2] + seen[-1], law[-2] + law[-1]
            seen, law = seen[1:-1], law[1:-1]
        assert fits(seen, 20_000 * law)
        assert not fits(np.roll(seen, 1), 20_000 * law)


def cell(i, j, rate):
    def f(y, x):
        return rate**2 / (2 * np.pi) * np.exp(-rate * np.hypot(x, y))

    return integrate.dblquad(f, i - 0.5, i + 0.5, j - 0.5, j + 0.5, epsabs=1e-9)[0]


def test_two_numbers_have_the_joint_law_and_its_ratio():
    """d = 2, rate 1: the 25 cells around the origin, the rest as one; ratios of all pairs."""
    law = {(i, j): cell(i, j, 1.0) for i, j in product(range(-2, 3), repeat=2)}
    x = draws(1, 2, 60_000)
    seen = [int(((x[:, 0] == i) & (x[:, 1] == j)).sum()) for i, j in law]
    p = np.array(list(law.values()))
    assert fits([*seen, 60_000 - sum(seen)], 60_000 * np.array([*p, 1 - p.sum()]))
    for (i, j), (k, m) in product(law, repeat=2):
        assert law[i, j] <= exp(np.hypot(i - k, j - m)) * law[k, m] * (1 + 1e-6)


@pytest.mark.parametrize("d", [1, 2, 3, 6, 37])
def test_the_length_is_gamma(d):
    x = draws(Fraction(d, 100_000), d, 20_000)
    length = np.linalg.norm(x, axis=1) * d / 100_000
    assert fits_law(length, lambda q: stats.gamma.ppf(q, d))
    assert not fits_law(length * 1.1, lambda q: stats.gamma.ppf(q, d))


def test_a_number_has_the_marginal_law():
    """d = 3: P(X_1 > x) = (2 + x) exp(-x) / 4 for x >= 0, in units of 1 / rate."""
    x = draws(Fraction(1, 30_000), 3, 20_000) / 30_000
    for i in range(3):
        u = np.where(x[:, i] > 0, 1, -1) * (0.5 - (2 + abs(x[:, i])) * np.exp(-abs(x[:, i])) / 4)
        assert fits_law(u + 0.5, lambda q: q)


def test_the_direction_is_uniform_and_tells_nothing_of_the_length():
    x = draws(Fraction(1, 30_000), 3, 20_000)
    octant = (x > 0) @ [1, 2, 4]
    for half in (slice(None), np.linalg.norm(x, axis=1) > 80_000):
        seen = np.bincount(octant[half], minlength=8)
        assert fits(seen, np.full(8, seen.sum() / 8))
    height = x[:, 2] / np.linalg.norm(x, axis=1)  # uniform on [-1, 1] (Archimedes)
    assert fits_law(height, lambda q: 2 * q - 1)


# --- exactness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_floats_decide_nothing(d, monkeypatch):
    """With a window so wide that every number goes the exact way, the same bits give the same."""
    n = 4000 // d
    fast = draws(Fraction(d, 4000), d, n)
    monkeypatch.setattr(_lazy, "_WINDOW", 2.0**20)
    assert (draws(Fraction(d, 4000), d, n) == fast).all()


def test_what_floats_cannot_settle_goes_the_exact_way(monkeypatch):
    """Noise of 2**39 ticks is beyond double precision."""
    calls = []
    one = _metric._rounded_product

    def counted(values, bits, radius):
        calls.append(bits)
        return one(values, bits, radius)

    monkeypatch.setattr(_metric, "_rounded_product", counted)
    rate = Fraction(1, 2**35)
    x = np.concatenate([multivariate_laplace(rate, 400, stream(s)) for s in range(5)])
    assert len(calls) >= 20
    assert 0.8 < x.std() / (float(1 / rate) * 401**0.5) < 1.2


def test_numpy_is_as_near_as_the_window_assumes():
    """Box and Muller in double precision against MPFR: 2**-40 (1 / r + r) is the window."""
    words = stream(3).uint64(20_000).reshape(2, -1)
    u, v = words * 2.0**-64
    r = np.sqrt(-2 * np.log(u))
    z = r * np.cos(2 * np.pi * v)
    with gmpy2.context(precision=200):
        true = [
            gmpy2.sqrt(-2 * gmpy2.log(gmpy2.mpfr(int(a)) / 2**64))
            * gmpy2.cos(2 * gmpy2.const_pi() * gmpy2.mpfr(int(b)) / 2**64)
            for a, b in words.T
        ]
        off = np.array([float(abs(t - gmpy2.mpfr(float(f)))) for t, f in zip(true, z, strict=True)])
    assert (off[u >= 2.0**-20] < (2.0**-46 * (1 / r + r))[u >= 2.0**-20]).all()


# --- tails --------------------------------------------------------------------------------------


def test_tail_is_a_bound_and_not_a_loose_one():
    for k in (10, 20, 64):
        exact = k * log(2) * 4000
        assert exact <= metric_tail(Fraction(1, 4000), 1, 1, k) < 1.25 * exact + 16000
    x = draws(Fraction(6, 4000), 6, 7 * 3000).reshape(3000, 7, 6).sum(axis=1)
    assert (abs(x) > metric_tail(Fraction(6, 4000), 6, 7, 5)).mean() < 2**-5
    assert (abs(x) > metric_tail(Fraction(6, 4000), 6, 7, 5) / 2).mean() > 2**-12

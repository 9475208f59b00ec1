"""Ratios for an epsilon, and bounds of sums of noise: safe, and close."""

from fractions import Fraction
from math import comb

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv.privacy._tails import gaussian_tail, polya_tail, ratio_for


def test_arguments_are_checked():
    half = Fraction(1, 2)
    with pytest.raises(TypeError, match="variance must be a Fraction or an int"):
        gaussian_tail(1.0, 3)
    with pytest.raises(ValueError, match=r"ratio must be in \[0, 1\)"):
        polya_tail(1, 2, 2, 3)
    with pytest.raises(ValueError, match="epsilon must be above 0"):
        ratio_for(0, 1)
    with pytest.raises(ValueError, match="sensitivity must be 1 or more"):
        ratio_for(half, 0)
    with pytest.raises(ValueError, match="variance must be 0 or more"):
        gaussian_tail(-1, 3)


def test_a_bound_known_from_before_does_not_let_a_wrong_argument_pass():
    """True equals 1 and 0.5 equals a half: a cache of unchecked arguments would mix them up."""
    half = Fraction(1, 2)
    polya_tail(half, 1, 1, 1)
    with pytest.raises(TypeError, match="shares must be an int. Got True"):
        polya_tail(half, True, 1, 1)
    with pytest.raises(TypeError, match="ratio must be a Fraction"):
        polya_tail(0.5, 1, 1, 1)


# --- ratios -------------------------------------------------------------------------------------


@given(
    st.fractions(min_value=Fraction(1, 10**30), max_value=10**3),
    st.integers(1, 10**20),
)
@settings(max_examples=60, deadline=None)
def test_ratio_is_rounded_up_and_close(epsilon, sensitivity):
    if epsilon == 0:
        return
    ratio = ratio_for(epsilon, sensitivity)
    with gmpy2.context(precision=2000):
        true = gmpy2.exp(-gmpy2.mpfr(gmpy2.mpq(epsilon / sensitivity)))
        gap = gmpy2.mpfr(gmpy2.mpq(ratio)) - true
        assert gap > 0
        assert gap <= (1 - true) * gmpy2.mpfr(2) ** -96
    assert 0 < ratio < 1


# --- tails --------------------------------------------------------------------------------------


def test_gaussian_tail_is_the_smallest_of_its_formula():
    for variance in (Fraction(1, 7), Fraction(5), Fraction(1000, 3), Fraction(10) ** 36):
        for k in (0, 1, 20, 64, 200):
            bound = gaussian_tail(variance, k)

            def log2_failure(b, variance=variance):
                with gmpy2.context(precision=400):
                    return 1 - gmpy2.mpz(b + 1) ** 2 / (2 * gmpy2.mpq(variance)) / gmpy2.log(2)

            assert log2_failure(bound) <= -k
            assert bound == 0 or log2_failure(bound - 1) > -k
    assert gaussian_tail(0, 64) == 0


def test_gaussian_tail_holds_for_the_exact_law():
    for variance in (0.3, 1.0, 5.0, 60.0):
        x = np.arange(-400, 401)
        p = np.exp(-(x**2) / (2 * variance))
        p /= p.sum()
        for k in (1, 5, 20):
            bound = gaussian_tail(Fraction(variance), k)
            assert p[np.abs(x) > bound].sum() <= 2.0**-k
            # And it is not idle: at k = 20 the exact quantile is nine tenths of it.
            assert k < 20 or p[np.abs(x) > 0.85 * bound - 1].sum() > 2.0**-k


def exact_polya_tail(a, shape, k, length):
    """Smallest B with P(|A - A'| > B) <= 2**-k by summing all products, for A, A' < length."""
    p = np.empty(length)
    p[0] = (1 - a) ** shape
    for i in range(1, length):
        p[i] = p[i - 1] * a * (i - 1 + shape) / i
    law = np.convolve(p, p[::-1])[length - 1 :]
    beyond = 2 * np.cumsum(law[::-1])[::-1]  # beyond[x] = P(|S| >= x) for x >= 1
    return int(np.argmax(beyond[1:] <= 2.0**-k))


@pytest.mark.parametrize("epsilon", [Fraction(2), Fraction(1, 2), Fraction(1, 20)])
@pytest.mark.parametrize("shares, parties", [(3, 3), (4, 3), (30, 1), (1, 4)])
def test_polya_tail_is_safe_and_close(epsilon, shares, parties):
    ratio = ratio_for(epsilon, 1)
    for k in (3, 10, 30):
        shape = shares / parties
        length = int((shape + 10 + 8 * shape**0.5 + k) / float(1 - ratio)) + 60
        bound = polya_tail(ratio, shares, parties, k)
        exact = exact_polya_tail(float(ratio), shape, k, length)
        assert exact <= bound
        if shape >= 1 and k >= 10:
            assert bound <= exact * 1.03 + 1
        assert bound <= polya_tail(ratio, shares, parties, k + 1)


def test_polya_tail_is_exact_for_one_full_laplace():
    """P(|S| > B) = 2 a**(B + 1) / (1 + a)."""
    for epsilon in (Fraction(1), Fraction(1, 1000), Fraction(1, 10**18)):
        ratio = ratio_for(epsilon, 1)
        bound = polya_tail(ratio, 5, 5, 64)
        with gmpy2.context(precision=300):
            a = gmpy2.mpfr(gmpy2.mpq(ratio))
            x = gmpy2.log(gmpy2.mpfr(2) ** -64 * (1 + a) / 2) / gmpy2.log(a)
            assert bound >= x - 1
            assert bound <= (x - 1) * gmpy2.mpfr("1.0001") + 1


def test_polya_tail_extremes():
    half = Fraction(1, 2)
    assert polya_tail(Fraction(0), 5, 2, 64) == 0
    assert polya_tail(half, 0, 2, 64) == 0
    assert polya_tail(half, 3, 3, 0) >= 0
    tiny = Fraction(1, 2**1000)
    assert [polya_tail(tiny, n, 2, 64) for n in (1, 2)] == [0, 0]
    assert [polya_tail(tiny, n, 2, 1500) for n in (1, 2)] == [1, 1]
    # A thousand full Laplace draws: near 9.4 standard deviations, a Gaussian's 2**-64 quantile.
    bound = polya_tail(ratio_for(Fraction(1, 100), 1), 1000, 1, 64)
    assert 9.0 < bound / (2000 * 100**2) ** 0.5 < 9.6


def test_polya_law_used_here_is_the_published_one():
    """The product above is C(k + r - 1, k) a**k (1 - a)**r for whole r."""
    a, r = 0.3, 4
    p = [(1 - a) ** r]
    for i in range(1, 10):
        p.append(p[-1] * a * (i - 1 + r) / i)
    assert np.allclose(p, [comb(i + r - 1, i) * a**i * (1 - a) ** r for i in range(10)])

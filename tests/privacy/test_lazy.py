"""The exact way against the fast way: who decides a draw, and that both decide alike."""

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from sklearn_fedpriv.privacy import _lazy, _noise
from sklearn_fedpriv.privacy._noise import discrete_gaussian, polya_share
from sklearn_fedpriv.privacy._randomness import Stream, seed_key


def stream(seed=0):
    return Stream(seed_key(seed))


class Words:
    """Stands in for a stream: deals out the words given, a list a call, then those of a stream."""

    def __init__(self, *calls):
        self.calls, self.rest = list(calls), stream()

    def uint64(self, n):
        if not self.calls:
            return self.rest.uint64(n)
        words = np.array(self.calls.pop(0), dtype=np.uint64)
        assert n == len(words)
        return words


LAWS = [
    lambda n, s: discrete_gaussian(Fraction(49, 4), n, s),
    lambda n, s: discrete_gaussian(Fraction(1, 3), n, s),
    lambda n, s: discrete_gaussian(Fraction(10**20, 7), n, s),
    lambda n, s: polya_share(Fraction(9, 10), 1, n, s),
    lambda n, s: polya_share(Fraction(1, 50), 3, n, s),
    lambda n, s: polya_share(1 - Fraction(1, 10**6), 20, n, s),
]


@pytest.mark.parametrize("law", LAWS)
def test_the_exact_way_decides_like_floats(law, monkeypatch):
    """Sixty-four bits nearly always settle a draw, so both ways must give the same numbers."""
    fast = law(1500, stream())
    monkeypatch.setattr(_lazy, "_WINDOW", 4.0)
    monkeypatch.setattr(_lazy, "SMALL_UNIFORM", 1.0)
    assert np.array_equal(law(1500, stream()), fast)


@pytest.mark.parametrize("law", LAWS)
def test_python_ints_give_the_same_numbers(law, monkeypatch):
    fast = law(1500, stream())
    monkeypatch.setattr(_noise, "_FAST_SCALE", 0)
    monkeypatch.setattr(_noise, "_FAST_GAP", 1)
    wide = law(1500, stream())
    assert wide.dtype == object and np.array_equal(wide, fast)


def test_an_undecided_draw_gets_more_bits():
    """A word that is the first 64 bits of exp(-1) leaves the rest of the bits to decide."""
    with gmpy2.context(precision=200):
        scaled = gmpy2.mul_2exp(gmpy2.exp(gmpy2.mpfr(-1)), 64)
        word = np.uint64(int(gmpy2.floor(scaled)))
        rest = float(scaled - gmpy2.floor(scaled))
    s, n = stream(), 2000
    heads = sum(_lazy._exact_bernoulli_exp(word, gmpy2.mpq(1), s) for _ in range(n))
    # Six standard deviations: a right sampler fails for one seed in 5e8.
    assert abs(heads - n * rest) < 6 * (n * rest * (1 - rest)) ** 0.5
    assert not _lazy._exact_bernoulli_exp(word + np.uint64(1), gmpy2.mpq(1), s)
    assert _lazy._exact_bernoulli_exp(word - np.uint64(1), gmpy2.mpq(1), s)

    one = gmpy2.mpfr(1)
    floors = [_lazy._exact_floor([word], lambda _, __: (one, one), s) for _ in range(n)]
    assert set(floors) == {0, 1}
    assert abs(floors.count(1) - n * rest) < 6 * (n * rest * (1 - rest)) ** 0.5


def test_an_undecided_poisson_number_gets_more_bits():
    """Of mean 2 log(2) / 3: P(N = 0) = 2**(-2/3), whose first 64 bits leave 0 and 1 open."""
    with gmpy2.context(precision=200):
        scaled = gmpy2.exp2(gmpy2.mpfr(gmpy2.mpq(190, 3)))
        word, rest = int(gmpy2.floor(scaled)), float(scaled - gmpy2.floor(scaled))
    gap, n = Fraction(1, 2), 2000
    table = _noise._poisson_table(gap, 3)
    counts = _noise._poisson(table, gap, 3, n, Words([word] * n))
    assert set(counts) == {0, 1}
    assert abs(np.sum(counts == 0) - n * rest) < 6 * (n * rest * (1 - rest)) ** 0.5
    # The largest word is beyond the table; its further bits are looked at too.
    assert 10 < _noise._poisson(table, gap, 3, 1, Words([2**64 - 1]))[0] < 40


def test_poisson_probabilities_are_enclosed():
    gap = Fraction(1, 50)
    table = _noise._poisson_cdf(gap, 3, 64)
    with gmpy2.context(precision=500):
        mean = -2 * gmpy2.log(gmpy2.mpfr(gmpy2.mpq(gap))) / 3
        term = true = gmpy2.exp(-mean)
        for j, (low, high) in enumerate(table, start=1):
            assert low < true < high < low + gmpy2.mpfr(2) ** -100
            term = term * mean / j
            true += term
    assert len(table) > 20


def test_close_calls_are_not_left_to_floats(monkeypatch):
    """Within 2**-41 of the threshold the exact way is asked, beyond 2**-39 it is not."""
    monkeypatch.setattr(_lazy, "_exact_bernoulli_exp", lambda *_: 1 / 0)
    monkeypatch.setattr(_lazy, "_exact_floor", lambda *_: 1 / 0)
    threshold = int(np.exp(-1.0) * 2.0**64)
    one = np.ones(1)
    for distance in (0, 2**22, -(2**22), 2**23, -(2**23)):
        for call in (
            lambda w: _lazy.bernoulli_exp(one, one, float, Words([w])),
            lambda w: _lazy.floor_of_ratio(one, 1, None, None, 9, Words([w])),
        ):
            with pytest.raises(ZeroDivisionError):
                call(threshold + distance)
    for distance, heads in ((2**26, False), (-(2**26), True)):
        words = Words([threshold + distance], [threshold + distance])
        assert _lazy.bernoulli_exp(one, one, None, words)[0] == heads
        assert _lazy.floor_of_ratio(one, 1, None, None, 9, words)[0] == heads


def test_small_uniforms_are_not_left_to_floats(monkeypatch):
    """Below 2**-20 a uniform of 64 bits has too few digits: V and U of the logarithmic law."""
    monkeypatch.setattr(_lazy, "_exact_floor", lambda *_: 1 / 0)
    one, small = np.ones(1), 2**43
    with pytest.raises(ZeroDivisionError):
        _lazy.floor_of_ratio(one, 1, None, None, 9, Words([small]))
    with pytest.raises(ZeroDivisionError):
        _noise._logarithmic(Fraction(1, 2), 1, False, Words([small], [2**63]))
    assert _noise._logarithmic(Fraction(1, 2), 1, False, Words([2**63], [2**63])) == 1


@pytest.mark.parametrize("gap", [Fraction(1, 50), Fraction(9, 10), Fraction(1, 10**30)])
@pytest.mark.parametrize("word", [1, 2**40, 2**63, 2**64 - 1])
def test_rates_of_the_logarithmic_law_are_enclosed(gap, word, monkeypatch):
    """The bounds hold at both ends of what the first 64 bits say, and are not much wider."""
    taken = []

    def take(rates, n, others, enclose, last, stream):
        taken.append(enclose)
        return np.zeros(n, dtype=np.int64)

    monkeypatch.setattr(_noise, "floor_of_ratio", take)
    _noise._logarithmic(gap, 1, False, Words([word]))
    low, high = taken[0]([gmpy2.mpz(word)], 64)
    with gmpy2.context(precision=500):
        ends = [
            -gmpy2.log(1 - gmpy2.exp(gmpy2.log(gmpy2.mpfr(gmpy2.mpq(gap))) * u / 2**64))
            for u in (word, word + 1)
        ]
        assert low <= ends[1] < ends[0] <= high
        assert high - low <= (ends[0] - ends[1]) * (1 + gmpy2.mpfr(2) ** -20)


def test_a_zero_word_is_not_the_number_zero():
    one = gmpy2.mpfr(1)
    for _ in range(5):
        assert 44 <= _lazy._exact_floor([np.uint64(0)], lambda _, __: (one, one), stream()) < 90


def test_impossible_counts_are_refused():
    """What would not fit an int64 raises; nothing wraps."""
    rates = np.full(3, 1e-30)
    low = gmpy2.mpfr("1e-30")
    with pytest.raises(OverflowError, match="stream is broken"):
        _lazy.floor_of_ratio(rates, 3, None, lambda _, __: (low, low), 10, stream())


def test_float_functions_are_as_accurate_as_assumed():
    """The windows rest on a relative error of 2**-48; a seeded sample of the ranges in use."""
    u = stream().uint64(3000).astype(np.float64) * 2.0**-64 + 2.0**-60
    cases = [
        (np.exp, gmpy2.exp, -40 * u),
        (np.exp, gmpy2.exp, -u),
        (np.log, gmpy2.log, u),
        (np.log, gmpy2.log, 1 - u / 1000),
        (np.log, gmpy2.log, u * 2.0**-20),
        (np.log1p, gmpy2.log1p, -u / 2),
        (np.log1p, gmpy2.log1p, -u * 2.0**-40),
        (np.expm1, gmpy2.expm1, -u),
        (np.expm1, gmpy2.expm1, -u * 2.0**-30),
    ]
    with gmpy2.context(precision=120):
        for ours, exact, points in cases:
            for x, y in zip(points, ours(points), strict=True):
                true = exact(gmpy2.mpfr(float(x)))
                assert abs(gmpy2.mpfr(float(y)) - true) <= abs(true) * gmpy2.mpfr(2) ** -48

"""Noise samplers: what goes in, what comes out."""

from fractions import Fraction

import numpy as np
import pytest

from sklearn_fedpriv.privacy._noise import discrete_gaussian, polya_share
from sklearn_fedpriv.privacy._randomness import Stream, seed_key


def stream(seed=0):
    return Stream(seed_key(seed))


def every_sampler(size, seed=0):
    s = stream(seed)
    return [
        discrete_gaussian(Fraction(49, 4), size, s),
        discrete_gaussian(Fraction(1, 3), size, s),
        polya_share(Fraction(9, 10), 1, size, s),
        polya_share(Fraction(9, 10), 7, size, s),
    ]


@pytest.mark.parametrize("size", [0, 1, 7, 40_000])
def test_noise_is_integer_of_the_size_asked(size):
    for x in every_sampler(size):
        assert x.shape == (size,) and x.dtype == np.int64


def test_both_parities_and_both_signs_occur():
    for x in every_sampler(2000):
        assert {(int(v) % 2, int(np.sign(v))) for v in x} >= {(0, 0), (1, 1), (1, -1), (0, 1)}


def test_no_noise_is_zero():
    for variance in (0, Fraction(0)):
        assert not discrete_gaussian(variance, 5, stream()).any()
    assert not polya_share(Fraction(0), 3, 5, stream()).any()


def test_type_depends_on_the_law_alone():
    for power, dtype in ((89, np.int64), (90, object), (100, object), (4000, object)):
        x = discrete_gaussian(Fraction(2) ** power, 3, stream())
        assert x.dtype == dtype
        assert x.dtype == np.int64 or all(type(v) is int for v in x)
    for power, dtype in ((40, np.int64), (41, object), (100, object)):
        x = polya_share(1 - Fraction(1, 2**power), 2, 3, stream())
        assert x.dtype == dtype
        assert x.dtype == np.int64 or all(type(v) is int for v in x)


@pytest.mark.parametrize("variance", [1.0, True, "1", None, np.float64(2), 1j])
def test_inexact_variance_is_refused(variance):
    with pytest.raises(TypeError, match="variance must be a Fraction or an int"):
        discrete_gaussian(variance, 3, stream())


@pytest.mark.parametrize("variance", [-1, Fraction(-1, 3), Fraction(1, 2**65)])
def test_negative_or_tiny_variance_is_refused(variance):
    with pytest.raises(ValueError, match="variance must be 0 or at least"):
        discrete_gaussian(variance, 3, stream())


@pytest.mark.parametrize("ratio", [-1, 1, Fraction(3, 2)])
def test_ratio_outside_its_range_is_refused(ratio):
    with pytest.raises(ValueError, match=r"ratio must be in \[0, 1\)"):
        polya_share(ratio, 2, 3, stream())


def test_other_arguments_are_checked():
    half = Fraction(1, 2)
    with pytest.raises(TypeError, match="ratio must be a Fraction"):
        polya_share(0.5, 2, 3, stream())
    with pytest.raises(ValueError, match="parties must be 1 or more. Got 0"):
        polya_share(half, 0, 3, stream())
    with pytest.raises(ValueError, match="size must be 0 or more. Got -1"):
        polya_share(half, 2, -1, stream())
    with pytest.raises(ValueError, match="size must be 0 or more. Got -1"):
        discrete_gaussian(half, -1, stream())
    with pytest.raises(TypeError):
        discrete_gaussian(half, 2.0, stream())
    with pytest.raises(TypeError, match="parties must be an int. Got True"):
        polya_share(half, True, 3, stream())


def test_same_stream_same_noise():
    for x, y, z in zip(*(every_sampler(1000, seed) for seed in (0, 0, 1)), strict=True):
        assert np.array_equal(x, y)
        assert not np.array_equal(x, z)


def test_draws_do_not_repeat_between_calls():
    s = stream()
    variance = Fraction(2) ** 60
    x, y = discrete_gaussian(variance, 500, s), discrete_gaussian(variance, 500, s)
    assert len(np.union1d(x, y)) > 990


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()  # noqa: NPY002
    every_sampler(100)
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:] and np.array_equal(before[1], after[1])

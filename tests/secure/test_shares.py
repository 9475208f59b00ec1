"""Shamir shares: enough of them give the secret, fewer do not narrow it down."""

import hashlib
import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure import _shares
from sklearn_fedpriv.secure._shares import N_LIMBS, PRIME, combine, share


def tape(seed):
    """Entropy that a test can repeat."""
    counter = itertools.count()
    return lambda n: hashlib.shake_256(b"%d %d" % (seed, next(counter))).digest(n)


def slow_share(secret, threshold, n_holders, coefficients):
    """Shares of one secret with Python integers; coefficients by degree from the highest."""
    number = int.from_bytes(secret, "little")
    limbs = [number // 2 ** (29 * i) % 2**29 for i in range(9)]
    return [
        [
            (limb + sum(row[i] * x ** (threshold - 1 - d) for d, row in enumerate(coefficients)))
            % (2**31 - 1)
            for i, limb in enumerate(limbs)
        ]
        for x in range(1, n_holders + 1)
    ]


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_any_enough_shares_give_the_secrets(data):
    n_holders = data.draw(st.integers(1, 20), "n_holders")
    threshold = data.draw(st.integers(1, n_holders), "threshold")
    secrets = data.draw(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=4))
    shares = share(secrets, threshold, n_holders, os.urandom)
    assert shares.dtype == np.uint32 and shares.shape == (n_holders, len(secrets), N_LIMBS)
    assert shares.max() < PRIME
    points = data.draw(st.permutations(range(1, n_holders + 1)), "who opens")[:threshold]
    assert combine(points, np.stack([shares[point - 1] for point in points])) == secrets


@pytest.mark.parametrize(("threshold", "n_holders"), [(1, 3), (2, 3), (5, 9), (72, 92), (600, 999)])
def test_shares_are_the_polynomials_values(threshold, n_holders):
    secrets = [bytes(32), bytes([255]) * 32, bytes(range(32))][: 3 if n_holders < 500 else 1]
    shares = share(secrets, threshold, n_holders, tape(0))
    drawn = np.frombuffer(tape(0)(4 * (threshold - 1) * 9 * len(secrets)), "<u4") % 2**31
    assert (drawn < PRIME).all()
    rows = drawn.reshape(threshold - 1, len(secrets), 9).tolist()
    tried = n_holders if n_holders < 500 else 3
    for i, secret in enumerate(secrets):
        expected = slow_share(secret, threshold, tried, [row[i] for row in rows])
        assert shares[:tried, i].tolist() == expected
    points = range(n_holders - threshold + 1, n_holders + 1)
    assert combine(points, shares[-threshold:]) == secrets


def test_the_largest_values_do_not_overflow():
    """Every coefficient is the largest field element, in both directions."""

    def largest(n):
        return np.full(n // 4, PRIME - 1, dtype="<u4").tobytes()

    secret = bytes([255]) * 32
    shares = share([secret], 900, 999, largest)
    expected = slow_share(secret, 900, 2, [[PRIME - 1] * 9] * 899)
    assert shares[:2, 0].tolist() == expected
    assert combine(range(100, 1000), shares[99:]) == [secret]
    weights = np.array(_shares._lagrange(tuple(range(1, 901))))
    full = np.full((900, 1, 9), PRIME - 1, dtype=np.uint32)
    assert (weights < PRIME).all() and sum(weights.tolist()) % PRIME == 1
    with pytest.raises(ProtocolError):
        combine(range(1, 901), full)


def test_too_few_shares_look_alike_whatever_the_secret():
    """Two of a threshold of three: their joint law does not depend on the secret.

    Chi-square of both shares of 2,000 sharings of each of two secrets, over an 8 x 8 grid; with
    eight standard deviations of margin it fails for right code less than once in a million runs.
    """
    tables = []
    for secret, seed in ((bytes(32), 3), (bytes([255]) * 32, 4)):
        first, second, *_ = share([secret] * 2000, 3, 4, tape(seed))
        edges = [[0, PRIME], [0, PRIME]]
        tables.append(np.histogram2d(first.ravel(), second.ravel(), bins=8, range=edges)[0])
    for table in tables:
        expected = table.sum() / 64
        assert ((table - expected) ** 2 / expected).sum() < 63 + 8 * (2 * 63) ** 0.5


def test_shares_are_uniform():
    secrets = [bytes(32)] * 1000
    shares = share(secrets, 2, 3, tape(2))
    for holder in shares:
        counts = np.histogram(holder, bins=64, range=(0, PRIME))[0]
        expected = holder.size / 64
        assert ((counts - expected) ** 2 / expected).sum() < 63 + 8 * (2 * 63) ** 0.5


def test_the_number_that_is_no_field_element_is_drawn_again():
    served = []

    def entropy(n):
        served.append(n)
        first = b"\xff\xff\xff\x7f" + bytes([7]) * (n - 4) if len(served) == 1 else bytes([9]) * n
        return first

    shares = share([bytes(32)], 2, 2, entropy)
    assert served == [36, 4]
    assert shares[0, 0].tolist() == [0x09090909] + [0x07070707] * 8


@pytest.mark.parametrize("threshold", [0, 4, -1])
def test_a_threshold_nobody_can_meet_is_refused(threshold):
    with pytest.raises(ValueError, match=r"must lie in \[1, 3\]"):
        share([bytes(32)], threshold, 3, os.urandom)


def test_wrong_secrets_points_and_entropy_are_refused():
    with pytest.raises(ValueError, match="32 bytes; got 31"):
        share([bytes(31)], 1, 2, os.urandom)
    with pytest.raises(ValueError, match="asked for 36 bytes and gave 8"):
        share([bytes(32)], 2, 2, lambda n: bytes(8))
    shares = share([bytes(32)], 2, 3, os.urandom)
    for points in ([1, 1], [0, 1]):
        with pytest.raises(ValueError, match="distinct and positive"):
            combine(points, shares[:2])


def test_shares_that_give_no_seed_are_refused():
    shares = share([bytes(32)], 1, 1, os.urandom)
    shares[0, 0, 3] = 2**29
    with pytest.raises(ProtocolError, match="do not combine"):
        combine([1], shares)
    shares[0, 0, 3], shares[0, 0, 8] = 0, 2**24  # 2^256 and more
    with pytest.raises(ProtocolError, match="do not combine"):
        combine([1], shares)

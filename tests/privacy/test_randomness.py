"""Streams and keys: known answers by another route, uniformity, and what must not be possible."""

import copy
import hashlib
import hmac
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sklearn_fedpriv.privacy._randomness import Stream, derive_key, fresh_key, seed_key

KEY = bytes(range(32))
# A right generator falls below this p-value once in a million seeds; the seeds here are fixed.
ERROR_RATE = 1e-6


def keystream(key, n):
    """AES-256 of the block numbers 0, 1, 2, ..., one by one."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = (encryptor.update(i.to_bytes(16, "big")) for i in range(n // 16 + 1))
    return b"".join(blocks)[:n]


def hkdf(key, info):
    """RFC 5869 for 32 bytes: extract with a salt of zeros, one step of expand."""
    extracted = hmac.digest(bytes(32), key, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def test_stream_is_the_aes_keystream():
    # The first two blocks under the zero key are in the GCM specification (test case 13).
    published = "dc95c078a2408989ad48a21492842087" + "530f8afbc74536b9a963b4f1c4cb738b"
    assert Stream(bytes(32)).bytes(32).hex() == published
    assert Stream(KEY).bytes(200_001) == keystream(KEY, 200_001)  # beyond one chunk


@given(st.lists(st.integers(0, 200), max_size=8))
@settings(max_examples=50, deadline=None)
def test_calls_continue_the_keystream(sizes):
    stream = Stream(KEY)
    assert b"".join(stream.bytes(n) for n in sizes) == keystream(KEY, sum(sizes))


def test_words_are_little_endian():
    words = Stream(KEY).uint64(3)
    expected = keystream(KEY, 24)
    assert words.dtype == np.uint64
    assert [int(w) for w in words] == [
        int.from_bytes(expected[i : i + 8], "little") for i in (0, 8, 16)
    ]


@pytest.mark.parametrize("n", [0, 1, 15, 31, 33, 64])
def test_other_key_lengths_are_refused(n):
    with pytest.raises(ValueError, match=f"32 bytes long. Got {n} bytes"):
        Stream(bytes(n))
    with pytest.raises(ValueError, match="32 bytes long"):
        derive_key(bytes(n), "noise")


def test_a_key_is_bytes():
    for key in ("0" * 32, bytearray(32), 7, None):
        with pytest.raises(TypeError, match="must be 32 bytes"):
            Stream(key)


def test_every_key_bit_matters():
    seen = set()
    for bit in range(256):
        key = (int.from_bytes(KEY, "big") ^ (1 << bit)).to_bytes(32, "big")
        seen.add((Stream(key).bytes(16), derive_key(key, "noise")))
    assert len({a for a, _ in seen}) == len({b for _, b in seen}) == 256


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_stream_never_travels(send):
    with pytest.raises(TypeError, match="never travels"):
        send(Stream(KEY))
    assert not hasattr(Stream(KEY), "__dict__")


def test_negative_sizes_are_refused():
    with pytest.raises(ValueError, match="0 or more"):
        Stream(KEY).bytes(-1)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 1000])
def test_below_is_uniform(limit):
    x = Stream(KEY).below(limit, 50 * limit + 5000)
    assert x.dtype == np.int64
    assert x.min() >= 0 and x.max() < limit
    if limit > 1:
        assert chisquare(np.bincount(x, minlength=limit)).pvalue > ERROR_RATE


@pytest.mark.parametrize("limit", [2**62, 2**62 + 1, 3 * 2**61, 2**64, 3 * 2**100, 10**40])
def test_below_is_uniform_for_large_limits(limit):
    x = Stream(KEY).below(limit, 4000)
    assert x.dtype == (np.int64 if limit <= 2**62 else object)
    assert all(0 <= v < limit for v in x)
    if x.dtype == object:
        assert all(type(v) is int for v in x)
    high = np.bincount([int(v) * 16 // limit for v in x], minlength=16)
    low = np.bincount([int(v) % 16 for v in x], minlength=16)
    assert chisquare(high).pvalue > ERROR_RATE
    assert chisquare(low).pvalue > ERROR_RATE


def test_below_of_nothing():
    assert Stream(KEY).below(5, 0).shape == (0,)
    assert Stream(KEY).below(2**70, 0).dtype == object
    with pytest.raises(ValueError, match="1 or more. Got 0"):
        Stream(KEY).below(0, 3)


def test_bits_are_balanced():
    words = Stream(KEY).uint64(20_000)
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert chisquare([ones, len(words) - ones]).pvalue > ERROR_RATE


def test_derived_key_known_answer():
    info = (
        b"sklearn-fedpriv/1"
        + b"s" + bytes([0, 0, 0, 0, 0, 0, 0, 5]) + b"noise"
        + b"i" + bytes([0, 0, 0, 0, 0, 0, 0, 2]) + b"\x01\x00"
        + b"b" + bytes([0, 0, 0, 0, 0, 0, 0, 1]) + b"\xff"
    )  # fmt: skip
    assert derive_key(KEY, "noise", 256, b"\xff") == hkdf(KEY, info)
    assert derive_key(KEY) == hkdf(KEY, b"sklearn-fedpriv/1")


def test_labels_are_told_apart():
    lists = [
        (), ("",), (b"",), ("", ""), ("ab", "c"), ("a", "bc"), ("abc",), (b"abc",), (1,), ("1",),
        (b"1",), (b"\x01",), (-1,), (255,), (-256,), (0,), (1, 1), (257,), (2**300,), (-(2**300),),
    ]  # fmt: skip
    assert len({derive_key(KEY, *labels) for labels in lists}) == len(lists)


LABELS = st.lists(
    st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), st.binary()),
    max_size=4,
)


@given(LABELS, LABELS)
@settings(max_examples=100, deadline=None)
def test_different_labels_give_different_keys(one, other):
    def typed(labels):
        return [(type(label), label) for label in labels]

    same = derive_key(KEY, *one) == derive_key(KEY, *other)
    assert same == (typed(one) == typed(other))


@pytest.mark.parametrize("label", [True, 1.0, None, ("a",), bytearray(b"a")])
def test_other_labels_are_refused(label):
    with pytest.raises(TypeError, match="must be a str, an int or bytes"):
        derive_key(KEY, label)


def test_streams_of_different_labels_differ():
    noise = Stream(derive_key(KEY, "noise")).uint64(1000)
    ties = Stream(derive_key(KEY, "ties")).uint64(1000)
    assert not np.intersect1d(noise, ties).size


def test_fresh_keys_differ():
    keys = {fresh_key() for _ in range(100)}
    assert len(keys) == 100 and {len(key) for key in keys} == {32}


def test_seed_key_of_an_int():
    assert seed_key(None) is None
    seeds = [0, 1, 2**32 - 1, 2**32, 2**64, 2**64 + 1, 10**100]
    assert len({seed_key(seed) for seed in seeds}) == len(seeds)
    assert seed_key(np.int64(1)) == seed_key(1) == derive_key(bytes(32), "random_state", 1)


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_seed_key_draws_once_from_a_generator(make):
    one, other = make(3), make(3)
    first = seed_key(one)
    assert first == derive_key(bytes(32), "random_state", other.bytes(16))
    assert seed_key(one) != first
    assert one.bytes(16) != make(3).bytes(16)


@pytest.mark.parametrize("value", ["a", 1.0, True, np.random, np.random.PCG64(0), (1,)])
def test_seed_key_refuses_other_types(value):
    with pytest.raises(TypeError, match="'random_state' parameter must be None, an int"):
        seed_key(value)


def test_seed_key_refuses_negative_ints():
    with pytest.raises(ValueError, match="0 or more when it is an int. Got -1 instead"):
        seed_key(-1)


def test_the_global_generator_is_left_alone():
    before = np.random.get_state()  # noqa: NPY002
    Stream(seed_key(5)).below(10, 100)
    fresh_key()
    after = np.random.get_state()  # noqa: NPY002
    assert before[2:] == after[2:] and np.array_equal(before[1], after[1])

"""Signed words in slots of a plaintext: sums of plaintexts are sums of words."""

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv.exceptions import ProtocolError, RangeOverflow
from sklearn_fedpriv.secure._packing import Packing, plan_packing
from sklearn_fedpriv.secure._protocol import Binding, SumTask


def make_task(n_parties, length, party_limit, limit=None, max_dropouts=0):
    return SumTask(
        Binding(b"federation", b"terms", 1),
        b"request",
        tuple(f"party{i:03}" for i in range(n_parties)),
        max_dropouts,
        length,
        party_limit,
        n_parties * party_limit if limit is None else limit,
    )


def add_packed(packing, words):
    packed = [packing.pack(one) for one in words]
    return packing.unpack([sum(column, mpz(0)) for column in zip(*packed, strict=True)], len(words))


@settings(deadline=None)
@given(data=st.data())
def test_sums_of_plaintexts_are_sums_of_words(data):
    n_parties = data.draw(st.integers(2, 64))
    length = data.draw(st.integers(1, 300))
    party_limit = data.draw(st.integers(0, 2**62 // n_parties))
    key_size = data.draw(st.sampled_from([256, 512, 2048]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    packing = plan_packing(make_task(n_parties, length, party_limit), key_size)
    n_added = data.draw(st.integers(1, n_parties))
    words = rng.integers(-party_limit, party_limit, (n_added, length), endpoint=True)
    np.testing.assert_array_equal(add_packed(packing, words), words.sum(axis=0))


@pytest.mark.parametrize("n_parties", [2, 3, 4, 5, 17, 64, 500])
@pytest.mark.parametrize("party_limit", [1, 127, 128, 2**31 - 1, 2**31, 2**40, 2**53])
@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -1), (-1, 1, 1)])
def test_slots_at_their_limits_leave_their_neighbours_alone(n_parties, party_limit, signs):
    packing = plan_packing(make_task(n_parties, 60, party_limit), 512)
    word = party_limit * np.resize(np.array(signs, dtype=np.int64), 60)
    total = add_packed(packing, [word] * n_parties)
    np.testing.assert_array_equal(total, n_parties * word)


@pytest.mark.parametrize("value", [-(10**6), -1, 0, 1, 10**6])
def test_signed_values_come_back(value):
    packing = plan_packing(make_task(2, 3, 10**6), 512)
    words = np.array([value, -value, value], dtype=np.int64)
    np.testing.assert_array_equal(add_packed(packing, [words]), words)
    np.testing.assert_array_equal(add_packed(packing, [words, words]), 2 * words)


@pytest.mark.parametrize("sign", [1, -1])
def test_slots_wider_than_words_are_exact(sign):
    # Single words of 63 bits: the biases of seven parties need nine bytes.
    task = make_task(7, 20, 2**62, limit=2**62)
    packing = plan_packing(task, 512)
    assert packing.slot_bytes == 9
    words = np.zeros((7, 20), dtype=np.int64)
    words[0], words[1:4], words[4:] = sign * 2**62, 2**62, -(2**62)
    np.testing.assert_array_equal(add_packed(packing, words), words.sum(axis=0))


def test_a_sum_that_may_exceed_the_parties_limits_has_room():
    # limit beyond n * party_limit: the slot follows the larger of the two.
    narrow = plan_packing(make_task(2, 1, 100), 512)
    wide = plan_packing(make_task(2, 1, 100, limit=2**30), 512)
    assert (narrow.slot_bytes, wide.slot_bytes) == (2, 4)


def test_known_answer():
    packing = Packing(length=5, bias=3, slot_bytes=2, n_slots=3)
    plaintexts = packing.pack(np.array([-3, 0, 3, 1, 256], dtype=np.int64))
    assert [int(plaintext) for plaintext in plaintexts] == [0x0006_0003_0000, 0x0103_0004]
    np.testing.assert_array_equal(packing.unpack(plaintexts, 1), [-3, 0, 3, 1, 256])


@settings(deadline=None)
@given(
    words=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    party_limit=st.integers(0, 2**40),
)
def test_no_word_whatever_its_value_makes_packing_fail(words, party_limit):
    # G12: a word outside its range wraps modulo the slot, without error, warning or clamp.
    packing = plan_packing(make_task(3, len(words), party_limit), 512)
    plaintexts = packing.pack(np.array(words, dtype=np.int64))
    assert all(plaintext.bit_length() < 512 for plaintext in plaintexts)
    modulus = 2 ** (8 * min(packing.slot_bytes, 8))
    found = packing.unpack(plaintexts, 1)
    assert all((int(a) - b) % modulus == 0 for a, b in zip(found, words, strict=True))


def test_whole_plaintexts_are_smaller_than_any_modulus_of_the_key_size():
    for key_size in (256, 512, 2048):
        for party_limit in (1, 1000, 2**33, 2**50):
            packing = plan_packing(make_task(3, 500, party_limit), key_size)
            assert 8 * packing.slot_bytes * packing.n_slots < key_size


def test_thirty_two_to_forty_bit_words_share_a_ciphertext():
    assert plan_packing(make_task(10, 1000, 2**32), 2048).n_slots == 51
    assert plan_packing(make_task(10, 1000, 2**39), 2048).n_slots == 42


@pytest.mark.parametrize(
    ("party_limit", "limit", "message"),
    [
        (2**40, 2**63, "needs words of 65 bits and there are 64"),
        (2**63, 2**40, "may need 65 bits and there are 64"),
    ],
)
def test_sums_beyond_a_word_are_refused(party_limit, limit, message):
    with pytest.raises(RangeOverflow, match=message):
        plan_packing(make_task(3, 4, party_limit, limit), 2048)


def test_a_slot_beyond_a_plaintext_is_refused():
    with pytest.raises(RangeOverflow, match="needs 72 bits and a plaintext has 63"):
        plan_packing(make_task(9, 4, 2**62, 2**62), 64)


def test_an_empty_sum_is_refused():
    with pytest.raises(ValueError, match="at least 1 word"):
        plan_packing(make_task(3, 0, 1), 2048)


@pytest.mark.parametrize(
    "words", [np.zeros(4), np.zeros(3, dtype=np.int64), np.zeros((4, 1), dtype=np.int64)]
)
def test_words_of_another_type_or_shape_are_refused(words):
    with pytest.raises(ValueError, match=r"int64 of shape \(4,\)"):
        plan_packing(make_task(3, 4, 10), 512).pack(words)


def test_plaintexts_that_were_not_packed_so_are_refused():
    packing = plan_packing(make_task(3, 4, 10), 512)
    with pytest.raises(ProtocolError, match="packed in another way"):
        packing.unpack([mpz(2) ** 511], 3)

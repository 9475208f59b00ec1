"""Settings and keys of the Paillier sum, and what must never be seen of them."""

import dataclasses
import math
import os
import pickle

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv import _wire
from sklearn_fedpriv.exceptions import ProtocolError, RangeOverflow
from sklearn_fedpriv.secure import _paillier_arithmetic as arithmetic
from sklearn_fedpriv.secure import _paillier_keys as keys
from sklearn_fedpriv.secure._paillier import PaillierSum
from sklearn_fedpriv.secure._paillier_wire import payload_to_numbers
from sklearn_fedpriv.secure._protocol import (
    Opening,
    OpenRequest,
    Protected,
)
from tests.secure.paillier import (
    PRIMES,
    REAL_SAFE_PRIME,
    Run,
    make_task,
    names,
    random_words,
    small,
)


@pytest.fixture(autouse=True, scope="module")
def shared_run(cached_primes):
    """One run for the tests that look at many alterations of it."""
    global SHARED
    SHARED = Run(n_parties=3, length=4)


# Settings


def test_a_threshold_is_allowed_between_the_colluders_and_the_survivors():
    for n in range(2, 8):
        for min_honest in range(1, n + 1):
            for max_dropouts in range(n):
                lowest, highest = max(1, n - min_honest) + 1, n - max_dropouts
                for threshold in range(n + 2):
                    if lowest <= threshold <= highest:
                        small(threshold).check(n, min_honest, max_dropouts)
                    else:
                        with pytest.raises(ValueError, match="key_threshold"):
                            small(threshold).check(n, min_honest, max_dropouts)


def test_the_papers_threshold_is_the_smallest_allowed():
    small(6 - 4 + 1).check(6, 4, 0)
    with pytest.raises(ValueError, match=r"in \[3, 6\] for 6 parties.*got 2"):
        small(2).check(6, 4, 0)


def test_a_threshold_of_one_is_never_allowed():
    for n in range(2, 8):
        with pytest.raises(ValueError, match="key_threshold"):
            small(1).check(n, n, 0)


def test_the_default_threshold_is_what_surely_answers_or_the_terms_are_refused():
    assert small().threshold(7, 2) == 5
    small().check(2, 2, 0)
    small().check(7, 3, 2)
    with pytest.raises(ValueError, match="Set max_dropouts to 2 or less, or raise min_honest"):
        small().check(7, 3, 3)


def test_one_party_alone_has_no_paillier_sum():
    with pytest.raises(ValueError, match="at least 2 parties; got 1"):
        small().check(1, 1, 0)


@pytest.mark.parametrize("key_size", [512, 1024, 2032])
def test_small_keys_are_refused_unless_called_insecure(key_size):
    with pytest.raises(ValueError, match="at least 2048 bits.*insecure_key=True"):
        PaillierSum(key_size=key_size).check(3, 3, 0)
    with pytest.raises(ValueError, match="at least 2048 bits"):
        keys.deal_keys(names(3), 3, os.urandom, key_size=key_size)
    PaillierSum(key_size=key_size, insecure_key=True).check(3, 3, 0)


@pytest.mark.parametrize("key_size", [0, 240, 2049])
def test_impossible_key_sizes_are_refused(key_size):
    with pytest.raises(ValueError, match="multiple of 16 and at least 256"):
        PaillierSum(key_size=key_size, insecure_key=True).check(3, 3, 0)


def test_the_dealer_is_named_and_the_parties_are_hidden():
    assert PaillierSum().trusted_roles() == ("dealer",)
    assert PaillierSum.hides_parties and PaillierSum.label == "paillier"


def test_the_report_says_what_key_and_who_must_help():
    expected = "Paillier sums: a key of 2048 bits, 4 of 5 parties must help to open"
    assert PaillierSum().describe(5, 1) == expected
    assert "512 bits (insecure, for tests), 3 of 5" in small(3).describe(5, 1)


def test_settings_hold_no_key_and_travel():
    for chosen in (PaillierSum(), small(3)):
        assert _wire.from_bytes(_wire.to_bytes(chosen), PaillierSum) == chosen


def test_another_key_than_the_terms_ask_for_is_refused():
    run = Run(n_parties=4, key_threshold=3)
    share = run.secrets["party0"]
    with pytest.raises(ProtocolError, match="has 512 bits; the terms ask for 2048"):
        PaillierSum().server(run.public)
    with pytest.raises(ValueError, match="at least 2048 bits"):
        PaillierSum(key_size=512).party("party0", run.public, share)
    with pytest.raises(ProtocolError, match="opens with 3 parties; the terms ask for 4"):
        small().party("party0", run.public, share).protect(
            run.task, run.words["party0"], os.urandom
        )
    with pytest.raises(ProtocolError, match="A PaillierPublicKey was expected; got a NoneType"):
        run.settings.server(None)


def test_a_share_that_is_not_the_partys_is_refused():
    run, other = Run(), Run()
    share = run.secrets["party0"]
    for secret, message in [
        (None, "needs a PaillierKeyShare; got a NoneType"),
        (other.secrets["party0"], "belongs to another key"),
        (run.secrets["party1"], "was given the share of party 'party1'"),
        (dataclasses.replace(share, index=2), "wrong index"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            run.settings.party("party0", run.public, secret)


def test_parties_the_key_was_not_dealt_to_are_refused():
    run = Run()
    task = dataclasses.replace(run.task, parties=(*run.task.parties, "party9"))
    with pytest.raises(ProtocolError, match="no share of the key was dealt to 'party9'"):
        run.sides["party0"].protect(task, run.words["party0"], os.urandom)


def test_words_that_would_not_fit_are_refused_by_both_sides_before_randomness_is_drawn():
    run = Run()
    task = dataclasses.replace(run.task, limit=2**63)
    for side in (run.sides["party0"], run.server):
        side.check(run.task)
        with pytest.raises(RangeOverflow):
            side.check(task)
    with pytest.raises(RangeOverflow):
        run.sides["party0"].protect(task, run.words["party0"], refuse_to_draw)


def refuse_to_draw(n_bytes):
    raise AssertionError("entropy was used")


# Keys


@pytest.mark.parametrize("bits", [64, 65, 96, 128, 200])
def test_safe_primes_are_safe_and_of_full_size(bits):
    prime = REAL_SAFE_PRIME(bits, os.urandom)
    assert gmpy2.is_prime(prime, 40) and gmpy2.is_prime((prime - 1) // 2, 40)
    assert prime.bit_length() == bits and prime >> (bits - 2) == 3


def test_the_sieve_strikes_what_has_a_small_factor_and_nothing_else():
    start = (3 << 62) + 123456789
    start += (5 - start) % 6
    survivors, primes = set(keys._sieve(start).tolist()), keys._small_primes()
    for k in range(0, 131_000, 1310):
        half = np.uint64(start + 6 * k) % primes.astype(np.uint64)
        struck = (half == 0).any() or ((2 * half + 1) % primes.astype(np.uint64) == 0).any()
        assert struck != (k in survivors)


def test_safe_primes_follow_from_the_entropy():
    def fixed(n_bytes):
        return bytes(range(n_bytes))

    assert REAL_SAFE_PRIME(96, fixed) == REAL_SAFE_PRIME(96, fixed)


def test_too_small_primes_are_refused():
    with pytest.raises(ValueError, match="at least 64 bits"):
        REAL_SAFE_PRIME(32, os.urandom)


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        (PRIMES[256][0], PRIMES[256][0], "same prime twice"),
        (PRIMES[256][0], int(gmpy2.next_prime(3 << 254)), "must be safe primes"),
        (PRIMES[256][0], PRIMES[128][0], "must have 256 bits; got 128"),
        (PRIMES[256][0], 2 * PRIMES[256][1], "must be safe primes"),
    ],
)
def test_weak_primes_are_refused(p, q, message):
    with pytest.raises(ValueError, match=message) as caught:
        keys.check_primes(p, q, 512)
    assert str(p) not in str(caught.value)


def test_a_dealer_whose_primes_repeat_or_are_not_safe_deals_nothing(monkeypatch):
    for prime, message in [
        (PRIMES[256][0], "same prime twice"),
        (int(gmpy2.next_prime(3 << 254)), "same prime twice|must be safe primes"),
    ]:
        monkeypatch.setattr(keys, "safe_prime", lambda bits, entropy, prime=prime: prime)
        with pytest.raises(ValueError, match=message):
            keys.deal_keys(names(3), 2, os.urandom, key_size=512, insecure_key=True)


def test_a_dealt_key_is_what_the_scheme_asks_for():
    public, shares = keys.deal_keys(names(5), 3, os.urandom, key_size=512, insecure_key=True)
    p = next(p for p in PRIMES[256] if public.modulus % p == 0)
    q = public.modulus // p
    assert p != q and q in PRIMES[256] and public.key_size == 512
    n, order = public.modulus, (p - 1) // 2 * ((q - 1) // 2)
    # h is an N-th power of order dividing 2m.
    assert pow(public.base, 2 * order, n**2) == 1 != pow(public.base, order, n**2)
    # The shares are points of a polynomial of degree 2 whose value at 0 is 0 mod m, 1 mod N.
    for chosen in ((0, 1, 2), (4, 2, 0)):
        points = [shares[f"party{i}"] for i in chosen]
        coefficients, scale = arithmetic.lagrange_coefficients(s.index for s in points)
        value = sum(coefficients[s.index] * s.share for s in points)
        assert value % order == 0 and value % n == scale
    assert [s.index for s in shares.values()] == [1, 2, 3, 4, 5]
    assert all(0 <= s.share < n * order for s in shares.values())


def test_two_dealings_differ():
    one, other = (
        keys.deal_keys(names(3), 2, os.urandom, key_size=256, insecure_key=True) for _ in range(2)
    )
    assert one[0].key_id != other[0].key_id and one[0].base != other[0].base
    assert one[1]["party0"].share != other[1]["party0"].share


@pytest.mark.parametrize(
    "change",
    [
        {"threshold": 1},
        {"threshold": 5},
        {"parties": ("b", "a", "c")},
        {"parties": ("a", "a", "b")},
        {"modulus": 2**511},
        {"base": 1},
        {"key_id": b"short"},
    ],
)
def test_malformed_public_keys_are_refused(change):
    public, _ = keys.deal_keys(names(3), 2, os.urandom, key_size=256, insecure_key=True)
    with pytest.raises(ValueError):
        dataclasses.replace(public, **change)


@given(st.sets(st.integers(1, 40), min_size=1, max_size=12), st.data())
def test_lagrange_coefficients_interpolate_at_zero(indices, data):
    coefficients, scale = arithmetic.lagrange_coefficients(indices)
    polynomial = data.draw(
        st.lists(st.integers(-100, 100), min_size=len(indices), max_size=len(indices))
    )
    value = sum(
        coefficients[i] * sum(c * i**power for power, c in enumerate(polynomial)) for i in indices
    )
    assert value == scale * polynomial[0]
    assert math.factorial(max(indices)) % scale == 0


# Secrecy


def test_nothing_that_travels_holds_a_secret():
    run = Run()
    request, openings = run.request_and_openings()
    p = next(p for p in PRIMES[256] if run.public.modulus % p == 0)
    q = run.public.modulus // p
    order = (p - 1) // 2 * ((q - 1) // 2)
    d = order * pow(order, -1, run.public.modulus)
    secrets = [p, q, (p - 1) // 2, (q - 1) // 2, order, 4 * order, d]
    secrets += [secret.share for secret in run.secrets.values()]
    seen = [_wire.to_bytes(m) for m in (run.public, request, *openings, *run.sent.values())]
    seen += [_wire.to_bytes(run.settings), pickle.dumps(run.settings), pickle.dumps(run.public)]
    for secret in secrets:
        for order_of_bytes in ("big", "little"):
            needle = secret.to_bytes(-(-secret.bit_length() // 8), order_of_bytes)
            assert not any(needle in data for data in seen)
        assert str(secret) not in repr((run.public, run.secrets, run.settings, openings))
    # The search can find what is there.
    assert run.public.modulus.to_bytes(64, "big") in seen[0]


def test_a_share_does_not_show_itself():
    run = Run()
    for name, secret in run.secrets.items():
        for shown in (repr(secret), str(secret), f"{secret}", repr(run.sides[name])):
            assert str(secret.share) not in shown and hex(secret.share)[2:] not in shown


def test_two_encryptions_of_the_same_words_differ_in_every_number():
    run = Run(length=40)
    one, other = (
        run.sides["party0"].protect(run.task, run.words["party0"], os.urandom) for _ in range(2)
    )
    pairs = zip(
        *(payload_to_numbers(run.public, m, len(m.payload) // 128) for m in (one, other)),
        strict=True,
    )
    assert all(a != b for a, b in pairs)


def test_exponents_have_half_the_bits_of_the_key_and_are_drawn_at_once():
    for settings_, bits in ((PaillierSum(), 2048), (small(), 512), (small(key_size=256), 256)):
        task = make_task(2, length=200)
        public, secrets = settings_.set_up(task.parties, 2, 0, os.urandom)
        asked = []

        def recording(n_bytes, asked=asked):
            asked.append(n_bytes)
            return os.urandom(n_bytes)

        side = settings_.party("party0", public, secrets["party0"])
        sent = side.protect(task, random_words(task)["party0"], recording)
        n_numbers = (len(sent.payload) - keys.KEY_ID_BYTES) // public.number_bytes
        assert asked == [n_numbers * public.exponent_bytes]
        assert 8 * public.exponent_bytes >= bits / 2


@given(exponent=st.binary(min_size=32, max_size=32), plaintext=st.integers(0, 2**500))
@settings(deadline=None, max_examples=30)
def test_the_table_raises_to_the_whole_exponent(exponent, plaintext):
    n, base = SHARED.public.modulus, SHARED.public.base
    [found] = arithmetic.encrypt(SHARED.public, [mpz(plaintext)], lambda n_bytes: exponent)
    r = int.from_bytes(exponent, "little")
    assert found == (1 + plaintext * n) * pow(base, r, n**2) % n**2


def test_entropy_that_runs_out_or_short_is_an_error():
    class Exhausted(Exception):
        pass

    def give_up(n_bytes):
        raise Exhausted

    run = Run()
    with pytest.raises(Exhausted):
        run.sides["party0"].protect(run.task, run.words["party0"], give_up)
    with pytest.raises(ValueError, match="asked for .* bytes and gave 3"):
        run.sides["party0"].protect(run.task, run.words["party0"], lambda n: b"abc")
    for n_served in range(5):
        left = [n_served]

        def finite(n_bytes, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise Exhausted
            return os.urandom(n_bytes)

        with pytest.raises(Exhausted):
            small().set_up(names(6), 6, 0, finite)


# Travel


def test_every_message_and_key_comes_back_from_its_bytes():
    run = Run()
    request, openings = run.request_and_openings()
    for value, kind in [
        (run.public, keys.PaillierPublicKey),
        (run.secrets["party0"], keys.PaillierKeyShare),
        (run.sent["party0"], Protected),
        (request, OpenRequest),
        (openings[0], Opening),
    ]:
        assert _wire.from_bytes(_wire.to_bytes(value), kind) == value


def test_a_sum_works_with_everything_sent_as_bytes():
    run = Run()

    def travel(value):
        return _wire.from_bytes(_wire.to_bytes(value))

    public = travel(run.public)
    sides = {
        name: travel(run.settings).party(name, public, travel(secret))
        for name, secret in run.secrets.items()
    }
    server = run.settings.server(public)
    request = travel(server.gather(run.task, [travel(sent) for sent in run.sent.values()]))
    openings = [
        travel(sides[name].open(run.task, run.sent[name], request))
        for name in server.openers(run.task, request)
    ]
    np.testing.assert_array_equal(server.finish(run.task, request, openings), run.total)


def test_the_public_key_pickles_without_its_table():
    run = Run()  # has encrypted, so the table exists
    data = pickle.dumps(run.public)
    assert len(data) < 1000 and pickle.loads(data) == run.public

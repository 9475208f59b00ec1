"""The threshold-Paillier sum: equal to the plain sum, and closed to too few."""

import dataclasses
import math
import os

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv import _wire
from sklearn_fedpriv.exceptions import ProtocolError, TooFewParties
from sklearn_fedpriv.secure import _paillier_arithmetic as arithmetic
from sklearn_fedpriv.secure import _paillier_keys as keys
from sklearn_fedpriv.secure._paillier import PaillierSum
from sklearn_fedpriv.secure._paillier_wire import numbers_to_payload
from sklearn_fedpriv.secure._plain import PlainSum
from sklearn_fedpriv.secure._protocol import (
    OpenRequest,
    ReleaseLog,
    run_secure_sum,
)
from tests.secure.paillier import (
    PRIMES,
    REAL_SAFE_PRIME,
    Run,
    flip,
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


# The sum


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_sum_equals_the_plain_sum(data):
    n_parties = data.draw(st.integers(2, 7), "parties")
    max_dropouts = data.draw(st.integers(0, n_parties - 2), "max_dropouts")
    min_honest = data.draw(st.integers(max_dropouts + 1, n_parties), "min_honest")
    lowest = max(1, n_parties - min_honest) + 1
    threshold = data.draw(st.none() | st.integers(lowest, n_parties - max_dropouts), "threshold")
    task = make_task(
        n_parties,
        data.draw(st.integers(1, 300), "length"),
        data.draw(st.integers(0, 2**60), "party_limit"),
        max_dropouts,
    )
    answering = data.draw(
        st.sets(st.sampled_from(task.parties), min_size=task.fewest), "who answers"
    )
    words = random_words(task, data.draw(st.integers(0, 2**32), "seed"), sorted(answering))
    found = run_secure_sum(small(threshold), task, words, min_honest, os.urandom)
    expected = run_secure_sum(PlainSum(), task, words, min_honest, os.urandom)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n_parties", [2, 5, 7])
@pytest.mark.parametrize("party_limit", [1, 2**31, 2**39, 2**53])
def test_every_word_at_its_limit(n_parties, party_limit, sign):
    task = make_task(n_parties, 40, party_limit)
    words = dict.fromkeys(task.parties, np.full(40, sign * party_limit))
    found = run_secure_sum(small(), task, words, n_parties, os.urandom)
    np.testing.assert_array_equal(found, np.full(40, sign * n_parties * party_limit))


def test_a_key_of_2048_bits_gives_the_plain_sum():
    task = make_task(3, 100, 2**36, max_dropouts=1)
    words = random_words(task, only=["party0", "party2"])
    found = run_secure_sum(PaillierSum(), task, words, 3, os.urandom)
    np.testing.assert_array_equal(found, sum(words.values()))


def test_a_dealer_without_cached_primes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "safe_prime", REAL_SAFE_PRIME)
        task = make_task(3)
        words = random_words(task)
        found = run_secure_sum(small(key_size=256), task, words, 3, os.urandom)
    np.testing.assert_array_equal(found, sum(words.values()))


def test_any_choice_of_openers_gives_the_same_sum():
    run = Run(n_parties=5, key_threshold=3)
    request = run.gather()
    openings = {name: run.open(name, request) for name in run.task.parties}
    for chosen in (("party0", "party1", "party2"), ("party4", "party1", "party3")):
        np.testing.assert_array_equal(
            run.finish(request, [openings[name] for name in chosen]), run.total
        )


def test_an_invited_part_of_the_federation_can_sum():
    run = Run(n_parties=5, key_threshold=3)
    task = dataclasses.replace(run.task, parties=run.task.parties[1:4])
    words = random_words(task)
    sent = {n: run.sides[n].protect(task, w, os.urandom) for n, w in words.items()}
    request = run.server.gather(task, sent.values())
    openings = [
        run.sides[n].open(task, sent[n], request) for n in run.server.openers(task, request)
    ]
    np.testing.assert_array_equal(run.server.finish(task, request, openings), sum(words.values()))


# Drop-outs


@pytest.mark.parametrize("n_missing", [0, 1, 2])
def test_survivors_are_summed_exactly(n_missing):
    run = Run(n_parties=5, max_dropouts=2, only=names(5)[n_missing:])
    np.testing.assert_array_equal(run.finish(*run.request_and_openings()), run.total)


def test_one_drop_out_too_many_is_refused_before_anything_is_opened():
    run = Run(n_parties=5, max_dropouts=2, only=names(5)[3:])
    with pytest.raises(TooFewParties, match=r"needs at least 3 of 5.*'party0'.*Nothing was opened"):
        run.gather()
    everyone = OpenRequest(run.task.binding, tuple(run.sent.values()))
    with pytest.raises(TooFewParties, match="party 'party4' found 2 contributions"):
        run.open("party4", everyone)


def test_too_few_left_to_open_is_refused():
    # Three of five invited may answer, but the key asks for four.
    run = Run(n_parties=5, key_threshold=4)
    task = dataclasses.replace(run.task, parties=run.task.parties[:3])
    sent = [run.sides[n].protect(task, w, os.urandom) for n, w in random_words(task).items()]
    request = run.server.gather(task, sent)
    with pytest.raises(TooFewParties, match="4 parties that are in the sum, and 3 are"):
        run.server.openers(task, request)


# What a party opens


def test_a_lone_contribution_is_refused():
    run = Run(n_parties=2, only=["party0"], max_dropouts=0)
    task = dataclasses.replace(run.task, parties=("party0",))
    own = dataclasses.replace(run.sent["party0"])
    with pytest.raises(TooFewParties, match="one alone is never opened"):
        run.server.gather(task, [own])
    with pytest.raises(TooFewParties, match="party 'party0' found 1"):
        run.sides["party0"].open(task, own, OpenRequest(task.binding, (own,)))


def test_a_request_without_the_partys_own_contribution_is_refused():
    run = Run(n_parties=4, max_dropouts=1, only=names(4)[1:])
    request = run.gather()
    words = random_words(run.task)["party0"]
    own = run.sides["party0"].protect(run.task, words, os.urandom)
    with pytest.raises(ProtocolError, match="'party0' does not find its own"):
        run.sides["party0"].open(run.task, own, request)


@settings(deadline=None, max_examples=20)
@given(bit=st.integers(0, 1000))
def test_a_request_that_altered_the_partys_own_contribution_is_refused(bit):
    run = Run(n_parties=2, length=5)
    run.sent["party1"] = flip(run.sent["party1"], bit)
    request = OpenRequest(run.task.binding, tuple(run.sent.values()))
    own = flip(run.sent["party1"], bit)
    with pytest.raises(ProtocolError, match="does not find its own"):
        run.sides["party1"].open(run.task, own, request)


def test_the_contribution_of_another_as_own_is_refused():
    run = Run()
    with pytest.raises(ProtocolError, match="was shown the contribution of party 'party1'"):
        run.sides["party0"].open(run.task, run.sent["party1"], run.gather())


def test_copies_of_one_contribution_are_refused():
    run = Run()
    run.sent["party1"] = dataclasses.replace(run.sent["party0"], sender="party1")
    with pytest.raises(ProtocolError, match="'party0' and 'party1' are copies"):
        run.gather()
    with pytest.raises(ProtocolError, match="'party0' and 'party1' are copies"):
        run.open("party0", OpenRequest(run.task.binding, tuple(run.sent.values())))


def test_the_same_party_twice_is_refused():
    run = Run()
    again = run.sides["party1"].protect(run.task, run.words["party1"], os.urandom)
    included = (*run.sent.values(), again)
    with pytest.raises(ProtocolError, match="'party1' answered twice"):
        run.open("party0", OpenRequest(run.task.binding, included))


def test_a_contribution_of_another_release_is_refused():
    run = Run()
    other = dataclasses.replace(run.task, binding=dataclasses.replace(run.task.binding, release=0))
    run.sent["party1"] = run.sides["party1"].protect(other, run.words["party1"], os.urandom)
    with pytest.raises(ProtocolError, match="Protected of party 'party1' belongs to release 0"):
        run.gather()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (lambda n: 0, r"outside \(0, modulus\^2\)"),
        (lambda n: n**2, r"outside \(0, modulus\^2\)"),
        (lambda n: 5 * n, "shares a factor"),
        (lambda n: 3 * math.gcd(n, math.prod(PRIMES[256][::2])), "shares a factor"),
    ],
)
def test_numbers_that_are_no_ciphertexts_are_refused_by_all(number, message):
    run = Run(length=1)
    bad = numbers_to_payload(run.public, [mpz(number(run.public.modulus))])
    run.sent["party1"] = dataclasses.replace(run.sent["party1"], payload=bad)
    with pytest.raises(ProtocolError, match=f"Protected of party 'party1' .*{message}"):
        run.gather()
    with pytest.raises(ProtocolError, match=f"Protected of party 'party1' .*{message}"):
        run.open("party0", OpenRequest(run.task.binding, tuple(run.sent.values())))
    request, openings = SHARED.request_and_openings()
    bad = numbers_to_payload(SHARED.public, [mpz(number(SHARED.public.modulus))])
    openings[1] = dataclasses.replace(openings[1], payload=bad)
    with pytest.raises(ProtocolError, match=f"Opening of party 'party1' .*{message}"):
        SHARED.finish(request, openings)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + bytes(1)])
def test_payloads_of_another_length_are_refused(change):
    run = Run()
    payload = change(run.sent["party2"].payload)
    run.sent["party2"] = dataclasses.replace(run.sent["party2"], payload=payload)
    with pytest.raises(ProtocolError, match="'party2' has .* were expected"):
        run.gather()


def test_a_release_is_answered_once():
    run = Run()
    log, name = ReleaseLog(), "party0"
    request = _wire.to_bytes(run.gather())

    def answer(request):
        sent = log.replay("open", run.task.binding, request)
        if sent is None:
            opening = run.open(name, _wire.from_bytes(request, OpenRequest))
            sent = _wire.to_bytes(opening)
            log.store("open", run.task.binding, request, sent)
        return sent

    assert answer(request) == answer(request)
    fewer = OpenRequest(run.task.binding, tuple(run.sent.values())[:-1])
    with pytest.raises(ProtocolError, match="already answered the step 'open'"):
        answer(_wire.to_bytes(fewer))


# What the server accepts


def test_fewer_openings_than_the_threshold_are_refused():
    run = Run(n_parties=5, key_threshold=3)
    request, openings = run.request_and_openings()
    with pytest.raises(TooFewParties, match="2 parties helped.*3 must; missing: 'party2'"):
        run.finish(request, openings[:2])


def test_more_openings_than_the_threshold_are_refused():
    run = Run(n_parties=5, key_threshold=3)
    request, openings = run.request_and_openings()
    with pytest.raises(ProtocolError, match="4 parties helped to open and exactly 3"):
        run.finish(request, [*openings, run.open("party4", request)])


@settings(deadline=None, max_examples=25)
@given(n_parties=st.integers(2, 7), data=st.data())
def test_one_share_too_few_opens_nothing(n_parties, data):
    threshold = data.draw(st.integers(2, n_parties))
    public, shares = keys.deal_keys(
        names(n_parties), threshold, os.urandom, key_size=512, insecure_key=True
    )
    ciphertexts = arithmetic.encrypt(public, [mpz(12345)], os.urandom)
    order = data.draw(st.permutations(names(n_parties)))
    partials = {
        shares[name].index: arithmetic.decrypt_partially(public, shares[name], ciphertexts)
        for name in order[:threshold]
    }
    assert arithmetic.combine(public, partials) == [12345]
    partials.popitem()
    assert arithmetic.combine(public, partials) is None


def test_a_party_that_opens_twice_is_refused():
    run = Run()
    request, openings = run.request_and_openings()
    with pytest.raises(ProtocolError, match="party 'party1' opened twice"):
        run.finish(request, [*openings[:3], openings[1]])


def test_one_opening_under_two_names_is_detected():
    run = Run()
    request, openings = run.request_and_openings()
    openings[0] = dataclasses.replace(openings[1], sender="party0")
    with pytest.raises(ProtocolError, match="Release 1: the sum does not open"):
        run.finish(request, openings)


def test_an_opening_of_a_stranger_or_of_one_left_out_is_refused():
    run = Run(n_parties=4, max_dropouts=1, only=names(4)[:3])
    request, openings = run.request_and_openings()
    for sender in ("party3", "nobody"):
        openings[0] = dataclasses.replace(openings[0], sender=sender)
        with pytest.raises(ProtocolError, match=f"Opening of party '{sender}': .*not asked"):
            run.finish(request, openings)


def test_an_opening_of_another_request_is_refused():
    run = Run(n_parties=4, max_dropouts=1)
    request, openings = run.request_and_openings()
    fewer = OpenRequest(run.task.binding, request.included[:3])
    openings[0] = run.open("party0", fewer)
    with pytest.raises(ProtocolError, match="Opening of party 'party0' answers another request"):
        run.finish(request, openings)


def test_an_opening_with_another_key_is_refused():
    run, other = Run(), Run()
    request, openings = run.request_and_openings()
    foreign = other.request_and_openings()[1][2]
    openings[2] = dataclasses.replace(openings[2], payload=foreign.payload)
    with pytest.raises(ProtocolError, match="Opening of party 'party2' was not made with the key"):
        run.finish(request, openings)


def test_a_share_of_another_key_under_this_keys_name_is_detected():
    run, other = Run(), Run()
    forged = dataclasses.replace(other.secrets["party2"], key_id=run.public.key_id)
    run.sides["party2"] = run.settings.party("party2", run.public, forged)
    with pytest.raises(ProtocolError, match=r"does not open.*'party2'.*Deal new keys"):
        run.finish(*run.request_and_openings())


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_one_flipped_bit_of_an_opening_is_detected(data):
    request, openings = SHARED.request_and_openings()
    which = data.draw(st.integers(0, len(openings) - 1))
    bit = data.draw(st.integers(0, 8 * len(openings[which].payload) - 1))
    openings[which] = flip(openings[which], bit)
    with pytest.raises(ProtocolError, match="Release 1: "):
        SHARED.finish(request, openings)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_one_flipped_bit_of_a_share_is_detected(data):
    bit = data.draw(st.integers(0, 1000))
    run = SHARED
    share = run.secrets["party1"]
    wrong = dataclasses.replace(share, share=share.share ^ (1 << bit))
    request, openings = run.request_and_openings()
    side = run.settings.party("party1", run.public, wrong)
    openings[1] = side.open(run.task, run.sent["party1"], request)
    with pytest.raises(ProtocolError, match=r"of one of 'party0', 'party1', 'party2' is wrong"):
        run.finish(request, openings)

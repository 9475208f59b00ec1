"""Every message is bound to its release, and nothing is answered or opened twice (G16, G19)."""

import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.exceptions import ProtocolError, RangeOverflow, TooFewParties
from sklearn_fedpriv.secure._plain import PlainSum
from sklearn_fedpriv.secure._protocol import (
    Binding,
    OpenRequest,
    Protected,
    ReleaseLog,
    SumTask,
    check_own,
    run_secure_sum,
)

BINDING = Binding(b"federation", b"terms", 3)
TASK = SumTask(BINDING, b"request", ("a", "b", "c"), 1, 2, 50, 200)


def protected(sender, payload=b"words"):
    return Protected(BINDING, b"request", sender, payload)


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-(2**62) // 8, 2**62 // 8), min_size=3, max_size=3),
            min_size=n,
            max_size=n,
        )
    )
)
def test_the_plain_sum_is_the_sum(words):
    names = tuple(sorted(f"p{i}" for i in range(len(words))))
    task = SumTask(BINDING, b"request", names, 0, 3, 2**62 // 8, 2**62)
    mapping = {name: np.array(values) for name, values in zip(names, words, strict=True)}
    total = run_secure_sum(PlainSum(), task, mapping, len(names), os.urandom)
    assert total.tolist() == np.sum(words, axis=0).tolist()


def test_a_missing_party_is_tolerated_within_max_dropouts_only():
    words = {"a": np.array([1, 2]), "c": np.array([3, 4])}
    assert run_secure_sum(PlainSum(), TASK, words, 2, os.urandom).tolist() == [4, 6]
    with pytest.raises(TooFewParties, match=r"found 1 .* at least 2 of 3; missing: 'b', 'c'"):
        run_secure_sum(PlainSum(), TASK, {"a": np.array([1, 2])}, 2, os.urandom)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sender": "z"}, "party 'z': the party was not asked"),
        ({"binding": replace(BINDING, federation=b"x")}, "another federation"),
        ({"binding": replace(BINDING, terms=b"x")}, "other terms"),
        ({"binding": replace(BINDING, release=2)}, "belongs to release 2"),
        ({"answers": b"x"}, "another request"),
    ],
)
def test_a_misbound_answer_is_refused(change, message):
    server = PlainSum().server(None)
    with pytest.raises(ProtocolError, match=message):
        server.gather(TASK, [protected("a"), replace(protected("b"), **change)])


def test_a_second_answer_of_one_party_is_refused():
    with pytest.raises(ProtocolError, match="'a' answered twice"):
        PlainSum().server(None).gather(TASK, [protected("a"), protected("a"), protected("b")])


def test_an_answer_of_the_wrong_length_is_refused():
    request = OpenRequest(BINDING, (protected("a"), protected("b")))
    with pytest.raises(ProtocolError, match="'a' sent 5 bytes; 16 were expected"):
        PlainSum().server(None).finish(TASK, request, ())


@pytest.mark.parametrize(
    ("included", "error", "message"),
    [
        (("b", "c"), ProtocolError, "does not find its own"),
        (("a",), TooFewParties, "found 1"),
        (("a", "a"), ProtocolError, "answered twice"),
        (("a", "z"), ProtocolError, "was not asked"),
    ],
)
def test_a_party_checks_before_it_opens(included, error, message):
    request = OpenRequest(BINDING, tuple(protected(name) for name in included))
    with pytest.raises(error, match=message):
        check_own(TASK, protected("a"), request)


def test_a_party_opens_nothing_if_its_own_words_were_changed_or_rebound():
    others = (protected("b"), protected("c"))
    with pytest.raises(ProtocolError, match="its own contribution unchanged"):
        check_own(TASK, protected("a"), OpenRequest(BINDING, (protected("a", b"x"), *others)))
    foreign = OpenRequest(replace(BINDING, release=2), (protected("a"), *others))
    with pytest.raises(ProtocolError, match="bound to another release"):
        check_own(TASK, protected("a"), foreign)
    check_own(TASK, protected("a"), OpenRequest(BINDING, (protected("a"), *others)))


def test_the_log_repeats_the_same_bytes_and_refuses_everything_else():
    log = ReleaseLog()
    assert log.replay("protect", BINDING, b"request") is None
    log.store("protect", BINDING, b"request", b"sent")
    assert log.replay("protect", BINDING, b"request") == b"sent"
    assert log.replay("open", BINDING, b"request") is None
    with pytest.raises(ProtocolError, match="different request is refused"):
        log.replay("protect", BINDING, b"other")
    with pytest.raises(ProtocolError, match="stored already"):
        log.store("protect", BINDING, b"request", b"again")
    log.store("protect", replace(BINDING, release=4), b"next", b"sent")
    with pytest.raises(ProtocolError, match="step 'protect' of release 4"):
        log.replay("protect", BINDING, b"request")


def test_a_sum_that_might_not_fit_is_refused_with_the_bits():
    task = replace(TASK, limit=2**70)
    for side in (PlainSum().server(None), PlainSum().party("a", None, None)):
        with pytest.raises(RangeOverflow, match="72 bits and there are 64"):
            side.check(task)


def test_the_parties_of_a_task_are_distinct_and_sorted():
    for parties in (("b", "a"), ("a", "a")):
        with pytest.raises(ValueError, match="distinct and sorted"):
            replace(TASK, parties=parties)


def test_messages_round_trip():
    for message in (TASK, protected("a"), OpenRequest(BINDING, (protected("a"),))):
        assert from_bytes(to_bytes(message), type(message)) == message

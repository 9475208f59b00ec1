"""What a party of the masked sum opens, what lying servers get, which messages are refused."""

import dataclasses
import itertools
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sklearn_fedpriv._wire import digest, from_bytes, to_bytes
from sklearn_fedpriv.exceptions import ProtocolError, TooFewParties
from sklearn_fedpriv.secure import _shares
from sklearn_fedpriv.secure._mask_keys import MaskKeys, graph_of
from sklearn_fedpriv.secure._mask_wire import plan_masks
from sklearn_fedpriv.secure._protocol import Opening, OpenRequest, ReleaseLog
from tests.secure.masks import (
    Fit,
    flip,
    make_task,
    names,
    opened_shares,
    own_masks,
    recover,
    residual,
)
from tests.secure.test_shares import tape

# What a party opens


@given(n=st.integers(3, 12), data=st.data())
def test_a_request_opens_own_seeds_of_survivors_and_masks_of_dropouts_only(n, data):
    d = data.draw(st.integers(1, n - 2))
    dropped = sorted(data.draw(st.sets(st.sampled_from(sorted(names(n))), max_size=d)))
    keys = MaskKeys(tuple(sorted(names(n))), tuple(bytes([i]) * 32 for i in range(n)), n)
    plan = plan_masks(keys, make_task(n, d, parties=keys.parties))
    for survivor in set(names(n)) - set(dropped):
        by_row = {0: survivor} | {p: peer for peer, p in plan.graph.points[survivor].items()}
        rows = plan.rows_to_open(survivor, dropped)
        assert rows[0] == 0 and len(set(rows)) == len(rows)
        assert {by_row[row] for row in rows[1:]} == set(dropped) & set(plan.graph.points[survivor])


def alterations(fit, asked):
    """Requests to party0 that it must not answer, and what it says."""
    replace, task = dataclasses.replace, fit.task
    survivors, everyone = asked.survivors, task.parties
    both = "not the 5 invited parties, each once and sorted"
    yield replace(asked, dropped=("party3", "party4")), both  # both seeds of party3
    yield replace(asked, survivors=everyone), both
    lost = replace(asked, survivors=survivors[1:], dropped=("party0", "party4"))
    yield replace(lost, digests=asked.digests[32:]), "called dropped"
    yield replace(asked, survivors=survivors[::-1]), both
    yield replace(asked, survivors=(*survivors, "party3")), both
    yield replace(asked, survivors=(*survivors, "zoe")), both
    yield replace(asked, dropped=()), both
    few = replace(asked, survivors=survivors[:2], dropped=everyone[2:])
    few = replace(few, digests=asked.digests[:64], bundles=asked.bundles[:1])
    yield few, "a sum of 2 parties; at least 3 of 5"
    for release in (0, 2):
        yield replace(asked, binding=replace(task.binding, release=release)), "another release"
    yield replace(asked, binding=replace(task.binding, terms=b"x")), "another release"
    yield replace(asked, answers=b"x"), "another release"
    for digests in (
        b"",
        asked.digests[:-1],
        asked.digests[32:],
        asked.digests + bytes(32),
        bytes(32) + asked.digests[32:],
        asked.digests[32:] + asked.digests[:32],
    ):
        yield replace(asked, digests=digests), "own contribution unchanged"
    yield replace(asked, bundles=asked.bundles[1:]), "was sent 2 bundles"
    yield replace(asked, bundles=asked.bundles[::-1]), "cannot read the shares of party 'party1'"
    for bit in (0, 8 * 50, 8 * len(asked.bundles[0]) - 1):
        bundles = (flip(asked.bundles[0], bit), *asked.bundles[1:])
        yield replace(asked, bundles=bundles), "cannot read the shares of party 'party1'"
    yield replace(asked, bundles=(asked.bundles[0][:-1], *asked.bundles[1:])), "cannot read"
    yield replace(asked, bundles=(b"", *asked.bundles[1:])), "cannot read"
    yield OpenRequest(task.binding, tuple(fit.sent.values())), "nothing to open in this way"


def test_a_party_refuses_every_altered_request():
    fit = Fit().send(names(4))
    asked = fit.ask(fit.gather(), "party0")
    for altered, message in alterations(fit, asked):
        with pytest.raises((ProtocolError, TooFewParties), match=re.escape(message)):
            fit.open("party0", altered)
    fit.open("party0", asked)


def test_a_party_refuses_bundles_of_another_release_or_receiver():
    fit = Fit().send()
    old, other = fit.ask(fit.gather(), "party0"), fit.ask(fit.gather(), "party1")
    asked = dataclasses.replace(old, bundles=(old.bundles[0], other.bundles[1], *old.bundles[2:]))
    with pytest.raises(ProtocolError, match="cannot read the shares of party 'party2'"):
        fit.open("party0", asked)
    fit.next_release()
    fit.send()
    new = fit.ask(fit.gather(), "party0")
    with pytest.raises(ProtocolError, match="cannot read the shares"):
        fit.open("party0", dataclasses.replace(new, bundles=old.bundles))


def test_a_party_opens_for_its_own_words_only():
    fit = Fit().send()
    asked = fit.ask(fit.gather(), "party0")
    with pytest.raises(ProtocolError, match="'party1': the party was not asked"):
        fit.sides["party0"].open(fit.task, fit.sent["party1"], asked)
    again = fit.sides["party0"].protect(fit.task, fit.words["party0"], os.urandom)
    with pytest.raises(ProtocolError, match="own contribution unchanged"):
        fit.sides["party0"].open(fit.task, again, asked)


def test_a_party_answers_each_step_of_a_release_once():
    """A second answer with fresh noise, or a second list of survivors, meets the party's log."""
    fit, log = Fit().send(), ReleaseLog()
    binding, first = fit.task.binding, fit.ask(fit.gather(), "party0")
    log.store("protect", binding, b"request", to_bytes(fit.sent["party0"]))
    assert from_bytes(log.replay("protect", binding, b"request")) == fit.sent["party0"]
    with pytest.raises(ProtocolError, match="different request is refused"):
        log.replay("protect", binding, b"another request")
    log.store("open", binding, digest(first), to_bytes(fit.open("party0", first)))
    second = fit.ask(fit.gather(names(4)), "party0")
    with pytest.raises(ProtocolError, match="different request is refused"):
        log.replay("open", binding, digest(second))


# What the seeds that are opened give


def test_the_same_release_under_other_nonces_has_other_masks():
    """A server that has a fit done again under the same terms cannot subtract the two."""
    first = Fit(4, 0).send()
    second = Fit(4, 0, setup=(first.public, first.secrets)).send()
    for name in first.task.parties:
        one, other = (fit.plan.words(fit.sent[name]) for fit in (first, second))
        assert not np.any(one == other)  # though the words are the same
        assert not set(own_masks(first, name).values()) & set(own_masks(second, name).values())


def test_a_live_party_called_dropped_stays_hidden_by_its_own_mask():
    """Its words came, the server calls it dropped all the same and gets all its pair masks."""
    fit = Fit(5, 2).send()
    late = fit.sent.pop("party2")
    openings = fit.openings(fit.gather())
    found = recover(fit, openings)
    fit.sent["party2"] = late
    masks = own_masks(fit, "party2")
    assert all(found[peer, "party2"] == seed for peer, (seed, _) in masks.items())
    left = residual(fit, "party2", masks.values()) - fit.words["party2"]
    assert np.abs(left).min() > 2**40  # of 20 uniform words of 64 bits, far above all true ones
    assert "party2" not in found
    with pytest.raises(ProtocolError, match="called dropped; it refuses"):
        asked = fit.ask(fit.gather(), "party2")
        lied = dataclasses.replace(
            asked,
            survivors=tuple(n for n in asked.survivors if n != "party2"),
            dropped=("party2",),
        )
        fit.open("party2", lied)


def test_own_masks_are_fresh_in_every_party_and_release():
    fit, left = Fit(5, 2), []
    for _ in range(2):
        fit.send()
        for name in fit.task.parties:
            masks = own_masks(fit, name).values()
            left.append(residual(fit, name, masks) - fit.words[name])
        fit.next_release()
    for one, other in itertools.combinations(left, 2):
        assert not np.any(one == other)


def test_one_helper_too_few_and_nothing_is_known():
    """Neither the seeds nor what tells two seeds of one party apart, for all limbs of all seeds."""
    fit = Fit(6, 2, entropy=tape(5)).send(names(6)[1:])
    assert fit.plan.graph.threshold == 3
    openings = fit.openings(fit.gather())
    found = recover(fit, openings)
    for name, shares in opened_shares(fit, openings).items():
        limbs = _shares._to_limbs([found[name], found[name, "party0"]]).astype(np.int64)
        for few in itertools.combinations(sorted(shares), 2):
            weights = _shares._lagrange(few)
            guess = sum(w * shares[p].astype(object) for w, p in zip(weights, few, strict=True))
            wrong = (guess - limbs) % _shares.PRIME
            assert wrong.all() and (wrong[0] != wrong[1]).all()


@pytest.mark.parametrize(("n", "c", "d"), [(5, 1, 1), (8, 0, 1), (9, 2, 2), (12, 1, 2)])
def test_two_groups_shown_different_lists_are_never_both_enough(n, c, d):
    """Of one party's shares: colluders answer both groups, every honest neighbour one of them."""
    graph = graph_of(tuple(sorted(names(n))), c, d)
    for peers in graph.points.values():
        honest = len(peers) - min(c, len(peers))
        for first in range(honest + 1):
            assert min(first + c, honest - first + c) < graph.threshold


def test_openings_for_different_lists_do_not_add_up():
    fit = Fit(5, 1, min_honest=5).send()
    all_five, without = fit.gather(), fit.gather([f"party{i}" for i in (0, 1, 2, 3)])
    one, other = fit.openings(all_five), fit.openings(without)
    mixed = [one["party0"], one["party1"], other["party2"], other["party3"], one["party4"]]
    with pytest.raises(ProtocolError, match="'party2' answers another request"):
        fit.finish(all_five, mixed)
    # Also when the digest of the request is forged: the list is named in the opening itself.
    answers = digest(fit.ask(all_five, "party2"))
    payload = other["party2"].payload
    forged = dataclasses.replace(other["party2"], answers=answers)
    assert len(payload) != len(one["party2"].payload)
    with pytest.raises(ProtocolError, match="were expected"):
        fit.finish(all_five, [one["party0"], forged])
    padded = payload[:32] + one["party2"].payload[32:]
    forged = dataclasses.replace(forged, payload=padded)
    with pytest.raises(ProtocolError, match="'party2' was made for another list of survivors"):
        fit.finish(all_five, [one["party0"], forged])


def test_openings_for_other_words_of_the_same_parties_do_not_add_up():
    fit = Fit(5, 2).send()
    before = fit.openings(fit.gather())
    fit.send(["party1"])  # under another mask of its own
    request = fit.gather()
    answers = digest(fit.ask(request, "party0"))
    forged = dataclasses.replace(before["party0"], answers=answers)
    with pytest.raises(ProtocolError, match="'party0' was made for another list of survivors"):
        fit.finish(request, [forged])


def test_what_a_recovery_opens_removes_no_mask_of_another_release():
    fit = Fit(5, 2).send()
    before = {name: own_masks(fit, name) for name in fit.task.parties}
    fit.next_release()
    fit.send(["party0", "party1", "party2", "party4"])
    found = recover(fit, fit.openings(fit.gather()))
    opened = set(found.values())
    assert before["party3"].keys() == {"party0", "party1", "party2", "party4"}
    assert {found[peer, "party3"] for peer in before["party3"]} == {
        seed for seed, _ in own_masks(fit, "party3").values()
    }
    fit.next_release()
    fit.send()
    for masks in (before, {name: own_masks(fit, name) for name in fit.task.parties}):
        assert not opened & {seed for mask in masks.values() for seed, _ in mask.values()}
    # The server tries every seed it has on the words of the party that is back.
    for signs in ((1, -1), (-1, 1)):
        tried = [(found[peer, "party3"], signs[peer < "party3"]) for peer in before["party3"]]
        left = residual(fit, "party3", tried) - fit.words["party3"]
        assert np.abs(left).min() > 2**40


# Wrong messages


def broken_protected(message):
    replace, binding = dataclasses.replace, message.binding
    yield replace(message, binding=replace(binding, release=7)), "belongs to release 7"
    yield replace(message, binding=replace(binding, federation=b"x")), "another federation"
    yield replace(message, binding=replace(binding, terms=b"x")), "other terms"
    yield replace(message, answers=b"x"), "another request"
    yield replace(message, sender="stranger"), "was not asked"
    yield replace(message, sender="party0"), "'party0' answered twice"
    yield replace(message, payload=message.payload[:-1]), "were expected"
    yield replace(message, payload=message.payload + b"x"), "were expected"
    yield replace(message, payload=b""), "sent 0 bytes"


def test_the_server_refuses_broken_contributions():
    fit = Fit().send()
    others = [fit.sent[name] for name in ("party0", "party2", "party3", "party4")]
    for broken, message in broken_protected(fit.sent["party1"]):
        with pytest.raises(ProtocolError, match=message):
            fit.server.gather(fit.task, [*others, broken])


def broken_openings(opening):
    yield from (
        (broken, message)
        for broken, message in broken_protected(opening)
        if "twice" not in message and "sent 0" not in message
    )
    yield dataclasses.replace(opening, sender="party0"), "answers another request|opened twice"
    yield dataclasses.replace(opening, payload=flip(opening.payload, 0)), "another list"


def test_the_server_refuses_broken_openings():
    fit = Fit().send(names(4))
    request = fit.gather()
    openings = fit.openings(request)
    good = [openings[name] for name in ("party0", "party2", "party3")]
    for broken, message in broken_openings(openings["party1"]):
        with pytest.raises(ProtocolError, match=message):
            fit.finish(request, [*good, broken])
    with pytest.raises(ProtocolError, match="'party0' opened twice"):
        fit.finish(request, [*good, good[0]])
    late = Opening(fit.task.binding, openings["party0"].answers, "party4", b"")
    with pytest.raises(ProtocolError, match="'party4' was not asked to open"):
        fit.finish(request, [*good, late])
    with pytest.raises(ProtocolError, match="'party4' has nothing to open"):
        fit.ask(request, "party4")


def test_a_wrong_share_that_gives_no_seed_is_refused():
    fit = Fit().send()
    request = fit.gather()
    openings = fit.openings(request)
    refused = 0
    for at in range(9):
        payload = bytearray(openings["party0"].payload)
        payload[32 + 4 * at : 36 + 4 * at] = bytes(4)
        spoilt = dataclasses.replace(openings["party0"], payload=bytes(payload))
        try:
            fit.finish(request, [spoilt, *list(openings.values())[1:]])
        except ProtocolError as error:
            assert "masks of party 'party1'" in str(error)
            refused += 1
    assert refused  # three in four, but for the limb of 24 bits, where nearly all

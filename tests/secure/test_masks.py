"""The masked sum equals the plain sum, also when parties drop out."""

import dataclasses
import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sklearn_fedpriv._wire import digest
from sklearn_fedpriv.exceptions import ProtocolError, RangeOverflow, TooFewParties
from sklearn_fedpriv.secure._mask_wire import UnmaskRequest
from sklearn_fedpriv.secure._masks import MaskedSum
from sklearn_fedpriv.secure._plain import PlainSum
from sklearn_fedpriv.secure._protocol import Opening, OpenRequest, run_secure_sum
from tests.secure.masks import Fit, make_task, names, random_words, resent


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_any_sum_equals_the_plain_sum(data):
    n_parties = data.draw(st.integers(2, 8), "n_parties")
    max_dropouts = data.draw(st.integers(0, n_parties - 2), "max_dropouts")
    lowest = max_dropouts + 2 if max_dropouts else 1
    min_honest = data.draw(st.integers(lowest, n_parties), "min_honest")
    limits = st.sampled_from([8, 2**20, 2**31 - 1, 2**31, 2**40, 2**63 - 1])
    fit = Fit(
        n_parties,
        max_dropouts,
        min_honest,
        length=data.draw(st.integers(1, 200), "length"),
        limit=data.draw(limits, "limit"),
    )
    fit.words = random_words(fit.task, data.draw(st.integers(0, 2**32), "seed"))
    parties = st.sampled_from(fit.task.parties)
    missing = data.draw(st.sets(parties, max_size=max_dropouts), "drop out before sending")
    rest = max_dropouts - len(missing)
    silent = data.draw(st.sets(parties, max_size=rest), "fall silent between the phases")
    answering = [
        name for name in data.draw(st.permutations(fit.task.parties)) if name not in missing
    ]

    fit.send(answering)
    request = fit.server.gather(fit.task, map(resent, fit.sent.values()))
    openings = [
        resent(fit.open(name, resent(fit.ask(request, name))))
        for name in fit.server.openers(fit.task, request)
        if name not in silent
    ]
    found = fit.finish(request, openings)
    words = {name: fit.words[name] for name in answering}
    expected = run_secure_sum(PlainSum(), fit.task, words, min_honest, os.urandom)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("limit", [6, 2**31 - 1, 2**31, 2**63 - 1])
def test_every_word_at_its_limit(limit, sign):
    task = make_task(6, 1, 40, limit)
    words = dict.fromkeys(task.parties, np.full(40, sign * task.party_limit))
    found = run_secure_sum(MaskedSum(), task, words, 6, os.urandom)
    np.testing.assert_array_equal(found, np.full(40, sign * 6 * task.party_limit))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("limit", [2**31 - 1, 2**31, 2**63 - 1])
def test_a_sum_at_its_limit(limit, sign):
    task = make_task(6, 1, 40, limit)
    words = dict.fromkeys(task.parties, np.full(40, sign * task.party_limit))
    words["party0"] = words["party0"] + sign * (limit - 6 * task.party_limit)
    found = run_secure_sum(MaskedSum(), task, words, 6, os.urandom)
    np.testing.assert_array_equal(found, np.full(40, sign * limit))


@pytest.mark.parametrize(("limit", "word_bits"), [(2**31 - 1, 32), (2**31, 64), (2**63 - 1, 64)])
def test_words_are_as_wide_as_the_sum_and_its_sign(limit, word_bits):
    fit = Fit(3, 0, limit=limit).send()
    assert fit.plan.word_bits == word_bits
    assert {len(message.payload) for message in fit.sent.values()} == {20 * word_bits // 8}


def test_a_sum_that_might_not_fit_is_refused_by_both_roles():
    fit = Fit(3, 0)
    task = dataclasses.replace(fit.task, limit=2**63)
    for role in (fit.server, fit.sides["party0"]):
        with pytest.raises(RangeOverflow):
            role.check(task)
        role.check(dataclasses.replace(task, limit=2**63 - 1))


def test_many_words_span_chunks():
    for limit in (2**30, 2**40):
        fit = Fit(3, 1, length=70_001, limit=limit).send(["party0", "party2"])
        request = fit.gather()
        found = fit.finish(request, fit.openings(request).values())
        np.testing.assert_array_equal(found, fit.total(fit.sent))


def test_an_invited_part_of_the_federation_can_sum():
    parties = ("party0", "party2", "party3", "party5")
    fit = Fit(7, 1, parties=parties, min_honest=7).send(parties[1:])
    request = fit.gather()
    found = fit.finish(request, fit.openings(request).values())
    np.testing.assert_array_equal(found, fit.total(parties[1:]))
    with pytest.raises(ProtocolError, match="'party1' was not invited"):
        fit.sides["party1"].protect(fit.task, fit.words["party0"], os.urandom)
    stranger = dataclasses.replace(fit.task, parties=("party0", "stranger"))
    with pytest.raises(ProtocolError, match="'stranger' has no public key"):
        fit.server.check(stranger)


def test_without_dropouts_everyone_must_answer_and_nobody_opens():
    fit = Fit(4, 0).send()
    request = fit.gather()
    assert fit.server.openers(fit.task, request) == ()
    np.testing.assert_array_equal(fit.finish(request, ()), fit.total(fit.task.parties))
    with pytest.raises(TooFewParties, match=r"found 3 .* needs at least 4 of 4; missing: 'party2'"):
        fit.gather(["party0", "party1", "party3"])
    with pytest.raises(ProtocolError, match="'party1' has nothing to open"):
        fit.ask(request, "party1")
    made_up = UnmaskRequest(fit.task.binding, b"request", fit.task.parties, (), b"", ())
    with pytest.raises(ProtocolError, match="nothing to open in this way"):
        fit.open("party1", made_up)
    opening = Opening(fit.task.binding, digest(made_up), "party1", b"")
    with pytest.raises(ProtocolError, match="was not asked to open"):
        fit.finish(request, [opening])


def test_a_request_that_was_not_gathered_is_checked_too():
    fit = Fit(4, 0).send()
    whole = OpenRequest(fit.task.binding, tuple(fit.sent.values()))
    np.testing.assert_array_equal(fit.finish(whole, ()), fit.total(fit.sent))
    with pytest.raises(TooFewParties):
        fit.finish(OpenRequest(fit.task.binding, whole.included[1:]), ())


PAIRS = list(itertools.combinations(names(5), 2))


@pytest.mark.parametrize("missing", [(), ("party0",), ("party3",), *PAIRS])
def test_up_to_two_of_five_may_drop_out_at_any_stage(missing):
    fit = Fit()
    for early in range(len(missing) + 1):
        fit.next_release()
        fit.send([name for name in fit.task.parties if name not in missing[:early]])
        request = fit.gather()
        openings = fit.openings(request, silent=missing[early:])
        np.testing.assert_array_equal(
            fit.finish(request, openings.values()), fit.total(fit.sent), str(missing[:early])
        )


@pytest.mark.parametrize("early", [0, 1, 2, 3])
def test_three_of_five_are_too_many_at_any_stage_and_nothing_is_opened(early):
    fit, missing = Fit(), names(3)
    fit.send([name for name in fit.task.parties if name not in missing[:early]])
    if early == 3:
        with pytest.raises(TooFewParties, match="Nothing was opened"):
            fit.gather()
        return
    request = fit.gather()
    openings = fit.openings(request, silent=missing[early:])
    with pytest.raises(TooFewParties, match=r"2 parties helped .* at least 3 of 5 .*'party2'"):
        fit.finish(request, openings.values())


@pytest.mark.parametrize("words", [np.zeros(19, dtype=np.int64), np.zeros(20, dtype=np.int32)])
def test_words_of_another_shape_or_type_are_refused(words):
    with pytest.raises(ValueError, match=r"int64 of shape \(20,\)"):
        Fit(3, 0).sides["party0"].protect(make_task(3), words, os.urandom)


def test_a_sum_of_no_words_is_refused():
    with pytest.raises(ValueError, match="at least 1 word"):
        Fit(3, 0).server.check(make_task(3, length=0))


def test_the_report_names_who_must_help():
    masks = MaskedSum()
    assert masks.describe(5, 0) == "masked sums: pairwise masks, nobody must help to open"
    assert masks.describe(5, 2).endswith("3 of 5 parties must help to open")
    assert masks.trusted_roles() == () and masks.hides_parties and masks.label == "masks"

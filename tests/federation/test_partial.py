"""Releases that ask some of the parties: who answers, adds noise, is charged (G2, G9, G17)."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from sklearn_fedpriv import Federation, PaillierSum
from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import BudgetExceeded, ProtocolError
from sklearn_fedpriv.federation import _run
from sklearn_fedpriv.federation._messages import Ask, noise_of, sum_task
from sklearn_fedpriv.federation._query import PartyQuery
from sklearn_fedpriv.privacy._calibration import gaussian_budget
from sklearn_fedpriv.privacy._events import GaussianEvent, PureEvent, UnprotectedEvent
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease, budget
from sklearn_fedpriv.secure._protocol import Binding
from tests.federation.toys import rows

NAMES = ("0", "1", "2", "3", "4")
METRIC = Budget(Fraction(6), Fraction(0), "metric")
GAUSSIAN = budget(1.0, 1e-5)
PARTY = {"unit": "party", "adjacency": "replace"}


@record
@dataclass(frozen=True)
class ToyVote(PartyQuery):
    """Three numbers of each chosen party; fails where the party was not chosen."""

    integral = True
    bound = 100
    length = 3

    chosen: tuple[str, ...]

    @property
    def participants(self):
        return self.chosen

    def local(self, X, y, tools):
        assert tools.party in self.chosen
        return np.array([5, -5, 1])


@record
@dataclass(frozen=True)
class ToyTelling(ToyVote):
    """The same, and says so of something."""

    discloses = "the weather"


def plan(query=ToyVote, count=4, participations=2):
    return [
        PlannedRelease(
            query.__name__,
            count,
            Fraction(1),
            3 * count,
            100,
            participations=participations,
            discloses=query.discloses,
        )
    ]


def start(spends=METRIC, secure_sum="plain", line=None, seed=None, **trust):
    federation = Federation(rows(5), secure_sum=secure_sum, **trust)
    return federation.start(spends, plan() if line is None else line, seed=seed, **PARTY)


def answers_of(run, query, share=Fraction(1, 2)):
    """Sum task of a release, and each plain answer by its sender."""
    seen = {}
    gather = run._server.gather
    run._server.gather = lambda task, sent: seen.update(task=task, sent=sent) or gather(task, sent)
    run.release(query, share)
    run._server.gather = gather
    return seen["task"], {m.sender: np.frombuffer(m.payload, "<i8") for m in seen["sent"]}


def test_only_participants_of_metric_noise_are_in_the_sum():
    task, sent = answers_of(start(), ToyVote(("1", "3")))
    assert task.parties == ("1", "3") and set(sent) == {"1", "3"}


def test_shared_noise_is_added_by_all_and_data_comes_from_the_chosen():
    run = start(GAUSSIAN, seed=bytes(32))
    task, sent = answers_of(run, ToyVote(("1", "3")))
    assert task.parties == NAMES and set(sent) == set(NAMES)
    assert all(np.abs(words).max() > 20 for words in sent.values())  # sd of a share: about 90


def test_a_sum_that_all_must_open_has_all_in_it_and_no_noise_of_the_others(small_primes):
    keys = PaillierSum(key_size=512, insecure_key=True)
    assert sum_task(*_asked(start(secure_sum=keys)))[0].parties == NAMES
    dropping = start(max_dropouts=1)
    task, sent = answers_of(dropping, ToyVote(("1", "3")))
    assert task.parties == NAMES
    assert [name for name, words in sent.items() if words.any()] == ["1", "3"]


def _asked(run, query=None, release=0):
    query = ToyVote(("1", "3")) if query is None else query
    binding = Binding(run.terms.federation, run.terms.digest, release)
    return run.terms, Ask(binding, query, Fraction(1, 2))


@pytest.mark.parametrize("secure_sum", ["plain", "masks"])
def test_protocols_agree_on_a_sum_of_some(secure_sum, small_primes):
    query = ToyVote(("0", "2", "4"))
    run = start(secure_sum=secure_sum, seed=bytes(32))
    keys = PaillierSum(key_size=512, insecure_key=True)
    other = start(secure_sum=keys, seed=bytes(32))
    total = run.release(query, Fraction(1, 2))
    assert (total == other.release(query, Fraction(1, 2))).all()
    assert (total != [15, -15, 3]).any()


def test_the_noise_of_a_participation_follows_from_the_terms():
    """Two answers are at most 2 * 10 apart; half of epsilon 6 goes on each participation."""
    terms = start().terms
    noise = noise_of(terms, ToyVote(NAMES), Fraction(1, 2))
    assert noise.rate == Fraction(3, 20) and noise.event == PureEvent(Fraction(3))
    assert noise.sd(7) == pytest.approx((7 * 4) ** 0.5 / 0.15)
    wide = replace(METRIC, epsilon=Fraction(1, 50))
    _, sent = answers_of(start(wide, seed=bytes(32)), ToyVote(("1", "3")))
    assert all(np.abs(words).max() > 100 for words in sent.values())  # in full at each


def test_gaussian_noise_is_made_for_the_cap_and_not_for_the_rounds():
    terms = start(GAUSSIAN).terms
    event = noise_of(terms, ToyVote(NAMES), Fraction(1, 2)).event
    total = gaussian_budget(Fraction(1), Fraction(1, 10**5), 12)
    assert isinstance(event, GaussianEvent)
    assert total * Fraction(99, 200) < event.mu_squared <= total / 2


@pytest.mark.parametrize("spends", [METRIC, GAUSSIAN])
def test_a_party_refuses_to_take_part_more_often_than_planned(spends):
    run = start(spends)
    run.release(ToyVote(("1", "3")), Fraction(1, 2))
    run.release(ToyVote(("1", "2")), Fraction(1, 2))
    with pytest.raises(BudgetExceeded, match="party '1' take part in no further ToyVote"):
        run.release(ToyVote(("1", "2")), Fraction(1, 2))
    run = start(spends)
    run.release(ToyVote(("1", "3")), Fraction(2, 3))
    with pytest.raises(BudgetExceeded, match="party '1'.* this one would take (50.0|49.9)"):
        run.release(ToyVote(("1", "4")), Fraction(1, 2))


def test_who_takes_no_part_is_charged_nothing_and_its_rows_are_not_touched():
    run = start(GAUSSIAN)  # ToyVote fails at parties that were not chosen
    run.release(ToyVote(("1",)), Fraction(1, 2))
    spent = {name: party._ledger.spent for name, party in run._parties.items()}
    assert spent["1"] > 0 and [name for name in NAMES if spent[name] == 0] == ["0", "2", "3", "4"]


def test_the_server_counts_releases():
    run = start(line=plan(count=1, participations=1))
    run.release(ToyVote(("1", "3")), Fraction(1))
    with pytest.raises(BudgetExceeded, match="lets the server release no further"):
        run.release(ToyVote(("0", "2")), Fraction(1))


def test_a_party_that_is_not_invited_answers_nothing():
    run = start()
    with pytest.raises(ProtocolError, match="'0' is not invited"):
        run._parties["0"].charge(_asked(run)[1])


def test_release_numbers_rise_and_may_leave_out_those_of_others():
    run = start()
    party = run._parties["1"]
    party.charge(_asked(run, release=2)[1])
    for release in (1, 2):
        with pytest.raises(ProtocolError, match="expects release 3"):
            party.charge(_asked(run, release=release)[1])
    whole = start(line=plan(participations=0))
    with pytest.raises(ProtocolError, match="expects release 0"):
        whole._parties["1"].charge(_asked(whole, ToyVote(NAMES), release=1)[1])


def test_participants_without_a_count_of_participations_are_refused():
    with pytest.raises(BudgetExceeded, match="counts no participations"):
        start(line=plan(participations=0)).release(ToyVote(("1", "3")), Fraction(1, 2))


@pytest.mark.parametrize("chosen", [("1", "x"), ("3", "1"), ("1", "1")])
def test_participants_are_distinct_sorted_parties(chosen):
    with pytest.raises(ProtocolError, match="must be distinct parties"):
        start().release(ToyVote(chosen), Fraction(1, 2))


def test_what_is_told_in_clear_stands_in_the_terms_and_makes_the_report_conditional():
    with pytest.raises(BudgetExceeded, match="tells the weather without noise"):
        quiet = replace(plan(ToyTelling)[0], discloses="")
        start(line=[quiet]).release(ToyTelling(("1", "3")), Fraction(1, 2))
    run = start(line=plan(ToyTelling))
    run.release(ToyTelling(("1", "3")), Fraction(1, 2))
    report = run.report()
    assert report.proved == "conditional" and report.facts_from_rows == ("the weather",)
    assert not report.private


def test_metric_noise_promises_the_server_as_much_as_everybody():
    for secure_sum in ("plain", "masks"):
        report = start(secure_sum=secure_sum).report()
        assert report.epsilon == report.server_epsilon == 6.0 and report.delta == 0
        assert "in full at every party; a party takes part at most 2 times, 3 each" in str(report)


def test_a_party_with_a_ceiling_refuses_metric_epsilon_too():
    from sklearn_fedpriv import Party

    parties = [Party(*pair, name=str(i), max_epsilon=5.0) for i, pair in enumerate(rows(5))]
    with pytest.raises(BudgetExceeded, match="allows epsilon=5"):
        Federation(parties).start(METRIC, plan(), **PARTY)


def test_every_answer_is_drawn_after_all_are_charged(monkeypatch):
    run, order = start(), []
    charge, answer = _run.PartyRun.charge, _run.answer
    monkeypatch.setattr(
        _run.PartyRun, "charge", lambda self, ask: order.append("charge") or charge(self, ask)
    )
    monkeypatch.setattr(_run, "answer", lambda *job: order.append("answer") or answer(*job))
    run.release(ToyVote(("1", "3")), Fraction(1, 2))
    assert order == ["charge", "charge", "answer", "answer"]


@pytest.mark.parametrize("participations", [-1, 5])
def test_a_count_of_participations_makes_sense(participations):
    with pytest.raises(ValueError, match="participations must be in"):
        plan(participations=participations)


def test_noise_without_proof_is_no_pure_event():
    terms = start().terms
    assert noise_of(terms, ToyVote(NAMES), Fraction(1)).event == PureEvent(Fraction(6))
    published = replace(terms, calibration="published")
    assert noise_of(published, ToyVote(NAMES), Fraction(1)).event == UnprotectedEvent()
    assert published.server_epsilon() == float("inf")
    free = replace(terms, budget=replace(METRIC, epsilon=float("inf")))
    assert noise_of(free, ToyVote(NAMES), Fraction(1)).event == UnprotectedEvent()
    assert not noise_of(free, ToyVote(NAMES), Fraction(1)).draw(3, None).any()

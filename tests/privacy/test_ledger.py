"""Ledgers check before they spend, in exact arithmetic, and refuse what they do not know."""

import json
from fractions import Fraction
from math import inf

import pytest

from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.privacy._calibration import exact, gaussian_budget
from sklearn_fedpriv.privacy._events import GaussianEvent, PureEvent, UnprotectedEvent
from sklearn_fedpriv.privacy._ledger import (
    Budget,
    Ledger,
    LedgerEntry,
    PlannedRelease,
    RunLedger,
    budget,
)

ONE = budget(1.0, 1e-5)
PURE = budget(1.0, 1e-5, "laplace")


def ledger(of, count=10, length=10, share=Fraction(1), owner="the server"):
    return RunLedger(of, [PlannedRelease("Count", count, share, length)], owner)


@pytest.mark.parametrize("n_releases", [3, 7, 10, 33])
def test_equal_shares_fill_the_budget_exactly(n_releases):
    total = gaussian_budget(Fraction(1), Fraction(1, 10**5), n_releases)
    book = ledger(ONE, n_releases + 1, n_releases)
    for _ in range(n_releases):
        book.commit("Count", GaussianEvent(total / n_releases), 1, 1)
    assert book.spent == total and book.part_spent == 1
    with pytest.raises(BudgetExceeded, match="leaves the server 0.000000% of the fit's budget"):
        book.check("Count", GaussianEvent(Fraction(1, 10**30)), 0, 1)


def test_a_check_spends_nothing_and_a_refusal_neither():
    book = ledger(PURE)
    book.check("Count", PureEvent(Fraction(1, 2)), 1, 1)
    with pytest.raises(BudgetExceeded):
        book.commit("Count", PureEvent(Fraction(3, 2)), 1, 1)
    assert book.spent == 0
    book.commit("Count", PureEvent(Fraction(1)), 10, 1)
    assert book.spent == 1


@pytest.mark.parametrize(
    ("query", "length", "message"),
    [
        ("Count", 11, "lets party 'a' release 10 more numbers of Count; 11 were asked"),
        ("Sum", 1, "that party 'a' agreed to has no Sum"),
    ],
)
def test_what_is_not_planned_is_refused(query, length, message):
    with pytest.raises(BudgetExceeded, match=message):
        ledger(PURE, owner="party 'a'").commit(query, PureEvent(Fraction(1, 2)), length, 1)


def test_a_kind_of_query_is_held_to_its_own_share_and_count():
    book = ledger(PURE, count=1, share=Fraction(1, 10))
    with pytest.raises(BudgetExceeded, match="10.000000% .* would take 20.000000%"):
        book.commit("Count", PureEvent(Fraction(1, 5)), 1, 1)
    book.commit("Count", PureEvent(Fraction(1, 20)), 1, 1)
    with pytest.raises(BudgetExceeded, match="no further Count"):
        book.commit("Count", PureEvent(Fraction(1, 20)), 1, 1)


@pytest.mark.parametrize("event", [PureEvent(Fraction(1, 100)), UnprotectedEvent()])
def test_a_foreign_event_is_refused(event):
    with pytest.raises(BudgetExceeded):
        ledger(ONE).check("Count", event, 1, 1)


def test_no_noise_costs_everything_finite_and_nothing_of_infinity():
    with pytest.raises(BudgetExceeded, match="an unbounded part"):
        ledger(PURE).check("Count", UnprotectedEvent(), 1, 1)
    book = ledger(budget(inf, 1e-5), 2)
    for _ in range(2):
        book.commit("Count", UnprotectedEvent(), 1, 1)


def test_laplace_spends_no_delta():
    assert PURE.delta == 0 and ONE.delta == Fraction(1, 10**5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mechanism"),
    [
        (Fraction(0), Fraction(0), "laplace"),
        (Fraction(-1), Fraction(0), "laplace"),
        (float("nan"), Fraction(0), "laplace"),
        (1.0, Fraction(0), "laplace"),
        (Fraction(1), Fraction(1), "gaussian"),
        (Fraction(1), Fraction(0), "cauchy"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(epsilon, delta, mechanism):
    with pytest.raises(ValueError, match="must be"):
        Budget(epsilon, delta, mechanism)


def entry(epsilon, delta="0"):
    return LedgerEntry("fit", Fraction(epsilon), Fraction(delta))


def test_a_party_refuses_the_fit_beyond_its_ceiling():
    ledger = Ledger(max_epsilon=1.0)
    for _ in range(10):
        ledger.commit(entry("1/10"), "clinic")
    with pytest.raises(BudgetExceeded, match=r"'clinic' allows epsilon=1 in all, has spent 1"):
        ledger.commit(entry("1/10"), "clinic")
    assert len(ledger.entries) == 10


def test_a_party_watches_delta_and_unproven_fits_too():
    ledger = Ledger(max_delta=1e-5)
    ledger.commit(entry("1", "1/100000"), "clinic")
    with pytest.raises(BudgetExceeded, match="max_delta"):
        ledger.commit(entry("1", "1/100000"), "clinic")
    with pytest.raises(BudgetExceeded, match="max_epsilon"):
        Ledger(max_epsilon=9.0).commit(LedgerEntry("fit", inf, Fraction(0)), "clinic")
    pure = Ledger(max_delta=0)
    pure.commit(entry("1"), "clinic")


def test_ten_thousand_small_spends_survive_json_exactly():
    ledger = Ledger(max_epsilon=1000.0)
    for i in range(10_000):
        ledger.entries.append(LedgerEntry(str(i), exact(0.1), exact(1e-9), i % 2 == 0))
    back = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert back.epsilon == ledger.epsilon == 1000
    assert back.delta == ledger.delta == Fraction(1, 10**5)
    assert back.to_dict() == ledger.to_dict() and back.entries == ledger.entries

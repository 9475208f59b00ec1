"""Steps on secret samples, from the terms to the noise that each party adds."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from sklearn_fedpriv._wire import from_bytes, record, to_bytes
from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.federation._query import RowQuery, poisson_sample
from sklearn_fedpriv.federation._terms import LOST, noise_for
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import seed_key
from sklearn_fedpriv.privacy._sampling import sampled_epsilon, sampled_multiplier

RATE, ALL = Fraction(1, 4), Fraction(1)


@record
@dataclass(frozen=True)
class ToySample(RowQuery):
    """How many rows a sample has."""

    sampling_rate: Fraction
    integral = True
    bound: int = 1
    length: int = 1

    def contributions(self, X, y):
        return np.ones((len(X), 1), dtype=np.int64)

    def ticks(self, X, y, tools):
        return super().ticks(X[poisson_sample(len(X), self.sampling_rate, tools.stream)], y, tools)


def planned(count, rate=RATE):
    return PlannedRelease("ToySample", count, ALL, count, 1, rate)


def start(count=20, epsilon=2.0, n_parties=4, n_rows=100, plan=None, **trust):
    parties = [(np.zeros((n_rows, 1)), None) for _ in range(n_parties)]
    federation = Federation(parties, secure_sum="plain", **trust)
    plan = [planned(count)] if plan is None else plan
    return federation.start(budget(epsilon, 1e-5), plan, seed=seed_key(0))


@pytest.mark.parametrize(
    ("trust", "m"), [({}, 3), ({"min_honest": 2}, 1), ({"max_dropouts": 1}, 2)]
)
def test_the_shares_that_nobody_knows_carry_the_whole_noise(trust, m):
    terms = start(**trust).terms
    z = sampled_multiplier(Fraction(2), Fraction(1, 10**5), 20, RATE, 20)
    assert terms.multiplier == z and terms.unknown_shares == m
    noise = noise_for(terms, Fraction(1, 20), 100, 0, RATE)
    left = m * noise.share - LOST
    assert left >= 100 * noise.scale**2 * z**2
    assert noise.event.mu_squared * z**2 <= 1 and noise.event.sampling_rate == RATE
    assert left <= 100 * noise.scale**2 * z**2 * Fraction(101, 100)
    # the share that a request names buys nothing
    assert noise_for(terms, ALL, 100, 0, RATE) == noise


def test_sizes_of_samples_vary_with_their_law_and_the_noise():
    run = start(count=300, epsilon=8.0)
    seen = [run.release(ToySample(RATE), Fraction(1, 300))[0] for _ in range(300)]
    noise = noise_for(run.terms, ALL, 1, 0, RATE).sd(4)
    sd = sqrt(400 * float(RATE * (1 - RATE)) + noise**2)
    assert abs(np.mean(seen) - 100) < 5 * sd / sqrt(300)
    assert 0.8 < np.std(seen) / sd < 1.2
    with pytest.raises(BudgetExceeded, match="no further"):
        run.release(ToySample(RATE), Fraction(1, 300))
    assert "300 steps" in run.report().mechanism


def test_other_samples_than_planned_are_refused():
    run = start()
    for rate in (RATE * 2, ALL):
        with pytest.raises(BudgetExceeded):
            run.release(ToySample(rate), ALL)
    unsampled = start(plan=[planned(20, ALL)])
    with pytest.raises(BudgetExceeded, match="no sampled steps"):
        unsampled.release(ToySample(RATE), ALL)


def test_an_interrupted_run_reports_its_whole_plan():
    run = start()
    run.release(ToySample(RATE), Fraction(1, 20))
    report = run.report()
    assert report.epsilon == 2.0 and report.releases == (("ToySample", 1),)


def test_a_server_that_sees_single_answers_learns_what_one_share_lets_it():
    terms = start().terms
    alone = terms.server_epsilon()
    whole = sampled_epsilon(terms.multiplier, Fraction(1, 10**5), RATE, 20)
    # one of three shares: the root of three less noise, and a little less for its own rounding
    low, high = (
        sampled_epsilon(terms.multiplier * Fraction(1) / part, Fraction(1, 10**5), RATE, 20)
        for part in (Fraction(173, 100), Fraction(175, 100))
    )
    assert whole < low < alone < high
    assert replace(terms, min_honest=1).server_epsilon() == pytest.approx(2.0)


def test_terms_of_samples_travel_and_protect_records_only():
    terms = start().terms
    assert from_bytes(to_bytes(terms)) == terms
    for change in (
        {"unit": "party", "adjacency": "replace"},
        {"adjacency": "replace"},
        {"calibration": "published"},
    ):
        with pytest.raises(ValueError, match="Sampled steps"):
            replace(terms, **change)

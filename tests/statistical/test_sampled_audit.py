"""An audit of sampled steps: what an adversary can really tell, against the claim (G25).

Two worlds differ in one row of one party. The adversary sees, of every step, the sum of the answers
whose noise it does not know, and adds up the log odds of all steps, which is the best that can be
done. As in ``test_audit``, the bound holds with 95 % confidence and seeds are fixed.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.federation import _terms as terms_module
from sklearn_fedpriv.federation._messages import Ask
from sklearn_fedpriv.federation._party import answer
from sklearn_fedpriv.federation._query import RowQuery, poisson_sample
from sklearn_fedpriv.privacy import _ledger as ledger_module
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import seed_key
from sklearn_fedpriv.privacy._sampling import sampled_multiplier
from sklearn_fedpriv.secure._protocol import Binding
from tests.statistical.test_audit import DELTA, lower_bound

pytestmark = pytest.mark.slow

N_PARTIES, STEPS, RATE = 3, 4, Fraction(2, 5)
EPSILON, TRIALS = 1.0, 400_000


@record
@dataclass(frozen=True)
class AuditSample(RowQuery):
    """Whether the one row is in the sample, in ``length`` worlds at once."""

    sampling_rate: Fraction
    integral = True
    bound: int = 1
    length: int = 1

    def contributions(self, X, y):
        raise NotImplementedError

    def ticks(self, X, y, tools):
        present = np.zeros(self.length, dtype=np.int64)
        if len(X):
            present[poisson_sample(self.length, self.sampling_rate, tools.stream)] = 1
        return present


def log_odds(with_row, rate=RATE):
    """The adversary's statistic in each of many runs."""
    parties = [(np.zeros((int(with_row and i == 0), 1)), None) for i in range(N_PARTIES)]
    federation = Federation(parties, secure_sum="plain")
    plan = [PlannedRelease("AuditSample", STEPS, Fraction(1), STEPS, 1, RATE)]
    run = federation.start(budget(EPSILON, DELTA), plan, seed=seed_key(int(with_row)))
    total = np.zeros(TRIALS)
    for number in range(STEPS):
        ask = Ask(
            Binding(run.terms.federation, run.terms.digest, number), AuditSample(RATE), Fraction(1)
        )
        jobs = [party.charge(ask) for party in run._parties.values()]
        seen = np.zeros(TRIALS)
        for job in jobs[: run.terms.unknown_shares]:
            many = replace(
                job,
                query=AuditSample(rate, 1, TRIALS),
                task=replace(job.task, length=TRIALS),
            )
            seen += np.frombuffer(answer(many).payload, dtype="<i8")
        variance = run.terms.unknown_shares * float(job.noise.share)
        shift = job.noise.scale
        odds = np.exp((2 * seen * shift - shift**2) / (2 * variance))
        total += np.log(1 - float(rate) + float(rate) * odds)
    return total


def test_sampled_steps_hold_their_claim_and_are_worth_it():
    found = lower_bound(log_odds(False), log_odds(True))
    assert EPSILON / 2 < found <= EPSILON


def test_an_audit_sees_a_sample_that_is_not_one():
    """All rows in every step, with the noise of a sample."""
    certain = Fraction(2**64 - 1, 2**64)
    assert lower_bound(log_odds(False, certain), log_odds(True, certain)) > EPSILON


def test_an_audit_sees_noise_for_fewer_steps(monkeypatch):
    def for_one(epsilon, delta, n_coordinates, rate, count):
        return sampled_multiplier(epsilon, delta, n_coordinates, rate, 1)

    monkeypatch.setattr(terms_module, "sampled_multiplier", for_one)
    monkeypatch.setattr(ledger_module, "sampled_multiplier", for_one)
    assert lower_bound(log_odds(False), log_odds(True)) > EPSILON

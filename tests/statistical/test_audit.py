"""Audits: what an adversary can really tell, against what is claimed (G25).

Two worlds differ in one row. The adversary is the server together with all colluders: it knows
every share of noise but the m that carry the guarantee, so it sees the sum of exactly those. From
many runs in both worlds it gets a lower bound on epsilon that holds with 95 % confidence. The
bound must stay below the claim; and it must exceed the claim once the library is broken, or the
audit would not notice anything.

A trial is the library's own: ``Federation.start``, ``PartyRun.charge`` and ``answer`` run as in a
fit, with a query that is calibrated for one number and then answered many times over, each with
its own noise. Faults are planted by replacing the one function that decides.

Error rates. Each bound is wrong with a chance of 5 % at most: were its seed drawn at random, one in
twenty seeds could show a right library above its claim. A planted fault goes unnoticed with a
chance below one in a million: its bound ends far more than five standard errors above the claim.
Seeds are fixed, so the outcome is the same every time.
"""

from dataclasses import dataclass, replace
from math import log

import numpy as np
import pytest
from scipy.stats import beta

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.federation import _party as party_module
from sklearn_fedpriv.federation._messages import Ask
from sklearn_fedpriv.federation._party import answer
from sklearn_fedpriv.federation._query import Query, RowQuery
from sklearn_fedpriv.federation._terms import Terms
from sklearn_fedpriv.privacy._ledger import budget
from sklearn_fedpriv.privacy._randomness import seed_key
from sklearn_fedpriv.secure._protocol import Binding
from tests.federation.toys import ALL, HALF, plan

pytestmark = pytest.mark.slow

N_PARTIES = 5
EPSILON, DELTA = 1.0, 1e-2  # a large delta: the best test has events common enough to count
TRIALS = 400_000
WORST = 1e300  # a row that clips to the bound, and bursts whatever does not clip

# Trust: who may collude (beside the curious party itself) and who may be missing; and how many
# shares are left that nobody of them knows, counted by hand and not by the library.
COLLUSION = {"min_honest": 3, "max_dropouts": 0, "unknown": 2}
DROPOUTS = {"min_honest": 5, "max_dropouts": 3, "unknown": 1}
ALONE = {"min_honest": 5, "max_dropouts": 0, "unknown": 4}


@record
@dataclass(frozen=True)
class AuditSum(RowQuery):
    """The sum of one column, or of its negative, written down ``length`` times."""

    sign: int = 1
    length: int = 1
    bound: float = 1.0

    def contributions(self, X, y):
        return self.sign * X

    def ticks(self, X, y, tools):
        once = replace(self, length=1)
        return np.repeat(RowQuery.ticks(once, X, y, tools), self.length)


def views(trust, with_row, queries, trials=TRIALS):
    """What the adversary sees of each release: sums of the unknown parties' answers, in ticks."""
    parties = [(np.zeros((3, 1)), None) for _ in range(N_PARTIES)]
    if with_row:
        parties[0] = (np.array([[0.0], [0.0], [0.0], [WORST]]), None)
    federation = Federation(
        parties,
        min_honest=trust["min_honest"],
        max_dropouts=trust["max_dropouts"],
        secure_sum="plain",  # so that the payload is the answer, which the adversary adds up
    )
    run = federation.start(
        budget(EPSILON, DELTA), plan(queries[0], len(queries)), seed=seed_key(int(with_row))
    )
    share = ALL if len(queries) == 1 else HALF
    seen = []
    for number, query in enumerate(queries):
        ask = Ask(Binding(run.terms.federation, run.terms.digest, number), query, share)
        jobs = [party.charge(ask) for party in run._parties.values()]
        total = np.zeros(trials, dtype=np.int64)
        for job in jobs[: trust["unknown"]]:
            many = replace(
                job,
                query=replace(job.query, length=trials),
                task=replace(job.task, length=trials),
            )
            total += np.frombuffer(answer(many).payload, dtype="<i8")
        seen.append(total)
    return seen


def lower_bound(absent, present, confidence=0.95, delta=DELTA):
    """Lower bound on epsilon: best of tests ``view > c`` and ``view < c``, either world first.

    The test is chosen on one half of the runs and judged on the other, by Clopper-Pearson bounds
    on both of its error rates.
    """

    def bound(hits, n_hits, misses, n_misses):
        tail = (1 - confidence) / 2
        low = beta.ppf(tail, hits, n_hits - hits + 1) if hits else 0.0
        high = beta.ppf(1 - tail, misses + 1, n_misses - misses) if misses < n_misses else 1.0
        return log((low - delta) / high) if low > delta else 0.0

    half = len(absent) // 2
    best = (-1.0, None)
    for sign in (1, -1):
        for swap in (False, True):
            first, second = (absent, present) if swap else (present, absent)
            a, b = np.sort(sign * first[:half]), np.sort(sign * second[:half])
            for c in np.quantile(np.concatenate([a, b]), np.linspace(0.002, 0.998, 250)):
                hits, misses = (len(v) - int(np.searchsorted(v, c, side="right")) for v in (a, b))
                value = bound(hits, len(a), misses, len(b))
                best = max(best, (value, (sign, swap, c)), key=lambda pair: pair[0])
    sign, swap, c = best[1]
    first, second = (absent, present) if swap else (present, absent)
    hits, misses = (int((sign * v[half:] > c).sum()) for v in (first, second))
    return bound(hits, len(first) - half, misses, len(second) - half)


def audit(trust, queries=(AuditSum(),)):
    """The bound from what an adversary sees; from the difference, if there are two releases."""
    worlds = []
    for with_row in (False, True):
        seen = views(trust, with_row, queries)
        worlds.append(seen[0] if len(seen) == 1 else seen[0] - seen[1])
    return lower_bound(*worlds)


TWICE = (AuditSum(sign=1), AuditSum(sign=-1))  # the row moves their difference by twice its bound


def test_the_trials_are_those_of_a_release():
    """One trial of all shares is what ``Run.release`` gives under the same seed."""
    trust = {**ALONE, "unknown": N_PARTIES}
    (total,) = views(trust, True, [AuditSum()], trials=1)
    parties = [(np.zeros((3, 1)), None) for _ in range(N_PARTIES)]
    parties[0] = (np.array([[0.0], [0.0], [0.0], [WORST]]), None)
    run = Federation(parties, secure_sum="plain").start(
        budget(EPSILON, DELTA), plan(AuditSum()), seed=seed_key(1)
    )
    released = run.release(AuditSum(), ALL)
    assert released[0] == AuditSum().lattice.decode(total)[0]


def test_the_bound_itself_is_right():
    """On a law whose epsilon is known: randomised response with odds of 3 to 1, and no law at all.

    Wrong with a chance of 5 % for right code, were the seed random.
    """
    rng = np.random.default_rng(0)
    zero, one = (rng.random(200_000) < p for p in (0.25, 0.75))
    found = lower_bound(zero.astype(np.int64), one.astype(np.int64))
    assert 0.9 * log(0.74 / 0.25) < found < log(0.74 / 0.25)
    assert lower_bound(*rng.integers(0, 1000, size=(2, 100_000))) <= 0


@pytest.mark.parametrize("trust", [ALONE, COLLUSION, DROPOUTS], ids=["alone", "collude", "drop"])
def test_one_release_leaks_what_is_claimed_and_no_more(trust):
    """Fails for right code with a chance of 5 % at most, were the seed random."""
    found = audit(trust)
    assert EPSILON / 2 < found < EPSILON


def test_two_releases_of_half_the_budget_leak_no_more_than_one_of_all():
    """Fails for right code with a chance of 5 % at most, were the seed random."""
    found = audit(ALONE, TWICE)
    assert EPSILON / 2 < found < EPSILON


def plant_m_is_n(monkeypatch):
    """Shares sized as if all parties' noise were unknown to everybody."""
    monkeypatch.setattr(Terms, "unknown_shares", property(lambda self: len(self.parties)))
    return audit(COLLUSION)


def plant_dropouts_ignored(monkeypatch):
    """Shares sized for all invited parties, of which three are missing."""
    monkeypatch.setattr(Terms, "unknown_shares", property(lambda self: self.min_honest - 1))
    return audit(DROPOUTS)


def plant_half_sensitivity(monkeypatch):
    monkeypatch.setattr(Query, "squared_sensitivity", lambda self, _: self.squared_norm // 4)
    return audit(ALONE)


def plant_rounding_before_clipping(monkeypatch):
    """Encode first, clip the integers: 1e300 leaves their range, and its square wraps to zero."""

    def bounded_ticks(self, rows):
        with np.errstate(invalid="ignore"):
            ticks = self.lattice.encode(rows)
        kept = (ticks * ticks).sum(axis=1) <= self.squared_norm
        return np.where(kept[:, None], ticks, 0)

    monkeypatch.setattr(Query, "_bounded_ticks", bounded_ticks)
    return audit(ALONE)


def plant_noise_reused(monkeypatch):
    """The number of the release is left out of the key of its noise."""
    derive_key = party_module.derive_key
    monkeypatch.setattr(
        party_module,
        "derive_key",
        lambda key, *labels: derive_key(key, *(x for x in labels if not isinstance(x, int))),
    )
    return audit(ALONE, TWICE)


PLANTS = [
    plant_m_is_n,
    plant_dropouts_ignored,
    plant_half_sensitivity,
    plant_rounding_before_clipping,
    plant_noise_reused,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__[6:])
def test_a_planted_fault_exceeds_the_claim(plant, monkeypatch):
    """Misses the fault with a chance below one in a million, were the seed random."""
    found = plant(monkeypatch)
    assert found > EPSILON

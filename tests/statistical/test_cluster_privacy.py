"""What one answer of a clustered fit tells of a party: audited, and its noise measured (G17, G25).

Two worlds differ in one party's whole data, so that it prefers the other hypothesis and changes it
the other way: the largest distance there is. The adversary sees the party's answer by itself, as a
server does under plain sums. Its lower bound on epsilon holds with 95 % confidence; it must lie
below the claim and above half of it, and exceed the claim once the library is broken. Had the seed
been drawn at random, the first could fail by chance once in twenty; a fault would go unnoticed with
a chance below one in a million. Seeds are fixed.
"""

from math import log

import numpy as np
import pytest
from scipy.stats import beta

from sklearn_fedpriv import ClusteredDPRegressor, Federation
from sklearn_fedpriv.cluster import _queries
from sklearn_fedpriv.cluster._planning import Plan, metric_budget
from sklearn_fedpriv.cluster._queries import ClusterUpdate
from sklearn_fedpriv.federation import _messages, _party
from sklearn_fedpriv.federation._messages import Ask
from sklearn_fedpriv.federation._party import answer
from sklearn_fedpriv.privacy._randomness import seed_key
from sklearn_fedpriv.secure._protocol import Binding

pytestmark = pytest.mark.slow

TRIALS = 3000
CLAIM = 1.0
SIZE = ClusterUpdate.ticks_of_norm
PARTY = {"unit": "party", "adjacency": "replace"}


class Told:
    """A trainer whose choice and update are the party's data: slot, then sign."""

    fingerprint = b"told"

    def loss(self, weights, X, y):
        return abs(float(weights[0]) - X[0, 0])

    def train(self, weights, X, y, batches, seed):
        return X[0, 1:] * 1e9  # held to the clip norm


def answers(world):
    """So many answers of a party with this data, each with fresh noise."""
    query = ClusterUpdate(None, np.array([[0.0], [1.0]]), 1.0, ("0",), 1, 0)
    plan = Plan(1, 1, 1)
    spends = metric_budget(query, 8.0, 1)  # 2 d / nu = 2 * 4 / 8
    assert spends.epsilon == CLAIM
    run = Federation([(np.array([world]), np.zeros(1))]).start(
        spends, plan.releases(query), code=Told(), **PARTY
    )
    ask = Ask(Binding(run.terms.federation, run.terms.digest, 0), query, plan.share)
    job = run._parties["0"].charge(ask)
    keys = iter(seed_key(i) for i in range(TRIALS + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_party, "fresh_key", lambda: next(keys))
        return np.array(
            [np.frombuffer(answer(job).payload, dtype="<i8") for _ in range(TRIALS)], dtype=float
        )


WORLDS = ([0.0, 1.0], [1.0, -1.0])
BLOCKS = np.array([[1, 1, 0, 0], [0, 0, -1, 1]], dtype=float) * SIZE


def lower_bound():
    """Of epsilon, by one test fixed beforehand: much nearer to the first block than the second."""
    hits = []
    for world in WORLDS:
        seen = answers(world)
        near, far = (np.linalg.norm(seen - block, axis=1) for block in BLOCKS)
        hits.append(int((far - near > 0.6 * 2 * SIZE).sum()))
    low = beta.ppf(0.025, hits[0], TRIALS - hits[0] + 1)
    high = beta.ppf(0.975, hits[1] + 1, TRIALS - hits[1])
    return log(low / high)


def test_a_metric_answer_tells_no_more_than_is_claimed_and_hardly_less():
    assert CLAIM / 2 < lower_bound() < CLAIM


@pytest.mark.parametrize("fault", ["distance a third", "update unheld", "count unheld"])
def test_planted_faults_are_noticed(fault, monkeypatch):
    if fault == "distance a third":
        made = _messages.metric_noise_for
        monkeypatch.setattr(
            _messages,
            "metric_noise_for",
            lambda terms, share, squared, *rest: made(terms, share, -(-squared // 9), *rest),
        )
    else:
        ticks = ClusterUpdate.ticks
        columns = [0, 2] if fault == "update unheld" else [1, 3]

        def longer(self, X, y, tools):
            block = ticks(self, X, y, tools).copy()
            block[columns] *= 4
            return block

        monkeypatch.setattr(_queries.ClusterUpdate, "ticks", longer)
    assert lower_bound() > CLAIM


@pytest.mark.parametrize(
    ("settings", "sd"),
    [
        # Seven parties, each with a joint draw over two slots of two numbers and a count.
        ({"mechanism": "metric", "noise_ratio": 2.0}, (7 * 7) ** 0.5 * 2.0 / 6),
        ({"mechanism": "gaussian", "epsilon": 100.0}, None),
    ],
    ids=["metric", "gaussian"],
)
def test_the_noise_of_released_counts_has_the_spread_that_theory_says(settings, sd):
    """Rows of zeros change nothing and choose the first: counts are (7, 0) plus noise.

    The variance of 300 numbers has a relative standard error of 8 %, or 10 % with Laplace tails.
    A right library fails with a chance below one in a million, five of these off.
    """
    parties = [(np.zeros((2, 2)), np.zeros(2)) for _ in range(7)]
    n_rounds = 150
    model = ClusteredDPRegressor(
        n_rounds=n_rounds, fit_intercept=False, random_state=1, secure_sum="plain", **settings
    ).fit(parties)
    if sd is None:
        from sklearn_fedpriv.privacy._calibration import gaussian_budget
        from sklearn_fedpriv.privacy._ledger import budget

        spends = budget(100.0, 1e-5)
        total = float(gaussian_budget(spends.epsilon, spends.delta, 6 * n_rounds))
        sd = 2 * (n_rounds / total) ** 0.5 * (7 / 6) ** 0.5  # six of seven shares are enough
    noise = model.history_["counts"] - np.array([7, 0])
    assert 0.5 * sd**2 < np.mean(noise**2) < 1.5 * sd**2

"""Votes: their number, their bound, their order, and what their noise leaves of the winner."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sklearn_fedpriv._wire import from_bytes, record, to_bytes
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.federation._query import Tools
from sklearn_fedpriv.model_selection._odds import Electorate, chance_to_win
from sklearn_fedpriv.model_selection._twin import Failure, LocalScoring
from sklearn_fedpriv.model_selection._votes import Votes, best_of, selection_bound
from sklearn_fedpriv.privacy._calibration import exact, gaussian_budget
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import Stream
from tests.model_selection.toys import parties

CODE = LocalScoring(None, [])


def stream(seed=0):
    return Stream(seed.to_bytes(32, "big"))


def electorate(n_candidates, n_parties, **changes):
    facts = {"min_honest": None, "max_dropouts": 0, "adjacency": "replace", "delta": 1e-5}
    return Electorate(n_candidates=n_candidates, n_parties=n_parties, **(facts | changes))


@record
@dataclass(frozen=True)
class StuffedVotes(Votes):
    """Votes of a party that breaks the rules; ``how`` says in which way."""

    how: str = "many"

    def local(self, X, y, tools):
        p = self.n_candidates
        return {
            "many": np.ones(p, dtype=int),
            "none": np.zeros(p, dtype=int),
            "heavy": np.array([self.n_votes] + [0] * (p - 1)),
            "negative": np.array([2, -1, 1, 0, 0, 0])[:p],
            "nan": np.full(p, np.nan),
            "short": np.ones(1, dtype=int),
            "fractions": np.full(p, self.n_votes / p),
        }[self.how]


HOWS = ["many", "none", "heavy", "negative", "nan", "short", "fractions"]


@pytest.mark.parametrize("how", HOWS)
def test_G22_a_party_casts_exactly_k_distinct_votes_whatever_it_computed(how):
    votes = StuffedVotes(6, 2, how).ticks(None, None, Tools(stream(), CODE))
    assert votes.dtype == np.int64 and sorted(votes) == [0, 0, 0, 0, 1, 1]


def test_G22_replaced_votes_are_random():
    """2,000 parties: each of 6 candidates gets 667 +- 21 votes; six deviations are allowed."""
    query = StuffedVotes(6, 2, "many")
    total = sum(query.ticks(None, None, Tools(stream(i), CODE)) for i in range(2000))
    assert np.abs(total - 2000 / 3).max() < 6 * (2000 * 2 / 9) ** 0.5


@pytest.mark.parametrize("n_votes", [0, 4, 5, -1])
def test_G22_votes_for_all_and_for_none_are_refused(n_votes):
    with pytest.raises(ValueError, match="fewer than the 4 candidates"):
        Votes(4, n_votes)


@pytest.mark.parametrize("p", [2, 3, 5, 6])
def test_the_sensitivity_is_the_largest_distance_of_two_votes(p):
    for k in range(1, p):
        votes = [np.isin(np.arange(p), chosen).astype(int) for chosen in combinations(range(p), k)]
        apart = max(((a - b) ** 2).sum() for a in votes for b in votes)
        assert Votes(p, k).squared_sensitivity("replace") == apart
        assert Votes(p, k).sensitivity("replace") == apart
        assert Votes(p, k).squared_sensitivity("add_remove") == k == Votes(p, k).squared_norm


@pytest.mark.parametrize(
    ("epsilon", "sd"), [(0.1, 97.24), (0.25, 42.01), (0.5, 22.24), (1.0, 11.80), (3.0, 4.397)]
)
def test_sigma_is_that_of_the_exact_formula_and_ours_at_most_one_per_cent_above(epsilon, sd):
    """k = 5 of 100 candidates, 250 parties, delta 1e-5."""
    squared = Votes(100, 5).squared_sensitivity("replace")
    continuous = (squared / float(gaussian_budget(exact(epsilon), exact(1e-5)))) ** 0.5
    assert continuous == pytest.approx(sd, rel=3e-4)
    ours, ideal = electorate(100, 250).noise(5, epsilon)
    assert ideal == pytest.approx(continuous)
    assert continuous <= ours <= 1.01 * continuous


def test_the_price_does_not_depend_on_the_number_of_candidates():
    noise = {p: electorate(p, 100).noise(4, 1.0)[0] for p in (10, 1000)}
    assert noise[10] == pytest.approx(noise[1000], rel=1e-6)


def test_ties_are_broken_by_the_partys_secret_bits():
    """Not by index: each of 5 equal candidates gets 800 +- 25 of 4,000 votes."""
    total = sum(best_of([0.5] * 5, 1, stream(i)) for i in range(4000))
    assert np.abs(total - 800).max() < 6 * (4000 * 0.16) ** 0.5


def test_the_best_get_the_votes_and_failed_ones_rank_last():
    assert best_of([0.1, 0.9, np.nan, 0.5], 2, stream()).tolist() == [0, 1, 0, 1]
    assert best_of([-5.0, np.nan, -9.0, np.nan], 2, stream()).tolist() == [1, 0, 1, 0]
    assert best_of([np.nan, -np.inf], 1, stream()).tolist() == [0, 1]
    pieces = [Failure("ValueError"), 0.2, 0.1]
    votes = Votes(3, 2).local(None, None, Tools(stream(), CODE, pieces))
    assert votes.tolist() == [0, 1, 1]
    scored = LocalScoring(None, [], error_score=0.15)
    assert Votes(3, 2).local(None, None, Tools(stream(), scored, pieces)).tolist() == [1, 1, 0]


def test_votes_travel_as_data():
    assert from_bytes(to_bytes(Votes(7, 3)), Votes) == Votes(7, 3)


@pytest.mark.parametrize(("n_parties", "ideal"), [(3, 0.42), (10, 0.64)])
def test_the_chance_of_a_unanimous_candidate(n_parties, ideal):
    """Three candidates, epsilon 0.5; by the noise of the budget alone, and with all shares."""
    real, found = electorate(3, n_parties).odds(1, 0.5)
    assert found == pytest.approx(ideal, abs=0.005)
    assert real < found < real + 0.02


def test_the_chance_agrees_with_a_simulation():
    """100,000 draws: standard error .0016."""
    draws = np.random.default_rng(0).normal(size=(100_000, 7)) * 3.0
    draws[:, 2] += 4.0
    assert chance_to_win(4.0, 3.0, 7) == pytest.approx((draws.argmax(axis=1) == 2).mean(), abs=0.01)
    assert chance_to_win(1.0, 0.0, 7) == 1.0


@pytest.mark.parametrize("p", [2, 3, 4, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_auto_votes_stay_below_the_number_of_candidates(p, epsilon):
    assert 1 <= electorate(p, 20).votes("auto", epsilon) <= max(1, min(5, p // 4)) < p


def test_auto_votes_take_five_where_the_noise_allows_it():
    assert electorate(100, 250).votes("auto", 0.25) == 5
    assert electorate(100, 10).votes("auto", 0.25) == 1


def test_the_good_epsilon_is_the_smallest_with_good_odds():
    people = electorate(12, 8)
    epsilon = people.good_epsilon("auto")
    assert people.odds(people.votes("auto", epsilon), epsilon)[0] >= 0.9
    assert people.odds(1, epsilon / 1.03)[0] < 0.9


def test_G22_the_selection_bound_holds_and_counts_every_share():
    """400 votes of 20 parties: the bound may fail in 5 % of them, and hardly ever does."""
    true = np.array([9, 6, 5, 0])
    rng = np.random.default_rng(0)
    sd, missed = 4.0, 0
    for _ in range(400):
        noisy = true + sd * rng.normal(size=4)
        winner = int(noisy.argmax())
        missed += true.max() - true[winner] > selection_bound(noisy, winner, sd, 0.05)
    assert missed <= 20 + 3 * 4.4
    assert selection_bound(np.array([5.0, 3.0]), 1, 0.0, 0.05) == 2.0
    assert selection_bound(np.zeros(2), 0, 1.0, 0.05) == pytest.approx(2**0.5 * 1.959964)


def test_votes_of_a_federation_have_the_predicted_noise():
    """64 numbers: their spread is within 40 % of the prediction but for one in 10^5 runs."""
    query = StuffedVotes(64, 32, "none")
    run = Federation(parties(4)).start(
        budget(1.0, 1e-5, "gaussian"),
        [PlannedRelease("StuffedVotes", 1, Fraction(1), 64, 32)],
        unit="party",
        adjacency="replace",
        code=CODE,
    )
    squared = query.squared_sensitivity("replace")
    sd = run.noise_sd(squared, squared, Fraction(1))
    noisy = run.release(query, Fraction(1))
    assert 0.6 < np.std(noisy - 2) / sd < 1.5

"""The accountant of sampled steps: against independent figures, and on the private side."""

from fractions import Fraction
from math import comb, exp, inf, log

import numpy as np
import pytest
from scipy.stats import norm

from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.privacy import _sampling
from sklearn_fedpriv.privacy._calibration import gaussian_budget
from sklearn_fedpriv.privacy._events import GaussianEvent, SampledGaussianEvent
from sklearn_fedpriv.privacy._ledger import PlannedRelease, RunLedger, budget
from sklearn_fedpriv.privacy._sampling import GRID, sampled_epsilon, sampled_multiplier

DELTA = Fraction(1, 10**5)
ONE, RATE = Fraction(1), Fraction(1, 20)


def one_step_delta(z, q, epsilon):
    """Exact delta of one step, the larger of adding and removing, by the point where odds cross.

    P = (1 - q) N(0, z^2) + q N(1, z^2) against N(0, z^2); their ratio rises with the view.
    """

    def cross(level):  # view at which P / N(0) is ``level``
        return 0.5 + z**2 * log((level - 1 + q) / q)

    x = cross(exp(epsilon))
    more = (1 - q) * norm.sf(x / z) + q * norm.sf((x - 1) / z) - exp(epsilon) * norm.sf(x / z)
    if exp(-epsilon) <= 1 - q:
        return more
    x = cross(exp(-epsilon))
    mixture = (1 - q) * norm.cdf(x / z) + q * norm.cdf((x - 1) / z)
    return max(more, norm.cdf(x / z) - exp(epsilon) * mixture)


def rdp_epsilon(z, q, count, delta):
    """Upper bound by Renyi divergence at integer orders (Mironov et al. 2019)."""
    best = inf
    for a in range(2, 80):
        terms = [
            log(comb(a, j)) + (a - j) * log(1 - q) + j * log(q) + (j * j - j) / (2 * z * z)
            for j in range(a + 1)
        ]
        top = max(terms)
        rdp = (top + log(sum(exp(t - top) for t in terms))) / (a - 1)
        best = min(best, count * rdp + log((a - 1) / a) - (log(delta) + log(a)) / (a - 1))
    return best


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_one_step_has_the_exact_delta(rate, epsilon):
    z = float(sampled_multiplier(Fraction(str(epsilon)), DELTA, 1, Fraction(str(rate)), 1))
    assert one_step_delta(z, rate, epsilon) <= float(DELTA)
    assert one_step_delta(z * 0.99 - 1 / GRID, rate, epsilon) > float(DELTA)


def test_many_steps_lie_below_renyi_and_above_a_published_figure():
    """q .01, multiplier 4, 10^4 steps: PLD .947 (papers.md 1.3; moments accountant 1.26)."""
    found = sampled_epsilon(Fraction(4), DELTA, Fraction(1, 100), 10_000)
    assert 0.9469 <= found < 0.96 < rdp_epsilon(4.0, 0.01, 10_000, 1e-5)


def test_the_multiplier_is_the_smallest_on_its_grid_that_is_enough():
    z = sampled_multiplier(ONE, DELTA, 1, RATE, 100)
    assert (z * GRID).denominator == 1
    assert sampled_epsilon(z, DELTA, RATE, 100) <= 1.001
    composed = _sampling._composed(float(z), RATE, 100, 1.0)
    assert composed.get_delta_for_epsilon(1.0) <= float(DELTA)
    less = _sampling._composed(float(z) - 1 / GRID, RATE, 100, 1.0)
    assert less.get_delta_for_epsilon(1.0) > float(DELTA) - 2e-11


def test_the_rounding_of_transforms_has_room():
    """1e-11 of delta is kept free; at the smallest delta the grid is fine enough to show it."""
    smallest, count = _sampling.SMALLEST_DELTA, 20
    z = sampled_multiplier(ONE, smallest, 1, RATE, count)
    kept = float(smallest) - 1e-11
    assert _sampling._composed(float(z), RATE, count, 1.0).get_delta_for_epsilon(1.0) <= kept
    found = sampled_epsilon(z, smallest, RATE, count)
    delta = _sampling._composed(float(z), RATE, count, found).get_delta_for_epsilon(found)
    assert 0.9 * kept < delta <= 1.001 * kept


def test_sampling_is_never_dearer_than_none_and_steps_cost():
    for epsilon in (Fraction(1, 100), ONE, Fraction(50), Fraction(10**6)):
        z = sampled_multiplier(epsilon, DELTA, 1, Fraction(1, 2), 20)
        assert z**2 <= 20 / gaussian_budget(epsilon, DELTA, 1) * Fraction(1001, 1000) + Fraction(
            1, 200
        )
    few, many = (sampled_multiplier(ONE, DELTA, 1, RATE, count) for count in (50, 200))
    thin = sampled_multiplier(ONE, DELTA, 1, RATE / 2, 200)
    assert few < many and thin < many


def test_released_numbers_cost_their_smoothing():
    plain = sampled_multiplier(ONE, DELTA, 1, RATE, 10)
    assert sampled_multiplier(ONE, DELTA, 10**18, RATE, 10) > plain
    with pytest.raises(ValueError, match="too small"):
        sampled_multiplier(ONE, DELTA, 10**19, RATE, 10)


def test_a_delta_beyond_the_arithmetic_is_refused():
    with pytest.raises(ValueError, match="sampling_rate=1"):
        sampled_multiplier(ONE, Fraction(1, 10**12), 1, RATE, 10)


def planned(count=3, rate=RATE, share=ONE):
    return PlannedRelease("Step", count, share, count * 5, 100, rate)


def ledger(count=3, epsilon=1.0):
    return RunLedger(budget(epsilon, 1e-5), [planned(count)], "party 'a'")


def step(count=3, factor=ONE, rate=RATE):
    z = sampled_multiplier(ONE, DELTA, 5 * count, RATE, count)
    return SampledGaussianEvent(rate, factor / z**2)


def test_a_plan_has_as_many_steps_as_it_says():
    book = ledger()
    for _ in range(3):
        book.commit("Step", step(), 5, 100)
    assert book.part_spent == 1.0
    with pytest.raises(BudgetExceeded, match="no further"):
        book.commit("Step", step(), 5, 100)


@pytest.mark.parametrize(
    "event",
    [
        step(factor=Fraction(10_001, 10_000)),
        step(rate=RATE * 2),
        GaussianEvent(Fraction(1, 10**6)),
    ],
)
def test_louder_denser_or_other_steps_are_refused(event):
    with pytest.raises(BudgetExceeded):
        ledger().check("Step", event, 5, 100)
    assert ledger().spent == 0


def test_sampled_steps_are_refused_by_an_unsampled_plan():
    book = RunLedger(budget(1.0, 1e-5), [planned(rate=ONE)], "party 'a'")
    with pytest.raises(BudgetExceeded, match="GaussianEvents"):
        book.check("Step", SampledGaussianEvent(RATE, Fraction(1, 10**9)), 5, 100)


@pytest.mark.parametrize(
    "plan",
    [
        [planned(), PlannedRelease("Count", 1, Fraction(1, 50), 1)],
        [PlannedRelease("Count", 1, Fraction(1, 50), 1), planned(share=Fraction(1, 2))],
        [planned(share=Fraction(1, 2))],
    ],
)
def test_sampled_steps_have_a_plan_for_themselves(plan):
    with pytest.raises(ValueError):
        RunLedger(budget(1.0, 1e-5), plan, "party 'a'")
    with pytest.raises(ValueError):
        RunLedger(budget(1.0, 0.0, "laplace"), [planned()], "party 'a'")
    assert np.isinf(RunLedger(budget(inf, 1e-5), [planned()], "party 'a'").total)

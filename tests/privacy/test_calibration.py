"""Calibration is exact, and errs on the private side only (G13)."""

from fractions import Fraction
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sklearn_fedpriv.privacy._calibration import exact, gaussian_budget, gaussian_epsilon

DELTA = Fraction(1, 10**5)


def delta_of(epsilon, mu):
    """Balle & Wang 2018, Theorem 8, in floats."""
    return norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(
    ("epsilon", "delta", "sd"),
    [("1", "1e-5", 3.7306), ("0.5", "1e-5", 7.0318), ("10", "1e-3", 0.4061)],
)
def test_published_values(epsilon, delta, sd):
    mu_squared = gaussian_budget(Fraction(epsilon), Fraction(delta))
    assert float(mu_squared) ** -0.5 == pytest.approx(sd, abs=5e-5)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(1e-3, 1e2).map(lambda x: Fraction(x)),
    st.integers(2, 12).map(lambda k: Fraction(1, 10**k)),
)
def test_the_budget_found_is_private_and_tight(epsilon, delta):
    mu = float(gaussian_budget(epsilon, delta)) ** 0.5
    assert delta_of(float(epsilon), mu) <= float(delta) * (1 + 1e-6)
    assert delta_of(float(epsilon), mu * 1.001) > float(delta)


@pytest.mark.parametrize("epsilon", ["1e-3", "0.1", "1", "8", "1e4", "1e6", "1e9", "1e12"])
def test_epsilon_inverts_the_budget(epsilon):
    epsilon = Fraction(epsilon)
    back = gaussian_epsilon(gaussian_budget(epsilon, DELTA), DELTA)
    assert back == pytest.approx(float(epsilon), rel=1e-9)
    assert gaussian_epsilon(gaussian_budget(epsilon, DELTA) * Fraction(101, 100), DELTA) > epsilon


def test_the_cost_of_lattice_noise_is_taken_off():
    plain = gaussian_budget(Fraction(1), DELTA)
    charged = gaussian_budget(Fraction(1), DELTA, 10**12)
    assert charged < plain
    assert float(charged / plain) == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match="too small for a plan"):
        gaussian_budget(Fraction(1, 10**9), DELTA, 10**12)


def test_infinite_epsilon_buys_everything_and_zero_mu_costs_nothing():
    assert gaussian_budget(inf, DELTA) == inf
    assert gaussian_epsilon(inf, DELTA) == inf
    assert gaussian_epsilon(Fraction(0), DELTA) == 0.0


def test_exact_reads_the_decimal_that_was_written():
    assert exact(0.1) == Fraction(1, 10)
    assert sum(exact(0.1) for _ in range(10)) == 1
    assert exact(np.float64(0.3)) == Fraction(3, 10)
    assert exact(inf) == inf


def test_agrees_with_dp_accounting():
    import dp_accounting

    for epsilon in (0.1, 1.0, 5.0):
        theirs = dp_accounting.get_sigma_gaussian(epsilon, 1e-5)
        ours = float(gaussian_budget(exact(epsilon), DELTA)) ** -0.5
        assert ours == pytest.approx(theirs, rel=1e-6)

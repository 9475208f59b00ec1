"""The bound over the number of rounds, its smallest value, and the noise inside it."""

import copy
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest

from sklearn_fedpriv.privacy._calibration import gaussian_budget
from sklearn_fedpriv.privacy._rounds import initial_variance, optimal_rounds

# papers.md 4.5; K, q, epsilon, delta and the sensitivity 2 C / n are the paper's defaults.
CONSTANTS = {
    "n_steps": 150,
    "learning_rate": 0.05,
    "smoothness": 1.0,
    "curvature": 0.2,
    "lipschitz": 1.0,
    "divergence": 0.5,
    "initial_gap": 2.3,
    "n_parameters": 25_450,
    "n_parties": 10,
    "sensitivity": 2 * 5 / 600,
    "epsilon": 10.0,
    "delta": 1e-3,
}
PUBLISHED = {"participation": 0.1, "calibration": "published"}
BUDGET = {name: CONSTANTS[name] for name in ("sensitivity", "epsilon", "delta")}


def choose(**changes):
    return optimal_rounds(**{**CONSTANTS, **changes})


def step_by_step(n_rounds, variance, ratio, **changes):
    """The bound as a recursion over the rounds, none of its sums in closed form."""
    c = {**CONSTANTS, **changes}
    eta, smooth = c["learning_rate"], c["smoothness"]
    steps = c["n_steps"] / n_rounds
    growth = (1 + eta * smooth) ** steps - 1
    drift = c["divergence"] / smooth * growth - eta * c["divergence"] * steps
    gap = c["initial_gap"]
    for _ in range(n_rounds):
        gap *= (1 - eta * c["curvature"]) ** steps
        gap += c["lipschitz"] * drift
        gap += smooth * c["n_parameters"] / (2 * c["n_parties"]) * variance
        variance *= ratio
    return gap


@pytest.mark.parametrize(("ratio", "expected"), [(0.95, 13), (1.0, 13), (1.05, 12)])
def test_the_worked_example(ratio, expected):
    choice = choose(noise_ratio=ratio, **PUBLISHED)
    assert choice.n_rounds == expected
    assert choice.bound == choice.candidates[expected - 1] == choice.candidates.min()
    assert np.all(np.diff(choice.candidates, 2) > 0)  # convex, as the paper says it may be


@pytest.mark.parametrize("calibration", [{}, PUBLISHED])
@pytest.mark.parametrize("ratio", [0.8, 0.99 ** (15 / 2), 1.0, 1.1])
def test_the_bound_is_the_recursion(calibration, ratio):
    """One ratio equals the decay at 20 rounds, where the printed fraction is 0/0."""
    candidates = choose(noise_ratio=ratio, **calibration).candidates
    assert candidates.shape == (150,)
    for n_rounds in (1, 2, 13, 20, 150):
        variance = initial_variance(n_rounds, noise_ratio=ratio, **BUDGET, **calibration)
        slow = step_by_step(n_rounds, variance, ratio)
        assert candidates[n_rounds - 1] == pytest.approx(slow, rel=1e-10)


def test_every_constant_moves_the_bound():
    base = choose()
    for name, value in {
        "learning_rate": 0.1,
        "smoothness": 2.0,
        "curvature": 0.1,
        "lipschitz": 2.0,
        "divergence": 1.0,
        "initial_gap": 3.0,
        "n_parameters": 10,
        "n_parties": 11,
        "sensitivity": 1.0,
        "epsilon": 5.0,
        "delta": 1e-4,
        "noise_ratio": 0.9,
    }.items():
        changed = choose(**{name: value})
        assert changed.bound != base.bound, name
        if name not in BUDGET and name != "noise_ratio":
            variance = initial_variance(9, **BUDGET)
            slow = step_by_step(9, variance, 1.0, **{name: value})
            assert changed.candidates[8] == pytest.approx(slow, rel=1e-10), name


def test_more_budget_buys_more_rounds():
    chosen = [choose(epsilon=epsilon).n_rounds for epsilon in (1.0, 3.0, 10.0, 30.0)]
    assert chosen == sorted(set(chosen))
    assert choose(epsilon=inf).n_rounds == 150
    assert choose(divergence=0).n_rounds == 1


def test_long_fits_do_not_overflow_in_silence():
    choice = choose(n_steps=20_000, learning_rate=1.0, curvature=1.0, noise_ratio=1.2)
    assert choice.candidates[0] == choice.candidates[-1] == inf
    assert np.isfinite(choice.bound) and not np.isnan(choice.candidates).any()
    for free in ({"divergence": 0}, {"epsilon": inf, "noise_ratio": 1e300}):
        candidates = choose(n_steps=20_000, learning_rate=1.0, **free).candidates
        assert not np.isnan(candidates).any()
    with pytest.raises(ValueError, match="overflows for every number of rounds"):
        choose(n_steps=20_000, learning_rate=1.0, curvature=1e-6, noise_ratio=1e-30)


def test_a_choice_is_a_value():
    choice = choose()
    assert choice == copy.deepcopy(choice) != choose(noise_ratio=0.9)
    assert repr(choice) == f"RoundsChoice(n_rounds={choice.n_rounds}, bound={choice.bound!r})"
    with pytest.raises(ValueError, match="read-only"):
        choice.candidates[0] = 0


# --- noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "first", "last"),
    [
        (0.9, 0.02793, 0.00606),
        (0.95, 0.01633, 0.00776),
        (1.0, 0.01073, 0.01073),
        (1.05, 0.00787, 0.01597),
        (1.1, 0.00631, 0.02513),
    ],
)
def test_the_published_table(ratio, first, last):
    variance = initial_variance(30, noise_ratio=ratio, **BUDGET, **PUBLISHED)
    assert variance**0.5 == pytest.approx(first, abs=5.1e-6)
    assert (variance * ratio**29) ** 0.5 == pytest.approx(last, abs=5.1e-6)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.1])
def test_proved_noise_uses_up_the_budget(ratio):
    variance = initial_variance(30, noise_ratio=ratio, **BUDGET)
    spent = sum(BUDGET["sensitivity"] ** 2 / (variance * ratio**m) for m in range(30))
    allowed = gaussian_budget(Fraction(10), Fraction(1, 1000))
    assert spent == pytest.approx(float(allowed), rel=1e-12)


def test_the_proof_lets_a_party_be_in_every_round():
    proved = initial_variance(30, **BUDGET)
    assert initial_variance(30, participation=0.1, **BUDGET) == proved
    # The paper's default delivers more than its epsilon, and sizes its noise accordingly.
    assert proved**0.5 == pytest.approx(0.0371, abs=5e-5)
    published = initial_variance(30, **BUDGET, **{**PUBLISHED, "participation": 1.0})
    assert published < proved
    tenth = initial_variance(30, **BUDGET, **PUBLISHED)
    assert tenth == pytest.approx(published / 10, rel=1e-12)


# --- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_steps": 0}, "n_steps must be 1 or more"),
        ({"n_parameters": 0}, "n_parameters must be 1 or more"),
        ({"n_parties": 0}, "n_parties must be 1 or more"),
        ({"learning_rate": 1.01}, "learning_rate must be at most 1 / smoothness = 1; got 1.01"),
        ({"curvature": 1.5}, "curvature must be at most smoothness=1.0"),
        ({"learning_rate": 0}, "learning_rate must be positive and finite"),
        ({"smoothness": nan}, "smoothness must be positive and finite"),
        ({"lipschitz": -1}, "lipschitz must be positive and finite"),
        ({"divergence": -1}, "divergence, if not 0, must be positive and finite; got -1"),
        ({"initial_gap": inf}, "initial_gap must be positive and finite"),
        ({"sensitivity": 0}, "sensitivity must be positive and finite"),
        ({"noise_ratio": 0}, "noise_ratio must be positive and finite"),
        ({"epsilon": 0}, "epsilon, if not inf, must be positive and finite"),
        ({"epsilon": nan}, "epsilon, if not inf, must be positive and finite"),
        ({"delta": 1}, r"delta must be in \(0, 1\); got 1.0"),
        ({"delta": 0}, "delta must be positive"),
        ({"participation": 1.5}, r"participation must be in \(0, 1\]; got 1.5"),
        ({"participation": 0}, "participation must be positive"),
        ({"calibration": "paper"}, r"calibration must be one of \('proved', 'published'\)"),
    ],
)
def test_values_are_checked(changes, message):
    with pytest.raises(ValueError, match=message):
        choose(**changes)


@pytest.mark.parametrize("name", ["n_steps", "learning_rate", "divergence", "delta", "noise_ratio"])
@pytest.mark.parametrize("value", [True, "1"])
def test_types_are_checked(name, value):
    with pytest.raises(TypeError):
        choose(**{name: value})


def test_constants_at_their_limits_are_allowed():
    """At learning_rate = 1 / curvature = 1 / smoothness one step forgets everything."""
    choice = choose(learning_rate=1 / 49, smoothness=49.0, curvature=49.0)
    assert np.isfinite(choice.bound)
    assert choice.candidates[-1] == pytest.approx(
        49 * 25_450 / 20 * initial_variance(150, **BUDGET), rel=1e-9
    )

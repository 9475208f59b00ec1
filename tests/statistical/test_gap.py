"""What two published methods claim, what an adversary can tell, and that ours keeps its word.

Each bound is wrong with a chance of 5 % at most, and those that must exceed a claim exceed it by
far more than five standard errors. Seeds are fixed: the outcome is the same every time. The figures
are those of docs/what_is_proved.md.
"""

import numpy as np
import pytest

from sklearn_fedpriv import FederatedDPSVC
from sklearn_fedpriv.privacy._calibration import exact, gaussian_epsilon
from tests.statistical.test_audit import lower_bound

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.UnprovenPrivacyWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning"),
]
EPSILON, DELTA = 1.0, 1e-3
N_ROWS = 40  # of each party


def views(calibration, with_row, trials):
    """The released weight of one column; the rows' pulls cancel, but for those of one more row."""
    X = np.ones((N_ROWS, 1))
    y = np.arange(N_ROWS) % 2
    first = (np.ones((N_ROWS + 1, 1)), np.append(y, 1)) if with_row else (X, y)
    seen = []
    for seed in range(trials):
        model = FederatedDPSVC(
            calibration=calibration,
            epsilon=EPSILON,
            delta=DELTA,
            n_rounds=1,
            learning_rate=1e4,
            n_rows_hint=3 * N_ROWS,
            classes=[0, 1],
            fit_intercept=False,
            secure_sum="plain",
            random_state=seed + 10**6 * with_row,
        )
        seen.append(model.fit([first, (X, y), (X, y)]).coef_[0, 0])
    return np.array(seen)


@pytest.mark.parametrize(("calibration", "trials"), [("published", 300), ("proved", 600)])
def test_clipped_weights_hide_less_than_is_claimed_and_gradients_do_not(calibration, trials):
    """Yuan et al. claim that a record moves clipped weights by 2C/N; here it moves them by C."""
    worlds = [views(calibration, with_row, trials) for with_row in (False, True)]
    found = lower_bound(*worlds, delta=DELTA)
    print(f"\n{calibration}: epsilon at least {found:.2f}, {EPSILON} claimed")
    if calibration == "published":
        assert found > 2 * EPSILON
    else:
        assert found <= EPSILON


def epoch(n_parties, record, trials, rng, multiplier=8.0, n_batches=50):
    """Released sum after one epoch of noisy local steps ``w <- r w + noise``, noise cut by t - 1.

    The record is in the first batch of the first party, whose steps grow (r = 1.5); the other
    parties' steps shrink (r = 0.5), so their noise hardly reaches the sum.
    """
    sd = multiplier / (n_parties - 1) ** 0.5
    growth = np.full(n_parties, 0.5)
    growth[0] = 1.5
    weights = np.zeros((trials, n_parties))
    for batch in range(n_batches):
        weights = growth * weights + rng.normal(scale=sd, size=weights.shape)
        if batch == 0 and record:
            weights[:, 0] += 1
    return weights.sum(axis=1)


@pytest.mark.parametrize(("n_parties", "trials"), [(10, 200_000), (100, 20_000)])
def test_noise_cut_inside_local_epochs_hides_less_than_is_claimed(n_parties, trials):
    """Truex et al. divide the noise of every local step by t - 1, as if it were one sum."""
    claimed = gaussian_epsilon(exact(1 / 8) ** 2, exact(DELTA))
    rng = np.random.default_rng(n_parties)
    worlds = [epoch(n_parties, record, trials, rng) for record in (False, True)]
    found = lower_bound(*worlds, delta=DELTA)
    print(f"\n{n_parties} parties: epsilon at least {found:.2f}, {claimed:.2f} claimed")
    assert found > 1.3 * claimed


def test_noise_cut_in_one_sum_hides_what_is_claimed():
    """The same division is right where the noisy answers themselves are added up."""
    claimed = gaussian_epsilon(exact(1 / 8) ** 2, exact(DELTA))
    rng = np.random.default_rng(0)
    sums = [
        rng.normal(scale=8.0 / 9**0.5, size=(200_000, 9)).sum(axis=1) + record for record in (0, 1)
    ]
    assert lower_bound(*sums, delta=DELTA) <= claimed

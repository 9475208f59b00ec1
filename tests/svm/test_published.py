"""The published method runs as printed, and promises nothing."""

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from scipy.stats import chi2

from sklearn_fedpriv import FederatedDPSVC, Federation
from sklearn_fedpriv.exceptions import BudgetExceeded, UnprovenPrivacyWarning
from sklearn_fedpriv.federation._query import Tools
from sklearn_fedpriv.privacy._ledger import budget
from sklearn_fedpriv.privacy._randomness import Stream, seed_key
from sklearn_fedpriv.svm._published import (
    WEIGHT_LENGTH,
    first_query,
    published_plan,
    published_shares,
)
from sklearn_fedpriv.svm._rows import RowCoder
from sklearn_fedpriv.svm._training import Problem

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.UnprovenPrivacyWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning"),
]
N_COLUMNS, N_ROWS, N_PARTIES = 3000, 30, 5
EPSILON, DELTA = 2.0, 1e-3
PROBLEM = Problem(N_COLUMNS, 1.0, (1.0, 1.0), 1.0, True)


def zeros():
    """Rows from which no weight is learned, so that a release is its noise."""
    return [(np.zeros((N_ROWS, N_COLUMNS)), np.arange(N_ROWS) % 2) for _ in range(N_PARTIES)]


def svc(**settings):
    settings = {"classes": [0, 1], "n_rows_hint": N_ROWS * N_PARTIES, "n_rounds": 4} | settings
    return FederatedDPSVC(calibration="published", random_state=0, delta=DELTA, **settings)


@pytest.mark.parametrize("n_chosen", [5, 4])
@pytest.mark.parametrize("ratio", [1.0, 1.5])
@pytest.mark.parametrize("min_honest", [5, 3])
def test_the_noise_of_each_sum_is_the_published_one(n_chosen, ratio, min_honest):
    """Chi-square on 3,001 numbers, 8 cases of 4 rounds; right code fails once in 30,000 times."""
    n_rounds = 4
    federation = Federation(zeros(), min_honest=min_honest, secure_sum="plain")
    query = first_query(PROBLEM, None, N_ROWS)
    shares = published_shares(
        ratio,
        n_rounds,
        budget(EPSILON, DELTA),
        n_parties=N_PARTIES,
        n_chosen=n_chosen,
        unknown_shares=max(1, min_honest - 1),
    )
    coder = RowCoder(N_COLUMNS, 1.0, (0, 1))
    run = federation.with_transform(coder).start(
        budget(EPSILON, DELTA),
        published_plan(query, shares),
        calibration="published",
        seed=seed_key(int(10 * ratio) + n_chosen),
    )
    series = sum(ratio**-m for m in range(n_rounds))
    claim = 2 * WEIGHT_LENGTH / N_ROWS
    first = 2 * (n_chosen / N_PARTIES) * claim**2 * log(1 / DELTA) / EPSILON**2 * series
    for m, share in enumerate(shares):
        noise = run.release(query, share)
        statistic = (noise**2).sum() / (n_chosen * first * ratio**m)
        low, high = chi2.ppf([5e-7, 1 - 5e-7], len(noise))
        # Sensitivities are rounded up to whole ticks.
        assert low < statistic < high * 1.03


def local(query, X, y, party):
    coder = RowCoder(X.shape[1], 1.0, (0, 1))
    tools = Tools(Stream(bytes(32)), party=party)
    ticks = query.ticks(*coder.apply(X, y), tools)
    return query.lattice.decode(ticks).reshape(query.weights.shape)


def test_only_chosen_parties_contribute_and_their_weights_are_held_to_a_length():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) / 3
    y = (X[:, 0] > 0).astype(int)
    query = replace(
        first_query(Problem(3, 1.0, (1.0, 1.0), 1.0, True), None, 60), chosen=("a", "b")
    )
    assert not local(query, X, y, "c").any()
    gentle = local(query, X, y, "a")
    assert gentle[0, 0] > 0 and np.linalg.norm(gentle) < WEIGHT_LENGTH
    wild = local(replace(query, step=1e6), X, y, "b")
    assert np.linalg.norm(wild) == pytest.approx(WEIGHT_LENGTH, rel=1e-3)


def test_one_full_step_is_the_mean_of_the_rows_that_count():
    X, y = np.array([[0.6], [0.8]]), np.array([1, 0])
    problem = Problem(1, 1.0, (1.0, 1.0), 1e9, False)
    query = replace(first_query(problem, 1e-3, 2), chosen=("a",))
    # Five epochs at which all rows still count.
    assert local(query, X, y, "a")[0, 0] == pytest.approx(5 * 1e-3 * (0.6 - 0.8) / 2, abs=1e-3)


def test_participations_are_counted_printed_and_reported(capsys):
    model = svc(parties_per_round=2, verbose=1).fit(zeros())
    counts = model.participations_
    assert sum(counts.values()) == 2 * 4 and set(counts) == set("01234")
    said = f"took part {min(counts.values())} to {max(counts.values())} times in 4 rounds"
    assert said in capsys.readouterr().out and said in str(model.privacy_)
    everyone = svc().fit(zeros())
    assert everyone.participations_ == dict.fromkeys("01234", 4)


def test_it_learns_is_reproducible_and_promises_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) / 3
    y = (X[:, 0] > 0).astype(int)
    parties = [(X[i::4], y[i::4]) for i in range(4)]
    settings = {"n_rows_hint": 400, "epsilon": 8.0, "n_rounds": 20}
    with pytest.warns(UnprovenPrivacyWarning):
        model = svc(**settings).fit(parties)
    assert model.score(X, y) > 0.9
    assert np.array_equal(svc(**settings).fit(parties).coef_, model.coef_)
    report = model.privacy_
    assert report.epsilon == report.server_epsilon == inf and report.claimed_epsilon == 8.0
    assert report.proved == "no" and dict(report.releases) == {"LocalWeights": 20}
    assert svc(**{**settings, "epsilon": inf}).fit(parties).score(X, y) > 0.9


def test_proved_terms_refuse_a_sensitivity_that_is_only_claimed():
    query = first_query(PROBLEM, None, N_ROWS)
    shares = published_shares(
        1.0, 4, budget(EPSILON, DELTA), n_parties=5, n_chosen=5, unknown_shares=4
    )
    run = Federation(zeros()).start(budget(EPSILON, DELTA), published_plan(query, shares))
    with pytest.raises(BudgetExceeded, match="claimed, not proved"):
        run.release(query, shares[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_rows_hint": None}, "needs n_rows_hint"),
        ({"noise_schedule": [1, 2, 3, 4]}, "a number as noise_schedule"),
        ({"parties_per_round": 6}, "at most the number of parties, 5; got 6"),
        ({"n_rounds": 1, "parties_per_round": 1}, "take more rounds or parties"),
    ],
)
def test_what_the_papers_do_not_say_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        svc(**settings).fit(zeros())


def test_preview_is_about_proved_noise():
    with pytest.raises(ValueError, match="calibration='proved'"):
        svc().preview(5, 100, 3)

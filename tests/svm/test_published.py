"""The published method runs as printed, and gets no credit for what its papers claim.

Error rate: the tests of spread and of the draw would fail for right code about once in a million
runs of each case, were their seeds drawn at random. Seeds are fixed, so the outcome is the same
every time.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import chi2
from sklearn.datasets import make_blobs

from sklearn_fedpriv import FederatedDPSVC, Federation, Party
from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.exceptions import BudgetExceeded, UnprovenPrivacyWarning
from sklearn_fedpriv.federation._messages import Ask, noise_of
from sklearn_fedpriv.federation._query import Query, Tools
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy import AdaptiveRounds
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.privacy._rounds import initial_variance
from sklearn_fedpriv.secure._protocol import Binding
from sklearn_fedpriv.svm._published import LOCAL_EPOCHS, WEIGHT_BOUND, LocalWeights
from sklearn_fedpriv.svm._rows import hold
from sklearn_fedpriv.svm._training import Problem

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.UnprovenPrivacyWarning"),
    pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning"),
]

ERROR_RATE = 1e-6
N_PARTIES = 5


def svc(**settings):
    settings = {"calibration": "published", "n_rows_hint": 500, "classes": [0, 1]} | settings
    return FederatedDPSVC(**{"epsilon": 1.0, "random_state": 0, "n_rounds": 4} | settings)


@pytest.fixture(scope="module")
def parties():
    X, y = make_blobs(500, centers=2, n_features=4, random_state=3, center_box=(-2, 2))
    X = X / np.linalg.norm(X, axis=1).max()
    return [(X[i::N_PARTIES], y[i::N_PARTIES]) for i in range(N_PARTIES)]


@pytest.fixture
def releases(monkeypatch):
    """(run, query, what ``Run.release`` returned), as they come."""
    recorded = []
    release = Run.release

    def recording(self, query, share):
        answer = release(self, query, share)
        recorded.append((self, query, answer))
        return answer

    monkeypatch.setattr(Run, "release", recording)
    return recorded


def answers(run, query):
    """Party -> its own answer, without noise."""
    return {
        name: query.lattice.decode(query.ticks(p._X, p._y, Tools(None, party=name)))
        for name, p in run._parties.items()
    }


def local_weights(**changes):
    """A query over rows of two columns, of which party 'a' is chosen."""
    settings = {"problem": Problem(2, 1.0, (1.0, 1.0), 1.0, False), "weights": np.zeros((1, 3))}
    settings |= {"step": 1.0, "ridge": 0.0, "chosen": ("a",), "claimed": Fraction(1)}
    return LocalWeights(**settings | changes)


# --- the noise ------------------------------------------------------------------------------------

WIDE = 20_000  # columns: as many numbers, each with its own noise, in one release


@pytest.mark.parametrize(
    ("n_rounds", "chosen", "ratio", "trust", "party_rows"),
    [
        (1, 1, 1.0, {}, 20),
        (3, 2, 0.8, {"min_honest": 4}, 20),
        (3, 5, 1.3, {"min_honest": 5, "max_dropouts": 2, "secure_sum": "plain"}, 20),
        (2, None, 1.0, {"min_honest": 1}, 20),
        (2, 3, 1.3, {"bound": 10.0}, 10_000_000),
    ],
)
def test_the_noise_of_a_sum_is_that_of_all_chosen_parties(
    releases, n_rounds, chosen, ratio, trust, party_rows
):
    """Chi-square of all numbers of a round, against the printed formula; delta .1 so that the
    logarithms of 1 / delta and of 1.25 / delta differ by a tenth."""
    X = csr_matrix(([1.0], ([0], [0])), shape=(20, WIDE))
    y = np.arange(20) % 2
    data = [(X, y)] * N_PARTIES
    settings = {"delta": 0.1, "epsilon": 2.0, "noise_schedule": ratio}
    settings["n_rows_hint"] = party_rows * N_PARTIES
    svc(n_rounds=n_rounds, parties_per_round=chosen, **settings, **trust).fit(data)
    assert len(releases) == n_rounds
    n_chosen = chosen or N_PARTIES
    first = initial_variance(
        n_rounds,
        sensitivity=2 * 5 / trust.get("bound", 1.0) / party_rows,
        epsilon=2.0,
        delta=0.1,
        noise_ratio=ratio,
        participation=n_chosen / N_PARTIES,
        calibration="published",
    )
    scores = []
    for m, (run, query, answer) in enumerate(releases):
        noise = answer - sum(answers(run, query).values())
        scores.append((noise**2).sum() / (n_chosen * first * ratio**m))
    each = ERROR_RATE / (n_rounds + 1)
    for squares, degrees in [(s, WIDE + 1) for s in scores] + [
        (sum(scores), (WIDE + 1) * n_rounds)
    ]:
        low, high = chi2.ppf([each / 2, 1 - each / 2], degrees)
        assert low < squares < high


@pytest.mark.parametrize("party_rows", [10_000, 20_000, 40_000, 1_000_000])
def test_the_claim_for_many_rows_is_not_rounded_to_ticks(releases, parties, party_rows):
    """Rows of 4 columns: the claim is a tick or part of one. Chi-square of 100,000 numbers of the
    noise that each party derives, in the middle round of three."""
    settings = {"n_rounds": 3, "noise_schedule": 1.1, "parties_per_round": 3, "delta": 1e-3}
    svc(n_rows_hint=party_rows * N_PARTIES, **settings).fit(parties)
    run, query, _ = releases[1]
    series = 1 + 1 / 1.1 + 1 / 1.1**2
    noise = noise_of(run.terms, query, Fraction((1 / 1.1 / series) ** 0.5))
    draws = sum(noise.draw(100_000, Stream(bytes([i] * 32))) for i in range(N_PARTIES))
    values = query.lattice.decode(draws) / noise.scale
    sensitivity = 2 * 5 / party_rows
    theta = 2 * (3 / 5) * sensitivity**2 * np.log(1e3) / 1.0**2 * series * 1.1
    low, high = chi2.ppf([ERROR_RATE / 2, 1 - ERROR_RATE / 2], 100_000)
    assert low < (values**2).sum() / (3 * theta) < high


def test_the_figures_of_the_paper(releases, parties):
    """Yuan et al.'s defaults: sd .01073 a party and round, for 600 rows, q = .1 and M = 30."""
    data = [parties[0]] * 10
    settings = {"epsilon": 10.0, "delta": 1e-3, "n_rounds": 30, "parties_per_round": 1}
    svc(n_rows_hint=6000, **settings).fit(data)
    run, query, _ = releases[0]
    one = query.lattice.decode(
        np.array([run.noise_sd(query.squared_sensitivity("replace"), 0, Fraction(30**-0.5))])
    )
    assert one[0] == pytest.approx(0.01073, rel=1e-3)


# --- the training ---------------------------------------------------------------------------------


def test_a_party_that_was_not_chosen_adds_noise_alone(releases, parties):
    svc(parties_per_round=2).fit(parties)
    for run, query, _ in releases:
        silent = [name for name, answer in answers(run, query).items() if not answer.any()]
        assert len(query.chosen) == 2 and set(silent) == set(run.terms.parties) - set(query.chosen)


def test_local_epochs_are_full_subgradient_steps():
    """By hand: two rows, a constant, a ridge; no row leads by 1, so all count in every epoch."""
    X, y = np.array([[0.6, 0.0], [0.0, 0.5]]), np.array([1, 0])
    step, ridge, start = 0.1, 0.3, np.array([[0.1, 0.2, -0.1]])
    problem = Problem(2, 1.0, (1.0, 1.0), 1.0, True)
    query = local_weights(problem=problem, weights=start, step=step, ridge=ridge)
    expected, rows = start[0].copy(), np.hstack([X, [[0.25], [0.25]]]) * [[1], [-1]]
    for _ in range(LOCAL_EPOCHS):
        assert (rows @ expected < 1).all()
        expected = expected + step * (rows.mean(axis=0) - ridge * expected)
    found = query.local(hold(X, 1.0), y, Tools(None, party="a"))
    assert np.allclose(found, expected, atol=1e-4)
    assert query.length == 3


@pytest.mark.parametrize(("step", "ridge"), [(1e9, 0.0), (1e9, 0.1), (1e300, 1.0), (1e308, 1e10)])
def test_weights_are_clipped_and_rows_are_held_to_the_bound(step, ridge):
    """However long the step: nothing may overflow in the party, which has paid by then."""
    query = local_weights(step=step, ridge=ridge)
    X = hold(np.full((4, 2), 1e300), 1.0)
    ticks = query.ticks(X, np.ones(4, dtype=int), Tools(None, party="a"))
    length = np.linalg.norm(query.lattice.decode(ticks))
    assert length == pytest.approx(WEIGHT_BOUND, rel=1e-3)
    assert (ticks.astype(object) ** 2).sum() <= query.squared_norm
    gentle = local_weights(step=0.1).local(X, np.ones(4, dtype=int), Tools(None, party="a"))
    assert np.linalg.norm(gentle) <= 0.1 * LOCAL_EPOCHS * (1 + 1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_without_noise_it_learns(classes, kernel):
    X, y = make_blobs(400, centers=classes, n_features=4, random_state=2, center_box=(-3, 3))
    X = X / np.linalg.norm(X, axis=1).max()
    settings = {"n_rounds": 20, "kernel": kernel, "learning_rate": 1.0, "n_components": 60}
    model = svc(epsilon=np.inf, classes=list(range(classes)), n_rows_hint=400, **settings)
    model.fit([(X[i::4], y[i::4]) for i in range(4)])
    assert model.score(X, y) > 0.75  # .80 and more, and 1 for two classes
    assert "no noise" in str(model.privacy_)


def test_a_weight_of_no_intercept_is_not_sent():
    with_constant = local_weights(problem=Problem(2, 1.0, (1.0, 1.0), 1.0, True))
    assert local_weights().length == 2 and with_constant.length == 3


# --- participations -------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [1, 3, 5, None])
def test_real_participations_are_counted_printed_and_reported(releases, parties, chosen, capsys):
    named = [Party(*rows, name=f"clinic {i}") for i, rows in enumerate(parties)]
    model = svc(parties_per_round=chosen, n_rounds=7, verbose=1).fit(named)
    n_chosen = chosen or N_PARTIES
    assert sum(model.participations_.values()) == 7 * n_chosen
    assert model.participations_ == {
        name: sum(name in query.chosen for _, query, _ in releases)
        for name in (f"clinic {i}" for i in range(N_PARTIES))
    }
    low, high = min(model.participations_.values()), max(model.participations_.values())
    if chosen in (None, 5):
        assert low == high == 7
    text = str(model.privacy_)
    assert f"a party took part {low} to {high} times" in text
    assert f"the claim counts {7 * n_chosen / 5:.3g} of each" in text
    printed = capsys.readouterr().out
    assert f"clinic 0: {model.participations_['clinic 0']}, clinic 1: " in printed
    svc(parties_per_round=chosen, n_rounds=1).fit(parties)
    assert not capsys.readouterr().out


def test_every_party_takes_part_in_every_round_of_a_proved_fit(parties):
    model = svc(parties_per_round=1).fit(parties)
    model.set_params(calibration="proved", epsilon=100.0, parties_per_round=None).fit(parties)
    assert model.participations_ == dict.fromkeys("01234", 4)


def test_every_party_is_as_likely_as_another(releases, parties):
    """1,000 rounds of 2 of 5; Pearson's statistic exceeds the bound once in a million."""
    svc(parties_per_round=2, n_rounds=1000, epsilon=np.inf).fit(parties)
    counts = np.zeros(N_PARTIES)
    for _, query, _ in releases:
        assert len(set(query.chosen)) == 2
        counts[[int(name) for name in query.chosen]] += 1
    # Without replacement the counts vary less: the statistic is chi-square times (1 - 2/5) 5/4.
    pearson = ((counts - 400) ** 2 / 400).sum() / (0.6 * 5 / 4)
    assert chi2.ppf(ERROR_RATE / 2, 4) < pearson < chi2.isf(ERROR_RATE / 2, 4)


# --- what is promised, and what is refused --------------------------------------------------------


def test_the_report_promises_nothing_and_names_the_claim(parties):
    with pytest.warns(UnprovenPrivacyWarning, match="no proof"):
        report = svc(random_state=None, parties_per_round=2).fit(parties).privacy_
    assert report.epsilon == report.server_epsilon == np.inf and report.claimed_epsilon == 1.0
    assert report.proved == "no" and not report.private
    assert (report.unit, report.adjacency) == ("record", "replace")
    assert report.releases == (("LocalWeights", 4),)
    # What the clip alone bounds is much more than the claim.
    honest = float(report.mechanism.split("gives the busiest epsilon ")[1].split(",")[0])
    assert honest > 100


def test_a_party_with_a_ceiling_refuses_it(parties):
    careful = Party(*parties[0], max_epsilon=1e6)
    with pytest.raises(BudgetExceeded, match="allows epsilon"):
        svc().fit([careful, *parties[1:]])
    assert careful.ledger.epsilon == 0


def test_a_proved_fit_refuses_a_sensitivity_that_is_only_claimed(parties):
    """At the server and, with the request sent past it, at the party."""
    query = local_weights(chosen=("0",))
    plan = [PlannedRelease("LocalWeights", 1, Fraction(1), query.length, query.squared_norm)]
    run = Federation(parties).start(budget(1.0, 1e-5), plan, adjacency="replace")
    ask = Ask(Binding(run.terms.federation, run.terms.digest, 0), query, Fraction(1))
    with pytest.raises(BudgetExceeded, match="claimed, not proved"):
        run.release(query, Fraction(1))
    with pytest.raises(BudgetExceeded, match="claimed, not proved"):
        run._parties["0"].charge(ask)
    assert Query.proved and not LocalWeights.proved


def test_it_is_reproducible_and_the_order_of_parties_does_not_matter(parties):
    named = [Party(*rows, name=name) for name, rows in zip("edcba", parties, strict=True)]
    models = [
        svc(parties_per_round=2, secure_sum=secure_sum, n_jobs=n_jobs).fit(data)
        for data, secure_sum, n_jobs in (
            (named, "masks", None),
            (named, "plain", 2),
            (named[::-1], "plain", None),
        )
    ]
    for model in models[1:]:
        assert np.array_equal(model.coef_, models[0].coef_)
        assert model.participations_ == models[0].participations_
    other = svc(parties_per_round=2, random_state=1).fit(named)
    assert not np.array_equal(other.coef_, models[0].coef_)
    fresh = [svc(random_state=None, n_rounds=30, parties_per_round=2).fit(named) for _ in range(2)]
    assert fresh[0].participations_ != fresh[1].participations_ or not np.array_equal(
        fresh[0].coef_, fresh[1].coef_
    )


def test_a_steep_schedule_of_few_rounds_is_no_trouble(parties):
    """In a published fit, too, the smallest share is in the plan."""
    model = svc(noise_schedule=0.01, n_rounds=8).fit(parties)
    assert model.n_rounds_ == 8


def test_weights_are_those_of_rows_of_length_one_whatever_the_unit(parties):
    """A power of two as the unit of the data, and a ridge to match, change no bit."""
    far = [(64 * X, y) for X, y in parties]
    one, other = svc().fit(parties), svc(bound=64.0, C=2.0**-12).fit(far)
    assert np.array_equal(one.coef_, 64 * other.coef_)
    assert np.array_equal(one.intercept_, other.intercept_)


def test_a_public_loss_cuts_the_rounds(parties):
    X, y = parties[0]
    model = svc(noise_schedule=AdaptiveRounds(0.5), n_rounds=20, epsilon=0.01)
    model.fit(parties, X_val=X, y_val=y)
    assert model.n_rounds_ < 20 and sum(model.participations_.values()) == 5 * model.n_rounds_


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_rows_hint": None}, "got n_rows_hint=None. Give n_rows_hint"),
        ({"parties_per_round": 6}, "at most the number of parties, 5.*got 6"),
        ({"parties_per_round": 0}, "'parties_per_round' parameter"),
        ({"noise_schedule": AdaptiveRounds()}, "Give X_val and y_val"),
        ({"calibration": "proved", "parties_per_round": 2}, "None with .*only loses accuracy"),
        ({"calibration": "proved", "parties_per_round": 5}, "None with .*only loses accuracy"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_charged(parties, settings, message):
    federation = Federation(parties)
    with pytest.raises(ValueError, match=message):
        svc(**settings).fit(federation)
    assert all(not party.ledger.entries for party in federation.parties)


def test_preview_is_about_proved_noise():
    with pytest.raises(ValueError, match="about proved noise"):
        svc().preview(5, 500, 4)


def test_the_query_travels():
    query = local_weights()
    assert to_bytes(from_bytes(to_bytes(query))) == to_bytes(query)


def test_constants_are_those_of_the_papers():
    assert (LOCAL_EPOCHS, WEIGHT_BOUND) == (5, 5.0)

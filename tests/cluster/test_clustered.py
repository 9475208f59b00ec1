"""The clustered estimators: what they recover, charge, tell and refuse."""

import io
import pickle
import warnings
from contextlib import redirect_stdout
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from sklearn_fedpriv import (
    ClusteredDPClassifier,
    ClusteredDPRegressor,
    Federation,
    PaillierSum,
    Party,
)
from sklearn_fedpriv.cluster import FallingClip
from sklearn_fedpriv.cluster._clipping import clip_norms
from sklearn_fedpriv.cluster._linear import LinearModel
from sklearn_fedpriv.cluster._planning import Plan
from sklearn_fedpriv.cluster._queries import OpenClusterUpdate
from sklearn_fedpriv.cluster._training import _State
from sklearn_fedpriv.datasets import make_two_laws
from sklearn_fedpriv.exceptions import (
    BudgetExceeded,
    NoiseWarning,
    NotPrivateWarning,
    RangeOverflow,
    UnprovenPrivacyWarning,
)
from sklearn_fedpriv.federation import _run
from sklearn_fedpriv.privacy._ledger import budget

METRIC = {"mechanism": "metric", "fit_intercept": False, "random_state": 0, "parties_per_round": 7}
SHORT = {**METRIC, "n_rounds": 5, "noise_ratio": 0.1, "parties_per_round": 3}


def off(model, laws):
    """Largest distance of a hypothesis from its law, in the best matching of two."""
    apart = np.linalg.norm(model.hypotheses_[:, None] - laws.laws[None], axis=2)
    return min(max(apart[0, 0], apart[1, 1]), max(apart[0, 1], apart[1, 0]))


def small(n_parties=6, **settings):
    return make_two_laws(n_parties=n_parties, n_rows=8, random_state=3, **settings)


# --- what they find ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {**METRIC, "n_rounds": 85},
        {**METRIC, "n_rounds": 85, "hide_membership": False},
        {"epsilon": 2.0, "fit_intercept": False, "random_state": 0, "clip_norm": FallingClip(1.5)},
    ],
    ids=["hidden", "open", "gaussian"],
)
def test_two_laws_are_found(settings):
    """In simulations of 20 fits each all are within 0.7 of both laws."""
    laws = make_two_laws(random_state=5)
    assert off(ClusteredDPRegressor(**settings).fit(laws.parties), laws) < 1.0


def test_one_hypothesis_ends_between_the_laws():
    laws = make_two_laws(n_parties=20, random_state=0)
    with pytest.warns(NotPrivateWarning):
        model = ClusteredDPRegressor(
            n_clusters=1, epsilon=np.inf, fit_intercept=False, random_state=0
        ).fit(laws.parties)
    assert np.linalg.norm(model.hypotheses_[0] - laws.laws.mean(axis=0)) < 1.5


def test_each_party_finds_its_model_and_predictions_follow_choices():
    laws = make_two_laws(n_parties=30, random_state=1)
    model = ClusteredDPRegressor(**METRIC | {"n_rounds": 60, "noise_ratio": 0.2}).fit(laws.parties)
    choices = {}
    for name, (X, y) in enumerate(laws.parties):
        own = model.personalize(X, y)
        assert isinstance(own, LinearRegression) and own.score(X, y) > 0.95
        choices[str(name)] = model.choose(X, y)
        assert np.allclose(own.predict(X), model.predict(X, parties=[name] * 10, choices=choices))
        assert (own.coef_ == model.hypotheses_[choices[str(name)]]).all()
    rows, y = (np.concatenate(part) for part in zip(*laws.parties, strict=True))
    labels = np.repeat(np.arange(30), 10)
    off_by = model.predict(rows, parties=labels, choices=choices) - y
    assert np.sqrt((off_by**2).mean()) < 0.7
    most = int(np.argmax(model.counts_))
    assert np.allclose(model.predict(rows), rows @ model.hypotheses_[most])


def test_classes_two_and_three():
    laws = make_two_laws(n_parties=12, n_rows=40, random_state=0)
    for classes in ([-1, 1], ["a", "b", "c"]):
        parties = []
        for X, y in laws.parties:
            cut = np.sign(y) if len(classes) == 2 else np.digitize(y, [-2, 2])
            parties.append((X, cut.astype(int) if len(classes) == 2 else np.array(classes)[cut]))
        model = ClusteredDPClassifier(
            epsilon=1e6, classes=classes, random_state=0, n_rounds=40
        ).fit(parties)
        X, y = parties[0]
        own = model.personalize(X, y)
        assert isinstance(own, LogisticRegression) and own.score(X, y) > 0.7
        index = model.choose(X, y)
        told = {"parties": ["x"] * len(X), "choices": {"x": index}}
        assert np.allclose(model.predict_proba(X, **told), own.predict_proba(X))
        assert (model.predict(X, **told) == own.predict(X)).all()
        assert model.hypotheses_.shape == (2, 3 if len(classes) == 2 else 9)
        assert model.predict_proba(X).shape == (40, len(classes))
        with pytest.raises(ValueError, match="outside the classes"):
            model.choose(X, np.array(["?"] * 40))


def test_the_intercept_comes_last():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    with pytest.warns(NotPrivateWarning):
        model = ClusteredDPRegressor(n_clusters=1, epsilon=np.inf).fit(X, X @ [1.0, 2.0] + 3)
    assert np.allclose(model.hypotheses_, [[1, 2, 3]], atol=0.01)


# --- what is charged ----------------------------------------------------------------------------


def test_leakage_is_twice_the_dimension_over_nu_each_time():
    laws = small()
    hidden = ClusteredDPRegressor(**SHORT).fit(laws.parties)
    assert max(hidden.participations_.values()) == 3
    each = 2 * 2 * 3 / 0.1  # two slots of an update of two numbers and a count
    assert hidden.leakage_ == hidden.privacy_.epsilon == pytest.approx(3 * each)
    told = ClusteredDPRegressor(**SHORT, hide_membership=False).fit(laws.parties)
    assert told.leakage_ == told.privacy_.epsilon == pytest.approx(3 * 2 * 2 / 0.1)
    assert (hidden.privacy_.unit, hidden.privacy_.adjacency) == ("party", "replace")
    assert hidden.privacy_.proved == "yes" and hidden.privacy_.delta == 0


@pytest.mark.parametrize(("hidden", "dimension"), [(True, 6), (False, 2)])
def test_the_terms_hold_exactly_what_nu_says(monkeypatch, hidden, dimension):
    """The rate of the noise is d / (nu R): in ticks, with R of them 2^20."""
    seen = []
    release = _run.Run.release
    monkeypatch.setattr(
        _run.Run, "release", lambda run, *ask: seen.append((run, *ask)) or release(run, *ask)
    )
    ClusteredDPRegressor(**SHORT, hide_membership=hidden).fit(small().parties)
    from sklearn_fedpriv.federation._messages import noise_of

    run, query, share = seen[0]
    assert noise_of(run.terms, query, share).rate == Fraction(dimension * 10, 2**20)
    assert [q.clip_norm for _, q, _ in seen] == FallingClip().norms(5)


def test_published_leakage_is_the_papers():
    """0.4 a participation at nu = 5 with two parameters; 2.4 after six."""
    laws = make_two_laws(n_parties=14, random_state=0)
    with pytest.warns(UnprovenPrivacyWarning):
        model = ClusteredDPRegressor(
            calibration="published",
            noise_ratio=5.0,
            n_rounds=12,
            parties_per_round=7,
            fit_intercept=False,
            random_state=0,
        ).fit(laws.parties)
    assert set(model.participations_.values()) == {6}
    assert model.leakage_ == pytest.approx(2.4)
    report = model.privacy_
    assert report.epsilon == np.inf and report.claimed_epsilon == pytest.approx(2.4)
    assert report.proved == "no" and "its paper claims 2.4" in str(report)
    assert "0.4 each" in report.mechanism
    assert set(model.choices_) == set(model.participations_)


def test_the_published_method_as_printed():
    """Without noise: plain means of the members' models, and who has no member stays."""
    laws = small(4)
    settings = {"calibration": "published", "noise_ratio": 0.0, "n_rounds": 1, "local_epochs": 3}
    with pytest.warns(NotPrivateWarning):
        model = ClusteredDPRegressor(fit_intercept=False, random_state=0, **settings).fit(
            laws.parties
        )
    start, after = model.history_["hypotheses"]
    members = {0: [], 1: []}
    for X, y in laws.parties:
        j = int(np.argmin([((X @ w - y) ** 2).mean() for w in start]))
        w = start[j].copy()
        for _ in range(3):
            w -= 0.1 * 2 * X.T @ (X @ w - y) / len(y)
        members[j].append(w)
    for j, models in members.items():
        assert np.allclose(after[j], np.mean(models, axis=0) if models else start[j], atol=1e-5)


def test_caps_are_checked_before_anything_is_charged():
    laws = small()
    parties = [Party(*pair, name=str(i)) for i, pair in enumerate(laws.parties)]
    for change, message in (
        (
            {"max_participations": 2},
            "take part 3 times, more than max_participations=2.* 4 or less",
        ),
        ({"max_leakage": 300.0}, "more than max_leakage=300, at 120 each time,.*n_rounds to 4 or"),
    ):
        with pytest.raises(ValueError, match=message):
            ClusteredDPRegressor(**SHORT, **change).fit(parties)
        assert all(party.ledger.entries == [] for party in parties)
    ClusteredDPRegressor(**SHORT, max_participations=3, max_leakage=360.0).fit(parties)
    assert {float(party.ledger.epsilon) for party in parties} == {360.0}


def test_a_party_with_a_ceiling_refuses():
    parties = [
        Party(*pair, name=str(i), max_epsilon=100.0) for i, pair in enumerate(small().parties)
    ]
    with pytest.raises(BudgetExceeded, match="allows epsilon=100"):
        ClusteredDPRegressor(**SHORT).fit(parties)


def test_gaussian_noise_costs_its_budget():
    laws = small()
    with pytest.warns(NoiseWarning):
        model = ClusteredDPRegressor(epsilon=2.0, n_rounds=4, random_state=0).fit(laws.parties)
    assert model.leakage_ == model.privacy_.epsilon == 2.0
    assert (model.privacy_.unit, model.privacy_.adjacency) == ("party", "replace")
    assert "takes part at most 4 times" in model.privacy_.mechanism


@pytest.mark.parametrize(
    ("n_parties", "n_chosen", "n_rounds"),
    [(100, 7, 200), (10, 7, 23), (3, 2, 9), (5, 5, 4), (1, 1, 6), (13, 12, 30), (9, 1, 20)],
)
def test_everybody_takes_part_once_before_anybody_does_again(n_parties, n_chosen, n_rounds):
    plan = Plan(n_parties, n_chosen, n_rounds)
    names = tuple(sorted(map(str, range(n_parties))))
    rounds = plan.lots(names, bytes(32))
    assert len(rounds) == n_rounds
    taken = dict.fromkeys(names, 0)
    for chosen in rounds:
        assert list(chosen) == sorted(set(chosen)) and len(chosen) == n_chosen
        for name in chosen:
            taken[name] += 1
        assert max(taken.values()) - min(taken.values()) <= 2
    assert max(taken.values()) <= plan.participations
    assert rounds != plan.lots(names, bytes(31) + b"x") or n_chosen == n_parties


# --- what is told -------------------------------------------------------------------------------


def kept(model):
    """Everything a fitted model holds, but for names and objects."""
    return {
        name: value for name, value in vars(model).items() if name.endswith("_") and name[0] != "_"
    }


@pytest.mark.parametrize("mechanism", ["gaussian", "metric"])
def test_all_that_stays_are_functions_of_sums(mechanism):
    """Two fits whose parties hold each other's rows have the same sums, and so the same all else.

    Only without noise are sums the same; what is not a function of sums would show here.
    """
    laws = small(shuffle=False)
    settings = {"epsilon": np.inf} if mechanism == "gaussian" else {"noise_ratio": 0.0}
    model = ClusteredDPRegressor(
        mechanism=mechanism, n_rounds=6, random_state=0, verbose=1, n_clusters=3, **settings
    )
    told = []
    for parties in (laws.parties, laws.parties[::-1]):
        out = io.StringIO()
        with redirect_stdout(out), pytest.warns(NotPrivateWarning):
            fitted = clone(model).fit(parties)
        lines = [line.rsplit(",", 1)[0] for line in out.getvalue().splitlines()]  # without seconds
        told.append((lines, kept(fitted)))
    (lines, one), (others, two) = told
    assert lines == others and len(lines) == 6 and one.keys() == two.keys()
    for name in one:
        a, b = one[name], two[name]
        if name == "history_":
            a, b = (np.concatenate([v.ravel() for v in h.values()]) for h in (a, b))
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, name


def test_no_attribute_maps_parties_to_hypotheses_unless_choices_are_sent_in_clear():
    laws = small()
    model = ClusteredDPRegressor(**SHORT, hide_membership=False).fit(laws.parties)
    assert set(model.choices_) == {name for name, n in model.participations_.items() if n}
    right = [model.choices_[str(i)] == model.choose(*pair) for i, pair in enumerate(laws.parties)]
    assert np.mean(right) > 0.6  # the hypotheses moved on since
    X, y = laws.parties[0]
    assert model.predict(X, parties=["0"] * len(X)).shape == (8,)
    model.set_params(hide_membership=True).fit(laws.parties)
    assert not hasattr(model, "choices_")
    per_party = [name for name, value in kept(model).items() if isinstance(value, dict)]
    assert sorted(per_party) == ["history_", "participations_"]
    with pytest.raises(ValueError, match="personalize"):
        model.predict(X, parties=["0"] * len(X))


class Recorder:
    """All that reaches the server of a fit: messages, requests and openings."""

    def __init__(self, monkeypatch):
        self.sent = []
        gather = _run.Run.release

        def release(run, query, share):
            server = run._server
            if not hasattr(server, "recorded"):
                inner = server.gather
                server.gather = lambda task, sent: self.take(task, sent) or inner(task, sent)
                server.recorded = True
            return gather(run, query, share)

        monkeypatch.setattr(_run.Run, "release", release)

    def take(self, task, sent):
        self.sent.append((task, list(sent)))


@pytest.mark.parametrize("mechanism", ["gaussian", "metric"])
def test_a_server_sees_masked_words_alone(mechanism, monkeypatch):
    """No message tells a slot: masked words of a party are uniform whatever its answer is.

    Their top bits are counted over all slots; of 7 bits of 360 words each chi-square is within
    its 1e-6 quantile, while plain words fail it by far.
    """
    from scipy import stats

    seen = Recorder(monkeypatch)
    settings = {**SHORT, "mechanism": mechanism, "noise_ratio": 1.0, "epsilon": 50.0}
    ClusteredDPRegressor(**settings | {"n_rounds": 20}).fit(small().parties)
    words = {True: [], False: []}
    for task, sent in seen.sent:
        width = len(sent[0].payload) // task.length
        for message in sent:
            assert type(message).__name__ == "Protected" and message.sender in task.parties
            assert len(message.payload) == width * task.length
            words[True] += np.frombuffer(message.payload, f"<u{width}").tolist()
    bits = 8 * width
    top = np.array(words[True], dtype=object) >> (bits - 3)
    counts = np.bincount(top.astype(int), minlength=8)
    assert stats.chisquare(counts).pvalue > 1e-6
    seen.sent.clear()
    ClusteredDPRegressor(**settings | {"n_rounds": 20, "secure_sum": "plain"}).fit(small().parties)
    plain = np.concatenate(
        [np.frombuffer(m.payload, "<i8").view("<u8") for _, sent in seen.sent for m in sent]
    )
    counts = np.bincount((plain >> np.uint64(61)).astype(int), minlength=8)
    assert stats.chisquare(counts).pvalue < 1e-6


def test_a_pickled_model_holds_no_rows():
    laws = small()
    model = ClusteredDPRegressor(**SHORT).fit(laws.parties)
    data = pickle.dumps(model)
    assert all(X.tobytes() not in data and X[0].tobytes() not in data for X, _ in laws.parties)
    again = pickle.loads(data)
    assert (again.predict(laws.parties[0][0]) == model.predict(laws.parties[0][0])).all()


def test_a_failing_party_is_named_without_its_numbers():
    class Secret(float):
        pass

    laws = small(3)
    model = ClusteredDPRegressor(**SHORT)
    from sklearn_fedpriv.cluster import _linear

    def broken(self, *args):
        raise KeyError("secret 17.25")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_linear.LinearModel, "train", broken)
        with pytest.raises(Exception, match="Party '0' failed in release 0") as caught:
            model.fit(laws.parties)
    assert "17.25" not in str(caught.value)


# --- sameness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["gaussian", "metric"])
def test_protocols_jobs_orders_and_forms_give_the_same_model(mechanism, small_primes):
    laws = small(5)
    settings = {**SHORT, "mechanism": mechanism, "n_rounds": 3, "epsilon": 300.0}
    named = [Party(*pair, name=f"p{i}") for i, pair in enumerate(laws.parties)]
    want = ClusteredDPRegressor(**settings).fit(named).hypotheses_
    paillier = PaillierSum(key_size=512, insecure_key=True)
    for change in ({"secure_sum": "plain"}, {"secure_sum": paillier}, {"n_jobs": 2}):
        again = [Party(*pair, name=f"p{i}") for i, pair in enumerate(laws.parties)]
        got = ClusteredDPRegressor(**settings, **change).fit(again).hypotheses_
        assert (got == want).all(), change
    turned = [Party(*pair, name=f"p{i}") for i, pair in enumerate(laws.parties)][::-1]
    assert (ClusteredDPRegressor(**settings).fit(Federation(turned)).hypotheses_ == want).all()
    X, y = (np.concatenate(part) for part in zip(*laws.parties, strict=True))
    labels = [f"p{i}" for i in range(5) for _ in range(8)]
    assert (ClusteredDPRegressor(**settings).fit(X, y, parties=labels).hypotheses_ == want).all()


def test_the_plan_does_not_depend_on_the_rows(monkeypatch):
    plans = []
    start = Federation.start
    monkeypatch.setattr(
        Federation, "start", lambda self, *a, **kw: plans.append((a, kw)) or start(self, *a, **kw)
    )
    for n_rows in (8, 9):
        laws = make_two_laws(n_parties=6, n_rows=n_rows, random_state=n_rows)
        ClusteredDPRegressor(**SHORT).fit(laws.parties)
    assert plans[0] == plans[1]


def test_unseeded_fits_differ_and_are_private():
    laws = small()
    settings = {**SHORT, "random_state": None}
    one, two = (ClusteredDPRegressor(**settings).fit(laws.parties) for _ in range(2))
    assert one.privacy_.private and (one.hypotheses_ != two.hypotheses_).all()


# --- arguments ----------------------------------------------------------------------------------


def test_what_makes_no_sense_is_refused():
    parties = small().parties
    for settings, message in (
        ({"hide_membership": False}, "goes with mechanism='metric'"),
        ({"max_leakage": 3.0}, "max_leakage of ClusteredDPRegressor is for mechanism='metric'"),
        ({"patience": 3}, "pass X_val and y_val"),
        ({"clip_norm": [1.0, 2.0], "n_rounds": 2}, "must not rise"),
        ({"clip_norm": [1.0], "n_rounds": 2}, "has 1 numbers for 2 rounds"),
        ({"clip_norm": 0.0}, "must be positive"),
        ({"epsilon": True}, "epsilon of ClusteredDPRegressor"),
        ({"calibration": "published", "noise_ratio": 101.0}, "at most 100 as published"),
    ):
        with pytest.raises(ValueError, match=message):
            ClusteredDPRegressor(**settings).fit(parties)
    with pytest.raises(TypeError, match="clip_norm must be"):
        ClusteredDPRegressor(clip_norm="1").fit(parties)
    with pytest.raises(ValueError, match="last in"):
        FallingClip(1.0, last=2.0)
    with pytest.raises(TypeError, match="real number"):
        FallingClip("1")


def test_clip_norms_fall_as_said():
    assert clip_norms(None, 10) == FallingClip(1.0, 0.05, 0.2).norms(10)
    norms = FallingClip(2.0).norms(200)
    assert norms[:41] == [2.0] * 41 and norms[41] < 2.0 and 0.1 < norms[-1] < 0.11
    assert clip_norms(0.5, 3) == [0.5] * 3 and clip_norms((3, 2, 2), 3) == [3, 2, 2]


def test_predict_names_what_is_missing():
    laws = small()
    model = ClusteredDPRegressor(**SHORT).fit(laws.parties)
    X = laws.parties[0][0]
    with pytest.raises(ValueError, match="choices go with parties"):
        model.predict(X, choices={"0": 1})
    with pytest.raises(ValueError, match=r"No choice is known of parties \['1'\]"):
        model.predict(X, parties=["0"] * 4 + ["1"] * 4, choices={"0": 0})
    with pytest.raises(ValueError, match="indices below 2"):
        model.predict(X, parties=["0"] * 8, choices={"0": 2})
    with pytest.raises(ValueError, match="one label a row"):
        model.predict(X, parties=["0"], choices={"0": 1})


def test_patience_watches_public_rows_and_the_whole_plan_is_billed():
    laws = make_two_laws(n_parties=20, random_state=0)
    public = make_two_laws(n_parties=6, random_state=1).parties
    X_val, y_val = ([pair[i] for pair in public] for i in (0, 1))
    model = ClusteredDPRegressor(
        **METRIC | {"n_rounds": 100, "noise_ratio": 0.2}, patience=3, clip_norm=2.0
    )
    model.fit(laws.parties, X_val=X_val, y_val=y_val)
    assert model.n_rounds_ < 100 and len(model.history_["counts"]) == model.n_rounds_
    cap = 35  # of 100 rounds with 7 of 20
    assert model.privacy_.epsilon == pytest.approx(cap * 60)
    assert model.leakage_ == model.privacy_.epsilon  # G13: the plan, also after a stop

    with pytest.raises(ValueError, match="6 tables came as X_val and 5"):
        model.fit(laws.parties, X_val=X_val, y_val=y_val[1:])
    with pytest.raises(ValueError, match="X_val came without"):
        model.fit(laws.parties, X_val=X_val)
    one = clone(model).fit(laws.parties, X_val=X_val[0].tolist(), y_val=y_val[0].tolist())
    assert one.n_rounds_ >= 3
    for X_bad, y_bad in (
        (X_val, [y * np.nan for y in y_val]),
        ([], []),
        (X_val[0] * 1e200, y_val[0]),
    ):
        clinic = [Party(*rows) for rows in laws.parties]
        with pytest.raises(ValueError):
            clone(model).fit(clinic, X_val=X_bad, y_val=y_bad)
        assert not clinic[0].ledger.entries

    def loss(hypotheses):
        return np.mean([min(((X @ w - y) ** 2).mean() for w in hypotheses) for X, y in public])

    losses = [loss(h) for h in model.history_["hypotheses"][1:]]
    assert int(np.argmin(losses)) == model.n_rounds_ - 1 - 3
    assert (model.hypotheses_ == model.history_["hypotheses"][1 + int(np.argmin(losses))]).all()


def test_a_hypothesis_that_nobody_uses_is_moved_beside_the_other():
    plan = Plan(100, 10, 40)
    state = _State(np.array([[0.0, 0.0], [9.0, 9.0]]), plan, 0.0)
    rng = np.random.default_rng(0)
    for t in range(19):
        state.step(t, np.zeros((2, 2)), np.array([10.0, 0.0]))
        state.move_unused(t, 1.0, rng)
    assert np.allclose(np.linalg.norm(state.hypotheses, axis=1), 1.0)
    assert np.allclose(state.hypotheses[0], -state.hypotheses[1])
    used = _State(np.array([[0.0, 0.0], [9.0, 9.0]]), plan, 0.0)
    for t in range(40):
        used.step(t, np.zeros((2, 2)), np.array([7.0, 3.0]))
        used.move_unused(t, 1.0, rng)
    assert (used.hypotheses == [[0, 0], [9, 9]]).all()


def test_few_members_make_short_steps_never_wild_ones():
    state = _State(np.zeros((2, 1)), Plan(100, 10, 10), 1.0)
    state.step(0, np.array([[1.0], [1.0]]), np.array([-30.0, 40.0]))  # noisy counts
    assert (np.abs(state.hypotheses) <= 1 / 5).all()


def test_preview_needs_public_numbers_alone():
    model = ClusteredDPRegressor(mechanism="metric", parties_per_round=7, n_rounds=200)
    shown = model.set_params(fit_intercept=False).preview(100, 1000, 2)
    assert shown.epsilon == 14 * 12 and shown.smallest_epsilon < 40
    assert shown.releases[0].noise_sd == pytest.approx(7 / 6)  # sqrt(7 * 7) nu / 6
    gaussian = ClusteredDPRegressor(epsilon=0.1).preview(100, 1000, 2)
    assert gaussian.epsilon == 0.1 < gaussian.smallest_epsilon
    with pytest.raises(ValueError, match="n_parties of preview"):
        model.preview(0, 1, 1)


def test_noise_that_drowns_is_told_of():
    laws = small()
    with pytest.warns(NoiseWarning, match="drown the updates"):
        ClusteredDPRegressor(epsilon=0.1, n_rounds=3).fit(laws.parties)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClusteredDPRegressor(epsilon=1e5, n_rounds=3).fit(laws.parties)


@pytest.mark.parametrize(
    "arguments",
    [
        {"clip_norm": FallingClip(first=1e-300, last=1e-300)},
        {"clip_norm": FallingClip(first=1e308)},
        {"mechanism": "metric", "noise_ratio": 1e-30},
        {"mechanism": "metric", "noise_ratio": 1e-307},
        {"mechanism": "metric", "noise_ratio": 1e6, "hide_membership": False},
        {"calibration": "published", "patience": 2},
    ],
)
def test_G12_what_would_fail_later_is_refused_before_anything_is_charged(arguments):
    laws = make_two_laws(n_parties=20, random_state=0)
    clinics = [Party(X[:, :1], y) for X, y in laws.parties]
    model = ClusteredDPRegressor(n_clusters=2, fit_intercept=False, n_rounds=10, **arguments)
    with pytest.raises((ValueError, RangeOverflow)):
        model.fit(clinics)
    assert not any(clinic.ledger.entries for clinic in clinics)


def test_G9_choices_in_clear_need_noise_in_full():
    """Shares of other parties do not fill the slot of a lonely one."""
    query = OpenClusterUpdate(
        LinearModel(1, 0, False, 0.1), np.zeros((2, 1)), 1.0, ("0", "1", "2"), 1, 0
    )
    parties = [(np.ones((3, 1)), np.ones(3))] * 3
    plan = Plan(3, 3, 1).releases(query)
    run = Federation(parties).start(budget(1.0, 1e-5), plan, unit="party", adjacency="replace")
    with pytest.raises(BudgetExceeded, match="noise in one slot only"):
        run.release(query, Fraction(1))

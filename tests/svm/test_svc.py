"""The estimator as its users meet it."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sklearn_fedpriv import FederatedDPSVC, Federation
from sklearn_fedpriv.datasets import load_hospitals
from sklearn_fedpriv.exceptions import (
    LongRowsWarning,
    NoiseWarning,
    PublicFactWarning,
    RangeOverflow,
)
from sklearn_fedpriv.preprocessing import PublicEncoder
from sklearn_fedpriv.privacy import AdaptiveRounds, CustomNoise
from sklearn_fedpriv.svm._training import shortened

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning")


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, centers=3, n_features=4, random_state=2, center_box=(-3, 3))
    X = X / np.linalg.norm(X, axis=1).max()
    return X, np.array(["red", "green", "blue"])[y]


@pytest.fixture(scope="module")
def hospitals():
    data = load_hospitals()
    encoder = PublicEncoder(bounds=data.public["bounds"]).fit(data.data)
    parties = encoder.transform(data.parties)
    return parties, encoder.transform(data.X_test), data.y_test, data.public["classes"]


def parties_of(X, y, n=3):
    return [(X[i::n], y[i::n]) for i in range(n)]


def svc(**settings):
    settings = {"epsilon": 4.0, "random_state": 0, "classes": ["blue", "green", "red"]} | settings
    return FederatedDPSVC(**settings)


def test_without_noise_it_is_a_linear_svc(hospitals):
    parties, X, y, classes = hospitals
    pooled = [np.concatenate(part) for part in zip(*parties, strict=True)]
    for C in (0.1, 1.0, 10.0):
        reference = LinearSVC(loss="hinge", C=C, intercept_scaling=0.25, max_iter=100_000)
        reference.fit(*pooled)
        model = svc(epsilon=np.inf, classes=classes, C=C, n_rounds=100).fit(parties)
        agree = np.mean(model.predict(X) == reference.predict(X))
        assert agree > 0.97
        assert objective(model, *pooled, C) < 1.03 * objective(reference, *pooled, C)


def objective(model, X, y, C):
    sign = np.where(y == model.classes_[1], 1, -1)
    hinge = np.maximum(0, 1 - sign * (X @ model.coef_[0] + model.intercept_[0])).sum()
    constant = model.intercept_[0] / 0.25
    return (model.coef_[0] @ model.coef_[0] + constant**2) / 2 + C * hinge


def test_a_private_model_is_a_good_one(hospitals):
    """Accuracy .95 at epsilon 2 with a spread of .01 over seeds."""
    parties, X, y, classes = hospitals
    model = svc(epsilon=2.0, classes=classes).fit(parties)
    assert model.score(X, y) > 0.9
    assert model.privacy_.releases == (("RowScale", 1), ("HingeGradient", 30))
    assert model.privacy_.epsilon == 2.0 and model.privacy_.reasons == ("random_state was set",)


@pytest.mark.parametrize("bound", [1.0, 100.0])
def test_the_steps_fit_rows_far_inside_the_bound(blobs, bound):
    X, y = blobs
    assert svc(epsilon=np.inf, bound=bound).fit(parties_of(X, y)).score(X, y) > 0.8


def test_all_forms_sums_and_numbers_of_jobs_give_the_same_bits(blobs):
    X, y = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    parties = parties_of(X, y)
    expected = svc(secure_sum="plain").fit(parties)
    labels = np.arange(len(y)) % 3
    for model in (
        svc(secure_sum="masks", n_jobs=2).fit(parties),
        svc().fit(Federation(parties)),
        svc().fit([part for part, _ in parties], [part for _, part in parties]),
        svc().fit(X, y, parties=labels),
        svc().fit(frame, y, parties=labels),
        svc().fit([(csr_matrix(part), labels) for part, labels in parties]),
        svc().fit(csr_array(X), y, parties=labels),
        svc().fit(np.asfortranarray(X), y, parties=labels),
    ):
        assert np.array_equal(model.coef_, expected.coef_)
        assert np.array_equal(model.intercept_, expected.intercept_)
    assert np.array_equal(expected.predict(csr_matrix(X)), expected.predict(X))


@pytest.mark.slow
def test_paillier_gives_the_same_bits(blobs, small_primes):
    from sklearn_fedpriv import PaillierSum

    X, y = blobs
    settings = PaillierSum(key_size=512, insecure_key=True)
    models = [
        svc(n_rounds=3, secure_sum=secure_sum).fit(parties_of(X, y))
        for secure_sum in (settings, "plain")
    ]
    assert np.array_equal(models[0].coef_, models[1].coef_)


def test_the_rbf_kernel_sees_what_a_line_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.7, 0.7, size=(800, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    scores = {
        kernel: svc(kernel=kernel, gamma=8.0, epsilon=8.0, classes=[0, 1])
        .fit(parties_of(X, y))
        .score(X, y)
        for kernel in ("linear", "rbf")
    }
    assert scores["rbf"] > 0.9 > 0.7 > scores["linear"]


def test_rbf_beats_linear_on_digits_and_both_are_private_at_4():
    digits = load_digits()
    X, y = PublicEncoder(bounds=(0, 16)).fit_transform(digits.data), digits.target
    train, test = np.arange(len(y)) % 4 > 0, np.arange(len(y)) % 4 == 0
    settings = {"classes": list(range(10)), "n_rows_hint": 1300}
    score = {}
    for kernel in ("linear", "rbf"):
        for epsilon in (4.0, np.inf):
            model = svc(kernel=kernel, epsilon=epsilon, **settings)
            model.fit(parties_of(X[train], y[train], 5))
            score[kernel, epsilon] = model.score(X[test], y[test])
    assert score["rbf", np.inf] > score["linear", np.inf]
    assert min(score.values()) > 0.9


def test_to_sklearn_is_a_fitted_linear_svc(blobs):
    X, y = blobs
    for model in (svc().fit(parties_of(X, y)), two_classes(X, y)):
        linear = pickle.loads(pickle.dumps(model.to_sklearn()))
        assert isinstance(linear, LinearSVC)
        assert np.array_equal(linear.predict(X), model.predict(X))
        assert np.allclose(linear.decision_function(X), model.decision_function(X), atol=1e-3)
    with pytest.raises(ValueError, match="kernel is 'rbf'"):
        svc(kernel="rbf").fit(parties_of(X, y)).to_sklearn()


def two_classes(X, y):
    return svc(classes=["a", "b"]).fit(parties_of(X, np.where(y == "red", "a", "b")))


def test_weights_of_classes_move_the_line(blobs):
    X, y = blobs
    y = np.where(y == "red", "b", "a")
    red = [
        np.mean(
            svc(classes=["a", "b"], class_weight=weight, epsilon=np.inf)
            .fit(parties_of(X, y))
            .predict(X)
            == "b"
        )
        for weight in ({"a": 4.0}, None, {"b": 4.0})
    ]
    assert red[0] <= red[1] <= red[2] and red[0] < red[2]


@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")
@pytest.mark.parametrize("heavy", [1024, 1025, 5000, 1e90])
def test_no_class_is_so_light_that_it_counts_for_nothing(blobs, heavy):
    """Rows of the light classes still pull, as far as they can; and the user is told."""
    model = svc(class_weight={"red": heavy}, epsilon=np.inf, n_rows_hint=600)
    problem = model._problem(model._coder(4, ("blue", "green", "red")))
    assert problem.class_levels == (1, 1, 1024)
    query, _ = problem.gradient(problem.zeros(), 0)
    X, y = blobs
    X = model._coder(4, ("blue", "green", "red")).code(X)
    assert query.ticks(X[y == "blue"], np.zeros((y == "blue").sum(), dtype=int), None).any()


def test_weights_of_classes_that_are_too_far_apart_are_told_of(blobs):
    with pytest.warns(NoiseWarning, match="above 1024 times another.*closer together") as told:
        svc(class_weight={"red": 30.0, "blue": 0.02}).fit(parties_of(*blobs))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svc(class_weight={"red": 1024.0}).fit(parties_of(*blobs))


def test_an_intercept_can_be_left_out(blobs):
    X, y = blobs
    model = svc(fit_intercept=False).fit(parties_of(X, y))
    assert not model.intercept_.any() and model.score(X, y) > 0.8


def test_a_schedule_moves_noise_between_the_rounds(blobs):
    X, y = blobs
    scores = [
        svc(noise_schedule=schedule, n_rounds=10).fit(parties_of(X, y)).coef_
        for schedule in (1.0, 0.8, CustomNoise([1.0] * 10), [1.0, *[2.0] * 9])
    ]
    assert np.array_equal(scores[0], scores[2])
    assert not np.array_equal(scores[0], scores[1]) and not np.array_equal(scores[0], scores[3])
    with pytest.raises(ValueError, match="3 variances and the fit has 10 rounds"):
        svc(noise_schedule=[1, 2, 3], n_rounds=10).fit(parties_of(X, y))


def test_rounds_are_cut_by_a_public_loss_or_one_that_is_paid_for(blobs):
    X, y = blobs
    parties, schedule = parties_of(X, y), AdaptiveRounds(discount=0.7)
    public = svc(noise_schedule=schedule, epsilon=0.5).fit(parties, X_val=X[:50], y_val=y[:50])
    assert dict(public.privacy_.releases) == {
        "RowScale": 1,
        "HingeGradient": public.n_rounds_,
    }
    assert public.n_rounds_ < 30
    paid = svc(noise_schedule=schedule, epsilon=0.5).fit(parties)
    releases = dict(paid.privacy_.releases)
    assert releases["HingeLoss"] == releases["HingeGradient"] - 1 == paid.n_rounds_ - 1 < 29
    assert paid.privacy_.epsilon == public.privacy_.epsilon == 0.5
    with pytest.raises(ValueError, match="without y_val"):
        svc().fit(parties, X_val=X)


@pytest.mark.parametrize("loss_share", [1e-9, 0.0004, 0.3, 0.9996])
def test_a_paid_loss_has_exactly_its_share(loss_share):
    model = svc(noise_schedule=AdaptiveRounds(loss_share=loss_share))
    plan = model._plan(model._problem(model._coder(4, (0, 1, 2))), public=False)
    shares = {planned.query: planned.share for planned in plan.releases()}
    assert sum(shares.values()) == 1
    assert shares["HingeLoss"] == Fraction(str(loss_share)) * (1 - shares["RowScale"])


@pytest.mark.parametrize(
    ("X_val", "y_val", "message"),
    [
        ("X", None, "X_val came without y_val"),
        (None, "y", "y_val came without X_val"),
        ("X", "short", "inconsistent numbers of samples"),
        ("X", "square", "1d array"),
        ("X", "strange", r"such as 'violet'. Drop their rows"),
        ("X", "numbers", "such as 1. Drop"),
        ("narrow", "y", "2 features, but FederatedDPSVC is expecting 4"),
        ("nan", "y", "contains NaN"),
    ],
)
@pytest.mark.parametrize("schedule", [1.0, AdaptiveRounds()])
@pytest.mark.parametrize("calibration", ["proved", "published"])
def test_public_rows_are_checked_before_anything_is_charged(
    blobs, X_val, y_val, message, schedule, calibration
):
    X, y = blobs
    given = {
        "X": X,
        "y": y,
        "narrow": X[:, :2],
        "nan": np.full_like(X, np.nan),
        "short": y[1:],
        "square": np.array([y, y]).T,
        "strange": np.where(y == "red", "violet", y),
        "numbers": np.ones(len(y), dtype=int),
        None: None,
    }
    federation = Federation(parties_of(X, y))
    model = svc(noise_schedule=schedule, calibration=calibration, n_rows_hint=600)
    with pytest.raises(ValueError, match=message):
        model.fit(federation, X_val=given[X_val], y_val=given[y_val])
    assert not any(party.ledger.entries for party in federation.parties)


def test_labels_of_public_rows_are_not_taken_for_others_that_look_alike(blobs):
    X, y = blobs
    codes = np.unique(y, return_inverse=True)[1]
    parties, settings = parties_of(X, codes), {"classes": [0, 1, 2], "epsilon": np.inf}
    with pytest.raises(ValueError, match="such as '"):
        svc(**settings).fit(parties, X_val=X, y_val=codes.astype(str))
    svc(**settings).fit(parties, X_val=X, y_val=codes.astype(float))


def test_a_loss_that_no_schedule_watches_is_not_computed(blobs, monkeypatch):
    from sklearn_fedpriv.svm import _checks

    seen = []
    loss = _checks.mean_loss
    monkeypatch.setattr(_checks, "mean_loss", lambda *args: seen.append(1) or loss(*args))
    X, y = blobs
    for schedule, rounds in ((0.9, 0), (AdaptiveRounds(patience=99), 30)):
        svc(noise_schedule=schedule).fit(parties_of(X, y), X_val=X[:9], y_val=y[:9])
        assert len(seen) == rounds


def test_a_paid_loss_sees_the_weights_of_the_classes(blobs, monkeypatch):
    """What the schedule hears is the mean weighted loss, whoever pays for it."""
    from sklearn_fedpriv.privacy._schedules import Shares

    X, y = blobs
    heard = []
    observe = Shares.observe
    monkeypatch.setattr(
        Shares, "observe", lambda self, loss: heard.append(loss) or observe(self, loss)
    )
    weight = {"red": 8.0, "blue": 2.0}
    settings = {"class_weight": weight, "n_rows_hint": 600, "epsilon": np.inf, "n_rounds": 3}
    # Steps so short that no loss passes 2, where the loss that is paid for ends.
    settings |= {"noise_schedule": AdaptiveRounds(patience=9), "learning_rate": 0.01}
    svc(**settings).fit(parties_of(X, y))
    paid = heard[::2]  # told to two cursors
    heard.clear()
    svc(**settings).fit(parties_of(X, y), X_val=X, y_val=y)
    # Each loss is rounded down to 1/512 of the largest weight.
    assert np.all(paid <= np.array(heard[:2])) and paid == pytest.approx(heard[:2], abs=8 / 512)


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio", "n_rounds"),
    [(1.0, 1e-5, 4.0, 30), (0.01, 1e-5, 4.0, 32), (0.01, 1e-5, 0.25, 32), (1e-11, 1e-11, 1.0, 3)],
)
@pytest.mark.parametrize("secure_sum", ["masks", "plain"])
def test_rounds_with_huge_noise_fit_their_words(blobs, epsilon, delta, ratio, n_rounds, secure_sum):
    """Shares of noise above 2^45 ticks, which are drawn as Python ints."""
    settings = {"noise_schedule": ratio, "n_rounds": n_rounds, "secure_sum": secure_sum}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        model = svc(epsilon=epsilon, delta=delta, **settings).fit(parties_of(*blobs))
    assert np.isfinite(model.coef_).all()


@pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.UnprovenPrivacyWarning")
@pytest.mark.parametrize("ratio", [4.0, 0.25])
@pytest.mark.parametrize("calibration", ["proved", "published"])
def test_noise_that_no_word_holds_is_refused_before_anything_is_charged(blobs, ratio, calibration):
    """A round with 2^-62 of the budget, at an epsilon that leaves even rounds their words."""
    federation = Federation(parties_of(*blobs))
    settings = {"noise_schedule": ratio, "n_rounds": 32, "calibration": calibration}
    settings |= {"epsilon": 1e-4 if calibration == "proved" else 1e-10, "n_rows_hint": 600}
    with pytest.raises(RangeOverflow):
        svc(**settings).fit(federation)
    assert not any(party.ledger.entries for party in federation.parties)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        svc(**settings | {"noise_schedule": 1.0}).fit(federation)


@pytest.mark.parametrize("learning_rate", [1e3, 1e12, 1e200, 1e308])
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
def test_no_learning_rate_carries_the_weights_away(blobs, learning_rate, epsilon):
    X, y = blobs
    settings = {"epsilon": epsilon, "C": 10.0, "n_rows_hint": 600, "bound": 1000.0}
    model = svc(learning_rate=learning_rate, **settings).fit(parties_of(1000 * X, y))
    # |w|^2 / 2 is at most the loss of a zero model: C times the number of rows.
    assert 0 < np.linalg.norm(model.coef_) <= (2 * 10.0 * 600) ** 0.5


@pytest.mark.parametrize("longest", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("factor", [1e-300, 1e-3, 2.0, 1e300])
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e300])
def test_a_shortened_vector_keeps_its_direction(factor, size, longest):
    vector = size * np.array([0.6, -0.8])
    short = shortened(factor, vector, longest)
    wanted = min(Fraction(factor) * Fraction(size), Fraction(longest))
    assert np.allclose(short, float(wanted) * np.array([0.6, -0.8]), rtol=1e-12, atol=1e-320)


@pytest.mark.parametrize("schedule", [1.0, 0.9, AdaptiveRounds(0.7), AdaptiveRounds(0.7, 1.1)])
@pytest.mark.parametrize("hint", [None, 600])
def test_the_whole_budget_is_spent_and_no_more(blobs, schedule, hint, monkeypatch):
    from sklearn_fedpriv.federation import _run

    ledgers = []
    made = _run.RunLedger.__init__
    monkeypatch.setattr(
        _run.RunLedger,
        "__init__",
        lambda self, *args: made(self, *args) or ledgers.append(self),
    )
    svc(noise_schedule=schedule, n_rows_hint=hint).fit(parties_of(*blobs))
    for ledger in ledgers:
        part = Fraction(ledger.spent) / Fraction(ledger.total)
        # A paid loss is not asked after the last round, so its last share may stay.
        least = 0.9 if isinstance(schedule, AdaptiveRounds) else 1 - Fraction(1, 10**9)
        assert least < part <= 1


def test_preview_tells_noise_from_public_numbers_and_fit_warns_as_it_says(blobs):
    X, y = blobs
    model = svc(epsilon=0.01)
    preview = model.preview(n_parties=3, n_rows=600, n_features=4)
    assert preview.smallest_epsilon > 0.01
    assert "noise wins; the gradient stands out from epsilon" in str(preview)
    with pytest.warns(NoiseWarning, match="drown the gradients"):
        model.fit(parties_of(X, y))
    enough = svc(epsilon=2 * preview.smallest_epsilon / 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough.fit(parties_of(X, y))
    assert "HingeLoss" in str(svc(noise_schedule=AdaptiveRounds()).preview(3, 600, 4))
    assert "HingeLoss" not in str(svc().preview(3, 600, 4))


def test_the_plan_does_not_look_at_the_rows(blobs):
    X, y = blobs
    plans = []
    for part in (slice(None), slice(1, None)):
        federation = Federation(parties_of(X[part], y[part]))
        start = federation.start
        federation.start = lambda *args, start=start, **kw: (
            plans.append(args[1]) or start(*args, **kw)
        )
        model = svc()
        problem = model._problem(model._coder(4, (0, 1, 2)))
        model._start(federation, model._plan(problem, public=False).releases())
    assert plans[0] == plans[1]


def test_rows_that_lose_their_length_are_told_of_without_a_number(blobs):
    X, y = blobs
    with pytest.warns(LongRowsWarning, match="Parties '0', '1', '2': most rows are longer") as told:
        svc().fit(parties_of(100 * X, y))
    assert len(told) == 1
    with pytest.warns(LongRowsWarning):
        svc().fit(parties_of(csr_matrix(100 * X), y))


def test_facts_that_nobody_declared_make_the_report_conditional(blobs):
    X, y = blobs
    with pytest.warns(PublicFactWarning, match=r"FederatedDPSVC\(classes=\['blue'"):
        model = svc(classes=None).fit(parties_of(X, y))
    assert model.privacy_.proved == "conditional"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"class_weight": {"violet": 2.0}}, "class_weight of FederatedDPSVC must map"),
        ({"class_weight": {"red": -1.0}}, "positive numbers"),
        ({"class_weight": {"red": 1e101}}, "from 1e-100 to 1e100"),
        ({"class_weight": "balanced"}, "is private. Give a dict"),
        ({"bound": 0.0}, "'bound' parameter"),
        ({"noise_schedule": 0.0}, "must be positive"),
        ({"kernel": "poly"}, "'kernel' parameter"),
        ({"epsilon": True}, "epsilon"),
        ({"parties_per_round": 2}, "calibration='published'"),
    ],
)
def test_wrong_settings_are_refused(blobs, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        svc(**settings).fit(parties_of(*blobs))


def test_sums_that_could_wrap_are_refused_before_anything_is_charged(blobs):
    X, y = blobs
    federation = Federation(parties_of(X, y))
    with pytest.raises(RangeOverflow):
        svc(epsilon=1e-14, delta=1e-14).fit(federation)
    assert all(party.ledger.epsilon == 0 for party in federation.parties)


def test_a_pipeline_takes_every_form(hospitals):
    data = load_hospitals()
    model = make_pipeline(
        PublicEncoder(bounds=data.public["bounds"]),
        svc(classes=data.public["classes"], epsilon=2.0),
    )
    expected = clone(model).fit(data.parties)[-1].coef_
    assert np.array_equal(clone(model).fit(Federation(data.parties))[-1].coef_, expected)
    labels = np.concatenate([[i] * len(y) for i, (_, y) in enumerate(data.parties)])
    X, y = (np.concatenate(part) for part in zip(*data.parties, strict=True))
    fitted = clone(model).fit(X, y, federateddpsvc__parties=labels)
    assert np.array_equal(fitted[-1].coef_, expected)
    assert fitted.score(data.X_test, data.y_test) > 0.9

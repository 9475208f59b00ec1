"""The published method runs as printed, and promises nothing."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

from sklearn_fedpriv import FederatedDPNeuralNetClassifier, Federation
from sklearn_fedpriv._torch import LocalNet, build_net, get_flat
from sklearn_fedpriv.exceptions import BudgetExceeded, UnprovenPrivacyWarning
from sklearn_fedpriv.federation._query import Tools
from sklearn_fedpriv.neural_network import SmallNet
from sklearn_fedpriv.neural_network._published import (
    NoisyEpochs,
    normal_noise,
    published_noise,
    published_plan,
    steps_of,
)
from sklearn_fedpriv.privacy._ledger import budget
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.privacy._sampling import sampled_epsilon

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_fedpriv.exceptions.UnprovenPrivacyWarning",
    "ignore::sklearn_fedpriv.exceptions.NotPrivateWarning",
)
RATE = Fraction(1, 4)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    return X, (X[:, 0] > 0).astype(np.int64)


def net():
    return build_net(SmallNet, seed=0, n_features=3, n_classes=2, options={"lr": 0.1})


def model(**settings):
    settings = {
        "n_rounds": 6,
        "sampling_rate": 0.25,
        "classes": [0, 1],
        "random_state": 0,
    } | settings
    return FederatedDPNeuralNetClassifier(SmallNet, calibration="published", **settings)


def parties_of(X, y, n=4):
    return [(X[i::n], y[i::n]) for i in range(n)]


def test_the_noise_of_a_step_keeps_the_claim_if_it_is_not_divided():
    noise = published_noise(
        budget(0.5, 1e-5), clip_norm=4.0, rate=Fraction(1, 100), n_steps=10_000, unknown_shares=9
    )
    multiplier = noise * 9**0.5 / 4.0
    # The paper's sigma is 8 at (0.5, 1e-5) by a looser accountant; exactly, that costs 0.44.
    assert 6.5 < multiplier < 8
    spent = sampled_epsilon(Fraction(multiplier), Fraction(1, 10**5), Fraction(1, 100), 10_000)
    assert 0.49 < spent <= 0.5
    free = {"clip_norm": 1.0, "rate": RATE, "n_steps": 8, "unknown_shares": 1}
    assert published_noise(budget(inf, 1e-5), **free) == 0
    full = published_noise(budget(1.0, 1e-5), **{**free, "rate": Fraction(1)})
    assert full == pytest.approx(8**0.5 * 3.73, rel=0.01)  # 1 / mu(1, 1e-5) of one Gaussian


def test_float_noise_is_standard_normal():
    """Kolmogorov and Smirnov on 10^5 numbers of a fixed key: no chance in it."""
    noise = normal_noise(Stream(bytes(32)), 100_000)
    assert np.isfinite(noise).all() and kstest(noise, "norm").pvalue > 1e-3


def test_an_epoch_without_noise_is_plain_clipped_descent(rows):
    X, y = rows
    code = LocalNet(net(), (3,), by_rows=True)
    weights = get_flat(net().module_)
    query = NoisyEpochs(weights, 0.5, Fraction(1), 2, 0.0)
    change = query.local(X, y, Tools(Stream(bytes(32)), code=code))
    expected = weights
    for _ in range(2):
        expected = expected - 0.1 * code.gradient_sum(expected, X, y, 0.5, 0) / len(X)
    assert np.allclose(change, expected - weights, atol=1e-6)
    again = query.local(X, y, Tools(Stream(bytes(32)), code=code))
    assert np.array_equal(change, again)  # a fresh optimizer each time


def test_noise_is_in_every_step_and_is_divided_by_the_sample(rows):
    """Chi-square: the noise of an epoch of a net that learns nothing is a walk of 4 steps."""
    X, y = rows
    wide = build_net(Wide, seed=0, options={"lr": 0.1})
    code = LocalNet(wide, (3,), by_rows=True)
    weights = np.zeros(len(get_flat(wide.module_)))
    query = NoisyEpochs(weights, 2.0**-90, RATE, 1, 50.0)
    stream, squares, sizes = Stream(bytes(32)), [], []
    sample = Sizes(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_fedpriv.neural_network._published.poisson_sample", sample)
        squares = (query.local(X, y[:, None] * 1.0, Tools(stream, code=code)) ** 2).mean()
    assert len(sizes) == steps_of(RATE) == 4 and min(sizes) > 50
    expected = sum((0.1 * 50.0 / size) ** 2 for size in sizes)
    assert squares == pytest.approx(expected, rel=6 * (2 / len(weights)) ** 0.5)


class Sizes:
    def __init__(self, sizes):
        self.sizes = sizes

    def __call__(self, n_rows, rate, stream):
        index = np.arange(n_rows)[: 60 + 20 * len(self.sizes)]
        self.sizes.append(len(index))
        return index


class Wide(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 1000), nn.Linear(1000, 1))


def test_an_empty_sample_makes_no_step(rows):
    X, y = rows
    code = LocalNet(net(), (3,), by_rows=True)
    query = NoisyEpochs(get_flat(net().module_), 1.0, Fraction(1, 10**6), 1, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_fedpriv.neural_network._published.steps_of", lambda rate: 5)
        assert not query.local(X, y, Tools(Stream(bytes(32)), code=code)).any()


def test_weights_are_averaged_over_the_parties(rows):
    X, y = rows
    fitted = model(epsilon=inf, n_rounds=1, sampling_rate=1.0).fit(parties_of(X, y))
    apart = [
        model(epsilon=inf, n_rounds=1, sampling_rate=1.0).fit(*party) for party in parties_of(X, y)
    ]
    mean = np.mean([get_flat(one.net_.module_) for one in apart], axis=0)
    assert np.allclose(get_flat(fitted.net_.module_), mean, atol=1e-4)


def test_it_learns_is_reproducible_and_promises_nothing(rows):
    X, y = rows
    with pytest.warns(UnprovenPrivacyWarning):
        fitted = model(epsilon=8.0, local_epochs=2).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.85
    again = model(epsilon=8.0, local_epochs=2, secure_sum="plain", n_jobs=2).fit(parties_of(X, y))
    assert np.array_equal(get_flat(fitted.net_.module_), get_flat(again.net_.module_))
    report = fitted.privacy_
    assert report.epsilon == report.server_epsilon == inf and report.claimed_epsilon == 8.0
    assert report.proved == "no" and report.releases == (("NoisyEpochs", 6),)
    assert "in each local step" in str(report) and fitted.n_rounds_ == 6


def test_more_parties_divide_the_noise_further(rows):
    X, y = rows
    said = [model().fit(parties_of(X, y, n)).privacy_.mechanism for n in (2, 5)]
    noise = [float(text.split("deviation ")[1].split()[0]) for text in said]
    assert noise[0] / noise[1] == pytest.approx(2, rel=0.01)
    lonely = model(min_honest=2).fit(parties_of(X, y, 5)).privacy_.mechanism
    assert float(lonely.split("deviation ")[1].split()[0]) == noise[0]


def test_proved_terms_refuse_noise_that_is_only_claimed(rows):
    X, y = rows
    query = NoisyEpochs(get_flat(net().module_), 1.0, RATE, 1, 0.0)
    code = LocalNet(net(), (3,), by_rows=True)
    run = Federation(parties_of(X, y)).start(budget(1.0, 1e-5), published_plan(query, 3), code=code)
    with pytest.raises(BudgetExceeded, match="claimed, not proved"):
        run.release(query, Fraction(1, 3))


@pytest.mark.parametrize("settings", [{"unit": "party"}, {"noise_schedule": 0.9}])
def test_what_the_paper_does_not_say_is_refused(rows, settings):
    with pytest.raises(ValueError, match="needs unit='record' and noise_schedule=1"):
        model(**settings).fit(*rows)


def test_preview_is_about_proved_noise():
    with pytest.raises(ValueError, match="calibration='proved'"):
        model().preview(5, 100, 3)


def test_dropout_is_drawn_anew_in_each_step(rows):
    X, y = rows
    dropping = build_net(Dropping, seed=0, n_classes=2, options={"lr": 0.1})
    code = LocalNet(dropping, (3,), by_rows=True)
    query = NoisyEpochs(get_flat(dropping.module_), 1.0, Fraction(1), 1, 0.0)
    first, second = (query.local(X, y, Tools(Stream(bytes([i] * 32)), code=code)) for i in (0, 1))
    assert not np.array_equal(first, second)
    assert torch.is_grad_enabled()


class Dropping(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 2), nn.Softmax(dim=1))

"""``AdaptiveRounds``: cut short by a public loss, or by one that the parties release."""

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from sklearn_fedpriv import FederatedDPNeuralNetClassifier, FederatedDPNeuralNetRegressor
from sklearn_fedpriv._torch import LocalNet, build_net, get_flat
from sklearn_fedpriv.federation._query import Tools
from sklearn_fedpriv.neural_network import FemnistCNN, SmallNet
from sklearn_fedpriv.neural_network import _base as base_module
from sklearn_fedpriv.neural_network._queries import (
    LARGEST_LOSS,
    LEVELS,
    NetLoss,
    PartyLoss,
    in_levels,
)
from sklearn_fedpriv.privacy import AdaptiveRounds
from sklearn_fedpriv.privacy._randomness import Stream

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_fedpriv.exceptions.NoiseWarning",
    "ignore::sklearn_fedpriv.exceptions.NotPrivateWarning",
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    return X, (X[:, 0] > 0).astype(int)


def parties_of(X, y, n=3):
    return [(X[i::n], y[i::n]) for i in range(n)]


def model(**settings):
    settings = {
        "sampling_rate": 1.0,
        "n_rounds": 30,
        "n_rows_hint": 300,
        "noise_schedule": AdaptiveRounds(0.5),
        "epsilon": 50.0,
        "classes": [0, 1],
        "random_state": 0,
    } | settings
    return FederatedDPNeuralNetClassifier(SmallNet, **settings)


@pytest.mark.parametrize(
    ("unit", "gradient", "loss"),
    [("record", "ClippedGradient", "NetLoss"), ("party", "LocalUpdate", "PartyLoss")],
)
def test_losses_are_released_and_paid_for_without_public_rows(rows, unit, gradient, loss):
    fitted = model(unit=unit).fit(parties_of(*rows))
    done = dict(fitted.privacy_.releases)
    assert done[gradient] == fitted.n_rounds_ < 30
    assert done[loss] == fitted.n_rounds_ - 1  # after the last round nothing is left to cut
    assert fitted.privacy_.epsilon == 50.0 and fitted.privacy_.unit == unit


def test_public_rows_are_watched_for_nothing(rows):
    X, y = rows
    fitted = model().fit(parties_of(X, y), X_val=X[:50], y_val=y[:50])
    assert dict(fitted.privacy_.releases) == {"ClippedGradient": fitted.n_rounds_}
    worse = model().fit(parties_of(X, y), X_val=X[:50], y_val=1 - y[:50])
    assert worse.n_rounds_ < fitted.n_rounds_  # the loss on wrong labels never falls


def test_losses_and_gradients_share_the_whole_budget(rows):
    estimator = model(noise_schedule=AdaptiveRounds(0.5, loss_share=0.2))
    gradients, losses = estimator._plan(np.zeros(10))
    assert gradients.share + losses.share == 1 and losses.share == pytest.approx(0.2)
    assert (losses.count, losses.length, losses.squared) == (30, 30, LEVELS**2)
    assert len(estimator._plan(np.zeros(10), public=True)) == 1


def test_regressors_watch_their_loss_too(rows):
    X, _ = rows
    estimator = FederatedDPNeuralNetRegressor(
        SmallNet,
        epsilon=inf,
        sampling_rate=1.0,
        n_rounds=20,
        n_rows_hint=300,
        noise_schedule=AdaptiveRounds(0.5),
        random_state=0,
    )
    fitted = estimator.fit(parties_of(X, X[:, 0]), X_val=X[:50], y_val=-X[:50, 0])
    assert fitted.n_rounds_ < 20


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"X_val": np.ones((2, 3))}, "y_val of as many rows"),
        ({"X_val": np.ones((2, 3)), "y_val": [1]}, "y_val of as many rows"),
        ({"X_val": np.ones((2, 3)), "y_val": [1, 7]}, "outside the classes"),
        ({"X_val": np.ones((2, 4)), "y_val": [1, 0]}, "features"),
    ],
)
def test_public_rows_are_checked_before_anything_is_charged(rows, given, text, monkeypatch):
    monkeypatch.setattr(base_module.FederatedNet, "_start", lambda *a, **k: pytest.fail("charged"))
    with pytest.raises(ValueError, match=text):
        model().fit(parties_of(*rows), **given)


def code_of(module, n_classes, shape):
    net = build_net(module, seed=0, n_features=shape[-1], n_classes=n_classes)
    return LocalNet(net, shape, by_rows=False), get_flat(net.module_)


def test_a_row_moves_the_sum_of_losses_by_itself_alone(rows):
    X, y = rows
    code, weights = code_of(SmallNet, 2, (3,))
    hostile = X.astype(np.float32)
    hostile[1], hostile[2], hostile[3] = np.nan, np.inf, 1e30
    tools = Tools(Stream(bytes(32)), code=code)
    query = NetLoss(weights)
    one_by_one = [int(query.ticks(hostile[i : i + 1], y[i : i + 1], tools)[0]) for i in range(20)]
    assert max(one_by_one) <= LEVELS and one_by_one[1] == LEVELS
    assert int(query.ticks(hostile[:20], y[:20], tools)[0]) == sum(one_by_one)
    mean = PartyLoss(weights).ticks(hostile[:20], y[:20], tools)
    assert mean.tolist() == [sum(one_by_one) // 20]


def test_losses_have_no_dropout_and_leave_the_net_in_training(rows):
    code, weights = code_of(FemnistCNN, 62, (784,))
    X = np.random.default_rng(0).random((3, 784)).astype(np.float32)
    losses = [code.losses(weights, X, np.arange(3)) for _ in range(2)]
    assert np.array_equal(*losses) and np.all(losses[0] > 0)
    assert code._mine().module_.training


def test_levels_are_whole_and_bounded():
    losses = np.array([-1.0, 0.0, LARGEST_LOSS / LEVELS, 1.0, 9e9, np.inf, -np.inf, np.nan])
    levels = in_levels(losses)
    assert levels.dtype == np.int64
    assert levels.tolist() == [0, 0, 1, LEVELS // 8, LEVELS, LEVELS, 0, LEVELS]


@pytest.mark.parametrize("loss_share", [1e-9, 0.0004, 0.3, 0.9996])
def test_losses_get_exactly_their_share(loss_share):
    schedule = AdaptiveRounds(0.8, loss_share=loss_share)
    net = FederatedDPNeuralNetClassifier(
        None, sampling_rate=1.0, n_rounds=5, noise_schedule=schedule
    )
    rounds, losses = net._shares(public=False)
    assert sum(losses.planned()) == Fraction(str(loss_share))
    assert sum(rounds.planned()) == 1 - sum(losses.planned())

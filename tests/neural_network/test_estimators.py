"""The estimators as their users meet them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_blobs
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

from sklearn_fedpriv import (
    FederatedDPNeuralNetClassifier,
    FederatedDPNeuralNetRegressor,
    Federation,
    Party,
)
from sklearn_fedpriv.exceptions import (
    BudgetExceeded,
    NoiseWarning,
    NotPrivateWarning,
    PublicFactWarning,
)
from sklearn_fedpriv.neural_network import AmplitudeMLP, MnistCNN, SmallNet
from sklearn_fedpriv.neural_network import _training as training_module
from sklearn_fedpriv.neural_network._queries import ClippedGradient
from sklearn_fedpriv.privacy import AdaptiveRounds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NoiseWarning")


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, centers=3, n_features=4, random_state=2, center_box=(-3, 3))
    return X, np.array(["red", "green", "blue"])[y]


def parties_of(X, y, n=3):
    return [(X[i::n], y[i::n]) for i in range(n)]


def model(net=SmallNet, **settings):
    defaults = {
        "epsilon": 4.0,
        "n_rounds": 8,
        "sampling_rate": 0.25,
        "n_rows_hint": 600,
        "classes": ["blue", "green", "red"],
        "random_state": 0,
        "secure_sum": "plain",
    }
    return FederatedDPNeuralNetClassifier(net, **defaults | settings)


def flat(fitted):
    return np.concatenate([p.detach().numpy().ravel() for p in fitted.net_.module_.parameters()])


def test_a_private_model_is_a_good_one(blobs):
    X, y = blobs
    fitted = model(n_rounds=60, epsilon=3.0).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.75
    assert fitted.privacy_.releases == (("ClippedGradient", 60),)
    assert fitted.privacy_.epsilon == 3.0 and fitted.privacy_.reasons == ("random_state was set",)
    assert "60 steps" in fitted.privacy_.mechanism and "rate 0.25" in fitted.privacy_.mechanism


def test_all_forms_sums_and_numbers_of_jobs_give_the_same_bits(blobs):
    X, y = blobs
    parties = parties_of(X, y)
    expected = flat(model().fit(parties))
    labels = np.arange(len(y)) % 3
    frame = pd.DataFrame(X, columns=list("abcd"))
    for fitted in (
        model(secure_sum="masks", n_jobs=2).fit(parties),
        model().fit(Federation(parties, secure_sum="plain")),
        model().fit([part for part, _ in parties], [part for _, part in parties]),
        model().fit(X, y, parties=labels),
        model().fit(frame, y, parties=labels),
    ):
        assert np.array_equal(flat(fitted), expected)
    assert not np.array_equal(flat(model(random_state=1).fit(parties)), expected)


def test_images_flat_or_shaped_of_bytes_or_floats_give_the_same_model():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 256, size=(60, 784), dtype=np.uint8), np.arange(60) % 10
    settings = {"n_rounds": 2, "n_rows_hint": 60, "classes": list(range(10)), "epsilon": 50.0}
    fitted = model(AmplitudeMLP, **settings).fit(X, y)
    for other in (X.astype(float), X.reshape(-1, 1, 28, 28)):
        assert np.array_equal(flat(model(AmplitudeMLP, **settings).fit(other, y)), flat(fitted))
    assert fitted.predict(X).dtype == y.dtype


@pytest.mark.parametrize("labels", [[3, 7, 40], ["a", "b", "c"], [-1.0, 0.0, 2.0]])
def test_labels_keep_their_type(blobs, labels):
    X, y = blobs
    y = np.array(labels)[np.searchsorted(["blue", "green", "red"], y)]
    fitted = model(classes=labels, n_rounds=2).fit(parties_of(X, y))
    assert fitted.predict(X).dtype == y.dtype and set(fitted.predict(X)) <= set(labels)
    assert fitted.classes_.tolist() == labels


def test_a_party_may_have_one_class_if_classes_are_declared(blobs):
    X, y = blobs
    parties = [(X[y == label], y[y == label]) for label in ("red", "green", "blue")]
    fitted = model(n_rounds=2).fit(parties)
    assert fitted.predict_proba(X).shape == (600, 3)
    with pytest.warns(PublicFactWarning):
        assert model(classes=None, n_rounds=1).fit(parties).privacy_.proved == "conditional"


def test_the_plan_reads_no_row(blobs):
    X, y = blobs
    plans = []
    original = Federation.start

    def start(self, budget, plan, **kwargs):
        plans.append((budget, tuple(plan)))
        return original(self, budget, plan, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Federation, "start", start)
        for n in (600, 599, 30):
            model(n_rounds=1).fit(X[:n], y[:n])
    assert plans[0] == plans[1] == plans[2]


def test_sums_are_divided_by_the_public_size_of_a_sample(blobs, monkeypatch):
    X, y = blobs
    divided = []
    monkeypatch.setattr(
        training_module._torch, "apply_gradient", lambda net, mean, factor: divided.append(mean)
    )
    for n in (600, 300):
        model(n_rounds=1, n_rows_hint=n, epsilon=9.0).fit(parties_of(X, y))
    assert np.allclose(divided[0] * 2, divided[1])


def test_more_steps_than_planned_are_refused(blobs):
    X, y = blobs
    runs = []
    original = Federation.start
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Federation, "start", lambda *a, **k: runs.append(original(*a, **k)) or runs[-1]
        )
        fitted = model(n_rounds=2).fit(parties_of(X, y))
    query = ClippedGradient(flat(fitted).astype(float), 1.0, fitted._rate)
    with pytest.raises(BudgetExceeded, match="no further"):
        runs[0].release(query, fitted._rate)


def test_a_party_vetoes_a_fit_before_anything_is_asked(blobs):
    X, y = blobs
    clinic = Party(X, y, name="clinic", max_epsilon=1.0)
    with pytest.raises(BudgetExceeded, match="clinic"):
        model(epsilon=2.0).fit([clinic])
    assert not clinic.ledger.entries


def test_nets_that_mix_rows_are_refused_before_anything_is_charged(blobs):
    X, y = blobs
    clinic = Party(X, y, name="clinic")
    with pytest.raises(ValueError, match="BatchNorm1d"):
        model(Normed).fit([clinic])
    assert not clinic.ledger.entries
    party_level = model(Normed, unit="party", n_rounds=1, epsilon=50.0)
    with pytest.raises(ValueError, match="BatchNorm1d"):
        party_level.fit([clinic])


class Normed(nn.Sequential):
    def __init__(self, n_features=None, n_classes=None):
        super().__init__(
            nn.Linear(n_features, 6), nn.BatchNorm1d(6), nn.Linear(6, n_classes), nn.Softmax(dim=1)
        )


class Logits(nn.Sequential):
    def __init__(self, n_features=None, n_classes=None):
        super().__init__(nn.Linear(n_features, 6), nn.Tanh(), nn.Linear(6, n_classes or 1))


def test_a_skorch_net_gives_criterion_optimizer_and_nonlinearity(blobs):
    X, y = blobs
    net = NeuralNetClassifier(
        Logits,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=0.05,
        iterator_valid__num_workers=0,
    )
    before = net.get_params(deep=False)
    fitted = model(net, n_rounds=40, epsilon=20.0).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.8
    assert np.allclose(fitted.predict_proba(X).sum(axis=1), 1)
    assert isinstance(fitted.net_.optimizer_, torch.optim.Adam)
    assert not hasattr(net, "module_") and net.get_params(deep=False) == before


def test_the_net_is_a_skorch_net(blobs, tmp_path):
    X, y = blobs
    fitted = model(n_rounds=2).fit(parties_of(X, y))
    net = fitted.net_
    assert isinstance(net, NeuralNetClassifier) and net.train_split is None
    assert net.classes_.tolist() == [0, 1, 2]
    probabilities = net.predict_proba(X.astype(np.float32))
    assert np.allclose(probabilities, fitted.predict_proba(X), atol=1e-6)
    net.save_params(f_params=tmp_path / "weights.pt")
    fresh = NeuralNetClassifier(SmallNet, module__n_features=4, module__n_classes=3).initialize()
    fresh.load_params(f_params=tmp_path / "weights.pt")
    assert np.array_equal(fresh.predict_proba(X.astype(np.float32)), probabilities)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert clone(fitted).get_params()["n_rounds"] == 2


def test_a_row_is_predicted_alone_as_among_others(blobs):
    X, y = blobs
    fitted = model(n_rounds=2).fit(parties_of(X, y))
    together = fitted.predict_proba(X[:9])
    assert all(np.array_equal(fitted.predict_proba(X[[i]])[0], together[i]) for i in range(9))


@pytest.mark.parametrize(
    ("setting", "ours"),
    [
        ({"max_epochs": 3}, "n_rounds"),
        ({"batch_size": 64}, "sampling_rate"),
        ({"callbacks": [("a", None)]}, "verbose"),
        ({"warm_start": True}, "anew"),
        ({"iterator_train": list}, "sampling_rate"),
        ({"train_split": len}, "held out"),
    ],
)
def test_settings_that_are_not_used_are_refused(blobs, setting, ours):
    with pytest.raises(ValueError, match=f"{next(iter(setting))}.*{ours}"):
        model(NeuralNetClassifier(SmallNet, **setting)).fit(*blobs)


def test_settings_left_alone_or_off_are_fine(blobs):
    X, y = blobs
    net = clone(NeuralNetClassifier(SmallNet, train_split=None, callbacks="disable", verbose=0))
    model(net, n_rounds=1).fit(X, y)
    model(clone(NeuralNetClassifier(SmallNet)), n_rounds=1).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"n_rows_hint": None}, "n_rows_hint"),
        ({"noise_schedule": 0.9}, "noise_schedule"),
        ({"noise_schedule": AdaptiveRounds()}, "their number is fixed"),
        ({"unit": "party", "max_participations": 7}, "max_participations"),
        ({"delta": 1e-12}, "delta"),
        ({"sampling_rate": 0.0}, "sampling_rate"),
        ({"epsilon": True}, "epsilon"),
        ({"net": SmallNet(4, 3)}, "net"),
        ({"net": NeuralNetClassifier(SmallNet, module__n_classes=2)}, "classes"),
    ],
)
def test_arguments_are_checked(blobs, settings, text):
    with pytest.raises((ValueError, TypeError), match=text):
        model(**settings).fit(*blobs)


def test_without_sampling_rounds_share_the_budget_by_a_schedule(blobs):
    X, y = blobs
    fitted = model(sampling_rate=1.0, noise_schedule=0.8, n_rounds=20).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.6
    assert "sample" not in fitted.privacy_.mechanism


def test_parties_are_protected_by_federated_averaging(blobs):
    X, y = blobs
    settings = {"unit": "party", "epsilon": 1e4, "n_rounds": 8, "n_rows_hint": None}
    fitted = model(**settings, server_momentum=0.5, max_participations=8).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.8
    report = fitted.privacy_
    assert (report.unit, report.adjacency) == ("party", "replace")
    assert report.releases == (("LocalUpdate", 8),)


def test_numbers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 2))
    y = X[:, 0] - X[:, 1] ** 2
    settings = {"epsilon": 20.0, "sampling_rate": 0.25, "n_rows_hint": 800, "random_state": 0}
    fitted = FederatedDPNeuralNetRegressor(SmallNet, n_rounds=60, **settings).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.8 and fitted.predict(X).shape == (800,)
    net = NeuralNetRegressor(Logits, criterion=nn.HuberLoss, lr=0.5)
    again = FederatedDPNeuralNetRegressor(net, n_rounds=60, **settings).fit(parties_of(X, y))
    assert again.score(X, y) > 0.5
    with pytest.raises(ValueError, match="one number"):
        FederatedDPNeuralNetRegressor(MnistCNN, **settings).fit(rng.normal(size=(20, 784)), y[:20])


def test_preview_tells_the_noise_and_where_the_signal_wins():
    estimator = FederatedDPNeuralNetClassifier(SmallNet, n_rounds=20)
    preview = estimator.preview(10, 60_000, 20, n_classes=3)
    assert preview.smallest_epsilon < 1.0 and "20 x ClippedGradient" in str(preview)
    small = estimator.preview(2, 100, 20)
    assert small.smallest_epsilon > 1.0
    party = FederatedDPNeuralNetClassifier(SmallNet, unit="party", n_rounds=5)
    assert "LocalUpdate" in str(party.preview(100, 1000, 4))
    assert party.preview(10, 1, 4).smallest_epsilon > party.preview(1000, 1, 4).smallest_epsilon


@pytest.mark.filterwarnings("default::sklearn_fedpriv.exceptions.NoiseWarning")
def test_what_is_not_private_or_drowned_says_so(blobs):
    X, y = blobs
    with pytest.warns(NotPrivateWarning):
        fitted = model(epsilon=np.inf, n_rounds=30).fit(parties_of(X, y))
    assert fitted.score(X, y) > 0.75
    with pytest.warns(NoiseWarning):
        model(epsilon=0.05, n_rounds=1).fit(parties_of(X, y))


def test_plain_sums_tell_the_server_more(blobs):
    X, y = blobs
    report = model(n_rounds=4).fit(parties_of(X, y)).privacy_
    assert report.epsilon < report.server_epsilon < 60


def test_a_module_of_a_function_works(blobs):
    class Local(Logits):
        pass

    net = NeuralNetClassifier(Local, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam)
    local = model(net, n_rounds=3, n_jobs=2).fit(parties_of(*blobs))
    net = NeuralNetClassifier(Logits, criterion=nn.CrossEntropyLoss, optimizer=torch.optim.Adam)
    known = model(net, n_rounds=3).fit(parties_of(*blobs))
    assert np.array_equal(flat(local), flat(known))
    model(Local, unit="party", n_rounds=1, epsilon=50.0).fit(parties_of(*blobs))


def test_no_global_random_state_is_read_or_moved(blobs):
    X, y = blobs
    kept = torch.get_rng_state()
    fits = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        fits.append(flat(model(n_rounds=2, epsilon=30.0).fit(parties_of(X, y))))
        assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(*fits)
    torch.set_rng_state(kept)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_device_is_used(blobs):
    X, y = blobs
    fitted = model(NeuralNetClassifier(SmallNet, device="cuda"), n_rounds=2).fit(X, y)
    assert next(fitted.net_.module_.parameters()).is_cuda

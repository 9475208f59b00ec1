"""Clustered estimators around a net."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from skorch import NeuralNetRegressor
from torch import nn

from sklearn_fedpriv import ClusteredDPClassifier, ClusteredDPRegressor
from sklearn_fedpriv._torch import get_flat
from sklearn_fedpriv.cluster._nets import build_trainer
from sklearn_fedpriv.datasets import make_two_laws
from sklearn_fedpriv.neural_network import SmallNet

pytestmark = pytest.mark.filterwarnings("ignore::sklearn_fedpriv.exceptions.NotPrivateWarning")


class Line(nn.Linear):
    """A linear model as a net, starting at zero."""

    def __init__(self, n_features=None):
        super().__init__(n_features, 1)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)
        self.double()


class Two(nn.Linear):
    """Two outputs."""

    def __init__(self):
        super().__init__(2, 2)


class Mixing(nn.Sequential):
    """Rows of a batch see each other."""

    def __init__(self):
        super().__init__(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def laws():
    return make_two_laws(n_parties=8, n_rows=20, random_state=0)


def test_a_linear_net_does_what_the_linear_model_does():
    """SGD on the squared error from zero: the same steps, hence the same hypotheses."""
    settings = {"epsilon": np.inf, "n_rounds": 8, "random_state": 0}
    net = ClusteredDPRegressor(Line, **settings).fit(laws().parties)
    linear = ClusteredDPRegressor(**settings).fit(laws().parties)
    assert np.allclose(net.hypotheses_, linear.hypotheses_, atol=1e-5)
    assert (net.history_["counts"] == linear.history_["counts"]).all()
    X, y = laws().parties[0]
    assert net.choose(X, y) == linear.choose(X, y)
    assert np.allclose(net.predict(X), linear.predict(X), atol=1e-4)


@pytest.mark.parametrize("mechanism", ["gaussian", "metric"])
def test_a_party_gets_a_net_of_its_own(mechanism):
    model = ClusteredDPRegressor(
        NeuralNetRegressor(SmallNet, criterion=nn.MSELoss, lr=0.05),
        mechanism=mechanism,
        epsilon=1e5,
        noise_ratio=0.01,
        n_rounds=5,
        batch_size=10,
        random_state=0,
    ).fit(laws().parties)
    X, y = laws().parties[0]
    own, index = model.personalize(X, y), model.choose(X, y)
    assert (get_flat(own.module_) == model.hypotheses_[index].astype(np.float32)).all()
    told = model.predict(X, parties=["me"] * 20, choices={"me": index})
    assert np.allclose(own.predict(X.astype(np.float32))[:, 0], told, atol=1e-5)
    own.module_[0].weight.data.zero_()
    assert np.allclose(told, model.predict(X, parties=["me"] * 20, choices={"me": index}))
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()


def test_classes_of_a_net():
    parties = [(X, np.where(y > 0, "up", "down")) for X, y in laws().parties]
    model = ClusteredDPClassifier(
        SmallNet,
        epsilon=1e6,
        n_rounds=10,
        learning_rate=0.5,
        classes=["down", "up"],
        random_state=0,
    ).fit(parties)
    X, y = parties[0]
    index = model.choose(X, y)
    told = {"parties": ["me"] * 20, "choices": {"me": index}}
    assert (model.predict(X, **told) == y).mean() > 0.7
    assert np.allclose(model.predict_proba(X, **told).sum(axis=1), 1, atol=1e-5)


def test_no_gradient_of_a_party_stays_in_a_model():
    """The nets that were trained at parties have gradients and momenta; a model keeps none."""
    model = ClusteredDPRegressor(
        NeuralNetRegressor(SmallNet, optimizer=torch.optim.SGD, optimizer__momentum=0.9, lr=0.05),
        epsilon=np.inf,
        n_rounds=2,
        random_state=0,
    ).fit(laws().parties)
    assert vars(model._trainer._local) == {}
    assert all(p.grad is None for p in model._trainer._net.module_.parameters())
    model.choose(*laws().parties[0])
    assert vars(model._trainer._local) == {}


def test_losses_are_means_in_evaluation_mode():
    trainer, weights, rows = build_trainer(SmallNet, (2,), (), bytes(32), None, "me")
    X, y = rows.apply(*laws().parties[0])
    module = trainer._net.module_
    with torch.no_grad():
        want = nn.functional.mse_loss(module(torch.from_numpy(X)), torch.from_numpy(y))
    assert trainer.loss(weights, X, y) == pytest.approx(float(want), rel=1e-6)
    assert trainer.loss(2 * weights, X, y) != pytest.approx(float(want), rel=1e-3)
    assert not trainer.train(weights, X, y, [], 0).any()


def test_what_does_not_fit_is_refused():
    parties = laws().parties
    with pytest.raises(ValueError, match="needs one number"):
        ClusteredDPRegressor(Two).fit(parties)
    with pytest.raises(ValueError, match="BatchNorm"):
        ClusteredDPRegressor(Mixing).fit(parties)
    with pytest.raises(ValueError, match="need a net"):
        ClusteredDPRegressor(epsilon=1e6)._build((2, 2), (), bytes(32))


def test_a_linear_fit_loads_no_torch():
    code = (
        "import sys; from sklearn_fedpriv import ClusteredDPRegressor as C; "
        "from sklearn_fedpriv.datasets import make_two_laws as m; "
        "C(epsilon=1e6, n_rounds=2).fit(m(n_parties=3).parties); print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == "False"

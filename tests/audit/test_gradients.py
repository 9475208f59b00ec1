"""Rebuilding a record from a gradient: works on a bare one, fails on a noisy one."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from sklearn_fedpriv._torch._rebuild import SigmoidCNN, layer_sizes, one_gradient
from sklearn_fedpriv.audit import rebuild_record, sanitise_layers


@pytest.fixture(scope="module")
def seen():
    digits = load_digits()
    with torch.random.fork_rng():
        torch.manual_seed(1234)
        net = SigmoidCNN(10, side=8)
    row, label = digits.data[7] / 16, int(digits.target[7])
    return net, row, label, one_gradient(net, row, label)


def test_a_gradient_is_that_of_the_loss(seen):
    net, row, label, gradient = seen
    assert len(gradient) == sum(layer_sizes(net)) == sum(p.numel() for p in net.parameters())
    for part, p in zip(
        np.split(gradient, np.cumsum(layer_sizes(net))), net.parameters(), strict=False
    ):
        assert part.shape == (p.numel(),) and part.any()


@pytest.mark.parametrize("noise_ratio", [0.0, 1e-3])
def test_a_record_is_rebuilt_where_there_is_hardly_any_noise(seen, noise_ratio):
    net, row, label, gradient = seen
    noisy = sanitise_layers(net, gradient, noise_ratio, random_state=0)
    rebuilt = rebuild_record(net, noisy, (64,), true_row=row, n_iter=15)
    assert rebuilt.label == label and rebuilt.error < 1e-3 and rebuilt.row.shape == (64,)


def test_this_attack_fails_at_a_noise_as_long_as_the_update(seen):
    net, row, label, gradient = seen
    for seed in (0, 1):
        noisy = sanitise_layers(net, gradient, 1.0, random_state=seed)
        rebuilt = rebuild_record(net, noisy, (64,), true_row=row, n_iter=5, random_state=seed)
        assert rebuilt.error > row.var()  # an even grey would be nearer


def test_each_layer_gets_noise_of_its_own_length(seen):
    net, _, _, gradient = seen
    noise = [
        sanitise_layers(net, gradient, 2.0, random_state=seed) - gradient for seed in range(200)
    ]
    cuts = np.cumsum(layer_sizes(net))[:-1]
    lengths = np.array([[np.linalg.norm(part) for part in np.split(x, cuts)] for x in noise])
    own = np.array([np.linalg.norm(part) for part in np.split(gradient, cuts)])
    # Lengths are Gamma: a mean of 200 is off by under 2 % for 10 numbers and more; five of these.
    assert np.allclose(lengths.mean(axis=0) / own, 2.0, rtol=0.12)
    assert (sanitise_layers(net, gradient, 0.0) == gradient).all()


def test_arguments_are_checked(seen):
    net, _, _, gradient = seen
    with pytest.raises(ValueError, match="one vector of"):
        rebuild_record(net, gradient[1:], (64,))
    with pytest.raises(ValueError, match="0 or more"):
        sanitise_layers(net, gradient, -1.0)
    assert rebuild_record(net, gradient, (64,), n_iter=1).error is None

"""Rounds of a net's training on the server: the optimizer steps along what was released."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sklearn_fedpriv import _torch
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.neural_network._published import NoisyEpochs
from sklearn_fedpriv.neural_network._queries import ClippedGradient, LocalUpdate
from sklearn_fedpriv.privacy._schedules import Shares

_SLOWING = 2  # steps shrink in a straight line over the last half of the rounds


@dataclass(frozen=True)
class Averages:
    """A running mean of weights that forgets its beginning: free, as it is post-processing.

    ``decay`` rises to ``largest``, so that early on the mean is of about all rounds.
    """

    mean: np.ndarray
    n_rounds: int = 0
    largest: float = 0.95

    def then(self, weights: np.ndarray) -> "Averages":
        """With the weights of one more round."""
        decay = min(self.largest, self.n_rounds / (self.n_rounds + 9))
        return Averages(decay * self.mean + (1 - decay) * weights, self.n_rounds + 1, self.largest)


Observe = Callable[[np.ndarray], None]  # is told the weights after each round


def train_by_rows(
    run: Run,
    net: Any,
    shares: Shares,
    *,
    clip_norm: float,
    sampling_rate: Fraction,
    expected: float,
    observe: Observe,
) -> None:
    """Steps along noisy sums of clipped gradients, divided by the public size of a sample.

    Parameters
    ----------
    run : Run
    net : NeuralNet
        Its weights are moved; in the end they are a mean over the last rounds.
    shares : Shares
    clip_norm : float
    sampling_rate : Fraction
    expected : float
        Public expectation of the size of all parties' samples together.
    observe : callable
    """
    averages = Averages(_torch.get_flat(net.module_))
    while shares.left:
        query = ClippedGradient(_torch.get_flat(net.module_), clip_norm, sampling_rate)
        mean = run.release(query, shares.take()) / expected
        slower = min(1.0, _SLOWING * (shares.left + 1) / shares.n_rounds)
        _torch.apply_gradient(net, mean, slower)
        averages = averages.then(_torch.get_flat(net.module_))
        observe(averages.mean)
    _torch.set_flat(net.module_, averages.mean)


def train_by_parties(
    run: Run,
    net: Any,
    shares: Shares,
    *,
    clip_norm: float,
    n_epochs: int,
    batch_size: int,
    momentum: float,
    observe: Observe,
) -> None:
    """Steps by the mean of the parties' clipped changes, with the server's own momentum."""
    weights = _torch.get_flat(net.module_)
    velocity = np.zeros_like(weights)
    while shares.left:
        query = LocalUpdate(weights, clip_norm, n_epochs, batch_size)
        velocity = momentum * velocity + run.release(query, shares.take()) / run.n_parties
        _torch.set_flat(net.module_, weights + velocity)
        weights = _torch.get_flat(net.module_)
        observe(weights)


def train_published(run: Run, net: Any, first: NoisyEpochs, n_rounds: int) -> None:
    """Rounds of local training and averaging, as printed."""
    for _ in range(n_rounds):
        weights = _torch.get_flat(net.module_)
        change = run.release(replace(first, weights=weights), Fraction(1)) / run.n_parties
        _torch.set_flat(net.module_, weights + change)

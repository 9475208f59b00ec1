"""The net of a party that also tells which of several weights suit its rows."""

import numpy as np
import torch

from sklearn_fedpriv._torch._local import LocalNet, one_thread
from sklearn_fedpriv._torch._methods import as_rows, example_losses
from sklearn_fedpriv._torch._net import trainable

_BLOCK = 512  # rows whose losses are computed at one time


class LossNet(LocalNet):
    """A ``LocalNet`` with losses; ``tools.code`` of the clustered queries."""

    def loss(self, weights: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
        """Mean of the net's criterion over the rows, in evaluation mode."""
        net = self._pristine(weights)
        net.module_.eval()
        like = trainable(net.module_)[0][1]
        rows, targets = as_rows(like, X), as_rows(like, y)
        total = 0.0
        with one_thread(), torch.no_grad():
            for start in range(0, len(rows), _BLOCK):
                part = slice(start, start + _BLOCK)
                losses = example_losses(net.criterion_, net.module_(rows[part]), targets[part])
                total += float(losses.double().sum())
        return total / len(rows)

"""Rebuilding a record from its gradient (deep leakage from gradients)."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from sklearn_fedpriv._torch._local import one_thread
from sklearn_fedpriv._torch._net import seeded, trainable


class SigmoidCNN(nn.Sequential):
    """The network of Zhu et al. (2019): three convolutions with sigmoids, and a linear layer.

    Its outputs are scores, not probabilities; its weights are uniform in [-0.5, 0.5].

    Parameters
    ----------
    n_classes : int
    side : int
        Of a square grey image, given as one flat row; a multiple of 4.
    """

    def __init__(self, n_classes: int = 10, side: int = 28) -> None:
        super().__init__(
            nn.Unflatten(1, (1, side, side)),
            nn.Conv2d(1, 12, 5, padding=2, stride=2),
            nn.Sigmoid(),
            nn.Conv2d(12, 12, 5, padding=2, stride=2),
            nn.Sigmoid(),
            nn.Conv2d(12, 12, 5, padding=2),
            nn.Sigmoid(),
            nn.Flatten(),
            nn.Linear(12 * (side // 4) ** 2, n_classes),
        )
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5)


def one_gradient(module: nn.Module, row: np.ndarray, label: int) -> np.ndarray:
    """Gradient of the cross-entropy of one row, as one vector."""
    parameters = [p for _, p in trainable(module)]
    x = torch.as_tensor(np.asarray(row, dtype=np.float32))[None]
    loss = functional.cross_entropy(module(x), torch.tensor([int(label)]))
    parts = torch.autograd.grad(loss, parameters)
    return np.concatenate([part.numpy().ravel() for part in parts]).astype(np.float64)


@dataclass(frozen=True)
class Match:
    """The row whose gradient is nearest, and how near.

    ``gap`` is the squared distance of the gradients.
    """

    row: np.ndarray
    label: int
    gap: float


def best_match(
    module: nn.Module, gradient: np.ndarray, row_shape: tuple[int, ...], n_iter: int, seed: int
) -> Match:
    """Search a row and a soft label with this gradient, by L-BFGS from normal noise."""
    parameters = [p for _, p in trainable(module)]
    target, start = [], 0
    for p in parameters:
        part = torch.as_tensor(gradient[start : start + p.numel()], dtype=p.dtype)
        target.append(part.view(p.shape))
        start += p.numel()
    with seeded(seed, torch.device("cpu")):
        with torch.no_grad():
            n_classes = module(torch.zeros((1, *row_shape))).shape[1]
        x = torch.randn((1, *row_shape), requires_grad=True)
        y = torch.randn((1, n_classes), requires_grad=True)
    search = torch.optim.LBFGS([x, y], lr=1)
    best = Match(x.detach().numpy()[0].copy(), int(y.argmax()), float("inf"))

    def gap() -> torch.Tensor:
        search.zero_grad()
        wanted = functional.softmax(y, dim=-1)
        loss = -(wanted * functional.log_softmax(module(x), dim=-1)).sum()
        made = torch.autograd.grad(loss, parameters, create_graph=True)
        off = sum(((a - b) ** 2).sum() for a, b in zip(made, target, strict=True))
        off.backward()
        return off

    with one_thread():
        for _ in range(n_iter):
            off = float(search.step(gap).detach())
            if not np.isfinite(off):
                break
            if off < best.gap:
                best = Match(x.detach().numpy()[0].copy(), int(y.argmax()), off)
    return best


def layer_sizes(module: nn.Module) -> list[int]:
    """Numbers of each parameter tensor, in the order of the vector."""
    return [p.numel() for _, p in trainable(module)]

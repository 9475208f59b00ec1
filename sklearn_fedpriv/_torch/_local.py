"""The net as each party builds it for itself, and what is computed with it there."""

import hashlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from skorch import NeuralNet, NeuralNetClassifier
from torch import nn

from sklearn_fedpriv._torch._gradients import Plan, clipped_gradient_sum, sum_error
from sklearn_fedpriv._torch._independence import check_row_independence, refuse_mixing_layers
from sklearn_fedpriv._torch._known import unknown_part
from sklearn_fedpriv._torch._methods import as_rows, example_losses, is_dropout
from sklearn_fedpriv._torch._net import (
    copy_net,
    fingerprint,
    get_flat,
    seeded,
    set_flat,
    trainable,
)
from sklearn_fedpriv._torch._synthetic import rows_read, synthetic_rows, token_limit

_LARGEST_LIMIT = 2**24
_plans: dict[tuple, Plan] = {}  # of nets of known parts, which no other code can stand for
_threads = threading.local()
_randomness = threading.Lock()  # torch's default generators belong to the process


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread, so that floats add up in one order (G21).

    The setting belongs to the calling thread, and is the default of those that start meanwhile.
    """
    if getattr(_threads, "inside", False):
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    _threads.inside = True
    try:
        yield
    finally:
        _threads.inside = False
        torch.set_num_threads(before)


class LocalNet:
    """A built net and the plan by which its gradients are taken; ``tools.code`` of the queries.

    Every thread works on its own copy, as hooks and weights are set while it computes. Nets with
    parts that are not exactly known may keep what they saw; so whatever runs them runs a fresh copy
    of the net as it was given, which nobody else meets: a copy for each row if rows are protected,
    for each answer if parties are.

    Parameters
    ----------
    net : NeuralNet
        From :func:`build_net`.
    row_shape : tuple of int
        Of one row, public.
    by_rows : bool
        Whether gradients of single rows are asked, so that rows must not mix.

    Raises
    ------
    ValueError
        The net mixes rows, or draws or keeps what no noise covers; the layer is named.
    """

    def __init__(self, net: NeuralNet, row_shape: tuple[int, ...], *, by_rows: bool) -> None:
        self._net = copy_net(net)
        self._module.train()
        tokens, whole = rows_read(self._module, row_shape)
        self.tokens = token_limit(self._module, row_shape)
        self.fingerprint = _digest(self._module, self._criterion)
        self._plan: Plan | None = None
        self._known = not unknown_part(self._module, self._criterion)
        refuse_mixing_layers(self._module)  # for parties too: their statistics go nowhere
        self._local = threading.local()
        with one_thread(), _randomness:
            rows = synthetic_rows(
                self._module,
                self._criterion,
                row_shape,
                tokens=tokens,
                whole=whole,
                labels=isinstance(net, NeuralNetClassifier),
            )
            if by_rows:
                plans = _plans if self._known else {}
                key = (self.fingerprint, row_shape, net.device)
                if key not in plans:
                    plans[key] = check_row_independence(self._module, self._criterion, *rows)
                self._plan = plans[key]
            else:  # what is wrong with the net has to show before there are rows
                with seeded(0, rows[0].device):
                    self._train_step(copy_net(self._net), *(part[:2] for part in rows))

    @property
    def _module(self) -> nn.Module:
        return self._net.module_

    @property
    def _criterion(self) -> nn.Module:
        return self._net.criterion_

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._local = threading.local()

    def _mine(self) -> NeuralNet:
        if not hasattr(self._local, "net"):
            self._local.net = copy_net(self._net)
        return self._local.net

    def _pristine(self, weights: np.ndarray) -> NeuralNet:
        """A net that has seen nothing, with an optimizer of its own, at ``weights``."""
        net = copy_net(self._net)
        set_flat(net.module_, weights)
        return net

    def row_limit(self, relative_error: float) -> int:
        """Most rows, a power of two, whose sum's float error is within this part of the norm."""
        assert self._plan is not None
        limit = _LARGEST_LIMIT
        while limit and sum_error(self._module, limit, 1.0, self._plan) > relative_error:
            limit //= 2
        return limit

    def gradient_sum(
        self, weights: np.ndarray, X: np.ndarray, y: np.ndarray, clip_norm: float, seed: int
    ) -> np.ndarray:
        """Sum of clipped gradients at ``weights``; see :func:`clipped_gradient_sum`.

        ``seed`` is secret and fresh; it makes dropout masks.
        """
        assert self._plan is not None
        net = self._mine()
        set_flat(net.module_, weights)
        with one_thread(), self._guard():
            return clipped_gradient_sum(
                net.module_, net.criterion_, X, y, clip_norm, self._plan, seed=seed
            )

    def train(
        self,
        weights: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        batches: list[np.ndarray],
        seed: int,
    ) -> np.ndarray:
        """What ordinary training on these batches of rows adds to ``weights``.

        The net's own optimizer and learning rate, fresh for each call, and so is the net. A batch
        at which the net raises makes no step: that must not show.
        """
        net = self._pristine(weights)
        before = get_flat(net.module_)
        like = trainable(net.module_)[0][1]
        rows, targets = as_rows(like, X), as_rows(like, y)
        with one_thread(), self._guard(seed):
            for batch in batches:
                index = torch.as_tensor(batch, device=rows.device)
                with suppress(Exception):
                    self._train_step(net, rows[index], targets[index])
        return get_flat(net.module_) - before

    @staticmethod
    def _train_step(net: NeuralNet, rows: torch.Tensor, targets: torch.Tensor) -> None:
        net.optimizer_.zero_grad()
        example_losses(net.criterion_, net.module_(rows), targets).mean().backward()
        net.optimizer_.step()

    def descend(
        self,
        weights: np.ndarray,
        gradient: Callable[[np.ndarray], np.ndarray | None],
        n_steps: int,
    ) -> np.ndarray:
        """What steps of the net's own optimizer, fresh for each call, add to ``weights``.

        ``gradient`` is asked at the weights of each step; None makes no step.
        """
        net = self._mine()
        set_flat(net.module_, weights)
        net._initialize_optimizer(reason="")
        before = now = get_flat(net.module_)
        with one_thread():
            for _ in range(n_steps):
                direction = gradient(now)
                if direction is not None:
                    apply_gradient(net, direction, 1.0)
                    now = get_flat(net.module_)
        return now - before

    def losses(self, weights: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Loss of each row, without dropout; one at a time, so that none depends on another.

        NaN where the net raises.
        """
        net = self._pristine(weights)
        net.module_.eval()
        like = trainable(net.module_)[0][1]
        rows, targets = as_rows(like, X).clone(), as_rows(like, y).clone()
        found = []
        with one_thread(), torch.no_grad():
            for row, target in zip(rows.split(1), targets.split(1), strict=True):
                pair = (net.module_, net.criterion_)
                module, criterion = pair if self._known else deepcopy(pair)
                try:
                    found.append(float(example_losses(criterion, module(row), target).sum()))
                except Exception:  # must not show; the query counts the largest loss
                    found.append(math.nan)
        return np.array(found, dtype=np.float64)

    @contextmanager
    def _guard(self, seed: int | None = None) -> Iterator[None]:
        """One at a time where torch's own generators are used."""
        if not any(is_dropout(part) and part.p for part in self._module.modules()):
            yield
            return
        device = next(self._module.parameters()).device
        with _randomness, nullcontext() if seed is None else seeded(seed, device):
            yield


def output_shape(net: NeuralNet, row_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the output for one row."""
    module = deepcopy(net.module_).eval()
    kind = torch.int64 if rows_read(module, row_shape)[1] else trainable(module)[0][1].dtype
    X = torch.zeros((2, *row_shape), dtype=kind, device=next(module.parameters()).device)
    with torch.no_grad():
        output = module(X)
    if not isinstance(output, torch.Tensor) or output.shape[:1] != (2,):
        raise ValueError(f"{type(module).__name__} must give one tensor, a row an example.")
    return tuple(output.shape[1:])


def apply_gradient(net: NeuralNet, gradient: np.ndarray, factor: float) -> None:
    """One step of the net's optimizer along ``gradient``, its learning rates times ``factor``."""
    start = 0
    for _, p in trainable(net.module_):
        part = torch.from_numpy(gradient[start : start + p.numel()].copy())
        p.grad = part.view(p.shape).to(device=p.device, dtype=p.dtype)
        start += p.numel()
    rates = [group["lr"] for group in net.optimizer_.param_groups]
    for group, rate in zip(net.optimizer_.param_groups, rates, strict=True):
        group["lr"] = rate * factor
    net.optimizer_.step()
    for group, rate in zip(net.optimizer_.param_groups, rates, strict=True):
        group["lr"] = rate
    net.optimizer_.zero_grad()


def _digest(module: nn.Module, criterion: nn.Module) -> bytes:
    """Architecture, loss, torch's version, and all values that do not travel as weights."""
    moved = {name for name, _ in trainable(module)}
    hashed = hashlib.sha256(f"{torch.__version__} {fingerprint(module, criterion)}".encode())
    for name, value in module.state_dict(keep_vars=True).items():
        if name not in moved and not (isinstance(value, nn.Parameter) and value.requires_grad):
            hashed.update(name.encode() + value.detach().cpu().double().numpy().tobytes())
    return hashed.digest()

"""A net as the model of the hypotheses; opens torch."""

from copy import deepcopy
from typing import Any

import numpy as np

from sklearn_fedpriv import _torch
from sklearn_fedpriv._torch._losses import LossNet
from sklearn_fedpriv.neural_network._queries import NetRows
from sklearn_fedpriv.neural_network._settings import check_settings
from sklearn_fedpriv.privacy._randomness import derive_key

_STEP = 0.1


def build_trainer(
    net: Any,
    row_shape: tuple[int, ...],
    classes: tuple,
    seed: bytes,
    rate: float | None,
    owner: str,
) -> tuple[LossNet, np.ndarray, NetRows]:
    """The net that every party builds for itself, its first weights, and what codes rows for it.

    Parameters
    ----------
    net : skorch net or class of nn.Module
    row_shape : tuple of int
    classes : tuple
        Empty for regression.
    seed : bytes
    rate : float or None
        Learning rate of local training; None leaves the net's own.
    owner : str
        Name of the estimator, for error texts.
    """
    check_settings(net, owner)
    n_classes = len(classes) or None
    built = _torch.build_net(
        net,
        seed=int.from_bytes(derive_key(seed, "weights")[:7], "big"),
        n_features=row_shape[-1] if len(row_shape) == 1 else None,
        n_classes=n_classes,
        options={"lr": _STEP},
    )
    built.set_params(train_split=None, verbose=0)
    if rate is not None:
        built.set_params(lr=rate)
    if n_classes is not None:
        built.set_params(classes=list(range(n_classes)))
        built.classes_inferred_ = np.arange(n_classes)
    shape = _torch.output_shape(built, row_shape)
    if shape != (n_classes,) and (n_classes is not None or shape not in ((), (1,))):
        wanted = (
            "one number" if n_classes is None else f"one output for each of {n_classes} classes"
        )
        raise ValueError(
            f"{type(built.module_).__name__} gives an output of shape {shape} a row; it needs "
            f"{wanted}."
        )
    trainer = LossNet(built, row_shape, by_rows=False)
    double = str(next(built.module_.parameters()).dtype) == "torch.float64"
    _, whole = _torch.rows_read(built.module_, row_shape)
    rows = NetRows(classes, whole, double, shape == (1,))
    return trainer, _torch.get_flat(built.module_), rows


def net_with(trainer: LossNet, weights: np.ndarray) -> Any:
    """A skorch net of its own with these weights."""
    net = deepcopy(trainer._net)
    _torch.set_flat(net.module_, weights)
    return net


def outputs(trainer: LossNet, weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Predictions of one hypothesis, float64, in blocks of one size."""
    filled = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % 16, axis=0)])
    net = net_with(trainer, weights)
    return np.asarray(net.predict_proba(filled), dtype=np.float64)[: len(rows)]

"""The net as an estimator's parties hold it, tried on made-up rows before anything is charged.

Whatever can never work is found here: a loss that cannot take the targets as they are sent, an
optimizer whose step needs more than gradients. A fit that failed later would have cost its whole
budget for nothing (G6).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from types import FunctionType
from typing import Any

import numpy as np

from sklearn_fedpriv._torch import (
    LocalNet,
    apply_gradient,
    check_row_independence,
    example_losses,
    get_flat,
    one_thread,
    rows_read,
)
from sklearn_fedpriv._torch._gradients import as_rows
from sklearn_fedpriv._torch._independence import refuse_mixing_layers
from sklearn_fedpriv._torch._layers import Unfit
from sklearn_fedpriv._torch._local import _randomness
from sklearn_fedpriv._torch._net import copy_net, device_of, seeded, trainable
from sklearn_fedpriv._wire import digest
from sklearn_fedpriv.federation._fingerprint import fingerprint_of
from sklearn_fedpriv.neural_network._published import normal_noise
from sklearn_fedpriv.neural_network._queries import NetRows
from sklearn_fedpriv.privacy._randomness import Stream

_N_ROWS = 256  # made up; as many as the largest chunk has
_BATCH = 11  # of a trial step; seldom a number of classes, which could pass for it


class PartyNet(LocalNet):
    """``LocalNet``, checked and tried with targets as the estimator sends them.

    Parameters
    ----------
    net : NeuralNet
        From ``build_net``.
    row_shape : tuple of int
    rows : NetRows
        What each party makes of its rows and labels.
    by_rows : bool
        Whether gradients of single rows are asked; else parties train on batches.

    Raises
    ------
    ValueError
        The net mixes rows, or net, criterion and optimizer make no step together.
    """

    def __init__(
        self, net: Any, row_shape: tuple[int, ...], rows: NetRows, *, by_rows: bool
    ) -> None:
        refuse_mixing_layers(net.module_)  # in its own words
        tokens, _ = rows_read(net.module_, row_shape)
        X, y = made_up_rows(row_shape, rows, tokens)
        both = f"{type(net.module_).__name__} with {type(net.criterion_).__name__}"
        like = trainable(net.module_)[0][1]
        advice = _taken(as_rows(like, y), like)
        # Other fits in this process may have seeded torch's generators, with secret seeds.
        with one_thread(), _randomness, seeded(0, device_of(net.module_)):
            _try_step(copy_net(net), X, y, advice, by_rows=by_rows)
        try:
            super().__init__(net, row_shape, by_rows=by_rows)
        except ValueError:
            raise  # in its own words
        except Exception:  # it guesses targets by the class of the criterion
            super().__init__(net, row_shape, by_rows=False)
            with one_thread(), _randomness, _blaming(both, advice, but=ValueError):
                self._plan = check_row_independence(self._module, self._criterion, X, y)
        self.fingerprint = digest((self.fingerprint, code_of(net)))
        weights, X, y = get_flat(net.module_), X[:_BATCH], y[:_BATCH]
        with _blaming(both, advice):
            if by_rows:
                self.gradient_sum(weights, X, y, 1.0, 0)
            else:
                self.train(weights, X, y, [np.arange(_BATCH), np.arange(1)], 0)
            self.losses(weights, X, y)


def code_of(net: Any) -> bytes:
    """A digest of the code and settings that a party runs: layers, loss and optimizer (G19).

    Classes of a script or notebook, and functions that layers hold, count by their bodies.
    """
    parts = [*net.module_.modules(), *net.criterion_.modules()]
    held = [
        value for part in parts for value in vars(part).values() if isinstance(value, FunctionType)
    ]
    optimizer = net.optimizer_
    return fingerprint_of([type(part) for part in parts], held, type(optimizer), optimizer.defaults)


def made_up_rows(
    row_shape: tuple[int, ...], rows: NetRows, tokens: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of no data, from a fixed key, made into what a net reads by the parties' own step.

    Targets of a regression are in (0, 1), where losses of chances and of numbers both work.
    """
    stream = Stream(bytes(32))
    length = _N_ROWS * prod(row_shape)
    X = (
        normal_noise(stream, length)
        if tokens is None
        else stream.uint64(length) % np.uint64(tokens)
    )
    y = np.arange(0.5, _N_ROWS) / _N_ROWS
    if rows.classes:
        y = np.asarray(rows.classes)[np.arange(_N_ROWS) % len(rows.classes)]
    return rows.apply(X.reshape(_N_ROWS, *row_shape), y)


def _try_step(net: Any, X: np.ndarray, y: np.ndarray, advice: str, *, by_rows: bool) -> None:
    """One step of training, of which nothing is kept; errors name what has to be changed."""
    criterion = f"criterion {type(net.criterion_).__name__}"
    like = trainable(net.module_)[0][1]
    for n in (1, _BATCH) if by_rows else (_BATCH,):
        rows, targets = as_rows(like, X[:n]), as_rows(like, y[:n])
        with _blaming(f"module {type(net.module_).__name__}"):
            output = net.module_(rows)
        try:
            with _blaming(criterion, advice, but=Unfit):
                example_losses(net.criterion_, output, targets).mean().backward()
        except Unfit:
            if by_rows and n > 1:
                continue  # one row at a time is enough
            raise ValueError(
                f"{criterion} gives more than one number for one row: return their mean or sum."
                if by_rows
                else f"{criterion} gives no loss of each row, which unit='party' needs for its "
                "batches. Give it an attribute `reduction`, and return one loss a row where that "
                "is 'none'; or set unit='record'."
            ) from None
    with _blaming(
        f"optimizer {type(net.optimizer_).__name__}",
        "Its step() finds dense gradients and gets no closure: use torch.optim.SGD or Adam.",
    ):
        if by_rows:
            apply_gradient(net, np.zeros(len(get_flat(net.module_))), 1.0)
        else:
            net.optimizer_.step()


def _taken(targets: Any, like: Any) -> str:
    """What a criterion gets, and which ones take it."""
    kind = str(targets.dtype).removeprefix("torch.")
    shape = f"(n_rows{''.join(f', {size}' for size in targets.shape[1:])})"
    if targets.dtype == like.dtype:
        return (
            f"It gets the net's output and {kind} targets of shape {shape}: in a regressor, use "
            "MSELoss, HuberLoss or one of your own for numbers."
        )
    return (
        f"It gets the net's output and {kind} indices of classes of shape {shape}: in a "
        "classifier, use NLLLoss after a softmax, CrossEntropyLoss or one of your own for indices."
    )


@contextmanager
def _blaming(what: str, advice: str = "", but: type[Exception] = Unfit) -> Iterator[None]:
    """Errors as a ValueError that says where they come from; made-up rows may be in its text."""
    try:
        yield
    except but:
        raise
    except Exception as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"A trial step on made-up rows failed in {what}, before anything was charged: "
            f"{type(error).__name__}: {said:.200}. {advice}".rstrip()
        ) from error

"""The sum of per-example gradients, each held to a norm, and how far it can be off.

The bound (G8; the proof stands in notes). Take the *signals* of each example as given: the float32
numbers from which a piece of ``_layers`` is made. They settle the exact gradient g of that example
and its exact contribution v = g min(1, C / |g|), of norm at most C. What is computed differs:

* the squared norm S is a sum of squares in float64 (exact squares for float32), so its relative
  error is at most q u, u = 2**-53, q the longest chain of roundings; the factor
  f = min(1, C / (sqrt(S) (1 + m))) with the margin m = (q + 16) u is certainly at most
  min(1, C / |g|) and at least (1 - 2 m) of it: |f g - v| <= 2 m C;
* an entry of the sum over n examples is a float64 sum in any order: per term one rounding for the
  factor, one for the product, at most k in a chunk of k rows and one for each of j chunks. With
  r = k + j + 2, its error is at most r u / (1 - r u) times the sum of the |f g|.

So the computed sum is within n C (r u / (1 - r u) + 2 m) of the sum of the v, and two data sets
that differ in one row give sums within C + ``sum_error``, which counts the error of both.

That the signals of a row do not depend on its neighbours, its place or the number of rows is not
true by itself: below some 16 rows matrix products take other kernels, and numbers that do not
fill a vector register go through other code. Signals then move in the last bit, and a ReLU at its
kink makes a whole gradient of that. So rows are processed in chunks of a few fixed sizes, the last
one filled up: multiples of 32, whose tables fill whole registers whatever the width, and of these
only sizes for which :func:`check_row_independence` found bit-equal signals on this machine.

A row at which the net raises (a token out of range) adds zero, like one that is not finite. Its
chunk is then computed again, each row in a chunk of its own copies, which gives the same signals.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sklearn_fedpriv._torch._layers import Sums
from sklearn_fedpriv._torch._methods import METHODS, as_rows, is_dropout
from sklearn_fedpriv._torch._net import seeded, trainable

_U = 2.0**-53


@dataclass(frozen=True)
class Plan:
    """How gradients are taken.

    Parameters
    ----------
    method : {"layers", "vmap", "single"}
        By the rules of ``_layers``; by the definition, many rows at a time; or a row at a time.
    sizes : tuple of int
        Sizes of chunks, largest first.
    reason : str
        Why not a faster way; empty for "layers".
    """

    method: str
    sizes: tuple[int, ...]
    reason: str = ""


def clipped_gradient_sum(
    module: nn.Module,
    criterion: nn.Module,
    X: np.ndarray | Tensor,
    y: np.ndarray | Tensor,
    clip_norm: float,
    plan: Plan,
    *,
    seed: int | None = None,
) -> np.ndarray:
    """Sum over rows of their loss gradients, each scaled down to L2 norm ``clip_norm``.

    The module is used in the mode it is in and left as it was, and so is torch's global random
    state. Memory is that of one chunk of the plan.

    Parameters
    ----------
    module : nn.Module
    criterion : nn.Module
    X, y : ndarray or Tensor, a row an example
        Real numbers are rounded to the dtype of the parameters; a row that is not finite then,
        whose gradient is not, or at which the net raises, adds zero.
    clip_norm : float
        Between 2**-100 and 2**100.
    plan : Plan
        From :func:`check_row_independence`, on this machine, with as many torch threads.
    seed : int or None
        Of the dropout masks, one to a row; needed where dropout is on. It has to be secret (64 bits
        from the party's own stream, all of which are used) and fresh each time: masks go by place,
        so whoever knows them, or can try all, sees all rows behind a removed one change.

    Returns
    -------
    total : ndarray of shape (d,), float64
        In the order of :func:`get_flat`, within half of :func:`sum_error` of the exact sum.
    """
    if not 2.0**-100 <= clip_norm <= 2.0**100:
        raise ValueError(f"clip_norm must lie between 2**-100 and 2**100; got {clip_norm!r}.")
    dropout = any(is_dropout(part) and part.training and part.p for part in module.modules())
    if dropout and seed is None:
        raise ValueError(
            f"{type(module).__name__} has dropout layers, whose masks must not come from torch's "
            "global random state. Pass seed=, 64 secret bits, fresh for each call."
        )
    parameters = [
        p for _, p in trainable(module)
    ]  # found once: it takes as long as a small product
    X, y = as_rows(parameters[0], X), as_rows(parameters[0], y)
    if len(X) != len(y):
        raise ValueError(f"X and y must have the same number of rows; got {len(X)} and {len(y)}.")
    slices, start = {}, 0
    for p in parameters:
        slices[id(p)] = slice(start, start + p.numel())
        start += p.numel()
    finite = _finite_rows(X) & _finite_rows(y)
    if not finite.all():  # before the net sees them: it might make numbers of them
        X, y = X.clone(), y.clone()
        X[~finite], y[~finite] = 0, 0
    margin = 1.0 + _margin(parameters)
    total = torch.zeros(start, dtype=torch.float64, device=X.device)

    def one_chunk(rows: Tensor, targets: Tensor, real: Tensor) -> Sums:
        pieces = METHODS[plan.method](module, criterion, rows, targets)
        squares = torch.zeros(len(rows), dtype=torch.float64, device=rows.device)
        for piece in pieces:
            squares = squares + piece.squares
        factors = (clip_norm / (squares.sqrt() * margin)).clamp(max=1.0)
        bad = ~torch.isfinite(squares)
        factors[bad | ~real] = 0.0
        if bad.any():
            for piece in pieces:
                piece.clear(bad)
        return [each for piece in pieces for each in piece.sums(factors)]

    masks = seeded(seed, X.device, secret=True) if dropout and seed is not None else nullcontext()
    with masks, torch.enable_grad():
        for rows, targets, real in _chunks(X, y, finite, plan.sizes):
            try:
                found = one_chunk(rows, targets, real)
            except Exception:  # any: what one row can raise must not show that it is there
                found = _row_by_row(one_chunk, rows, targets, real, plan.sizes[-1])
            for p, vector in found:
                total[slices[id(p)]] += vector
    return total.cpu().numpy()


def _row_by_row(
    one_chunk: Callable[[Tensor, Tensor, Tensor], Sums],
    rows: Tensor,
    targets: Tensor,
    real: Tensor,
    size: int,
) -> Sums:
    """The sum of a chunk without the rows that raise, in as many roundings.

    Signals do not depend on neighbours and sizes of chunks, so the other rows add what they always
    do.
    """
    totals: dict[int, tuple[nn.Parameter, Tensor]] = {}
    first = torch.arange(size, device=rows.device) == 0
    for i in torch.nonzero(real).flatten():
        copies = i.expand(size)
        try:
            found = one_chunk(rows[copies], targets[copies], first)
        except Exception:  # the row adds zero
            continue
        for p, vector in found:
            before = totals.get(id(p))
            totals[id(p)] = (p, vector if before is None else before[1] + vector)
    return list(totals.values())


def sum_error(module: nn.Module, max_rows: int, clip_norm: float, plan: Plan) -> float:
    """What float errors add to the sensitivity of :func:`clipped_gradient_sum`.

    Two batches of at most ``max_rows`` rows, of which one has one row more than the other, give
    sums whose L2 distance is at most ``clip_norm`` plus this. It follows from public facts only.
    """
    n_chunks = max_rows // plan.sizes[0] + 1
    roundings = (plan.sizes[0] + n_chunks + 2) * _U
    one = roundings / (1 - roundings) + 2 * _margin([p for _, p in trainable(module)])
    return 2 * max_rows * clip_norm * one * (1 + 2.0**-20)  # covers the rounding of this line


def _margin(parameters: list[nn.Parameter]) -> float:
    """m of the proof: the longest chain is within one parameter, then over all of them."""
    sizes = [p.numel() for p in parameters]
    return (max(sizes) + len(sizes) + 24) * _U


def _finite_rows(values: Tensor) -> Tensor:
    if math.isfinite(values.sum()):  # one pass; an infinite or NaN entry cannot sum to a number
        return torch.ones(len(values), dtype=torch.bool, device=values.device)
    finite = torch.isfinite(values)
    return finite if finite.dim() == 1 else finite.flatten(1).all(1)


def _chunks(
    X: Tensor, y: Tensor, counted: Tensor, sizes: tuple[int, ...]
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Chunks of the largest size; the last of the smallest that holds it, filled up with rows
    that do not count."""
    start = 0
    while len(X) - start >= sizes[0]:
        part = slice(start, start + sizes[0])
        yield X[part], y[part], counted[part]
        start += sizes[0]
    if start < len(X):
        size = min(size for size in sizes if size >= len(X) - start)
        places = torch.arange(start, start + size, device=X.device)
        rest = places.clamp(max=len(X) - 1)
        yield X[rest], y[rest], counted[rest] & (places < len(X))

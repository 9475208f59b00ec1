"""Sizes of chunks in which rows do not depend on each other to the bit (G7)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sklearn_fedpriv._torch._layers import Unfit
from sklearn_fedpriv._torch._methods import METHODS

# Products take other kernels below some 16 rows; 32 numbers fill the registers of one step of
# torch's vectorised functions, also with AVX512, so no row lies in a scalar tail.
SIZES = tuple(range(256, 0, -32))
_FEW = 16  # rows, to see how much memory a row takes
_SHUFFLES = 5  # draws of rows, with repetitions, for each size of chunk
_SCALES = (0.01, 1.0, 30.0)  # of made-up rows, in turn: kernels branch on values, too
_COPIES = 8  # a chunk takes about this many times the memory of its signals


def equal_sizes(
    method: str, module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor, max_bytes: int
) -> tuple[int, ...]:
    """Sizes of chunks in which a row's signals do not depend on anything but the row, to the bit.

    Sums of chunks then differ by the contribution of one row, whatever shifts it to other places
    and sizes; a difference in the last bit of all rows would not be bounded by anything.
    """

    def signals(rows: Tensor, targets: Tensor) -> list[Tensor]:
        pieces = METHODS[method](module, criterion, rows, targets)
        return [signal for piece in pieces for signal in piece.signals]

    small = signals(X[:_FEW], y[:_FEW])
    per_row = _COPIES * sum(signal.nbytes for signal in small) / _FEW
    if X.is_floating_point() and not torch.equal(X, X.round()):  # not tokens
        scales = torch.tensor(_SCALES, dtype=X.dtype, device=X.device)
        X = X * scales[torch.arange(len(X)) % len(scales)].view(-1, *[1] * (X.dim() - 1))
    generator = torch.Generator().manual_seed(0)
    kept: list[int] = []
    reference: list[Tensor] = []
    for size in SIZES:
        if size * per_row > max_bytes:
            continue
        if not reference:
            index = torch.arange(size, device=X.device) % len(X)
            reference = [signal[: len(X)] for signal in signals(X[index], y[index])]
        n_known = len(reference[0])
        draws = [torch.randint(n_known, (size,), generator=generator) for _ in range(_SHUFFLES)]
        orders = [order.to(X.device) for order in draws]
        found = [signals(X[order], y[order]) for order in orders]
        same = all(_same(a, reference, order) for a, order in zip(found, orders, strict=True))
        if same and _same_beside_nan(signals, reference, X, y, orders[-1]):
            kept.append(size)
        elif not kept:
            reference = []
    if not kept:
        raise Unfit("no size of chunk fits the memory and keeps rows bit-equal")
    return tuple(kept)


def _same(found: list[Tensor], reference: list[Tensor], order: Tensor) -> bool:
    return all(_equal(a, known[order]) for a, known in zip(found, reference, strict=True))


def _same_beside_nan(
    signals: Callable[[Tensor, Tensor], list[Tensor]],
    reference: list[Tensor],
    X: Tensor,
    y: Tensor,
    order: Tensor,
) -> bool:
    """Whether rows have their signals if every second one is NaN."""
    if not X.is_floating_point():
        return True
    rows = X[order]
    rows[1::2] = torch.nan
    try:
        found = signals(rows, y[order])
    except Exception:  # tokens: nothing is to be seen beside a row that raises
        return True
    return _same([signal[::2] for signal in found], reference, order[::2])


def _equal(a: Tensor, b: Tensor) -> bool:
    """NaN equals NaN, as such a row adds zero."""
    return bool(((a == b) | (a.isnan() & b.isnan())).all())

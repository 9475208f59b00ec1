"""Per-example gradients of common layers, from what a layer read and what came back to it.

A layer's inputs ``a`` and the gradients ``b`` of the loss at its outputs, both a row an example,
settle its per-example gradients. Each rule below turns them into a *piece*:

* ``squares``: the squared norm of each example's gradient, float64;
* ``sums(factors)``: the sum over examples of factor times gradient, float64, a vector a parameter;
* ``clear(bad)``: zero what belongs to some examples, before any product (0 x NaN is NaN);
* ``signals``: the numbers it was made of, a row an example.

Everything from ``signals`` on is float64, where squares of float32 numbers are exact; the proof of
the bound in ``_gradients`` counts the roundings.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Sums = list[tuple[nn.Parameter, Tensor]]


class Unfit(Exception):
    """The fast way does not hold for this net; the message says why."""


class Outer:
    """``nn.Linear`` on one vector an example: an outer product, which is never formed."""

    def __init__(self, layer: nn.Linear, a: Tensor, b: Tensor) -> None:
        self.signals = (a, b)
        self._weight, self._bias = (trained(layer, name) for name in ("weight", "bias"))
        self._a, self._b = a.double(), b.double()
        if self._weight is None:
            self.squares = _squares(self._b)
        elif b.dtype == torch.float64:
            own = (
                (self._a, torch.ones_like(self._a[:, :1])) if self._bias is not None else (self._a,)
            )
            self.squares = _squares_of_product(self._b, torch.cat(own, 1))
        else:  # |b a'|^2 + |b|^2 = |b|^2 (|a|^2 + 1), where no square of float32 leaves float64
            self.squares = _squares(self._b) * (_squares(self._a) + (self._bias is not None))

    def clear(self, bad: Tensor) -> None:
        self._a = self._a.masked_fill(bad[:, None], 0)  # not in place: it may be the caller's X
        self._b = self._b.masked_fill(bad[:, None], 0)

    def sums(self, factors: Tensor) -> Sums:
        scaled = self._b * factors[:, None]
        out = []
        if self._weight is not None:
            out.append((self._weight, (scaled.T @ self._a).reshape(-1)))
        if self._bias is not None:
            out.append((self._bias, scaled.sum(0)))
        return out


class Rows:
    """Gradients written out, a row an example, for each parameter."""

    def __init__(self, rows: list[tuple[nn.Parameter, Tensor]]) -> None:
        self.signals = tuple(part for _, part in rows)
        self._rows = [(p, part.double()) for p, part in rows]
        self.squares = sum(_squares(part) for _, part in self._rows)

    def clear(self, bad: Tensor) -> None:
        self._rows = [(p, part.masked_fill(bad[:, None], 0)) for p, part in self._rows]

    def sums(self, factors: Tensor) -> Sums:
        return [(p, factors @ part) for p, part in self._rows]


class Tokens:
    """``nn.Embedding``: a vector for each different token of an example, all others are zero."""

    def __init__(self, layer: nn.Embedding, a: Tensor, b: Tensor) -> None:
        n, size = len(a), layer.num_embeddings
        self.signals = (a, b)
        self._weight = layer.weight
        tokens, vectors = a.reshape(n, -1), b.reshape(-1, b.shape[-1]).double()
        owner = torch.arange(n, device=a.device)[:, None]
        pairs, where = torch.unique(owner * size + tokens, return_inverse=True)
        self._owner, self._token = pairs // size, pairs % size
        self._vectors = vectors.new_zeros(len(pairs), b.shape[-1])
        self._vectors.index_add_(0, where.reshape(-1), vectors)
        if layer.padding_idx is not None:
            self._vectors[self._token == layer.padding_idx] = 0
        squares = vectors.new_zeros(n)
        self.squares = squares.index_add_(0, self._owner, _squares(self._vectors))

    def clear(self, bad: Tensor) -> None:
        self._vectors[bad[self._owner]] = 0

    def sums(self, factors: Tensor) -> Sums:
        total = self._vectors.new_zeros(self._weight.shape)
        total.index_add_(0, self._token, factors[self._owner, None] * self._vectors)
        return [(self._weight, total.reshape(-1))]


Piece = Outer | Rows | Tokens


def _squares(rows: Tensor) -> Tensor:
    # vector_norm reads once; row * row would write a second table
    return torch.linalg.vector_norm(rows, dim=1).square()


def _squares_of_product(b: Tensor, a: Tensor) -> Tensor:
    """|b|^2 |a|^2 where a square may be too small for float64, or too large, and the product not.

    Rows are first divided by a power of two near their largest entry, which rounds nothing.
    """
    squares, shift = b.new_ones(len(b)), torch.zeros(len(b), dtype=torch.int64, device=b.device)
    for rows in (b, a):
        exponent = torch.frexp(rows.abs().amax(1)).exponent.long().clamp(-1000, 1000)
        squares = squares * _squares(rows * _power_of_two(-exponent)[:, None])
        shift = shift + exponent
    power = _power_of_two(shift.clamp(-1000, 1000))
    return squares * power * power


def _power_of_two(exponent: Tensor) -> Tensor:
    """2**exponent exactly, by its bits; torch's own powers may be rounded."""
    return ((exponent + 1023) << 52).view(torch.float64)


def trained(layer: nn.Module, name: str) -> Any:
    """The parameter of that name, None where it is frozen or not there."""
    parameter = getattr(layer, name)
    return parameter if parameter is not None and parameter.requires_grad else None


def _rows(layer: nn.Module, **rules: Callable[[], Tensor]) -> Rows:
    """Rows of the parameters that are trained; the others are not computed."""
    wanted = [(trained(layer, name), rule) for name, rule in rules.items()]
    return Rows([(p, rule().flatten(1)) for p, rule in wanted if p is not None])


def linear(layer: nn.Linear, a: Tensor, b: Tensor) -> Piece:
    if a.dim() == 2:
        return Outer(layer, a, b)
    a, b = a.flatten(1, -2), b.flatten(1, -2)  # sequences: sum over the positions
    return _rows(layer, weight=lambda: torch.bmm(b.mT, a), bias=lambda: b.sum(1))


def convolution(layer: nn.Conv1d | nn.Conv2d, a: Tensor, b: Tensor) -> Piece:
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    # "same" and "valid" are numbers here too; the order is that of F.pad
    padding = layer._reversed_padding_repeated_twice
    if any(padding):
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        a = F.pad(a, padding, mode=mode)
    if isinstance(layer, nn.Conv1d):  # an image of height one
        a, b = a.unsqueeze(2), b.unsqueeze(2)
        kernel, stride, dilation = (1, *kernel), (1, *stride), (1, *dilation)
    n, groups = len(a), layer.groups
    b = b.flatten(2)

    def weight() -> Tensor:
        patches = F.unfold(a, kernel, dilation=dilation, stride=stride)
        patches = patches.reshape(n * groups, -1, patches.shape[-1])
        return torch.bmm(b.reshape(n * groups, -1, b.shape[-1]), patches.mT).reshape(n, -1)

    return _rows(layer, weight=weight, bias=lambda: b.sum(2))


def embedding(layer: nn.Embedding, a: Tensor, b: Tensor) -> Piece:
    if layer.max_norm is not None or layer.scale_grad_by_freq:
        raise Unfit("nn.Embedding with max_norm or scale_grad_by_freq")
    return Tokens(layer, a, b)


def layer_norm(layer: nn.LayerNorm, a: Tensor, b: Tensor) -> Piece:
    shape = layer.normalized_shape
    if a.dim() <= len(shape):
        raise Unfit("nn.LayerNorm over the rows")

    def summed(x: Tensor) -> Tensor:  # over what lies between the rows and the normalised shape
        return x.reshape(len(x), -1, layer.weight.numel()).sum(1)

    return _rows(
        layer,
        weight=lambda: summed(F.layer_norm(a, shape, eps=layer.eps) * b),
        bias=lambda: summed(b),
    )


def group_norm(layer: nn.GroupNorm, a: Tensor, b: Tensor) -> Piece:
    def summed(x: Tensor) -> Tensor:
        return x.reshape(len(x), layer.num_channels, -1).sum(2)

    return _rows(
        layer,
        weight=lambda: summed(F.group_norm(a, layer.num_groups, eps=layer.eps) * b),
        bias=lambda: summed(b),
    )


RULES: dict[type, Callable[[Any, Tensor, Tensor], Piece]] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    nn.Embedding: embedding,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
}


def watched(module: nn.Module) -> list[nn.Module]:
    """The layers with trainable parameters, if a rule covers each; raises ``Unfit`` otherwise."""
    layers: list[nn.Module] = []
    owners: dict[int, str] = {}
    for name, layer in module.named_modules():
        own = {key: p for key, p in layer._parameters.items() if p is not None and p.requires_grad}
        if not own:
            continue
        # Exactly these types: a subclass may compute something else.
        if type(layer) not in RULES or not own.keys() <= {"weight", "bias"}:
            raise Unfit(f"no rule for layer {name!r} ({type(layer).__name__})")
        for p in own.values():
            if owners.setdefault(id(p), name) != name:
                raise Unfit(f"layers {owners[id(p)]!r} and {name!r} share weights")
        layers.append(layer)
    return layers

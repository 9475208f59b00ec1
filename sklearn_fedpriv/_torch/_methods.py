"""Ways to take the gradient of each row: by layers, by ``vmap``, or one row at a time.

Only the first uses the module as it is, and it is for nets of known parts, which keep nothing
(``_known``). The others run somebody's own code, which may keep what it saw in a buffer, a number
or a list. So they run on copies: one for each call of ``vmap``, where code cannot read the values
of rows, and one for each single row. What a row leaves behind goes away with its copy.
"""

from copy import copy, deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sklearn_fedpriv._torch._known import check_targets
from sklearn_fedpriv._torch._layers import RULES, Piece, Rows, Unfit, watched
from sklearn_fedpriv._torch._net import trainable


def example_losses(criterion: nn.Module, output: Tensor, y: Tensor) -> Tensor:
    """The loss of each example, shape (n,).

    ``NLLLoss`` takes probabilities, as in skorch's ``NeuralNetClassifier``. The loss of an example
    with several outputs is their mean if the criterion's reduction is "mean", else their sum. Class
    weights multiply it; no batch mean divides by them.
    """
    if isinstance(criterion, nn.NLLLoss):
        output = torch.log(output + torch.finfo(output.dtype).eps)
    reduction = getattr(criterion, "reduction", None)
    if reduction in ("mean", "sum", "none", "batchmean"):
        single: Any = copy(criterion)
        single.reduction = "none"
        losses = single(output, y)
        if losses.shape[:1] == output.shape[:1]:
            losses = losses.reshape(len(losses), -1)
            return losses.mean(1) if reduction == "mean" else losses.sum(1)
    else:
        losses = criterion(output, y)
    if len(output) == 1 and losses.numel() == 1:
        return losses.reshape(1)
    raise Unfit(f"{type(criterion).__name__} has no reduction='none'")


def by_layers(module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor) -> list[Piece]:
    """Pieces of the rows by one forward pass and one backward pass that stops at the layers."""
    seen: list[tuple[nn.Module, Tensor, int, Any]] = []

    def keep(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        if len(inputs) != 1 or output.grad_fn is None:
            raise Unfit(f"an unusual call of {type(layer).__name__}")
        # The edge stays what it is when an activation then overwrites the output.
        edge = torch.autograd.graph.get_gradient_edge(output)
        seen.append((layer, inputs[0].detach(), inputs[0]._version, edge))

    hooks = [layer.register_forward_hook(keep) for layer in watched(module)]
    try:
        # what overwrites its input must not overwrite the caller's rows
        inplace = any(getattr(layer, "inplace", False) for layer in module.modules())
        output = module(X.clone() if inplace else X)
        check_targets(criterion, output, y)
        losses = example_losses(criterion, output, y)
    finally:
        for hook in hooks:
            hook.remove()
    if len({id(layer) for layer, *_ in seen}) < len(seen):
        raise Unfit("a layer is called twice")
    edges = [edge for *_, edge in seen]
    pieces = []
    backs = torch.autograd.grad(losses.sum(), edges, allow_unused=True)
    for (layer, a, version, _), b in zip(seen, backs, strict=True):
        if a._version != version:
            raise Unfit(f"the input of {type(layer).__name__} is overwritten")
        if b is None:
            continue
        if not len(a) == len(b) == len(X):
            raise Unfit(f"{type(layer).__name__} does not see the rows as its first axis")
        pieces.append(RULES[type(layer)](layer, a, b))
    return pieces


def by_vmap(module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor) -> list[Piece]:
    """Pieces of the rows by the definition: the gradient of the loss of each row by itself.

    That rows do not reach each other is what ``vmap`` means: code that asks for a value raises.
    """
    originals = [p for _, p in trainable(module)]
    module, criterion = deepcopy((module, criterion))
    parameters = {name: p.detach() for name, p in trainable(module)}

    def loss(parameters: dict[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
        output = functional_call(module, parameters, (x.unsqueeze(0),))
        return example_losses(criterion, output, target.unsqueeze(0)).sum()

    rows = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(
        parameters, X.clone(), y.clone()
    )
    columns = [rows[name].flatten(1) for name in parameters]
    return [Rows(list(zip(originals, columns, strict=True)))]


def by_single(module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor) -> list[Piece]:
    """Pieces of the rows by one ordinary backward pass a row, each on a fresh copy of the net."""
    originals = [p for _, p in trainable(module)]
    rows = []
    for x, target in zip(X.clone().split(1), y.clone().split(1), strict=True):
        own, own_criterion = deepcopy((module, criterion))
        parameters = [p for _, p in trainable(own)]
        loss = example_losses(own_criterion, own(x), target).sum()
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        rows.append([g.to_dense().reshape(-1) for g in found])
    columns = [torch.stack(column) for column in zip(*rows, strict=True)]
    return [Rows(list(zip(originals, columns, strict=True)))]


METHODS = {"layers": by_layers, "vmap": by_vmap, "single": by_single}


def is_dropout(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.dropout._DropoutNd)


def as_rows(like: Tensor, values: np.ndarray | Tensor) -> Tensor:
    """A tensor on the device of ``like``: whole numbers as int64, others in its dtype."""
    if not isinstance(values, np.ndarray | Tensor):
        raise TypeError(
            f"Rows must be one array or tensor; got {type(values).__name__}. Modules of several "
            "inputs are not supported: concatenate them and split in forward."
        )
    tensor = torch.as_tensor(values)
    dtype = like.dtype if tensor.is_floating_point() else torch.int64
    return tensor.to(device=like.device, dtype=dtype)

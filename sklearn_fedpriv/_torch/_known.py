"""Nets of exactly known parts, in which rows stand by themselves for certain (G7).

A trial on made-up rows cannot show what a net of somebody's own code does on other values, or what
it keeps. So the fast way is for nets of torch's own layers only, each of which treats a row by
itself and keeps nothing, on every value; the others go by ``vmap`` or by single rows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_hooks

from sklearn_fedpriv._torch import modules
from sklearn_fedpriv._torch._layers import Unfit


def _any(layer: nn.Module, n_axes: int) -> bool:
    return n_axes >= 2


def _axes(*allowed: int) -> Callable[[Any, int], bool]:
    return lambda layer, n_axes: n_axes in allowed


def _dim(layer: Any, n_axes: int) -> bool:
    return isinstance(layer.dim, int) and layer.dim % n_axes != 0


def _flat(layer: Any, n_axes: int) -> bool:
    return 1 <= layer.start_dim % n_axes <= layer.end_dim % n_axes


def _layer_norm(layer: Any, n_axes: int) -> bool:
    return n_axes > len(layer.normalized_shape)


def _instance_norm(n_axes: int) -> Callable[[Any, int], bool]:
    return lambda layer, n: n == n_axes and layer.running_mean is None


def _embedding(layer: Any, n_axes: int) -> bool:
    return n_axes >= 2 and layer.max_norm is None and not layer.scale_grad_by_freq


_ONE_D, _TWO_D = _axes(3), _axes(4)  # without the axis of rows torch would take rows for channels

# Whether a layer leaves the first axis alone, for an input of so many axes.
LAYERS: dict[type, Callable[[Any, int], bool]] = {
    **dict.fromkeys((nn.Identity, nn.Linear, nn.GroupNorm, nn.Dropout), _any),
    **dict.fromkeys((nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU), _any),
    **dict.fromkeys((nn.SiLU, nn.Mish, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Softplus), _any),
    **dict.fromkeys((nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid), _any),
    **dict.fromkeys((nn.Tanhshrink, nn.Softshrink, nn.Hardshrink, nn.Threshold), _any),
    **dict.fromkeys((nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.GLU), _dim),
    **dict.fromkeys((nn.Conv1d, nn.MaxPool1d, nn.AvgPool1d, nn.Dropout1d), _ONE_D),
    **dict.fromkeys((nn.AdaptiveAvgPool1d, nn.AdaptiveMaxPool1d), _ONE_D),
    **dict.fromkeys((nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d, nn.Dropout2d), _TWO_D),
    **dict.fromkeys((nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d), _TWO_D),
    **dict.fromkeys((nn.ZeroPad2d, nn.ReflectionPad2d, nn.ReplicationPad2d), _TWO_D),
    nn.Flatten: _flat,
    nn.LayerNorm: _layer_norm,
    nn.InstanceNorm1d: _instance_norm(3),
    nn.InstanceNorm2d: _instance_norm(4),
    nn.Embedding: _embedding,
}
CONTAINERS = (nn.Sequential, *(getattr(modules, name) for name in modules.__all__))
_HARMLESS = {  # what a class may have in it and still be its parent
    *("__init__", "__module__", "__qualname__", "__doc__", "__annotations__", "__dict__"),
    *("__weakref__", "__firstlineno__", "__static_attributes__", "__annotate_func__"),
}
BY_CLASS = (nn.NLLLoss, nn.CrossEntropyLoss, nn.MultiMarginLoss)
BY_NUMBER = (
    *(nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.SoftMarginLoss),
    *(nn.BCELoss, nn.BCEWithLogitsLoss, nn.PoissonNLLLoss, nn.KLDivLoss),
)


def unknown_part(module: nn.Module, criterion: nn.Module) -> str:
    """What is not exactly one of the known layers and losses of torch; empty if there is nothing.

    Subclasses are not known: they may compute something else. Nor is what has hooks, other
    weights by parametrization, or methods of its own as attributes. Only ``nn.Sequential`` may have
    subclasses, of which nothing but ``__init__`` is their own: skorch builds nets from classes.
    """
    if any(getattr(torch_hooks, name) for name in _global_hooks()):
        return "hooks on all modules"
    for name, part in module.named_modules():
        if type(part) not in LAYERS and not _is_container(type(part)):
            return f"layer {name!r} ({type(part).__name__}) is not one of the known types"
        if _touched(part):
            return f"layer {name!r} ({type(part).__name__}) has hooks or methods of its own"
    if type(criterion) not in BY_CLASS + BY_NUMBER or _touched(criterion):
        return f"{type(criterion).__name__} is not one of the known losses"
    if type(criterion) in BY_NUMBER and any(
        getattr(criterion, name, None) is not None for name in ("weight", "pos_weight")
    ):  # it would be stretched over the rows if it had their number
        return f"{type(criterion).__name__} has weights, which may go by the place of a row"
    return ""


def _is_container(kind: type) -> bool:
    if kind in CONTAINERS:
        return True
    end = nn.Sequential.__mro__
    own = kind.__mro__[: -len(end)]
    plain = type(kind) is type and kind.__mro__[-len(end) :] == end
    return plain and all(vars(each).keys() <= _HARMLESS for each in own)


def _global_hooks() -> list[str]:
    return [name for name in vars(torch_hooks) if name.startswith("_global_") and "hooks" in name]


def _touched(part: nn.Module) -> bool:
    own = vars(part)
    hooked = any(own[name] for name in own if name.endswith("_hooks"))
    return hooked or any(callable(getattr(type(part), name, None)) for name in own)


def check_known(module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor) -> None:
    """Raise ``Unfit`` unless all parts are known and none combines numbers along the first axis.

    Shapes do not depend on values in such nets, so made-up rows of the right shape settle it.
    """
    if reason := unknown_part(module, criterion):
        raise Unfit(reason)

    def look(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if type(layer) in LAYERS and not LAYERS[type(layer)](layer, inputs[0].dim()):
            raise Unfit(f"{type(layer).__name__} may combine rows of {inputs[0].dim()} axes")

    hooks = [layer.register_forward_pre_hook(look) for layer in module.modules()]
    try:
        with torch.no_grad():
            output = module(X)
    finally:
        for hook in hooks:
            hook.remove()
    check_targets(criterion, output, y)


def check_targets(criterion: nn.Module, output: Tensor, y: Tensor) -> None:
    """Raise ``Unfit`` if a known loss would stretch outputs over the targets of other rows."""
    if output.dim() < 2 and type(criterion) in BY_CLASS:
        raise Unfit("the output has no axis of classes")
    if type(criterion) in BY_NUMBER and output.shape != y.shape:
        raise Unfit(f"outputs of shape {tuple(output.shape)} have targets of {tuple(y.shape)}")

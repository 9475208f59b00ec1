"""Nets: built from a seed, read and written as one vector, compared by a fingerprint."""

import hashlib
import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from skorch import NeuralNet, NeuralNetClassifier, NeuralNetRegressor
from torch import nn


@contextmanager
def seeded(seed: int, device: torch.device, *, secret: bool = False) -> Iterator[None]:
    """Run torch's default generators from ``seed``, and put their states back afterwards.

    A secret seed has to be one of 2**64: torch's own seeding of the CPU reads the low 32 bits only,
    and so many dropout masks can be tried out.
    """
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        # torch.manual_seed would seed the generators of all devices, which nobody puts back.
        torch.default_generator.manual_seed(seed)
        if secret:
            _fill_generator(seed)
        for each in cuda:
            with torch.cuda.device(each):
                torch.cuda.manual_seed(seed)
        yield


def _fill_generator(seed: int) -> None:
    """Set the whole state of the CPU's Mersenne Twister from all bits of ``seed``."""
    state = torch.default_generator.get_state().numpy()
    words = state[24 : 24 + 8 * 624].view(np.uint64)  # behind the seed and two counters
    if len(words) != 624 or words[0] != seed % 2**32:  # where its seeding puts the low bits
        raise RuntimeError(
            f"torch {torch.__version__} keeps the state of its generator in another form, so "
            "dropout masks cannot be drawn from 64 secret bits. Use another version, or no dropout."
        )
    words[:] = np.random.MT19937(seed).state["state"]["key"]
    torch.default_generator.set_state(torch.from_numpy(state))


def trainable(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Names and parameters that training moves, tied ones once, in the order of registration."""
    return [(name, p) for name, p in module.named_parameters() if p.requires_grad]


def device_of(module: nn.Module) -> torch.device:
    """Where the parameters are."""
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def parameter_names(module: nn.Module) -> list[str]:
    """Names of the trainable parameters, in the order of the flat vector."""
    return [name for name, _ in trainable(module)]


def parameter_shapes(module: nn.Module) -> list[tuple[int, ...]]:
    """Shapes of the trainable parameters, in the order of the flat vector."""
    return [tuple(p.shape) for _, p in trainable(module)]


def get_flat(module: nn.Module) -> np.ndarray:
    """All trainable parameters as one vector.

    Frozen parameters and buffers are left out; tied weights are there once.

    Returns
    -------
    vector : ndarray of shape (d,), float64
    """
    parts = [p.detach().cpu().double().reshape(-1).numpy() for _, p in trainable(module)]
    return np.concatenate(parts) if parts else np.zeros(0)


def set_flat(module: nn.Module, vector: np.ndarray) -> None:
    """Write a vector as :func:`get_flat` gives it into the parameters, rounded to their dtype."""
    parameters = trainable(module)
    length = sum(p.numel() for _, p in parameters)
    vector = np.asarray(vector, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(
            f"{type(module).__name__} has {length} trainable parameters; got a vector of shape "
            f"{vector.shape}. Compare `fingerprint` of both sides."
        )
    start = 0
    with torch.no_grad():
        for _, p in parameters:
            part = torch.from_numpy(vector[start : start + p.numel()].copy())
            p.copy_(part.view(p.shape))
            start += p.numel()


def fingerprint(module: nn.Module, criterion: nn.Module) -> str:
    """Digest of an architecture and its loss, to compare nets built apart (G19).

    It covers qualified class names, plain attributes (numbers, strings, functions by name, and
    tuples of them), names, shapes, types and ties of parameters and buffers, which of them are
    frozen, and the tensors of the criterion, such as class weights. No weight of the net enters.

    Returns
    -------
    digest : str
        64 hexadecimal digits.
    """
    lines = [*_describe("module", module), *_describe("criterion", criterion)]
    for name, tensor in criterion.state_dict().items():
        values = tensor.detach().cpu().double().numpy()
        lines.append(f"criterion value {name}: {values.tobytes().hex()}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _describe(root: str, module: nn.Module) -> Iterator[str]:
    for name, part in module.named_modules():
        # Some layers keep settings only in what they print; addresses differ in each process.
        printed = re.sub(r" at 0x[0-9a-fA-F]+", "", part.extra_repr())
        yield f"{root} part {name!r}: {_qualified(type(part))} {printed!r}"
        for key, value in sorted(vars(part).items()):
            if not key.startswith("_") and key != "training" and (text := _plain(value)):
                yield f"{root} attribute {name}.{key} = {text}"
    first: dict[int, str] = {}
    for kind, tensors in (
        ("parameter", module.named_parameters(remove_duplicate=False)),
        ("buffer", module.named_buffers(remove_duplicate=False)),
    ):
        for name, tensor in tensors:
            tied = first.setdefault(id(tensor), name)
            shape = tuple(tensor.shape)
            yield f"{root} {kind} {name} as {tied}: {shape} {tensor.dtype} {tensor.requires_grad}"


def _qualified(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _plain(value: Any) -> str:
    """A value in words that are the same in every process; empty if there are none."""
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return repr(value)
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_plain(item) for item in value) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, type) or inspect.isroutine(value):
        return _qualified(value) if hasattr(value, "__qualname__") else value.__name__
    return ""


def build_net(
    net: NeuralNet | type[nn.Module],
    *,
    seed: int,
    n_features: int | None = None,
    n_classes: int | None = None,
    device: str | None = None,
    options: dict[str, Any] | None = None,
) -> NeuralNet:
    """An initialised skorch net; the one that was given stays as it is.

    Parameters
    ----------
    net : uninitialised NeuralNetClassifier or NeuralNetRegressor, or a class of nn.Module
        A class becomes a classifier with NLLLoss on softmax outputs, as skorch has it, if
        ``n_classes`` is given, else a regressor with MSELoss.
    seed : int
        Of the initial weights. torch's global random state is left as it was.
    n_features, n_classes : int or None
        Passed as ``module__n_features`` and ``module__n_classes`` to a module whose ``__init__``
        has these parameters with default None, unless the net already sets them.
    device : str or None
        None leaves the net's own.
    options : dict or None
        Settings of a net that is made of a class, such as its learning rate.

    Returns
    -------
    net : NeuralNet
        ``module_`` and ``criterion_`` are there; the module is in training mode.
    """
    if isinstance(net, type) and issubclass(net, nn.Module):
        classes = (NeuralNetRegressor, nn.MSELoss)
        if n_classes is not None:
            classes = (NeuralNetClassifier, nn.NLLLoss)
        net = classes[0](net, criterion=classes[1], **(options or {}))
    elif isinstance(net, NeuralNetClassifier | NeuralNetRegressor):
        net = clone(net)
    else:
        raise TypeError(
            "net must be an uninitialised skorch NeuralNetClassifier or NeuralNetRegressor, or a "
            f"class of torch.nn.Module; got {net!r:.200}. For a module with arguments, use "
            "NeuralNetClassifier(MyModule, module__argument=...)."
        )
    for method in ("get_loss", "train_step_single", "train_step", "infer"):
        if not getattr(type(net), method).__module__.startswith("skorch."):
            raise ValueError(
                f"{type(net).__name__} overrides {method}, which is not called here: gradients are "
                "taken row by row. Put the loss into `criterion`, the rest into the module."
            )
    if not isinstance(net.module, type):
        raise ValueError(
            f"net.module must be a class, so that `seed` sets its weights; got an instance of "
            f"{type(net.module).__name__}. Pass the class and its arguments as module__name=value."
        )
    arguments = inspect.signature(net.module).parameters
    own = net.get_params(deep=False)
    for name, value in (("n_features", n_features), ("n_classes", n_classes)):
        wanted = name in arguments and arguments[name].default is None
        if value is not None and wanted and own.get(f"module__{name}") is None:
            net.set_params(**{f"module__{name}": value})
    if device is not None:
        net.set_params(device=device)
    with seeded(seed, torch.device(net.device or "cpu")):
        net.initialize()
    net.module_.train()
    _check_parameters(net.module_, net.criterion_)
    return net


def copy_net(net: NeuralNet) -> NeuralNet:
    """The same net with a module, a criterion and an optimizer of its own.

    skorch's own copies go through pickle, which knows no class that was made inside a function.
    """
    twin = object.__new__(type(net))
    known: dict[int, Any] = {}
    vars(twin).update(
        vars(net),
        module_=deepcopy(net.module_, known),
        criterion_=deepcopy(net.criterion_, known),
    )
    twin._initialize_optimizer(reason="")
    return twin


def _check_parameters(module: nn.Module, criterion: nn.Module) -> None:
    parameters = trainable(module)
    if not parameters:
        raise ValueError(
            f"{type(module).__name__} has no trainable parameter: leave requires_grad=True on some."
        )
    for name, p in parameters:
        if p.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"Parameter {name!r} is {p.dtype}; trainable parameters must be float32 or "
                "float64. Call .float() in the module's __init__."
            )
    if extra := trainable(criterion):
        raise ValueError(
            f"Parameter {extra[0][0]!r} of {type(criterion).__name__} would not be trained: only "
            "those of the module are. Move it into the module or set requires_grad=False."
        )

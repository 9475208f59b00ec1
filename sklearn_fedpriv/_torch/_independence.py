"""What a net must show on synthetic rows before it sees a real one (G7)."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy

import torch
from torch import Tensor, nn

from sklearn_fedpriv._torch._gradients import Plan
from sklearn_fedpriv._torch._known import check_known
from sklearn_fedpriv._torch._layers import Unfit
from sklearn_fedpriv._torch._methods import METHODS, as_rows, by_single, example_losses, is_dropout
from sklearn_fedpriv._torch._net import seeded, trainable
from sklearn_fedpriv._torch._sizes import equal_sizes

_FEW = 16  # rows for the checks of a run
_TOLERANCE = 1e-4  # relative; far above float32 errors, far below a real dependence


def check_row_independence(
    module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor, *, max_bytes: int = 2**28
) -> Plan:
    """Refuse a net in which rows depend on each other; find the fastest way that is right for it.

    1. Layers that mix the rows by design are refused by name.
    2. The net runs on synthetic rows: a row's output and loss must stay when its neighbours change
       or become NaN; buffers and parameters must stay; random numbers may be drawn by dropout only.
       This tells users what is wrong with a net; no promise hangs on it, as other values may show
       what these do not.
    3. The fast way is for nets of known parts only (``_known``), ``vmap`` for what it can follow.
       Either must agree with one ordinary backward pass a row, and a size of chunk is used only if
       the signals of a row are *bit-equal* at each place, among other neighbours and in chunks of
       the other sizes (see ``_gradients``). With none left, rows are taken one at a time, each by
       a fresh copy of the net, which needs nothing of this.

    Parameters
    ----------
    module, criterion : nn.Module
        In the mode in which they are used afterwards; they do not run themselves.
    X, y : Tensor
        Synthetic rows, at least 32, all different; never data. See :func:`synthetic_rows`.
    max_bytes : int
        About how much memory one chunk may take.

    Returns
    -------
    plan : Plan
        For :func:`clipped_gradient_sum`, on this machine and with this number of torch threads.
    """
    like = trainable(module)[0][1]
    X, y = as_rows(like, X), as_rows(like, y)
    if len(X) < 2 * _FEW:
        raise ValueError(f"At least {2 * _FEW} synthetic rows are needed; got {len(X)}.")
    module, criterion = deepcopy((module, criterion))
    refuse_mixing_layers(module)
    with _dropout_off(module), seeded(0, X.device), torch.enable_grad():
        _check_runs(module, criterion, X, y)
        reasons: list[str] = []
        for method in ("layers", "vmap"):
            try:
                if method == "layers":
                    check_known(module, criterion, X[:_FEW], y[:_FEW])
                _check_agreement(method, module, criterion, X[:8], y[:8])
                sizes = equal_sizes(method, module, criterion, X, y, max_bytes)
                return Plan(method, sizes, "; ".join(reasons))
            except Exception as error:  # a net that is broken fails the last way too, outside
                reasons.append(f"{method}: {error}")
        _check_single(module, criterion, X[:_FEW], y[:_FEW])
    return Plan("single", (1,), "; ".join(reasons))


def refuse_mixing_layers(module: nn.Module) -> None:
    """Refuse layers that mix rows, or keep their statistics, by design."""
    for name, part in module.named_modules():
        batch = isinstance(part, nn.modules.batchnorm._BatchNorm)
        instance = isinstance(part, nn.modules.instancenorm._InstanceNorm)
        if (batch and (part.training or part.running_mean is None)) or (
            instance and part.training and part.track_running_stats
        ):
            raise ValueError(
                f"Layer {name!r} ({type(part).__name__}) mixes the rows of a batch or keeps their "
                "statistics, so no row's share of a gradient is bounded. Allowed: nn.GroupNorm, "
                "nn.LayerNorm, nn.InstanceNorm without track_running_stats, or batch norm held in "
                "eval mode. Put nn.GroupNorm(groups, channels) in its place, as Opacus' "
                "ModuleValidator.fix does."
            )
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            raise ValueError(
                f"Layer {name!r} ({type(part).__name__}) has max_norm, by which a row's tokens "
                "rewrite the weights that all other rows use. Leave max_norm=None; to hold vectors "
                "to a length, divide them by their norms in forward."
            )


@contextmanager
def _dropout_off(module: nn.Module) -> Iterator[None]:
    parts = [part for part in module.modules() if is_dropout(part) and part.training]
    for part in parts:
        part.training = False
    try:
        yield
    finally:
        for part in parts:
            part.training = True


Calls = list[tuple[str, object, bool]]


def _run(module: nn.Module, X: Tensor) -> tuple[Tensor, Calls]:
    """The output, and per call of a part: its name, its output, whether it drew random numbers.

    On a copy, in which buffers and parameters have to stay.
    """
    original, module = module, deepcopy(module)
    calls: Calls = []
    states = []

    def before(part: nn.Module, inputs: object) -> None:
        states.append(torch.get_rng_state())

    def after(name: str) -> object:
        def hook(part: nn.Module, inputs: object, output: object) -> None:
            drew = not torch.equal(states.pop(), torch.get_rng_state())
            kept = output.detach().clone() if isinstance(output, Tensor) else None
            calls.append((f"{name!r} ({type(part).__name__})", kept, drew))

        return hook

    hooks = []
    for name, part in module.named_modules():
        hooks.append(part.register_forward_pre_hook(before))
        hooks.append(part.register_forward_hook(after(name)))
    try:
        with torch.no_grad():
            output = module(X.clone())
    finally:
        for hook in hooks:
            hook.remove()
    for (name, before_run), after_run in zip(_tensors(original), _tensors(module), strict=False):
        if not torch.equal(before_run, after_run[1]):
            raise ValueError(
                f"{name!r} changes when {type(module).__name__} runs, so it would hold what no "
                "noise covers. Allowed are layers that only read their parameters and buffers; "
                "replace the layer, or register no running statistics."
            )
    return output, calls


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


def _check_runs(module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor) -> None:
    n = _FEW
    output, calls = _run(module, X[:n])
    for name, _, drew in calls:
        if drew:
            raise ValueError(
                f"Layer {name} draws random numbers itself. Only dropout layers of torch.nn are "
                "seeded row by row; use nn.Dropout, or set its own dropout to 0."
            )
    if not isinstance(output, Tensor) or output.shape[:1] != (n,):
        raise ValueError(
            f"{type(module).__name__} must give one tensor, a row an example; {n} rows gave "
            f"{tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__}."
        )
    others = [torch.cat([X[:1], X[-n + 1 :]])]
    if X.is_floating_point():
        others.append(torch.cat([X[:1], torch.full_like(X[1:n], torch.nan)]))
    outputs = []
    for rows in others:
        try:
            changed, calls_changed = _run(module, rows)
        except (IndexError, RuntimeError):  # NaN in place of tokens: such a row adds zero
            if not rows[1:].isnan().all():
                raise
            continue
        outputs.append(changed)
        if not _close(output[0], changed[0]):
            pairs = zip(calls, calls_changed, strict=False)
            names = [a[0] for a, b in pairs if _differ(a[1], b[1], n)]
            raise ValueError(
                f"In {type(module).__name__} a row's output depends on its neighbours in the "
                f"batch, first in layer {names[0] if names else 'unknown'}. A layer may only "
                "combine numbers of one row: check its axes, and use nn.LayerNorm or nn.GroupNorm "
                "for norms."
            )
    try:
        losses = example_losses(deepcopy(criterion), output, y[:n])
        beside = example_losses(deepcopy(criterion), outputs[0], torch.cat([y[:1], y[-n + 1 :]]))
    except Unfit:
        return  # one row at a time then
    if not _close(losses[0], beside[0]):
        raise ValueError(
            f"The loss of a row by {type(criterion).__name__} depends on its neighbours, even with "
            "reduction='none'. Use a loss of one output and one target; for MSELoss, y must have "
            f"the shape of the output, {tuple(output.shape)}; got {tuple(y[:n].shape)}."
        )


def _close(a: Tensor, b: Tensor) -> bool:
    a, b = a.double(), b.double()
    return bool((a - b).abs().max() <= _TOLERANCE * (a.abs().max() + 1e-6))


def _differ(a: object, b: object, n: int) -> bool:
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return False
    return a.shape[:1] == (n,) and not _close(a[0], b[0])


def _check_agreement(
    method: str, module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor
) -> None:
    """Norms and a sum with uneven factors must be those of one backward pass a row."""
    found = METHODS[method](module, criterion, X, y)
    exact = by_single(module, criterion, X, y)
    factors = torch.linspace(0.5, 1.5, len(X), dtype=torch.float64, device=X.device)
    sums: list[dict[int, Tensor]] = []
    for pieces in (found, exact):
        squares = sum((piece.squares for piece in pieces), torch.zeros_like(factors))
        sums.append({0: squares.sqrt()})
        for piece in pieces:
            sums[-1].update({id(p): vector for p, vector in piece.sums(factors)})
    scale = max(float(vector.abs().max()) for vector in sums[1].values())
    for key, vector in sums[1].items():
        difference = (vector - sums[0].get(key, 0.0)).abs().max()
        if not difference <= _TOLERANCE * scale:
            raise Unfit("gradients differ from those of one backward pass a row")


def _check_single(module: nn.Module, criterion: nn.Module, X: Tensor, y: Tensor) -> None:
    """A row's gradient must stay, to the bit, when other copies of the net have seen other rows.

    A copy takes along all that the module and the criterion hold, but not what code keeps in a
    global variable, a class or a closure.
    """
    before = by_single(module, criterion, X[:1], y[:1])[0].signals
    for scale in (1, 10**6) if X.is_floating_point() else (1,):
        with suppress(Exception):  # such a row adds zero
            by_single(module, criterion, X[1:] * scale, y[1:])
    after = by_single(module, criterion, X[:1], y[:1])[0].signals
    if not all(torch.equal(a, b) for a, b in zip(before, after, strict=True)):
        raise ValueError(
            f"{type(module).__name__} or {type(criterion).__name__} keeps something outside of "
            "itself when it runs, so rows would change what others compute. Keep nothing in global "
            "variables, classes or closures, and draw no random numbers but by nn.Dropout."
        )

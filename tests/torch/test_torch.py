"""Clipped gradient sums equal their slow definition; nets that mix rows are refused (G7, G8)."""

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

from sklearn_fedpriv._torch import (
    Plan,
    _sizes,
    build_net,
    check_row_independence,
    clipped_gradient_sum,
    example_losses,
    fingerprint,
    get_flat,
    parameter_names,
    parameter_shapes,
    set_flat,
    sum_error,
    synthetic_rows,
)
from sklearn_fedpriv._torch._methods import by_layers, by_single, by_vmap
from sklearn_fedpriv._torch.modules import AmplitudeMLP, CifarCNN, FemnistCNN, MnistCNN


@pytest.fixture(autouse=True)
def one_thread_and_no_global_randomness():
    torch.set_num_threads(1)
    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state())


def slow_rows(module, criterion, X, y):
    """Gradient of each row by one ordinary backward pass; rows that are not finite are zero."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    out = []
    for i in range(len(X)):
        loss = example_losses(criterion, module(X[i : i + 1]), y[i : i + 1]).sum()
        grads = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        row = torch.cat([g.to_dense().double().reshape(-1) for g in grads])
        ok = torch.isfinite(row).all() and torch.isfinite(X[i]).all() and torch.isfinite(y[i]).all()
        out.append(row.numpy() if ok else np.zeros(len(row)))
    return np.array(out)


def slow_sum(module, criterion, X, y, clip_norm):
    rows = slow_rows(module, criterion, X, y)
    if not len(rows):
        return np.zeros(len(get_flat(module)))
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return (rows * np.minimum(1, clip_norm / np.maximum(norms, 1e-300))).sum(axis=0)


def seeded(make):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        return make()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)
        self.b.weight = self.a.weight

    def forward(self, X):
        return self.c(self.b(torch.tanh(self.a(X))))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, X):
        return self.c(self.a(torch.tanh(self.a(X))))


class Bare(nn.Module):
    """A parameter of its own, and a weight used behind its layer's back."""

    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(6, 6), nn.Linear(6, 2)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 6))

    def forward(self, X):
        return self.c(self.scale * torch.tanh(self.a(X)))


class Behind(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, X):
        return self.c(torch.tanh(self.a(X))) + (X @ self.a.weight)[:, :2]


class Branching(nn.Module):
    """Control flow on values, which vmap cannot follow."""

    def __init__(self):
        super().__init__()
        self.a, self.c = nn.Linear(6, 6, bias=False), nn.Bilinear(6, 6, 2)

    def forward(self, X):
        h = self.a(X)
        return self.c(h, h) if len(X) > 1 or float(h.detach().sum()) > 0 else 2 * self.c(h, h)


class Overwriting(nn.Module):
    """Overwrites the input of a layer after the layer has read it."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, X):
        h = torch.tanh(self.a(X)).clone()
        return self.c(self.b(h.clone())) + self.c.bias * 0 + h.mul_(2)[:, :2]


def frozen():
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))
    net[0].requires_grad_(False)
    net[2].bias.requires_grad_(False)
    net[4].weight.requires_grad_(False)
    return net


def images(*layers, channels=4, side=9):
    """Layers between an image and two outputs."""
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LazyLinear(2))


S = nn.Sequential
conv, image, line = nn.Conv2d, (4, 9, 8), (4, 11)
CASES = {  # name: (net, shape of a row, tokens, the way it has to take)
    "linear": (lambda: S(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)), (6,), None, "layers"),
    "no bias": (lambda: S(nn.Linear(6, 2, bias=False)), (6,), None, "layers"),
    "sequence": (
        lambda: S(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Flatten(), nn.Linear(20, 2)),
        (5, 3),
        None,
        "layers",
    ),
    "sequence 4d": (
        lambda: S(nn.Linear(3, 4), nn.Flatten(), nn.Linear(24, 2)),
        (2, 3, 3),
        None,
        "layers",
    ),
    "stride": (lambda: images(conv(4, 6, 3, stride=2)), image, None, "layers"),
    "uneven": (
        lambda: images(conv(4, 6, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1))),
        image,
        None,
        "layers",
    ),
    "groups": (lambda: images(conv(4, 6, 3, groups=2, padding=1)), image, None, "layers"),
    "depthwise": (lambda: images(conv(4, 8, 3, groups=4, bias=False)), image, None, "layers"),
    "same": (lambda: images(conv(4, 6, (4, 3), padding="same", dilation=2)), image, None, "layers"),
    "circular": (
        lambda: images(conv(4, 6, 3, padding=(1, 2), padding_mode="circular")),
        image,
        None,
        "layers",
    ),
    "reflect": (
        lambda: images(conv(4, 6, 3, padding=1, padding_mode="reflect")),
        image,
        None,
        "layers",
    ),
    "conv1d": (
        lambda: S(
            nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2),
            nn.Flatten(),
            nn.LazyLinear(2),
        ),
        line,
        None,
        "layers",
    ),
    "inplace": (
        lambda: S(
            nn.Linear(6, 5),
            nn.ReLU(inplace=True),
            nn.Linear(5, 4),
            nn.ReLU(inplace=True),
            nn.Linear(4, 2),
        ),
        (6,),
        None,
        "layers",
    ),
    "embedding": (lambda: S(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(12, 2)), (4,), 5, "layers"),
    "padding_idx": (
        lambda: S(nn.Embedding(5, 3, padding_idx=1), nn.Flatten(), nn.Linear(12, 2)),
        (4,),
        5,
        "layers",
    ),
    "layer norm": (
        lambda: S(nn.Linear(6, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 2)),
        (6,),
        None,
        "layers",
    ),
    "layer norm of sequences": (
        lambda: S(nn.LayerNorm((3, 2)), nn.Flatten(), nn.Linear(24, 2)),
        (4, 3, 2),
        None,
        "layers",
    ),
    "group norm": (
        lambda: images(conv(4, 6, 3), nn.GroupNorm(3, 6), nn.ReLU(inplace=True)),
        image,
        None,
        "layers",
    ),
    "frozen": (frozen, (6,), None, "layers"),
    "tied": (Tied, (6,), None, "vmap"),
    "twice": (Twice, (6,), None, "vmap"),
    "bare": (Bare, (6,), None, "vmap"),
    "behind": (Behind, (6,), None, "vmap"),
    "conv transpose": (lambda: images(nn.ConvTranspose2d(4, 3, 2)), image, None, "vmap"),
    "prelu": (lambda: S(nn.Linear(6, 6), nn.PReLU(), nn.Linear(6, 2)), (6,), None, "vmap"),
    "weight norm": (
        lambda: S(nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), nn.Linear(4, 2)),
        (6,),
        None,
        "vmap",
    ),
    "branching": (Branching, (6,), None, "single"),
    "overwriting": (Overwriting, (6,), None, None),
    "double": (lambda: S(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double(), (6,), None, None),
}


def prepare(name, criterion=None):
    make, shape, tokens, way = CASES[name]
    criterion = criterion or nn.CrossEntropyLoss()

    def build():
        net = make()
        if any(isinstance(part, nn.LazyLinear) for part in net.modules()):
            net(torch.zeros(2, *shape))
        return net

    module = seeded(build)
    X, y = synthetic_rows(module, criterion, shape, tokens=tokens)
    return module, criterion, X, y, way


def hostile(X, y):
    """NaN, infinities, huge and tiny numbers, duplicates, between ordinary rows."""
    X = X[:37].clone()
    if X.is_floating_point():
        X[1] = torch.nan
        X[4].view(-1)[0] = torch.inf
        X[5].view(-1)[-1] = -torch.inf
        X[8] *= 1e30
        X[9].view(-1)[0] = 3e38
        X[10] = 0
        X[11] *= 1e-42
    X[20:24] = X[2]
    return X, y[:37]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("clip_norm", [0.05, 1.0, 1e6])
def test_the_sum_is_that_of_the_definition_on_hostile_rows(name, clip_norm):
    module, criterion, X, y, way = prepare(name)
    plan = check_row_independence(module, criterion, X, y)
    assert way is None or plan.method == way, plan
    for rows, targets in (hostile(X, y), (X[:1], y[:1]), (X[:0], y[:0]), (X[:200], y[:200])):
        kept = rows.clone()
        expected = slow_sum(module, criterion, rows, targets, clip_norm)
        total = clipped_gradient_sum(module, criterion, rows, targets, clip_norm, plan)
        assert total.dtype == np.float64 and np.isfinite(total).all()
        assert np.abs(total - expected).max() <= 1e-5 * max(1e-3, np.linalg.norm(expected))
        assert torch.equal(torch.nan_to_num(rows), torch.nan_to_num(kept))


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case[3] == "layers"])
def test_every_row_of_the_rules_is_that_of_vmap(name):
    module, criterion, X, y, _ = prepare(name)
    X, y = X[:20], y[:20]
    # one row at a time, by factors
    layers, exact = by_layers(module, criterion, X, y), by_vmap(module, criterion, X, y)
    offsets = {id(p): p for p in module.parameters()}
    for i in range(20):
        factors = torch.zeros(20, dtype=torch.float64)
        factors[i] = 1
        ours = {id(p): v for piece in layers for p, v in piece.sums(factors)}
        theirs = {id(p): v for piece in exact for p, v in piece.sums(factors)}
        scale = max(float(v.abs().max()) for v in theirs.values())
        for key, vector in theirs.items():
            assert key in offsets
            assert float((ours[key] - vector).abs().max()) <= 1e-5 * scale
    squares = sum(piece.squares for piece in layers)
    assert torch.allclose(squares, exact[0].squares, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if n != "branching"])
def test_one_row_moves_the_sum_by_its_clipped_gradient_and_no_more(name):
    """Neighbouring batches over all sizes of chunks, also where matrix kernels change."""
    module, criterion, X, y, _ = prepare(name)
    plan = check_row_independence(module, criterion, X, y)
    for n in (1, 2, 8, 9, 16, 17, 33, 65, 200):
        whole = clipped_gradient_sum(module, criterion, X[:n], y[:n], 0.01, plan)
        for out in {0, n // 2, n - 1}:
            rest = [i for i in range(n) if i != out]
            less = clipped_gradient_sum(module, criterion, X[rest], y[rest], 0.01, plan)
            moved = np.linalg.norm(whole - less)
            assert moved <= 0.01 + sum_error(module, n, 0.01, plan)
            alone = clipped_gradient_sum(module, criterion, X[[out]], y[[out]], 0.01, plan)
            error = np.linalg.norm(whole - less - alone)
            assert error <= 2 * sum_error(module, n, 0.01, plan)


def exact_sum(pieces_rows, clip_norm):
    """Exact sum of exactly clipped rows, up to 2**-200, from exact rows of Fractions."""
    total = None
    for row in pieces_rows:
        square = sum(x * x for x in row)
        factor = Fraction(1)
        if square > Fraction(clip_norm) ** 2:
            ratio = Fraction(clip_norm) ** 2 / square
            factor = Fraction(math.isqrt(int(ratio * 2**600)), 2**300)
        scaled = [factor * x for x in row]
        total = scaled if total is None else [a + b for a, b in zip(total, scaled, strict=True)]
    return total


@pytest.mark.parametrize("spread", [0, 6])
@pytest.mark.parametrize("clip_norm", [0.3, 2.0])
def test_float_errors_are_within_the_bound_by_exact_arithmetic(spread, clip_norm):
    module = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    criterion = nn.CrossEntropyLoss()
    X, y = synthetic_rows(module, criterion, (3,))
    plan = check_row_independence(module, criterion, X, y)
    X = X * 10.0 ** torch.linspace(-spread, spread, len(X))[:, None]
    rows = [[] for _ in range(len(X))]
    for piece in by_layers(module, criterion, X, y):  # in the order of the flat vector
        a, b = piece.signals
        for i, row in enumerate(rows):
            left = [Fraction(float(v)) for v in b[i]]
            right = [Fraction(float(v)) for v in a[i]]
            row += [v * w for v in left for w in right] + left
    exact = exact_sum(rows, clip_norm)
    total = clipped_gradient_sum(module, criterion, X, y, clip_norm, plan)
    error = float(sum((Fraction(float(v)) - w) ** 2 for v, w in zip(total, exact, strict=True)))
    assert 0 < error**0.5 <= sum_error(module, len(X), clip_norm, plan) / 2
    # and no row exceeds the bound, exactly
    for i in range(len(X)):
        single = clipped_gradient_sum(module, criterion, X[[i]], y[[i]], clip_norm, plan)
        norm = sum(Fraction(float(v)) ** 2 for v in single)
        assert norm <= Fraction(clip_norm) ** 2


def test_the_bound_is_small_and_grows_with_rows_and_small_chunks():
    module = MnistCNN.__new__(MnistCNN)
    module = seeded(MnistCNN)
    large, small = Plan("layers", (256, 64, 16)), Plan("layers", (16,))
    assert sum_error(module, 2**20, 1.0, large) < 2.0**-16
    assert sum_error(module, 2**20, 1.0, large) < sum_error(module, 2**20, 1.0, small) < 2.0**-13
    assert sum_error(module, 300, 4.0, large) == 4 * sum_error(module, 300, 1.0, large)


class Centre(nn.Module):
    def forward(self, X):
        return X - X.mean(0)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, X):
        self.seen += X.detach().sum()
        return X


class Noisy(nn.Module):
    def forward(self, X):
        return X + torch.randn_like(X)


MIXING = {
    "BatchNorm1d": lambda: S(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)),
    "SyncBatchNorm": lambda: S(nn.Linear(6, 6), nn.SyncBatchNorm(6), nn.Linear(6, 2)),
    "Centre": lambda: S(nn.Linear(6, 6), Centre(), nn.Linear(6, 2)),
    "1.seen": lambda: S(nn.Linear(6, 6), Counting(), nn.Linear(6, 2)),
    "Noisy": lambda: S(nn.Linear(6, 6), Noisy(), nn.Linear(6, 2)),
    "Softmax": lambda: S(nn.Linear(6, 6), nn.Softmax(dim=0), nn.Linear(6, 2)),
}


@pytest.mark.parametrize("name", MIXING)
def test_nets_that_mix_rows_are_refused_by_the_name_of_the_layer(name):
    module = seeded(MIXING[name])
    X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 2
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(ValueError, match=f"'1|{name}") as caught:
        check_row_independence(module, nn.CrossEntropyLoss(), X, y)
    assert name in str(caught.value)
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key])


def test_batch_norm_held_in_eval_mode_and_instance_norm_pass():
    module = seeded(lambda: S(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)))
    module[1].eval()
    rows = synthetic_rows(module, nn.CrossEntropyLoss(), (6,))
    assert check_row_independence(module, nn.CrossEntropyLoss(), *rows).method == "vmap"
    module = seeded(lambda: S(conv(4, 3, 3), nn.InstanceNorm2d(3), nn.Flatten(), nn.Linear(126, 2)))
    rows = synthetic_rows(module, nn.CrossEntropyLoss(), image)
    assert check_row_independence(module, nn.CrossEntropyLoss(), *rows).method == "layers"
    module[1] = nn.InstanceNorm2d(3, track_running_stats=True)
    with pytest.raises(ValueError, match="InstanceNorm2d"):
        check_row_independence(module, nn.CrossEntropyLoss(), *rows)


def test_a_loss_that_mixes_rows_is_refused():
    class Ranked(nn.Module):
        reduction = "mean"

        def forward(self, output, y):
            return (output - output.mean(0)).square()

    module = seeded(lambda: nn.Linear(6, 2))
    X, y = torch.randn(64, 6, generator=torch.Generator().manual_seed(0)), torch.zeros(64, 2)
    with pytest.raises(ValueError, match="Ranked"):
        check_row_independence(module, Ranked(), X, y)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("loss", [nn.MSELoss, nn.L1Loss, nn.HuberLoss, nn.BCEWithLogitsLoss])
def test_losses_of_numbers(loss, reduction):
    module, criterion, X, y, _ = prepare("linear", loss(reduction=reduction))
    plan = check_row_independence(module, criterion, X, y)
    assert plan.method == "layers"
    y = y.clone()
    y[3] = torch.nan
    expected = slow_sum(module, criterion, X[:30], y[:30], 0.1)
    total = clipped_gradient_sum(module, criterion, X[:30].numpy(), y[:30].numpy(), 0.1, plan)
    assert np.abs(total - expected).max() <= 1e-6


def test_class_weights_multiply_and_losses_without_reduction_go_row_by_row():
    weights = torch.tensor([1.0, 5.0])
    output = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    losses = example_losses(nn.NLLLoss(weight=weights), output, torch.tensor([0, 1]))
    assert torch.allclose(losses, torch.log(torch.tensor(2.0)) * weights)

    class Plain(nn.Module):
        def forward(self, output, y):
            return nn.functional.cross_entropy(output, y)

    module, criterion, X, y, _ = prepare("linear", None)
    plan = check_row_independence(module, Plain(), X, y)
    assert plan.method == "vmap"
    assert np.allclose(
        clipped_gradient_sum(module, Plain(), X[:40], y[:40], 0.1, plan),
        slow_sum(module, criterion, X[:40], y[:40], 0.1),
        atol=1e-6,
    )


def test_dropout_needs_a_seed_and_drops_row_by_row():
    module = seeded(lambda: S(nn.Linear(6, 50), nn.Dropout(0.5), nn.Linear(50, 2)))
    criterion = nn.CrossEntropyLoss()
    X, y = synthetic_rows(module, criterion, (6,))
    plan = check_row_independence(module, criterion, X, y)
    assert plan.method == "layers" and module[1].training
    with pytest.raises(ValueError, match="seed"):
        clipped_gradient_sum(module, criterion, X, y, 1.0, plan)
    same = [clipped_gradient_sum(module, criterion, X, y, 1.0, plan, seed=5) for _ in range(2)]
    assert np.array_equal(*same)
    other = clipped_gradient_sum(module, criterion, X, y, 1.0, plan, seed=6)
    assert not np.array_equal(other, same[0])
    copies = X[:1].repeat(16, 1), y[:1].repeat(16)
    a = by_layers(module.eval(), criterion, *copies)
    assert torch.equal(a[0].signals[1][0], a[0].signals[1][1])
    for way in ("layers", "vmap"):  # different masks for equal rows
        total = clipped_gradient_sum(
            module.train(), criterion, *copies, 1e6, Plan(way, (16,)), seed=1
        )
        one = clipped_gradient_sum(module, criterion, X[:1], y[:1], 1e6, Plan(way, (16,)), seed=1)
        assert not np.allclose(total, 16 * one)
    module.eval()
    clipped_gradient_sum(module, criterion, X, y, 1.0, plan)


def test_a_tight_memory_takes_smaller_chunks_and_in_the_end_single_rows():
    module, criterion, X, y, _ = prepare("stride")
    sizes = [
        check_row_independence(module, criterion, X, y, max_bytes=b) for b in (2**28, 2**20, 1)
    ]
    assert sizes[0].sizes == tuple(range(256, 0, -32))
    assert sizes[1].sizes[0] < 256
    assert (sizes[2].method, sizes[2].sizes) == ("single", (1,)) and "memory" in sizes[2].reason
    sums = [clipped_gradient_sum(module, criterion, X, y, 0.1, plan) for plan in sizes]
    assert np.allclose(sums[0], sums[1], atol=1e-12)
    assert np.allclose(sums[0], sums[2], atol=1e-5)


def test_flat_vectors():
    module = seeded(Tied)
    assert parameter_names(module) == ["a.weight", "a.bias", "b.bias", "c.weight", "c.bias"]
    assert parameter_shapes(module)[3] == (2, 6)
    vector = get_flat(module)
    assert vector.shape == (36 + 6 + 6 + 12 + 2,)
    set_flat(module, vector + 1)
    assert np.allclose(get_flat(module), vector + 1, atol=1e-6)
    assert module.a.weight is module.b.weight
    with pytest.raises(ValueError, match=r"62 trainable.*\(61,\)"):
        set_flat(module, vector[1:])
    module = seeded(lambda: S(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    module[0].weight.requires_grad_(False)
    state = copy.deepcopy(module.state_dict())
    assert parameter_names(module) == ["0.bias", "1.weight", "1.bias"]
    set_flat(module, np.full(6, 9.0))
    assert torch.equal(module[0].weight, state["0.weight"])
    assert torch.equal(module[1].running_mean, state["1.running_mean"])
    assert torch.equal(module[1].bias.detach(), torch.full((2,), 9.0))


def test_fingerprints_see_the_architecture_and_not_the_weights():
    def digest(net, criterion=None):
        return fingerprint(net, criterion or nn.NLLLoss())

    def net(**changes):
        options = {"stride": 1, "padding": 0} | changes
        return seeded(lambda: S(conv(1, 2, 3, **options), nn.ReLU(), nn.Dropout(0.1)))

    same = digest(net())
    moved = net()
    set_flat(moved, get_flat(moved) + 1)
    assert digest(moved) == digest(net().eval()) == same
    frozen_net = net()
    frozen_net[0].bias.requires_grad_(False)
    other_activation, other_p = net(), net()
    other_activation[1], other_p[2].p = nn.Tanh(), 0.2
    untied = seeded(Tied)
    untied.b.weight = nn.Parameter(untied.a.weight.detach().clone())
    others = [
        digest(net(stride=2)),
        digest(net(padding=1)),
        digest(net(bias=False)),
        digest(net().double()),
        digest(frozen_net),
        digest(other_activation),
        digest(other_p),
        digest(net(), nn.MSELoss()),
        digest(net(), nn.NLLLoss(reduction="sum")),
        digest(net(), nn.NLLLoss(weight=torch.ones(2))),
        digest(net(), nn.NLLLoss(weight=torch.tensor([1.0, 2.0]))),
        digest(seeded(Tied)),
        digest(untied),
    ]
    assert len({same, *others}) == 1 + len(others)


class Sized(nn.Module):
    def __init__(self, n_features=None, n_classes=None, hidden=3):
        super().__init__()
        self.layers = S(nn.Linear(n_features, hidden), nn.Linear(hidden, n_classes or 1))
        self.softmax = n_classes is not None

    def forward(self, X):
        return torch.softmax(self.layers(X), 1) if self.softmax else self.layers(X)


def test_nets_are_built_from_a_seed_and_the_given_one_is_left_alone():
    given = NeuralNetClassifier(Sized, module__hidden=7)
    a, b = (build_net(given, seed=3, n_features=4, n_classes=5) for _ in range(2))
    assert not hasattr(given, "module_") and "module__n_features" not in given.get_params()
    assert parameter_shapes(a.module_) == [(7, 4), (7,), (5, 7), (5,)]
    assert np.array_equal(get_flat(a.module_), get_flat(b.module_)) and a.module_.training
    c = build_net(given, seed=4, n_features=4, n_classes=5)
    assert not np.array_equal(get_flat(a.module_), get_flat(c.module_))
    assert isinstance(a.criterion_, nn.NLLLoss)
    regressor = build_net(Sized, seed=0, n_features=4)
    assert isinstance(regressor, NeuralNetRegressor)
    assert isinstance(regressor.criterion_, nn.MSELoss)
    own = NeuralNetClassifier(Sized, module__n_features=2, module__n_classes=2)
    assert parameter_shapes(build_net(own, seed=0, n_features=4).module_)[0] == (3, 2)


def test_what_cannot_be_built_is_refused():
    class Own(NeuralNetClassifier):
        def get_loss(self, *args, **kwargs):
            return 0

    with pytest.raises(TypeError, match="skorch"):
        build_net(seeded(lambda: nn.Linear(2, 2)), seed=0)
    with pytest.raises(ValueError, match="get_loss"):
        build_net(Own(Sized), seed=0, n_features=2, n_classes=2)
    with pytest.raises(ValueError, match="must be a class"):
        build_net(NeuralNetClassifier(seeded(lambda: nn.Linear(2, 2))), seed=0)
    with pytest.raises(ValueError, match="no trainable parameter"):
        build_net(NeuralNetClassifier(nn.Identity, optimizer=NoOptimizer), seed=0)


class NoOptimizer(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__([torch.zeros(1)], lr=lr)


def test_the_loss_of_a_built_net_is_that_of_skorch():
    net = build_net(Sized, seed=0, n_features=4, n_classes=3)
    X, y = synthetic_rows(net.module_, net.criterion_, (4,))
    with torch.no_grad():
        output = net.module_(X)
        ours = example_losses(net.criterion_, output, y).mean()
        assert torch.allclose(ours, net.get_loss(output, y))


@pytest.mark.parametrize(
    ("module", "n_parameters", "shapes", "n_classes"),
    [
        (MnistCNN, 26_010, [(784,), (28, 28), (1, 28, 28)], 10),
        (AmplitudeMLP, 25_450, [(784,), (28, 28), (1, 28, 28)], 10),
        (CifarCNN, 62_006, [(3072,), (3, 32, 32)], 10),
        (FemnistCNN, 1_206_590, [(784,), (1, 28, 28)], 62),
    ],
)
def test_ready_modules(module, n_parameters, shapes, n_classes):
    net = build_net(module, seed=0, n_classes=n_classes)
    assert len(get_flat(net.module_)) == n_parameters
    net.module_.eval()
    X = torch.rand(3, *shapes[0], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        outputs = [net.module_(X.reshape(3, *shape)) for shape in shapes]
    assert outputs[0].shape == (3, n_classes)
    assert torch.allclose(outputs[0].sum(1), torch.ones(3))
    assert all(torch.equal(output, outputs[0]) for output in outputs)
    rows = synthetic_rows(net.module_, net.criterion_, shapes[0], n_rows=32)
    few = 2**26  # bytes, for chunks of moderate size: the largest net takes long to check
    plan = check_row_independence(net.module_.train(), net.criterion_, *rows, max_bytes=few)
    assert plan.method == "layers"
    net.module_.eval()
    total = clipped_gradient_sum(net.module_, net.criterion_, rows[0][:9], rows[1][:9], 0.5, plan)
    expected = slow_sum(net.module_, net.criterion_, rows[0][:9], rows[1][:9], 0.5)
    assert np.abs(total - expected).max() <= 1e-5


def test_arguments_are_checked():
    module, criterion, X, y, _ = prepare("linear")
    plan = Plan("layers", (16,))
    with pytest.raises(ValueError, match="got 3 and 2"):
        clipped_gradient_sum(module, criterion, X[:3], y[:2], 1.0, plan)
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="clip_norm"):
            clipped_gradient_sum(module, criterion, X, y, wrong, plan)
    with pytest.raises(TypeError, match="dict"):
        clipped_gradient_sum(module, criterion, {"x": X}, y, 1.0, plan)
    with pytest.raises(ValueError, match="32 synthetic rows"):
        check_row_independence(module, criterion, X[:5], y[:5])
    assert by_single(module, criterion, X[:2], y[:2])[0].squares.shape == (2,)


def test_rows_that_are_not_finite_add_nothing_even_if_the_net_mends_them():
    class Mend(nn.Module):
        def forward(self, X):
            return torch.nan_to_num(X, nan=0.5, posinf=1.0, neginf=-1.0)

    module = seeded(lambda: S(Mend(), nn.Linear(6, 2)))
    criterion = nn.CrossEntropyLoss()
    X, y = synthetic_rows(module, criterion, (6,))
    plan = check_row_independence(module, criterion, X, y)
    bad = torch.full((3, 6), torch.nan), y[:3]
    assert not clipped_gradient_sum(module, criterion, *bad, 1.0, plan).any()


def test_a_size_of_chunk_is_used_only_if_its_signals_are_bit_equal(monkeypatch):
    """On most machines chunks of 4 rows take other kernels than chunks of 256."""
    monkeypatch.setattr(_sizes, "SIZES", (256, 64, 16, 4))
    net = build_net(MnistCNN, seed=0, n_classes=10)
    X, y = synthetic_rows(net.module_, net.criterion_, (784,), n_rows=256)
    whole, four = (
        [
            signal
            for piece in by_layers(net.module_, net.criterion_, X[:n], y[:n])
            for signal in piece.signals
        ]
        for n in (256, 4)
    )
    equal = all(torch.equal(a[:4], b) for a, b in zip(whole, four, strict=True))
    plan = check_row_independence(net.module_, net.criterion_, X, y)
    assert (4 in plan.sizes) == equal

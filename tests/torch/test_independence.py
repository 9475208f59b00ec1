"""Rows and parties cannot reach each other through a net, whatever its code does (G7, G8)."""

import copy
import math

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

from sklearn_fedpriv._torch import (
    LocalNet,
    Plan,
    _local,
    build_net,
    check_row_independence,
    clipped_gradient_sum,
    get_flat,
    sum_error,
    synthetic_rows,
    token_limit,
)
from sklearn_fedpriv._torch._known import check_known, unknown_part
from sklearn_fedpriv._torch._layers import Unfit
from sklearn_fedpriv._torch._methods import METHODS, by_layers
from sklearn_fedpriv._torch._net import seeded
from sklearn_fedpriv._torch._sizes import SIZES, equal_sizes
from sklearn_fedpriv._torch._synthetic import rows_read
from sklearn_fedpriv.neural_network import SmallNet

S = nn.Sequential
C = 0.1


@pytest.fixture(autouse=True)
def one_thread_and_no_global_randomness():
    torch.set_num_threads(1)
    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state())


def made(make):
    with seeded(7, torch.device("cpu")):
        return make()


def table(n=400, p=4, seed=0):
    X = np.random.default_rng(seed).random((n, p), dtype=np.float32)
    return X, (X[:, 0] > 0.5).astype(int)


def local(net, shape=(4,), n_classes=2, **options):
    return LocalNet(build_net(net, seed=0, n_classes=n_classes), shape, by_rows=True, **options)


def moved(code, X, y, row, label, other=None):
    """By how many clip norms one more row, at the front, moves the sum."""
    weights = get_flat(code._net.module_)
    with_row = (other or code).gradient_sum(weights, np.vstack([row, X]), np.append(label, y), C, 0)
    return np.linalg.norm(with_row - code.gradient_sum(weights, X, y, C, 0)) / C


# Sizes of chunks


@pytest.mark.parametrize("method", ["layers", "vmap"])
@pytest.mark.parametrize("width", [1, 3, 7])
@pytest.mark.parametrize("activation", [nn.Sigmoid, nn.SiLU, nn.ELU])
def test_rows_of_odd_width_have_the_same_bits_in_chunks_of_all_sizes(method, width, activation):
    """In 16 rows of 7 numbers the last ones are not in a vector register, and differ."""
    module = made(lambda: S(nn.Linear(13, width), activation(), nn.Linear(width, 3), nn.Softmax(1)))
    rng = np.random.default_rng(0)
    X = torch.as_tensor(rng.normal(size=(256, 13), scale=8).astype("f4"))
    y = torch.as_tensor(rng.integers(0, 3, 256))

    def signals(rows):
        pieces = METHODS[method](module, nn.NLLLoss(), X[rows], y[rows])
        return [signal for piece in pieces for signal in piece.signals]

    assert all(size % 32 == 0 for size in SIZES)
    whole = signals(torch.arange(256))
    for size in SIZES:
        for _ in range(3):
            rows = torch.as_tensor(rng.permutation(256)[:size])
            assert all(torch.equal(a[rows], b) for a, b in zip(whole, signals(rows), strict=True))


def by_place(pieces, X):
    """One row moves in the last bit: at the end of the chunk."""
    pieces[0].signals[1][-1] *= 1 + 2.0**-23


def by_first_row(pieces, X):
    """All rows move in the last bits, by the row at the front."""
    pieces[0].signals[1].mul_(1 + 2.0**-23 * (int(1000 * X[0].abs().nan_to_num().sum()) % 8))


def by_nan(pieces, X):
    """All rows move in the last bit beside a row that is no number."""
    if X.isnan().any():
        pieces[0].signals[1].mul_(1 + 2.0**-23)


def by_size(pieces, X):
    """All rows move in the last bit in small chunks."""
    if len(X) < 128:
        pieces[0].signals[1].mul_(1 + 2.0**-23)


@pytest.mark.parametrize("slip", [by_place, by_first_row, by_nan, by_size])
def test_a_last_bit_that_goes_by_anything_but_the_row_is_seen(slip, monkeypatch):
    module, criterion = made(lambda: S(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))), nn.MSELoss()
    X, y = synthetic_rows(module, criterion, (6,))

    def wrong(*arguments):
        pieces = by_layers(*arguments)
        slip(pieces, arguments[2])
        return pieces

    monkeypatch.setitem(METHODS, "layers", wrong)
    if slip is by_size:
        assert equal_sizes("layers", module, criterion, X, y, 2**28) == (256, 224, 192, 160, 128)
        return
    with pytest.raises(Unfit, match="bit-equal"):
        equal_sizes("layers", module, criterion, X, y, 2**28)


# What is known


class Doubling(nn.Linear):
    def forward(self, X):
        return 2 * super().forward(X)


class Looking:
    def __getattribute__(self, name):
        return super().__getattribute__(name)


class Ready(nn.Sequential):
    """A class for skorch that only lists torch's layers."""

    def __init__(self, n_tokens=100):
        super().__init__(nn.Embedding(n_tokens, 8), nn.Flatten(), nn.Linear(48, 2), nn.Softmax(1))
        self.n_tokens = n_tokens


class Readier(Ready):
    pass


def hooked(layer):
    layer.register_forward_hook(lambda part, inputs, output: output - output.mean(0))
    return layer


def replaced(layer):
    layer.forward = lambda X: X - X.mean(0)
    return layer


@pytest.mark.parametrize(
    "layer",
    [
        lambda: Doubling(6, 6),
        lambda: hooked(nn.Linear(6, 6)),
        lambda: replaced(nn.Identity()),
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
        lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
        lambda: nn.BatchNorm1d(6).eval(),
        lambda: nn.RReLU(),
        lambda: type("Net", (nn.Sequential,), {"forward": lambda self, X: X - X.mean(0)})(),
        lambda: type("Net", (nn.Sequential,), {"__call__": lambda self, X: X - X.mean(0)})(),
        lambda: type("Net", (nn.Sequential, Looking), {})(),
        lambda: type("Net", (type("Own", (nn.Sequential,), {"__iter__": iter}),), {})(),
    ],
)
def test_parts_are_known_by_their_exact_type_without_hooks(layer):
    module = made(lambda: S(layer(), nn.Linear(6, 2)))
    assert "'0'" in unknown_part(module, nn.CrossEntropyLoss())
    for module in (lambda: S(S(nn.Linear(6, 2)), nn.Tanh()), Ready, lambda: S(Readier())):
        assert not unknown_part(made(module), nn.MSELoss())


def test_losses_are_known_by_their_exact_type():
    module = made(lambda: S(nn.Linear(6, 2)))

    class MSELoss(nn.MSELoss):
        pass

    for loss in (MSELoss(), hooked(nn.MSELoss()), nn.BCEWithLogitsLoss(torch.ones(32, 1))):
        assert unknown_part(module, loss)
    assert not unknown_part(module, nn.NLLLoss(weight=torch.ones(2)))


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        (lambda: (nn.Softmax(dim=-2), nn.Linear(6, 2)), (6,)),
        (lambda: (nn.Softmax(dim=None), nn.Flatten(), nn.Linear(6, 2)), (2, 3)),
        (lambda: (nn.Flatten(0, 1), nn.Linear(3, 2)), (2, 3)),
        (lambda: (nn.Conv2d(32, 32, 3, padding=1), nn.Flatten(), nn.Linear(30, 2)), (5, 6)),
        (lambda: (nn.InstanceNorm1d(32), nn.Linear(6, 2)), (6,)),
    ],
)
def test_layers_that_may_take_the_rows_for_something_else_have_no_fast_way(layers, shape):
    module = made(lambda: S(*layers()))
    X, y = torch.zeros(32, *shape), torch.zeros(32, dtype=torch.int64)
    with pytest.raises(Unfit, match="combine rows"):
        check_known(module, nn.CrossEntropyLoss(), X, y)
    with pytest.raises(Unfit, match=r"outputs of shape \(32, 2\)"):
        check_known(made(lambda: S(nn.Linear(6, 2))), nn.MSELoss(), torch.zeros(32, 6), y)


def test_only_plans_of_known_nets_are_remembered(monkeypatch):
    """In a notebook a class is defined again, with the same name and another forward."""
    asked = []
    monkeypatch.setattr(_local, "_plans", {})
    monkeypatch.setattr(
        _local,
        "check_row_independence",
        lambda module, *rest: asked.append(type(module)) or check_row_independence(module, *rest),
    )

    def cell(forward):
        def init(self):
            nn.Module.__init__(self)
            self.fc = nn.Linear(4, 2)

        members = {"__init__": init, "forward": forward, "__qualname__": "Net"}
        return type("Net", (nn.Module,), members)

    local(cell(lambda self, X: torch.softmax(self.fc(X), 1)))
    with pytest.raises(ValueError, match="neighbours"):
        local(cell(lambda self, X: torch.softmax(self.fc(X - X.mean(0)), 1)))
    for _ in range(2):
        LocalNet(build_net(SmallNet, seed=0, n_features=4, n_classes=2), (4,), by_rows=True)
    assert len(asked) == 3 and asked[2] is SmallNet


# Code that looks at values, or keeps what it saw


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, X):
        if (X > 50).any():
            X = X / 255
        return torch.softmax(self.fc(X), 1)


class Trim(nn.Module):
    """Cuts the padding of a batch, then takes a mean."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(500, 8), nn.Linear(8, 2)

    def forward(self, X):
        X = X[:, : int((X != 0).sum(1).max())]
        return torch.softmax(self.fc(self.table(X).mean(1)), 1)


def test_what_made_up_rows_do_not_trigger_cannot_reach_other_rows():
    X, y = table()
    code = local(Scale)
    assert code._plan.method == "single"
    assert moved(code, X, y, np.full((1, 4), 255, "f4"), 0) <= 1 + 1e-9
    rng = np.random.default_rng(0)
    X = np.pad(rng.integers(1, 500, (400, 5)), ((0, 0), (0, 15)))
    code = local(Trim, (20,))
    assert code._plan.method == "single"
    assert moved(code, X, y, rng.integers(1, 500, (1, 20)), 0) <= 1 + 1e-9


class RunningMax(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.scale = nn.Linear(4, 2), [8.0]

    def forward(self, X):
        self.scale[0] = max(self.scale[0], float(X.detach().abs().max()))
        return torch.softmax(self.fc(8 * X / self.scale[0]), 1)


class SlowCentre(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.centre = nn.Linear(4, 2), 0.0

    def forward(self, X):
        output = torch.softmax(self.fc(X - self.centre), 1)
        self.centre += 1e-6 * float(X.detach().mean())
        return output


class KeepingLoss(nn.NLLLoss):
    """The next rows are divided by what this one cost."""

    def __init__(self, **options):
        super().__init__(**options)
        self.register_buffer("level", torch.ones(()))

    def forward(self, output, y):
        loss = super().forward(output, y) / float(self.level)
        self.level.fill_(max(float(self.level), float(loss.detach().abs().max())))
        return loss


KEEPING = {
    "list": RunningMax,
    "number": SlowCentre,
    "loss": NeuralNetClassifier(Scale, criterion=KeepingLoss),
}


@pytest.mark.parametrize("name", KEEPING)
def test_what_a_row_leaves_behind_reaches_no_row_round_or_party(name):
    X, y = table(100)
    one, two = local(KEEPING[name]), local(KEEPING[name])
    assert one._plan.method == "single"
    for row in (np.full((1, 4), 2e9, "f4"), np.array([[-1e9, 5e9, 2e9, 0]], "f4")):
        for label in (0, 1):
            assert moved(one, X, y, row, label, other=two) <= 1 + 1e-9
    weights = get_flat(one._net.module_)
    sums = [code.gradient_sum(weights, X, y, C, 0) for code in (one, two)]
    assert np.array_equal(*sums)
    targets = np.append(0, y)
    losses = [one.losses(weights, np.vstack([X[:1] * k, X]), targets) for k in (1, 1e9)]
    assert np.array_equal(losses[0][1:], losses[1][1:])


def test_code_that_counts_its_calls_does_not_count_those_of_others():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.calls = nn.Linear(4, 2), 0

        def forward(self, X):
            self.calls += 1
            return torch.softmax(self.fc(X) / self.calls, 1)

    X, y = table(300)
    code = local(Counting)
    weights = get_flat(code._net.module_)
    assert code._plan.method == "vmap"
    sums = [code.gradient_sum(weights, X[:n], y[:n], C, 0) for n in (300, 300, 299)]
    assert np.array_equal(sums[0], sums[1])
    assert np.linalg.norm(sums[0] - sums[2]) <= C * (1 + 1e-9)


def test_what_is_kept_outside_of_the_net_is_refused():
    kept = [0.0]

    class Leaking(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, X):
            output = self.fc(X) * (1 + 1e-6 * kept[0])
            kept[0] = min(1e3, max(kept[0], float(X.detach().abs().max())))
            return torch.softmax(output, 1)

    with pytest.raises(ValueError, match="outside of itself"):
        local(Leaking)


def test_parties_get_a_fresh_net_each():
    net = build_net(RunningMax, seed=0, n_classes=2)
    code = LocalNet(net, (4,), by_rows=False)
    X, y = table(64)
    weights = get_flat(net.module_)
    batches = [np.arange(32), np.arange(32, 64)]
    alone = code.train(weights, X, y, batches, 0)
    code.train(weights, X * 1e6, y, batches, 0)
    assert alone.any() and np.array_equal(code.train(weights, X, y, batches, 0), alone)
    assert code._net.module_.scale == [8.0]


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("bag", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_that_rewrite_their_weights_are_refused(bag, by_rows):
    class Text(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = bag(50, 4, max_norm=6.0)

        def forward(self, X):
            return self.table(X).reshape(len(X), -1)

    net = build_net(NeuralNetClassifier(Text, criterion=nn.CrossEntropyLoss), seed=0)
    with pytest.raises(ValueError, match=r"'table' .*max_norm=None"):
        LocalNet(net, (1,), by_rows=by_rows)


# Numbers and rows out of the ordinary


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("clip_norm", [1e-6, 1e-10, 1e-20, 2.0**-100])
def test_no_square_is_lost_in_float64(clip_norm, bias):
    module = made(lambda: S(nn.Linear(2, 1, bias=bias)).double())
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    X, y = synthetic_rows(module, nn.MSELoss(), (2,))
    plan = check_row_independence(module, nn.MSELoss(), X, y)
    assert plan.method == "layers"
    for a, b in ((1e154, 1e-163), (1e150, 1e-162), (1e-5, 1e3), (1e300, 1e-305), (0.0, 1e-170)):
        X, y = (torch.tensor(v, dtype=torch.float64) for v in ([[a, a / 2]], [[b]]))
        exact = 2 * b * np.array([a, a / 2, 1.0] if bias else [a, a / 2])
        norm = math.hypot(*exact)
        total = clipped_gradient_sum(module, nn.MSELoss(), X, y, clip_norm, plan)
        assert np.linalg.norm(total) <= clip_norm
        expected = -exact * min(1, clip_norm / norm) if norm else exact
        if b * clip_norm > 1e-300 * norm:  # below, what is added may be too small for a float
            assert np.allclose(total, expected, rtol=1e-12, atol=1e-18 * clip_norm)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(100, 8), nn.Linear(8, 2)

    def forward(self, X):
        return torch.softmax(self.fc(self.table(X).mean(1)), 1)


@pytest.mark.parametrize("method", ["layers", "vmap"])
def test_a_row_at_which_the_net_raises_adds_zero_and_the_others_what_they_did(method):
    net = build_net(Ready if method == "layers" else Text, seed=0, n_classes=2)
    code = LocalNet(net, (6,), by_rows=True)
    assert code._plan.method == method and code.tokens == 100
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 100, (300, 6)), rng.integers(0, 2, 300)
    weights = get_flat(net.module_)
    total = code.gradient_sum(weights, X, y, C, 0)
    for bad, label in ((100, 0), (-1, 1), (5, 2)):  # a label out of range, too
        rows = np.vstack([X[:7], np.full((1, 6), bad), X[7:]])
        targets = np.insert(y, 7, label)
        found = code.gradient_sum(weights, rows, targets, C, 0)
        assert np.linalg.norm(found - total) <= sum_error(net.module_, 301, C, code._plan)
        assert math.isnan(code.losses(weights, rows[:9], targets[:9])[7])
        changed = code.train(weights, rows, targets, [np.arange(9), np.arange(20, 40)], 0)
        assert np.array_equal(changed, code.train(weights, rows, targets, [np.arange(20, 40)], 0))


def test_a_target_at_which_the_loss_raises_adds_zero():
    class Output(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 1)

        def forward(self, X):
            return torch.sigmoid(self.fc(X))

    net = build_net(NeuralNetRegressor(Output, criterion=nn.BCELoss), seed=0)
    code = LocalNet(net, (4,), by_rows=True)
    X, _ = table(50)
    y = X[:, 1:2]
    weights = get_flat(net.module_)
    total = code.gradient_sum(weights, X, y, C, 0)
    rows, targets = np.vstack([X, X[:1]]), np.vstack([y, [[1.01]]]).astype("f4")
    assert np.linalg.norm(total) > 1
    assert np.allclose(code.gradient_sum(weights, rows, targets, C, 0), total, atol=1e-12)


def test_a_token_whose_vector_is_no_number_adds_nothing():
    net = build_net(Ready, seed=0, n_classes=2)
    code = LocalNet(net, (6,), by_rows=True)
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 99, (40, 6)), rng.integers(0, 2, 40)
    weights = get_flat(net.module_)
    weights[99 * 8 : 100 * 8] = np.inf
    total = code.gradient_sum(weights, X, y, C, 0)
    rows = np.vstack([X, np.full((1, 6), 99)])
    found = code.gradient_sum(weights, rows, np.append(y, 0), C, 0)
    assert np.isfinite(found).all() and np.allclose(found, total, atol=1e-12)


def test_a_net_that_overwrites_its_rows_leaves_those_of_the_caller():
    module = made(lambda: S(nn.LeakyReLU(0.1, inplace=True), nn.Linear(4, 2)))
    X, y = torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    kept = X.clone()
    for way in ("layers", "vmap", "single"):
        plan = Plan(way, (1,) if way == "single" else (64, 32))
        clipped_gradient_sum(module, nn.CrossEntropyLoss(), X, y, C, plan)
        assert torch.equal(X, kept)


def test_masks_come_from_all_bits_of_the_seed():
    def masks(seed):
        with seeded(seed, torch.device("cpu"), secret=True):
            return torch.rand(8).tolist()

    seeds = [12345, 12345 + 2**32, 12346, 12345 + 2**63, 0, 2**32, 2**64 - 1]
    assert len({tuple(masks(seed)) for seed in seeds}) == len(seeds)
    assert masks(2**63 + 5) == masks(2**63 + 5)
    module = made(lambda: S(nn.Linear(4, 20), nn.Dropout(0.5), nn.Linear(20, 2)))
    X, y = table(32)
    sums = [
        clipped_gradient_sum(
            module, nn.CrossEntropyLoss(), X, y, C, Plan("layers", (32,)), seed=5 + k * 2**32
        )
        for k in (0, 0, 1)
    ]
    assert np.array_equal(sums[0], sums[1]) and not np.array_equal(sums[0], sums[2])


# What a net reads


class Mixed(nn.Module):
    """One category and three real columns."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(5, 2), nn.Linear(5, 2)

    def forward(self, X):
        return torch.softmax(self.fc(torch.cat([self.table(X[:, 0].long()), X[:, 1:]], 1)), 1)


class Places(nn.Module):
    """A table of positions, beside tokens or numbers."""

    def __init__(self, tokens=None):
        super().__init__()
        self.places, self.fc = nn.Embedding(6, 8), nn.Linear(8, 2)
        self.read = nn.Embedding(tokens, 8) if tokens else nn.Linear(1, 8)

    def forward(self, X):
        X = self.read(X) if isinstance(self.read, nn.Embedding) else self.read(X[:, :, None])
        return torch.softmax(self.fc((X + self.places(torch.arange(6))).mean(1)), 1)


def test_rows_are_whole_numbers_only_for_nets_that_read_nothing_else():
    assert rows_read(made(Mixed), (4,)) == (5, False)
    assert rows_read(made(Places), (6,)) == (None, False)
    assert rows_read(made(lambda: Places(1000)), (6,)) == (6, True)
    assert rows_read(made(Text), (6,)) == (100, True)
    assert rows_read(made(Scale), (4,)) == (None, False)
    limits = [token_limit(made(net), (6,)) for net in (Places, lambda: Places(1000), Text)]
    assert limits == [None, 1000, 100]
    assert token_limit(made(Mixed), (4,)) is None
    X, y = table()
    X[:, 0] = np.arange(len(X)) % 5
    code = local(Mixed)
    weights = get_flat(code._net.module_)
    assert code.tokens is None and code._plan.method == "vmap"
    one = code.gradient_sum(weights, X, y, C, 0)
    assert not np.allclose(one, code.gradient_sum(weights, np.floor(X), y, C, 0), atol=0.01)
    assert moved(code, X, y, np.array([[7, 0, 0, 0]], "f4"), 0) <= 1e-9


def test_the_modules_that_are_checked_do_not_run_themselves():
    module, criterion = made(RunningMax), KeepingLoss()
    X, y = synthetic_rows(module, criterion, (4,))
    check_row_independence(module, criterion, X, y)
    assert module.scale == [8.0] and float(criterion.level) == 1.0
    assert copy.deepcopy(module).scale == [8.0]

"""What leaves a party: bounded, sampled afresh, the same on one thread."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from sklearn_fedpriv._torch import LocalNet, build_net, get_flat, one_thread
from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.exceptions import LocalFailure
from sklearn_fedpriv.federation._query import Tools, poisson_sample
from sklearn_fedpriv.neural_network import MnistCNN, SmallNet
from sklearn_fedpriv.neural_network._queries import (
    FLOAT_ERROR,
    ClippedGradient,
    LocalUpdate,
    NetRows,
)
from sklearn_fedpriv.privacy._randomness import Stream

HALF, ALL = Fraction(1, 2), Fraction(1)


def stream(number=0):
    return Stream(bytes([number]) * 32)


@pytest.fixture(scope="module")
def code():
    return LocalNet(build_net(SmallNet, seed=0, n_features=3, n_classes=2), (3,), by_rows=True)


@pytest.fixture(scope="module")
def weights(code):
    return get_flat(code._module)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)).astype(np.float32) * 20, rng.integers(0, 2, size=n)


def answer(query, X, y, code, key=0):
    return query.ticks(X, y, Tools(stream(key), code))


def test_queries_travel(weights):
    for query in (ClippedGradient(weights, 0.5, HALF), LocalUpdate(weights, 0.5, 2, 8)):
        back = from_bytes(to_bytes(query))
        assert back.squared_norm == query.squared_norm
        assert np.array_equal(back.weights, weights)
    with pytest.raises(ValueError, match="sampling rate"):
        ClippedGradient(weights, 0.5, Fraction(3, 2))


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 7), Fraction(2**64 - 1, 2**64)])
def test_a_sample_is_poisson(rate):
    n, draws = 500, 400
    bits = stream()
    sizes = [len(poisson_sample(n, rate, bits)) for _ in range(draws)]
    mean, variance = n * rate, n * rate * (1 - rate)
    assert abs(np.mean(sizes) - mean) <= 5 * (variance / draws) ** 0.5 + 1e-9
    if variance > 1:  # sizes vary as those of independent rows
        assert 0.75 < np.var(sizes) / float(variance) < 1.3


def test_a_sample_takes_each_row_by_its_own_word():
    rate = Fraction(1, 3)
    words = [int(word) for word in stream().uint64(200)]
    expected = [i for i, word in enumerate(words) if word < 2**64 // 3]
    assert poisson_sample(200, rate, stream()).tolist() == expected
    assert poisson_sample(7, ALL, stream()).tolist() == list(range(7))
    assert len(poisson_sample(0, rate, stream())) == 0


def test_each_release_draws_its_own_sample(code, weights):
    X, y = rows(40)
    query = ClippedGradient(weights, 1.0, HALF)
    first, again, other = (answer(query, X, y, code, key) for key in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize("clip_norm", [0.1, 1.0, 7.0])
def test_one_row_moves_the_answer_by_no_more_than_is_charged(code, weights, clip_norm):
    query = ClippedGradient(weights, clip_norm, ALL)
    X, y = rows(60)
    X[3], X[5, 0], X[9] = np.nan, np.inf, 3e38
    for n in (1, 2, 15, 16, 17, 33, 60):
        whole = answer(query, X[:n], y[:n], code)
        for out in {0, n // 2, n - 1}:
            rest = np.arange(n) != out
            moved = whole - answer(query, X[:n][rest], y[:n][rest], code)
            assert int((moved.astype(object) ** 2).sum()) <= query.squared_norm


def test_long_gradients_are_held_to_the_bound(code, weights):
    query = ClippedGradient(weights, 2.0**-6, ALL)
    X, y = rows(1)
    norm = np.linalg.norm(query.lattice.decode(answer(query, X, y, code)))
    assert 0.99 * 2.0**-6 < norm <= 2.0**-6 * 1.001


@pytest.mark.parametrize("length", [10, 66, 26_010, 1_206_590])
@pytest.mark.parametrize("bound", [0.01, 1.0, 4.0])
def test_the_charge_has_room_for_float_errors_and_two_roundings(length, bound):
    query = ClippedGradient(np.zeros(length), bound, HALF)
    tick = 2.0**query.lattice.exponent
    charged = query.squared_norm**0.5
    needed = bound / tick * (1 + FLOAT_ERROR) + length**0.5
    assert needed <= charged <= bound / tick * 1.001 + 2


def test_the_limit_on_rows_keeps_float_errors_within_what_is_charged():
    from sklearn_fedpriv._torch import sum_error

    net = LocalNet(build_net(MnistCNN, seed=0, n_classes=10), (784,), by_rows=True)
    limit = net.row_limit(FLOAT_ERROR)
    assert sum_error(net._module, limit, 1.0, net._plan) <= FLOAT_ERROR
    assert limit >= 2**22


def test_more_rows_than_are_charged_for_are_refused(code, weights, monkeypatch):
    monkeypatch.setattr(LocalNet, "row_limit", lambda self, error: 10)
    with pytest.raises(LocalFailure, match="more rows"):
        answer(ClippedGradient(weights, 1.0, HALF), *rows(11), code)


def test_a_local_update_is_held_to_the_bound_and_keeps_nothing(code, weights):
    X, y = rows(50)
    query = LocalUpdate(weights, 2.0**-8, 3, 16)
    ticks = answer(query, X, y, code)
    assert int((ticks.astype(object) ** 2).sum()) <= query.squared_norm
    assert np.array_equal(answer(query, X, y, code), ticks)
    assert query.squared_sensitivity("replace") == 4 * query.squared_norm
    free = answer(LocalUpdate(weights, 100.0, 1, 16), X, y, code)
    assert np.abs(free).max() > 0


class Counting(nn.Module):
    """Its buffer sums up what it has seen, and shifts what it says."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, X):
        self.seen += X.detach().sum(0) / 100
        return torch.softmax(self.fc(X + self.seen), 1)


def test_buffers_of_a_party_are_forgotten_after_its_training():
    net = build_net(Counting, seed=0, n_classes=2, options={"lr": 0.1})
    code = LocalNet(net, (3,), by_rows=False)
    X, y = rows(50)
    query = LocalUpdate(get_flat(net.module_), 100.0, 1, 16)
    first = answer(query, X, y, code)
    assert not code._mine().module_.seen.any()
    answer(query, X[:7], y[:7], code)
    assert np.array_equal(answer(query, X, y, code), first) and np.abs(first).max() > 0


def test_rows_come_in_the_type_of_the_net():
    labels = NetRows(("a", "b"), False, False, False)
    X, y = labels.apply(np.array([[1, 2]], dtype=np.uint8), np.array(["b"]))
    assert X.dtype == np.float32 and y.tolist() == [1]
    X, y = NetRows((), True, False, True).apply(np.array([[1.0, 2.0]]), np.array([3.0]))
    assert X.dtype == np.int64 and y.dtype == np.float32 and y.shape == (1, 1)
    assert np.isinf(NetRows((), False, False, False).rows(np.array([[1e300]]))).all()


def test_one_thread_is_what_torch_uses_and_is_lifted_again():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_fingerprints_cover_what_does_not_travel():
    def digest(change):
        net = build_net(Frozen, seed=0, n_features=3, n_classes=2)
        with torch.no_grad():
            change(net.module_)
        return LocalNet(net, (3,), by_rows=False).fingerprint

    same = digest(lambda module: module[0].weight.add_(1))
    assert digest(lambda module: None) == same
    assert digest(lambda module: module[2].weight.add_(1)) != same


class Frozen(SmallNet):
    def __init__(self, n_features=None, n_classes=None):
        super().__init__(n_features, n_classes)
        self[2].weight.requires_grad_(False)


def test_a_net_of_dropout_computes_the_same_in_threads():
    from joblib import Parallel, delayed

    net = build_net(Dropping, seed=0, n_features=3, n_classes=2)
    code = LocalNet(net, (3,), by_rows=True)
    X, y = rows(64)
    query = ClippedGradient(get_flat(net.module_), 1.0, ALL)
    alone = [answer(query, X, y, code, key) for key in range(8)]
    together = Parallel(n_jobs=2, prefer="threads")(
        delayed(answer)(query, X, y, code, key) for key in range(8)
    )
    assert all(map(np.array_equal, alone, together))
    assert not np.array_equal(alone[0], alone[1])


class Dropping(nn.Sequential):
    def __init__(self, n_features=None, n_classes=None):
        super().__init__(
            nn.Linear(n_features, 8), nn.Dropout(0.5), nn.Linear(8, n_classes), nn.Softmax(dim=1)
        )

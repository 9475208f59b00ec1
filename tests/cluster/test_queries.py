"""Blocks of a party: exact distances, exact choices, and noise where it belongs (G5, G7, G17)."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.cluster._linear import LinearModel
from sklearn_fedpriv.cluster._queries import (
    WIDEST,
    ClusterUpdate,
    OpenClusterUpdate,
    PublishedUpdate,
    best_hypothesis,
)
from sklearn_fedpriv.federation._metric import MetricNoise
from sklearn_fedpriv.federation._query import Tools, batches_of
from sklearn_fedpriv.privacy._events import PureEvent
from sklearn_fedpriv.privacy._randomness import Stream, seed_key

SIZE = ClusterUpdate.ticks_of_norm
X, Y = np.ones((3, 2)), np.zeros(3)


@dataclass
class Hostile:
    """Says any update, and prefers a hypothesis."""

    update: np.ndarray
    favourite: int = 0
    fingerprint: bytes = b"hostile"

    def loss(self, weights, X, y):
        return abs(float(weights[0]) - self.favourite)

    def train(self, weights, X, y, batches, seed):
        return self.update


def query(kind=ClusterUpdate, k=2, n=2, clip_norm=0.5, chosen=("a", "b", "c")):
    start = np.repeat(np.arange(k, dtype=np.float64)[:, None], n, axis=1)
    return kind(None, start, clip_norm, chosen, 1, 0)


def tools(update, favourite=0, party="b"):
    return Tools(Stream(seed_key(0)), Hostile(np.asarray(update, float), favourite), (), party)


def block(update, favourite=0, **settings):
    asked = query(**settings)
    return asked, asked.ticks(X, Y, tools(update, favourite))


UPDATES = [
    [0.0, 0.0],
    [0.5, 0.0],
    [-0.5, 0.0],
    [0.3, 0.4],
    [3e5, -4e5],
    [1e300, 1e300],
    [1e308, -1e308],
    [np.inf, 1.0],
    [np.nan, -0.5],
    [-np.inf, np.nan],
    [5e-324, -5e-324],
    [0.5 * (1 + 2**-30), 0.0],
    [np.sqrt(0.125), np.sqrt(0.125)],
]


def squared(a, b):
    return sum((int(x) - int(y)) ** 2 for x, y in zip(a, b, strict=True))


def test_no_two_blocks_are_further_apart_than_is_charged():
    blocks = [block(u, j)[1] for u, j in product(UPDATES, range(2))]
    limit = query().squared_sensitivity("replace")
    assert limit == 4 * SIZE**2
    distances = [squared(a, b) for a, b in product(blocks, repeat=2)]
    assert max(distances) <= limit
    assert max(distances) >= 0.999 * limit  # and the bound is reached
    assert max(squared(b, 0 * b) for b in blocks) <= query().squared_sensitivity("add_remove")
    assert query().squared_sensitivity("add_remove") == query().bound == query().squared_norm


def test_updates_in_the_open_are_as_far_apart_as_is_charged():
    asked = query(OpenClusterUpdate)
    blocks = [block(u, 1, kind=OpenClusterUpdate)[1] for u in UPDATES]
    distances = [squared(a, b) for a, b in product(blocks, repeat=2)]
    limit = asked.squared_sensitivity("replace")
    assert 0.999 * limit <= max(distances) <= limit == 4 * SIZE**2
    assert max(squared(b, 0 * b) for b in blocks) <= asked.bound == asked.squared_norm


@pytest.mark.parametrize("n", [1, 2, 7, 400])
def test_an_update_is_held_to_the_norm_in_whole_numbers(n):
    rng = np.random.default_rng(n)
    asked = query(n=n)
    for scale in (1e-3, 0.4, 0.5, 3.0, 1e200):
        update = rng.standard_normal(n)
        update *= scale / np.linalg.norm(update)
        held = asked.held(update)
        assert held.dtype == np.int64
        assert squared(held, 0 * held) <= SIZE**2
        kept = update * min(1.0, 0.5 / scale)
        assert np.abs(held * (0.5 / SIZE) - kept).max() < 2 * 0.5 / SIZE + 2**-20


def test_a_bound_that_rounding_broke_is_enforced_all_the_same(monkeypatch):
    from sklearn_fedpriv.cluster import _queries

    monkeypatch.setattr(_queries, "clip_rows", lambda rows, bound: rows)
    assert (query().held(np.array([0.6, 0.0])) == 0).all()


def test_a_block_reads_back_as_update_and_count():
    asked, ticks = block([0.1, -0.2], favourite=1)
    updates, counts, choices = asked.read(ticks.astype(float))
    assert np.allclose(updates, [[0, 0], [0.1, -0.2]], atol=1e-6)
    assert counts.tolist() == [0, 1] and choices is None
    asked, ticks = block([0.1, -0.2], favourite=1, kind=OpenClusterUpdate)
    updates, counts, choices = asked.read(ticks.astype(float))
    assert np.allclose(updates, [[0, 0], [0.1, -0.2]], atol=1e-6)
    assert counts.tolist() == [0, 1] and choices[1] == 1


@pytest.mark.parametrize("kind", [ClusterUpdate, OpenClusterUpdate, PublishedUpdate])
def test_queries_travel(kind):
    asked = replace(query(kind), model=LinearModel(2, 0, False, 0.1))
    again = from_bytes(to_bytes(asked), kind)
    assert to_bytes(again) == to_bytes(asked)
    assert (again.hypotheses == asked.hypotheses).all()


def test_the_choice_is_the_smallest_loss_the_first_of_equal_ones_and_never_nan():
    @dataclass
    class Losses:
        losses: list

        def loss(self, weights, X, y):
            return self.losses[int(weights[0])]

    hypotheses = np.arange(3.0)[:, None]
    for losses, wanted in (
        ([2, 1, 3], 1),
        ([1, 1, 1], 0),
        ([np.nan, 2, 1], 2),
        ([np.inf, np.nan, np.inf], 0),
    ):
        assert best_hypothesis(Losses(losses), hypotheses, X, Y) == wanted


def noise(rate, dimension):
    return MetricNoise(Fraction(rate), dimension, PureEvent(Fraction(1)))


def test_hidden_noise_covers_the_whole_block_in_one_draw():
    asked, ticks = block([0.1, 0.2])
    drawn = asked.noise(noise(Fraction(1, 10**4), asked.n_joint), ticks, Stream(seed_key(1)))
    again = noise(Fraction(1, 10**4), 6).draw(6, Stream(seed_key(1)))
    assert asked.n_joint == asked.length == 6
    assert (drawn == again).all() and (drawn != 0).all()


def test_open_noise_covers_the_slot_in_use_and_nothing_else():
    for slot in (0, 1):
        asked, ticks = block([0.1, 0.2], slot, kind=OpenClusterUpdate)
        drawn = asked.noise(noise(Fraction(1, 10**4), 2), ticks, Stream(seed_key(1)))
        used = np.flatnonzero(drawn)
        assert used.tolist() == [2 * slot, 2 * slot + 1]
        assert asked.n_joint == 2 and asked.length == 4 + 6
    assert ticks[4:].reshape(3, 2).tolist() == [[0, 0], [0, 1], [0, 0]]  # party b of a, b, c


def test_published_noise_is_in_proportion_to_the_update():
    """At nu = 5 the noise is about five times as long as the update, whatever that is."""
    ratios = []
    for length in (0.001, 1.0, 900.0):
        asked = query(PublishedUpdate, clip_norm=WIDEST)
        ticks = asked.ticks(X, Y, tools([length, 0.0]))
        size = asked.ticks_of_norm
        rate = Fraction(2, 5) / size  # what the terms give: n / nu over the range
        drawn = [
            np.linalg.norm(asked.noise(noise(rate, 2), ticks, Stream(seed_key(i)))[:2])
            for i in range(400)
        ]
        ratios.append(np.mean(drawn) / (length * size / WIDEST))
    # The length is Gamma(2, 2.5): mean 5, so a mean of 400 has sd 0.18; four times that.
    assert np.allclose(ratios, 5.0, atol=0.75)
    zero = asked.ticks(X, Y, tools([0.0, 0.0]))
    assert not asked.noise(noise(rate, 2), zero, Stream(seed_key(0))).any()


def test_batches_cover_all_rows_each_epoch_in_secret_order():
    batches = batches_of(10, 3, 4, Stream(seed_key(0)))
    assert [len(batch) for batch in batches] == [4, 4, 2] * 3
    epochs = [np.concatenate(batches[i : i + 3]) for i in (0, 3, 6)]
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 3
    assert all((batch == np.arange(10)).all() for batch in batches_of(10, 2, 0, None))


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_gradients_are_those_of_the_loss(n_classes, intercept):
    rng = np.random.default_rng(0)
    model = LinearModel(3, n_classes, intercept, 0.1)
    rows = rng.standard_normal((20, 3))
    y = rng.integers(0, n_classes, 20) if n_classes else rng.standard_normal(20)
    w = rng.standard_normal(model.n_parameters)
    numeric = [
        (model.loss(w + d, rows, y) - model.loss(w - d, rows, y)) / 2e-6
        for d in 1e-6 * np.eye(len(w))
    ]
    assert np.allclose(model.gradient(w, rows, y), numeric, atol=1e-6)
    before = model.loss(w, rows, y)
    moved = w + model.train(w, rows, y, [np.arange(20)] * 50, 0)
    assert model.loss(moved, rows, y) < before


def test_long_rows_make_short_steps():
    rows, y = 1e4 * np.ones((5, 2)), np.ones(5)
    model = LinearModel(2, 0, True, 0.1)
    update = model.train(np.zeros(3), rows, y, [np.arange(5)] * 20, 0)
    assert np.isfinite(update).all() and model.loss(update, rows, y) < model.loss(
        0 * update, rows, y
    )

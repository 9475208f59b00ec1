"""Accuracy and speed that were promised, as bars that no change may fall below.

Nursery and Adult are real; seeds are fixed, so the accuracies are the same every time. The bars are
the goals that were set, and the library is well above most of them: a test that fails here means
that trees got worse, not that a seed was unlucky.

Times: the bars leave room for machines that are shared, as those of CI are.
"""

from functools import cache
from math import inf
from statistics import median
from time import perf_counter, process_time

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split

from sklearn_fedpriv import FederatedDPDecisionTree
from sklearn_fedpriv.datasets import fetch_adult, fetch_nursery
from sklearn_fedpriv.exceptions import NotPrivateWarning

pytestmark = pytest.mark.slow


@cache
def nursery():
    return fetch_nursery()


@cache
def adult():
    return fetch_adult()


def nursery_parties(seed, n_parties=10):
    """80 % of the rows for the parties, who hold them at random; 20 % to test on."""
    data = nursery()
    X, X_test, y, y_test = train_test_split(
        data.data, data.target, test_size=0.2, random_state=seed
    )
    owner = np.random.default_rng(seed).integers(n_parties, size=len(X))
    return [(X[owner == i], y[owner == i]) for i in range(n_parties)], X_test, y_test


@pytest.mark.data
@pytest.mark.parametrize(
    ("epsilon", "bar"), [(0.1, 0.70), (0.5, 0.79), (1.0, 0.85), (4.0, 0.89), (inf, 0.90)]
)
def test_nursery(epsilon, bar):
    """Mean weighted F1 of ten seeds; reached when this was written: .84, .87, .90, .94, .99."""
    scores = []
    for seed in range(10):
        parties, X_test, y_test = nursery_parties(seed)
        model = FederatedDPDecisionTree(epsilon=epsilon, random_state=seed, **nursery().public)
        if epsilon == inf:
            with pytest.warns(NotPrivateWarning):
                model.fit(parties)
        else:
            model.fit(parties)
        scores.append(f1_score(y_test, model.predict(X_test), average="weighted"))
    print(f"\nnursery, epsilon {epsilon}: F1 {np.mean(scores):.3f}")
    assert np.mean(scores) >= bar


@pytest.mark.data
@pytest.mark.parametrize(("epsilon", "bar"), [(0.1, 0.785), (1.0, 0.823), (10.0, 0.842)])
def test_adult(epsilon, bar):
    """Mean accuracy of five seeds on the official test set."""
    data = adult()
    scores = []
    for seed in range(5):
        owner = np.random.default_rng(seed).integers(10, size=len(data.data))
        parties = [(data.data[owner == i], data.target[owner == i]) for i in range(10)]
        model = FederatedDPDecisionTree(epsilon=epsilon, random_state=seed, **data.public)
        scores.append(accuracy_score(data.target_test, model.fit(parties).predict(data.data_test)))
    print(f"\nadult, epsilon {epsilon}: accuracy {np.mean(scores):.4f}")
    assert np.mean(scores) >= bar


@pytest.mark.data
def test_one_fit_on_nursery_takes_half_a_second():
    """The goal is 0.5 s on one core. The bar is 1.5 s, because machines of CI are shared."""
    parties, _, _ = nursery_parties(0)
    times = []
    for seed in range(3):
        began = perf_counter()
        FederatedDPDecisionTree(random_state=seed, **nursery().public).fit(parties)
        times.append(perf_counter() - began)
    print(f"\nnursery: {median(times):.2f} s a fit")
    assert median(times) < 1.5


def fit_time(n_parties, n_rows, max_depth=None):
    """Seconds of processor time of one fit in this process, which other processes do not change."""
    rng = np.random.default_rng(0)
    parties = []
    for _ in range(n_parties):
        X = rng.random((n_rows, 10))
        parties.append((X, (X[:, 0] + X[:, 1] > 1).astype(int)))
    model = FederatedDPDecisionTree(
        bounds=(0, 1), classes=[0, 1], max_depth=max_depth, random_state=0
    )
    began = process_time()
    model.fit(parties)
    took = process_time() - began
    print(f"\n{n_parties} parties of {n_rows} rows: {took:.1f} s")
    return took


def test_two_thousand_parties_of_fifty_rows():
    assert fit_time(2000, 50) < 60


def test_the_cost_grows_with_the_parties_and_not_with_their_square():
    """Ten times the parties take ten times as long, or twenty on a bad day; not a hundred."""
    few = median(fit_time(100, 50, max_depth=3) for _ in range(3))
    assert fit_time(1000, 50, max_depth=3) / few < 20

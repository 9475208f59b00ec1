"""What was promised of FederatedDPSVC, as bars that no change may fall below.

Seeds are fixed, so the accuracies are the same every time; a test that fails here means that the
models got worse. Bars on time leave room for shared machines.
"""

from functools import cache
from statistics import median
from time import process_time

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from sklearn_fedpriv import FederatedDPSVC
from sklearn_fedpriv.datasets import fetch_adult, partition
from sklearn_fedpriv.preprocessing import PublicEncoder
from sklearn_fedpriv.svm._queries import LEVELS, HingeGradient, exact_weights
from sklearn_fedpriv.svm._rows import hold

pytestmark = pytest.mark.slow


@cache
def adult():
    return fetch_adult()


def adult_model(**settings):
    public = adult().public
    return make_pipeline(
        PublicEncoder(public["categories"], public["bounds"]),
        FederatedDPSVC(classes=public["classes"], **settings),
    )


@pytest.mark.data
@pytest.mark.parametrize(("epsilon", "bar"), [(0.1, 0.82), (0.5, 0.845), (1.0, 0.849)])
def test_adult(epsilon, bar):
    """Mean of five seeds on the official test set; found when written: .851, .855, .855."""
    scores = []
    for seed in range(5):
        parties = partition(adult().data, adult().target, n_parties=10, random_state=seed)
        model = adult_model(epsilon=epsilon, random_state=seed, secure_sum="plain").fit(parties)
        scores.append(model.score(adult().data_test, adult().target_test))
    print(f"\nadult, epsilon {epsilon}: accuracy {np.mean(scores):.4f}")
    assert np.mean(scores) >= bar


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_digits(kernel):
    """Mean of five seeds at epsilon 4; found when written: .935 and .952."""
    digits = load_digits()
    scores = []
    for seed in range(5):
        X, X_test, y, y_test = train_test_split(digits.data, digits.target, random_state=seed)
        svc = FederatedDPSVC(epsilon=4.0, kernel=kernel, classes=range(10), random_state=seed)
        model = make_pipeline(PublicEncoder(bounds=(0, 16)), svc)
        model.fit(partition(X, y, n_parties=5, random_state=seed))
        scores.append(model.score(X_test, y_test))
    assert np.mean(scores) >= 0.85


@pytest.mark.data
def test_one_fit_on_adult_takes_five_seconds_and_masks_add_little():
    """Found: .7 s, a ratio of 1.02. Least processor time, which other work hardly lengthens."""
    parties = partition(adult().data, adult().target, n_parties=10)
    taken = {"plain": [], "masks": []}
    for _ in range(3):
        for secure_sum, times in taken.items():
            began = process_time()
            adult_model(secure_sum=secure_sum).fit(parties)
            times.append(process_time() - began)
    assert min(taken["plain"]) < 5
    assert min(taken["masks"]) < 1.3 * min(taken["plain"])


def test_half_a_million_rows_a_second_and_core():
    rng = np.random.default_rng(0)
    X, y = hold(rng.normal(size=(100_000, 128)), 12.0), rng.integers(0, 2, 100_000)
    query = HingeGradient(*exact_weights(rng.normal(size=(1, 129)), 12.0), 1000, (LEVELS, LEVELS))
    times = []
    for _ in range(3):
        began = process_time()
        query.ticks(X, y, None)
        times.append(process_time() - began)
    assert len(y) / median(times) > 500_000

"""What a vote finds: ``python -m benchmarks.hype``, ten minutes.

* The simulation of the DP-Hype paper (Fig. 2): 250 parties, utilities N(1 if good else 0, sigma^2);
  how often the chosen candidate is good. Once as the authors run it (ties by index, their sigmas)
  beside figures that an independent re-run gave, once by the library's rule (ties by local
  chance, exact noise for whole votes).
* Adult over 100 parties: the paper's grid of 100 learning rates, decays and momenta for a logistic
  regression, chosen at epsilon 1, trained by federated averaging.
* Time of one local fit, against ``GridSearchCV`` on the same rows.
"""

import argparse
import time
import warnings
from collections.abc import Iterable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid, StratifiedShuffleSplit
from sklearn.preprocessing import OneHotEncoder

from benchmarks._common import mean_and_error, print_table
from sklearn_fedpriv import DPHypeSearchCV
from sklearn_fedpriv.datasets import fetch_adult, partition
from sklearn_fedpriv.exceptions import FedPrivWarning
from sklearn_fedpriv.model_selection._odds import Electorate

N_PARTIES = 250
VOTES = (1, 5, 25, 50)
# Noise of the summed votes in the authors' simulation.
THEIR_SIGMAS = {
    1.0: dict(zip(VOTES, (5.5, 12.5, 27.0, 40.0), strict=True)),
    0.25: dict(zip(VOTES, (20.5, 46.0, 100.3, 145.0), strict=True)),
}
# (candidates, good, sigma_u) -> share of good choices by votes, at epsilon 1 and .25.
EXPECTED = {
    (100, 5, 0.2): ((1, 1, 1, 0.990), (0.930, 1, 0.784, 0.286)),
    (100, 5, 0.6): ((1, 1, 1, 0.973), (0.637, 0.851, 0.574, 0.246)),
    (100, 5, 1.0): ((0.962, 0.998, 0.997, 0.844), (0.221, 0.354, 0.308, 0.176)),
    (100, 5, 0.0): ((1, 1, 0.194, 0.095), (1, 1, 0.195, 0.094)),
    (100, 1, 0.2): ((1, 1, 1, 0.717), (1, 0.992, 0.287, 0.071)),
    (100, 16, 0.2): ((0.999, 1, 1, 1), (0.564, 0.940, 0.987, 0.695)),
    (100, 64, 0.2): ((0.952, 0.996, 1, 1), (0.746, 0.844, 0.966, 0.991)),
    (300, 5, 0.2): ((1, 1, 1, 1), (0.844, 1, 0.785, 0.359)),
    (2700, 5, 0.2): ((1, 1, 1, 1), (0.597, 1, 0.537, 0.193)),
}
BATCH = 20  # elections at one time


def our_sigma(n_candidates: int, n_votes: int, epsilon: float) -> float:
    """Noise that a search of the library adds, all shares together."""
    people = Electorate(
        n_candidates=n_candidates,
        n_parties=N_PARTIES,
        min_honest=None,
        max_dropouts=0,
        adjacency="replace",
        delta=1e-5,
    )
    return people.noise(n_votes, epsilon)[0]


def elections(
    setting: tuple[int, int, float], repeats: int, *, ties_by_index: bool, seed: int = 0
) -> dict[int, np.ndarray]:
    """True votes of ``repeats`` elections, by the number of votes a party has.

    Returns
    -------
    votes : dict of int to ndarray of shape (repeats, n_candidates)
    """
    n_candidates, n_good, sigma = setting
    rng = np.random.default_rng(seed)
    places = [n_candidates - k for k in VOTES]
    found: dict[int, list[np.ndarray]] = {k: [] for k in VOTES}
    for start in range(0, repeats, BATCH):
        shape = (min(BATCH, repeats - start), N_PARTIES, n_candidates)
        utility = np.zeros(shape, dtype=np.float32)
        if sigma:
            rng.standard_normal(out=utility, dtype=np.float32)
            utility *= sigma
        elif ties_by_index:
            utility -= 1e-6 * np.arange(n_candidates, dtype=np.float32)
        else:
            rng.standard_normal(out=utility, dtype=np.float32)
            utility *= 1e-4
        utility[:, :, :n_good] += 1
        order = np.argpartition(utility, places, axis=2)
        for k in VOTES:
            chosen = order[:, :, n_candidates - k :].reshape(shape[0], -1)
            found[k] += [np.bincount(row, minlength=n_candidates) for row in chosen]
    return {k: np.array(rows) for k, rows in found.items()}


def share_of_good_choices(votes: np.ndarray, n_good: int, sigma: float, seed: int = 1) -> float:
    """How often the winner under noise is among the first ``n_good``."""
    noise = np.random.default_rng(seed).normal(scale=sigma, size=votes.shape)
    return float(((votes + noise).argmax(axis=1) < n_good).mean())


def simulate(repeats: int) -> None:
    """Both tables; the last column of each row is the largest shortfall against the figures."""
    for ours in (False, True):
        rows = []
        for setting, expected in EXPECTED.items():
            some = repeats if setting[0] < 900 else repeats * 2 // 5
            true = elections(setting, some, ties_by_index=not ours)
            for epsilon, figures in zip(THEIR_SIGMAS, expected, strict=True):
                shares = []
                for k in VOTES:
                    theirs = THEIR_SIGMAS[epsilon][k]
                    sigma = our_sigma(setting[0], k, epsilon) if ours else theirs
                    shares.append(share_of_good_choices(true[k], setting[1], sigma))
                apart = np.array(shares) - figures
                worst = -apart.min() if ours else np.abs(apart).max()
                rows.append(
                    (
                        "{} candidates, {} good, sigma_u {}".format(*setting),
                        f"{epsilon:g}",
                        *(f"{share:.3f}" for share in shares),
                        f"{worst:.3f}",
                    )
                )
        rule = "our rule" if ours else "as the authors run it"
        off = "short by" if ours else "apart by"
        print_table(
            f"Share of good choices, {rule}", ("", "epsilon", *(f"k={k}" for k in VOTES), off), rows
        )


def sgd(
    rows: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    rng: np.random.Generator,
    *,
    lr: float,
    decay: float,
    momentum: float,
) -> np.ndarray:
    """Logistic regressions of many tables side by side: 5 epochs, steps shrinking by ``decay``.

    Parameters
    ----------
    rows : ndarray of shape (n_tables, n_rows, n_columns)
    labels : ndarray of shape (n_tables, n_rows)
    weights : ndarray of shape (n_tables, n_columns)
    """
    weights, speed, step = weights.copy(), np.zeros_like(weights), lr
    n_rows = rows.shape[1]
    for _ in range(5):
        for part in np.array_split(rng.permutation(n_rows), max(1, n_rows // 64)):
            some = rows[:, part]
            odds = np.clip((some @ weights[:, :, None])[:, :, 0], -30, 30)
            miss = 1 / (1 + np.exp(-odds)) - labels[:, part]
            speed = momentum * speed + (miss[:, None, :] @ some)[:, 0] / len(part)
            weights -= step * speed
        step *= decay
    return weights


class TinyLogistic(ClassifierMixin, BaseEstimator):
    """Logistic regression by SGD from fresh random weights, so that bad steps stay visible."""

    def __init__(self, lr=0.1, decay=1.0, momentum=0.0, seed=0):
        self.lr = lr
        self.decay = decay
        self.momentum = momentum
        self.seed = seed

    def fit(self, X, y):
        """``sgd`` of one table; each party and candidate begins elsewhere."""
        rng = np.random.default_rng([self.seed, int(self.lr * 1e9), int(X.sum() * 1e6)])
        start = rng.normal(size=(1, X.shape[1]))
        parameters = {name: getattr(self, name) for name in GRID}
        self.weights_ = sgd(X[None], np.asarray(y)[None], start, rng, **parameters)[0]
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, X):
        """1 where the odds are."""
        return (X @ self.weights_ > 0).astype(int)


def averaged_accuracy(parties, X_test, y_test, seed: int, parameters: dict[str, float]) -> float:
    """Test accuracy of federated averaging, 5 rounds, as the paper trains the chosen candidate."""
    n_rows = min(len(y) for _, y in parties)
    rows = np.stack([X[:n_rows] for X, _ in parties])
    labels = np.stack([y[:n_rows] for _, y in parties])
    rng = np.random.default_rng([seed, int(parameters["lr"] * 1e9)])
    weights = rng.normal(size=rows.shape[2])
    for _ in range(5):
        start = np.repeat(weights[None], len(parties), axis=0)
        weights = sgd(rows, labels, start, rng, **parameters).mean(axis=0)
    return float(((X_test @ weights > 0) == y_test).mean())


GRID = {
    "lr": [0.5, 0.1, 0.05, 5e-4, 1e-4, 1e-6, 5e-7, 1e-7, 5e-8, 1e-8],
    "decay": [0.0, 0.1, 0.25, 0.99, 1.0],
    "momentum": [0.0, 0.9],
}


def encoded_adult() -> tuple[np.ndarray, np.ndarray]:
    """Adult as numbers by public facts, with a column of ones; 0 and 1 for the labels."""
    data = fetch_adult()
    names = list(data.feature_names)
    categories = data.public["categories"]
    numbers = data.public["bounds"]
    columns = []
    for j, name in enumerate(names):
        values = np.asarray(data.data)[:, j]
        if name in categories:
            coder = OneHotEncoder(
                categories=[categories[name]], sparse_output=False, handle_unknown="ignore"
            )
            columns.append(coder.fit_transform(values.astype(str)[:, None]))
        else:
            low, high = numbers[name]
            columns.append(np.clip((values.astype(float) - low) / (high - low), 0, 1)[:, None])
    y = (np.asarray(data.target) == data.public["classes"][1]).astype(int)
    return np.hstack([*columns, np.ones((len(y), 1))]), y


def adult(n_seeds: int, n_parties: int = 100) -> None:
    """Accuracy of the chosen candidate against the best one and the mean of the grid."""
    X, y = encoded_adult()
    rows, within = [], 0
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        test, train = order[:6000], order[6000:]
        candidates = list(ParameterGrid(GRID))
        parties = partition(X[train], y[train], n_parties=n_parties, random_state=seed)
        accuracy = np.array(
            [averaged_accuracy(parties, X[test], y[test], seed, c) for c in candidates]
        )
        search = DPHypeSearchCV(TinyLogistic(seed=seed), GRID, epsilon=1.0, refit=False, n_jobs=2)
        search.fit(parties)
        chosen = accuracy[search.best_index_]
        good = chosen >= accuracy.max() - 0.02 and chosen >= accuracy.mean() + 0.1
        within += good
        rows.append(
            (
                str(seed),
                f"{accuracy.max():.3f}",
                f"{accuracy.mean():.3f}",
                f"{chosen:.3f}",
                str(search.n_votes_),
                "yes" if good else "no",
            )
        )
    print_table(
        f"Adult, {n_parties} parties, 100 candidates, epsilon 1: {within} of {n_seeds} seeds near "
        "the best",
        ("seed", "best", "mean of grid", "chosen", "votes", "within .02 and .1 above the mean"),
        rows,
    )


def times(repeats: int) -> None:
    """Seconds of one local fit, ours and GridSearchCV's, in turns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 30))
    y = (X[:, 0] + rng.normal(size=2000) > 0).astype(int)
    rows = []
    for n_candidates in (10, 1000):
        grid = {"C": np.geomspace(1e-3, 1e3, n_candidates)}
        split = StratifiedShuffleSplit(1, test_size=0.2, random_state=0)
        ours = DPHypeSearchCV(LogisticRegression(), grid, refit=False)
        theirs = GridSearchCV(LogisticRegression(), grid, cv=split, refit=False)
        seconds = np.array([[_time(s, X, y) for s in (ours, theirs)] for _ in range(repeats)])
        each = np.median(seconds, axis=0) / n_candidates * 1e3
        ratio = [a / b for a, b in seconds]
        epsilon = f"{ours.fit(X, y).privacy_.epsilon:g}"
        rows.append(
            (
                str(n_candidates),
                epsilon,
                *(f"{ms:.2f} ms" for ms in each),
                mean_and_error(ratio),
            )
        )
    print_table(
        "One local fit of a logistic regression on 2,000 rows",
        ("candidates", "epsilon", "DPHypeSearchCV", "GridSearchCV", "ratio"),
        rows,
    )


def _time(search: BaseEstimator, X: np.ndarray, y: np.ndarray) -> float:
    start = time.perf_counter()
    search.fit(X, y)
    return time.perf_counter() - start


def main(arguments: Iterable[str] = ()) -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hype")
    parser.add_argument("--only", choices=["simulation", "adult", "times"])
    parser.add_argument("--repeats", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=10)
    chosen = parser.parse_args(list(arguments))
    warnings.simplefilter("ignore", FedPrivWarning)
    if chosen.only in (None, "times"):
        times(5)
    if chosen.only in (None, "adult"):
        adult(chosen.seeds)
    if chosen.only in (None, "simulation"):
        simulate(chosen.repeats)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

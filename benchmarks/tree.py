"""How well the private tree does, and what it costs: ``python -m benchmarks.tree``.

``--quick``: two seeds and few rows, to which the goals do not apply; 25 s of an idle core.
``--n-jobs N``: so many processes share the fits behind the means; timings are always taken in one.
Nursery and Adult come from where ``fetch_nursery`` and ``fetch_adult`` find them; part (e) needs
the folder of the environment variable ``SKLEARN_FEDPRIV_DATA``.

Seed s (0, 1, 2, ...) sets the rows held out, the cut among parties, and the noise. The noise is
seeded here and nowhere else: a seeded fit is not private.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from benchmarks._common import (
    in_fresh_process,
    mean_and_error,
    peak_megabytes,
    print_table,
)
from sklearn_fedpriv import FederatedDPDecisionTree
from sklearn_fedpriv.datasets import fetch_adult, fetch_nursery, load_hospitals, partition
from sklearn_fedpriv.datasets._fetch import FOLDER_VARIABLE
from sklearn_fedpriv.exceptions import (
    BudgetExceeded,
    NoiseWarning,
    NotPrivateWarning,
    PublicFactWarning,
    UnknownValueWarning,
    UnprovenPrivacyWarning,
)

N_PARTIES = 10
TEST_SHARE = 0.2
# Each is expected here, and says so in the table or the text around it.
EXPECTED_WARNINGS = (
    NoiseWarning,
    NotPrivateWarning,
    PublicFactWarning,
    UnknownValueWarning,
    UnprovenPrivacyWarning,
)
VARIANTS: dict[str, dict] = {
    "proved, Gaussian": {},
    "proved, Laplace": {"mechanism": "laplace"},
    "local DP": {"min_honest": 1},
    "published (no proof)": {"calibration": "published"},
}
# epsilon -> goal, aim
NURSERY_WANTED = {
    0.1: (".70", ".74"),
    0.5: (".79", ".82"),
    1.0: (".85", ".88"),
    4.0: (".89", ".90"),
    inf: (".90", ""),
}
ADULT_WANTED = {0.1: (".785", ".80"), 1.0: (".823", ".83"), 10.0: (".842", ".845")}
HOSPITAL_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
UNTUNED_EPSILONS = (0.1, 0.5, 1.0, 4.0, inf)
ONE_RUN_FROM = 1000  # parties; a fit takes long enough not to need repeating
REFUSED = "refused"

Row = tuple[str, ...]


@dataclass(frozen=True)
class Size:
    """How much is run; ``every=2``: each second epsilon."""

    every: int = 1
    nursery_seeds: int = 10
    adult_seeds: int = 5
    hospital_seeds: int = 20
    untuned_seeds: int = 5
    most_rows: int | None = None
    repeats: int = 5
    party_numbers: tuple[int, ...] = (10, 100, 1000)
    many_parties: int = 2000
    paillier_depth: int | None = None


QUICK = Size(
    every=2,
    nursery_seeds=2,
    adult_seeds=2,
    hospital_seeds=2,
    untuned_seeds=2,
    most_rows=800,
    repeats=1,
    party_numbers=(10, 20),
    many_parties=50,
    paillier_depth=2,
)


@dataclass(frozen=True)
class Split:
    """What one seed makes of a data set."""

    parties: list
    X_test: Any
    y_test: Any


@dataclass(frozen=True)
class Case:
    """A data set: its split by seed, its public facts, and the measure of success."""

    split: Callable[[int], Split]
    public: dict
    measure: Callable[[Any, Any], float] = accuracy_score


def weighted_f1(y_true: Any, y_predicted: Any) -> float:
    """F1 of each class, weighted by its rows."""
    return float(f1_score(y_true, y_predicted, average="weighted", zero_division=0))


def at_random(X: Any, y: Any) -> Callable[[int], Split]:
    """Hold out a fifth at random, and deal the rest out to ten parties."""

    def split(seed: int) -> Split:
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, test_size=TEST_SHARE, random_state=seed
        )
        parties = partition(X_train, y_train, N_PARTIES, random_state=seed)
        return Split(parties, X_test, y_test)

    return split


def some_rows(X: Any, y: Any, most: int | None) -> tuple[Any, Any]:
    """At most so many rows, drawn at random with seed 0."""
    if most is None or most >= len(X):
        return X, y
    rows = np.random.default_rng(0).permutation(len(X))[:most]
    return X.iloc[rows], y.iloc[rows]


def fit(parties: list, **arguments: Any) -> FederatedDPDecisionTree:
    """A fitted tree; warnings that are expected here are silent."""
    with warnings.catch_warnings():
        for category in EXPECTED_WARNINGS:
            warnings.simplefilter("ignore", category)
        return FederatedDPDecisionTree(**arguments).fit(parties)


def score(case: Case, seed: int, **arguments: Any) -> float | None:
    """Success of one fit; None if the library refused it."""
    split = case.split(seed)
    try:
        tree = fit(split.parties, random_state=seed, **case.public, **arguments)
    except BudgetExceeded:
        return None
    return case.measure(split.y_test, tree.predict(split.X_test))


def scores(
    case: Case, settings: Sequence[dict], n_seeds: int, n_jobs: int | None
) -> list[list[float | None]]:
    """Success by setting and seed."""
    tasks = [
        delayed(score)(case, seed, **arguments) for arguments in settings for seed in range(n_seeds)
    ]
    found = Parallel(n_jobs=n_jobs)(tasks)
    return [found[i : i + n_seeds] for i in range(0, len(found), n_seeds)]


def cell(values: Sequence[float | None]) -> str:
    """Mean and standard error; fits that were refused are counted."""
    present = [value for value in values if value is not None]
    if not present:
        return REFUSED
    missing = len(values) - len(present)
    return mean_and_error(present) + (f" ({missing} {REFUSED})" if missing else "")


def compare_variants(
    title: str,
    case: Case,
    wanted: dict[float, tuple[str, str]],
    every: int,
    n_seeds: int,
    n_jobs: int | None,
) -> None:
    """Print a table: a row an epsilon, a column a variant, then goal and aim."""
    epsilons = list(wanted)[::every]
    settings = [
        {"epsilon": epsilon, **arguments} for epsilon in epsilons for arguments in VARIANTS.values()
    ]
    cells = [cell(values) for values in scores(case, settings, n_seeds, n_jobs)]
    rows = []
    for i, epsilon in enumerate(epsilons):
        row = cells[i * len(VARIANTS) : (i + 1) * len(VARIANTS)]
        rows.append((f"{epsilon:g}", *row, *wanted[epsilon]))
    print_table(title, ("epsilon", *VARIANTS, "goal", "aim"), rows)


def nursery(size: Size, n_jobs: int | None) -> None:
    """Part (a)."""
    data = fetch_nursery()
    X, y = some_rows(data.data, data.target, size.most_rows)
    title = f"(a) Nursery, {N_PARTIES} parties, weighted F1, {size.nursery_seeds} seeds"
    case = Case(at_random(X, y), data.public, weighted_f1)
    compare_variants(title, case, NURSERY_WANTED, size.every, size.nursery_seeds, n_jobs)


def adult(size: Size, n_jobs: int | None) -> None:
    """Part (b)."""
    data = fetch_adult()
    X, y = some_rows(data.data, data.target, size.most_rows)

    def split(seed: int) -> Split:
        parties = partition(X, y, N_PARTIES, random_state=seed)
        return Split(parties, data.data_test, data.target_test)

    majority = data.target_test.value_counts(normalize=True).max()
    title = (
        f"(b) Adult, {N_PARTIES} parties, accuracy on the official test set, "
        f"{size.adult_seeds} seeds; the majority class has {majority:.3f}"
    )
    case = Case(split, data.public)
    compare_variants(title, case, ADULT_WANTED, size.every, size.adult_seeds, n_jobs)


def hospitals(size: Size, n_jobs: int | None) -> None:
    """Part (c)."""
    data = load_hospitals()
    n_seeds = size.hospital_seeds

    def accuracy_of_plain_tree(X: Any, y: Any, seed: int) -> float:
        tree = DecisionTreeClassifier(random_state=seed).fit(X, y)
        return float(tree.score(data.X_test, data.y_test))

    alone = [
        float(np.mean([accuracy_of_plain_tree(X, y, seed) for X, y in data.parties]))
        for seed in range(n_seeds)
    ]
    X, y = (np.concatenate(parts) for parts in zip(*data.parties, strict=True))
    pooled = [accuracy_of_plain_tree(X, y, seed) for seed in range(n_seeds)]
    no_privacy = mean_and_error(alone), mean_and_error(pooled)

    epsilons = HOSPITAL_EPSILONS[:: size.every]
    case = Case(lambda seed: Split(data.parties, data.X_test, data.y_test), data.public)
    settings = [
        {"epsilon": epsilon, **arguments}
        for arguments in (VARIANTS["local DP"], VARIANTS["proved, Gaussian"])
        for epsilon in epsilons
    ]
    cells = [cell(values) for values in scores(case, settings, n_seeds, n_jobs)]
    half = len(epsilons)
    rows = [
        (f"{epsilon:g}", no_privacy[0], local, federated, no_privacy[1])
        for epsilon, local, federated in zip(epsilons, cells[:half], cells[half:], strict=True)
    ]
    print_table(
        f"(c) Breast cancer, {len(data.parties)} hospitals, accuracy, {n_seeds} seeds",
        ("epsilon", "alone, no privacy", "local DP", "federated", "pooled, no privacy"),
        rows,
    )


def untuned(size: Size, n_jobs: int | None) -> None:
    """Part (e): data sets that no constant of the tree was tuned on."""
    epsilons = UNTUNED_EPSILONS[:: size.every]
    rows = []
    for name, file, target, left_out in (
        ("mushroom", "mushroom.csv.gz", "class", []),
        ("bank marketing", "bank_marketing_additional_full.csv.gz", "y", ["duration"]),
        ("the same with call duration", "bank_marketing_additional_full.csv.gz", "y", []),
        ("car", "car_evaluation.csv.gz", "class", []),
    ):
        path = Path(os.environ.get(FOLDER_VARIABLE, ""), file)
        if not path.is_file():
            print(f"\n({file} is not in the folder of {FOLDER_VARIABLE}: left out)")
            continue
        frame = pd.read_csv(path, keep_default_na=False)
        X, y = some_rows(frame.drop(columns=[target, *left_out]), frame[target], size.most_rows)
        settings = [{"epsilon": epsilon} for epsilon in epsilons]
        found = scores(Case(at_random(X, y), {}), settings, size.untuned_seeds, n_jobs)
        majority = y.value_counts(normalize=True).max()
        rows.append((name, f"{majority:.3f}", *map(cell, found)))
    print_table(
        f"(e) Not used in tuning: accuracy, {N_PARTIES} parties, {size.untuned_seeds} seeds, "
        "categories, bounds and classes taken from the training rows",
        ("data", "majority", *(f"epsilon {epsilon:g}" for epsilon in epsilons)),
        rows,
    )


def fit_times(repeats: int, parties: list, **arguments: Any) -> tuple[float, float]:
    """Median seconds of a fit on the wall and of the CPU, set-up included."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        fit(parties, random_state=0, **arguments)
        taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, cpu = np.median(taken, axis=0).tolist()
    return wall, cpu


def time_many_parties(n_parties: int) -> tuple[tuple[float, float], float]:
    """Times of a fit with so many parties of 50 synthetic rows, and peak megabytes."""
    rng = np.random.default_rng(0)
    parties = []
    for _ in range(n_parties):
        X = rng.random((50, 10))
        y = X[:, 0] + X[:, 1] + 0.2 * rng.standard_normal(50) > 1
        parties.append((X, y.astype(int)))
    facts = {"bounds": (0, 1), "classes": [0, 1]}
    return fit_times(1, parties, secure_sum="plain", **facts), peak_megabytes()


def time_party_numbers(size: Size, X: Any, y: Any, public: dict) -> list[Row]:
    """The same rows with more and more parties."""
    rows = []
    for n_parties in size.party_numbers:
        repeats = size.repeats if n_parties < ONE_RUN_FROM else 1
        parties = partition(X, y, n_parties, random_state=0)
        for secure_sum in ("plain", "masks"):
            wall, cpu = fit_times(repeats, parties, secure_sum=secure_sum, **public)
            goal = "< 0.5 s" if (n_parties, secure_sum) == (N_PARTIES, "plain") else ""
            cpu_shown = f"{cpu:.2f} s = {cpu / n_parties * 1e3:.1f} ms a party"
            what = f"Nursery, {n_parties:,} parties, {secure_sum}"
            rows.append((what, f"{wall:.2f} s", cpu_shown, goal))
    return rows


def timings(size: Size, n_jobs: int | None) -> None:
    """Part (d), in one process whatever ``n_jobs``."""
    data = fetch_nursery()
    X, y = some_rows(data.data, data.target, size.most_rows)
    rows = time_party_numbers(size, X, y, data.public)

    (wall, cpu), megabytes = in_fresh_process(time_many_parties, size.many_parties)
    per_party = f"{cpu:.1f} s = {cpu / size.many_parties * 1e3:.1f} ms a party"
    what = (
        f"{size.many_parties:,} parties of 50 rows, 10 numeric columns, plain; {megabytes:.0f} MB"
    )
    rows.append((what, f"{wall:.1f} s", per_party, "< 60 s, < 1,000 MB"))

    income = fetch_adult()
    rows_of_adult = some_rows(income.data, income.target, size.most_rows)
    parties = partition(*rows_of_adult, N_PARTIES, random_state=0)
    wall, cpu = fit_times(size.repeats, parties, **income.public)
    rows.append((f"Adult, {N_PARTIES} parties, masks", f"{wall:.2f} s", f"{cpu:.2f} s", ""))

    parties = partition(X, y, N_PARTIES, random_state=0)
    settings = {"secure_sum": "paillier", "max_depth": size.paillier_depth}
    wall, cpu = fit_times(1, parties, **settings, **data.public)
    what = f"Nursery, {N_PARTIES} parties, Paillier 2048, keys dealt"
    rows.append((what, f"{wall:.1f} s", f"{cpu:.1f} s", ""))
    print_table(
        f"(d) Seconds of a fit, epsilon 1, seed 0: median of {size.repeats}; one run for Paillier "
        f"and from {ONE_RUN_FROM:,} parties on",
        ("fit", "on the wall", "CPU", "goal"),
        rows,
    )


PARTS = {"a": nursery, "b": adult, "c": hospitals, "d": timings, "e": untuned}


def main(command_line: Sequence[str] | None = None) -> None:
    """Parse the command line, run the parts and print a Markdown table for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tree")
    parser.add_argument("--quick", action="store_true", help="two seeds, few rows")
    parser.add_argument("--n-jobs", type=int, default=1, help="processes for the means")
    parser.add_argument("--parts", default="abcde", help="letters of the parts to run")
    arguments = parser.parse_args(command_line)
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    size = QUICK if arguments.quick else Size()
    for part in arguments.parts:
        PARTS[part](size, arguments.n_jobs)


if __name__ == "__main__":
    main()

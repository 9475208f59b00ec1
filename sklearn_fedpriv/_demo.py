"""The demonstration: parties alone, together in private, and pooled without privacy."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from sklearn_fedpriv.datasets import fetch_adult, fetch_nursery, load_hospitals, partition
from sklearn_fedpriv.exceptions import NoiseWarning
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.tree import FederatedDPDecisionTree

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
BILLED = 2.0  # the epsilon of the fit whose bill is printed
N_PARTIES = 10


@dataclass(frozen=True)
class Case:
    """Parties, a public test set, and public facts."""

    name: str
    parties: list
    X_test: Any
    y_test: Any
    public: dict


def hospitals() -> Case:
    """Breast cancer records of five hospitals; ships with scikit-learn."""
    data = load_hospitals()
    name = f"breast cancer, {len(data.parties)} hospitals"
    return Case(name, data.parties, data.X_test, data.y_test, data.public)


def nursery() -> Case:
    """Nursery applications, ten parties."""
    data = fetch_nursery()
    (X, y), (X_test, y_test) = partition(
        data.data, data.target, 2, how="sizes", sizes=[0.8, 0.2], random_state=0
    )
    parties = partition(X, y, N_PARTIES, random_state=0)
    return Case(f"Nursery, {N_PARTIES} parties", parties, X_test, y_test, data.public)


def adult() -> Case:
    """Adult, ten parties, official test set."""
    data = fetch_adult()
    parties = partition(data.data, data.target, N_PARTIES, random_state=0)
    name = f"Adult, {N_PARTIES} parties"
    return Case(name, parties, data.data_test, data.target_test, data.public)


DATA: dict[str, Callable[[], Case]] = {"hospitals": hospitals, "nursery": nursery, "adult": adult}


def run_demo(data: str, *, repeats: int, picture: str) -> None:
    """Print the comparison and one bill, and save the picture.

    Parameters
    ----------
    data : {"hospitals", "nursery", "adult"}
    repeats : int
        Fits behind each mean.
    picture : str
        File name.
    """
    case = DATA[data]()
    print(f"{case.name}: accuracy on {len(case.y_test)} rows that no party holds\n")

    alone = [_pooled_accuracy(case, [party]) for party in case.parties]
    pooled = _pooled_accuracy(case, case.parties)
    _line("each party alone, without privacy", f"{min(alone):.3f} to {max(alone):.3f}")
    _line("all rows pooled, without privacy", f"{pooled:.3f}")

    local, private = [], []
    for epsilon in EPSILONS:
        local.append(list(_accuracies(case, epsilon, repeats, min_honest=1)))
        private.append(list(_accuracies(case, epsilon, repeats)))
        _line(
            f"epsilon {epsilon:g}: local DP | federated, private",
            f"{np.mean(local[-1]):.3f} | {np.mean(private[-1]):.3f}   (means of {repeats} fits)",
        )

    print(f"\none fit at epsilon {BILLED:g} through threshold Paillier, with fresh noise:")
    began = perf_counter()
    federation = Federation(case.parties, secure_sum="paillier")
    model = FederatedDPDecisionTree(epsilon=BILLED, verbose=1, **case.public).fit(federation)
    accuracy = model.score(case.X_test, case.y_test)
    print(f"accuracy {accuracy:.3f} after {perf_counter() - began:.0f} s, keys included\n")
    print(model.privacy_)

    _draw(case, alone, pooled, local, private, picture)
    print(f"\nThe picture is in {picture}.")


def _line(what: str, figure: str) -> None:
    print(f"  {what:<50} {figure}", flush=True)


def _pooled_accuracy(case: Case, parties: list) -> float:
    """An ordinary tree on the raw rows of some parties."""
    X = _stack([X for X, _ in parties])
    y = np.concatenate([y for _, y in parties])
    tree: Any = DecisionTreeClassifier(max_depth=8, min_samples_leaf=5, random_state=0)
    if "categories" in case.public:
        names = list(case.public["categories"])
        encoder = OneHotEncoder(
            categories=list(case.public["categories"].values()), handle_unknown="ignore"
        )
        tree = make_pipeline(
            make_column_transformer((encoder, names), remainder="passthrough"), tree
        )
    score: float = tree.fit(X, y).score(case.X_test, case.y_test)
    return score


def _stack(tables: list) -> Any:
    if hasattr(tables[0], "columns"):
        import pandas as pd

        return pd.concat(tables, ignore_index=True)
    return np.concatenate(tables)


def _accuracies(
    case: Case, epsilon: float, repeats: int, *, min_honest: int | None = None
) -> Iterator[float]:
    """Accuracies of seeded fits with plain sums, which give the same trees as Paillier's."""
    for seed in range(repeats):
        model = FederatedDPDecisionTree(
            epsilon=epsilon, min_honest=min_honest, random_state=seed, **case.public
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            model.fit(case.parties)
        yield model.score(case.X_test, case.y_test)


def _draw(case: Case, alone: list, pooled: float, local: list, private: list, picture: str) -> None:
    """Accuracy against epsilon, with the non-private models as rails."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('The picture needs: pip install "sklearn-fedpriv[plot]"') from error
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    rail = {"linewidth": 1, "zorder": 0}
    axes.axhline(pooled, color="black", label="pooled, no privacy", **rail)
    axes.axhline(
        float(np.mean(alone)), color="grey", linestyle="--", label="one party alone (mean)", **rail
    )
    for scores, label, color, shift in (
        (private, "federated, private", "tab:blue", 0.98),
        (local, "local DP", "tab:orange", 1.02),  # so that the bars do not hide each other
    ):
        mean, spread = np.mean(scores, axis=1), np.std(scores, axis=1)
        where = shift * np.array(EPSILONS)
        axes.errorbar(where, mean, spread, label=label, color=color, marker="o", capsize=3)
    axes.set_xscale("log")
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.set_xlabel("epsilon (smaller is more private)")
    axes.set_ylabel("accuracy (mean and spread of fits)")
    axes.set_title(case.name)
    axes.legend(loc="lower right")
    figure.savefig(picture, dpi=150)

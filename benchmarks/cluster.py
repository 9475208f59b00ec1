"""Personalised models: what they recover and what that costs.

::

    python -m benchmarks.cluster [PART ...] [--seeds N]

Parts: ``synthetic`` (two laws, 100 parties of 10 rows, metric noise), ``gaussian`` (the same),
``charges`` (US hospitals), ``femnist`` (writers, half of them turned), ``attack`` (rebuilding an
image from an update). All by default. Seeds are those of data and noise; fits are seeded
rehearsals with plain sums, whose numbers are those of masked sums to the bit.
"""

import argparse
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._common import mean_and_error, print_table
from sklearn_fedpriv import ClusteredDPClassifier, ClusteredDPRegressor
from sklearn_fedpriv.cluster import FallingClip
from sklearn_fedpriv.datasets import fetch_femnist, fetch_hospital_charges, make_two_laws
from sklearn_fedpriv.exceptions import FedPrivWarning

N_SEEDS = 10
RECOVERED = 1.0  # both hypotheses nearer than this to their law; the laws are 10.5 apart
RATIOS = (0.5, 1.0, 2.0, 5.0)
# How often a party takes part: parties a round, rounds.
PARTICIPATIONS = {6: (7, 85), 20: (10, 200), 70: (35, 200)}
# Parties a round, rounds, first clip norm (chosen in simulations with other seeds), epsilons.
GAUSSIAN = (
    (100, 30, 1.5, (0.5, 0.85, 1.0, 1.25, 1.5)),
    (7, 200, 0.15, (3.0, 5.0, 6.0)),
)
MODES: dict[str, dict[str, Any]] = {
    "published": {"calibration": "published"},
    "proved, open": {"hide_membership": False},
    "proved, hidden": {},
}


def distance(hypotheses: np.ndarray, laws: np.ndarray) -> float:
    """Largest distance of a hypothesis from its law, in the best matching of two."""
    apart = np.linalg.norm(hypotheses[:, None] - laws[None], axis=2)
    return float(min(max(apart[0, 0], apart[1, 1]), max(apart[0, 1], apart[1, 0])))


def fits(n_seeds: int, *, noise: float = 0.5, **settings: Any) -> tuple[list, list]:
    """Fitted models and distances from the laws, a seed each."""
    models, off = [], []
    for seed in range(n_seeds):
        laws = make_two_laws(noise=noise, random_state=seed)
        model = ClusteredDPRegressor(
            fit_intercept=False, secure_sum="plain", random_state=seed, **settings
        ).fit(laws.parties)
        models.append(model)
        if len(model.hypotheses_) == 2:
            off.append(distance(model.hypotheses_, laws.laws))
    return models, off


def cell(n_seeds: int, **settings: Any) -> str:
    """Recovered seeds, median distance, leakage."""
    models, off = fits(n_seeds, **settings)
    return (
        f"{sum(d < RECOVERED for d in off)} of {n_seeds} ({np.median(off):.2f}); "
        f"{models[0].leakage_:.3g}"
    )


def synthetic(n_seeds: int) -> None:
    """Metric noise, published and proved."""
    _, off = fits(n_seeds, mechanism="metric", parties_per_round=7, n_rounds=200)
    print(
        f"\n7 a round, 200 rounds, nu = 1, hidden: {sum(d < RECOVERED for d in off)} of {n_seeds}"
    )
    bare = {"mechanism": "metric", "noise_ratio": 0.0, "parties_per_round": 7, "n_rounds": 200}
    for noise in (0.5, 0.1):
        _, off = fits(n_seeds, noise=noise, **bare)
        print(
            f"without privacy noise, targets' noise {noise}: within 0.1 in "
            f"{sum(d < 0.1 for d in off)} of {n_seeds}, largest distance {max(off):.3f}"
        )
    models, _ = fits(n_seeds, n_clusters=1, **bare)
    ends = ", ".join(f"({a:.2f}, {b:.2f})" for a, b in (model.hypotheses_[0] for model in models))
    print(f"k = 1 ends between the laws (5, 6) and (4, -4.5): {ends}")
    short = {"parties_per_round": 7, "n_rounds": 85, "noise_ratio": 5.0}
    for name, mode in MODES.items():
        model = fits(1, mechanism="metric", **short, **mode)[0][0]
        most = max(model.participations_.values())
        print(
            f"leakage at nu = 5, {name}: {model.leakage_ / most:.3g} a participation, "
            f"{model.leakage_:.3g} after {most}; the report says epsilon {model.privacy_.epsilon:g}"
        )
    rows = (
        (
            f"{participations} ({n_chosen} x {n_rounds})",
            f"{ratio:g}",
            *(
                cell(
                    n_seeds,
                    mechanism="metric",
                    noise_ratio=ratio,
                    parties_per_round=n_chosen,
                    n_rounds=n_rounds,
                    **mode,
                )
                for mode in MODES.values()
            ),
        )
        for participations, (n_chosen, n_rounds) in PARTICIPATIONS.items()
        for ratio in RATIOS
    )
    print_table(
        "(a) Two laws: seeds with both laws within 1.0 (median distance); leakage of all "
        "participations, claimed where published",
        ("participations (a round x rounds)", "nu", *MODES),
        rows,
    )


def gaussian(n_seeds: int) -> None:
    """Recovered seeds against epsilon, client-level with shared noise."""

    def row(n_chosen: int, n_rounds: int, first: float, epsilon: float) -> tuple[str, ...]:
        _, off = fits(
            n_seeds,
            epsilon=epsilon,
            parties_per_round=n_chosen,
            n_rounds=n_rounds,
            clip_norm=FallingClip(first),
        )
        found = f"{sum(d < RECOVERED for d in off)} of {n_seeds}"
        return f"{n_chosen} x {n_rounds}", f"{epsilon:g}", found, f"{np.median(off):.2f}"

    rows = (
        row(n_chosen, n_rounds, first, epsilon)
        for n_chosen, n_rounds, first, epsilons in GAUSSIAN
        for epsilon in epsilons
    )
    print_table(
        "(b) Two laws, Gaussian noise, delta 1e-5: seeds with both laws within 1.0",
        ("a round x rounds", "epsilon", "recovered", "median distance"),
        rows,
    )


CHARGES_RATIOS = (0.0, 0.1, 1.0, 2.0, 3.0, 5.0)
CHARGES_CLUSTERS = (1, 3, 5, 7)


def errors_of(hypotheses: np.ndarray, parties: list, scale: float) -> tuple[float, float]:
    """Root mean squared errors over held-out hospitals.

    With the hypothesis chosen on the rows that are predicted, as in the paper; and chosen on the
    hospital's other rows, where it has any.
    """
    own, other = [], []
    for X, y in parties:
        rows = np.hstack([X, np.ones((len(X), 1))])
        squared = (rows @ hypotheses.T - y[:, None]) ** 2
        own += squared[:, squared.sum(axis=0).argmin()].tolist()
        if len(y) > 1:
            rest = squared.sum(axis=0) - squared
            other += squared[np.arange(len(y)), rest.argmin(axis=1)].tolist()
    return scale * np.mean(own) ** 0.5, scale * np.mean(other) ** 0.5


def charges(n_seeds: int) -> None:
    """Dollars by k and nu: 70 % of the hospitals train, 100 a round; the others are predicted."""
    data = fetch_hospital_charges()

    def one(k: int, ratio: float) -> str:
        found = []
        for seed in range(n_seeds):
            order = np.random.default_rng(seed).permutation(len(data.parties))
            cut = int(0.7 * len(order))
            model = ClusteredDPRegressor(
                n_clusters=k,
                mechanism="metric",
                noise_ratio=ratio,
                n_rounds=100,
                parties_per_round=100,
                clip_norm=FallingClip(0.2),
                spread=0.05,
                secure_sum="plain",
                random_state=seed,
            ).fit([data.parties[i] for i in order[:cut]])
            held_out = [data.parties[i] for i in order[cut:]]
            found.append(errors_of(model.hypotheses_, held_out, data.target_scale))
        own, other = np.mean(found, axis=0)
        return f"{own:,.0f} ({other:,.0f})"

    rows = ((f"{ratio:g}", *(one(k, ratio) for k in CHARGES_CLUSTERS)) for ratio in CHARGES_RATIOS)
    print_table(
        f"(c) Hospital charges, RMSE in dollars, {n_seeds} seeds: chosen on the predicted rows "
        "(on the hospital's other rows)",
        ("nu", *(f"k = {k}" for k in CHARGES_CLUSTERS)),
        rows,
    )


def femnist(n_seeds: int) -> None:
    """Accuracy on each writer's test rows, half of the writers turned by 90 degrees.

    Logistic regression on images of 14 x 14; each writer chooses on its training rows.
    """

    def pooled(X: np.ndarray) -> np.ndarray:
        return X.reshape(len(X), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(X), 196)

    def one(k: int, ratio: float) -> str:
        scores = []
        for seed in range(n_seeds):
            data = fetch_femnist(turned=0.5, random_state=seed)
            parties = [(pooled(X), y) for X, y in data.parties]
            model = ClusteredDPClassifier(
                n_clusters=k,
                mechanism="metric",
                noise_ratio=ratio,
                n_rounds=30,
                local_epochs=2,
                batch_size=20,
                learning_rate=0.5,
                clip_norm=FallingClip(4.0),
                secure_sum="plain",
                random_state=seed,
                **data.public,
            ).fit(parties)
            right = n_rows = 0
            for rows, (X, y) in zip(parties, data.parties_test, strict=True):
                if len(y):
                    told = {"parties": [""] * len(y), "choices": {"": model.choose(*rows)}}
                    right += int((model.predict(pooled(X), **told) == y).sum())
                    n_rows += len(y)
            scores.append(right / n_rows)
        return mean_and_error(scores)

    print_table(
        f"(d) FEMNIST, 105 writers, half of them turned, accuracy, {n_seeds} seeds",
        ("nu", "k = 1", "k = 2"),
        ((f"{ratio:g}", one(1, ratio), one(2, ratio)) for ratio in (0.0, 1.0, 5.0, 20.0)),
    )


def attack(n_seeds: int) -> None:
    """Deep leakage from gradients: one image of a writer, from one step's update; an illustration.

    The picture goes to ``cluster_attack.png``.
    """
    import torch
    from matplotlib.figure import Figure

    from sklearn_fedpriv._torch._rebuild import SigmoidCNN, one_gradient
    from sklearn_fedpriv.audit import rebuild_record, sanitise_layers

    torch.manual_seed(1234)
    torch.set_num_threads(1)
    data = fetch_femnist()
    X, y = data.parties[3]
    row, label = X[5], int(y[5])
    net = SigmoidCNN(62)
    gradient = one_gradient(net, row, label)
    ratios, made = (1e-3, 1e-2, 1e-1, 1.0, 3.0), []
    for ratio in ratios:
        seen = sanitise_layers(net, gradient, ratio, random_state=0)
        made.append(rebuild_record(net, seen, (784,), true_row=row, n_iter=60, random_state=0))
    print_table(
        "(e) Rebuilding one image from one noisy gradient, layer by layer as published",
        ("nu", "mean squared error", "2 n / nu, for n parameters"),
        (
            (f"{ratio:g}", f"{rebuilt.error:.3g}", f"{2 * len(gradient) / ratio:,.0f}")
            for ratio, rebuilt in zip(ratios, made, strict=True)
        ),
    )
    figure = Figure(figsize=(9, 2), layout="constrained")
    axes = figure.subplots(1, 1 + len(ratios))
    titles = ["written", *(f"nu = {ratio:g}" for ratio in ratios)]
    for ax, title, image in zip(axes, titles, [row, *(m.row for m in made)], strict=True):
        ax.imshow(image.reshape(28, 28), cmap="gray_r", vmin=0, vmax=1)
        ax.set(title=title, xticks=[], yticks=[])
    figure.savefig("cluster_attack.png", dpi=120)
    print("\nsaved cluster_attack.png")


PARTS = {
    "synthetic": synthetic,
    "gaussian": gaussian,
    "charges": charges,
    "femnist": femnist,
    "attack": attack,
}


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print Markdown tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    chosen = parser.parse_args(list(arguments))
    warnings.simplefilter("ignore", FedPrivWarning)
    for part in chosen.parts or PARTS:
        PARTS[part](chosen.seeds)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])

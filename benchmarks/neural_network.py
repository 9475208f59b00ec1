"""Private training of a CNN on MNIST: ``python -m benchmarks.neural_network PART [EPSILON ...]``.

Ten parties of 6,000 images, the network of Truex et al. (26,010 parameters), delta 1e-5, masks.

* ``cost``: what federation adds to a step, and one party's own part of that; wall-clock time on one
  core, medians. The step is that of the training below.
* ``mnist EPSILON ...``: accuracy on the 10,000 test images, and seconds, on all cores. The fit is
  seeded so that the figure can be had again; a seeded fit is not private.
* ``central EPSILON ...``: the same net, steps, samples and budget by Opacus, where it is installed.
* ``speed``: samples a second of one step against Opacus, in one process in turns: batches of 256 in
  memory; gradients, clipping, noise and update; one thread, as a party has it.

``SKLEARN_FEDPRIV_DATA`` names the folder with ``mnist.npz``.
"""

import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from skorch import NeuralNetClassifier

from benchmarks._common import print_table
from sklearn_fedpriv import FederatedDPNeuralNetClassifier
from sklearn_fedpriv.federation._party import PartyRun
from sklearn_fedpriv.federation._query import poisson_sample
from sklearn_fedpriv.federation._terms import Noise
from sklearn_fedpriv.neural_network import AmplitudeMLP, MnistCNN

N_PARTIES = 10
BATCHES = 15  # times ten, of each way
SETTINGS = {
    "sampling_rate": 2048 / 60_000,
    "clip_norm": 1.0,
    "n_rows_hint": 60_000,
    "classes": list(range(10)),
}
NET = {"lr": 0.5, "optimizer__momentum": 0.9, "module__activation": torch.nn.Tanh}


def rounds(epsilon: float) -> int:
    """More steps where there is less noise."""
    return 300 if epsilon <= 1 else 400


def images() -> tuple[np.ndarray, ...]:
    """Training and test images, flat in [0, 1], and labels."""
    with np.load(Path(os.environ["SKLEARN_FEDPRIV_DATA"]) / "mnist.npz") as data:
        parts = [data[name] for name in ("x_train", "y_train", "x_test", "y_test")]
    X, y, X_test, y_test = parts
    return X.reshape(-1, 784) / 255, y, X_test.reshape(-1, 784) / 255, y_test


def parties_of(X: np.ndarray, y: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The rows in turn, so that all parties have all classes."""
    return [(X[i::N_PARTIES], y[i::N_PARTIES]) for i in range(N_PARTIES)]


def estimator(**settings: object) -> FederatedDPNeuralNetClassifier:
    """As it is run here."""
    return FederatedDPNeuralNetClassifier(
        NeuralNetClassifier(MnistCNN, **NET), **SETTINGS | settings
    )


def mnist(epsilons: list[float]) -> None:
    """Accuracy and seconds."""
    X, y, X_test, y_test = images()
    rows = []
    for epsilon in epsilons:
        start = time.perf_counter()
        settings = {"n_rounds": rounds(epsilon), "n_jobs": os.cpu_count(), "random_state": 0}
        fitted = estimator(epsilon=epsilon, **settings).fit(parties_of(X, y))
        took = time.perf_counter() - start
        rows.append((f"{epsilon:g}", f"{fitted.score(X_test, y_test):.4f}", f"{took:.0f} s"))
    print_table("MNIST, ten parties, masks", ("epsilon", "accuracy", "time"), rows)


def cost() -> None:
    """Parts of a step, by timing what a fit calls."""
    X, y, *_ = images()
    spent: dict[str, list[float]] = {"noise": [], "masks": [], "gradients": []}
    from sklearn_fedpriv._torch import LocalNet
    from sklearn_fedpriv.federation import _run
    from sklearn_fedpriv.secure import _masks

    def timed(owner: type, name: str, to: str) -> None:
        original = getattr(owner, name)

        def call(*args: object, **kwargs: object) -> object:
            start = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                spent.setdefault(to, []).append(time.perf_counter() - start)

        setattr(owner, name, call)

    timed(Noise, "draw", "noise")
    timed(_masks._MaskParty, "protect", "masks")
    timed(LocalNet, "gradient_sum", "gradients")
    timed(_run.Run, "release", "step")
    timed(PartyRun, "charge", "charge")
    warnings.simplefilter("ignore")
    estimator(epsilon=1.0, n_rounds=20).fit(parties_of(X, y))
    mean = {name: statistics.median(times) * 1e3 for name, times in spent.items()}
    share = mean["noise"] + mean["masks"]
    gradients = N_PARTIES * mean["gradients"]
    print_table(
        "One step, lot of 2,048, one core",
        ("part", "ms"),
        [
            ("gradients of ten parties", f"{gradients:.0f}"),
            ("whole release", f"{mean['step']:.0f}"),
            ("added by federation", f"{mean['step'] / gradients - 1:.0%}"),
            ("one party: noise", f"{mean['noise']:.1f}"),
            ("one party: masks", f"{mean['masks']:.1f}"),
            ("one party: charge", f"{mean['charge']:.1f}"),
            ("one party's own share", f"{share:.1f}"),
        ],
    )


def central(epsilons: list[float]) -> None:
    """Opacus with the noise that it finds for the same epsilon, on the same steps."""
    from opacus.accountants.utils import get_noise_multiplier
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    from sklearn_fedpriv.privacy._randomness import Stream, fresh_key

    X, y, X_test, y_test = images()
    rows = []
    for epsilon in epsilons:
        rate, n_rounds = SETTINGS["sampling_rate"], rounds(epsilon)
        sigma = get_noise_multiplier(
            target_epsilon=epsilon, target_delta=1e-5, sample_rate=rate, steps=n_rounds,
            accountant="prv",
        )  # fmt: skip
        module = MnistCNN(activation=torch.nn.Tanh)
        sgd = torch.optim.SGD(module.parameters(), lr=NET["lr"], momentum=0.9)
        hooked = GradSampleModule(module)
        optimizer = DPOptimizer(
            sgd,
            noise_multiplier=sigma,
            max_grad_norm=SETTINGS["clip_norm"],
            expected_batch_size=int(rate * len(X)),
        )
        stream, start = Stream(fresh_key()), time.perf_counter()
        for i in range(n_rounds):
            index = poisson_sample(len(X), estimator()._rate, stream)
            optimizer.zero_grad()
            output = hooked(torch.tensor(X[index], dtype=torch.float32))
            labels = torch.tensor(y[index], dtype=torch.int64)
            torch.nn.functional.nll_loss(torch.log(output + 1e-7), labels).backward()
            for group in optimizer.param_groups:
                group["lr"] = NET["lr"] * min(1.0, 2 * (1 - i / n_rounds))
            optimizer.step()
        with torch.no_grad():
            found = module(torch.tensor(X_test, dtype=torch.float32)).argmax(1).numpy()
        took = time.perf_counter() - start
        rows.append((f"{epsilon:g}", f"{(found == y_test).mean():.4f}", f"{took:.0f} s"))
    print_table("MNIST, central, Opacus", ("epsilon", "accuracy", "time"), rows)


def speed() -> None:
    """Median over rounds in which each way has its turn."""
    X, y, *_ = images()
    X, y = X[:2560].astype(np.float32), y[:2560].astype(np.int64)
    torch.set_num_threads(1)
    rows = []
    for module in (MnistCNN, AmplitudeMLP):
        ways = {"ours": ours(module), "Opacus hooks": hooks(module), "Opacus ghost": ghost(module)}
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(BATCHES):
            for name, step in ways.items():
                for i in range(0, len(X), 256):
                    start = time.perf_counter()
                    step(X[i : i + 256], y[i : i + 256])
                    taken[name].append(time.perf_counter() - start)
        rate = {name: 256 / statistics.median(times) for name, times in taken.items()}
        rows.append(
            (
                module.__name__,
                *(f"{rate[name]:,.0f}" for name in ways),
                f"{rate['ours'] / rate['Opacus hooks']:.2f}",
                f"{rate['ours'] / rate['Opacus ghost']:.2f}",
            )
        )
    print_table(
        "Samples a second, batches of 256, one thread",
        ("net", "ours", "Opacus hooks", "Opacus ghost", "ours / hooks", "ours / ghost"),
        rows,
    )


Step = Callable[[np.ndarray, np.ndarray], None]


def ours(module: type[torch.nn.Module]) -> Step:
    """A step as a party and the server make it, with Opacus's Gaussian noise in floats."""
    from sklearn_fedpriv._torch import LocalNet, apply_gradient, build_net, get_flat

    net = build_net(module, seed=0, n_classes=10, options={"lr": 0.1})
    code = LocalNet(net, (784,), by_rows=True)

    def step(X: np.ndarray, y: np.ndarray) -> None:
        total = code.gradient_sum(get_flat(net.module_), X, y, 1.0, 0)
        noise = torch.randn(len(total)).numpy()
        apply_gradient(net, (total + noise) / 256, 1.0)

    return step


def logits(module: type[torch.nn.Module]) -> torch.nn.Module:
    """Without the softmax, so that Opacus has the loss it is made for."""
    net = module()
    net[len(net) - 1] = torch.nn.Identity()
    return net


def hooks(module: type[torch.nn.Module]) -> Step:
    """A step of Opacus with per-example gradients kept by hooks."""
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    net = GradSampleModule(logits(module))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer = DPOptimizer(sgd, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=256)
    loss = torch.nn.CrossEntropyLoss()

    def step(X: np.ndarray, y: np.ndarray) -> None:
        optimizer.zero_grad()
        loss(net(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimizer.step()

    return step


def ghost(module: type[torch.nn.Module]) -> Step:
    """A step of Opacus by ghost clipping: norms first, then a second backward pass."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    net = GradSampleModuleFastGradientClipping(
        logits(module), max_grad_norm=1.0, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(net.parameters(), lr=0.1),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=256,
    )
    loss = DPLossFastGradientClipping(net, optimizer, torch.nn.CrossEntropyLoss(reduction="mean"))

    def step(X: np.ndarray, y: np.ndarray) -> None:
        optimizer.zero_grad()
        loss(net(torch.from_numpy(X)), torch.from_numpy(y)).backward()
        optimizer.step()

    return step


def main() -> None:
    """What the command line names; all of it by default."""
    name, *numbers = sys.argv[1:] if __name__ == "__main__" and sys.argv[1:] else ["cost"]
    epsilons = [float(number) for number in numbers] or [1.0, 3.0]
    if name in ("cost", "speed"):
        {"cost": cost, "speed": speed}[name]()
    else:
        {"mnist": mnist, "central": central}[name](epsilons)


if __name__ == "__main__":
    main()

"""What can never work, and rows that cannot be read, end a fit before it costs anything (G6)."""

import os
import subprocess
import sys
from functools import cached_property

import numpy as np
import pandas as pd
import pytest
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor
from torch import nn

from sklearn_fedpriv import (
    FederatedDPNeuralNetClassifier,
    FederatedDPNeuralNetRegressor,
    Party,
)
from sklearn_fedpriv._torch import LocalNet, build_net
from sklearn_fedpriv.exceptions import FedPrivError
from sklearn_fedpriv.neural_network import SmallNet
from sklearn_fedpriv.neural_network._code import PartyNet
from sklearn_fedpriv.neural_network._queries import NetRows
from sklearn_fedpriv.privacy import AdaptiveRounds

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn_fedpriv.exceptions.NoiseWarning",
    "ignore::sklearn_fedpriv.exceptions.UnprovenPrivacyWarning",
)
N = 60
WAYS = {
    "record": {},
    "party": {"unit": "party"},
    "published": {"calibration": "published", "sampling_rate": 0.5},
}


def classifier(net=SmallNet, **settings):
    settings = {"n_rounds": 2, "n_rows_hint": N, "classes": [0, 1], "epsilon": 50.0} | settings
    return FederatedDPNeuralNetClassifier(net, **settings)


def regressor(net=SmallNet, **settings):
    settings = {"n_rounds": 2, "n_rows_hint": N, "epsilon": 50.0} | settings
    return FederatedDPNeuralNetRegressor(net, **settings)


def parties_of(X, y):
    return [Party(X[::2], y[::2], name="first"), Party(X[1::2], y[1::2], name="second")]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, (X[:, 0] > 0).astype(int)


def refused(estimator, X, y, *texts, **given):
    """The error's text; no party was charged."""
    parties = parties_of(X, y)
    with pytest.raises(ValueError) as caught:
        estimator.fit(parties, **given)
    assert not any(party.ledger.entries for party in parties)
    text = str(caught.value)
    assert all(part in text for part in texts), text
    return text


class NoReduction(nn.Module):
    """A loss of labels, of a batch as a whole."""

    def forward(self, output, y):
        return nn.functional.nll_loss(torch.log(output), y)


class Focal(nn.Module):
    """A loss of labels that no class of torch is."""

    reduction = "mean"

    def forward(self, output, y):
        p = output.gather(1, y[:, None])[:, 0]
        losses = -((1 - p) ** 2) * p.log()
        return losses if self.reduction == "none" else losses.mean()


class TwoNumbers(nn.Module):
    def forward(self, output, y):
        return output[:, :2]


class Detached(SmallNet):
    def forward(self, X):
        return super().forward(X).detach()


class Stumbling(SmallNet):
    """Does not run in training mode."""

    def forward(self, X):
        if self.training:
            raise RuntimeError("not today")
        return super().forward(X)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("net", "texts"),
    [
        ({"optimizer": torch.optim.LBFGS}, ["optimizer LBFGS", "closure", "SGD"]),
        ({"optimizer": torch.optim.SparseAdam}, ["optimizer SparseAdam", "dense", "SGD"]),
        ({"criterion": nn.MSELoss}, ["MSELoss", "int64 indices of classes", "CrossEntropyLoss"]),
        ({"criterion": nn.BCELoss}, ["BCELoss", "int64 indices of classes", "CrossEntropyLoss"]),
        ({"criterion": TwoNumbers}, ["criterion TwoNumbers"]),
        ({"module": Detached}, ["criterion NLLLoss"]),
        ({"module": Stumbling}, ["module Stumbling", "not today"]),
    ],
)
def test_what_makes_no_step_costs_nothing(rows, way, net, texts):
    skorch = NeuralNetClassifier(**{"module": SmallNet, **net})
    refused(classifier(skorch, **WAYS[way]), *rows, *texts)


def test_a_regressor_has_a_loss_of_numbers(rows):
    X, _ = rows
    net = NeuralNetRegressor(SmallNet, criterion=nn.NLLLoss)
    for way in WAYS.values():
        refused(regressor(net, **way), X, X[:, 0], "NLLLoss", "float32 targets", "(n_rows, 1)")


def test_parties_need_a_loss_of_each_row_of_a_batch(rows):
    net = NeuralNetClassifier(SmallNet, criterion=NoReduction)
    refused(classifier(net, unit="party"), *rows, "criterion NoReduction", "`reduction`", "record")


@pytest.mark.parametrize("way", WAYS)
def test_own_losses_of_labels_work(rows, way):
    X, y = rows
    criteria = [Focal] if way == "party" else [Focal, NoReduction]
    for criterion in criteria:
        net = NeuralNetClassifier(SmallNet, criterion=criterion)
        assert classifier(net, **WAYS[way]).fit(parties_of(X, y)).n_rounds_ == 2


def test_a_loss_without_reduction_is_the_same_loss(rows):
    """``NoReduction`` is NLLLoss but for a constant of 1e-7 that skorch adds to probabilities."""
    X, y = rows
    settings = {"random_state": 0, "n_rounds": 1, "sampling_rate": 0.5}
    kinds = (NoReduction, nn.NLLLoss)
    weights = [
        classifier(NeuralNetClassifier(SmallNet, criterion=kind), **settings)
        .fit(parties_of(X, y))
        .net_.module_[0]
        .weight.detach()
        for kind in kinds
    ]
    assert torch.allclose(*weights, atol=1e-5)


def test_the_trial_leaves_net_and_random_state_alone():
    before = torch.get_rng_state()
    net = build_net(SmallNet, seed=0, n_features=3, n_classes=2)
    kept = {name: value.clone() for name, value in net.module_.state_dict().items()}
    for by_rows in (True, False):
        PartyNet(net, (3,), NetRows((0, 1), False, False, False), by_rows=by_rows)
    assert all(torch.equal(kept[name], v) for name, v in net.module_.state_dict().items())
    assert not net.optimizer_.state and all(p.grad is None for p in net.module_.parameters())
    assert torch.equal(torch.get_rng_state(), before)


class Text(nn.Module):
    """Two vocabularies, the second column of the smaller one, and a third that is a number."""

    def __init__(self):
        super().__init__()
        self.large, self.small = nn.Embedding(100, 4), nn.Embedding(10, 4)
        self.fc = nn.Linear(5, 2)

    def forward(self, X):
        words = self.large(X[:, 0]) + self.small(X[:, 1])
        return torch.softmax(self.fc(torch.cat([words, X[:, 2:] / 1000], dim=1)), dim=1)


@pytest.fixture(scope="module")
def tokens():
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, n, size=N) for n in (100, 10, 3000)], axis=1)
    X[0], X[1] = (99, 9, 2999), (0, 0, -2000)
    return X, np.arange(N) % 2


@pytest.mark.parametrize("way", WAYS)
def test_tokens_that_an_embedding_has_are_read(tokens, way):
    X, y = tokens
    assert classifier(Text, **WAYS[way]).fit(parties_of(X, y)).n_rounds_ == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("column", "value", "largest"), [(0, 7531, 99), (0, -7531, 99), (1, 75, 9), (1, 10, 9)]
)
def test_tokens_that_no_embedding_has_are_refused(tokens, way, column, value, largest):
    X, y = tokens
    X = X.copy()
    X[3, column] = value
    text = refused(
        classifier(Text, **WAYS[way]),
        X,
        y,
        "Party 'second'",
        f"column 'x{column}'",
        f"from 0 to {largest}",
        "num_embeddings",
    )
    assert value == 10 or str(value) not in text
    frame = pd.DataFrame(X, columns=["word", "place", "price"])
    refused(classifier(Text, **WAYS[way]), frame, y, repr(frame.columns[column]))


def test_parts_of_tokens_are_refused(tokens):
    X, y = tokens
    X = X.astype(float)
    classifier(Text).fit(parties_of(X, y))
    X[2, 2] = 0.125
    text = refused(classifier(Text), X, y, "Party 'first'", "'x2'", "whole numbers")
    assert ".125" not in text


class Indexing(Text):
    """Makes indices of two columns by itself, so that a third may be any number."""

    def forward(self, X):
        words = self.large(X[:, 0].long()) + self.small(X[:, 1].long())
        return torch.softmax(self.fc(torch.cat([words, X[:, 2:]], dim=1)), dim=1)


class Clamping(Indexing):
    def forward(self, X):
        return super().forward(torch.cat([X[:, :2].clamp(0, 9), X[:, 2:]], dim=1))


def test_columns_beside_indices_may_be_real_numbers(tokens):
    X, y = tokens
    X = X / [1, 1, 1000]
    moved = X + [0, 0, 0.25]
    for net, way in ((Clamping, "record"), (Clamping, "published"), (Indexing, "party")):
        fitted = classifier(net, **WAYS[way]).fit(parties_of(X, y))
        one, other = (fitted.predict_proba(Z) for Z in (X, moved))
        assert not np.array_equal(one, other)  # what is behind the point is seen
    X[3, 1] = 10
    classifier(Clamping).fit(parties_of(X, y))
    indexing = classifier(Indexing, **WAYS["party"])
    refused(indexing, X, y, "Party 'second'", "column 'x1'", "from 0 to 9")


class Chance(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 1), nn.Sigmoid())


@pytest.mark.parametrize("way", ["record", "party"])
def test_targets_that_a_loss_does_not_take_are_refused(rows, way):
    X, y = rows
    net = NeuralNetRegressor(Chance, criterion=nn.BCELoss)
    assert regressor(net, **WAYS[way]).fit(parties_of(X, y)).n_rounds_ == 2
    for wrong in (1.375, -0.375):
        targets = y.astype(float)
        targets[3] = wrong
        text = refused(regressor(net, **WAYS[way]), X, targets, "Party 'second'", "BCELoss", "y")
        assert "375" not in text


def test_public_rows_are_read_before_anything_is_charged(tokens):
    X, y = tokens
    estimator = classifier(Text, sampling_rate=1.0, noise_schedule=AdaptiveRounds(0.5))
    wrong = X.copy()
    wrong[0, 0] = 100
    refused(estimator, X, y, "X_val", "'x0'", X_val=wrong, y_val=y)
    refused(estimator, X, y, "one label or number each", X_val=X, y_val=y[:, None])


def test_a_party_of_too_many_rows_is_refused_and_not_counted(rows, monkeypatch):
    X, y = rows
    monkeypatch.setattr(LocalNet, "row_limit", lambda self, error: 29)
    text = refused(classifier(), X, y, "Party 'first'", "at most 29 rows", "Split it")
    assert "30" not in text and "60" not in text
    classifier().fit([(X[:29], y[:29])])
    monkeypatch.setattr(LocalNet, "row_limit", lambda self, error: 0)
    refused(classifier(), X, y, "so large")


@pytest.mark.parametrize("way", WAYS)
def test_steep_schedules_work_or_cost_nothing(rows, way):
    """Variances that grow fourfold a round, or fall so: the last share is 4^-19 of the first."""
    X, y = rows
    for ratio in (4.0, 0.25):
        settings = {"noise_schedule": ratio, "n_rounds": 20, "random_state": 0}
        if way == "published":
            refused(classifier(**WAYS[way] | settings), X, y, "noise_schedule")
            continue
        settings |= WAYS[way] | {"sampling_rate": 1.0}
        for secure_sum in ("masks", "plain"):
            fitted = classifier(secure_sum=secure_sum, **settings).fit(parties_of(X, y))
            assert fitted.n_rounds_ == 20 and fitted.privacy_.epsilon == 50.0


def test_schedules_too_steep_for_a_word_cost_nothing(rows):
    estimator = classifier(sampling_rate=1.0, noise_schedule=4.0, n_rounds=60, epsilon=1.0)
    refused(estimator, *rows)


def test_errors_inside_a_party_tell_their_type_only(rows, monkeypatch):
    def fail(self, *arguments, **keywords):
        raise ValueError(f"the row {arguments[1][0]} is strange")

    refused_late = classifier(unit="party")
    parties = parties_of(*rows)
    original = PartyNet.__init__

    def built(self, *arguments, **keywords):
        original(self, *arguments, **keywords)
        monkeypatch.setattr(LocalNet, "train", fail)

    monkeypatch.setattr(PartyNet, "__init__", built)
    with pytest.raises(FedPrivError) as caught:
        refused_late.fit(parties)
    text = str(caught.value)
    assert text == "Party 'first' failed in release 0 (LocalUpdate) with a ValueError."
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def print_of(module, criterion=nn.NLLLoss, **settings):
    net = build_net(
        NeuralNetClassifier(module, criterion=criterion, **settings),
        seed=0,
        n_features=3,
        n_classes=2,
    )
    return PartyNet(net, (3,), NetRows((0, 1), False, False, False), by_rows=False).fingerprint


def net_of(factor, twice=False):
    """A class made anew each time, as a cell of a notebook makes it."""

    class Mine(nn.Module):
        scale = factor

        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 2)

        @property
        def width(self):
            return 3

        @cached_property
        def depth(self):
            return 1

        if twice:

            def forward(self, X):
                return torch.softmax(self.fc(2 * X), dim=1)
        else:

            def forward(self, X):
                return torch.softmax(self.fc(X), dim=1)

    return Mine


class Loss(nn.NLLLoss):
    pass


def test_G19_a_fingerprint_covers_bodies_of_classes_losses_and_optimizers():
    same = print_of(net_of(1))
    assert print_of(net_of(1)) == same
    assert print_of(net_of(1, twice=True)) != same
    assert print_of(net_of(2)) != same
    assert print_of(net_of(1), criterion=Loss) != same
    assert print_of(net_of(1), optimizer=torch.optim.Adam) != same
    assert print_of(net_of(1), lr=0.5) != same


def test_G19_a_class_redefined_in_a_script_has_another_fingerprint_and_works(tmp_path):
    script = tmp_path / "script.py"
    cell = (
        "class Mine(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(3, 2)\n"
        "    def forward(self, X):\n"
        "        return torch.softmax(self.fc({}), dim=1)\n"
        "print(print_of(Mine).hex())\n"
    )
    script.write_text(
        "import numpy as np\nimport torch\nfrom torch import nn\n"
        "from sklearn_fedpriv import FederatedDPNeuralNetClassifier\n"
        "from tests.neural_network.test_before_charging import net_of, print_of\n"
        + "".join(cell.format(text) for text in ("X", "X - X.mean(0)", "X"))
        + "print(print_of(net_of(1)).hex())\n"
        "X = np.random.default_rng(0).normal(size=(40, 3))\n"
        "y = (X[:, 0] > 0).astype(int)\n"
        "model = FederatedDPNeuralNetClassifier(Mine, n_rounds=2, n_rows_hint=40,\n"
        "    sampling_rate=0.5, epsilon=50.0, classes=[0, 1], n_jobs=2)\n"
        "print(model.fit([(X[:20], y[:20]), (X[20:], y[20:])]).n_rounds_)\n"
    )
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    prints = [line for line in result.stdout.split() if len(line) == 64]
    assert len(prints) == 4, result.stderr
    assert prints[0] == prints[2] != prints[1]
    assert prints[3] == print_of(net_of(1)).hex()  # in each process alike
    assert result.stdout.split()[-1] == "2"  # parties compute in threads, which know the class

"""Neural networks; torch is loaded when one is fitted or a ready module is asked for."""

from typing import Any

from sklearn_fedpriv.neural_network._classifier import FederatedDPNeuralNetClassifier
from sklearn_fedpriv.neural_network._regressor import FederatedDPNeuralNetRegressor

_MODULES = ("AmplitudeMLP", "CifarCNN", "FemnistCNN", "MnistCNN", "SmallNet")

__all__ = [
    "AmplitudeMLP",
    "CifarCNN",
    "FederatedDPNeuralNetClassifier",
    "FederatedDPNeuralNetRegressor",
    "FemnistCNN",
    "MnistCNN",
    "SmallNet",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        from sklearn_fedpriv._torch import modules

        return getattr(modules, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

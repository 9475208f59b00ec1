"""scikit-learn-compatible federated estimators with differential privacy."""

from sklearn_fedpriv.cluster import ClusteredDPClassifier, ClusteredDPRegressor
from sklearn_fedpriv.federation import Federation, Party
from sklearn_fedpriv.model_selection import DPHypeRandomizedSearchCV, DPHypeSearchCV
from sklearn_fedpriv.neural_network import (
    FederatedDPNeuralNetClassifier,
    FederatedDPNeuralNetRegressor,
)
from sklearn_fedpriv.privacy import PrivacyReport, compose, privacy_budget
from sklearn_fedpriv.secure import MaskedSum, PaillierSum, PlainSum
from sklearn_fedpriv.svm import FederatedDPSVC
from sklearn_fedpriv.tree import FederatedDPDecisionTree

__version__ = "0.1.0"

__all__ = [
    "ClusteredDPClassifier",
    "ClusteredDPRegressor",
    "DPHypeRandomizedSearchCV",
    "DPHypeSearchCV",
    "FederatedDPDecisionTree",
    "FederatedDPNeuralNetClassifier",
    "FederatedDPNeuralNetRegressor",
    "FederatedDPSVC",
    "Federation",
    "MaskedSum",
    "PaillierSum",
    "Party",
    "PlainSum",
    "PrivacyReport",
    "compose",
    "privacy_budget",
]

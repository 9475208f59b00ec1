"""Personalised models: one hypothesis a group of parties; nobody says who is in which."""

from sklearn_fedpriv.cluster._classifier import ClusteredDPClassifier
from sklearn_fedpriv.cluster._clipping import FallingClip
from sklearn_fedpriv.cluster._regressor import ClusteredDPRegressor

__all__ = ["ClusteredDPClassifier", "ClusteredDPRegressor", "FallingClip"]

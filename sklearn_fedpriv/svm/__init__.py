"""Support vector machines."""

from sklearn_fedpriv.svm._svc import FederatedDPSVC

__all__ = ["FederatedDPSVC"]

"""Third floor: scores of a finished model on the parties' rows, as releases."""

from sklearn_fedpriv.metrics._federated_score import FederatedScore, federated_score

__all__ = ["FederatedScore", "federated_score"]

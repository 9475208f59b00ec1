"""Private decision trees."""

from sklearn_fedpriv.tree._decision_tree import FederatedDPDecisionTree

__all__ = ["FederatedDPDecisionTree"]

"""Pictures of fits; matplotlib is loaded when one is drawn."""

from sklearn_fedpriv.plotting._cluster_path import ClusterPathDisplay

__all__ = ["ClusterPathDisplay"]

"""First floor: who is asked what. The only place where privacy and secure sums meet."""

from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.federation._party import Party

__all__ = ["Federation", "Party"]

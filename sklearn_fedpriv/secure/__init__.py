"""Ground floor: integers of many parties in, their sum out; never a float."""

from sklearn_fedpriv.secure._masks import MaskedSum
from sklearn_fedpriv.secure._paillier import PaillierSum
from sklearn_fedpriv.secure._plain import PlainSum

__all__ = ["MaskedSum", "PaillierSum", "PlainSum"]

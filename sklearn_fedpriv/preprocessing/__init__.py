"""Steps that prepare rows without looking at them."""

from sklearn_fedpriv.preprocessing._public_encoder import PublicEncoder

__all__ = ["PublicEncoder"]

"""Primes for keys that would take seconds to find."""

import pytest

from sklearn_fedpriv.secure import _paillier_keys as keys
from tests.secure.paillier import PRIMES


@pytest.fixture(scope="module")
def cached_primes():
    """Deal keys from the primes of the vectors, in turn."""
    served = 0

    def serve(bits, entropy):
        nonlocal served
        served += 1
        return PRIMES[bits][served % len(PRIMES[bits])]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "safe_prime", serve)
        yield

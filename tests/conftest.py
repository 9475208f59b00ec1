"""Settings of all tests."""

import json
import os
from itertools import count
from pathlib import Path

import pytest

# Must be set before scipy is imported; without it scikit-learn skips its array-API checks.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

PRIMES = {
    int(bits): primes
    for bits, primes in json.loads(
        (Path(__file__).parent / "vectors" / "safe_primes.json").read_text()
    ).items()
}


def pytest_collection_modifyitems(items):
    """Without the data files, a developer may run the other tests; CI runs all."""
    if "SKLEARN_FEDPRIV_DATA" in os.environ or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="SKLEARN_FEDPRIV_DATA is not set"))


@pytest.fixture
def small_primes(monkeypatch):
    """Deal Paillier keys from stored primes, which would take seconds to find."""
    served = count()
    monkeypatch.setattr(
        "sklearn_fedpriv.secure._paillier_keys.safe_prime",
        lambda bits, entropy: PRIMES[bits][next(served) % len(PRIMES[bits])],
    )

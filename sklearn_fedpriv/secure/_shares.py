"""Shamir shares of seeds: any ``threshold`` of them give the seed, fewer say nothing.

A seed of 32 bytes is cut into 9 limbs of 29 bits. Every limb is the value at zero of its own
polynomial of degree ``threshold - 1`` over the field of 2^31 - 1 elements, whose other coefficients
are uniform; the holder at *point* x = 1, 2, ... gets the values at x. All limbs of all secrets of a
party are columns of one matrix, so that shares of a hundred secrets cost one walk of Horner's rule.
Products of two field elements stay below 2^62 and fit unsigned 64-bit integers.

Functions are pure: the same entropy gives the same shares. Whoever calls ``share`` holds secrets;
a share by itself is a uniform number.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure._keystream import SEED_BYTES
from sklearn_fedpriv.secure._protocol import Entropy, draw

FIELD_BITS = 31
PRIME = 2**FIELD_BITS - 1
LIMB_BITS = 29
N_LIMBS = 9


def share(secrets: Sequence[bytes], threshold: int, n_holders: int, entropy: Entropy) -> np.ndarray:
    """Shares of secrets, for the holders at the points 1, 2, ..., ``n_holders``.

    Parameters
    ----------
    secrets : sequence of bytes
        32 bytes each.
    threshold : int
        How many holders it takes, in [1, n_holders].
    n_holders : int
    entropy : callable

    Returns
    -------
    shares : ndarray of uint32, shape (n_holders, len(secrets), 9)
    """
    if not 1 <= threshold <= n_holders < PRIME:
        raise ValueError(
            f"A threshold must lie in [1, {n_holders}], the number of holders; got {threshold}."
        )
    constants = _to_limbs(secrets)
    coefficients = _uniform(threshold - 1, constants.size, entropy)
    points = np.arange(1, n_holders + 1, dtype=np.uint64)[:, None]
    values = np.zeros((n_holders, constants.size), dtype=np.uint64)
    below = 1  # every value is below this
    for row in (*coefficients, constants.ravel()):
        if below * n_holders + PRIME >= 2**64:  # reduced no more often than words overflow
            values = _halfway(values)
            below = 2**FIELD_BITS + (below >> FIELD_BITS) + 1
        values *= points
        values += row
        below = below * n_holders + PRIME
    return (values % np.uint64(PRIME)).astype("<u4").reshape(n_holders, len(secrets), N_LIMBS)


def combine(points: Sequence[int], shares: np.ndarray) -> list[bytes]:
    """The secrets, from the shares of exactly as many holders as the threshold says.

    Parameters
    ----------
    points : sequence of int
        Distinct, from 1: which holder each share is of.
    shares : ndarray of unsigned integers, shape (len(points), n_secrets, 9)

    Returns
    -------
    list of bytes

    Raises
    ------
    ProtocolError
        The shares are not those of 32-byte secrets. Not every wrong share is noticed.
    """
    weights = np.array(_lagrange(tuple(points)), dtype=np.uint64)
    terms = shares.astype(np.uint64)
    terms *= weights[:, None, None]  # below 2^62, as both are below 2^31 ...
    limbs = _halfway(terms).sum(axis=0) % np.uint64(PRIME)  # ... and each below 2^32 here
    return [_from_limbs(row) for row in limbs.tolist()]


def _halfway(values: np.ndarray) -> np.ndarray:
    """Congruent values, shorter by almost 31 bits: 2^31 is 1 modulo the prime."""
    return (values & np.uint64(PRIME)) + (values >> np.uint64(FIELD_BITS))


def _uniform(n_rows: int, n_columns: int, entropy: Entropy) -> np.ndarray:
    """Uniform field elements; the one number of 31 bits that is none is drawn again."""
    drawn = _bits(n_rows * n_columns, entropy)
    while (rejected := np.flatnonzero(drawn == PRIME)).size:
        drawn[rejected] = _bits(rejected.size, entropy)
    return drawn.reshape(n_rows, n_columns).astype(np.uint64)


def _bits(n: int, entropy: Entropy) -> np.ndarray:
    return np.frombuffer(draw(entropy, 4 * n), dtype="<u4") & np.uint32(PRIME)


@lru_cache(maxsize=1024)  # most parties of a release are opened by the same points
def _lagrange(points: tuple[int, ...]) -> tuple[int, ...]:
    """Weights whose sum of products with the values at the points is the value at zero."""
    if len(set(points)) < len(points) or not all(0 < point < PRIME for point in points):
        raise ValueError("The points of shares must be distinct and positive.")
    weights = []
    for point in points:
        above, below = 1, 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return tuple(weights)


def _to_limbs(secrets: Sequence[bytes]) -> np.ndarray:
    """Limbs, lowest first, shape (len(secrets), 9)."""
    limbs = []
    for secret in secrets:
        if len(secret) != SEED_BYTES:
            raise ValueError(f"A shared secret has {SEED_BYTES} bytes; got {len(secret)}.")
        number = int.from_bytes(secret, "little")
        limbs.append([number >> LIMB_BITS * i & (2**LIMB_BITS - 1) for i in range(N_LIMBS)])
    return np.array(limbs, dtype=np.uint64).reshape(-1, N_LIMBS)


def _from_limbs(limbs: list[int]) -> bytes:
    number = sum(limb << LIMB_BITS * i for i, limb in enumerate(limbs))
    if max(limbs) >> LIMB_BITS or number >> 8 * SEED_BYTES:
        raise ProtocolError("The shares do not combine to a seed: one of them is wrong.")
    return number.to_bytes(SEED_BYTES, "little")

"""Masks: the AES-256 keystream of a seed, added to words modulo 2^32 or 2^64.

A seed is 32 secret bytes that serve as the key of one cipher once. Its keystream is AES in counter
mode, block numbers from 2 on, read as little-endian words of the width of the sum. Many keystreams
are added in one walk over the words, a chunk at a time, so that no keystream is ever in memory as a
whole and what is touched stays in cache.

The counter mode used is that inside of GCM, whose nonce is zero here and whose tag nobody asks for:
where processors have wide AES instructions, OpenSSL uses them for GCM only, and twice the speed is
worth a counter that starts at 2.
"""

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import GCM

SEED_BYTES = 32

_CHUNK_BYTES = 1 << 18  # words, zeros and keystream of a chunk together fit a core's own cache
_BLOCK_BYTES = 16
_NO_NONCE = bytes(12)


def add_keystreams(words: np.ndarray, streams: Iterable[tuple[bytes, int]]) -> None:
    """Add or subtract keystreams, in place, modulo the width of the words.

    Parameters
    ----------
    words : ndarray of uint32 or uint64, shape (length,), little-endian
        Changed in place.
    streams : iterable of (bytes, int)
        A seed of 32 bytes, and 1 to add its keystream or -1 to subtract it.
    """
    ciphers = [(Cipher(AES256(seed), GCM(_NO_NONCE)).encryptor(), sign) for seed, sign in streams]
    zeros = memoryview(bytes(_CHUNK_BYTES))
    buffer = bytearray(_CHUNK_BYTES + _BLOCK_BYTES)  # update_into asks for up to a block more
    keystream = np.frombuffer(buffer, dtype=words.dtype, count=_CHUNK_BYTES // words.itemsize)
    for start in range(0, len(words), len(keystream)):
        chunk = words[start : start + len(keystream)]
        # Only the last chunk is shorter, so every keystream is read without gaps.
        taken, blank = keystream[: len(chunk)], zeros[: chunk.nbytes]
        for cipher, sign in ciphers:
            cipher.update_into(blank, buffer)
            if sign > 0:
                chunk += taken
            else:
                chunk -= taken

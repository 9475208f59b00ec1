"""Where random bits come from.

Objects. A *key* is 32 secret bytes. A *stream* is the endless sequence of bits that AES-256 makes
from one key; whoever holds the key can make the same bits again.

Who makes them. Without a seed, each party draws one key per release from its operating system
(:func:`fresh_key`), inside its own process. With a seed (``random_state``), keys follow from the
seed (:func:`seed_key`), and nothing made from them is private. Either way a key is never used
bare: :func:`derive_key` turns it into one key per purpose, named by labels ("noise", "sample",
"ties", ...), so that no bit serves twice.

Who may see them. Nobody but the party. A stream cannot be copied or pickled: a second copy would
repeat the bits of the first, and noise that is used twice can be subtracted.
"""

import os
from collections.abc import Callable
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

KEY_BYTES = 32

_ZEROS = memoryview(bytes(1 << 16))  # encrypting zeros gives the bare keystream
_AES_BLOCK = 16


class Stream:
    """Random bits from one key: the AES-256 keystream in counter mode, counter from 0.

    The same key gives the same bits on every machine. Successive calls continue the keystream;
    a stream has no other state.

    Parameters
    ----------
    key : bytes of length 32
        Uniform and secret, from :func:`fresh_key` or :func:`derive_key`. Used for one stream only.

    Raises
    ------
    ValueError
        If the key has another length.

    References
    ----------
    NIST SP 800-38A, section 6.5 (counter mode).
    """

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        _check_key(key)
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(_AES_BLOCK))).encryptor()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A Stream never travels: a copy would repeat its bits, and noise used twice can be "
            "subtracted. Send the public labels and make the stream where it is used."
        )

    def _fill(self, n: int) -> memoryview:
        """The next n bytes of the keystream."""
        if n < 0:
            raise ValueError(f"The number of bytes must be 0 or more. Got {n}.")
        # update_into asks for a block less one byte of room beyond the text.
        buffer = memoryview(bytearray(n + _AES_BLOCK - 1))
        for start in range(0, n, len(_ZEROS)):
            stop = min(n, start + len(_ZEROS))
            self._encryptor.update_into(
                _ZEROS[: stop - start], buffer[start : stop + _AES_BLOCK - 1]
            )
        return buffer[:n]

    def bytes(self, n: int) -> bytes:
        """Return the next `n` bytes."""
        return self._fill(n).tobytes()

    def uint64(self, n: int) -> NDArray[np.uint64]:
        """Return `n` independent uniform 64-bit integers, shape (n,); little-endian words."""
        return np.frombuffer(self._fill(8 * n), dtype="<u8").astype(np.uint64, copy=False)

    def below(self, limit: int, n: int) -> NDArray[Any]:
        """Return `n` independent integers, each exactly uniform on {0, ..., limit - 1}.

        Drawn by keeping the low bits of random words and throwing away what is too large, so that
        no value is favoured.

        Parameters
        ----------
        limit : int >= 1
            Of any size.
        n : int >= 0

        Returns
        -------
        ndarray of shape (n,)
            int64 if ``limit <= 2 ** 62``, else Python ints in an object array.
        """
        if limit < 1:
            raise ValueError(f"limit must be 1 or more. Got {limit}.")
        width = (limit - 1).bit_length()
        out: NDArray[Any]
        draw: Callable[[int], NDArray[Any]]
        if limit <= 2**62:
            out, mask = np.empty(n, dtype=np.int64), np.uint64((1 << width) - 1)

            def draw(missing: int) -> NDArray[Any]:
                # About as many words as will be needed; at most half of them are thrown away.
                words = self.uint64(missing * (1 << width) // limit + missing // 64 + 8) & mask
                return words[words < np.uint64(limit)].view(np.int64)

        else:
            out, size = np.empty(n, dtype=object), -(-width // 8)

            def draw(missing: int) -> NDArray[Any]:
                raw = self._fill(size * missing)
                words = (
                    int.from_bytes(raw[i : i + size], "little") & ((1 << width) - 1)
                    for i in range(0, len(raw), size)
                )
                return np.array([w for w in words if w < limit], dtype=object)

        filled = 0
        while filled < n:
            kept = draw(n - filled)[: n - filled]
            out[filled : filled + len(kept)] = kept
            filled += len(kept)
        return out


def fresh_key() -> bytes:
    """Return 32 new secret bytes from the operating system."""
    return os.urandom(KEY_BYTES)


def derive_key(key: bytes, *labels: str | int | bytes) -> bytes:
    """Return the key for one purpose, made from `key` and the names of the purpose.

    HKDF-SHA256 without salt. The labels are encoded one by one as type, length and content, so
    that two different lists never give the same text: ("ab", "c"), ("a", "bc") and ("abc",)
    differ, and so do (1,), ("1",) and (b"1",).

    Parameters
    ----------
    key : bytes of length 32
        Uniform and secret.
    *labels : str, int or bytes
        Of any length or size, public. A bool is refused, because it would read as 0 or 1.

    Returns
    -------
    bytes of length 32

    Raises
    ------
    ValueError
        If the key has another length.
    TypeError
        If a label is of another type.

    References
    ----------
    RFC 5869.
    """
    _check_key(key)
    info = b"sklearn-fedpriv/1" + b"".join(_encode_label(label) for label in labels)
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(key)


def seed_key(random_state: object) -> bytes | None:
    """Return the key that a `random_state` stands for.

    Parameters
    ----------
    random_state : None, int >= 0, RandomState or Generator
        An int of any size; different ints give different keys. A RandomState or Generator gives
        128 of its bits, once per call, and moves on.

    Returns
    -------
    bytes of length 32, or None
        None for None: the caller then uses :func:`fresh_key`.

    Raises
    ------
    TypeError
        If `random_state` is anything else, bool included.
    ValueError
        If it is a negative int.
    """
    if random_state is None:
        return None
    label: int | bytes
    # The one place that may name RandomState: a user may pass one as a seed.
    if isinstance(random_state, np.random.RandomState | np.random.Generator):  # noqa: TID251
        label = random_state.bytes(16)
    elif isinstance(random_state, Integral) and not isinstance(random_state, bool):
        label = int(random_state)
        if label < 0:
            raise ValueError(
                "The 'random_state' parameter must be 0 or more when it is an int. "
                f"Got {label} instead."
            )
    else:
        raise TypeError(
            "The 'random_state' parameter must be None, an int, an instance of "
            "'numpy.random.RandomState' or an instance of 'numpy.random.Generator'. "
            f"Got {random_state!r} instead."
        )
    return derive_key(bytes(KEY_BYTES), "random_state", label)


def _check_key(key: object) -> None:
    if not isinstance(key, bytes):
        raise TypeError(f"A key must be 32 bytes. Got an object of type {type(key).__name__}.")
    if len(key) != KEY_BYTES:
        raise ValueError(
            f"A key must be 32 bytes long. Got {len(key)} bytes. Use fresh_key() or derive_key()."
        )


def _encode_label(label: str | int | bytes) -> bytes:
    """Type, length of the content in 8 bytes, content."""
    if isinstance(label, str):
        kind, content = b"s", label.encode()
    elif isinstance(label, bytes):
        kind, content = b"b", label
    elif isinstance(label, int) and not isinstance(label, bool):
        # Two's complement in the fewest bytes that leave room for the sign: one form per integer.
        kind, content = b"i", label.to_bytes(label.bit_length() // 8 + 1, "big", signed=True)
    else:
        raise TypeError(
            f"A label must be a str, an int or bytes. Got {label!r} of type {type(label).__name__}."
        )
    return kind + len(content).to_bytes(8, "big") + content

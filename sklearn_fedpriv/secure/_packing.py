"""Many signed words in one plaintext of a Paillier key.

A plaintext is a non-negative integer of fewer bits than the key. It is cut into *slots* of a whole
number of bytes, lowest first. A slot carries one word plus a public bias, so that what is inside is
never negative and the sum over parties adds slot by slot without borrowing. Slots are wide enough
for the sum of all parties, so nothing is carried into the neighbour either; the sum of the biases
is subtracted after opening.

Party and server each derive the ``Packing`` of a release from its public task. Nothing in this
module is secret but the words, and no check, clamp or branch looks at one (G12): a word outside
its range wraps modulo the slot, silently, and then spoils the sum of its neighbour too. The task
says that this has a chance under 2^-64.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz

from sklearn_fedpriv.exceptions import ProtocolError, RangeOverflow
from sklearn_fedpriv.secure._protocol import WORD_BITS, SumTask, check_word_size

_WORD_BYTES = WORD_BITS // 8


@dataclass(frozen=True)
class Packing:
    """How the words of one release lie in plaintexts; made by ``plan_packing``.

    Parameters
    ----------
    length : int
        Number of words, at least 1.
    bias : int
        What every party adds to each of its words.
    slot_bytes : int
        Width of a slot.
    n_slots : int
        Slots in a plaintext; those of the last one beyond ``length`` are zero.
    """

    length: int
    bias: int
    slot_bytes: int
    n_slots: int

    @property
    def n_plaintexts(self) -> int:
        """Number of plaintexts that carry all words."""
        return -(-self.length // self.n_slots)

    def pack(self, words: np.ndarray) -> list[mpz]:
        """Plaintexts of a party's words.

        Parameters
        ----------
        words : ndarray of int64, shape (length,)

        Returns
        -------
        list of mpz, ``n_plaintexts`` of them
        """
        if words.dtype != np.int64 or words.shape != (self.length,):
            raise ValueError(
                f"Words must be int64 of shape ({self.length},); got {words.dtype} of shape "
                f"{words.shape}."
            )
        # Adding modulo 2^64 and keeping the low bytes is the silent wrap of G12.
        biased = words.astype(np.uint64) + np.uint64(self.bias)
        kept = min(self.slot_bytes, _WORD_BYTES)
        slots = np.zeros((self.n_plaintexts * self.n_slots, self.slot_bytes), dtype=np.uint8)
        slots[: self.length, :kept] = _as_bytes(biased)[:, :kept]
        data, step = slots.tobytes(), self.n_slots * self.slot_bytes
        return [mpz.from_bytes(data[at : at + step], "little") for at in range(0, len(data), step)]

    def unpack(self, plaintexts: Sequence[mpz], n_added: int) -> np.ndarray:
        """Sums of words from the sums of plaintexts.

        Parameters
        ----------
        plaintexts : sequence of mpz, ``n_plaintexts`` of them
        n_added : int
            Number of parties in the sum.

        Returns
        -------
        ndarray of int64, shape (length,)
        """
        step = self.n_slots * self.slot_bytes
        try:
            data = b"".join(plaintext.to_bytes(step, "little") for plaintext in plaintexts)
        except OverflowError:
            raise ProtocolError(
                f"An opened plaintext does not fit {self.n_slots} slots of {self.slot_bytes} "
                "bytes: what was added up was packed in another way."
            ) from None
        slots = np.frombuffer(data, dtype=np.uint8).reshape(-1, self.slot_bytes)[: self.length]
        kept = min(self.slot_bytes, _WORD_BYTES)
        wide = np.zeros((self.length, _WORD_BYTES), dtype=np.uint8)
        wide[:, :kept] = slots[:, :kept]
        # Wider slots than words lose nothing: the sum fits a word, so its low bytes decide it.
        biased = wide.view("<u8").ravel().astype(np.uint64)
        return (biased - np.uint64(n_added * self.bias % 2**WORD_BITS)).view(np.int64)


def plan_packing(task: SumTask, key_size: int) -> Packing:
    """The packing of a release, from public facts only.

    Parameters
    ----------
    task : SumTask
    key_size : int
        Bits of the key's modulus.

    Raises
    ------
    RangeOverflow
        A word, the sum or a slot would not fit; raised before anything is protected.
    """
    release = f"Release {task.binding.release}"
    if task.length < 1:
        raise ValueError(f"{release}: a Paillier sum needs at least 1 word; got {task.length}.")
    check_word_size(task)
    if task.party_limit.bit_length() >= WORD_BITS:
        raise RangeOverflow(
            f"{release}: a party's words may need {task.party_limit.bit_length() + 1} bits and "
            f"there are {WORD_BITS}. Use fewer rows a party or a smaller bound."
        )
    # Whatever subset of the invited parties answers, within both limits of the task.
    all_biases = len(task.parties) * task.party_limit
    largest = all_biases + max(all_biases, task.limit)
    slot_bytes = max(1, -(-largest.bit_length() // 8))
    n_slots = (key_size - 1) // (8 * slot_bytes)
    if n_slots < 1:
        raise RangeOverflow(
            f"{release}: a slot for the sum of {len(task.parties)} parties needs "
            f"{8 * slot_bytes} bits and a plaintext has {key_size - 1}. Use a larger key_size."
        )
    return Packing(task.length, task.party_limit, slot_bytes, n_slots)


def _as_bytes(words: np.ndarray) -> np.ndarray:
    """Little-endian bytes of 64-bit words, shape (length, 8)."""
    return words.astype("<u8", copy=False).view(np.uint8).reshape(-1, _WORD_BYTES)

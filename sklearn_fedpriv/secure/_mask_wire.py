"""Messages of the masked sum: what opens it, and the layout of payloads.

* ``UnmaskRequest`` goes from the server to one opener. It holds names, digests and the encrypted
  shares addressed to that opener; no words.
* ``MaskPlan`` is what every role derives from the public task: width of the words, neighbours,
  where each part of a payload lies. Parts have fixed lengths, so one value has one encoding.

A ``Protected`` payload is the masked words, then one *bundle* for each neighbour in the order of
names: the neighbour's shares of the sender's own seed and of the seeds of the sender's masks, as
one row of 9 numbers a secret, encrypted. A row's index is 0, or the point of the peer whose mask it
is. An ``Opening`` payload is the digest of the survivor list, then the rows that were asked for.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sklearn_fedpriv._wire import digest, record
from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure._mask_keys import Graph, MaskKeys, graph_of
from sklearn_fedpriv.secure._protocol import Binding, Opening, Protected, SumTask, check_word_size
from sklearn_fedpriv.secure._shares import N_LIMBS

TAG_BYTES = 16
DIGEST_BYTES = 32
ROW_BYTES = 4 * N_LIMBS


@record
@dataclass(frozen=True)
class UnmaskRequest:
    """The server's request to one party to help to open the sum of the survivors.

    Parameters
    ----------
    binding : Binding
    answers : bytes
        Digest of the request whose answers are to be summed.
    survivors, dropped : tuple of str
        Sorted: the parties whose words are in the sum, and the others.
    digests : bytes
        ``contribution_digest`` of each survivor's ``Protected``, in their order.
    bundles : tuple of bytes
        The shares for this party, of its surviving neighbours in the order of names.
    """

    binding: Binding
    answers: bytes
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]
    digests: bytes
    bundles: tuple[bytes, ...]

    @property
    def list_digest(self) -> bytes:
        """What all openers must have in common: everything but the bundles."""
        return digest_of_list(
            self.binding, self.answers, self.survivors, self.dropped, self.digests
        )


def digest_of_list(
    binding: Binding,
    answers: bytes,
    survivors: tuple[str, ...],
    dropped: tuple[str, ...],
    digests: bytes,
) -> bytes:
    """What names one list of survivors, with their contributions."""
    return digest((binding, answers, survivors, dropped, digests))


def contribution_digest(message: Protected) -> bytes:
    """What an ``UnmaskRequest`` says of a contribution; hashes its payload without a copy."""
    payload = hashlib.sha256(message.payload).digest()
    return digest((message.binding, message.answers, message.sender, payload))


@dataclass(frozen=True)
class MaskPlan:
    """The public layout of one release; made by ``plan_masks``.

    Parameters
    ----------
    graph : Graph
    length : int
        Number of words.
    word_bits : int
        32 or 64.
    """

    graph: Graph
    length: int
    word_bits: int

    @property
    def dtype(self) -> np.dtype:
        """Of masked words."""
        return np.dtype(f"<u{self.word_bits // 8}")

    @property
    def words_bytes(self) -> int:
        """Of a party's masked words."""
        return self.length * self.word_bits // 8

    @property
    def bundle_bytes(self) -> int:
        """Of one neighbour's encrypted shares; 0 if nobody has to help to open."""
        return (self.graph.degree + 1) * ROW_BYTES + TAG_BYTES if self.graph.threshold else 0

    @property
    def payload_bytes(self) -> int:
        """Of a ``Protected``."""
        return self.words_bytes + self.graph.degree * self.bundle_bytes

    def bundle_at(self, sender: str, receiver: str) -> slice:
        """Where in the sender's payload the receiver's shares lie."""
        start = self.words_bytes + (self.graph.points[sender][receiver] - 1) * self.bundle_bytes
        return slice(start, start + self.bundle_bytes)

    def words(self, message: Protected) -> np.ndarray:
        """Masked words of a message; refuses one of another length."""
        if len(message.payload) != self.payload_bytes:
            raise ProtocolError(
                f"Release {message.binding.release}: party {message.sender!r} sent "
                f"{len(message.payload)} bytes; {self.payload_bytes} were expected."
            )
        return np.frombuffer(message.payload, self.dtype, self.length)

    def rows_to_open(self, sender: str, dropped: Collection[str]) -> list[int]:
        """Of a survivor: its own seed, and its masks with those that dropped out; nothing else."""
        points = self.graph.points[sender]
        return [0, *(points[name] for name in dropped if name in points)]

    def opened_rows(
        self, opening: Opening, asked: list[tuple[str, int]], list_digest: bytes
    ) -> dict[str, np.ndarray]:
        """Shares in an opening, by the survivor they are of, shape (rows, 9).

        Parameters
        ----------
        opening : Opening
        asked : list of (str, int)
            The opener's surviving neighbours, and how many rows of each.
        list_digest : bytes
            Of the survivor list that is being opened.
        """
        what = f"Release {opening.binding.release}: Opening of party {opening.sender!r}"
        expected = DIGEST_BYTES + ROW_BYTES * sum(n for _, n in asked)
        if len(opening.payload) != expected:
            raise ProtocolError(
                f"{what} has {len(opening.payload)} bytes; {expected} were expected."
            )
        if opening.payload[:DIGEST_BYTES] != list_digest:
            raise ProtocolError(f"{what} was made for another list of survivors.")
        rows = np.frombuffer(opening.payload, "<u4", offset=DIGEST_BYTES).reshape(-1, N_LIMBS)
        found, at = {}, 0
        for sender, n in asked:
            found[sender] = rows[at : at + n]
            at += n
        return found


@lru_cache(maxsize=4)  # the parties of one process have the same
def plan_masks(keys: MaskKeys, task: SumTask) -> MaskPlan:
    """The layout of a release, from public facts only.

    Parameters
    ----------
    keys : MaskKeys
    task : SumTask

    Raises
    ------
    RangeOverflow, ValueError
        The sum would not fit its words, or no graph serves; raised before anything is protected.
    """
    release = f"Release {task.binding.release}"
    if task.length < 1:
        raise ValueError(f"{release}: a masked sum needs at least 1 word; got {task.length}.")
    check_word_size(task)
    strangers = [name for name in task.parties if name not in keys.of]
    if strangers:
        raise ProtocolError(f"{release}: party {strangers[0]!r} has no public key for masks.")
    graph = graph_of(task.parties, keys.n_colluders, task.max_dropouts)
    return MaskPlan(graph, task.length, 32 if task.limit.bit_length() < 32 else 64)

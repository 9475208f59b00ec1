"""The contract of a secure sum: integers of many parties in, their sum out.

Objects, who makes them, who may see them:

* ``SumTask``: the public facts of one sum. Every role derives it for itself from the terms and the
  request, so nobody can be talked into another one.
* ``PartySide`` lives with a party's secrets. ``protect`` turns its words into ``Protected``,
  ``open`` answers an ``OpenRequest`` with an ``Opening``, after checking what it is about to open.
* ``ServerSide`` holds public facts only. It gathers, asks to open, and finishes with the sum.
* ``SecureSum`` is the frozen choice of a protocol and its settings. It holds no secret, so an
  estimator can carry it and ``clone`` is safe.

This floor knows integers modulo something and bytes, and never a float, a row or a noise scale.
Randomness is an argument (``entropy``: a function from a number of bytes to that many). Every step
is a pure function of its arguments; ``ReleaseLog`` is the memory that makes a party answer once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import ProtocolError, RangeOverflow, TooFewParties

Entropy = Callable[[int], bytes]


@record
@dataclass(frozen=True)
class Binding:
    """Which release of which fit of which federation a message belongs to (G19)."""

    federation: bytes
    terms: bytes
    release: int


@record
@dataclass(frozen=True)
class SumTask:
    """Public facts of one secure sum.

    ``parties`` are the invited ones, sorted. Every party's word lies in ``+-party_limit`` and every
    sum of the words of at least ``len(parties) - max_dropouts`` parties in ``+-limit``, but for a
    chance under 2^-64 a fit (G12).
    """

    binding: Binding
    request: bytes
    parties: tuple[str, ...]
    max_dropouts: int
    length: int
    party_limit: int
    limit: int

    def __post_init__(self) -> None:
        if list(self.parties) != sorted(set(self.parties)):
            raise ValueError("The parties of a sum must be distinct and sorted.")

    @property
    def fewest(self) -> int:
        """How many parties must be in a sum that may be opened (G9)."""
        return len(self.parties) - self.max_dropouts


@record
@dataclass(frozen=True)
class Protected:
    """A party's words, protected; ``answers`` is the digest of the request."""

    binding: Binding
    answers: bytes
    sender: str
    payload: bytes


@record
@dataclass(frozen=True)
class OpenRequest:
    """The server's request to open the sum of exactly these contributions."""

    binding: Binding
    included: tuple[Protected, ...]


@record
@dataclass(frozen=True)
class Opening:
    """A party's help to open; ``answers`` is the digest of the ``OpenRequest``."""

    binding: Binding
    answers: bytes
    sender: str
    payload: bytes


class PartySide(ABC):
    """One party's part of a secure sum; holds its secrets and never travels."""

    def __init__(self, name: str) -> None:
        self.name = name

    def greet(self, entropy: Entropy) -> bytes:
        """A fresh public nonce for this fit, where the protocol uses one. Run by the party."""
        return b""

    def meet(self, nonces: Mapping[str, bytes]) -> None:  # noqa: B027
        """Take note of the nonces of all parties of the fit. Run by the party."""

    @abstractmethod
    def check(self, task: SumTask) -> None:
        """Refuse a task whose sum might not fit, from public facts, before anything is charged."""

    @abstractmethod
    def protect(self, task: SumTask, words: np.ndarray, entropy: Entropy) -> Protected:
        """Protect ``words``, int64 of shape (task.length,). Run by the party."""

    @abstractmethod
    def open(self, task: SumTask, own: Protected, request: Any) -> Opening:
        """Help to open ``request``, after checking it against ``own``. Run by the party.

        An ``OpenRequest``, or what the protocol makes in ``ServerSide.request_for``.
        """


class ServerSide(ABC):
    """The server's part of a secure sum; public facts only."""

    @abstractmethod
    def check(self, task: SumTask) -> None:
        """Refuse a task whose sum might not fit, from public facts, before anything is charged."""

    def gather(self, task: SumTask, answers: Iterable[Protected]) -> OpenRequest:
        """Check that the answers belong to the task and are enough; run by the server."""
        included = sorted(answers, key=lambda answer: answer.sender)
        check_included(task, included, "the server")
        return OpenRequest(task.binding, tuple(included))

    @abstractmethod
    def openers(self, task: SumTask, request: OpenRequest) -> tuple[str, ...]:
        """Names of the parties whose ``Opening`` is needed, perhaps none."""

    def request_for(self, task: SumTask, request: OpenRequest, opener: str) -> Any:
        """The message that asks ``opener`` to help; a protocol may send less than everything."""
        return request

    @abstractmethod
    def finish(
        self, task: SumTask, request: OpenRequest, openings: Iterable[Opening]
    ) -> np.ndarray:
        """The sum, int64 of shape (task.length,). Run by the server."""


class SecureSum(ABC):
    """The choice of a protocol; frozen settings, no secrets."""

    label: ClassVar[str]
    hides_parties: ClassVar[bool]
    # Whether a sum of some of the parties, at least two, can be opened without the others.
    takes_subsets: ClassVar[bool] = False

    @property
    def insecure(self) -> bool:
        """Whether the settings are for tests only, so that nothing is hidden."""
        return False

    def check(self, n_parties: int, min_honest: int, max_dropouts: int) -> None:  # noqa: B027
        """Raise ``ValueError`` if the protocol cannot serve such a federation."""

    @abstractmethod
    def describe(self, n_parties: int, max_dropouts: int) -> str:
        """One phrase for the report: protocol, key size, who must help to open."""

    def trusted_roles(self) -> tuple[str, ...]:
        """Roles beside parties and server on whose honesty the secrecy rests, for the report."""
        return ()

    @abstractmethod
    def set_up(
        self, parties: tuple[str, ...], min_honest: int, max_dropouts: int, entropy: Entropy
    ) -> tuple[Any, dict[str, Any]]:
        """Public material (a record, or None) and one secret a party."""

    @abstractmethod
    def party(self, name: str, public: Any, secret: Any) -> PartySide:
        """The side of party ``name``."""

    @abstractmethod
    def server(self, public: Any) -> ServerSide:
        """The server's side."""


def draw(entropy: Entropy, n_bytes: int) -> bytes:
    """``n_bytes`` from ``entropy``; a short answer would weaken keys and is refused."""
    data = entropy(n_bytes)
    if len(data) != n_bytes:
        raise ValueError(f"entropy was asked for {n_bytes} bytes and gave {len(data)}.")
    return data


def check_included(task: SumTask, included: Iterable[Protected], who: str) -> None:
    """Refuse contributions that are foreign, repeated, misbound or too few."""
    seen = set()
    for answer in included:
        check_message(answer, task.binding, task.request, task.parties)
        if answer.sender in seen:
            raise ProtocolError(
                f"Release {task.binding.release}: party {answer.sender!r} answered twice."
            )
        seen.add(answer.sender)
    if len(seen) < task.fewest:
        missing = ", ".join(repr(name) for name in task.parties if name not in seen)
        raise TooFewParties(
            f"Release {task.binding.release}: {who} found {len(seen)} contributions and needs at "
            f"least {task.fewest} of {len(task.parties)}; missing: {missing}. Nothing was opened."
        )


def check_message(
    message: Protected | Opening, binding: Binding, answers: bytes, senders: Iterable[str]
) -> None:
    """Refuse a message that does not answer ``answers`` in ``binding``, or is of a stranger."""
    what = f"Release {binding.release}: {type(message).__name__} of party {message.sender!r}"
    if message.sender not in senders:
        raise ProtocolError(f"{what}: the party was not asked.")
    if message.binding.federation != binding.federation:
        raise ProtocolError(f"{what} belongs to another federation.")
    if message.binding.terms != binding.terms:
        raise ProtocolError(f"{what} was made under other terms.")
    if message.binding.release != binding.release:
        raise ProtocolError(f"{what} belongs to release {message.binding.release}.")
    if message.answers != answers:
        raise ProtocolError(f"{what} answers another request.")


def check_own(task: SumTask, own: Protected, request: OpenRequest) -> None:
    """A party's check before it opens (G16): enough distinct parties, its own words unchanged."""
    if request.binding != task.binding:
        raise ProtocolError(
            f"Release {task.binding.release}: the request to open is bound to another release."
        )
    check_included(task, request.included, f"party {own.sender!r}")
    if own not in request.included:
        raise ProtocolError(
            f"Release {task.binding.release}: party {own.sender!r} does not find its own "
            "contribution unchanged in the request to open, and refuses."
        )


class ReleaseLog:
    """A party's memory of what it has sent: each step of each release once (G16).

    An identical repeat of the latest request gets the bytes that were sent; another request under
    the same number, and any older number, is refused.
    """

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, bytes, bytes]] = {}

    def replay(self, step: str, binding: Binding, request: bytes) -> bytes | None:
        """The bytes sent for this very request, or None if it is new; else ``ProtocolError``."""
        number, known, sent = self._latest.get(step, (-1, b"", b""))
        if binding.release > number:
            return None
        if binding.release == number and known == request:
            return sent
        raise ProtocolError(
            f"Release {binding.release}: this party has already answered the step {step!r} of "
            f"release {number}; a different request is refused."
        )

    def store(self, step: str, binding: Binding, request: bytes, sent: bytes) -> None:
        """Remember, before sending."""
        if self.replay(step, binding, request) is not None:
            raise ProtocolError(f"Release {binding.release}: step {step!r} was stored already.")
        self._latest[step] = (binding.release, request, sent)


def run_secure_sum(
    settings: SecureSum,
    task: SumTask,
    words: Mapping[str, np.ndarray],
    min_honest: int,
    entropy: Entropy,
) -> np.ndarray:
    """The whole protocol with all roles in order: its documentation, test and example.

    ``words`` maps the parties that answer to their int64 words; a party that is missing has
    dropped out.
    """
    public, secrets = settings.set_up(task.parties, min_honest, task.max_dropouts, entropy)
    sides = {name: settings.party(name, public, secrets[name]) for name in task.parties}
    server = settings.server(public)
    nonces = {name: side.greet(entropy) for name, side in sides.items()}
    for side in sides.values():
        side.meet(nonces)

    sent = {name: sides[name].protect(task, words[name], entropy) for name in words}
    request = server.gather(task, sent.values())
    openings = [
        sides[name].open(task, sent[name], server.request_for(task, request, name))
        for name in server.openers(task, request)
    ]
    return server.finish(task, request, openings)


WORD_BITS = 64


def check_word_size(task: SumTask) -> None:
    """Refuse a task whose sum might not fit a word with sign; public facts only (G12)."""
    needed = task.limit.bit_length() + 1
    if needed > WORD_BITS:
        raise RangeOverflow(
            f"Release {task.binding.release}: the sum needs words of {needed} bits and there are "
            f"{WORD_BITS}. Use fewer rows a party, a smaller bound, or an epsilon nearer to 1."
        )

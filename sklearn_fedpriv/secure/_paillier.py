"""A secure sum by threshold Paillier encryption: opening needs the help of many parties.

Objects, who makes them, who may see them:

* A party's ``Protected`` holds ciphertexts of its words. The server and all parties see it;
  fewer than ``key_threshold`` parties together learn nothing from it.
* An ``OpenRequest`` carries every included party's ciphertexts to each party that must help. It
  multiplies them itself, so that what it helps to open is the sum of these and nothing else.
* An ``Opening`` holds the partial decryptions of that product. The server sees it; those of
  ``key_threshold`` parties give the sum, and fewer give nothing.
* Keys come from a *dealer*, see ``_paillier_keys``. The arithmetic is in ``_paillier_arithmetic``,
  the layout of plaintexts in ``_packing``.

Parties and server are honest but curious. There are no proofs that a party encrypted or helped to
open as it should: a party that lies can spoil a sum, which is mostly noticed, or shift it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gmpy2 import mpz

from sklearn_fedpriv._wire import digest, record
from sklearn_fedpriv.exceptions import ProtocolError, TooFewParties
from sklearn_fedpriv.secure._packing import Packing, plan_packing
from sklearn_fedpriv.secure._paillier_arithmetic import (
    combine,
    decrypt_partially,
    encrypt,
    multiply,
)
from sklearn_fedpriv.secure._paillier_keys import (
    SECURE_KEY_SIZE,
    PaillierKeyShare,
    PaillierPublicKey,
    check_key_size,
    deal_keys,
)
from sklearn_fedpriv.secure._paillier_wire import numbers_to_payload, payload_to_numbers
from sklearn_fedpriv.secure._protocol import (
    Entropy,
    Opening,
    OpenRequest,
    PartySide,
    Protected,
    SecureSum,
    ServerSide,
    SumTask,
    check_message,
    check_own,
)


@record
@dataclass(frozen=True)
class PaillierSum(SecureSum):
    """Words travel encrypted; the server sees their sum, once ``key_threshold`` parties help.

    Parameters
    ----------
    key_size : int, default=2048
        Bits of the key's modulus, a multiple of 16.
    key_threshold : int or None, default=None
        Number of parties who must help to open, not how many must be in the sum. More than
        ``max(1, n_parties - min_honest)`` and at most ``n_parties - max_dropouts``, which None
        stands for.
    insecure_key : bool, default=False
        Whether a key under 2048 bits is accepted, for tests.

    Notes
    -----
    A trusted dealer makes the keys: it could open single contributions, so it must be neither the
    server nor a party, and must forget what it made.

    References
    ----------
    I. Damgard, M. Jurik: A generalisation, a simplification and some applications of Paillier's
    probabilistic public-key system. PKC 2001.
    """

    label: ClassVar[str] = "paillier"
    hides_parties: ClassVar[bool] = True

    key_size: int = SECURE_KEY_SIZE
    key_threshold: int | None = None
    insecure_key: bool = False

    @property
    def insecure(self) -> bool:
        """Whether the key is small enough to break."""
        return self.key_size < SECURE_KEY_SIZE

    def check(self, n_parties: int, min_honest: int, max_dropouts: int) -> None:
        """Raise ``ValueError`` if no such key may serve such a federation (G18)."""
        check_key_size(self.key_size, self.insecure_key)
        if n_parties < 2:
            raise ValueError(f"A Paillier sum needs at least 2 parties; got {n_parties}.")
        lowest = max(1, n_parties - min_honest) + 1
        highest = n_parties - max_dropouts
        federation = f"{n_parties} parties, min_honest={min_honest}, max_dropouts={max_dropouts}"
        if lowest > highest:
            raise ValueError(
                f"No key_threshold serves {federation}: it must be at least {lowest}, so that "
                f"those who may collude cannot open alone, and at most {highest}, so that enough "
                f"are left to open. Set max_dropouts to {n_parties - lowest} or less, or raise "
                "min_honest."
            )
        threshold = self.threshold(n_parties, max_dropouts)
        if not lowest <= threshold <= highest:
            raise ValueError(
                f"key_threshold must lie in [{lowest}, {highest}] for {federation}; got "
                f"{threshold}."
            )

    def threshold(self, n_parties: int, max_dropouts: int) -> int:
        """Number of parties who must help to open."""
        return n_parties - max_dropouts if self.key_threshold is None else self.key_threshold

    def describe(self, n_parties: int, max_dropouts: int) -> str:
        """One phrase for the report."""
        weak = " (insecure, for tests)" if self.key_size < SECURE_KEY_SIZE else ""
        return (
            f"Paillier sums: a key of {self.key_size} bits{weak}, "
            f"{self.threshold(n_parties, max_dropouts)} of {n_parties} parties must help to open"
        )

    def trusted_roles(self) -> tuple[str, ...]:
        """The dealer of the keys."""
        return ("dealer",)

    def set_up(
        self, parties: tuple[str, ...], min_honest: int, max_dropouts: int, entropy: Entropy
    ) -> tuple[PaillierPublicKey, dict[str, PaillierKeyShare]]:
        """Deal a key. Run by the dealer."""
        self.check(len(parties), min_honest, max_dropouts)
        return deal_keys(
            parties,
            self.threshold(len(parties), max_dropouts),
            entropy,
            key_size=self.key_size,
            insecure_key=self.insecure_key,
        )

    def party(self, name: str, public: Any, secret: Any) -> PartySide:
        """The side of party ``name``, which holds its share of the key."""
        key = self._check_key(public)
        if not isinstance(secret, PaillierKeyShare):
            raise ProtocolError(
                f"Party {name!r} needs a PaillierKeyShare; got a {type(secret).__name__}."
            )
        if secret.key_id != key.key_id:
            raise ProtocolError(f"The share of party {name!r} belongs to another key.")
        if secret.party != name or name not in key.parties:
            raise ProtocolError(
                f"Party {name!r} was given the share of party {secret.party!r}, of a key for "
                f"{len(key.parties)} parties."
            )
        if secret.index != key.parties.index(name) + 1:
            raise ProtocolError(f"The share of party {name!r} has a wrong index.")
        return _PaillierParty(name, self, key, secret)

    def server(self, public: Any) -> ServerSide:
        """The server's side."""
        return _PaillierServer(self, self._check_key(public))

    def _check_key(self, public: Any) -> PaillierPublicKey:
        """Refuse another key than the settings ask for: whoever sends it is not believed."""
        if not isinstance(public, PaillierPublicKey):
            raise ProtocolError(f"A PaillierPublicKey was expected; got a {type(public).__name__}.")
        check_key_size(self.key_size, self.insecure_key)
        if public.key_size != self.key_size:
            raise ProtocolError(
                f"The key has {public.key_size} bits; the terms ask for {self.key_size}."
            )
        return public


class _PaillierParty(PartySide):
    def __init__(
        self, name: str, settings: PaillierSum, key: PaillierPublicKey, share: PaillierKeyShare
    ) -> None:
        super().__init__(name)
        self._settings = settings
        self._key = key
        self._share = share

    def check(self, task: SumTask) -> None:
        _plan(self._settings, self._key, task)

    def protect(self, task: SumTask, words: np.ndarray, entropy: Entropy) -> Protected:
        packing = _plan(self._settings, self._key, task)
        ciphertexts = encrypt(self._key, packing.pack(words), entropy)
        payload = numbers_to_payload(self._key, ciphertexts)
        return Protected(task.binding, task.request, self.name, payload)

    def open(self, task: SumTask, own: Protected, request: OpenRequest) -> Opening:
        packing = _plan(self._settings, self._key, task)
        who = f"party {self.name!r}"
        if own.sender != self.name:
            raise ProtocolError(
                f"Release {task.binding.release}: {who} was shown the contribution of party "
                f"{own.sender!r} as its own."
            )
        check_own(task, own, request)
        contributions = _read_contributions(self._key, task, packing, request, who)
        # The party multiplies for itself: it never helps to open a number the server made up.
        partials = decrypt_partially(self._key, self._share, multiply(self._key, contributions))
        payload = numbers_to_payload(self._key, partials)
        return Opening(task.binding, digest(request), self.name, payload)


class _PaillierServer(ServerSide):
    def __init__(self, settings: PaillierSum, key: PaillierPublicKey) -> None:
        self._settings = settings
        self._key = key

    def check(self, task: SumTask) -> None:
        _plan(self._settings, self._key, task)

    def gather(self, task: SumTask, answers: Iterable[Protected]) -> OpenRequest:
        packing = _plan(self._settings, self._key, task)
        request = super().gather(task, answers)
        _read_contributions(self._key, task, packing, request, "the server")
        return request

    def openers(self, task: SumTask, request: OpenRequest) -> tuple[str, ...]:
        """The first of the parties that are in the sum: their contributions can be checked."""
        included = sorted(answer.sender for answer in request.included)
        if len(included) < self._key.threshold:
            raise TooFewParties(
                f"Release {task.binding.release}: opening needs the help of "
                f"{self._key.threshold} parties that are in the sum, and {len(included)} are. "
                "Nothing was opened."
            )
        return tuple(included[: self._key.threshold])

    def finish(
        self, task: SumTask, request: OpenRequest, openings: Iterable[Opening]
    ) -> np.ndarray:
        release = f"Release {task.binding.release}"
        packing = _plan(self._settings, self._key, task)
        partials = self._read_openings(task, packing, request, openings)
        plaintexts = combine(self._key, partials)
        if plaintexts is None:
            helpers = ", ".join(repr(self._key.parties[index - 1]) for index in sorted(partials))
            raise ProtocolError(
                f"{release}: the sum does not open. A key share or a partial decryption of one "
                f"of {helpers} is wrong or corrupted. Deal new keys before the next release."
            )
        try:
            return packing.unpack(plaintexts, len(request.included))
        except ProtocolError as error:
            raise ProtocolError(f"{release}: {error}") from error

    def _read_openings(
        self, task: SumTask, packing: Packing, request: OpenRequest, openings: Iterable[Opening]
    ) -> dict[int, list[mpz]]:
        """Partial decryptions by share index, of exactly ``threshold`` parties in the sum.

        Any of them will do, so a party that falls silent can be replaced by another one.
        """
        release, answers = f"Release {task.binding.release}", digest(request)
        included = [answer.sender for answer in request.included]
        partials: dict[int, list[mpz]] = {}
        for opening in openings:
            check_message(opening, task.binding, answers, included)
            index = self._key.parties.index(opening.sender) + 1
            if index in partials:
                raise ProtocolError(f"{release}: party {opening.sender!r} opened twice.")
            partials[index] = payload_to_numbers(self._key, opening, packing.n_plaintexts)
        if len(partials) < self._key.threshold:
            missing = ", ".join(
                repr(name)
                for name in self.openers(task, request)
                if self._key.parties.index(name) + 1 not in partials
            )
            raise TooFewParties(
                f"{release}: {len(partials)} parties helped to open and exactly "
                f"{self._key.threshold} must; missing: {missing}. Nothing was opened."
            )
        if len(partials) > self._key.threshold:
            raise ProtocolError(
                f"{release}: {len(partials)} parties helped to open and exactly "
                f"{self._key.threshold} must."
            )
        return partials


def _plan(settings: PaillierSum, key: PaillierPublicKey, task: SumTask) -> Packing:
    """Check a task against settings and key, and derive its packing; both sides do."""
    release = f"Release {task.binding.release}"
    strangers = ", ".join(repr(name) for name in task.parties if name not in key.parties)
    if strangers:
        raise ProtocolError(
            f"{release}: no share of the key was dealt to {strangers}. Deal new keys when the "
            "members of the federation change."
        )
    threshold = settings.threshold(len(key.parties), task.max_dropouts)
    if key.threshold != threshold:
        raise ProtocolError(
            f"{release}: the key opens with {key.threshold} parties; the terms ask for {threshold}."
        )
    return plan_packing(task, key.key_size)


def _read_contributions(
    key: PaillierPublicKey, task: SumTask, packing: Packing, request: OpenRequest, who: str
) -> list[list[mpz]]:
    """The ciphertexts of a request, one row a party, checked; never of one party alone."""
    release = f"Release {task.binding.release}"
    if len(request.included) < 2:
        raise TooFewParties(
            f"{release}: {who} found {len(request.included)} contribution; one alone is never "
            "opened, at least 2 are needed. Nothing was opened."
        )
    senders: dict[bytes, str] = {}
    for answer in request.included:
        if answer.payload in senders:
            raise ProtocolError(
                f"{release}: the contributions of parties {senders[answer.payload]!r} and "
                f"{answer.sender!r} are copies of each other. Nothing was opened."
            )
        senders[answer.payload] = answer.sender
    return [payload_to_numbers(key, answer, packing.n_plaintexts) for answer in request.included]

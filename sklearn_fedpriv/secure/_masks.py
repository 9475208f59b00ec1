"""A secure sum by pairwise masks: what one party adds, another one subtracts.

Objects, who makes them, who may see them:

* Both ends of a pair of neighbours derive the same *seed* for a release and expand it to a mask as
  long as the words. One adds it, the other subtracts it, modulo the width of the words. The server
  sees a party's ``Protected``, and without the seeds it is uniform noise; in the sum of all parties
  all masks vanish.
* With ``max_dropouts=0`` that is all: one phase, nobody helps to open, and if anyone is missing
  nothing can be opened.
* Otherwise every party adds one more mask from a seed of its own, and shares this seed and those of
  its pairs for this release among its neighbours, in bundles that only the addressee can read.
  After the server has named the survivors, each survivor opens, for each surviving neighbour, its
  share of the neighbour's own seed and of the seeds of its masks with those that dropped out. The
  server so removes the own masks of survivors and the masks that lost their other end.
* Of one party either the own seed is opened or seeds of its pairs, never both: a party whose words
  come late stays hidden by its own mask. Private keys are never shared or sent, and a seed opened
  in one release says nothing about any other. See ``_mask_keys`` for keys, seeds and neighbours.

Parties and server are honest but curious. There are no proofs that a party masked as it should, and
a wrong share is not always noticed: it can spoil a sum, or shift it. A server that lies about the
survivors is refused by the party it calls dropped. One that shows two lists to the holders of one
party's shares gets enough for at most one of them, unless all must be neighbours of all for want of
parties. One that shows different lists to distant parts of the ring is not covered.

References
----------
K. Bonawitz et al.: Practical secure aggregation for privacy-preserving machine learning. CCS 2017.
J. Bell et al.: Secure single-server aggregation with (poly)logarithmic overhead. CCS 2020.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sklearn_fedpriv._wire import digest, record, to_bytes
from sklearn_fedpriv.exceptions import ProtocolError, TooFewParties
from sklearn_fedpriv.secure._keystream import SEED_BYTES, add_keystreams
from sklearn_fedpriv.secure._mask_keys import (
    KEY_BYTES,
    LABEL,
    MASK,
    NONCE_BYTES,
    SHARES_DOWN,
    SHARES_UP,
    MaskKeys,
    MaskSecret,
    graph_of,
    mask_sign,
    pair_seed,
)
from sklearn_fedpriv.secure._mask_server import MaskServer
from sklearn_fedpriv.secure._mask_wire import (
    DIGEST_BYTES,
    MaskPlan,
    UnmaskRequest,
    contribution_digest,
    plan_masks,
)
from sklearn_fedpriv.secure._protocol import (
    Entropy,
    Opening,
    PartySide,
    Protected,
    SecureSum,
    ServerSide,
    SumTask,
    check_message,
    draw,
)
from sklearn_fedpriv.secure._shares import N_LIMBS, share


@record
@dataclass(frozen=True)
class MaskedSum(SecureSum):
    """Words travel masked; the server sees their sum and no party's own answer.

    Needs no trusted dealer, and no help to open where ``max_dropouts`` is 0. Where it is not, the
    survivors must help, and ``max_dropouts`` may be at most ``min_honest - 2``.

    References
    ----------
    J. Bell et al.: Secure single-server aggregation with (poly)logarithmic overhead. CCS 2020.
    """

    label: ClassVar[str] = "masks"
    hides_parties: ClassVar[bool] = True
    takes_subsets: ClassVar[bool] = True

    def check(self, n_parties: int, min_honest: int, max_dropouts: int) -> None:
        """Raise ``ValueError`` if no graph of masks serves such a federation (G15)."""
        parties = tuple(map(str, range(n_parties)))
        graph_of(parties, n_parties - min_honest, max_dropouts)

    def describe(self, n_parties: int, max_dropouts: int) -> str:
        """One phrase for the report."""
        if max_dropouts == 0:
            return "masked sums: pairwise masks, nobody must help to open"
        return (
            "masked sums: pairwise masks and one of each party's own, "
            f"{n_parties - max_dropouts} of {n_parties} parties must help to open"
        )

    def set_up(
        self, parties: tuple[str, ...], min_honest: int, max_dropouts: int, entropy: Entropy
    ) -> tuple[MaskKeys, dict[str, MaskSecret]]:
        """Every party makes its own keys, here all in one process; public keys are collected."""
        self.check(len(parties), min_honest, max_dropouts)
        names = tuple(sorted(parties))
        secrets = {name: MaskSecret(name, draw(entropy, KEY_BYTES)) for name in names}
        public_keys = tuple(secrets[name].public_key for name in names)
        return MaskKeys(names, public_keys, min_honest), secrets

    def party(self, name: str, public: Any, secret: Any) -> PartySide:
        """The side of party ``name``, which holds its private key."""
        keys = _check_keys(public)
        if not isinstance(secret, MaskSecret):
            raise ProtocolError(
                f"Party {name!r} needs a MaskSecret; got a {type(secret).__name__}."
            )
        if secret.party != name or keys.of.get(name) != secret.public_key:
            raise ProtocolError(
                f"Party {name!r} does not find its own public key among those of the "
                f"{len(keys.parties)} parties, and refuses."
            )
        return _MaskParty(name, keys, secret)

    def server(self, public: Any) -> ServerSide:
        """The server's side."""
        return MaskServer(_check_keys(public))


def _check_keys(public: Any) -> MaskKeys:
    if not isinstance(public, MaskKeys):
        raise ProtocolError(f"MaskKeys were expected; got a {type(public).__name__}.")
    return public


class _MaskParty(PartySide):
    def __init__(self, name: str, keys: MaskKeys, secret: MaskSecret) -> None:
        super().__init__(name)
        self._keys = keys
        self._secret = secret
        self._nonce = b""
        self._nonces: Mapping[str, bytes] = {}

    def greet(self, entropy: Entropy) -> bytes:
        self._nonce, self._nonces = draw(entropy, NONCE_BYTES), {}
        return self._nonce

    def meet(self, nonces: Mapping[str, bytes]) -> None:
        who = f"Party {self.name!r}"
        if set(nonces) != set(self._keys.parties):
            unlike = sorted(set(nonces) ^ set(self._keys.parties))
            raise ProtocolError(
                f"{who} expects one nonce of every party; missing or foreign: {unlike}."
            )
        short = sorted(name for name, nonce in nonces.items() if len(nonce) != NONCE_BYTES)
        if short:
            raise ProtocolError(f"{who} expects nonces of {NONCE_BYTES} bytes; wrong: {short}.")
        if not self._nonce or nonces[self.name] != self._nonce:
            raise ProtocolError(f"{who} does not find its own nonce unchanged, and refuses.")
        self._nonces = dict(nonces)

    def check(self, task: SumTask) -> None:
        plan_masks(self._keys, task)

    def protect(self, task: SumTask, words: np.ndarray, entropy: Entropy) -> Protected:
        plan = plan_masks(self._keys, task)
        if words.dtype != np.int64 or words.shape != (task.length,):
            raise ValueError(
                f"Words must be int64 of shape ({task.length},); got {words.dtype} of shape "
                f"{words.shape}."
            )
        peers = self._peers(plan, task)
        seeds = [self._seed(task, peer, MASK) for peer in peers]
        streams = [
            (seed, mask_sign(self.name, peer)) for seed, peer in zip(seeds, peers, strict=True)
        ]
        out = BytesIO()  # unlike a bytearray, it gives its bytes away without a copy
        out.seek(plan.payload_bytes - 1)
        out.write(bytes(1))
        payload = out.getbuffer()
        if plan.graph.threshold:
            own_seed = draw(entropy, SEED_BYTES)
            streams.append((own_seed, 1))
            shares = share([own_seed, *seeds], plan.graph.threshold, plan.graph.degree, entropy)
            for peer, part in zip(peers, shares, strict=True):
                payload[plan.bundle_at(self.name, peer)] = self._encrypt(task, peer, part.tobytes())
        masked = np.frombuffer(payload, plan.dtype, task.length)
        np.copyto(masked, words, casting="unsafe")  # modulo 2^32 or 2^64
        add_keystreams(masked, streams)
        del masked
        payload.release()
        return Protected(task.binding, task.request, self.name, out.getvalue())

    def open(self, task: SumTask, own: Protected, request: Any) -> Opening:
        plan = plan_masks(self._keys, task)
        self._check_request(plan, task, own, request)
        alive = plan.graph.alive(self.name, request.survivors)
        if len(request.bundles) != len(alive):
            raise ProtocolError(
                f"Release {task.binding.release}: party {self.name!r} has {len(alive)} neighbours "
                f"among the survivors and was sent {len(request.bundles)} bundles of shares."
            )
        parts = [request.list_digest]
        for peer, bundle in zip(alive, request.bundles, strict=True):
            shares = self._decrypt(task, peer, bundle).reshape(-1, N_LIMBS)
            parts.append(shares[plan.rows_to_open(peer, request.dropped)].tobytes())
        return Opening(task.binding, digest(request), self.name, b"".join(parts))

    def _check_request(self, plan: MaskPlan, task: SumTask, own: Protected, request: Any) -> None:
        """Refuse to open anything but the sum of enough parties, with this one's words (G16)."""
        what = f"Release {task.binding.release}: party {self.name!r}"
        if not plan.graph.threshold or not isinstance(request, UnmaskRequest):
            raise ProtocolError(f"{what} was asked to open and has nothing to open in this way.")
        check_message(own, task.binding, task.request, (self.name,))
        if request.binding != task.binding or request.answers != task.request:
            raise ProtocolError(f"{what} was asked to open another release, and refuses.")
        survivors, dropped = request.survivors, request.dropped
        named = sorted((*survivors, *dropped))
        ordered = list(survivors) == sorted(survivors) and list(dropped) == sorted(dropped)
        if not ordered or named != list(task.parties):
            raise ProtocolError(
                f"{what} was shown survivors and dropouts that are not the "
                f"{len(task.parties)} invited parties, each once and sorted, and refuses."
            )
        if len(survivors) < task.fewest:
            raise TooFewParties(
                f"{what} was asked to open a sum of {len(survivors)} parties; at least "
                f"{task.fewest} of {len(task.parties)} must be in it. Nothing was opened."
            )
        if self.name in dropped:
            raise ProtocolError(f"{what} has sent its words and is called dropped; it refuses.")
        at = survivors.index(self.name) * DIGEST_BYTES
        alike = request.digests[at : at + DIGEST_BYTES] == contribution_digest(own)
        if not alike or len(request.digests) != len(survivors) * DIGEST_BYTES:
            raise ProtocolError(
                f"{what} does not find its own contribution unchanged in the request to open, and "
                "refuses."
            )

    def _peers(self, plan: MaskPlan, task: SumTask) -> list[str]:
        """The neighbours, once the fit's nonces are known."""
        what = f"Release {task.binding.release}: party {self.name!r}"
        if self.name not in task.parties:
            raise ProtocolError(f"{what} was not invited.")
        if not self._nonces:
            raise ProtocolError(f"{what} has not met the others: greet and meet come first.")
        return list(plan.graph.points[self.name])

    def _seed(self, task: SumTask, peer: str, purpose: str) -> bytes:
        return pair_seed(self._secret, self._keys, self._nonces, task.binding, peer, purpose)

    def _encrypt(self, task: SumTask, receiver: str, shares: bytes) -> bytes:
        cipher = ChaCha20Poly1305(self._seed(task, receiver, _direction(self.name, receiver)))
        return cipher.encrypt(_NO_NONCE, shares, _associated(task, self.name, receiver))

    def _decrypt(self, task: SumTask, sender: str, bundle: bytes) -> np.ndarray:
        cipher = ChaCha20Poly1305(self._seed(task, sender, _direction(sender, self.name)))
        try:
            shares = cipher.decrypt(_NO_NONCE, bundle, _associated(task, sender, self.name))
        except InvalidTag:
            raise ProtocolError(
                f"Release {task.binding.release}: party {self.name!r} cannot read the shares of "
                f"party {sender!r}: they were altered or belong elsewhere. Nothing was opened."
            ) from None
        return np.frombuffer(shares, "<u4")


# The key of a bundle serves one direction of one pair in one release, so it is used once.
_NO_NONCE = bytes(12)


def _direction(sender: str, receiver: str) -> str:
    return SHARES_UP if sender < receiver else SHARES_DOWN


def _associated(task: SumTask, sender: str, receiver: str) -> bytes:
    return to_bytes((LABEL, task.binding, sender, receiver))

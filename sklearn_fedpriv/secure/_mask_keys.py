"""Keys, seeds and neighbours of the masked sum: who makes them, who may see them.

* ``MaskSecret`` is a party's X25519 private key. The party makes it and nobody else ever sees it,
  in whole or in shares, also when the party drops out.
* ``MaskKeys`` holds all public keys. Everybody sees it and the terms name it by its digest.
* A *pair secret* is what X25519 gives both ends of a pair. It stays in the memory of both.
* A *seed* is derived from a pair secret for one purpose in one release of one fit, with the fresh
  nonces of both ends. It is a one-way function of the pair secret: whoever learns one seed, and
  the server learns those of parties that drop out, knows nothing about any other (G15).
* A ``Graph`` says who shares masks with whom: public, and the same for everybody who computes it
  from the sorted names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sklearn_fedpriv._wire import record, to_bytes
from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure._keystream import SEED_BYTES
from sklearn_fedpriv.secure._protocol import Binding

KEY_BYTES = 32
NONCE_BYTES = 32
LABEL = "sklearn_fedpriv masked sum 1"

# Purposes of a pair's seeds. Shares go both ways, and the key of an encryption is used once.
MASK = "mask"
SHARES_UP = "shares from the first party to the second"
SHARES_DOWN = "shares from the second party to the first"


@record
@dataclass(frozen=True)
class MaskKeys:
    """What everybody knows: the parties, their public keys, how many of them do not collude.

    Parameters
    ----------
    parties : tuple of str
        Distinct and sorted.
    public_keys : tuple of bytes
        X25519 public keys, 32 bytes each, in the order of the parties.
    min_honest : int
        At least so many of the parties do not collude; the others may, with the server too.
    """

    parties: tuple[str, ...]
    public_keys: tuple[bytes, ...]
    min_honest: int

    def __post_init__(self) -> None:
        if list(self.parties) != sorted(set(self.parties)):
            raise ValueError("The parties of masks must be distinct and sorted.")
        if len(set(self.public_keys)) != len(self.parties):
            raise ValueError("Every party needs a public key of its own.")
        if not all(len(key) == KEY_BYTES for key in self.public_keys):
            raise ValueError(f"A public key has {KEY_BYTES} bytes.")
        if not 1 <= self.min_honest <= len(self.parties):
            raise ValueError(
                f"min_honest must lie in [1, {len(self.parties)}]; got {self.min_honest}."
            )

    @property
    def n_colluders(self) -> int:
        """How many parties may collude."""
        return len(self.parties) - self.min_honest

    @cached_property
    def of(self) -> Mapping[str, bytes]:
        """Public key by party."""
        return dict(zip(self.parties, self.public_keys, strict=True))


@record
@dataclass(frozen=True)
class MaskSecret:
    """A party's private key; its ``repr`` does not show it.

    Parameters
    ----------
    party : str
        The party that holds it.
    private_key : bytes
        32 uniform bytes. Secret.
    """

    party: str
    private_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.private_key) != KEY_BYTES:
            raise ValueError(f"A private key has {KEY_BYTES} bytes.")

    @property
    def public_key(self) -> bytes:
        """The other half, 32 bytes, for everybody."""
        return _private(self.private_key).public_key().public_bytes_raw()


def pair_seed(
    secret: MaskSecret,
    keys: MaskKeys,
    nonces: Mapping[str, bytes],
    binding: Binding,
    peer: str,
    purpose: str,
) -> bytes:
    """What this party and ``peer`` both derive for one purpose in one release, 32 bytes.

    Parameters
    ----------
    secret : MaskSecret
    keys : MaskKeys
    nonces : mapping of str to bytes
        The fit's nonces of both, at least.
    binding : Binding
    peer : str
    purpose : str

    Returns
    -------
    bytes
    """
    try:
        shared = _agree(secret.private_key, keys.of[peer])
    except ValueError as error:  # a point of small order
        raise ProtocolError(
            f"The public key of party {peer!r} is no key: nothing may be masked with it."
        ) from error
    first, second = sorted((secret.party, peer))
    context = (LABEL, binding, first, second, nonces[first], nonces[second], purpose)
    return HKDF(SHA256(), SEED_BYTES, salt=None, info=to_bytes(context)).derive(shared)


def mask_sign(name: str, peer: str) -> int:
    """Of the mask of a pair, in the words of ``name``: the first party adds, the second takes."""
    return 1 if name < peer else -1


# Outside the parties' sides, so that no pickle of a side carries them, and a worker process that
# answers several releases agrees once. Enough for a rehearsal with a thousand parties.
@lru_cache(maxsize=1 << 18)
def _agree(private_key: bytes, public_key: bytes) -> bytes:
    return _private(private_key).exchange(X25519PublicKey.from_public_bytes(public_key))


@lru_cache(maxsize=1 << 10)
def _private(private_key: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(private_key)


@dataclass(frozen=True)
class Graph:
    """Who shares masks with whom in one release; made by ``graph_of``.

    Parameters
    ----------
    parties : tuple of str
        The invited ones, sorted: a ring.
    degree : int
        Neighbours of a party.
    threshold : int
        How many neighbours of a party must help to open; 0 if nobody has to.
    """

    parties: tuple[str, ...]
    degree: int
    threshold: int

    @cached_property
    def points(self) -> Mapping[str, Mapping[str, int]]:
        """For each party its neighbours, sorted, and the points 1, 2, ... of their shares."""
        n, half = len(self.parties), self.degree // 2
        if self.degree == n - 1:
            return {
                name: _numbered(other for other in self.parties if other != name)
                for name in self.parties
            }
        offsets = [*range(-half, 0), *range(1, half + 1)]
        return {
            name: _numbered(sorted(self.parties[(at + offset) % n] for offset in offsets))
            for at, name in enumerate(self.parties)
        }

    def alive(self, name: str, survivors: Iterable[str]) -> list[str]:
        """Neighbours of a party among the survivors, in the order of names."""
        alive = set(survivors)
        return [peer for peer in self.points[name] if peer in alive]


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: point for point, name in enumerate(names, start=1)}


@lru_cache(maxsize=4)  # the parties of one process have the same
def graph_of(parties: tuple[str, ...], n_colluders: int, max_dropouts: int) -> Graph:
    """The neighbours of a release, from public facts only.

    A ring of the sorted names in which everybody has its nearest neighbours: Harary's graph, which
    the removal of fewer than ``degree`` parties cannot split. So the honest ones that are left
    stay connected when all colluders and all dropouts are taken away (G15).

    Parameters
    ----------
    parties : tuple of str
        The invited ones, sorted.
    n_colluders : int
        So many of them may collude, with the server too.
    max_dropouts : int
        So many may go missing, before or after they send.

    Returns
    -------
    Graph

    Raises
    ------
    ValueError
        No graph serves; says what would.
    """
    n, c, d = len(parties), n_colluders, max_dropouts
    if n < 2:
        raise ValueError(f"A masked sum needs at least 2 parties; got {n}.")
    # With dropouts the threshold is k - d, the highest that d missing neighbours leave. It must
    # exceed c; and 2 (k - d) > k + c lets no neighbourhood be split into two groups that are shown
    # different lists of survivors and both reach the threshold, colluders helping both. Where the
    # threshold is 1, a neighbour by itself learns seeds, but it never sees masked words.
    wanted = c + 1 if d == 0 else c + 2 * d + 1
    even = wanted + wanted % 2
    degree = min(even, n - 1)
    if d and degree - d <= c:  # only when all are neighbours already
        raise ValueError(
            f"No masked sum serves {n} parties of which {c} may collude and {d} may drop out: the "
            f"{n - 1 - d} neighbours that are left to open must outnumber the colluders. Set "
            f"max_dropouts to {max(0, n - c - 2)} or less, or raise min_honest."
        )
    return Graph(parties, degree, degree - d if d else 0)

"""Keys of the threshold-Paillier sum: who makes them, what they are made of.

Objects, who makes them, who may see them:

* ``PaillierPublicKey`` is made by the dealer and seen by everybody: the modulus N, the base of the
  blinding factors, which party has which index, and how many must help to open.
* ``PaillierKeyShare`` is made by the dealer for one party and seen by that party alone. Fewer
  shares than the threshold say nothing about the key.
* The primes, the exponent ``d`` and the polynomial exist only inside ``deal_keys``. Whoever runs it
  is the *dealer*, a trusted role: it could open any single contribution. It runs once for a
  federation, in a process that is neither the server's nor a party's, and keeps nothing.

The scheme is that of Damgard and Jurik (2001) with s = 1, over safe primes p = 2p' + 1 and
q = 2q' + 1, with m = p'q'. The exponent d is 0 mod m and 1 mod N; it is Shamir-shared over the
integers modulo Nm. The base h = (-y^2)^N mod N^2 lets a party blind with short exponents
(Damgard, Jurik and Nielsen 2010, section 4.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import gmpy2
import numpy as np
from gmpy2 import mpz

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.secure._protocol import Entropy, draw

SECURE_KEY_SIZE = 2048
SMALLEST_KEY_SIZE = 256  # for tests: below, safe primes get rare and slots few
KEY_ID_BYTES = 16

_SURPLUS_BITS = 128  # a number reduced from this many more bits is uniform but for 2^-128
_SIEVE_BOUND = 1 << 22
_WINDOW = 1 << 17
_PRIME_ROUNDS = 40


@record
@dataclass(frozen=True)
class PaillierPublicKey:
    """What everybody knows of a federation's Paillier key.

    Parameters
    ----------
    key_id : bytes
        Random name of the key, so that shares of two keys are never mixed.
    modulus : int
        N, the product of two safe primes of equal size.
    base : int
        h = (-y^2)^N mod N^2, raised to short exponents to blind.
    threshold : int
        Number of parties who must help to open.
    parties : tuple of str
        Distinct and sorted; the party at position i holds the share of index i + 1.
    """

    key_id: bytes
    modulus: int
    base: int
    threshold: int
    parties: tuple[str, ...]

    def __post_init__(self) -> None:
        if list(self.parties) != sorted(set(self.parties)):
            raise ValueError("The parties of a Paillier key must be distinct and sorted.")
        if not 2 <= self.threshold <= len(self.parties):
            raise ValueError(
                f"The threshold of a key of {len(self.parties)} parties must lie in "
                f"[2, {len(self.parties)}]; got {self.threshold}."
            )
        if self.modulus < 3 or self.modulus % 2 == 0 or not 1 < self.base < self.modulus**2:
            raise ValueError("The modulus must be odd and the base in (1, modulus^2).")
        if len(self.key_id) != KEY_ID_BYTES:
            raise ValueError(f"A key id has {KEY_ID_BYTES} bytes; got {len(self.key_id)}.")

    @property
    def key_size(self) -> int:
        """Bits of the modulus."""
        return self.modulus.bit_length()

    @property
    def number_bytes(self) -> int:
        """Bytes of a ciphertext or partial decryption on the wire."""
        return 2 * -(-self.key_size // 8)

    @property
    def exponent_bytes(self) -> int:
        """Bytes of a blinding exponent: at least half the modulus (G18)."""
        return -(-self.key_size // 16)


@record
@dataclass(frozen=True)
class PaillierKeyShare:
    """One party's share of the key; its ``repr`` does not show the share.

    Parameters
    ----------
    key_id : bytes
        ``key_id`` of the public key it belongs to.
    party : str
        The party that holds it.
    index : int
        Where the dealer's polynomial was evaluated: 1, 2, ...
    share : int
        Its value there, modulo Nm. Secret.
    """

    key_id: bytes
    party: str
    index: int
    share: int = field(repr=False)


def deal_keys(
    parties: Sequence[str],
    key_threshold: int,
    entropy: Entropy,
    *,
    key_size: int = SECURE_KEY_SIZE,
    insecure_key: bool = False,
) -> tuple[PaillierPublicKey, dict[str, PaillierKeyShare]]:
    """Make a key and share it among the parties. Run by the dealer, once for a federation.

    Give each party its own share over a channel that only this party can read, give the public key
    to all, and forget the rest. See the page on keys in the documentation.

    Parameters
    ----------
    parties : sequence of str
        Distinct names, at least two.
    key_threshold : int
        Number of parties who must help to open, in [2, len(parties)].
    entropy : callable
        Maps a number of bytes to that many random bytes; outside of tests ``os.urandom``.
    key_size : int, default=2048
        Bits of the modulus, a multiple of 16.
    insecure_key : bool, default=False
        Whether a key under 2048 bits is accepted, for tests.

    Returns
    -------
    public : PaillierPublicKey
    shares : dict of str to PaillierKeyShare
    """
    check_key_size(key_size, insecure_key)
    names = tuple(sorted(parties))
    p = mpz(safe_prime(key_size // 2, entropy))
    q = mpz(safe_prime(key_size // 2, entropy))
    check_primes(p, q, key_size)

    modulus = p * q
    order = (p - 1) // 2 * ((q - 1) // 2)
    d = order * gmpy2.invert(order, modulus)  # 0 mod m, 1 mod N
    ring = modulus * order
    polynomial = [d] + [_uniform(ring, entropy) for _ in range(key_threshold - 1)]
    y = _uniform(modulus, entropy)
    # p = q = 3 mod 4, so -y^2 has Jacobi symbol 1 and, but for a negligible chance, order 2m.
    base = gmpy2.powmod(-y * y % modulus, modulus, modulus**2)

    key_id = draw(entropy, KEY_ID_BYTES)
    public = PaillierPublicKey(key_id, int(modulus), int(base), key_threshold, names)
    shares = {
        name: PaillierKeyShare(key_id, name, index, int(_evaluate(polynomial, index, ring)))
        for index, name in enumerate(names, start=1)
    }
    return public, shares


def check_key_size(key_size: int, insecure_key: bool) -> None:
    """Refuse a key that is too small, or of a size that the dealer cannot make."""
    if type(key_size) is not int or key_size % 16 or key_size < SMALLEST_KEY_SIZE:
        raise ValueError(
            f"key_size must be a multiple of 16 and at least {SMALLEST_KEY_SIZE}; got {key_size!r}."
        )
    if key_size < SECURE_KEY_SIZE and not insecure_key:
        raise ValueError(
            f"key_size must be at least {SECURE_KEY_SIZE} bits; got {key_size}, which can be "
            "factored or soon will be. For tests, set insecure_key=True."
        )


def check_primes(p: int, q: int, key_size: int) -> None:
    """Refuse primes that make a weak or unusable key. The message shows neither.

    Parameters
    ----------
    p, q : int
    key_size : int
        Bits that their product must have.
    """
    if p == q:
        raise ValueError("The dealer drew the same prime twice: its entropy repeats itself.")
    for prime in (mpz(p), mpz(q)):
        half = (prime - 1) // 2
        if not (gmpy2.is_prime(half, _PRIME_ROUNDS) and gmpy2.is_prime(prime, _PRIME_ROUNDS)):
            raise ValueError("The dealer's primes must be safe primes: p and (p - 1) / 2 prime.")
        if prime.bit_length() != key_size // 2:
            raise ValueError(
                f"The dealer's primes must have {key_size // 2} bits; got {prime.bit_length()}."
            )
    modulus, totient = mpz(p) * q, (mpz(p) - 1) * (mpz(q) - 1)
    if modulus.bit_length() != key_size or gmpy2.gcd(modulus, totient) != 1:
        raise ValueError(
            f"The modulus must have {key_size} bits and share no factor with its totient."
        )


def safe_prime(bits: int, entropy: Entropy) -> int:
    """A random prime p of ``bits`` bits with (p - 1) / 2 prime, its two highest bits set.

    Both numbers are sieved at once: a window of candidates p' = start + 6k, which leaves out the
    factors 2 and 3 of p' and of 2p' + 1, is struck by every prime below 2^22. The first survivor
    that passes is taken; starting at random and walking up costs a few bits of entropy at most.

    Parameters
    ----------
    bits : int
        At least 64.
    entropy : callable

    Returns
    -------
    int
    """
    if bits < 64:
        raise ValueError(f"A safe prime must have at least 64 bits; got {bits}.")
    while True:
        free = bits - 3  # of the bits - 1 bits of p', the two highest are set
        low = int.from_bytes(draw(entropy, -(-free // 8)), "big") % (1 << free)
        start = (3 << free) + low
        start += (5 - start) % 6
        for k in _sieve(start):
            half = mpz(start) + 6 * int(k)
            if _passes_fermat(half) and _passes_fermat(2 * half + 1):
                prime = 2 * half + 1
                proved = gmpy2.is_prime(half, _PRIME_ROUNDS) and gmpy2.is_prime(
                    prime, _PRIME_ROUNDS
                )
                if proved and prime.bit_length() == bits:
                    return int(prime)


def _uniform(below: mpz, entropy: Entropy) -> mpz:
    surplus = draw(entropy, -(-(below.bit_length() + _SURPLUS_BITS) // 8))
    return mpz.from_bytes(surplus, "big") % below


def _evaluate(polynomial: Sequence[mpz], at: int, modulus: mpz) -> mpz:
    value = mpz(0)
    for coefficient in reversed(polynomial):
        value = (value * at + coefficient) % modulus
    return value


def _passes_fermat(number: mpz) -> bool:
    return bool(gmpy2.powmod(2, number - 1, number) == 1)


@lru_cache(maxsize=1)
def _small_primes() -> np.ndarray:
    """Primes from 5 to the sieve's bound, int64."""
    prime = np.ones(_SIEVE_BOUND, dtype=bool)
    prime[:2] = False
    for i in range(2, int(gmpy2.isqrt(mpz(_SIEVE_BOUND))) + 1):
        if prime[i]:
            prime[i * i :: i] = False
    return np.flatnonzero(prime)[2:]


def _sieve(start: int) -> np.ndarray:
    """Those k in the window for which neither start + 6k nor its double plus one has a factor."""
    primes = _small_primes()
    rest = np.zeros_like(primes)  # start modulo each prime, 32 bits at a time
    for shift in range(-(-start.bit_length() // 32) * 32 - 32, -1, -32):
        rest = ((rest << 32) + (start >> shift & 0xFFFFFFFF)) % primes
    sixth = np.where(primes % 6 == 1, 5 * primes + 1, primes + 1) // 6  # 1/6 modulo each prime
    survives = np.ones(_WINDOW, dtype=bool)
    for forbidden in (0, (primes - 1) // 2):  # residues of p' at which p', or 2p' + 1, is 0
        first = (forbidden - rest) % primes * sixth % primes
        n_repeating = int(np.searchsorted(primes, _WINDOW))
        for k, prime in zip(
            first[:n_repeating].tolist(), primes[:n_repeating].tolist(), strict=True
        ):
            survives[k::prime] = False
        once = first[n_repeating:]
        survives[once[once < _WINDOW]] = False
    return np.flatnonzero(survives)

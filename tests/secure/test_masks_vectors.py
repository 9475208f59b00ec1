"""Known answers of the masked sum, from an independent, slow implementation; masks are noise."""

import dataclasses
import hashlib
import hmac
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from sklearn_fedpriv.secure import _mask_keys
from sklearn_fedpriv.secure._keystream import add_keystreams
from sklearn_fedpriv.secure._mask_keys import MaskSecret
from sklearn_fedpriv.secure._mask_wire import UnmaskRequest
from sklearn_fedpriv.secure._protocol import Binding, Opening, Protected
from tests.secure.masks import Fit, flip, make_task, names, pair_secret, random_words
from tests.secure.test_shares import slow_share, tape

VECTORS = Path(__file__).parent.parent / "vectors" / "masks.json"


# The slow implementation


def sized(tag, data):
    return tag + len(data).to_bytes(8, "big") + data


def slow_encode(value):
    if isinstance(value, int):
        return sized(b"I", value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, str):
        return sized(b"S", value.encode())
    if isinstance(value, bytes):
        return sized(b"B", value)
    if isinstance(value, tuple):
        return b"L" + len(value).to_bytes(8, "big") + b"".join(map(slow_encode, value))
    head = b"R" + slow_encode(type(value).__name__)
    return head + b"".join(slow_encode(getattr(value, f.name)) for f in dataclasses.fields(value))


def slow_wire(value):
    return b"sklearn_fedpriv\x01" + slow_encode(value)


def slow_digest(message):
    payload = hashlib.sha256(message.payload).digest()
    head = (message.binding, message.answers, message.sender, payload)
    return hashlib.sha256(slow_wire(head)).digest()


def slow_hkdf(secret, info):
    """RFC 5869 with SHA-256, no salt, 32 bytes."""
    key = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(key, info + b"\x01", "sha256")


def slow_seed(secrets, public_keys, nonces, binding, name, peer, purpose):
    first, second = min(name, peer), max(name, peer)
    context = (
        "sklearn_fedpriv masked sum 1",
        binding,
        first,
        second,
        nonces[first],
        nonces[second],
        purpose,
    )
    return slow_hkdf(pair_secret(secrets[name], public_keys[peer]), slow_wire(context))


def slow_keystream(seed, length, word_bytes):
    blocks = -(-length * word_bytes // 16)
    encryptor = Cipher(AES(seed), ECB()).encryptor()
    data = b"".join(encryptor.update((i + 2).to_bytes(16, "big")) for i in range(blocks))
    return [
        int.from_bytes(data[i : i + word_bytes], "little")
        for i in range(0, length * word_bytes, word_bytes)
    ]


class SlowFit:
    """The whole protocol again, word by word, from the same entropy."""

    def __init__(self, n, d, degree, threshold, word_bytes, length, missing, seed):
        self.binding = Binding(b"federation", b"terms", 1)
        entropy, everyone = tape(seed), names(n)
        self.secrets = {name: MaskSecret(name, entropy(32)) for name in everyone}
        self.public = {
            name: X25519PrivateKey.from_private_bytes(secret.private_key)
            .public_key()
            .public_bytes_raw()
            for name, secret in self.secrets.items()
        }
        self.nonces = {name: entropy(32) for name in everyone}
        half = degree // 2
        self.peers = {
            name: [
                peer
                for j, peer in enumerate(everyone)
                if j != i and (degree == n - 1 or min((i - j) % n, (j - i) % n) <= half)
            ]
            for i, name in enumerate(everyone)
        }
        task = make_task(n, d, length, 2**30 if word_bytes == 4 else 2**40)
        self.words, modulus = random_words(task), 2 ** (8 * word_bytes)
        survivors = tuple(name for name in everyone if name not in missing)
        self.seeds, self.own, self.rows, self.sent = {}, {}, {}, {}
        for name in survivors:
            masked = self.words[name].tolist()
            for peer in self.peers[name]:
                seed = self.seed(name, peer, "mask")
                self.seeds[name, peer] = seed
                stream = slow_keystream(seed, length, word_bytes)
                sign = 1 if name < peer else -1
                masked = [a + sign * b for a, b in zip(masked, stream, strict=True)]
            bundles = b""
            if d:
                self.own[name] = entropy(32)
                stream = slow_keystream(self.own[name], length, word_bytes)
                masked = [a + b for a, b in zip(masked, stream, strict=True)]
                hidden = [self.own[name], *(self.seeds[name, peer] for peer in self.peers[name])]
                drawn = entropy(4 * 9 * (threshold - 1) * len(hidden))
                numbers = [
                    int.from_bytes(drawn[i : i + 4], "little") % 2**31
                    for i in range(0, len(drawn), 4)
                ]
                shares = []
                for i, secret in enumerate(hidden):
                    rows = [
                        numbers[9 * (len(hidden) * row + i) :][:9] for row in range(threshold - 1)
                    ]
                    shares.append(slow_share(secret, threshold, degree, rows))
                for x, peer in enumerate(self.peers[name]):
                    plain = [
                        b"".join(number.to_bytes(4, "little") for number in secret[x])
                        for secret in shares
                    ]
                    self.rows[name, peer] = plain
                    context = ("sklearn_fedpriv masked sum 1", self.binding, name, peer)
                    cipher = ChaCha20Poly1305(self.bundle_key(name, peer))
                    bundles += cipher.encrypt(bytes(12), b"".join(plain), slow_wire(context))
            payload = b"".join((a % modulus).to_bytes(word_bytes, "little") for a in masked)
            self.sent[name] = Protected(self.binding, b"request", name, payload + bundles)
        self.dropped = tuple(missing)
        self.digests = b"".join(map(slow_digest, self.sent.values()))
        self.total = [sum(int(self.words[name][i]) for name in survivors) for i in range(length)]

    def seed(self, name, peer, purpose):
        return slow_seed(self.secrets, self.public, self.nonces, self.binding, name, peer, purpose)

    def bundle_key(self, sender, receiver):
        first, second = ("first", "second") if sender < receiver else ("second", "first")
        return self.seed(sender, receiver, f"shares from the {first} party to the {second}")

    def opening(self, name):
        survivors = tuple(self.sent)
        listed = (self.binding, b"request", survivors, self.dropped, self.digests)
        alive = [peer for peer in self.peers[name] if peer in self.sent]
        payload, bundles = hashlib.sha256(slow_wire(listed)).digest(), []
        for peer in alive:
            rows = self.rows[peer, name]
            payload += rows[0] + b"".join(
                rows[1 + self.peers[peer].index(lost)]
                for lost in self.dropped
                if lost in self.peers[peer]
            )
            size = len(b"".join(rows)) + 16
            at = self.peers[peer].index(name) - len(self.peers[peer])
            message = self.sent[peer].payload
            bundles.append(message[len(message) + at * size :][:size])
        request = UnmaskRequest(
            self.binding, b"request", survivors, self.dropped, self.digests, tuple(bundles)
        )
        return Opening(self.binding, hashlib.sha256(slow_wire(request)).digest(), name, payload)

    def vector(self):
        """Everything that must not change, as JSON."""
        pairs = sorted({tuple(sorted(pair)) for pair in self.seeds})
        return {
            "private_keys": {name: s.private_key.hex() for name, s in self.secrets.items()},
            "public_keys": {name: key.hex() for name, key in self.public.items()},
            "nonces": {name: nonce.hex() for name, nonce in self.nonces.items()},
            "mask_seeds": {f"{a}|{b}": self.seed(a, b, "mask").hex() for a, b in pairs},
            "bundle_keys": {
                f"{a}|{b}": self.bundle_key(a, b).hex()
                for pair in pairs
                for a, b in (pair, pair[::-1])
            },
            "own_seeds": {name: seed.hex() for name, seed in self.own.items()},
            "words": {name: self.words[name].tolist() for name in self.sent},
            "protected": {name: message.payload.hex() for name, message in self.sent.items()},
            "openings": {name: self.opening(name).payload.hex() for name in self.own},
            "total": self.total,
        }


CASES = {
    "three, nobody drops out": (3, 0, 2, 0, 8, 5, (), 1),
    "five, two may, one does": (5, 2, 4, 2, 4, 5, ("party2",), 2),
    "nine in a ring, one does": (9, 1, 4, 3, 8, 3, ("party0",), 3),
}


def slow_vectors():
    """What the file of vectors holds; ``json.dumps`` of it, indented by one, is the file."""
    return {label: SlowFit(*case).vector() for label, case in CASES.items()}


def test_the_vectors_are_those_of_the_slow_implementation():
    assert json.loads(VECTORS.read_text()) == slow_vectors()


@pytest.mark.parametrize("label", CASES)
def test_known_answers(label):
    vector = json.loads(VECTORS.read_text())[label]
    n, d, degree, threshold, word_bytes, length, missing, seed = CASES[label]
    limit = 2**30 if word_bytes == 4 else 2**40
    fit = Fit(n, d, entropy=tape(seed), length=length, limit=limit)
    assert (fit.plan.graph.degree, fit.plan.graph.threshold) == (degree, threshold)
    for name in fit.task.parties:
        assert fit.secrets[name].private_key.hex() == vector["private_keys"][name]
        assert fit.public.of[name].hex() == vector["public_keys"][name]
        assert fit.nonces[name].hex() == vector["nonces"][name]
    for pair, expected in vector["mask_seeds"].items():
        for a, b in (pair.split("|"), pair.split("|")[::-1]):
            assert fit.sides[a]._seed(fit.task, b, _mask_keys.MASK).hex() == expected
    for pair, expected in vector["bundle_keys"].items():
        sender, receiver = pair.split("|")
        up = sender < receiver
        purpose = _mask_keys.SHARES_UP if up else _mask_keys.SHARES_DOWN
        for a, b in ((sender, receiver), (receiver, sender)):
            assert fit.sides[a]._seed(fit.task, b, purpose).hex() == expected

    fit.send([name for name in fit.task.parties if name not in missing])
    for name, message in fit.sent.items():
        assert fit.words[name].tolist() == vector["words"][name]
        assert message.payload.hex() == vector["protected"][name]
    request = fit.gather()
    openings = fit.openings(request)
    assert {name: o.payload.hex() for name, o in openings.items()} == vector["openings"]
    slow = SlowFit(*CASES[label])
    assert all(opening == slow.opening(name) for name, opening in openings.items())
    assert fit.finish(request, openings.values()).tolist() == vector["total"]


# Masks


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_a_keystream_is_aes_in_counter_mode(dtype):
    seed, length = bytes(range(32)), 70_000
    words = np.arange(length, dtype=dtype)
    add_keystreams(words, [(seed, 1), (bytes(32), -1)])
    itemsize = words.itemsize
    tried = [*range(20), *range(32_760, 32_780), *range(65_530, 65_540), length - 1]
    plus = slow_keystream(seed, length, itemsize)
    minus = slow_keystream(bytes(32), length, itemsize)
    for i in tried:
        assert int(words[i]) == (i + plus[i] - minus[i]) % 2 ** (8 * itemsize)


def test_every_bit_of_a_seed_matters():
    seed, masks = bytes(range(32)), []
    for bit in (None, *range(256)):
        words = np.zeros(8, dtype=np.uint64)
        add_keystreams(words, [(seed if bit is None else flip(seed, bit), 1)])
        masks.append(words)
    assert len({mask.tobytes() for mask in masks}) == 257
    changed = [np.unpackbits((mask ^ masks[0]).view(np.uint8)).sum() for mask in masks[1:]]
    assert 150 < min(changed) and max(changed) < 362  # of 512, 9 standard deviations around half


@pytest.mark.parametrize("limit", [2**30, 2**40])
def test_a_masked_vector_looks_like_noise_and_every_residue_occurs(limit):
    for d in (0, 1):
        fit = Fit(4, d, entropy=tape(4), length=2**14, limit=limit)
        fit.words = {name: np.zeros(2**14, dtype=np.int64) for name in fit.task.parties}
        seen = []
        for _ in range(2):
            fit.next_release()
            fit.send()
            seen += [fit.plan.words(message) for message in fit.sent.values()]
        for words in seen:
            by_byte = words.view(np.uint8).reshape(-1, words.itemsize)
            for column in by_byte.T:
                counts = np.bincount(column, minlength=256)
                assert counts.min() > 0  # every residue of every byte
                expected = len(column) / 256
                assert ((counts - expected) ** 2 / expected).sum() < 255 + 8 * (2 * 255) ** 0.5
        # No two vectors, of other parties or of other releases of the same words, are alike.
        for one, other in itertools.combinations(seen, 2):
            equal = np.count_nonzero(one.view(np.uint8) == other.view(np.uint8))
            assert abs(equal / (one.nbytes / 256) - 1) < 8 / (one.nbytes / 256) ** 0.5

"""A fit of the masked sum, stopped between any two steps, and what a curious server computes."""

import dataclasses
import os

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from sklearn_fedpriv._wire import from_bytes, to_bytes
from sklearn_fedpriv.secure import _mask_keys
from sklearn_fedpriv.secure._keystream import add_keystreams
from sklearn_fedpriv.secure._mask_wire import plan_masks
from sklearn_fedpriv.secure._masks import MaskedSum
from sklearn_fedpriv.secure._protocol import Binding, SumTask
from sklearn_fedpriv.secure._shares import combine


def names(n_parties):
    return tuple(f"party{i}" for i in range(n_parties))


def make_task(n_parties, max_dropouts=0, length=20, limit=2**40, release=1, parties=None):
    parties = names(n_parties) if parties is None else parties
    return SumTask(
        Binding(b"federation", b"terms", release),
        b"request",
        parties,
        max_dropouts,
        length,
        limit // len(parties),
        limit,
    )


def random_words(task, seed=0):
    rng = np.random.default_rng(seed)
    limit = task.party_limit
    return {name: rng.integers(-limit, limit, task.length, endpoint=True) for name in task.parties}


class Fit:
    """A fit's roles, stopped between any two steps."""

    def __init__(
        self, n_parties=5, max_dropouts=2, min_honest=None, entropy=os.urandom, setup=None, **task
    ):
        self.task = make_task(n_parties, max_dropouts, **task)
        self.entropy = entropy
        self.settings = MaskedSum()
        min_honest = n_parties if min_honest is None else min_honest
        self.public, self.secrets = setup or self.settings.set_up(
            names(n_parties), min_honest, max_dropouts, entropy
        )
        self.sides = {
            name: self.settings.party(name, self.public, self.secrets[name])
            for name in self.public.parties
        }
        self.server = self.settings.server(self.public)
        self.nonces = {name: side.greet(entropy) for name, side in self.sides.items()}
        for side in self.sides.values():
            side.meet(self.nonces)
        self.words = random_words(self.task)
        self.sent = {}

    @property
    def plan(self):
        return plan_masks(self.public, self.task)

    def next_release(self):
        binding = dataclasses.replace(self.task.binding, release=self.task.binding.release + 1)
        self.task = dataclasses.replace(self.task, binding=binding)
        self.sent = {}

    def send(self, only=None):
        for name in self.task.parties if only is None else only:
            self.sent[name] = self.sides[name].protect(self.task, self.words[name], self.entropy)
        return self

    def gather(self, only=None):
        chosen = self.sent if only is None else only
        return self.server.gather(self.task, [self.sent[name] for name in chosen])

    def ask(self, request, opener):
        return self.server.request_for(self.task, request, opener)

    def open(self, opener, asked):
        return self.sides[opener].open(self.task, self.sent[opener], asked)

    def openings(self, request, silent=()):
        return {
            name: self.open(name, self.ask(request, name))
            for name in self.server.openers(self.task, request)
            if name not in silent
        }

    def finish(self, request, openings):
        return self.server.finish(self.task, request, openings)

    def total(self, only):
        return sum(self.words[name] for name in only)


def resent(message):
    """As the other side of a network reads it."""
    return from_bytes(to_bytes(message), type(message))


def flip(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def pair_secret(secret, public_key):
    return X25519PrivateKey.from_private_bytes(secret.private_key).exchange(
        X25519PublicKey.from_public_bytes(public_key)
    )


# What a curious server computes


def residual(fit, name, seeds):
    """What a server has left of one party's words once it removes the masks it knows."""
    words = fit.plan.words(fit.sent[name]).copy()
    add_keystreams(words, [(seed, -sign) for seed, sign in seeds])
    return words.view(np.int64)


def own_masks(fit, name):
    """Seeds and signs of all masks of a party with its peers."""
    side = fit.sides[name]
    return {
        peer: (side._seed(fit.task, peer, _mask_keys.MASK), 1 if name < peer else -1)
        for peer in fit.plan.graph.points[name]
    }


def opened_shares(fit, openings):
    """Of each survivor, by the point of each helper: its shares in the openings."""
    request = fit.gather()
    dropped = [name for name in fit.task.parties if name not in fit.sent]
    shares = {name: {} for name in fit.sent}
    for helper, opening in openings.items():
        asked = fit.ask(request, helper)
        sizes = [
            (peer, len(fit.plan.rows_to_open(peer, dropped)))
            for peer in fit.plan.graph.points[helper]
            if peer in fit.sent
        ]
        opened = fit.plan.opened_rows(opening, sizes, asked.list_digest)
        for name, rows in opened.items():
            shares[name][fit.plan.graph.points[name][helper]] = rows
    return shares


def recover(fit, openings):
    """All seeds that shares in openings give: of survivors' own masks, and of lost pairs."""
    dropped = [name for name in fit.task.parties if name not in fit.sent]
    found = {}
    for name, shares in opened_shares(fit, openings).items():
        points = sorted(shares)[: fit.plan.graph.threshold]
        seeds = combine(points, np.stack([shares[point] for point in points]))
        lost = [peer for peer in dropped if peer in fit.plan.graph.points[name]]
        found[name] = seeds[0]
        found.update({(name, peer): seed for peer, seed in zip(lost, seeds[1:], strict=True)})
    return found

"""Keys, tasks and whole runs for the tests of the Paillier sum."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from sklearn_fedpriv.secure import _paillier_keys as keys
from sklearn_fedpriv.secure._paillier import PaillierSum
from sklearn_fedpriv.secure._protocol import (
    Binding,
    SumTask,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "safe_primes.json"
PRIMES = {int(bits): [int(p) for p in ps] for bits, ps in json.loads(VECTORS.read_text()).items()}
REAL_SAFE_PRIME = keys.safe_prime


def names(n_parties):
    return tuple(f"party{i}" for i in range(n_parties))


def make_task(n_parties, length=30, party_limit=2**20, max_dropouts=0, release=1, limit=None):
    return SumTask(
        Binding(b"federation", b"terms", release),
        b"request",
        names(n_parties),
        max_dropouts,
        length,
        party_limit,
        n_parties * party_limit if limit is None else limit,
    )


def small(key_threshold=None, key_size=512):
    return PaillierSum(key_size=key_size, key_threshold=key_threshold, insecure_key=True)


def random_words(task, seed=0, only=None):
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-task.party_limit, task.party_limit, task.length, endpoint=True)
        for name in (task.parties if only is None else only)
    }


class Run:
    """A sum stopped before ``finish``, to be tampered with."""

    def __init__(self, n_parties=4, key_threshold=None, max_dropouts=0, only=None, **task):
        self.task = make_task(n_parties, max_dropouts=max_dropouts, **task)
        self.settings = small(key_threshold)
        self.public, self.secrets = self.settings.set_up(
            self.task.parties, n_parties, max_dropouts, os.urandom
        )
        self.sides = {
            name: self.settings.party(name, self.public, self.secrets[name])
            for name in self.task.parties
        }
        self.server = self.settings.server(self.public)
        self.words = random_words(self.task, only=only)
        self.sent = {
            name: self.sides[name].protect(self.task, words, os.urandom)
            for name, words in self.words.items()
        }

    def gather(self):
        return self.server.gather(self.task, self.sent.values())

    def open(self, name, request):
        return self.sides[name].open(self.task, self.sent[name], request)

    def request_and_openings(self):
        request = self.gather()
        return request, [self.open(name, request) for name in self.openers(request)]

    def openers(self, request):
        return self.server.openers(self.task, request)

    def finish(self, request, openings):
        return self.server.finish(self.task, request, openings)

    @property
    def total(self):
        return sum(self.words.values())


def flip(message, bit):
    payload = bytearray(message.payload)
    payload[bit // 8] ^= 1 << bit % 8
    return dataclasses.replace(message, payload=bytes(payload))

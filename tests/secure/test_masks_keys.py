"""Keys, seeds and neighbours of the masked sum, and what nobody may see of them."""

import dataclasses
import itertools
import os
import pickle
import re

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sklearn_fedpriv._wire import to_bytes
from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure import _mask_keys
from sklearn_fedpriv.secure._mask_keys import MaskKeys, MaskSecret, graph_of
from sklearn_fedpriv.secure._masks import MaskedSum
from sklearn_fedpriv.secure._protocol import Binding
from tests.secure.masks import Fit, names, pair_secret, recover, resent

# Seeds


def test_a_seed_depends_on_everything_it_is_bound_to():
    fit = Fit(3, 1)
    binding, peer = fit.task.binding, "party1"
    nonces = {name: bytes([i]) * 32 for i, name in enumerate(fit.task.parties)}

    def seed(secret=fit.secrets["party0"], keys=fit.public, nonces=nonces, b=binding, p="mask"):
        return _mask_keys.pair_seed(secret, keys, nonces, b, peer, p)

    other = Fit(3, 1)
    seeds = [
        seed(),
        seed(secret=other.secrets["party0"]),
        seed(keys=other.public),
        seed(secret=fit.secrets["party2"]),
        seed(nonces={**nonces, "party0": bytes([9]) * 32}),
        seed(nonces={**nonces, peer: bytes([9]) * 32}),
        seed(nonces={**nonces, peer: nonces["party0"], "party0": nonces[peer]}),
        seed(b=dataclasses.replace(binding, federation=b"other")),
        seed(b=dataclasses.replace(binding, terms=b"other")),
        seed(b=Binding(b"federationt", b"erms", 1)),
        seed(b=dataclasses.replace(binding, release=2)),
        seed(p=_mask_keys.SHARES_UP),
        seed(p=_mask_keys.SHARES_DOWN),
    ]
    assert len(set(seeds)) == len(seeds)
    assert seed(nonces={**nonces, "party2": bytes([9]) * 32}) == seeds[0]


def test_the_key_of_a_bundle_is_used_in_one_direction_only(monkeypatch):
    keys = []

    def recording(key):
        keys.append(key)
        return ChaCha20Poly1305(key)

    monkeypatch.setattr("sklearn_fedpriv.secure._masks.ChaCha20Poly1305", recording)
    fit = Fit().send()
    fit.next_release()
    fit.send()
    assert len(keys) == len(set(keys)) == 2 * 5 * 4


# The graph


def connected(points, without):
    left = [name for name in points if name not in without]
    reached, todo = {left[0]}, [left[0]]
    while todo:
        for peer in points[todo.pop()]:
            if peer not in reached and peer not in without:
                reached.add(peer)
                todo.append(peer)
    return len(reached) == len(left)


@pytest.mark.parametrize("n", range(2, 10))
def test_the_graph_holds_its_rule_and_no_fewer_than_degree_removals_split_it(n):
    for c in range(n):
        for d in range(n):
            try:
                graph = graph_of(names(n), c, d)
            except ValueError:
                assert d > 0 and n - 1 - d <= c
                continue
            points, k = graph.points, graph.degree
            assert k == n - 1 or (k % 2 == 0 and k >= c + d + 1)
            assert all(len(peers) == k and name not in peers for name, peers in points.items())
            assert all(name in points[peer] for name, peers in points.items() for peer in peers)
            for peers in points.values():
                assert list(peers) == sorted(peers) and list(peers.values()) == [*range(1, k + 1)]
            if d:
                assert c < graph.threshold == k - d
                assert k == n - 1 or 2 * graph.threshold > k + c
            else:
                assert graph.threshold == 0
            for removed in itertools.combinations(points, min(k, n - 1) - 1):
                assert connected(points, removed)


def test_the_graph_is_sparse_where_it_may_be():
    degrees = {
        (10, 0, 0): 2,
        (10, 8, 0): 9,
        (100, 10, 5): 22,
        (100, 98, 0): 99,
        (1000, 50, 20): 92,
        (5, 0, 2): 4,
    }
    for (n, c, d), degree in degrees.items():
        assert graph_of(tuple(f"{i:04}" for i in range(n)), c, d).degree == degree


@pytest.mark.parametrize(
    ("n", "min_honest", "max_dropouts", "message"),
    [
        (1, 1, 0, "at least 2 parties; got 1"),
        (2, 2, 1, "Set max_dropouts to 0 or less"),
        (5, 5, 4, "Set max_dropouts to 3 or less, or raise min_honest"),
        (10, 6, 5, "10 parties of which 4 may collude and 5 may drop out: the 4 neighbours"),
    ],
)
def test_what_no_graph_serves_is_refused(n, min_honest, max_dropouts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MaskedSum().check(n, min_honest, max_dropouts)
    with pytest.raises(ValueError, match=re.escape(message)):
        MaskedSum().set_up(names(n), min_honest, max_dropouts, os.urandom)


def test_what_is_served():
    for n, min_honest, max_dropouts in [(2, 2, 0), (2, 1, 0), (3, 3, 1), (5, 5, 3), (10, 6, 4)]:
        MaskedSum().check(n, min_honest, max_dropouts)


# Nonces and keys


def test_a_party_meets_all_the_others_or_does_not_start():
    fit = Fit(3, 0)
    side = fit.settings.party("party0", fit.public, fit.secrets["party0"])
    with pytest.raises(ProtocolError, match="own nonce"):
        side.meet(fit.nonces)
    with pytest.raises(ProtocolError, match="greet and meet come first"):
        side.protect(fit.task, fit.words["party0"], os.urandom)
    nonces = {**fit.nonces, "party0": side.greet(os.urandom)}
    for wrong, message in [
        ({**nonces, "party0": bytes(32)}, "own nonce unchanged"),
        ({name: nonces[name] for name in ("party0", "party1")}, r"foreign: \['party2'\]"),
        ({**nonces, "stranger": bytes(32)}, r"foreign: \['stranger'\]"),
        ({**nonces, "party2": bytes(31)}, r"32 bytes; wrong: \['party2'\]"),
        ({**nonces, "party2": b""}, r"32 bytes; wrong: \['party2'\]"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            side.meet(wrong)
    side.meet(nonces)
    side.protect(fit.task, fit.words["party0"], os.urandom)
    assert side.greet(os.urandom) != nonces["party0"]  # another fit, another nonce
    with pytest.raises(ProtocolError, match="greet and meet come first"):
        side.protect(fit.task, fit.words["party0"], os.urandom)


def test_wrong_keys_are_refused():
    fit, other = Fit(3, 0), Fit(3, 0)
    party = fit.settings.party
    for call, message in [
        (lambda: party("party0", None, fit.secrets["party0"]), "MaskKeys were expected"),
        (lambda: fit.settings.server(fit.secrets), "MaskKeys were expected; got a dict"),
        (lambda: party("party0", fit.public, b"x"), "needs a MaskSecret; got a bytes"),
        (lambda: party("party0", fit.public, fit.secrets["party1"]), "own public key"),
        (lambda: party("party0", fit.public, other.secrets["party0"]), "own public key"),
        (lambda: party("zoe", fit.public, MaskSecret("zoe", bytes(32))), "own public key"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            call()
    with pytest.raises(ValueError, match="32 bytes"):
        MaskSecret("a", bytes(31))
    keys = fit.public.public_keys
    for wrong in [
        (("b", "a", "c"), keys, 3),
        (("a", "b"), keys, 2),
        (("a", "b", "c"), (keys[0], keys[0], keys[1]), 3),
        (("a", "b", "c"), (keys[0], keys[1], b"x"), 3),
        (("a", "b", "c"), keys, 0),
        (("a", "b", "c"), keys, 4),
    ]:
        with pytest.raises(ValueError):
            MaskKeys(*wrong)


def test_a_public_key_of_small_order_is_refused():
    fit = Fit(3, 0)
    public_keys = (*fit.public.public_keys[:2], bytes(32))
    public = dataclasses.replace(fit.public, public_keys=public_keys)
    side = fit.settings.party("party0", public, fit.secrets["party0"])
    side.meet({**fit.nonces, "party0": side.greet(os.urandom)})
    with pytest.raises(ProtocolError, match="public key of party 'party2' is no key"):
        side.protect(fit.task, fit.words["party0"], os.urandom)


# What may be seen


def test_messages_and_records_round_trip():
    fit = Fit().send(names(4))
    request = fit.gather()
    asked = fit.ask(request, "party0")
    things = [fit.settings, fit.public, fit.secrets["party0"], fit.sent["party0"], asked]
    for thing in (*things, fit.open("party0", asked)):
        assert resent(thing) == thing


def test_no_secret_is_in_public_records_messages_and_reprs():
    drawn = []

    def entropy(n):
        drawn.append(os.urandom(n))
        return drawn[-1]

    fit = Fit(5, 1, entropy=entropy)
    drawn_before = set(drawn)
    fit.send()
    own_seeds = {data for data in drawn if len(data) == 32} - drawn_before
    assert len(own_seeds) == 5
    request = fit.gather()
    asked = [fit.ask(request, name) for name in fit.task.parties]
    openings = fit.openings(request)
    secret = {value.private_key for value in fit.secrets.values()} | own_seeds
    for a, b in itertools.permutations(fit.task.parties, 2):
        secret.add(pair_secret(fit.secrets[a], fit.public.of[b]))
        for purpose in (_mask_keys.MASK, _mask_keys.SHARES_UP, _mask_keys.SHARES_DOWN):
            secret.add(fit.sides[a]._seed(fit.task, b, purpose))
    assert len(secret) == 5 + 5 + 10 * 4

    things = [fit.public, *fit.sent.values(), *asked, *openings.values()]
    seen = b"".join([*map(to_bytes, things), *fit.nonces.values()])
    shown = "".join(map(repr, [*things, *fit.secrets.values(), *fit.sides.values(), fit.server]))
    for value in secret:
        assert value not in seen
        assert value.hex() not in shown and repr(value)[2:-1] not in shown
    # Nor do all openings together give a mask between two survivors.
    opened = set(recover(fit, openings).values())
    assert opened == own_seeds


def test_a_worker_of_the_party_masks_alike_and_gets_no_pair_secret():
    fit = Fit(3, 0).send()
    pickled = pickle.dumps(fit.sides["party0"])
    for peer in ("party1", "party2"):
        assert pair_secret(fit.secrets["party0"], fit.public.of[peer]) not in pickled
        assert fit.secrets[peer].private_key not in pickled
    side = pickle.loads(pickled)
    again = side.protect(fit.task, fit.words["party0"], os.urandom)
    assert again == fit.sent["party0"]

"""``phe`` (python-paillier) as an independent implementation, both ways."""

import builtins
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import phe
import pytest
from gmpy2 import mpz

from sklearn_fedpriv.secure import _paillier_keys as keys
from sklearn_fedpriv.secure._packing import plan_packing
from sklearn_fedpriv.secure._paillier import PaillierSum
from sklearn_fedpriv.secure._paillier_arithmetic import encrypt
from sklearn_fedpriv.secure._phe import from_phe_numbers, to_phe_key, to_phe_numbers
from sklearn_fedpriv.secure._protocol import Binding, Protected, SumTask

VECTORS = Path(__file__).parent.parent / "vectors" / "safe_primes.json"
PRIMES = {int(bits): [int(p) for p in ps] for bits, ps in json.loads(VECTORS.read_text()).items()}


@pytest.fixture(params=[512, 2048])
def setting(request, monkeypatch):
    """A federation of three, its words, and the whole key in the hands of ``phe``."""
    p, q = PRIMES[request.param // 2][:2]
    primes = iter((p, q))
    monkeypatch.setattr(keys, "safe_prime", lambda bits, entropy: next(primes))
    chosen = PaillierSum(key_size=request.param, insecure_key=True)
    parties = ("a", "b", "c")
    task = SumTask(Binding(b"f", b"t", 1), b"request", parties, 0, 100, 2**31, 3 * 2**31)
    public, shares = chosen.set_up(parties, 3, 0, os.urandom)
    private = phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)
    rng = np.random.default_rng(0)
    words = {name: rng.integers(-(2**31), 2**31, 100, endpoint=True) for name in parties}
    return chosen, task, public, shares, private, words


def test_phe_opens_what_we_encrypt(setting):
    _, task, public, _, private, _ = setting
    plaintexts = [0, 1, public.modulus - 1, 2**200 + 12345]
    ciphertexts = encrypt(public, [mpz(p) for p in plaintexts], os.urandom)
    assert [private.raw_decrypt(int(c)) for c in ciphertexts] == plaintexts


def test_phe_adds_and_opens_our_contributions(setting):
    chosen, task, public, shares, private, words = setting
    packing = plan_packing(task, public.key_size)
    columns = [
        to_phe_numbers(public, chosen.party(n, public, shares[n]).protect(task, w, os.urandom))
        for n, w in words.items()
    ]
    sums = [sum(column[1:], column[0]) for column in zip(*columns, strict=True)]
    assert len(sums) == packing.n_plaintexts
    opened = [mpz(private.raw_decrypt(number.ciphertext())) for number in sums]
    np.testing.assert_array_equal(packing.unpack(opened, 3), sum(words.values()))


def test_our_parties_open_what_phe_encrypts(setting):
    chosen, task, public, shares, _, words = setting
    packing, phe_key = plan_packing(task, public.key_size), to_phe_key(public)
    sides = {n: chosen.party(n, public, shares[n]) for n in task.parties}
    sent = {}
    for name in task.parties:
        numbers = [
            phe.EncryptedNumber(phe_key, phe_key.raw_encrypt(int(plaintext)), 0)
            for plaintext in packing.pack(words[name])
        ]
        payload = from_phe_numbers(public, numbers)
        sent[name] = Protected(task.binding, task.request, name, payload)
    server = chosen.server(public)
    request = server.gather(task, sent.values())
    openings = [sides[n].open(task, sent[n], request) for n in server.openers(task, request)]
    np.testing.assert_array_equal(server.finish(task, request, openings), sum(words.values()))


def test_a_contribution_goes_to_phe_and_back(setting):
    chosen, task, public, shares, _, words = setting
    sent = chosen.party("a", public, shares["a"]).protect(task, words["a"], os.urandom)
    numbers = to_phe_numbers(public, sent)
    back = from_phe_numbers(public, numbers)
    # phe blinds what it has not blinded itself before it lets it go.
    assert len(back) == len(sent.payload) and back != sent.payload
    again = to_phe_numbers(public, dataclasses.replace(sent, payload=back))
    assert all(number.exponent == 0 for number in again)


def test_numbers_under_another_key_or_with_fractions_are_refused(setting):
    public = setting[2]
    other, _ = phe.generate_paillier_keypair(n_length=256)
    with pytest.raises(ValueError, match="Number 0 is encrypted under another modulus"):
        from_phe_numbers(public, [other.encrypt(3)])
    phe_key = to_phe_key(public)
    with pytest.raises(ValueError, match="Number 1 must have exponent 0"):
        from_phe_numbers(public, [phe_key.encrypt(3), phe_key.encrypt(0.5)])


def test_without_phe_the_error_says_what_to_install(setting, monkeypatch):
    real_import = builtins.__import__

    def without_phe(name, *args, **kwargs):
        if name == "phe":
            raise ImportError("No module named 'phe'")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_phe)
    with pytest.raises(ImportError, match=r'pip install "sklearn-fedpriv\[phe\]"'):
        to_phe_key(setting[2])


def test_no_module_imports_phe_by_itself():
    code = (
        "import sys, sklearn_fedpriv.secure._paillier, sklearn_fedpriv.secure._phe; "
        "sys.exit('phe' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

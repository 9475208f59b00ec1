"""What the threshold-Paillier sum costs: ``python -m benchmarks.paillier``, about a minute.

One core, CPU time, medians, a key of 2048 bits for ten parties; ``phe`` (python-paillier) and bare
``gmpy2`` loops are measured in the same run, alternating with ours.

Predicted before the first run, from the number of multiplications modulo N^2 (5 us each on an idle
core) and the 2,048-bit exponents of phe (9 ms), and what the first run gave, on a busy core:

* encryption: 128 multiplications a ciphertext of 42 to 51 slots, so 60,000 to 75,000 values/s and
  550 times phe. Found: 36,000 to 54,000 values/s, 600 to 750 times.
* the same with table entries of half the length, whose other half is added up: half of that time.
  Found: 63,000 to 72,000 values/s, 880 to 1,080 times, in the same load.
* partial decryption: one power a ciphertext and nothing else, ratio 1.02. Found: 0.99 to 1.04.
* combination: exponents are binomials of at most 9 bits, so 0.7 ms a ciphertext for ten openers.
  Found: 0.65 to 1.15 ms.
* key generation: a sieve to 2^22 leaves some 700 candidates a prime, so 1 s for both. Found: 0.8 to
  1.4 s.
"""

import math
import os
import statistics
import time

import gmpy2
import numpy as np
import phe
from gmpy2 import mpz

from benchmarks._common import pin_to_one_core, print_table, seconds
from sklearn_fedpriv.secure import PaillierSum
from sklearn_fedpriv.secure._packing import plan_packing
from sklearn_fedpriv.secure._paillier_arithmetic import (
    combine,
    decrypt_partially,
    encrypt,
    multiply,
)
from sklearn_fedpriv.secure._paillier_keys import PaillierKeyShare, PaillierPublicKey, deal_keys
from sklearn_fedpriv.secure._protocol import Binding, PartySide, SumTask

N_PARTIES = 10
PARTIES = tuple(f"party{i}" for i in range(N_PARTIES))
REPEATS = 25

Row = tuple[str, str, str]


def make_task(bits: int, length: int) -> SumTask:
    """A sum of words of so many bits, with sign."""
    party_limit = 2 ** (bits - 1) - 1
    limit = N_PARTIES * party_limit
    return SumTask(Binding(b"f", b"t", 1), b"r", PARTIES, 0, length, party_limit, limit)


def make_words(task: SumTask) -> np.ndarray:
    """Uniform words in the task's range."""
    rng = np.random.default_rng(0)
    return rng.integers(-task.party_limit, task.party_limit, task.length, endpoint=True)


def time_dealing() -> Row:
    """Safe primes and shares."""
    times = []
    for _ in range(9):
        start = time.process_time()
        deal_keys(PARTIES, N_PARTIES, os.urandom)
        times.append(time.process_time() - start)
    shown = f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"
    return ("deal keys, 2048 bits", shown, "2-5 s")


def time_protecting(party: PartySide, key: PaillierPublicKey, bits: int) -> list[Row]:
    """Packing and encryption against ``phe`` value by value."""
    n_slots = plan_packing(make_task(bits, 1), key.key_size).n_slots
    task = make_task(bits, 20 * n_slots)
    words, phe_key = make_words(task), phe.PaillierPublicKey(key.modulus)
    one = int(words[0])
    ours, theirs = seconds(
        lambda: party.protect(task, words, os.urandom),
        lambda: phe_key.encrypt(one),
        repeats=REPEATS,
    )
    rate, phe_rate = task.length / ours, 1 / theirs
    return [
        (
            f"protect {bits}-bit words, {n_slots} a ciphertext, packing included",
            f"{rate:,.0f} values/s",
            ">= 45,000",
        ),
        (f"phe, {bits}-bit words one by one", f"{phe_rate:,.0f} values/s", ""),
        ("ratio", f"{rate / phe_rate:,.0f}", ">= 300"),
    ]


def time_counters(party: PartySide, key: PaillierPublicKey) -> list[Row]:
    """Ten thousand counters (T65), and the packing by itself."""
    task = make_task(40, 10_000)
    words, packing = make_words(task), plan_packing(task, key.key_size)
    plaintexts = packing.pack(words)
    [whole] = seconds(lambda: party.protect(task, words, os.urandom), repeats=5)
    pack, unpack = seconds(
        lambda: packing.pack(words), lambda: packing.unpack(plaintexts, 1), repeats=REPEATS
    )
    return [
        ("protect 10,000 counters of 40 bits (T65)", f"{whole:.2f} s", "< 5 s"),
        ("pack, unpack", f"{10 / pack / 1e3:.0f} M, {10 / unpack / 1e3:.0f} M values/s", ""),
    ]


def time_opening(key: PaillierPublicKey, share: PaillierKeyShare) -> list[Row]:
    """Multiplication and partial decryption against a bare loop of powers."""
    n_slots = plan_packing(make_task(40, 1), key.key_size).n_slots
    contributions = [encrypt(key, [mpz(i)] * 2, os.urandom) for i in range(N_PARTIES)]
    products = multiply(key, contributions)
    exponent = 2 * math.factorial(N_PARTIES) * mpz(share.share)
    square = mpz(key.modulus) ** 2
    adding, partial, bare = seconds(
        lambda: multiply(key, contributions),
        lambda: decrypt_partially(key, share, products),
        lambda: [gmpy2.powmod(number, exponent, square) for number in products],
        repeats=REPEATS,
    )
    return [
        ("multiply ten contributions", f"{adding / 2 * 1e6:.0f} us/ciphertext", ""),
        (
            "partial decryption",
            f"{partial / 2 * 1e3:.1f} ms/ciphertext = {n_slots * 2 / partial:,.0f} values/s",
            "",
        ),
        ("bare powmod loop", f"{bare / 2 * 1e3:.1f} ms/ciphertext", ""),
        ("ratio", f"{partial / bare:.2f}", "<= 1.3"),
    ]


def time_combining(threshold: int) -> Row:
    """The server's last step, at its usual openers: the first ones."""
    key, shares = deal_keys(PARTIES, threshold, os.urandom)
    n_slots = plan_packing(make_task(40, 1), key.key_size).n_slots
    sums = encrypt(key, [mpz(i) for i in range(10)], os.urandom)
    partials = {
        shares[name].index: decrypt_partially(key, shares[name], sums)
        for name in PARTIES[:threshold]
    }
    [taken] = seconds(lambda: combine(key, partials), repeats=REPEATS)
    return (
        f"combine {threshold} of {N_PARTIES}",
        f"{taken / 10 * 1e3:.2f} ms/ciphertext = {n_slots * 10 / taken:,.0f} values/s",
        "",
    )


def main() -> None:
    """Measure and print a Markdown table."""
    pin_to_one_core()
    settings = PaillierSum()
    key, shares = settings.set_up(PARTIES, N_PARTIES, 0, os.urandom)
    party = settings.party(PARTIES[0], key, shares[PARTIES[0]])
    start = time.process_time()
    encrypt(key, [mpz(1)], os.urandom)
    table = time.process_time() - start

    rows = [
        time_dealing(),
        ("table of powers, once a key", f"{table:.2f} s", ""),
        *time_protecting(party, key, 32),
        *time_protecting(party, key, 40),
        *time_counters(party, key),
        *time_opening(key, shares[PARTIES[0]]),
        time_combining(10),
        time_combining(6),
    ]
    print_table("Threshold Paillier", ("step", "median", "wanted"), rows)


if __name__ == "__main__":
    main()

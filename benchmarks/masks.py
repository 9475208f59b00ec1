"""What the masked sum costs: ``python -m benchmarks.masks``, about a minute.

One core, CPU time, medians. Masking is measured beside a bare AES-256-CTR keystream of the same
length in the same run, alternating, because the core may be shared. A thousand parties run in a
fresh process, whose peak memory is its own, in wall-clock time. Flower's SecAgg+ joins in where it
can be imported (``pip install flwr``, in an environment of its own, as it pins other packages).

Predicted before the first run, from 1.15 ms a keystream of 1e6 words on an idle core, and what was
found on a busy one, where the bare keystream took 1.45 to 2 ms:

* 10 parties, all pairs: 9 keystreams and 3 ms of copies, 13 ms. Found: 24 ms, 9 of them for copies
  into fresh memory; 16 ms without these; 10 to 11 ms with the counter mode inside of GCM, for which
  OpenSSL uses wider instructions.
* 100 parties, all pairs: 99 keystreams, 115 ms. Found: 165 ms, then 91 to 102 ms.
* 100 parties in a ring of degree 22, with own masks and shares: 23 keystreams and 1 ms, 28 ms.
  Found: 48 ms, then 24 to 27 ms, 0.3 ms of them for the shares.
* 1,000 parties of 1e4 values: 92 neighbours each; 10 ms for shares, 2 ms for 93 keystreams and 4 ms
  for keys a party to protect, half of that to open, so 30 s and 600 MB. Found: 34 to 43 s, 573 to
  597 MB; protecting takes 21 to 30 ms, as encoding what seeds are bound to was forgotten.
* Flower's SecAgg+, 5 clients, 1e6 values: no prediction but the goal of 5 times. Found: 2.3 times
  with 64-bit words and each contribution hashed twice from a copy; 8.6 to 10.8 times with the
  modulus 2^32 that Flower uses and no copies.
"""

import os
import statistics
import time
from importlib.util import find_spec

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR

from benchmarks._common import (
    in_fresh_process,
    peak_megabytes,
    pin_to_one_core,
    print_table,
    seconds,
)
from sklearn_fedpriv.secure._mask_wire import plan_masks
from sklearn_fedpriv.secure._masks import MaskedSum
from sklearn_fedpriv.secure._protocol import Binding, PartySide, ServerSide, SumTask, run_secure_sum
from sklearn_fedpriv.secure._shares import combine, share

REPEATS = 15
WORDS = 1_000_000

Row = tuple[str, str, str]


def make_task(n_parties: int, max_dropouts: int, length: int, limit: int = 2**53) -> SumTask:
    """A sum, of 64-bit words if no other limit is given."""
    parties = tuple(f"party{i:04}" for i in range(n_parties))
    binding = Binding(b"federation", b"terms", 1)
    return SumTask(binding, b"request", parties, max_dropouts, length, limit // n_parties, limit)


def make_sides(task: SumTask, min_honest: int) -> tuple[dict[str, PartySide], ServerSide, int]:
    """All roles, introduced to each other, and the number of neighbours of a party."""
    settings = MaskedSum()
    public, secrets = settings.set_up(task.parties, min_honest, task.max_dropouts, os.urandom)
    sides = {name: settings.party(name, public, secrets[name]) for name in task.parties}
    nonces = {name: side.greet(os.urandom) for name, side in sides.items()}
    for side in sides.values():
        side.meet(nonces)
    return sides, settings.server(public), plan_masks(public, task).graph.degree


def make_words(task: SumTask, seed: int = 0) -> np.ndarray:
    """Uniform words in the task's range."""
    limit = task.party_limit
    return np.random.default_rng(seed).integers(-limit, limit, task.length, endpoint=True)


def time_masking(n_parties: int, min_honest: int, max_dropouts: int, goal: str) -> Row:
    """One party's ``protect``, beside its keystreams alone."""
    task = make_task(n_parties, max_dropouts, WORDS)
    sides, _, degree = make_sides(task, min_honest)
    side, words = sides[task.parties[0]], make_words(task)
    side.protect(task, words, os.urandom)  # agrees with its neighbours, once a federation
    zeros, out = bytes(8 * WORDS), bytearray(8 * WORDS + 16)

    def bare() -> None:
        Cipher(AES256(bytes(32)), CTR(bytes(16))).encryptor().update_into(zeros, out)

    ours, keystream = seconds(lambda: side.protect(task, words, os.urandom), bare, repeats=REPEATS)
    n_streams = degree + (max_dropouts > 0)
    return (
        f"mask 1e6 words of 64 bits, {n_parties} parties, {degree} neighbours, {max_dropouts} "
        "dropouts",
        f"{ours * 1e3:.1f} ms = {ours / n_streams / keystream:.2f} x {n_streams} bare keystreams",
        goal,
    )


def time_shares() -> list[Row]:
    """Shares of all seeds of a party, and their recombination."""
    rows = []
    for degree, threshold in ((22, 17), (92, 72)):
        secrets = [os.urandom(32) for _ in range(degree + 1)]
        shares = share(secrets, threshold, degree, os.urandom)
        points = range(1, threshold + 1)
        dealing, combining = seconds(
            lambda s=secrets, t=threshold, k=degree: share(s, t, k, os.urandom),
            lambda p=points, s=shares[:threshold]: combine(p, s),
            repeats=REPEATS,
        )
        rows.append(
            (
                f"share {degree + 1} seeds, {threshold} of {degree}; combine them",
                f"{dealing * 1e3:.1f} ms; {combining * 1e3:.1f} ms",
                "",
            )
        )
    return rows


def thousand_parties() -> list[Row]:
    """All roles of one release of 1,000 parties, of which 20 drop out before sending."""
    before = peak_megabytes()
    task = make_task(1_000, 20, 10_000)
    start = time.perf_counter()
    sides, server, degree = make_sides(task, 950)
    met = time.perf_counter()
    answering = [name for i, name in enumerate(task.parties) if i % 50 != 7]
    expected = np.zeros(task.length, dtype=np.int64)
    making, sent = 0.0, []
    for i, name in enumerate(answering):
        began = time.perf_counter()
        words = make_words(task, i)
        expected += words
        making += time.perf_counter() - began
        sent.append(sides[name].protect(task, words, os.urandom))
    protected = time.perf_counter()
    request = server.gather(task, sent)
    own = dict(zip(answering, sent, strict=True))
    openings = [
        sides[name].open(task, own[name], server.request_for(task, request, name))
        for name in server.openers(task, request)
    ]
    opened = time.perf_counter()
    total = server.finish(task, request, openings)
    finished = time.perf_counter()
    n_sent = len(answering)
    exact = "exact" if np.array_equal(total, expected) else "WRONG"
    of_party = (protected - met - making) / n_sent, (opened - protected) / n_sent
    return [
        (
            f"1,000 parties, 1e4 values, {degree} neighbours, 20 dropped: whole release, one core",
            f"{finished - start - making:.1f} s, {exact}",
            "< 90 s, exact",
        ),
        ("keys and nonces of all", f"{met - start:.2f} s", ""),
        (
            "protect (first release: agrees with its neighbours), open, a party",
            f"{of_party[0] * 1e3:.1f} ms, {of_party[1] * 1e3:.1f} ms",
            "",
        ),
        ("finish, server", f"{finished - opened:.1f} s", ""),
        (
            "peak memory of the process, all parties in it",
            f"{peak_megabytes():.0f} MB, {before:.0f} of them before",
            "< 1 GB",
        ),
    ]


def against_flower() -> list[Row]:
    """Five clients, 1e6 values, one dropping; both sides run all roles in this process."""
    if find_spec("flwr") is None:
        return [("Flower's SecAgg+", "not installed", "")]
    from benchmarks.flower_secagg import secaggplus

    task = make_task(5, 1, WORDS, limit=2**31 - 1)  # modulo 2^32, as theirs
    words = {name: make_words(task, i) for i, name in enumerate(task.parties) if i != 2}
    ours, theirs = [], []
    for _ in range(5):
        theirs.append(secaggplus(n_clients=5, length=WORDS))
        start = time.perf_counter()
        total = run_secure_sum(MaskedSum(), task, words, 5, os.urandom)
        ours.append(time.perf_counter() - start)
    exact = "exact" if np.array_equal(total, sum(words.values())) else "WRONG"
    taken, own = statistics.median(run[0] for run in theirs), statistics.median(ours)
    error, n_results = max(run[1] for run in theirs), theirs[0][2]
    return [
        (
            f"Flower's SecAgg+, 5 clients, 1e6 values, one dropped, {n_results} in the mean",
            f"{taken:.2f} s, largest error of the mean {error:.1g}",
            "",
        ),
        ("masked sum, the same, keys included", f"{own:.2f} s, {exact}", "exact"),
        ("ratio", f"{taken / own:.1f}", ">= 5"),
    ]


def main() -> None:
    """Measure and print a Markdown table."""
    pin_to_one_core()
    rows = [
        time_masking(10, 2, 0, "<= 15 ms"),
        time_masking(100, 2, 0, "<= 130 ms"),
        time_masking(100, 90, 5, "<= 25 ms"),
        *time_shares(),
        *in_fresh_process(thousand_parties),
        *against_flower(),
    ]
    print_table("Masked sums", ("step", "found", "wanted"), rows)


if __name__ == "__main__":
    main()

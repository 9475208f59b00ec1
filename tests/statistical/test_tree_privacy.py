"""What a fit of the tree really releases: noise on every number, and nothing beside the sums.

Error rates: the tests of spreads would fail for right code about once in a million runs each, were
their seeds drawn at random. Seeds are fixed, so the outcome is the same every time.
"""

import re
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sklearn_fedpriv import FederatedDPDecisionTree, PaillierSum
from sklearn_fedpriv._wire import digest, to_bytes
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.federation import _run as run_module
from sklearn_fedpriv.federation._messages import noise_of, sum_task
from sklearn_fedpriv.federation._query import RowQuery
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy._calibration import gaussian_budget
from sklearn_fedpriv.secure._paillier import _PaillierServer
from sklearn_fedpriv.secure._plain import _PlainServer
from sklearn_fedpriv.secure._protocol import Opening, OpenRequest, Protected, SumTask

pytestmark = pytest.mark.slow

ERROR_RATE = 1e-6
N_PARTIES, MIN_HONEST, UNKNOWN = 5, 4, 3  # one colluder and the curious party know their shares
N_SEEDS = 300
EPSILON, DELTA = 4.0, 1e-5
COUNT_SHARE, LEVEL_SHARE = 0.02, 0.49  # of the budget, in a fit of two levels without a hint

# Weight of a node asked 3 features beside one asked 4: 32 times the root of 4/3, or 32 times 4/3.
RAISED = {"gaussian": 36, "laplace": 42}
FACTS = {
    "categories": [
        ["low", "middle", "high"],
        ["absent", "present"],
        ["absent", "present"],
        ["absent", "present"],
    ],
    "classes": [0, 1],
}


def parties(n_rows=400, seed=0):
    """The first column decides, the others nearly do: one first split, whatever the noise.

    Its left child has one value of that column, so it is asked one feature less than the right one,
    and their weights differ.
    """
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(N_PARTIES):
        first = rng.integers(0, 3, n_rows)
        y = np.where(rng.random(n_rows) < 0.98, first == 0, first != 0).astype(int)
        others = [np.where(rng.random(n_rows) < 0.85, y, 1 - y) for _ in range(3)]
        columns = [np.array(FACTS["categories"][0])[first]]
        columns += [np.array(["absent", "present"])[column] for column in others]
        made.append((np.array(columns, dtype=object).T, y))
    return made


def tree(**arguments):
    arguments = {"epsilon": EPSILON, "delta": DELTA, "max_depth": 2, **FACTS, **arguments}
    return FederatedDPDecisionTree(min_honest=MIN_HONEST, **arguments)


@pytest.fixture
def releases(monkeypatch):
    """(terms, query, share, what ``Run.release`` returned), as they come."""
    recorded = []
    release = Run.release

    def recording(self, query, share):
        answer = release(self, query, share)
        recorded.append((self, query, share, answer))
        return answer

    monkeypatch.setattr(Run, "release", recording)
    return recorded


def truth(run, query):
    """The answer without noise, row by row."""
    return sum(RowQuery.ticks(query, p._X, p._y, None) for p in run._parties.values())


def normal_scores(noise, mechanism, squared, absolute, share):
    """Noise as what would be standard normal if it had the law that theory says.

    All shares are in a released sum; as many as nobody else knows carry the budget.
    """
    extra = N_PARTIES / UNKNOWN
    if mechanism == "gaussian":
        mu_squared = float(gaussian_budget(Fraction(4), Fraction(1, 10**5)))
        return noise / (squared / (share * mu_squared) * extra) ** 0.5
    ratio = np.exp(-share * EPSILON / absolute)
    reach = int(60 / (1 - ratio))
    one_side = stats.nbinom.pmf(np.arange(2 * reach), extra, 1 - ratio)
    law = np.convolve(one_side, one_side[::-1])[reach - 1 : 3 * reach]
    k = noise.astype(int) + len(law) // 2
    below = np.cumsum(law)
    return stats.norm.ppf(np.clip((below[k] + below[k - 1]) / 2, 1e-12, 1 - 1e-12))


def expected_sensitivity(level, mechanism):
    """(squared L2, L1) by hand: four features at the root; then three or four of them, weighted."""
    if level == 0:
        return 1, 1
    if level == 1:
        return 4, 4
    raised = RAISED[mechanism]
    return max(3 * raised**2, 4 * 32**2), max(3 * raised, 4 * 32)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_every_released_number_has_the_spread_that_theory_says(releases, mechanism):
    """Chi-square of each number over 300 seeds, and of each pair of numbers their correlation.

    Bonferroni over all numbers, or pairs: right code fails once in a million runs each.
    """
    data = parties()
    for seed in range(N_SEEDS):
        tree(mechanism=mechanism, random_state=seed).fit(data)
    fits = [releases[i : i + 3] for i in range(0, len(releases), 3)]
    # The root's two children come in either order; all else is the same in every fit.
    assert len(fits) == N_SEEDS and len({to_bytes(query) for _, query, _, _ in releases}) <= 4
    assert {tuple(fit[2][1].weight) for fit in fits} <= {(32, RAISED[mechanism])} | {
        (RAISED[mechanism], 32)
    }

    scores = []
    for level, share in enumerate([COUNT_SHARE, LEVEL_SHARE, LEVEL_SHARE]):
        exact = {}
        noise = []
        for run, query, used, answer in (fit[level] for fit in fits):
            assert float(used) == share
            key = to_bytes(query)
            if key not in exact:
                exact[key] = truth(run, query)
            noise.append(answer - exact[key])
            if level == 2 and query.weight[0] == 32:
                noise[-1] = np.roll(noise[-1], 12)
        squared, absolute = expected_sensitivity(level, mechanism)
        scores.append(normal_scores(np.array(noise), mechanism, squared, absolute, share))
    scores = np.concatenate(scores, axis=1)

    n_numbers = scores.shape[1]
    assert n_numbers == 1 + 9 * 2 + (6 + 8) * 2
    low, high = stats.chi2.ppf(
        [ERROR_RATE / 2 / n_numbers, 1 - ERROR_RATE / 2 / n_numbers], N_SEEDS
    )
    squares = (scores**2).sum(axis=0)
    assert (low < squares).all() and (squares < high).all()
    # All numbers together see what one alone cannot: shares sized wrongly by a few per cent.
    low, high = stats.chi2.ppf([ERROR_RATE / 2, 1 - ERROR_RATE / 2], N_SEEDS * n_numbers)
    assert low < squares.sum() < 1.01 * high
    centres = np.abs(scores.sum(axis=0)) / N_SEEDS**0.5
    assert centres.max() < stats.norm.isf(ERROR_RATE / 2 / n_numbers)
    pairs = np.abs(np.corrcoef(scores.T)[np.triu_indices(n_numbers, 1)])
    tangled = np.arctanh(pairs) * (N_SEEDS - 3) ** 0.5
    assert tangled.max() < stats.norm.isf(ERROR_RATE / 2 / len(pairs))


# --- what the server receives ---------------------------------------------------------------------


@pytest.fixture
def received(monkeypatch):
    """All that was passed to a server's side, and the requests that were sent out."""
    heard, asked = [], []

    def listen(side, name):
        call = getattr(side, name)

        def listening(self, *arguments):
            heard.extend(tuple(a) if isinstance(a, list | tuple) else a for a in arguments)
            return call(self, *arguments)

        monkeypatch.setattr(side, name, listening)

    for name in ("check", "gather", "openers", "finish"):
        listen(_PaillierServer, name)
        listen(_PlainServer, name)

    def asking(terms, ask):
        asked.append(ask)
        return sum_task(terms, ask)

    monkeypatch.setattr(run_module, "sum_task", asking)
    return heard, asked


def flat(messages):
    for message in messages:
        yield from flat(message) if isinstance(message, tuple) else [message]


@pytest.mark.parametrize("protocol", ["paillier", "plain"])
def test_the_server_receives_protected_sums_of_the_named_queries_only(
    received, protocol, small_primes
):
    """Neither rows, nor codes, nor counts, nor words in clear, nor sizes that depend on rows."""
    heard, asked = received
    protocols = {"paillier": PaillierSum(key_size=512, insecure_key=True), "plain": "plain"}
    facts = {**FACTS, "bounds": {4: (0.0, 100.0)}}
    facts["categories"] = [*FACTS["categories"], None]
    data = [
        (np.column_stack([X, np.full(len(X), 98.7654321 + i)]).astype(object), y)
        for i, (X, y) in enumerate(parties(n_rows=397))
    ]
    model = tree(secure_sum=protocols[protocol], **facts).fit(data)

    text = re.sub(r"\s+", " ", type(model).__doc__)
    named = set(re.search(r"Server sees: ([\w, ]+);", text).group(1).split(", "))
    assert {type(ask.query).__name__ for ask in asked} <= named
    kinds = {Protected, OpenRequest, SumTask, *([Opening] if protocol == "paillier" else [])}
    assert {type(message) for message in flat(heard)} == kinds

    tasks = {digest(ask): task for ask in asked for task in flat(heard) if _answers(task, ask)}
    answers = [message for message in flat(heard) if isinstance(message, Protected)]
    assert len({to_bytes(answer) for answer in answers}) == N_PARTIES * len(asked)
    for answer in answers:
        length = tasks[answer.answers].length
        sizes = {"plain": {8 * length}, "paillier": {16 + 128 * n for n in range(1, length + 1)}}
        assert len(answer.payload) in sizes[protocol]
    for task in tasks.values():
        assert len({len(a.payload) for a in answers if a.binding == task.binding}) == 1

    everything = b"".join(to_bytes(message) for message in flat(heard))
    canaries = [b"middle", b"present", b"98.765"]  # long: ciphertexts hold any short text by chance
    for i, (X, y) in enumerate(data):
        canaries.append(np.float64(98.7654321 + i).tobytes())
        canaries += [y[:8].astype(kind).tobytes() for kind in ("<i8", "<i4", "<i2")]
        codes = np.searchsorted(["high", "low", "middle"], X[:12, 0].astype(str))
        canaries += [codes.astype(kind).tobytes() for kind in ("<i8", "<i4", "<i2", "u1")]
    counts = [sum((y == c).sum() for _, y in data) for c in (0, 1)]
    canaries.append(np.array(counts, dtype="<i8").tobytes())
    assert not [canary for canary in canaries if canary in everything]


def _answers(message, ask):
    return isinstance(message, SumTask) and message.request == digest(ask)


def test_under_paillier_no_party_of_the_sum_sends_its_words_in_clear(
    received, small_primes, monkeypatch
):
    """The words that went into the ciphertexts are in none of the messages."""
    words = []
    from sklearn_fedpriv.secure._packing import Packing

    pack = Packing.pack
    monkeypatch.setattr(
        Packing, "pack", lambda self, w: words.append((w.copy(), self)) or pack(self, w)
    )
    tree(secure_sum=PaillierSum(key_size=512, insecure_key=True)).fit(parties(50))
    everything = b"".join(to_bytes(message) for message in flat(received[0]))
    assert len(words) == N_PARTIES * len(received[1])
    for w, packing in words:
        for plaintext in pack(packing, w):
            data = int(plaintext).to_bytes(64, "little")
            assert data[:24] not in everything and data[:24][::-1] not in everything
        if len(w) > 1:
            assert w.astype("<i8").tobytes()[:32] not in everything


# --- neighbours -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("hint", [None, 2000])
@pytest.mark.parametrize("depth", [None, 2])
def test_neighbours_have_the_same_plan_and_the_same_noise(
    releases, monkeypatch, mechanism, hint, depth
):
    """Plan, queries and sizes of noise are functions of public facts and released numbers.

    With the released numbers held equal, one row more changes nothing that is asked or charged.
    """
    plans = []
    start = Federation.start
    monkeypatch.setattr(
        Federation,
        "start",
        lambda self, budget, plan, **rest: (
            plans.append((budget, tuple(plan))) or start(self, budget, plan, **rest)
        ),
    )
    release = Run.release  # replaces what was released by what was released the first time
    first_time = []

    def replaying(self, query, share):
        number = len(releases) - len(first_time) if first_time else None
        answer = release(self, query, share)
        return answer if number is None else first_time[number]

    monkeypatch.setattr(Run, "release", replaying)
    data = parties()
    longer = [
        (
            np.vstack([data[0][0], [["high", "absent", "present", "absent"]]]),
            np.append(data[0][1], 1),
        )
    ]
    fits = []
    for rows in (data, longer + data[1:]):
        model = tree(mechanism=mechanism, n_rows_hint=hint, max_depth=depth, random_state=0)
        model.fit(rows)
        fits.append((list(releases), model.privacy_))
        first_time[:] = [answer for _, _, _, answer in releases]
    one, two = fits[0][0], fits[1][0][len(fits[0][0]) :]
    assert plans[0] == plans[1] and len(one) == len(two) >= 2
    for (run_a, query_a, share_a, _), (run_b, query_b, share_b, _) in zip(one, two, strict=True):
        assert to_bytes((query_a, share_a)) == to_bytes((query_b, share_b))
        assert noise_of(run_a.terms, query_a, share_a) == noise_of(run_b.terms, query_b, share_b)
    assert fits[0][1] == fits[1][1]

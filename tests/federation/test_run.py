"""One release end to end: charged first, bounded, noised as theory says, refused when it should."""

import copy
import pickle
import threading
import warnings
from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from scipy.stats import chi2

from sklearn_fedpriv._wire import digest, from_bytes, to_bytes
from sklearn_fedpriv.exceptions import (
    BudgetExceeded,
    FedPrivError,
    ProtocolError,
    RangeOverflow,
    TooFewParties,
)
from sklearn_fedpriv.federation import Federation, Party
from sklearn_fedpriv.federation._messages import Ask, noise_of, sum_task
from sklearn_fedpriv.federation._party import PartyRun, answer, one_thread, piece, silence
from sklearn_fedpriv.federation._query import MAX_ROWS
from sklearn_fedpriv.federation._terms import noise_for
from sklearn_fedpriv.privacy import privacy_budget
from sklearn_fedpriv.privacy._calibration import gaussian_budget, gaussian_epsilon
from sklearn_fedpriv.privacy._events import GaussianEvent, PureEvent
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.secure import PaillierSum, PlainSum
from sklearn_fedpriv.secure._protocol import Binding, OpenRequest
from tests.federation.toys import (
    ALL,
    HALF,
    ToyCode,
    ToyCount,
    ToyHostile,
    ToyMean,
    ToyPieces,
    ToySum,
    ToyWrapping,
    plan,
    rows,
)

ONE = budget(1.0, 1e-5)
FREE = budget(inf, 1e-5)
SEED = bytes(range(32))


def test_without_noise_the_sum_is_the_sum():
    parties = rows()
    run = Federation(parties).start(FREE, plan(ToyCount()))
    assert run.release(ToyCount(), ALL) == 100
    run = Federation(parties).start(FREE, plan(ToySum(3, 100.0)))
    exact = sum(X.sum(axis=0) for X, _ in parties)
    assert np.allclose(run.release(ToySum(3, 100.0), ALL), exact, atol=100 * 100 / 4000)
    run = Federation(parties).start(FREE, plan(ToyMean(3, 10.0)), unit="party", adjacency="replace")
    assert np.allclose(
        run.release(ToyMean(3, 10.0), ALL), sum(X.mean(axis=0) for X, _ in parties), atol=0.01
    )


@pytest.mark.parametrize(("mechanism", "law"), [("gaussian", 1.0), ("laplace", 2.0)])
@pytest.mark.parametrize("min_honest", [1, 3, 4])
def test_the_noise_of_a_release_has_the_predicted_spread(mechanism, law, min_honest):
    """Chi-square on 2,000 numbers; each of the 6 cases fails for right code once in a million."""
    query = ToyCount(bound=2000, length=2000)
    federation = Federation(rows(), min_honest=min_honest)
    run = federation.start(budget(1.0, 1e-5, mechanism), plan(query), seed=SEED)
    noise = run.release(query, ALL) - 100
    m = max(1, min_honest - 1)
    if mechanism == "gaussian":
        sd = (2000 / float(gaussian_budget(Fraction(1), Fraction(1, 10**5)))) ** 0.5
        low, high = chi2.ppf([5e-7, 1 - 5e-7], 2000)
    else:
        sd = 2**0.5 * 2000
        low, high = 2000 * 0.6, 2000 * 1.55  # fourth moment 6: five sigma of the mean square
    assert low <= np.sum((noise / sd) ** 2) / (4 / m) <= high


def test_every_number_of_a_release_is_noisy():
    query = ToyCount(bound=50, length=50)
    seen = set()
    for i in range(3):
        run = Federation(rows()).start(ONE, plan(query), seed=bytes([i]) * 32)
        seen.add(tuple(run.release(query, ALL)))
    assert len(seen) == 3
    assert all(len(set(column)) > 1 for column in zip(*seen, strict=True))


def test_two_releases_of_a_fit_and_two_fits_of_a_federation_share_no_noise():
    query = ToyCount(bound=50, length=50)
    federation = Federation(rows())
    run = federation.start(ONE, plan(query, 2), seed=SEED)
    first, second = run.release(query, HALF), run.release(query, HALF)
    third = federation.start(ONE, plan(query, 2), seed=SEED).release(query, HALF)
    again = Federation(rows()).start(ONE, plan(query, 2), seed=SEED).release(query, HALF)
    assert len({tuple(first), tuple(second), tuple(third)}) == 3
    assert np.array_equal(first, again)


@pytest.mark.parametrize("bound", [1.0, 100.0])
def test_a_query_that_breaks_its_promise_is_held_to_it(bound):
    query = ToyHostile(4, bound)
    total = Federation(rows()).start(FREE, plan(query)).release(query, ALL)
    assert np.linalg.norm(total) <= 100 * bound * 1.001


def test_a_failing_party_is_named_without_its_rows():
    parties = [Party(*pair, name=name) for pair, name in zip(rows(2), "ab", strict=True)]
    query = ToyHostile(4, 1.0, fails=True)
    run = Federation(parties).start(ONE, plan(query))
    with pytest.raises(FedPrivError, match=r"Party 'a' failed in release 0 \(ToyHostile\)") as info:
        run.release(query, ALL)
    assert "secret" not in str(info.value)
    assert info.value.__context__ is info.value.__cause__ is None


def test_G24_silence_is_of_one_thread_and_leaves_nothing_behind():
    """Another thread's filters, saved inside and restored outside, once silenced all for good."""
    inside, outside = threading.Event(), threading.Event()
    heard = []

    def other():
        with warnings.catch_warnings():
            inside.set()
            outside.wait(10)
            warnings.warn("others are heard", UserWarning, stacklevel=1)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *rest: heard.append(str(message))
        with silence():
            thread = threading.Thread(target=other)
            thread.start()
            inside.wait(10)
            warnings.warn("secret", UserWarning, stacklevel=1)
            with silence():
                warnings.warn("secret", DeprecationWarning, stacklevel=1)
            warnings.warn("secret", UserWarning, stacklevel=1)
            outside.set()
            thread.join()
        warnings.warn("after", UserWarning, stacklevel=1)
    assert heard == ["others are heard", "after"]


def test_G24_nothing_stands_behind_an_error_of_ours():
    """A query may meet a foreign error and speak of it in words of ours."""
    run = Federation(rows(1)).start(ONE, plan(ToyWrapping(4, 1.0)))
    with pytest.raises(ProtocolError, match="in our words") as info:
        run.release(ToyWrapping(4, 1.0), ALL)
    assert info.value.__context__ is info.value.__cause__ is None


def test_nothing_outside_the_plan_is_asked():
    run = Federation(rows()).start(ONE, plan(ToyCount(), 2))
    for query, share, message in (
        (ToySum(3, 1.0), HALF, "has no ToySum"),
        (ToyMean(1, 1.0), HALF, "protect a record; a ToyMean bounds what a party adds"),
        (ToyCount(length=3), HALF, "release 2 more numbers of ToyCount; 3 were asked"),
    ):
        with pytest.raises(BudgetExceeded, match=message):
            run.release(query, share)
    run.release(ToyCount(), HALF)
    with pytest.raises(BudgetExceeded, match="this one would take 59.9"):
        run.release(ToyCount(), Fraction(6, 10))
    run.release(ToyCount(), HALF)
    with pytest.raises(BudgetExceeded, match="release no further ToyCount"):
        run.release(ToyCount(), Fraction(1, 10**6))


def test_a_veto_charges_nobody():
    a, b = (
        Party(*pair, name=n, max_epsilon=e)
        for pair, n, e in zip(rows(2), "ab", (9, 0.5), strict=True)
    )
    with privacy_budget(5.0) as ceiling:
        with pytest.raises(BudgetExceeded, match="'b' allows epsilon=0.5"):
            Federation([a, b]).start(ONE, plan(ToyCount()))
        assert a.ledger.entries == b.ledger.entries == [] and ceiling.spent == (0.0, 0.0)


def test_a_ceiling_charges_nobody_either():
    a, b = (Party(*pair) for pair in rows(2))
    with privacy_budget(0.5), pytest.raises(BudgetExceeded, match="privacy_budget allows"):
        Federation([a, b]).start(ONE, plan(ToyCount()))
    assert a.ledger.entries == []


def test_ledgers_outlive_fits():
    parties = [Party(*pair) for pair in rows(2)]
    for n_fits in (1, 2, 3):
        Federation(parties).start(ONE, plan(ToyCount()))
        assert [party.ledger.epsilon for party in parties] == [n_fits] * 2


def test_an_overflow_is_refused_before_anything_is_charged():
    parties = [Party(*pair) for pair in rows()]
    with privacy_budget(1e40) as ceiling:
        with pytest.raises(RangeOverflow, match="bits and there are 64"):
            Federation(parties).start(budget(1e30, 1e-5), plan(ToySum(3, 1.0)))
        assert ceiling.spent == (0.0, 0.0)
    assert all(party.ledger.entries == [] for party in parties)


def test_the_smallest_share_of_a_plan_sizes_the_words():
    parties = [Party(*pair) for pair in rows()]
    planned = plan(ToyCount(), 2)[0]
    Federation(rows()).start(ONE, [planned])
    Federation(rows()).start(ONE, [replace(planned, smallest=HALF)])
    with pytest.raises(RangeOverflow, match="bits and there are 64"):
        Federation(parties).start(ONE, [replace(planned, smallest=Fraction(1, 2**140))])
    assert all(party.ledger.entries == [] for party in parties)


@pytest.mark.parametrize("smallest", [Fraction(0), Fraction(-1, 2), Fraction(3, 4)])
def test_the_smallest_share_of_a_plan_is_a_part_of_its_share(smallest):
    with pytest.raises(ValueError, match="positive and at most its share, 1/2"):
        PlannedRelease("ToyCount", 2, Fraction(1, 2), 2, smallest=smallest)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_large_noise_is_whole_words(mechanism):
    """Above 2^45 ticks noise is drawn as Python ints."""
    tiny = budget(1e-15, 1e-15, mechanism)
    run = Federation(rows(), secure_sum="plain").start(tiny, plan(ToyCount()))
    noise = noise_for(run.terms, ALL, 1, 1)
    assert noise.sd(1) > 2**45
    drawn = noise.draw(5, Stream(bytes(32)))
    assert drawn.dtype == np.int64 and np.abs(drawn).max() > 2**45
    run.release(ToyCount(), ALL)


def test_a_bound_beyond_the_plan_is_refused():
    run = Federation(rows()).start(ONE, [PlannedRelease("ToyCount", 1, ALL, 9, squared=4)])
    with pytest.raises(BudgetExceeded, match="squared bound of 4 at most; 5 came"):
        run.release(ToyCount(bound=5), ALL)


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), Fraction(3, 2)])
def test_no_share_is_zero_negative_or_more_than_all(share):
    """A negative share would buy a release without noise and refill the ledger."""
    run = Federation(rows()).start(ONE, plan(ToyCount()))
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        run.release(ToyCount(), share)
    with pytest.raises(ValueError, match=r"share in \(0, 1\]"):
        PlannedRelease("ToyCount", 1, share, 1)
    for event in (GaussianEvent, PureEvent):
        with pytest.raises(ValueError, match="must be positive"):
            event(share - 2)


def test_parties_charge_before_any_of_them_answers(monkeypatch):
    import sklearn_fedpriv.federation._run as module

    order = []
    charge = module.PartyRun.charge
    monkeypatch.setattr(
        module.PartyRun, "charge", lambda self, ask: order.append("charge") or charge(self, ask)
    )
    for name, work in (("piece", piece), ("answer", answer)):
        monkeypatch.setattr(
            module, name, lambda *job, name=name, work=work: order.append(name) or work(*job)
        )
    query, neighbours = ToyPieces(1, 10.0), {"unit": "party", "adjacency": "replace"}
    run = Federation(rows()).start(ONE, plan(query), code=ToyCode(1.0), **neighbours)
    run.release(query, ALL)
    assert order == ["charge"] * 4 + ["piece"] * 4 + ["answer"] * 4


@pytest.fixture
def open_run():
    run = Federation(rows(3), secure_sum="plain").start(ONE, plan(ToyCount(), 2))
    ask = Ask(Binding(run.terms.federation, run.terms.digest, 0), ToyCount(), HALF)
    return run, ask


def test_a_party_refuses_repeated_disordered_and_foreign_requests(open_run):
    run, ask = open_run
    party = run._parties["0"]
    for change in ({"release": 1}, {"terms": b"x"}, {"federation": b"x"}):
        with pytest.raises(ProtocolError, match="expects release 0"):
            party.charge(replace(ask, binding=replace(ask.binding, **change)))
    party.charge(ask)
    with pytest.raises(ProtocolError, match="expects release 1"):
        party.charge(ask)


def test_an_identical_repeat_gets_the_same_bytes_and_an_altered_one_nothing(open_run):
    run, ask = open_run
    party = run._parties["0"]
    assert party.repeat(ask) is None
    job = party.charge(ask)
    sent = party.sent(answer(job))
    assert to_bytes(party.repeat(ask)) == to_bytes(sent)
    assert to_bytes(answer(job)) != to_bytes(sent)  # fresh noise: why repeats come from the log
    with pytest.raises(ProtocolError, match="different request"):
        party.repeat(replace(ask, query=ToyCount(bound=2)))


def test_a_party_opens_once_and_only_what_it_has_sent_to(open_run):
    run, ask = open_run
    jobs = {name: party.charge(ask) for name, party in run._parties.items()}
    task = jobs["0"].task
    sent = [run._parties[name].sent(answer(job)) for name, job in jobs.items() if name != "2"]
    request = OpenRequest(task.binding, tuple(sent))
    with pytest.raises(ProtocolError, match="has sent nothing and opens nothing"):
        run._parties["2"].open(request)
    with pytest.raises(TooFewParties):
        run._parties["0"].open(request)


def test_no_message_holds_a_noise_scale():
    run = Federation(rows()).start(ONE, plan(ToyCount()))
    ask = Ask(Binding(run.terms.federation, run.terms.digest, 0), ToyCount(), ALL)
    _, noise = sum_task(run.terms, ask)
    forbidden = {noise.share, noise.scale, noise.event.mu_squared, noise.sd(4)} - {1}
    for message in (ask, run.terms):
        assert not forbidden & set(walk(message))
        assert from_bytes(to_bytes(message)) == message


def walk(value):
    if hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from walk(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from walk(item)
    else:
        yield value


def test_two_requests_with_different_bytes_never_share_a_task():
    """1 and True are equal in Python and differ on the wire."""
    run = Federation(rows()).start(ONE, plan(ToyCount(bound=1)))
    binding = Binding(run.terms.federation, run.terms.digest, 0)
    one, true = (Ask(binding, ToyCount(bound=bound), ALL) for bound in (1, True))
    assert one != true and one == Ask(binding, ToyCount(), ALL)
    assert sum_task(run.terms, one)[0].request != sum_task(run.terms, true)[0].request


def test_terms_bind_everything_that_was_agreed():
    terms = Federation(rows()).start(ONE, plan(ToyCount())).terms
    for change in (
        {"fit": 1},
        {"parties": ("0", "1", "2", "4")},
        {"min_honest": 3},
        {"max_dropouts": 1},
        {"keys": b"x"},
        {"unit": "party"},
        {"adjacency": "replace"},
        {"budget": budget(2.0, 1e-5)},
        {"calibration": "published"},
        {"plan": tuple(plan(ToyCount(), 2))},
        {"transforms": (ToyCount(),)},
        {"seeded": True},
    ):
        assert digest(replace(terms, **change)) != terms.digest


def test_a_plan_beyond_the_budget_is_refused():
    with pytest.raises(ValueError, match="more than the budget"):
        Federation(rows()).start(ONE, plan(ToyCount()) + plan(ToySum(3, 1.0)))
    with pytest.raises(ValueError, match="a kind of query twice"):
        Federation(rows()).start(ONE, [replace(plan(ToyCount())[0], share=HALF)] * 2)


@pytest.mark.parametrize(
    ("n", "min_honest", "max_dropouts", "m"),
    [
        (1, 1, 0, 1),
        (2, 2, 0, 1),
        (10, 10, 0, 9),
        (10, 6, 0, 5),
        (10, 6, 2, 3),
        (10, 1, 0, 1),
        (100, 50, 20, 29),
    ],
)
def test_shares_are_sized_by_those_nobody_else_knows(n, min_honest, max_dropouts, m):
    federation = Federation(rows(n, 1), min_honest=min_honest, max_dropouts=max_dropouts)
    terms = federation.start(ONE, plan(ToyCount())).terms
    assert terms.unknown_shares == m
    noise = noise_of(terms, ToyCount(), ALL)
    total = gaussian_budget(Fraction(1), Fraction(1, 10**5), 1)
    needed = noise.scale**2 / total
    assert needed <= m * noise.share - 3 <= needed * Fraction(102, 100)
    assert noise.share >= 5
    assert isinstance(noise.event, GaussianEvent) and noise.event.mu_squared <= total


def test_replacing_a_record_costs_twice_the_sensitivity():
    shares = []
    for adjacency in ("add_remove", "replace"):
        terms = Federation(rows()).start(ONE, plan(ToySum(3, 1.0)), adjacency=adjacency).terms
        noise = noise_of(terms, ToySum(3, 1.0), ALL)
        shares.append((3 * noise.share - 3) / noise.scale**2)
    assert float(shares[1] / shares[0]) == pytest.approx(4, rel=1e-3)


def test_the_servers_own_line_under_plain_sums_is_that_of_one_share():
    run = Federation(rows(10), secure_sum="plain").start(ONE, plan(ToyCount()))
    mu_squared = gaussian_budget(Fraction(1), Fraction(1, 10**5))
    nine_fold = gaussian_epsilon(mu_squared * 9, Fraction(1, 10**5))
    assert nine_fold <= run.report().server_epsilon <= 1.3 * nine_fold
    assert (
        Federation(rows(10), min_honest=1, secure_sum="plain")
        .start(ONE, plan(ToyCount()))
        .report()
        .server_epsilon
        < 1.1
    )
    assert (
        Federation(rows(1), secure_sum="plain").start(ONE, plan(ToyCount())).report().server_epsilon
        == 1.0
    )
    pure = budget(1.0, 1e-5, "laplace")
    assert (
        Federation(rows(3), secure_sum="plain")
        .start(pure, plan(ToyCount()))
        .report()
        .server_epsilon
        == inf
    )


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_the_sum_is_the_same_on_any_backend(backend):
    from joblib import parallel_config

    query = ToySum(3, 1.0)
    one = Federation(rows()).start(ONE, plan(query), seed=SEED).release(query, ALL)
    with parallel_config(backend=backend):
        two = Federation(rows(), n_jobs=2).start(ONE, plan(query), seed=SEED).release(query, ALL)
    assert np.array_equal(one, two)


def test_words_hold_every_party_at_its_limit():
    run = Federation(rows()).start(ONE, plan(ToyCount()))
    ask = Ask(Binding(run.terms.federation, run.terms.digest, 0), ToyCount(), ALL)
    task, noise = sum_task(run.terms, ask)
    assert task.limit >= 4 * noise.scale * MAX_ROWS + 9 * float(4 * noise.share) ** 0.5
    assert task.party_limit >= noise.scale * MAX_ROWS + 9 * float(noise.share) ** 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"min_honest": 5}, TooFewParties, "min_honest=5 needs at least as many parties; got 4"),
        ({"min_honest": 0}, ValueError, "min_honest must be an int of at least 1"),
        ({"min_honest": True}, ValueError, "min_honest must be an int"),
        ({"max_dropouts": -1}, ValueError, "max_dropouts must be an int of at least 0"),
        ({"max_dropouts": 4}, ValueError, "max_dropouts must be below"),
        ({"min_honest": 2, "max_dropouts": 2}, ValueError, "below min_honest=2"),
        ({"secure_sum": "mask"}, ValueError, r"one of \['masks', 'paillier', 'plain'\]"),
    ],
)
def test_trust_that_makes_no_sense_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Federation(rows(), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"min_honest": 50}, "needs at least as many parties"),
        ({"max_dropouts": 4}, "max_dropouts must be below"),
        ({"adjacency": "replcae"}, "unit and adjacency must be one of"),
        ({"unit": "row"}, "unit and adjacency must be one of"),
        ({"parties": ("1", "0", "2", "3")}, "distinct and sorted"),
        ({"calibration": "guessed"}, "calibration must be one of"),
    ],
)
def test_a_party_checks_the_terms_it_reads(change, message):
    terms = Federation(rows()).start(ONE, plan(ToyCount())).terms
    with pytest.raises(ValueError, match=message):
        replace(terms, **change)


@pytest.mark.parametrize(
    ("name", "public", "seed", "message"),
    [
        ("z", None, None, "not in the terms"),
        ("0", b"other", None, "has other keys"),
        ("0", None, SEED, "disagree on the seed"),
    ],
)
def test_a_party_joins_only_terms_that_name_it_and_its_keys(name, public, seed, message):
    terms = Federation(rows(), secure_sum="plain").start(ONE, plan(ToyCount())).terms
    side = PlainSum().party(name, None, None)
    with pytest.raises(ProtocolError, match=message):
        PartyRun(Party(*rows()[0]), *rows()[0], terms, public, side, seed)


@pytest.mark.parametrize("code", [None, ToyCode(2.0)])
def test_a_party_joins_only_terms_with_the_code_that_it_built(code):
    federation = Federation(rows(), secure_sum="plain")
    terms = federation.start(ONE, plan(ToyCount()), code=ToyCode(1.0)).terms
    side = PlainSum().party("0", None, None)
    with pytest.raises(ProtocolError, match="built other code"):
        PartyRun(Party(*rows()[0]), *rows()[0], terms, None, side, None, code)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_local_work_runs_in_pieces_with_the_party_s_own_code(n_jobs):
    parties, query = rows(), ToyPieces(3, 10.0)
    federation = Federation(parties, n_jobs=n_jobs)
    neighbours = {"unit": "party", "adjacency": "replace"}
    run = federation.start(FREE, plan(query), code=ToyCode(2.0), **neighbours)
    means = sum(X.mean(axis=0) for X, _ in parties)
    assert np.allclose(run.release(query, ALL), 2 * means, atol=0.02)


def test_a_party_opens_by_the_task_it_derived_itself(small_primes):
    """A server that claims more dropouts than agreed gets no sum of too few."""
    settings = PaillierSum(key_size=256, insecure_key=True, key_threshold=2)
    run = Federation(rows(5), secure_sum=settings).start(ONE, plan(ToyCount()))
    ask = Ask(Binding(run.terms.federation, run.terms.digest, 0), ToyCount(), ALL)
    jobs = {name: party.charge(ask) for name, party in run._parties.items()}
    sent = [run._parties[name].sent(answer(job)) for name, job in jobs.items()]
    with pytest.raises(TooFewParties, match="found 2"):
        run._parties["0"].open(OpenRequest(ask.binding, tuple(sent[:2])))
    run._parties["0"].open(OpenRequest(ask.binding, tuple(sent)))


def test_keys_are_renewed_after_an_error_in_opening(small_primes, monkeypatch):
    settings = PaillierSum(key_size=256, insecure_key=True)
    federation = Federation(rows(3), secure_sum=settings)
    first, second = (federation.start(ONE, plan(ToyCount())) for _ in range(2))
    assert first.terms.keys == second.terms.keys

    def fail(*args):
        raise ProtocolError("a share is wrong")

    monkeypatch.setattr(type(first._server), "finish", fail)
    with pytest.raises(ProtocolError, match="a share is wrong"):
        first.release(ToyCount(), ALL)
    assert federation.start(ONE, plan(ToyCount())).terms.keys != first.terms.keys


def test_overlapping_answers_share_one_limit_on_threads():
    from threadpoolctl import threadpool_info

    def blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas()
    with one_thread():
        with one_thread():
            assert set(blas()) == {1}
        assert set(blas()) == {1}
    assert blas() == before


def test_a_party_is_not_copied_and_comes_once():
    party = Party(*rows()[0])
    for copier in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="ledger would lose what is spent"):
            copier(party)
    with pytest.raises(ValueError, match="same Party object came twice"):
        Federation([party, party])
    with pytest.raises(TypeError, match=r"a Party or a tuple \(X, y\); got a ndarray"):
        Federation([np.zeros((2, 2)), np.zeros((2, 2))])


def test_seeded_fits_are_marked_in_the_ledger():
    party = Party(*rows()[0])
    federation = Federation([party])
    federation.start(ONE, plan(ToyCount()))
    federation.start(ONE, plan(ToyCount()), seed=SEED)
    assert [entry.seeded for entry in party.ledger.entries] == [False, True]


def test_names_are_distinct_and_a_federation_is_not_pickled():
    with pytest.raises(ValueError, match=r"repeated: \['a'\]"):
        Federation([Party(*pair, name="a") for pair in rows(2)])
    with pytest.raises(TooFewParties, match="at least one party"):
        Federation([])
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Federation(rows()))


@pytest.mark.parametrize(
    "arguments", [{"name": 3}, {"name": ""}, {"max_epsilon": -1}, {"max_delta": "1"}]
)
def test_a_party_checks_its_arguments(arguments):
    with pytest.raises(ValueError, match="of a Party must be"):
        Party([[1.0]], [0], **arguments)

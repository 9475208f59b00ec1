"""One test for each rule of the guarantee that no other file tests, named after its rule.

The rules G1 to G25 stand in the documentation of the guarantee; where a rule is not named here, its
test stands with the part that keeps it.
"""

import pickle
import traceback
from dataclasses import dataclass, replace
from fractions import Fraction

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpfr

from sklearn_fedpriv import FederatedDPDecisionTree
from sklearn_fedpriv._wire import record
from sklearn_fedpriv.datasets import load_hospitals
from sklearn_fedpriv.exceptions import BudgetExceeded, FedPrivError, ProtocolError
from sklearn_fedpriv.federation import Federation, Party
from sklearn_fedpriv.federation import _party as party_module
from sklearn_fedpriv.federation._messages import Ask, noise_of, sum_task
from sklearn_fedpriv.federation._party import answer
from sklearn_fedpriv.federation._public_facts import RowFacts
from sklearn_fedpriv.federation._query import RowQuery
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy import _randomness, privacy_budget
from sklearn_fedpriv.privacy._calibration import gaussian_budget, gaussian_epsilon
from sklearn_fedpriv.privacy._clip import clip_rows
from sklearn_fedpriv.privacy._fixed_point import lattice_for, squared_ticks
from sklearn_fedpriv.privacy._ledger import budget
from sklearn_fedpriv.privacy._randomness import seed_key
from sklearn_fedpriv.privacy._tails import gaussian_tail, polya_tail
from sklearn_fedpriv.secure._protocol import Binding, OpenRequest
from sklearn_fedpriv.tree._growth import Growth
from sklearn_fedpriv.tree._splits import Schema
from tests.federation.toys import ALL, HALF, ToyCount, ToyHostile, ToyMean, plan, rows

HOSPITALS = load_hospitals()
ONE = budget(1.0, 1e-5)
SEED = bytes(range(32))


def ask_of(run, query=None, share=ALL, release=0):
    binding = Binding(run.terms.federation, run.terms.digest, release)
    return Ask(binding, ToyCount() if query is None else query, share)


def test_G3_a_fact_is_never_taken_from_rows_on_other_machines():
    with pytest.raises(ValueError, match="must be declared"):
        RowFacts("Estimator", local=False).take("classes", "classes", [0, 1])


def test_G6_a_party_refuses_too_little_noise_whatever_the_server_says():
    """The request goes straight to the party: no ledger of the server stands before it."""
    run = Federation(rows()).start(ONE, plan(ToyCount(), 3))
    party = run._parties["0"]
    party.charge(ask_of(run, share=Fraction(6, 10)))
    with pytest.raises(BudgetExceeded, match="party '0'"):
        party.charge(ask_of(run, share=Fraction(6, 10), release=1))


@record
@dataclass(frozen=True)
class HostileCounts(RowQuery):
    """Whole numbers that keep no promise; ``kind`` says which."""

    integral = True
    absolute_bound = 2
    kind: str
    bound: int = 4
    length: int = 4

    def contributions(self, X, y):
        values = {"large": 2, "L1": 1, "wrapping": 2**62, "lowest": -(2**63), "nan": np.nan}
        return np.full((len(X), 4), values[self.kind])


@pytest.mark.parametrize("kind", ["large", "L1", "wrapping", "lowest"])
def test_G7_whole_numbers_beyond_their_bounds_count_for_nothing(kind):
    """Squared norm 16 over 4; L1 norm 4 over 2; squares and absolute values that wrap to 0."""
    assert HostileCounts(kind).ticks(np.zeros((3, 1)), None, None).tolist() == [0] * 4


def test_G7_counts_that_are_no_numbers_are_refused_or_count_for_nothing():
    run = Federation(rows()).start(ONE, plan(HostileCounts("nan")))
    try:
        assert np.abs(run.release(HostileCounts("nan"), ALL)).max() < 1000
    except FedPrivError:
        pass


@pytest.mark.parametrize("d", [1, 100, 26010])
def test_G8_the_worst_rounding_of_a_row_at_its_bound_is_charged(d):
    """All entries equal, just above half a tick: each of them is rounded up."""
    for bound in np.linspace(1, 2, 41):
        lattice = lattice_for(bound, d)
        entry = np.ldexp(np.floor(np.ldexp(bound / d**0.5, -lattice.exponent)) + 0.501, 0)
        worst = float(np.ldexp(entry, lattice.exponent) * d**0.5)
        if lattice_for(worst, d) != lattice:
            continue
        row = np.full((1, d), worst / d**0.5)
        ticks = lattice.encode(clip_rows(row, worst))[0].astype(object)
        assert (ticks * ticks).sum() <= squared_ticks(worst, d, lattice)


@pytest.mark.parametrize("n_parties", [3, 50, 1000])
def test_G10_shares_are_wide_and_charged_with_three_ticks_less(n_parties):
    run = Federation(rows(n_parties, 1)).start(ONE, plan(ToyCount()))
    noise = noise_of(run.terms, ToyCount(), ALL)
    m = n_parties - 1
    assert noise.share >= 5
    assert noise.event.mu_squared >= noise.scale**2 / (m * noise.share - 3)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_G12_words_have_room_for_all_shares_at_their_tail(mechanism):
    terms = Federation(rows(50, 1)).start(budget(1.0, 1e-5, mechanism), plan(ToyCount())).terms
    task, noise = sum_task(terms, Ask(Binding(b"", b"", 0), ToyCount(), ALL))
    answers = 50 * noise.scale * ToyCount().party_limit
    for n_shares, limit in ((50, task.limit - answers), (1, task.party_limit - answers // 50)):
        if mechanism == "gaussian":
            assert limit >= gaussian_tail(n_shares * noise.share, 64)
        else:
            assert limit >= polya_tail(noise.share, n_shares, noise.polya, 64)


def exact_delta(epsilon, mu):
    """Balle & Wang 2018, Theorem 8, at the precision of the context."""
    root = gmpy2.sqrt(mpfr(2))
    above = gmpy2.erfc((epsilon / mu - mu / 2) / root)
    return (above - gmpy2.exp(epsilon) * gmpy2.erfc((epsilon / mu + mu / 2) / root)) / 2


@pytest.mark.parametrize("epsilon", ["1/1000", "1/10", "1", "8", "100"])
@pytest.mark.parametrize("delta", ["1/100", "1/100000", "1/1000000000000"])
def test_G13_the_calibrated_noise_is_private_to_the_last_digit(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    total = gaussian_budget(epsilon, delta)
    with gmpy2.context(precision=400):
        mu = gmpy2.sqrt(mpfr(total))
        assert exact_delta(mpfr(epsilon), mu) <= mpfr(delta)
        assert exact_delta(mpfr(epsilon), mu * (1 + mpfr(2) ** -50)) > mpfr(delta)
        found = mpfr(gaussian_epsilon(total, delta))
        assert exact_delta(found, mu) <= mpfr(delta)


def test_G14_parties_without_names_may_be_anybody():
    """A fit on unnamed parties adds up with every other fit, before it and after it."""
    unnamed = [Party(*pair) for pair in rows(2)]
    named = [Party(*pair, name=name) for pair, name in zip(rows(2), "ab", strict=True)]
    for first, second in ((unnamed, named), (named, unnamed)):
        with privacy_budget(1.5, 1e-3) as ceiling:
            Federation(first).start(ONE, plan(ToyCount()))
            with pytest.raises(BudgetExceeded, match="privacy_budget"):
                Federation(second).start(ONE, plan(ToyCount()))
            assert ceiling.spent[0] == 1.0


def test_G16_a_party_opens_one_sum_of_a_release_and_no_second_one():
    """Two survivor lists of one release would tell the difference: one party's answer alone."""
    run = Federation(rows(4), max_dropouts=1, secure_sum="plain").start(ONE, plan(ToyCount()))
    ask = ask_of(run)
    sent = tuple(party.sent(answer(party.charge(ask))) for party in run._parties.values())
    party = run._parties["0"]
    first = party.open(OpenRequest(ask.binding, sent))
    assert party.open(OpenRequest(ask.binding, sent)) == first
    with pytest.raises(ProtocolError, match="different request"):
        party.open(OpenRequest(ask.binding, sent[:3]))


@pytest.mark.parametrize("seed", [SEED, None], ids=["seeded", "unseeded"])
def test_G20_no_two_streams_have_the_same_key(seed, monkeypatch):
    """Over parties, purposes, releases and fits."""
    keys = []

    class Listening(party_module.Stream):
        def __init__(self, key):
            keys.append(key)
            super().__init__(key)

    monkeypatch.setattr(party_module, "Stream", Listening)
    federation = Federation(rows(3))
    for _ in range(2):
        run = federation.start(
            ONE, plan(ToyMean(3, 1.0), 2), unit="party", adjacency="replace", seed=seed
        )
        run.release(ToyMean(3, 1.0), HALF)
        run.release(ToyMean(3, 1.0), HALF)
    assert len(keys) == len(set(keys)) == 2 * 2 * 3 * 2


def test_G20_a_fresh_key_is_256_bits_of_the_operating_system(monkeypatch):
    drawn = []
    urandom = _randomness.os.urandom
    monkeypatch.setattr(_randomness.os, "urandom", lambda n: drawn.append(urandom(n)) or drawn[-1])
    assert _randomness.fresh_key() == drawn[0] and len(drawn) == 1 and len(drawn[0]) == 32


def test_G20_seeds_of_any_size_differ():
    seeds = [0, 1, 2**31, 2**32, 2**32 + 1, 2**64, 2**128]
    assert len({seed_key(seed) for seed in seeds}) == len(seeds)


def test_G20_a_seeded_fit_says_that_it_is_not_private():
    parties, facts = HOSPITALS.parties, HOSPITALS.public
    report = FederatedDPDecisionTree(random_state=0, **facts).fit(parties).privacy_
    assert report.seeded and not report.private
    assert "private: no, random_state was set" in str(report)
    assert not FederatedDPDecisionTree(**facts).fit(parties).privacy_.seeded


def test_G24_a_fitted_tree_is_a_function_of_what_was_released(monkeypatch):
    """With the same released numbers, quite other rows give the same model to the last byte."""
    released, replayed = [], []
    release = Run.release

    def recording(self, query, share):
        answer = release(self, query, share)
        if len(replayed) < len(released) and frozen:
            answer = released[len(replayed)]
            replayed.append(answer)
        else:
            released.append(answer)
        return answer

    monkeypatch.setattr(Run, "release", recording)
    frozen = []
    for parties in (
        HOSPITALS.parties,
        [(X[::-3] * 0.9 + 0.1, 1 - y[::-3]) for X, y in HOSPITALS.parties],
    ):
        model = FederatedDPDecisionTree(random_state=0, **HOSPITALS.public).fit(parties)
        frozen.append(pickle.dumps(pickle.loads(pickle.dumps(model))))
    assert len(replayed) == len(released) >= 2
    assert frozen[0] == frozen[1]
    fitted = set(vars(model)) - set(model.get_params())
    assert fitted == {"n_features_in_", "classes_", "tree_", "privacy_", "_coder"}


def test_G24_a_traceback_of_a_failing_party_quotes_no_row():
    """Neither the error's text nor a cause that would be printed above it."""
    query = ToyHostile(3, 1.0, fails=True)
    run = Federation(rows()).start(ONE, plan(query))
    with pytest.raises(FedPrivError) as caught:
        run.release(query, ALL)
    assert caught.value.__cause__ is None
    text = "".join(traceback.format_exception(caught.value))
    assert "KeyError." in text and "'secret" not in text


def test_G19_a_request_of_another_budget_or_plan_is_another_request():
    """Terms that differ in anything have other digests, so a party of one refuses the other's."""
    one = Federation(rows()).start(ONE, plan(ToyCount()))
    two = Federation(rows()).start(replace(ONE, epsilon=Fraction(2)), plan(ToyCount()))
    with pytest.raises(ProtocolError, match="bound to other terms"):
        one._parties["0"].charge(ask_of(two))


@pytest.mark.parametrize("kind", ["i1", "u1", "<i2", "<u8"])
@pytest.mark.parametrize("name", ["weight", "n_values"])
def test_G7_numbers_of_a_type_in_which_products_wrap_are_refused(name, kind):
    """A query may come over the wire with any type of integer; no square must wrap to 0."""
    schema = Schema(np.array([3, 4, 2]), np.array([False, True, False]), 3)
    query = Growth(schema, 500.0).ask(lambda squared, absolute: 1.0)
    with pytest.raises(ValueError, match="must be int64"):
        replace(query, **{name: getattr(query, name).astype(kind)})


def test_G24_a_query_that_fails_for_some_rows_only_is_refused_at_once():
    """Else the failure tells the server, without noise, whether such a row exists."""
    schema = Schema(np.array([3, 4, 2]), np.array([False, True, False]), 3)
    query = Growth(schema, 500.0).ask(lambda squared, absolute: 1.0)
    with pytest.raises(ValueError, match="goes_right"):
        replace(query, goes_right=query.goes_right.astype(np.int64) + 5)

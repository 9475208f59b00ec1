"""The masked sum inside a fit: who is reckoned with, and what is fresh in every fit."""

import itertools
from math import inf

import pytest

from sklearn_fedpriv._wire import digest
from sklearn_fedpriv.federation import Federation
from sklearn_fedpriv.privacy._ledger import budget
from sklearn_fedpriv.secure._mask_keys import graph_of
from sklearn_fedpriv.secure._mask_server import MaskServer
from sklearn_fedpriv.secure._masks import _MaskParty
from tests.federation.toys import HALF, ToyCount, plan, rows
from tests.secure.masks import Fit, names

FREE = budget(inf, 1e-5)


@pytest.fixture
def met(monkeypatch):
    """The nonces that parties have met with, with the side that met."""
    calls, meet = [], _MaskParty.meet

    def recording(side, nonces):
        calls.append((side, dict(nonces)))
        meet(side, nonces)

    monkeypatch.setattr(_MaskParty, "meet", recording)
    return calls


def test_a_release_reckons_with_all_colluders_also_where_few_are_invited():
    fit = Fit(10, 1, min_honest=7)
    assert fit.public.n_colluders == 3
    assert fit.plan.graph == graph_of(fit.task.parties, 3, 1) != graph_of(fit.task.parties, 0, 1)
    few = Fit(10, 1, min_honest=7, parties=names(8))
    assert few.plan.graph == graph_of(few.task.parties, 3, 1) != graph_of(few.task.parties, 0, 1)
    for case in (fit, few):
        case.send()
        request = case.gather()
        found = case.finish(request, case.openings(request).values())
        assert found.tolist() == case.total(case.sent).tolist()


def test_a_federations_keys_say_how_many_may_collude(met):
    run = Federation(rows(6), min_honest=4).start(FREE, plan(ToyCount()))
    for side, _ in met:
        assert side._keys.min_honest == 4
        assert digest(side._keys) == run.terms.keys


def test_no_two_fits_of_a_federation_share_nonces(met):
    """Under one set of keys: the nonces alone would keep two fits with the same terms apart."""
    federation = Federation(rows(3))
    for _ in range(2):
        federation.start(FREE, plan(ToyCount()))
    assert len({side._keys for side, _ in met}) == 1
    fits = [[nonces for _, nonces in met[at : at + 3]] for at in (0, 3)]
    assert all(nonces == fit[0] for fit in fits for nonces in fit)
    drawn = [nonce for fit in fits for nonce in fit[0].values()]
    assert len(set(drawn)) == 6


def test_no_two_releases_of_a_fit_are_masked_alike(monkeypatch):
    """The same rows, counted twice without noise: what the server sees has nothing in common."""
    seen, gather = [], MaskServer.gather

    def recording(server, task, answers):
        answers = list(answers)
        seen.extend(answers)
        return gather(server, task, answers)

    monkeypatch.setattr(MaskServer, "gather", recording)
    query = ToyCount(bound=64, length=64)
    run = Federation(rows(3)).start(FREE, plan(query, 2))
    assert [set(run.release(query, HALF)) for _ in range(2)] == [{75.0}] * 2
    assert len(seen) == 6
    for one, other in itertools.combinations(seen, 2):
        equal = sum(a == b for a, b in zip(one.payload, other.payload, strict=True))
        assert equal < len(one.payload) / 8  # 1 in 256 by chance

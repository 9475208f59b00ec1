"""A ceiling reaches clones, pickles and worker processes, and cannot be overdrawn (G14)."""

import pickle
from fractions import Fraction

import pytest
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone

from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.federation._estimator import FederatedMixin
from sklearn_fedpriv.privacy import privacy_budget
from sklearn_fedpriv.privacy._ceiling import active_ceilings, reserve

TENTH = Fraction(1, 10)


def test_ten_tenths_fit_and_the_eleventh_is_refused():
    with privacy_budget(1.0, 1e-3) as ceiling:
        for _ in range(10):
            reserve(None, TENTH, Fraction(0))
        with pytest.raises(BudgetExceeded, match="epsilon=1 in all; this fit asks for 0.1"):
            reserve(None, TENTH, Fraction(0))
        assert ceiling.spent == (1.0, 0.0)
    assert ceiling.spent == (1.0, 0.0)
    assert active_ceilings() == ()
    reserve(None, Fraction(100), Fraction(0))


def test_delta_has_its_ceiling():
    with privacy_budget(10.0, 1e-5):
        reserve(None, TENTH, Fraction(1, 10**5))
        with pytest.raises(BudgetExceeded, match="delta=1e-05"):
            reserve(None, TENTH, Fraction(1, 10**5))


def test_disjoint_named_parties_do_not_add_up_and_unnamed_fits_count_for_all():
    with privacy_budget(1.0) as ceiling:
        reserve(("a", "b"), Fraction(1, 2), Fraction(0))
        reserve(("c",), Fraction(1, 2), Fraction(0))
        assert ceiling.spent[0] == 0.5
        reserve(None, Fraction(1, 2), Fraction(0))
        assert ceiling.spent[0] == 1.0
        for names in (("c",), ("new",), None):
            with pytest.raises(BudgetExceeded):
                reserve(names, Fraction(6, 10), Fraction(0))


def test_nested_ceilings_both_hold():
    with privacy_budget(1.0) as outer, privacy_budget(5.0) as inner:
        reserve(None, Fraction(1), Fraction(0))
        with pytest.raises(BudgetExceeded):
            reserve(None, TENTH, Fraction(0))
        assert outer.spent[0] == inner.spent[0] == 1.0
    with privacy_budget(5.0) as outer, privacy_budget(0.5):
        with pytest.raises(BudgetExceeded, match="epsilon=0.5 in all"):
            reserve(None, Fraction(1), Fraction(0))
        assert outer.spent[0] == 0.0


def test_a_ceiling_whose_file_is_gone_stops_everything():
    with privacy_budget(1.0) as ceiling:
        ceiling._path.unlink()
        with pytest.raises(BudgetExceeded, match="file of a privacy_budget is gone"):
            reserve(None, TENTH, Fraction(0))
    assert ceiling.spent == (float("inf"), float("inf"))
    reserve(None, TENTH, Fraction(0))


class Spender(FederatedMixin, BaseEstimator):
    def __init__(self, epsilon=0.5):
        self.epsilon = epsilon


def spend(estimator):
    """What a fit reserves; runs in a worker process after the estimator was unpickled there."""
    try:
        reserve(None, Fraction(estimator.epsilon), Fraction(0))
    except BudgetExceeded:
        return "refused"
    return "spent"


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_workers_share_the_ceiling(backend):
    with privacy_budget(2.0) as ceiling:
        jobs = [delayed(spend)(clone(Spender())) for _ in range(8)]
        results = Parallel(n_jobs=2, backend=backend)(jobs)
        assert ceiling.spent[0] == 2.0
    assert sorted(results) == ["refused"] * 4 + ["spent"] * 4


def test_the_state_of_a_pickle_carries_the_ceiling_only_while_it_is_in_force():
    assert b"_ceilings" not in pickle.dumps(Spender())
    with privacy_budget(1.0):
        frozen = pickle.dumps(Spender())
        assert b"_ceilings" in frozen
    thawed = pickle.loads(frozen)
    assert thawed.epsilon == 0.5 and active_ceilings() == ()
    assert not hasattr(thawed, "_ceilings")


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 0), (-1, 0), (float("nan"), 0), (1, 1), (1, -1)]
)
def test_a_senseless_ceiling_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="privacy_budget takes"), privacy_budget(epsilon, delta):
        pass

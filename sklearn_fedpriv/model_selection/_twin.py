"""Local work of a party: what it fits to its own rows, and how it scores a candidate."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import check_scoring
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv
from sklearn.utils.multiclass import type_of_target

from sklearn_fedpriv._sklearn import n_rows_of, safe_split
from sklearn_fedpriv.federation._estimator import FederatedMixin
from sklearn_fedpriv.federation._fingerprint import fingerprint_of
from sklearn_fedpriv.federation._party import silence
from sklearn_fedpriv.privacy._ceiling import inside_a_party

HELD_OUT = 0.2
_ABOUT_MANY_PARTIES = ("min_honest", "max_dropouts", "parties_per_round")


def local_twin(estimator: BaseEstimator) -> BaseEstimator:
    """A clone for one party's own rows: what runs inside a party, and nowhere else.

    Every federated step in it, however deep, fits one party: there is no secure sum, and
    ``min_honest``, ``max_dropouts`` and ``parties_per_round`` go back to their defaults; its
    epsilon stays, so that candidates are compared under noise. Callbacks and progress, which could
    print what rows say, are gone.

    Parameters
    ----------
    estimator : estimator
        Private or not; pipelines and other meta-estimators too. Steps inside of objects without
        ``get_params`` are not found and keep their demands on parties.

    Returns
    -------
    twin : estimator
        Not fitted.
    """
    return _made_local(clone(estimator))


def _made_local(twin: Any) -> Any:
    """``local_twin`` in place."""
    for step, given in _steps(twin):
        vars(step).pop("_skl_callbacks", None)
        changes: dict[str, Any] = {}
        if "verbose" in given:
            changes["verbose"] = False if isinstance(given["verbose"], bool) else 0
        if given.get("callbacks") is not None:
            skorch = any(cls.__module__.split(".")[0] == "skorch" for cls in type(step).__mro__)
            changes["callbacks"] = "disable" if skorch else None
        if isinstance(step, FederatedMixin):
            defaults = inspect.signature(type(step)).parameters
            changes |= {
                name: defaults[name].default for name in _ABOUT_MANY_PARTIES if name in given
            }
        changes = {name: value for name, value in changes.items() if value is not given[name]}
        if changes:
            step.set_params(**changes)
    return twin


def _steps(value: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Every estimator inside ``value``, itself included, and its parameters.

    Frozen ones are shared with the original, so they are left alone.
    """
    if isinstance(value, FrozenEstimator | type):
        return
    if hasattr(value, "get_params"):
        given = value.get_params(deep=False)
        yield value, given
        value = list(given.values())
    elif isinstance(value, Mapping):
        value = list(value.values())
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        value = value.ravel().tolist()
    if isinstance(value, list | tuple):
        for item in value:
            yield from _steps(item)


@contextmanager
def local_work() -> Iterator[None]:
    """Nothing in here is a release: no ceiling is charged, nobody warned, no process made."""
    with inside_a_party(), parallel_config(backend="sequential"), silence():
        yield


@dataclass(frozen=True)
class Failure:
    """What a candidate that could not be fitted or scored leaves: the type of its error."""

    kind: str


@dataclass(frozen=True, eq=False)
class LocalScoring:
    """What party and server each build for themselves; candidates travel as their indices.

    Parameters
    ----------
    estimator : estimator
        Or its cheap stand-in.
    candidates : sequence of dict
    scoring : str, callable or None
    cv : int, splitter or None
    error_score : float or "raise"
    """

    estimator: Any
    candidates: Sequence[dict[str, Any]]
    scoring: Any = None
    cv: Any = None
    error_score: Any = np.nan
    _latest: list = field(default_factory=list, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_latest": []}  # rows stay where they are

    @cached_property
    def fingerprint(self) -> bytes:
        """Stands for all of it in the terms of a fit."""
        return fingerprint_of(
            self.estimator, list(self.candidates), self.scoring, self.cv, self.error_score
        )

    def build(self, i: int) -> Any:
        """The twin with the parameters of candidate ``i``."""
        parameters = clone(self.candidates[i], safe=False)
        return _made_local(clone(self.estimator).set_params(**parameters))

    def _folds(self, X: Any, y: Any, classifier: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """The folds of one party's rows, kept while the same rows come again."""
        for rows, labels, kind, folds in self._latest:
            if rows is X and labels is y and kind is classifier:
                return folds
        folds = list(splitter_for(self.cv, y, classifier).split(X, y))
        self._latest[:] = [(X, y, classifier, folds)]
        return folds

    def score(self, i: int, X: Any, y: Any) -> float | Failure:
        """Mean score of candidate ``i`` on the folds of one party's rows."""
        try:
            with local_work():
                twin = self.build(i)
                scorer = check_scoring(twin, self.scoring)
                scores = [
                    _fit_and_score(twin if n == 0 else self.build(i), scorer, X, y, train, test)
                    for n, (train, test) in enumerate(self._folds(X, y, is_classifier(twin)))
                ]
                return float(np.mean(scores))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # its text may quote rows; SystemExit, too
            return Failure(type(error).__name__)


def _fit_and_score(twin: Any, scorer: Any, X: Any, y: Any, train: Any, test: Any) -> float:
    X_train, y_train = safe_split(twin, X, y, train)
    X_test, y_test = safe_split(twin, X, y, test, train)
    for step, given in _steps(twin):
        # A hint is about the rows of all parties; here there are those of one.
        if isinstance(step, FederatedMixin) and given.get("n_rows_hint") is not None:
            step.set_params(n_rows_hint=n_rows_of(X_train))
    if y_train is None:
        score = scorer(twin.fit(X_train), X_test)
    else:
        score = scorer(twin.fit(X_train, y_train), X_test, y_test)
    if not isinstance(score, Real):
        raise TypeError("scoring must return one number")
    return float(score)


def splitter_for(cv: Any, y: Any, classifier: bool) -> Any:
    """The splitter of one party's rows, the same for all its candidates.

    Parameters
    ----------
    cv : int, splitter or None
    y : array-like or None
    classifier : bool
    """
    if cv is None:
        kind = StratifiedShuffleSplit if classifier and _can_stratify(y) else ShuffleSplit
        return kind(1, test_size=HELD_OUT, random_state=0)
    if isinstance(cv, Integral):
        return check_cv(int(cv), y, classifier=classifier)
    if not isinstance(getattr(cv, "random_state", 0), Integral):
        # A generator would give each party other folds according to who came before it (G21).
        cv = copy(cv)
        cv.random_state = 0
    return cv


def _can_stratify(y: Any) -> bool:
    """Whether each class has rows for both sides of a hold-out."""
    if y is None or type_of_target(y) not in ("binary", "multiclass"):
        return False
    counts = np.unique(np.asarray(y).ravel(), return_counts=True)[1]
    n_held_out = int(np.ceil(HELD_OUT * n_rows_of(y)))
    return bool(counts.min() >= 2 and len(counts) <= min(n_held_out, n_rows_of(y) - n_held_out))

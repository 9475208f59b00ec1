"""What both searches share: everything but where the candidates come from."""

import sys
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sklearn_fedpriv._sklearn import HasMethods, Interval, StrOptions, fit_context
from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv.exceptions import NotPrivateWarning, SelectionNoiseWarning
from sklearn_fedpriv.federation._estimator import FEDERATED_CONSTRAINTS, FederatedMixin
from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.federation._inputs import gather_as_is, looks_like_parties
from sklearn_fedpriv.model_selection._entrance import checked_rows
from sklearn_fedpriv.model_selection._odds import (
    GOOD_ODDS,
    Electorate,
    SelectionPreview,
    plan_of,
    preview_of,
)
from sklearn_fedpriv.model_selection._refit import (
    bill,
    charge_pooling,
    check_cost,
    cost_of,
    refit,
    takes_federations,
    total_of,
    void,
)
from sklearn_fedpriv.model_selection._twin import LocalScoring
from sklearn_fedpriv.model_selection._votes import Votes, selection_bound
from sklearn_fedpriv.privacy._calibration import Exact

BOUND_FAILURE = 0.05  # chance that selection_bound_ does not hold
_PREVIEWED = (0.1, 0.25, 0.5, 1.0, 3.0)
# Parameters that say what a fit costs.
_COSTLY = frozenset({"epsilon", "delta", "calibration", "mechanism", "refit"})


def _fitted_or_not_has(method: str) -> Callable[[Any], bool]:
    """Whether the refitted estimator, or before that the one given, has the method."""

    def check(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(
                f"{type(search).__name__}(refit=False) has no {method}: there is no best_estimator_"
                ". Fit an estimator with best_params_."
            )
        getattr(getattr(search, "best_estimator_", search.estimator), method)
        return True

    return check


def results_of(candidates: Sequence[dict[str, Any]], noisy_votes: np.ndarray) -> dict[str, Any]:
    """``cv_results_``: what was public before the vote, and what the vote released."""
    results: dict[str, Any] = {}
    for name in sorted({name for candidate in candidates for name in candidate}):
        places = [i for i, candidate in enumerate(candidates) if name in candidate]
        values = [candidates[i][name] for i in places]
        kinds = {type(value) for value in values}
        plain = len(kinds) == 1 and issubclass(kinds.pop(), bool | int | float | np.number)
        dtype = np.asarray(values).dtype if plain else object
        column = np.ma.MaskedArray(np.empty(len(candidates), dtype=dtype), mask=True)
        for i, value in zip(places, values, strict=True):
            column[i] = value
        results[f"param_{name}"] = column
    results["params"] = list(candidates)
    results["noisy_votes"] = noisy_votes
    results["rank"] = 1 + np.array([(noisy_votes > votes).sum() for votes in noisy_votes])
    return results


def _distinct(
    candidates: Sequence[dict[str, Any]], but: frozenset[str] = frozenset()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The first candidate of each kind: parameters alike but for plain values.

    Values of the parameters in ``but``, and of those that are no plain values, make a kind of their
    own.
    """
    seen = set()
    for i, parameters in enumerate(candidates):
        kind = []
        for name, value in parameters.items():
            plain = value is None or isinstance(value, str | Real)
            counts = name.split("__")[-1] in but
            kind.append((name, (value if counts else None) if plain else i))
        if tuple(kind) not in seen:
            seen.add(tuple(kind))
            yield i, parameters


class DPHypeSearch(FederatedMixin, MetaEstimatorMixin, BaseEstimator):
    """A search in which the parties vote; a subclass defines ``_candidates``."""

    calibration = "proved"

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **{name: kinds for name, kinds in FEDERATED_CONSTRAINTS.items() if name != "calibration"},
        "estimator": [HasMethods(["fit"])],
        "local_estimator": [HasMethods(["fit"]), None],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "cv": [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), None],
        "error_score": [StrOptions({"raise"}), Real],
        "n_votes": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "adjacency": [StrOptions({"replace", "add_remove"})],
    }

    def _candidates(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, deepcopy(getattr(inner, name)))
        tags.input_tags = deepcopy(inner.input_tags)
        return tags

    def __str__(self) -> str:
        return f"{self!r}\n{self._summary()}"

    def _summary(self) -> str:
        """Candidates, votes and both epsilons, in a line."""
        try:
            number: Any = len(self._candidates())
        except (TypeError, ValueError):
            number = "?"
        votes = getattr(self, "n_votes_", self.n_votes)
        if not self.refit:
            rest = "no refit"
        elif not takes_federations(getattr(self, "best_estimator_", self.estimator)):
            rest = "the refit is not private"
        else:
            fitted = getattr(self, "best_estimator_", self.estimator)
            found = [v for n, v in fitted.get_params().items() if n.split("__")[-1] == "epsilon"]
            rest = f"epsilon {sum(found):g} for the refit" if found else "a refit without epsilon"
        plural = "" if votes == 1 else "s"
        return (
            f"{number} candidates, {votes} vote{plural} a party, epsilon {self.epsilon:g} for the "
            f"selection, {rest}"
        )

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, *, parties=None):
        """Let the parties vote on the candidates, and refit the chosen one.

        Parameters
        ----------
        X : list of parties, list of tables, table, or Federation
            ``[(X_1, y_1), ...]`` or ``[Party, ...]``; or ``[X_1, ...]`` with ``y=[y_1, ...]``; or
            one table. Tables are anything that the estimator takes.
        y : array-like of shape (n_rows,), or list of them, default=None
        parties : array-like of shape (n_rows,), default=None
            With one table: the party that each row belongs to.

        Returns
        -------
        self : estimator
        """
        self._check_budget("gaussian")
        candidates = self._candidates()
        scorer = check_scoring(self.estimator, self.scoring)
        code = self._code(candidates)
        federation = checked_rows(self, gather_as_is(self, X, y, parties))
        electorate = self._electorate(
            len(federation.names), len(candidates), federation.min_honest, federation.max_dropouts
        )
        query = Votes(len(candidates), electorate.votes(self.n_votes, self.epsilon))
        self._warn_of_noise(electorate)
        check_cost(federation, *self._cost_with(candidates))
        if self.verbose:
            sys.stdout.write(
                f"Fitting {len(candidates)} candidates at each of {len(federation.names)} parties\n"
            )
        run = self._start(
            federation, plan_of(query), unit="party", adjacency=self.adjacency, code=code
        )
        noisy_votes = run.release(query, Fraction(1))

        self.n_votes_ = query.n_votes
        self.multimetric_ = False
        self.scorer_ = scorer
        self.best_index_ = int(noisy_votes.argmax())
        self.best_params_ = candidates[self.best_index_]
        self.cv_results_ = results_of(candidates, noisy_votes)
        squared = query.squared_sensitivity(self.adjacency)
        sd = run.noise_sd(squared, squared, Fraction(1))
        self.selection_bound_ = selection_bound(noisy_votes, self.best_index_, sd, BOUND_FAILURE)
        self.privacy_ = run.report()
        for name in ("best_estimator_", "feature_names_in_"):
            vars(self).pop(name, None)
        if self.refit:
            self._refit(federation)
        return self

    def _code(self, candidates: list[dict[str, Any]]) -> LocalScoring:
        """What the parties run; each kind of candidate is built once, so that a bad one is free."""
        local = self.estimator if self.local_estimator is None else self.local_estimator
        code = LocalScoring(clone(local), candidates, self.scoring, self.cv, self.error_score)
        for i, parameters in _distinct(candidates):
            code.build(i)
            if self.local_estimator is not None:
                clone(self.estimator).set_params(**clone(parameters, safe=False))
        return code

    def _electorate(
        self, n_parties: int, n_candidates: int, min_honest: int | None, max_dropouts: int
    ) -> Electorate:
        name = type(self).__name__
        if n_candidates < 2:
            raise ValueError(
                f"{name} needs at least 2 candidates to choose from; got {n_candidates}. Fit the "
                "estimator itself."
            )
        if self.n_votes != "auto" and self.n_votes >= n_candidates:
            raise ValueError(
                f"n_votes of {name} must be below the number of candidates, {n_candidates}: votes "
                f"for all say nothing. Got {self.n_votes}."
            )
        return Electorate(
            n_candidates=n_candidates,
            n_parties=n_parties,
            min_honest=min_honest,
            max_dropouts=max_dropouts,
            adjacency=self.adjacency,
            delta=self.delta,
        )

    def _warn_of_noise(self, electorate: Electorate) -> None:
        votes = electorate.votes(self.n_votes, self.epsilon)
        if electorate.odds(votes, self.epsilon)[0] >= GOOD_ODDS:
            return
        seen = preview_of(electorate, self.n_votes, self.epsilon)
        warn(
            f"A candidate that all {seen.n_parties} parties prefer would win with probability "
            f"{seen.probability:.2f} only ({seen.ideal_probability:.2f} if no share of noise made "
            f"up for known or missing ones): noise of {seen.noise_sd:.3g} votes. From epsilon "
            f"{seen.good_epsilon:.2g} on it would be {GOOD_ODDS:g}. Otherwise offer fewer "
            "candidates, or choose on public data.",
            SelectionNoiseWarning,
        )

    def _planned_cost(self) -> tuple[Exact, Exact]:
        return self._cost_with(self._candidates())

    def _cost_with(self, candidates: Sequence[dict[str, Any]]) -> tuple[Exact, Exact]:
        """Epsilon and delta of the selection and of the dearest candidate's refit."""
        selection = super()._planned_cost()
        if not self.refit:
            return selection
        refits = []
        for _, parameters in _distinct(candidates, but=_COSTLY):
            best = clone(self.estimator).set_params(**clone(parameters, safe=False))
            refits.append(cost_of(best))
        return total_of([selection, (max(e for e, _ in refits), max(d for _, d in refits))])

    def _refit(self, federation: Federation) -> None:
        best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
        if not takes_federations(best):
            warn(
                f"The refit of {type(best).__name__} reads the parties' rows without noise: only "
                "the selection is private. Search over a federated estimator, or set refit=False.",
                NotPrivateWarning,
            )
        selection, self.privacy_ = self.privacy_, void(self.privacy_)
        try:
            if not takes_federations(best):
                charge_pooling(federation)
            self.best_estimator_ = refit(best, federation)
        except Exception as error:
            error.add_note(
                "The refit failed. The selection has been released and charged, and best_params_ "
                "is about it; what the refit has cost by then is in the parties' ledgers, and "
                "privacy_ says infinity."
            )
            raise
        self.privacy_ = bill(selection, self.best_estimator_)
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_

    def preview(self, n_parties: int) -> SelectionPreview:
        """How a vote of so many parties would stand against its noise, without any data.

        Parameters
        ----------
        n_parties : int

        Returns
        -------
        preview : SelectionPreview
            ``print`` it.
        """
        self._validate_params()
        self._check_budget("gaussian")
        if not isinstance(n_parties, Integral) or n_parties < 1:
            raise ValueError(f"n_parties of preview must be an int of at least 1; got {n_parties}.")
        electorate = self._electorate(
            int(n_parties), len(self._candidates()), self.min_honest, self.max_dropouts
        )
        return preview_of(electorate, self.n_votes, self.epsilon, _PREVIEWED)

    def score(self, X, y=None):
        """Score of the refitted estimator on one table of public rows, by ``scoring``.

        Parameters
        ----------
        X : table
        y : array-like, default=None

        Returns
        -------
        score : float
        """
        if isinstance(X, Federation) or looks_like_parties(X):
            raise TypeError(
                f"{type(self).__name__}.score takes one table of public rows. A score on the "
                "parties' rows is a release: use metrics.federated_score."
            )
        _fitted_or_not_has("score")(self)
        check_is_fitted(self)
        return self.scorer_(self.best_estimator_, X, y)

    @property
    def best_score_(self) -> Any:
        """Not kept: the parties' scores never leave them."""
        raise AttributeError(
            f"{type(self).__name__} keeps no best_score_: it would be a score on the parties' "
            "rows. metrics.federated_score releases one."
        )

    @property
    def refit_time_(self) -> Any:
        """Not kept: how long a fit takes may depend on the rows."""
        raise AttributeError(
            f"{type(self).__name__} keeps no refit_time_: how long the refit takes may depend on "
            "the parties' rows."
        )

    @property
    def n_splits_(self) -> int:
        """Folds inside each party, where that is no matter of its rows."""
        check_is_fitted(self)
        if self.cv is None or isinstance(self.cv, Integral):
            return 1 if self.cv is None else int(self.cv)
        try:
            return int(self.cv.get_n_splits())
        except (TypeError, ValueError) as error:
            raise AttributeError(
                f"{type(self).__name__} keeps no n_splits_: with {type(self.cv).__name__} it "
                "depends on the parties' rows."
            ) from error

    @property
    def n_features_in_(self) -> int:
        """Number of columns, with ``refit=True``."""
        _fitted_or_not_has("fit")(self)
        if "best_estimator_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted and has no n_features_in_.")
        return self.best_estimator_.n_features_in_

    @property
    def classes_(self) -> np.ndarray:
        """Class labels, with ``refit=True`` and a classifier."""
        _fitted_or_not_has("classes_")(self)
        return self.best_estimator_.classes_

    def _ask(self, method: str, X: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, method)(X)

    @available_if(_fitted_or_not_has("predict"))
    def predict(self, X):
        """``predict`` of the refitted estimator."""
        return self._ask("predict", X)

    @available_if(_fitted_or_not_has("predict_proba"))
    def predict_proba(self, X):
        """``predict_proba`` of the refitted estimator."""
        return self._ask("predict_proba", X)

    @available_if(_fitted_or_not_has("predict_log_proba"))
    def predict_log_proba(self, X):
        """``predict_log_proba`` of the refitted estimator."""
        return self._ask("predict_log_proba", X)

    @available_if(_fitted_or_not_has("decision_function"))
    def decision_function(self, X):
        """``decision_function`` of the refitted estimator."""
        return self._ask("decision_function", X)

    @available_if(_fitted_or_not_has("score_samples"))
    def score_samples(self, X):
        """``score_samples`` of the refitted estimator."""
        return self._ask("score_samples", X)

    @available_if(_fitted_or_not_has("transform"))
    def transform(self, X):
        """``transform`` of the refitted estimator."""
        return self._ask("transform", X)

    @available_if(_fitted_or_not_has("inverse_transform"))
    def inverse_transform(self, X):
        """``inverse_transform`` of the refitted estimator."""
        return self._ask("inverse_transform", X)

"""What all federated estimators have in common."""

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import validate_data

from sklearn_fedpriv._sklearn import Interval, StrOptions
from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv.exceptions import NotPrivateWarning, UnprovenPrivacyWarning
from sklearn_fedpriv.federation._federation import SECURE_SUMS, Federation
from sklearn_fedpriv.federation._inputs import looks_like_parties
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy._calibration import Exact, exact
from sklearn_fedpriv.privacy._ceiling import active_ceilings, enter_ceilings
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease, budget
from sklearn_fedpriv.privacy._randomness import seed_key
from sklearn_fedpriv.secure._protocol import SecureSum

LARGEST_EPSILON = 1e15

# Constraints of the arguments that every federated estimator has.
FEDERATED_CONSTRAINTS: dict[str, list] = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "min_honest": [Interval(Integral, 1, None, closed="left"), None],
    "max_dropouts": [Interval(Integral, 0, None, closed="left")],
    "secure_sum": [StrOptions(set(SECURE_SUMS)), SecureSum],
    "calibration": [StrOptions({"proved", "published"})],
    "n_jobs": [
        Interval(Integral, 1, None, closed="left"),
        Interval(Integral, None, -1, closed="right"),
        None,
    ],
    "random_state": [
        Interval(Integral, 0, None, closed="left"),
        np.random.RandomState,  # noqa: TID251
        np.random.Generator,
        None,
    ],
    "verbose": ["verbose"],
}


def check_epsilon(owner: str, epsilon: Any) -> None:
    """Refuse what is no number, or too large for exact arithmetic."""
    if (
        isinstance(epsilon, bool)
        or not isinstance(epsilon, Real)
        or not (0 < float(epsilon) <= LARGEST_EPSILON or epsilon == inf)
    ):
        raise ValueError(
            f"epsilon of {owner} must be a number in (0, {LARGEST_EPSILON:g}], or inf; got "
            f"{epsilon!r}."
        )


class FederatedMixin:
    """Left-most base of the federated estimators.

    ``parties`` is requested from metadata routing by default, and a ceiling of ``privacy_budget``
    that is in force travels with the pickled estimator to worker processes (G14).
    """

    epsilon: Any
    delta: Any
    calibration: Any
    random_state: Any
    verbose: Any

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"parties": True}

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        ceilings = active_ceilings()
        return {**state, "_ceilings": ceilings} if ceilings else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        enter_ceilings(state.pop("_ceilings", ()))
        super().__setstate__(state)  # type: ignore[misc]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Score on one table that is in this process, as in scikit-learn.

        Scores on parties' rows are releases: use ``metrics.federated_score``.
        """
        if isinstance(X, Federation) or looks_like_parties(X):
            raise TypeError(
                f"{type(self).__name__}.score takes one table of public rows. A score on the "
                "parties' rows is a release: use metrics.federated_score."
            )
        score: float = super().score(X, y, sample_weight)  # type: ignore[misc]
        return score

    def _check_table(self, X: Any, **check_params: Any) -> Any:
        """One table, validated, for ``predict`` and its kin."""
        if isinstance(X, Federation) or looks_like_parties(X):
            raise TypeError(f"{type(self).__name__} predicts for one table, not for parties.")
        return validate_data(self, X, reset=False, **check_params)

    def _check_budget(self, mechanism: str) -> None:
        """Refuse an epsilon or delta that the table of constraints cannot tell."""
        name = type(self).__name__
        check_epsilon(name, self.epsilon)
        if self.delta == 0 and mechanism == "gaussian":
            raise ValueError(f"delta of {name} must be above 0 with Gaussian noise; got 0.")

    def _planned_cost(self) -> tuple[Exact, Exact]:
        """Epsilon and delta that parties will be charged for one ``fit``, at most."""
        check_epsilon(type(self).__name__, self.epsilon)
        if self.calibration == "published":
            return inf, Fraction(0)
        pure = getattr(self, "mechanism", "gaussian") == "laplace"
        return exact(self.epsilon), Fraction(0) if pure else exact(self.delta)

    def _start(
        self,
        federation: Federation,
        plan: Sequence[PlannedRelease],
        *,
        mechanism: str = "gaussian",
        unit: str = "record",
        adjacency: str = "add_remove",
        code: Any = None,
        spends: Budget | None = None,
    ) -> Run:
        """Begin the fit's releases under this estimator's budget; warn where nothing is proved.

        ``spends`` is the budget where it does not follow from ``epsilon`` and ``delta``.
        """
        name = type(self).__name__
        self._check_budget(mechanism)
        if spends is None:
            spends = budget(self.epsilon, self.delta, mechanism)
        if not spends.private:
            setting = "noise_ratio=0" if mechanism == "metric" else "epsilon=inf"
            warn(f"{name}({setting}) adds no noise: nothing is protected.", NotPrivateWarning)
        elif self.calibration == "published":
            warn(
                f"{name}(calibration='published') runs a published method that has no proof; its "
                "report says epsilon = inf. Use calibration='proved' for a guarantee.",
                UnprovenPrivacyWarning,
            )
        return federation.start(
            spends,
            plan,
            unit=unit,
            adjacency=adjacency,
            calibration=self.calibration,
            code=code,
            seed=seed_key(self.random_state),
            verbose=self.verbose,
        )

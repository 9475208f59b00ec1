"""What a fit will release and what that costs, from public facts alone."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sklearn_fedpriv.federation._preview import PlannedNoise, Preview, smallest_epsilon
from sklearn_fedpriv.federation._terms import Terms, noise_for
from sklearn_fedpriv.privacy._calibration import exact
from sklearn_fedpriv.privacy._ledger import PlannedRelease
from sklearn_fedpriv.privacy._schedules import AdaptiveRounds, Schedule, Shares
from sklearn_fedpriv.svm._queries import LARGEST_LOSS, LEVELS, SCALE_LEVELS, RowScale
from sklearn_fedpriv.svm._training import Problem, drowned, noise_in_mean

SCALE_SHARE = Fraction(1, 50)  # of the budget, for the number and the lengths of the rows


@dataclass(frozen=True)
class Plan:
    """The releases of one proved fit.

    Parameters
    ----------
    problem : Problem
    counted : bool
        Whether the rows are counted, as there is no hint.
    shares : Shares
        Of the gradients.
    loss_shares : Shares or None
        Of the losses, where they are paid for.
    """

    problem: Problem
    counted: bool
    shares: Shares
    loss_shares: Shares | None

    @classmethod
    def of(
        cls, problem: Problem, schedule: Schedule, n_rounds: int, *, counted: bool, public: bool
    ) -> "Plan":
        """Split the budget; ``public`` says that there is public data to watch the loss on."""
        whole = 1 - SCALE_SHARE
        if not isinstance(schedule, AdaptiveRounds) or public or n_rounds == 1:
            return cls(problem, counted, Shares(schedule, n_rounds, whole), None)
        part = Fraction(exact(schedule.loss_share)) * whole
        constant = AdaptiveRounds(schedule.discount, patience=schedule.patience)
        return cls(
            problem,
            counted,
            Shares(schedule, n_rounds, whole - part),
            Shares(constant, n_rounds, part),
        )

    @property
    def scale(self) -> RowScale:
        """The first release."""
        return RowScale(self.counted)

    def releases(self) -> list[PlannedRelease]:
        """At most; declared before the first of them."""
        intercept, zeros = self.problem.largest_intercept(), self.problem.zeros()
        planned = [(self.scale, (SCALE_SHARE,))]
        if self.loss_shares is not None:
            planned.append((self.problem.loss(zeros, intercept), self.loss_shares.planned()))
        planned.append((self.problem.gradient(zeros, intercept)[0], self.shares.planned()))
        return [
            PlannedRelease(
                type(query).__name__,
                len(shares),
                sum(shares, Fraction(0)),
                len(shares) * query.length,
                query.bound,
                smallest=min(shares),
            )
            for query, shares in planned
        ]

    def preview(
        self, terms_at: Callable[[float], Terms], epsilon: float, n_parties: int, n_rows: int
    ) -> Preview:
        """Noise against signal.

        Parameters
        ----------
        terms_at : callable
            Terms of a fit at an epsilon.
        epsilon : float
        n_parties, n_rows : int
        """
        problem = self.problem
        query, unit = problem.gradient(problem.zeros(), problem.largest_intercept())

        def sds_at(epsilon: float) -> np.ndarray:
            terms, shares = terms_at(epsilon), self.shares.planned()
            return np.array([noise_for(terms, s, query.bound, 0).sd(n_parties) for s in shares])

        terms, sds = terms_at(epsilon), sds_at(epsilon)
        scale_sd = noise_for(terms, SCALE_SHARE, self.scale.bound, 0).sd(n_parties) / SCALE_LEVELS
        longest = problem.row_bound * max(problem.class_weights)
        releases = [
            PlannedNoise("RowScale", 1, scale_sd, float(n_rows), "rows"),
            PlannedNoise(
                "HingeGradient",
                len(sds),
                float(sds.mean() * unit / n_rows),
                longest,
                "at most, in the mean of the rows",
            ),
        ]
        if self.loss_shares is not None:
            loss, share = problem.loss(problem.zeros(), 0), self.loss_shares.planned()[0]
            sd = noise_for(terms, share, loss.bound, 0).sd(n_parties)
            sd *= LARGEST_LOSS / LEVELS / n_rows
            releases.append(PlannedNoise("HingeLoss", len(sds), sd, 1.0, "of a zero model"))
        smallest = smallest_epsilon(
            lambda epsilon: not drowned(noise_in_mean(problem, unit, sds_at(epsilon), n_rows), 1)
        )
        return Preview(tuple(releases), epsilon, smallest, "the gradient stands out")

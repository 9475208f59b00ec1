"""The published method: local epochs, clipped weights, noisy averages; nothing of it is proved.

Truex et al. (2019), Algorithms 5 and 6: each party trains from the common weights on its own rows
and the server averages the parties' noisy weights. Yuan et al. (2023), Algorithm 1 and Theorem 1:
``K`` of ``n`` parties are drawn for each of ``M`` rounds, weights are clipped to length ``C``, and
the noise of one party's answer in round ``m`` has the variance ``sigma^2 theta^(m - 1)`` with::

    sigma^2 = 2 q s^2 ln(1 / delta) / epsilon^2 * sum_j theta^-j,   q = K / n,   s = 2 C / |D_k|

Neither ``s`` nor ``q`` holds (docs/what_is_proved.md), so the report says infinity. Not found in
the papers and settled here: the step of the local training, and all settings of the problem, which
are those of the proved fit.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ldexp, log
from typing import Any

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.federation._query import PartyQuery, Tools
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy._calibration import gaussian_epsilon
from sklearn_fedpriv.privacy._ledger import PlannedRelease
from sklearn_fedpriv.privacy._randomness import Stream
from sklearn_fedpriv.privacy._rounds import initial_variance
from sklearn_fedpriv.privacy._schedules import AdaptiveRounds, Schedule, Shares
from sklearn_fedpriv.svm._training import Problem, shortened

LOCAL_EPOCHS = 5  # tau (Yuan et al., Section VI)
WEIGHT_BOUND = 5.0  # C, likewise; for rows of length 1
LOCAL_STEP = 0.1  # for rows of length 1: Truex et al. for their network; for the SVM not found
# Beyond so many bounds only the direction of weights is kept, which is all that the clip leaves.
_FAR = 2.0**100


@record
@dataclass(frozen=True, eq=False)
class LocalWeights(PartyQuery):
    """Sum of the weights that the chosen parties have after training on their own rows.

    Its unit and sensitivity are the papers' claim. What is enforced is the length of one party's
    weights, so the claim is wrong by a factor of the party's number of rows.

    Parameters
    ----------
    problem : Problem
    weights : ndarray of shape (n_blocks, n_columns + 1), float64
        Where the training begins; as in ``train``.
    step : float
        In data units.
    ridge : float
    chosen : tuple of str
        Names of the parties of this round; the others answer zeros.
    claimed : Fraction
        Squared sensitivity, in data units, for which ``noise_for`` gives the papers' noise.
    """

    unit = "record"
    proved = False
    problem: Problem
    weights: np.ndarray
    step: float
    ridge: float
    chosen: tuple[str, ...]
    claimed: Fraction

    @property
    def length(self) -> int:
        """All weights, without the intercept's if there is none."""
        return self.weights.shape[0] * (self.weights.shape[1] - (not self.problem.fit_intercept))

    @property
    def bound(self) -> float:
        """Length of one party's weights."""
        return WEIGHT_BOUND / self.problem.row_bound

    def squared_sensitivity(self, adjacency: str) -> Fraction:
        """The claim in ticks, of which it may be a small part: it is not rounded to whole ones."""
        return self.claimed / Fraction(2) ** (2 * self.lattice.exponent)

    def local(self, X: Any, y: Any, tools: Tools) -> np.ndarray:
        """Weights after some epochs of full subgradients; zeros if the party was not chosen."""
        if tools.party not in self.chosen:
            return np.zeros(self.length)
        weights = self.weights
        kept = self.length // len(weights)
        for _ in range(LOCAL_EPOCHS):
            query, unit = self.problem.gradient(weights, self.problem.largest_intercept())
            pull = np.zeros_like(weights)
            pull[:, :kept] = query.ticks(X, y, None).reshape(-1, kept) * (unit / len(y))
            push = shortened(self.step, pull - self.ridge * weights, _FAR * self.bound)
            weights = shortened(1.0, weights + push, _FAR * self.bound)
        return weights[:, :kept].ravel()


def check_published(
    schedule: Schedule,
    *,
    parties_per_round: int | None,
    n_rows_hint: int | None,
    n_parties: int,
    public: bool,
) -> None:
    """Refuse settings of a published fit that the papers do not have."""
    if n_rows_hint is None:
        raise ValueError(
            "calibration='published' takes the rows of a party for publicly known, and its noise "
            "shrinks with them; got n_rows_hint=None. Give n_rows_hint, the rows of all parties."
        )
    if n_rows_hint < n_parties:
        raise ValueError(
            f"n_rows_hint counts the rows of all {n_parties} parties and must be at least as many; "
            f"got {n_rows_hint}."
        )
    if parties_per_round is not None and parties_per_round > n_parties:
        raise ValueError(
            f"parties_per_round must be at most the number of parties, {n_parties}, or None for "
            f"all; got {parties_per_round}."
        )
    if isinstance(schedule, AdaptiveRounds) and not public:
        raise ValueError(
            "calibration='published' watches the loss on public rows only (AdaptiveRounds came "
            "without X_val). Give X_val and y_val to fit, or another noise_schedule."
        )


def check_unsampled(parties_per_round: int | None) -> None:
    """Refuse a sample of parties in a proved fit."""
    if parties_per_round is not None:
        raise ValueError(
            "parties_per_round is for calibration='published' and must be None with 'proved'; got "
            f"{parties_per_round}. The server knows whom it picks, so sampling parties proves no "
            "smaller epsilon: it only loses accuracy."
        )


def published_plan(problem: Problem, shares: Shares) -> list[PlannedRelease]:
    """The releases of a published fit, from public facts alone."""
    query = LocalWeights(problem, problem.zeros(), 1.0, 0.0, (), Fraction(1))
    return [
        PlannedRelease(
            "LocalWeights",
            shares.left,
            Fraction(1),
            shares.left * query.length,
            query.squared_norm,
            smallest=min(map(_share_of_epsilon, shares.planned())),
        )
    ]


def train_published(
    run: Run,
    problem: Problem,
    shares: Shares,
    *,
    n_rows: float,
    parties_per_round: int | None,
    stream: Stream,
    learning_rate: float | None,
    public_loss: Callable[[np.ndarray], float] | None,
    verbose: int,
) -> tuple[np.ndarray, dict[str, int], str]:
    """Rounds of local training and averaging.

    Parameters
    ----------
    run : Run
        Under terms with ``calibration="published"``.
    problem : Problem
    shares : Shares
        Of the precision of all rounds, 1 in all.
    n_rows : float
        Publicly known, of all parties.
    parties_per_round : int or None
        None takes all.
    stream : Stream
        Draws the parties; a public choice.
    learning_rate : float or None
    public_loss : callable or None
        Loss of weights on public rows.
    verbose : int

    Returns
    -------
    weights : ndarray of shape (n_blocks, n_columns + 1)
        In data units; the last column belongs to a constant of 1.
    participations : dict
        Party name -> rounds that it took part in.
    story : str
        What these mean, for the report.
    """
    names = run.terms.parties
    n_chosen = len(names) if parties_per_round is None else int(parties_per_round)
    step = LOCAL_STEP / problem.row_bound**2 if learning_rate is None else float(learning_rate)
    ridge = 1 / (problem.C * n_rows)
    claimed = _claimed_square(run, problem, n_chosen, n_rows)
    along = np.ones(problem.n_columns + 1)
    along[-1] = problem.constant(problem.largest_intercept())
    participations = dict.fromkeys(names, 0)
    precision = dict.fromkeys(names, 0.0)  # of the releases that a party is in, of unknown noise

    weights = problem.zeros()
    while shares.left:
        order = np.argsort(stream.uint64(len(names)), kind="stable")
        chosen = tuple(names[i] for i in np.sort(order[:n_chosen]))
        query = LocalWeights(problem, weights, step, ridge, chosen, claimed)
        share = _share_of_epsilon(shares.take())
        answer = run.release(query, share).reshape(len(weights), -1) / n_chosen
        weights = problem.zeros()
        weights[:, : answer.shape[1]] = answer
        for name in chosen:
            participations[name] += 1
            precision[name] += _precision(run, query, share)
        if public_loss is not None:
            shares.observe(public_loss(weights * along))

    if verbose:
        counts = ", ".join(f"{name}: {count}" for name, count in participations.items())
        sys.stdout.write(f"rounds of {shares.n_rounds} that each party took part in: {counts}\n")
    story = _story(run, problem, n_chosen, shares.n_rounds, participations, precision)
    return weights * along, participations, story


def _claimed_square(run: Run, problem: Problem, n_chosen: int, n_rows: float) -> Fraction:
    """Squared sensitivity with which ``noise_for`` gives a sum the papers' noise.

    ``noise_for`` gives the sum of all shares the variance ``n / m * S 2 ln(1.25 / delta) /
    (share epsilon)^2``. It has to be ``K`` times that of a single round for a share of 1.
    """
    n, m = len(run.terms.parties), run.terms.unknown_shares
    delta = float(run.terms.budget.delta)
    variance = initial_variance(
        1,
        sensitivity=2 * WEIGHT_BOUND / problem.row_bound / (n_rows / n),
        epsilon=1.0,  # both formulas have its square
        delta=delta,
        participation=n_chosen / n,
        calibration="published",
    )
    return Fraction(n_chosen * variance * m / n / (2 * log(1.25 / delta)))


def _share_of_epsilon(part: Fraction) -> Fraction:
    """For a round with this part of all precision: variances go with the square of epsilon."""
    return Fraction(float(part) ** 0.5)


def _precision(run: Run, query: LocalWeights, share: Fraction) -> float:
    """One over the variance of the shares in a sum that no adversary knows, in data units."""
    sd = run.noise_sd(query.squared_sensitivity(run.terms.adjacency), 0, share)
    variance = ldexp(sd, query.lattice.exponent) ** 2
    return run.n_parties / run.terms.unknown_shares / variance if variance else 0.0


def _story(
    run: Run,
    problem: Problem,
    n_chosen: int,
    n_rounds: int,
    participations: dict[str, int],
    precision: dict[str, float],
) -> str:
    counts = participations.values()
    counted = n_rounds * n_chosen / run.n_parties
    story = (
        f"local weights of {n_chosen} parties a round; a party took part {min(counts)} to "
        f"{max(counts)} times, the claim counts {counted:.3g} of each"
    )
    if not run.terms.budget.private:
        return story
    # Clipping alone bounds what a party, and so a record, may move: by 2 C, whatever its rows.
    most = 2 * WEIGHT_BOUND / problem.row_bound
    epsilon = gaussian_epsilon(Fraction(most**2 * max(precision.values())), run.terms.budget.delta)
    return f"{story}, and the clip alone gives the busiest epsilon {epsilon:.2g}, not the claim"

"""Rounds of noisy subgradients, with steps that the noise cannot carry away."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import NoiseWarning
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.privacy._schedules import Shares
from sklearn_fedpriv.svm._queries import (
    LARGEST_LOSS,
    LEVELS,
    SCALE_LEVELS,
    HingeGradient,
    HingeLoss,
    exact_weights,
)
from sklearn_fedpriv.svm._rows import ROW_TICKS

MOMENTUM = 0.9
INTERCEPT_PART = 0.25  # the constant that goes with the intercept, as a part of a typical row
# All noise of a fit may move the score of a typical row by about the margin of the hinge.
_NOISE_IN_SCORE = 1.0
# A step of 4 over the mean squared length was stable on rows whose longest direction holds nearly
# all of it, and 8 was not (decisions.md).
_STEP = 4.0
_DROWNED = 0.3  # noise in the mean of all gradients, as a part of the longest possible mean
_SHORTEST = 2.0**-10  # rows that are shorter, in parts of the bound, count as so long
_SLOWING = 5  # steps shrink over the last fifth of the rounds, as subgradients never vanish


@record
@dataclass(frozen=True)
class Problem:
    """What is publicly known of a fit.

    Parameters
    ----------
    n_columns : int
    row_bound : float
        Largest length of a row, in data units.
    class_weights : tuple of float
    C : float
        Weight of the loss, as in scikit-learn: ``|w|^2 / 2 + C * sum of losses``.
    fit_intercept : bool
    """

    n_columns: int
    row_bound: float
    class_weights: tuple[float, ...]
    C: float
    fit_intercept: bool

    @property
    def n_blocks(self) -> int:
        """Weight vectors: one for two classes, else one a class."""
        return 1 if len(self.class_weights) == 2 else len(self.class_weights)

    def zeros(self) -> np.ndarray:
        """Weights of a model that knows nothing, shape (n_blocks, n_columns + 1)."""
        return np.zeros((self.n_blocks, self.n_columns + 1))

    @property
    def class_levels(self) -> tuple[int, ...]:
        """Weights in levels of the largest, and at least one, so that no class is left out."""
        largest = max(self.class_weights)
        return tuple(max(1, round(LEVELS * weight / largest)) for weight in self.class_weights)

    @property
    def prior(self) -> np.ndarray:
        """Scores before any row is seen, shape (n_blocks,): the dearer class leads by up to 1."""
        weights = np.array(self.class_weights) / max(self.class_weights)
        return weights[1:] - weights[:1] if self.n_blocks == 1 else weights - weights.mean()

    def largest_intercept(self) -> int:
        """The constant that goes with the intercept, at most, in ticks."""
        return round(INTERCEPT_PART * ROW_TICKS) if self.fit_intercept else 0

    def constant(self, ticks: int) -> float:
        """That constant in data units."""
        return ticks * self.row_bound / ROW_TICKS

    def longest(self, n_rows: float) -> float:
        """No weights that are longer minimise the problem: those of a zero model cost less."""
        return sqrt(2 * self.C * n_rows) * sqrt(max(self.class_weights))

    def gradient(self, weights: np.ndarray, intercept: int) -> tuple[HingeGradient, float]:
        """The query at ``weights``, and the data units of one unit of its answer."""
        whole, margin = exact_weights(weights, self.row_bound)
        query = HingeGradient(whole, margin, intercept, self.class_levels)
        unit = self.row_bound / ROW_TICKS * max(self.class_weights)
        return query, unit / (LEVELS if query.weighted else 1)

    def loss(self, weights: np.ndarray, intercept: int) -> HingeLoss:
        """The loss query at ``weights``."""
        return HingeLoss(*exact_weights(weights, self.row_bound), intercept, self.class_levels)


@dataclass(frozen=True)
class Scale:
    """What is known of the rows after the first release, a little on the safe side.

    Parameters
    ----------
    n_rows : float
    length : float
        Mean length, in parts of the bound.
    squared : float
        Mean squared length, likewise.
    """

    n_rows: float
    length: float
    squared: float

    @classmethod
    def released(cls, answer: np.ndarray, sd: float, n_rows_hint: int | None) -> "Scale":
        """From the answer of ``RowScale`` and the standard deviation of its noise."""
        n = float(n_rows_hint or max(answer[-1] / SCALE_LEVELS, 1.0))
        means = (np.maximum(answer[:2], 0.0) + sd) / SCALE_LEVELS / n
        length = min(1.0, max(float(means[0]), _SHORTEST))
        return cls(n, length, min(length, max(float(means[1]), length**2)))


def noise_in_mean(problem: Problem, unit: float, sds: np.ndarray, n_rows: float) -> float:
    """Noise in the mean gradient of all rounds against the longest that it could be."""
    length = problem.n_blocks * (problem.n_columns + problem.fit_intercept)
    sd = unit * (1 / (sds**-2.0).sum()) ** 0.5 / n_rows
    return sd * length**0.5 / (problem.row_bound * max(problem.class_weights))


def drowned(noise: float, scale: float) -> bool:
    """Whether noise hides the direction of the first step; ``scale`` is a typical row's length."""
    return noise > _DROWNED * scale


def shortened(factor: float, vector: np.ndarray, longest: float) -> np.ndarray:
    """``factor * vector``, or the vector of that direction and of length ``longest`` if shorter.

    Nothing overflows, whatever the factor.
    """
    largest = float(np.abs(vector).max())
    if largest == 0:
        return vector
    unit = vector / largest
    length = sqrt((unit * unit).sum())
    return factor * vector if factor * largest * length <= longest else unit * (longest / length)


def train(
    run: Run,
    problem: Problem,
    shares: Shares,
    scale: Scale,
    *,
    learning_rate: float | None,
    public_loss: Callable[[np.ndarray], float] | None,
    loss_shares: Shares | None,
) -> np.ndarray:
    """Nesterov's accelerated descent on noisy full subgradients.

    Parameters
    ----------
    run : Run
    problem : Problem
    shares : Shares
        Of the budget, for the gradients.
    scale : Scale
    learning_rate : float or None
        None takes the largest step that curvature and noise allow.
    public_loss : callable or None
        Loss of weights on public rows.
    loss_shares : Shares or None
        Pays for the parties' losses instead.

    Returns
    -------
    weights : ndarray of shape (n_blocks, n_columns + 1)
        In data units; the last column belongs to a constant of 1.
    """
    constant = round(INTERCEPT_PART * ROW_TICKS * scale.length) * problem.fit_intercept
    along = np.ones(problem.n_columns + 1)
    along[-1] = problem.constant(constant)
    weights = problem.zeros()
    if constant:
        weights[:, -1] = problem.prior / along[-1]
    query, unit = problem.gradient(weights, constant)
    sds = np.array([run.noise_sd(query.bound, 0, share) for share in shares.planned()])
    ridge = 1 / (problem.C * scale.n_rows)
    if run.terms.budget.private and drowned(
        noise_in_mean(problem, unit, sds, scale.n_rows), scale.length
    ):
        warn(
            "The noise is expected to drown the gradients: the model may be no better than a "
            "guess. preview(n_parties, n_rows, n_features) names the epsilon from which they stand "
            "out.",
            NoiseWarning,
        )

    blocks = 1 if problem.n_blocks == 1 else 2
    if learning_rate is None:
        squared = scale.squared * problem.row_bound**2 + along[-1] ** 2
        curvature = blocks * squared * max(problem.class_weights)
        learning_rate = 1 / (curvature / _STEP + ridge)
        # A round's noise goes on moving the model through the momentum of the rounds after it.
        carried = (1 - MOMENTUM ** np.arange(len(sds), 0, -1)) / (1 - MOMENTUM)
        noise = unit / scale.n_rows * np.sqrt(((carried * sds) ** 2).sum())
        reach = blocks**0.5 * np.hypot(scale.length * problem.row_bound, along[-1])
        if noise:
            learning_rate = min(learning_rate, _NOISE_IN_SCORE / (noise * reach))

    # Weights of the constant are kept for a constant of ``along[-1]`` until the end, so that all
    # columns have the same scale. They are held to a ball that the minimum is in, so no learning
    # rate carries them away, whatever it is.
    velocity = np.zeros_like(weights)
    longest = problem.longest(scale.n_rows)
    while shares.left:
        ahead = weights + MOMENTUM * velocity
        query, unit = problem.gradient(ahead, constant)
        answer = run.release(query, shares.take()) * unit / scale.n_rows
        pull = np.zeros_like(weights)
        pull[:, : answer.size // problem.n_blocks] = answer.reshape(problem.n_blocks, -1)
        step = learning_rate * min(1.0, _SLOWING * (shares.left + 1) / shares.n_rounds)
        push = shortened(step, pull - ridge * ahead, 2 * longest)
        before, weights = weights, shortened(1.0, ahead + push, longest)
        velocity = weights - before
        if public_loss is not None:
            shares.observe(public_loss(weights * along))
        elif loss_shares is not None and shares.left:
            share = loss_shares.take()
            loss = float(run.release(problem.loss(weights, constant), share)[0])
            loss *= LARGEST_LOSS / LEVELS * max(problem.class_weights) / scale.n_rows
            for cursor in (shares, loss_shares):
                cursor.observe(loss)
    return weights * along

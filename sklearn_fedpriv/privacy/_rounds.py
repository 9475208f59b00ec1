"""How many rounds a fixed number of training steps is best cut into.

More rounds mean less drift between the parties' models and, at a fixed budget, more noise in each
round. ``optimal_rounds`` weighs the two in a convergence bound.

References
----------
Yuan et al., "Amplitude-varying perturbation for balancing privacy and utility in federated
learning", IEEE TIFS 2023 (arXiv 2303.04274): Theorem 1 (noise), Theorem 3 (bound).
Wang et al., "Adaptive federated learning in resource constrained edge computing systems", IEEE
JSAC 2019, Theorem 1 (drift).
"""

from dataclasses import dataclass, field
from math import inf, isfinite, log, log1p
from typing import Any

import numpy as np

from sklearn_fedpriv.privacy._arguments import count_argument
from sklearn_fedpriv.privacy._calibration import exact, gaussian_budget
from sklearn_fedpriv.privacy._schedules import _positive

_CALIBRATIONS = ("proved", "published")


@dataclass(frozen=True)
class RoundsChoice:
    """The number of rounds with the smallest bound.

    Parameters
    ----------
    n_rounds : int
        ``M*``; the smallest one where several share the smallest bound.
    bound : float
        ``G(M*)``, in units of the loss.
    candidates : ndarray of shape (n_steps,), float64, read-only
        ``G(M)`` for ``M = 1, ..., n_steps``, to plot; infinite where it overflows.
    """

    n_rounds: int
    bound: float
    candidates: np.ndarray = field(repr=False, compare=False)


def initial_variance(
    n_rounds: int,
    *,
    sensitivity: float,
    epsilon: float,
    delta: float,
    noise_ratio: float = 1.0,
    participation: float = 1.0,
    calibration: str = "proved",
) -> float:
    """Variance of the first round's noise if ``n_rounds`` rounds use up the budget.

    The variance of round ``m = 1, ..., n_rounds`` is this times ``noise_ratio**(m - 1)``.

    Parameters
    ----------
    n_rounds : int
        At least 1.
    sensitivity : float
        L2 sensitivity of one round's release, positive.
    epsilon, delta : float
        Budget of all rounds; epsilon in (0, inf], delta in (0, 1).
    noise_ratio : float, default=1.0
        Ratio of the variances of consecutive rounds, positive.
    participation : float, default=1.0
        Part of the parties that is chosen for a round, in (0, 1]. Only the published noise shrinks
        with it; the proved one lets a party be in every round.
    calibration : {"proved", "published"}, default="proved"
        ``"proved"``: the releases together are one Gaussian mechanism of exactly this epsilon and
        delta. ``"published"``: Yuan et al. 2023, Theorem 1, which proves no such epsilon.

    Returns
    -------
    variance : float
        Of each coordinate, in squared units of the sensitivity.

    Raises
    ------
    TypeError, ValueError
        An argument is of another type or out of its range.
    """
    n_rounds = count_argument("n_rounds", n_rounds, 1)
    log_ratio = log(_positive("noise_ratio", noise_ratio))
    unit = _unit_variance(sensitivity, epsilon, delta, participation, calibration)
    return unit * float(_series(-log_ratio, np.array([n_rounds], dtype=np.float64))[0])


def optimal_rounds(
    *,
    n_steps: int,
    learning_rate: float,
    smoothness: float,
    curvature: float,
    lipschitz: float,
    divergence: float,
    initial_gap: float,
    n_parameters: int,
    n_parties: int,
    sensitivity: float,
    epsilon: float,
    delta: float,
    noise_ratio: float = 1.0,
    participation: float = 1.0,
    calibration: str = "proved",
) -> RoundsChoice:
    """Number of rounds that minimises a bound on the final loss gap.

    For ``M`` rounds of ``T / M`` local gradient steps each, after Yuan et al. 2023, Theorem 3::

        G(M) = (1 - eta mu)^T e0  +  zeta h(T/M) sum_m a^(M-m)
               +  L d / (2 K) sum_m a^(M-m) Theta(m),      a = (1 - eta mu)^(T/M)
        h(t) = gamma / L ((1 + eta L)^t - 1) - eta gamma t

    with sums over ``m = 1, ..., M`` and ``Theta(m)`` the noise variance of round ``m`` (Theorem 1;
    see ``initial_variance``). The second term, drift, falls with ``M``; the third, noise, rises.

    Parameters
    ----------
    n_steps : int
        Local gradient steps of a party over the whole fit (``T``), at least 1.
    learning_rate : float
        Step size (``eta``), positive and at most ``1 / smoothness``.
    smoothness : float
        Lipschitz constant of the gradients of every party's loss (``L``), positive.
    curvature : float
        Polyak-Lojasiewicz constant of the average loss (``mu``), positive, at most ``smoothness``.
    lipschitz : float
        Lipschitz constant of every party's loss (``zeta``), positive.
    divergence : float
        Average distance of a party's gradient from the average gradient (``gamma``), at least 0.
    initial_gap : float
        Loss of the first model minus the smallest loss (``e0``), positive.
    n_parameters : int
        Parameters of the model (``d``), at least 1.
    n_parties : int
        Parties in a round, each with its own noise and equal weight (``K``), at least 1. Where a
        secure sum adds one noise to the average, give 1 and the sensitivity of that average.
    sensitivity, epsilon, delta, noise_ratio, participation, calibration
        See ``initial_variance``.

    Returns
    -------
    choice : RoundsChoice
        A round then has ``T / M`` steps, which need not be whole.

    Raises
    ------
    TypeError, ValueError
        An argument is of another type or out of its range, or the bound overflows for every number
        of rounds.

    Notes
    -----
    Nothing here touches data and nothing is charged, so all constants must be public: they must not
    be estimated from private gradients or losses without paying for it from the budget.

    The paper's own bound is not reproduced to the letter: this one follows from descent under the
    Polyak-Lojasiewicz inequality, the drift lemma of Wang et al. 2019 and zero-mean noise. All
    ``M`` from 1 to ``T`` are tried, so the minimum found is one whether or not ``G`` is convex
    for these constants (bisection would need that).
    """
    n_steps = count_argument("n_steps", n_steps, 1)
    eta, curve = _positive("learning_rate", learning_rate), _positive("curvature", curvature)
    smooth, zeta = _positive("smoothness", smoothness), _positive("lipschitz", lipschitz)
    gap = _positive("initial_gap", initial_gap)
    log_ratio = log(_positive("noise_ratio", noise_ratio))
    gamma = 0.0 if divergence == 0 else _positive("divergence, if not 0,", divergence)
    if eta * smooth > 1:
        raise ValueError(
            f"learning_rate must be at most 1 / smoothness = {1 / smooth:g}; got {learning_rate!r}."
        )
    if curve > smooth:
        raise ValueError(
            f"curvature must be at most smoothness={smoothness!r}, as no {smoothness!r}-smooth "
            f"loss has more; got {curvature!r}."
        )
    dims = count_argument("n_parameters", n_parameters, 1)
    parties = count_argument("n_parties", n_parties, 1)
    unit = _unit_variance(sensitivity, epsilon, delta, participation, calibration)

    n_rounds = np.arange(1, n_steps + 1, dtype=np.float64)
    steps = n_steps / n_rounds
    log_decay = log1p(-eta * curve) if eta * curve < 1 else -inf
    log_a = steps * log_decay
    bound = np.full(n_steps, gap * np.exp(n_steps * log_decay))
    with np.errstate(over="ignore"):  # infinite is where the bound says nothing
        if gamma:
            drift = gamma * (np.expm1(steps * log1p(eta * smooth)) / smooth - eta * steps)
            bound += zeta * drift * _series(log_a, n_rounds)
        if unit:
            # sum_m a^(M-m) Theta(m) = unit * sum_j theta^j * sum_k (a / theta)^k, j and k below M:
            # the form of it in which nothing is infinite unless the whole is.
            noise = _series(log_ratio, n_rounds) * _series(log_a - log_ratio, n_rounds)
            bound += smooth * dims / (2 * parties) * unit * noise
    best = int(np.argmin(bound))
    if not isfinite(bound[best]):
        raise ValueError("The bound overflows for every number of rounds: too much drift or noise.")
    bound.flags.writeable = False
    return RoundsChoice(best + 1, float(bound[best]), bound)


def _unit_variance(
    sensitivity: Any, epsilon: Any, delta: Any, participation: Any, calibration: str
) -> float:
    """Variance of a single release that takes the whole budget."""
    sensitivity = _positive("sensitivity", sensitivity)
    epsilon = inf if epsilon == inf else _positive("epsilon, if not inf,", epsilon)
    delta = _positive("delta", delta)
    if delta >= 1:
        raise ValueError(f"delta must be in (0, 1); got {delta!r}.")
    participation = _positive("participation", participation)
    if participation > 1:
        raise ValueError(f"participation must be in (0, 1]; got {participation!r}.")
    if calibration not in _CALIBRATIONS:
        raise ValueError(f"calibration must be one of {_CALIBRATIONS}; got {calibration!r}.")
    if calibration == "published":
        return 2 * participation * sensitivity**2 * -log(delta) / epsilon**2
    return sensitivity**2 / float(gaussian_budget(exact(epsilon), exact(delta)))


def _series(log_x: Any, n: np.ndarray) -> np.ndarray:
    """``1 + x + ... + x^(n-1)`` elementwise, without cancellation near ``x = 1``."""
    log_x = np.broadcast_to(np.asarray(log_x, dtype=np.float64), n.shape)
    step = np.expm1(log_x)
    with np.errstate(over="ignore"):
        return np.divide(np.expm1(n * log_x), step, out=n.copy(), where=step != 0)

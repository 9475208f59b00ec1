"""Rounds of clustered training on the server, from released sums and public numbers alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sklearn_fedpriv.cluster._planning import Plan
from sklearn_fedpriv.cluster._queries import ClusterUpdate
from sklearn_fedpriv.federation._run import Run

_DAMPING = 0.9  # of the counts: noise in a single round's hardly matters
_AVERAGED = 0.25  # last part of the rounds, over which hypotheses and counts are averaged
# A hypothesis that hardly anybody uses is moved beside the one most use, until half of the rounds
# are over: when the mean count is known to a twelfth of an equal share and below a tenth of it, or
# at two late points when it is known to a third and below a quarter.
_MOVED_UNTIL = 0.5
_SURE, _FEW = 12.0, 10.0
_LATE_SURE, _LATE_FEW = 3.0, 4.0
_KEPT = 1000  # numbers of a history's hypotheses a round, at most


@dataclass
class Trained:
    """What the rounds left: released numbers and functions of them.

    Parameters
    ----------
    hypotheses : ndarray of shape (n_clusters, n_parameters)
    counts : ndarray of shape (n_clusters,)
        Mean released number of parties a round.
    n_rounds : int
        Rounds that took place.
    path : list of ndarray
        The hypotheses at the start and after each round, of small models.
    all_counts : list of ndarray
    choices : dict
        Last choice of each party, where it was told.
    """

    hypotheses: np.ndarray
    counts: np.ndarray
    n_rounds: int = 0
    path: list = field(default_factory=list)
    all_counts: list = field(default_factory=list)
    choices: dict = field(default_factory=dict)


def directions(n_clusters: int, n_parameters: int, rng: np.random.Generator) -> np.ndarray:
    """Public directions of length 1 that add up to about zero; plus and minus one for two."""
    drawn = rng.standard_normal((n_clusters, n_parameters))
    if n_clusters > 1:
        drawn -= drawn.mean(axis=0)
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn


def spread_start(
    origin: np.ndarray, n_clusters: int, spread: float, rng: np.random.Generator
) -> np.ndarray:
    """Hypotheses around ``origin``, from no data."""
    if n_clusters == 1:
        return origin[None, :].copy()
    return origin + spread * directions(n_clusters, len(origin), rng)


def train(
    run: Run,
    plan: Plan,
    query: ClusterUpdate,
    norms: Sequence[float],
    lots: Sequence[tuple[str, ...]],
    rng: np.random.Generator,
    *,
    spread: float,
    loss: Callable[[np.ndarray], float] | None,
    patience: int | None,
) -> Trained:
    """Rounds of noisy updates; see ``docs/personalised_models.md``.

    Parameters
    ----------
    run : Run
    plan : Plan
    query : ClusterUpdate
        Its hypotheses are the start.
    norms : sequence of float
        Clip norm of each round.
    lots : sequence of tuple of str
        Parties of each round.
    rng : Generator
        Public.
    spread : float
        How far a hypothesis that is moved comes to lie from the one it is put beside.
    loss : callable or None
        Of hypotheses, on public rows.
    patience : int or None
        Rounds without a smaller loss after which training stops.
    """
    count_sd = 0.0  # of the noise in a count
    if not query.discloses:
        count_sd = run.noise_sd_of(query, plan.share) / query.ticks_of_norm
    state = _State(query.hypotheses, plan, count_sd)
    result = Trained(query.hypotheses, np.zeros(query.n_clusters))
    small = query.hypotheses.size <= _KEPT
    result.path = [query.hypotheses] if small else []
    best, waited, stopped = np.inf, 0, False
    for t, (norm, chosen) in enumerate(zip(norms, lots, strict=True)):
        asked = replace(query, hypotheses=state.hypotheses, clip_norm=norm, chosen=chosen)
        updates, counts, choices = asked.read(run.release(asked, plan.share))
        state.step(t, updates, counts)
        state.move_unused(t, spread, rng)
        if choices is not None:
            result.choices.update(zip(chosen, map(int, choices), strict=True))
        result.n_rounds = t + 1
        result.all_counts.append(counts)
        if small:
            result.path.append(state.hypotheses)
        if loss is not None and patience is not None:
            now = loss(state.hypotheses)
            waited = waited + 1
            if now < best:
                best, waited, result.hypotheses = now, 0, state.hypotheses
            if waited >= patience:
                stopped = True
                break
    last = result.all_counts[-max(1, round(_AVERAGED * result.n_rounds)) :]
    result.counts = np.mean(last, axis=0)
    if not stopped:
        result.hypotheses = state.average()
    return result


def train_as_published(
    run: Run, plan: Plan, query: ClusterUpdate, lots: Sequence[tuple[str, ...]]
) -> Trained:
    """The rounds as printed: the plain mean of what a hypothesis received; else it stays."""
    small = query.hypotheses.size <= _KEPT
    hypotheses = query.hypotheses
    result = Trained(hypotheses, np.zeros(query.n_clusters), path=[hypotheses] if small else [])
    for chosen in lots:
        asked = replace(query, hypotheses=hypotheses, chosen=chosen)
        updates, counts, choices = asked.read(run.release(asked, plan.share))
        hypotheses = hypotheses + updates / np.maximum(counts, 1)[:, None]
        assert choices is not None
        result.choices.update(zip(chosen, map(int, choices), strict=True))
        result.all_counts.append(counts)
        if small:
            result.path.append(hypotheses)
    result.hypotheses, result.n_rounds = hypotheses, len(lots)
    result.counts = np.mean(result.all_counts[-max(1, round(_AVERAGED * len(lots))) :], axis=0)
    return result


class _State:
    """Hypotheses, smoothed counts and averages between two rounds."""

    def __init__(self, start: np.ndarray, plan: Plan, count_sd: float) -> None:
        self.hypotheses = start
        self._plan, self._sd = plan, count_sd
        self._equal = plan.n_chosen / len(start)
        self._share = np.full(len(start), self._equal)
        self._seen: list[np.ndarray] = []
        self._tried = False
        self._total, self._n_averaged = np.zeros_like(start), 0

    def step(self, t: int, updates: np.ndarray, counts: np.ndarray) -> None:
        """Move each hypothesis by its updates over its smoothed count, which is kept in bounds."""
        self._share = _DAMPING * self._share + (1 - _DAMPING) * counts
        # Where few use a hypothesis its steps are short rather than wild.
        divisor = np.clip(self._share, self._equal, self._plan.n_chosen)
        self.hypotheses = self.hypotheses + updates / divisor[:, None]
        self._seen.append(counts)
        if t >= (1 - _AVERAGED) * self._plan.n_rounds:
            self._total = self._total + self.hypotheses
            self._n_averaged += 1

    def move_unused(self, t: int, spread: float, rng: np.random.Generator) -> None:
        """Put a hypothesis that hardly anybody uses beside the one most use, on either side."""
        plan, k = self._plan, len(self.hypotheses)
        end = _MOVED_UNTIL * plan.n_rounds
        if k == 1 or t >= end or len(self._seen) < 2:
            return
        chance = plan.n_chosen * (k - 1) / k**2 * (1 - plan.n_chosen / plan.n_parties)
        sd = ((self._sd**2 + chance) / len(self._seen)) ** 0.5
        sure = sd <= self._equal / _SURE
        late = t + 1 in (int(end / 2), int(end)) and sd <= self._equal / _LATE_SURE
        if not sure and (not late or self._tried):
            return
        mean = np.mean(self._seen, axis=0)
        self._seen, self._tried = [], True
        few, many = mean.argmin(), mean.argmax()
        if mean[few] < self._equal / (_FEW if sure else _LATE_FEW):
            apart = spread * directions(2, self.hypotheses.shape[1], rng)
            moved = self.hypotheses.copy()
            moved[many], moved[few] = moved[many] + apart[0], moved[many] + apart[1]
            self.hypotheses = moved
            self._share[:] = self._equal

    def average(self) -> np.ndarray:
        """Mean over the last rounds: what noise there is in single ones cancels out."""
        if not self._n_averaged:
            return self.hypotheses
        return self._total / self._n_averaged

"""What is asked of a party: which hypothesis suits its rows, and how it would change it.

The answer is a *block* of one slot a hypothesis. In the slot of the hypothesis with the smallest
loss on the party's rows stand the update, held to the clip norm, and a count of the same size; all
other slots are zero. Everything is in whole ticks, ``TICKS`` of them for the clip norm, so that the
distances below are exact. Two blocks are at most ``2 * TICKS`` apart: with the same slot by the two
updates; with different ones by ``sqrt(|u|^2 + |u'|^2 + 2 TICKS^2)``.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.cluster._linear import LinearModel
from sklearn_fedpriv.federation._query import Query, Tools, batches_of
from sklearn_fedpriv.privacy._clip import clip_integer_rows, clip_rows
from sklearn_fedpriv.privacy._randomness import Stream

WIDEST = 1024.0  # updates of the published method are held to it, for the range of the words alone


@record
@dataclass(frozen=True, eq=False)
class ClusterUpdate(Query):
    """Sum over the chosen parties of their blocks: which slot a party uses is hidden by the noise.

    Parameters
    ----------
    model : LinearModel or None
        None means the net that each party built for itself.
    hypotheses : ndarray of shape (n_clusters, n_parameters), float64
    clip_norm : float
        Longest update, in the units of the parameters.
    chosen : tuple of str
        The parties that take part, sorted.
    n_epochs : int
        Passes over a party's rows.
    batch_size : int
        Rows a step; 0 takes all.
    """

    unit = "party"
    integral = True
    prefer = "threads"
    ticks_of_norm: ClassVar[int] = 2**20

    model: LinearModel | None
    hypotheses: np.ndarray
    clip_norm: float
    chosen: tuple[str, ...]
    n_epochs: int
    batch_size: int

    def __post_init__(self) -> None:
        if self.hypotheses.ndim != 2 or self.hypotheses.dtype != np.float64:
            raise ValueError("The hypotheses must be float64, one row each.")
        if not self.chosen or not 0 < self.clip_norm < np.inf:
            raise ValueError("There must be chosen parties, and clip_norm must be positive.")

    @property
    def participants(self) -> tuple[str, ...]:
        """The chosen parties."""
        return self.chosen

    @property
    def n_clusters(self) -> int:
        """Slots of a block."""
        return len(self.hypotheses)

    @property
    def n_parameters(self) -> int:
        """Numbers of an update."""
        return self.hypotheses.shape[1]

    @property
    def length(self) -> int:
        """Every slot holds an update and a count."""
        return self.n_clusters * (self.n_parameters + 1)

    @property
    def bound(self) -> int:
        """Squared: an update and its count."""
        return 2 * self.ticks_of_norm**2

    def squared_sensitivity(self, adjacency: str) -> int:
        """Of two blocks, or of a block and none; see the heading of this file."""
        return (4 if adjacency == "replace" else 2) * self.ticks_of_norm**2

    def choose(self, X: np.ndarray, y: np.ndarray, tools: Tools) -> int:
        """Index of the hypothesis with the smallest loss; the first of equal ones."""
        return best_hypothesis(self.model or tools.code, self.hypotheses, X, y)

    def answer(self, X: np.ndarray, y: np.ndarray, tools: Tools) -> tuple[int, np.ndarray]:
        """The party's slot, and its update in ticks, held to the clip norm exactly."""
        trainer = self.model or tools.code
        slot = self.choose(X, y, tools)
        batches = batches_of(len(X), self.n_epochs, self.batch_size, tools.stream)
        seed = int(tools.stream.uint64(1)[0])
        update = trainer.train(self.hypotheses[slot], X, y, batches, seed)
        return slot, self.held(update)

    def held(self, update: np.ndarray) -> np.ndarray:
        """Ticks of an update, of squared norm at most ``ticks_of_norm**2``, in whole numbers."""
        size = self.ticks_of_norm
        with np.errstate(over="ignore", invalid="ignore"):
            parts = clip_rows(np.asarray(update, dtype=np.float64)[None, :] / self.clip_norm, 1.0)
        # Towards zero, and a little less than the norm: rounding never leads beyond it.
        ticks = np.trunc(parts * (size * (1 - 2.0**-24))).astype(np.int64)
        held: np.ndarray = clip_integer_rows(ticks, size**2)[0]
        return held

    def ticks(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """The block."""
        assert tools is not None
        slot, update = self.answer(X, y, tools)
        block = np.zeros((self.n_clusters, self.n_parameters + 1), dtype=np.int64)
        block[slot, :-1] = update
        block[slot, -1] = self.ticks_of_norm
        return block.ravel()

    def read(self, total: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Sums of updates (n_clusters, n_parameters), counts, and the choices if they are told."""
        slots = total.reshape(self.n_clusters, self.n_parameters + 1) / self.ticks_of_norm
        return slots[:, :-1] * self.clip_norm, slots[:, -1], None


@record
@dataclass(frozen=True, eq=False)
class OpenClusterUpdate(ClusterUpdate):
    """The same with each party's choice in clear: only the update is hidden, by noise in its slot.

    Behind the updates stands a one-hot row for each chosen party.
    """

    discloses = "every party's choice of hypothesis, which is sent in clear"

    @property
    def length(self) -> int:
        """Updates, and a choice for each chosen party."""
        return self.n_clusters * (self.n_parameters + len(self.chosen))

    @property
    def n_joint(self) -> int:
        """One update."""
        return self.n_parameters

    @property
    def bound(self) -> int:
        """Squared: an update and the choice."""
        return self.ticks_of_norm**2 + 1

    def squared_sensitivity(self, adjacency: str) -> int:
        """Of two updates in one slot, between data sets that agree on the choice."""
        return (4 if adjacency == "replace" else 1) * self.ticks_of_norm**2

    def ticks(self, X: np.ndarray, y: Any, tools: Tools | None) -> np.ndarray:
        """The update in its slot, and the slot."""
        assert tools is not None
        slot, update = self.answer(X, y, tools)
        updates = np.zeros((self.n_clusters, self.n_parameters), dtype=np.int64)
        updates[slot] = update
        choices = np.zeros((len(self.chosen), self.n_clusters), dtype=np.int64)
        choices[self.chosen.index(tools.party), slot] = 1
        return np.concatenate([updates.ravel(), choices.ravel()])

    def _slot_of(self, ticks: np.ndarray) -> int:
        choices = ticks[self.n_clusters * self.n_parameters :].reshape(-1, self.n_clusters)
        return int(choices.sum(axis=0).argmax())

    def noise(self, noise: Any, ticks: np.ndarray, stream: Stream) -> np.ndarray:
        """One draw for the slot in use; the choice, being told, places it."""
        drawn = np.zeros(self.length, dtype=np.int64)
        slot = self._slot_of(ticks)
        here = slice(slot * self.n_parameters, (slot + 1) * self.n_parameters)
        drawn[here] = noise.draw(self.n_parameters, stream)
        return drawn

    def read(self, total: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Sums of updates, counts, and the index that each chosen party uses."""
        cut = self.n_clusters * self.n_parameters
        updates = total[:cut].reshape(self.n_clusters, -1) * (self.clip_norm / self.ticks_of_norm)
        choices = total[cut:].reshape(-1, self.n_clusters)
        return updates, choices.sum(axis=0), choices.argmax(axis=1)


@record
@dataclass(frozen=True, eq=False)
class PublishedUpdate(OpenClusterUpdate):
    """The method as printed: noise in proportion to the party's own update, which proves nothing.

    Galli et al.: the rate is ``n / (nu * |update|)``, so the noise is about ``nu`` times as long as
    the update, and tells its length; an update of zero is sent as it is.
    """

    proved = False
    ticks_of_norm: ClassVar[int] = 2**32

    def squared_sensitivity(self, adjacency: str) -> int:
        """So that the terms give the rate of an update as long as the range of the words."""
        return self.ticks_of_norm**2

    def noise(self, noise: Any, ticks: np.ndarray, stream: Stream) -> np.ndarray:
        """At a rate that follows from the update itself."""
        updates = ticks[: self.n_clusters * self.n_parameters]
        length = isqrt(sum(int(number) ** 2 for number in updates[updates != 0]))
        if length == 0 or not noise.rate:
            return np.zeros(self.length, dtype=np.int64)
        own = type(noise)(noise.rate * self.ticks_of_norm / length, noise.dimension, noise.event)
        return super().noise(own, ticks, stream)


def best_hypothesis(trainer: Any, hypotheses: np.ndarray, X: np.ndarray, y: np.ndarray) -> int:
    """Index of the hypothesis with the smallest loss on these rows; what is no number loses."""
    losses = np.array([trainer.loss(weights, X, y) for weights in hypotheses])
    return int(np.where(np.isfinite(losses), losses, np.inf).argmin())

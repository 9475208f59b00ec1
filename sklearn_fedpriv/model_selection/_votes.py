"""Votes for candidates: the one release of a search, and what its noise leaves of the winner."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import LocalFailure
from sklearn_fedpriv.federation._query import PartyQuery
from sklearn_fedpriv.model_selection._twin import Failure
from sklearn_fedpriv.privacy._randomness import Stream


@record
@dataclass(frozen=True)
class Votes(PartyQuery):
    """How many parties have each candidate among their best.

    Each party casts ``n_votes`` votes, for as many distinct candidates, whatever happens in it.

    Parameters
    ----------
    n_candidates : int
    n_votes : int
        Below ``n_candidates``: votes for all would say nothing.
    """

    integral = True
    n_candidates: int
    n_votes: int

    def __post_init__(self) -> None:
        if not 1 <= self.n_votes < self.n_candidates:
            raise ValueError(
                f"A party must have at least 1 vote and fewer than the {self.n_candidates} "
                f"candidates; got {self.n_votes}."
            )

    @property
    def length(self) -> int:
        """One number a candidate."""
        return self.n_candidates

    @property
    def bound(self) -> int:
        """Squared norm of a vector with ``n_votes`` ones."""
        return self.n_votes

    @property
    def n_pieces(self) -> int:
        """One a candidate."""
        return self.n_candidates

    def squared_sensitivity(self, adjacency: str) -> int:
        """Two votes of one party differ at ``min(k, p - k)`` places each way at most."""
        if adjacency == "replace":
            return 2 * min(self.n_votes, self.n_candidates - self.n_votes)
        return self.n_votes

    def sensitivity(self, adjacency: str) -> int:
        """The same in L1, which for ones and zeros is the same number."""
        return self.squared_sensitivity(adjacency)

    def piece(self, i, X, y, code):
        """The party's own score of candidate ``i``; stays in the party."""
        return code.score(i, X, y)

    def local(self, X, y, tools):
        """A one for each of the ``n_votes`` best candidates."""
        scores = [_usable(score, tools.code.error_score) for score in tools.pieces]
        _refuse_failures(tools.pieces, tools.code.error_score)
        return best_of(scores, self.n_votes, tools.stream)

    def ticks(self, X, y, tools):
        """Exactly ``n_votes`` ones; anything else is replaced by votes at random (G22)."""
        votes = np.asarray(self.local(X, y, tools))
        if (
            votes.shape != (self.n_candidates,)
            or not np.isin(votes, (0, 1)).all()
            or votes.sum() != self.n_votes
        ):
            votes = best_of(np.zeros(self.n_candidates), self.n_votes, tools.stream)
        return votes.astype(np.int64)


def best_of(scores: Sequence[float] | np.ndarray, n_votes: int, stream: Stream) -> np.ndarray:
    """Ones at the highest scores; NaN ranks last, ties are broken by secret bits.

    Parameters
    ----------
    scores : sequence of float
    n_votes : int
    stream : Stream

    Returns
    -------
    votes : ndarray of int64, with ``n_votes`` ones
    """
    scores = np.asarray(scores, dtype=np.float64)
    last = np.isnan(scores)
    order = np.lexsort((stream.uint64(len(scores)), -np.where(last, 0, scores), last))
    votes = np.zeros(len(scores), dtype=np.int64)
    votes[order[:n_votes]] = 1
    return votes


def _usable(score: float | Failure, error_score: float | str) -> float:
    if isinstance(score, Failure):
        return np.nan if isinstance(error_score, str) else float(error_score)
    return score


def _refuse_failures(scores: Sequence[float | Failure], error_score: float | str) -> None:
    failed = [(i, score.kind) for i, score in enumerate(scores) if isinstance(score, Failure)]
    if error_score == "raise" and failed:
        i, kind = failed[0]
        raise LocalFailure(
            f"candidate {i} failed with a {kind}. With error_score=nan it would rank last."
        )
    if len(failed) == len(scores):
        kinds = ", ".join(sorted({kind for _, kind in failed}))
        raise LocalFailure(
            f"each of {len(scores)} candidates failed, with {kinds}. Its text stays inside, as it "
            "may quote rows: fit one of them where the rows are. Often there is one class only, "
            "or there are too few rows for the folds of cv."
        )


def selection_bound(noisy_votes: np.ndarray, winner: int, sd: float, failure: float) -> float:
    """How many true votes the winner may lack to the best, but for a chance of ``failure``.

    Parameters
    ----------
    noisy_votes : ndarray of shape (n_candidates,)
    winner : int
    sd : float
        Of all noise in one number, that of every share.
    failure : float
    """
    behind = float(noisy_votes.max() - noisy_votes[winner])
    quantile = NormalDist().inv_cdf(1 - failure / len(noisy_votes))
    return behind + quantile * 2**0.5 * sd

"""What a vote can decide through its noise, from public numbers alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.integrate import trapezoid
from scipy.stats import norm

from sklearn_fedpriv.federation._preview import imagined_terms, smallest_epsilon
from sklearn_fedpriv.federation._terms import noise_for
from sklearn_fedpriv.model_selection._votes import Votes
from sklearn_fedpriv.privacy._ledger import PlannedRelease, budget

GOOD_ODDS = 0.9
MOST_VOTES = 5  # more did not help in any setting of the paper's simulation
CANDIDATES_A_VOTE = 4


@dataclass(frozen=True, kw_only=True)
class Electorate:
    """The public facts of a search: who votes on how many candidates, under which privacy.

    Parameters
    ----------
    n_candidates : int
    n_parties : int
    min_honest : int or None
    max_dropouts : int
    adjacency : str
    delta : float
    """

    n_candidates: int
    n_parties: int
    min_honest: int | None
    max_dropouts: int
    adjacency: str
    delta: float

    def noise(self, n_votes: int, epsilon: float) -> tuple[float, float]:
        """Standard deviation of the noise in a candidate's votes: in this federation, and ideally.

        Ideal is continuous noise of just the size that the budget asks for; ours also makes up for
        shares that a curious party knows or that are missing, and for being whole numbers.
        """
        query = Votes(self.n_candidates, n_votes)
        squared = query.squared_sensitivity(self.adjacency)
        terms = imagined_terms(
            self.n_parties,
            self.min_honest,
            self.max_dropouts,
            budget(epsilon, self.delta, "gaussian"),
            plan_of(query),
        )
        real = noise_for(terms, Fraction(1), squared, squared).sd(self.n_parties)
        return real, float(squared / terms.budget.total(terms.n_coordinates)) ** 0.5

    def odds(self, n_votes: int, epsilon: float) -> tuple[float, float]:
        """Chance of a candidate that all prefer: in this federation, and ideally."""
        gap = self.n_parties * (self.n_candidates - n_votes) / (self.n_candidates - 1)
        real, ideal = (
            chance_to_win(gap, sd, self.n_candidates) for sd in self.noise(n_votes, epsilon)
        )
        return real, ideal

    def votes(self, n_votes: int | str, epsilon: float) -> int:
        """``n_votes``, or for ``"auto"`` the most with which the candidate that all prefer wins."""
        if not isinstance(n_votes, str):
            return int(n_votes)
        most = min(MOST_VOTES, self.n_candidates // CANDIDATES_A_VOTE)
        for votes in range(most, 1, -1):
            if self.odds(votes, epsilon)[0] >= GOOD_ODDS:
                return votes
        return 1

    def good_epsilon(self, n_votes: int | str) -> float:
        """Smallest epsilon at which the candidate that all prefer has good odds."""
        return smallest_epsilon(
            lambda epsilon: self.odds(self.votes(n_votes, epsilon), epsilon)[0] >= GOOD_ODDS
        )


def plan_of(query: Votes) -> list[PlannedRelease]:
    """The plan of a search: one release."""
    return [PlannedRelease("Votes", 1, Fraction(1), query.length, query.squared_norm)]


def chance_to_win(gap: float, sd: float, n_candidates: int) -> float:
    """Chance that a candidate ``gap`` votes ahead of all others wins through Gaussian noise."""
    if sd == 0:
        return 1.0
    noise = np.linspace(-12, 12, 4801)
    wins = np.exp((n_candidates - 1) * norm.logcdf(noise + gap / sd))
    return float(min(1.0, trapezoid(norm.pdf(noise) * wins, noise)))


@dataclass(frozen=True)
class SelectionPreview:
    """How a vote would stand against its noise.

    The model: each party votes for one and the same candidate, and the parties' other votes are
    spread evenly over the others. ``probability`` is the chance that this candidate is chosen.

    Attributes
    ----------
    n_candidates, n_parties, n_votes : int
    epsilon : float
        Of the selection.
    noise_sd : float
        Standard deviation of the noise in each candidate's votes.
    probability : float
        That a candidate that all parties prefer wins.
    ideal_probability : float
        The same if no share of noise had to make up for known or missing ones.
    good_epsilon : float
        From here on ``probability`` is 0.9 or more.
    table : tuple of (float, int, float, float)
        For a range of epsilons: epsilon, votes, noise and probability.
    """

    n_candidates: int
    n_parties: int
    n_votes: int
    epsilon: float
    noise_sd: float
    probability: float
    ideal_probability: float
    good_epsilon: float
    table: tuple[tuple[float, int, float, float], ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.n_candidates} candidates, {self.n_parties} parties, epsilon {self.epsilon:g} "
            f"for the selection: {self.n_votes} vote{'' if self.n_votes == 1 else 's'} a party",
            f"  noise of {self.noise_sd:.3g} votes against {self.n_parties}",
            f"  a candidate that all parties prefer wins with probability {self.probability:.2f} "
            f"({self.ideal_probability:.2f} if no share of noise made up for known or missing "
            "ones)",
            f"  with {GOOD_ODDS:g} from epsilon {self.good_epsilon:.2g} on",
        ]
        if self.table:
            lines.append("  epsilon  votes   noise  probability")
        for epsilon, votes, sd, chance in self.table:
            lines.append(f"  {epsilon:7g}  {votes:5d}  {sd:6.3g}  {chance:11.2f}")
        return "\n".join(lines)


def preview_of(
    electorate: Electorate, n_votes: int | str, epsilon: float, others: Sequence[float] = ()
) -> SelectionPreview:
    """How the vote stands at ``epsilon``, and in a table at ``others``."""

    def row(epsilon: float) -> tuple[float, int, float, float]:
        votes = electorate.votes(n_votes, epsilon)
        return (
            float(epsilon),
            votes,
            electorate.noise(votes, epsilon)[0],
            electorate.odds(votes, epsilon)[0],
        )

    _, votes, sd, chance = row(epsilon)
    return SelectionPreview(
        n_candidates=electorate.n_candidates,
        n_parties=electorate.n_parties,
        n_votes=votes,
        epsilon=float(epsilon),
        noise_sd=sd,
        probability=chance,
        ideal_probability=electorate.odds(votes, epsilon)[1],
        good_epsilon=electorate.good_epsilon(n_votes),
        table=tuple(map(row, others)),
    )

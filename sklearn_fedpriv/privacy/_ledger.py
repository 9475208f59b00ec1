"""Budgets that are checked before they are spent.

``Budget`` is what one fit may cost, and its plan says on what. ``RunLedger`` holds the releases of
one fit to both; every role keeps one and charges it before anything leaves (G6). ``Ledger`` is a
party's memory over fits. All arithmetic is in fractions: ten times a tenth is one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from sklearn_fedpriv._wire import record
from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.privacy._calibration import Exact, exact, gaussian_budget
from sklearn_fedpriv.privacy._events import (
    Event,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    UnprotectedEvent,
)
from sklearn_fedpriv.privacy._sampling import sampled_multiplier

MECHANISMS = ("gaussian", "laplace", "metric")


@record
@dataclass(frozen=True)
class Budget:
    """What one fit may cost, over all its releases.

    Parameters
    ----------
    epsilon : Fraction or inf
        Infinity buys releases without noise.
    delta : Fraction
        Zero for ``"laplace"`` and ``"metric"``, which are pure.
    mechanism : {"gaussian", "laplace", "metric"}
        Metric noise is made by each party in full (G17); the others are made in shares.
    """

    epsilon: Fraction | float
    delta: Fraction
    mechanism: str

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"mechanism must be one of {MECHANISMS}; got {self.mechanism!r}.")
        if not self.epsilon > 0 or (isinstance(self.epsilon, float) and self.epsilon != inf):
            raise ValueError(f"epsilon must be a positive Fraction or inf; got {self.epsilon!r}.")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be in [0, 1); got {self.delta!r}.")

    @property
    def private(self) -> bool:
        """Whether the budget is finite."""
        return self.epsilon != inf

    def total(self, n_coordinates: int) -> Exact:
        """What the releases may add up to: ``mu^2`` for Gaussian noise, else epsilon."""
        if self.mechanism != "gaussian":
            return self.epsilon
        return gaussian_budget(self.epsilon, self.delta, n_coordinates)


def budget(epsilon: float, delta: float, mechanism: str = "gaussian") -> Budget:
    """The budget with exactly the decimal numbers that the user wrote."""
    spent_delta = exact(delta) if mechanism == "gaussian" else Fraction(0)
    assert isinstance(spent_delta, Fraction)
    return Budget(exact(epsilon), spent_delta, mechanism)


@record
@dataclass(frozen=True)
class PlannedRelease:
    """Releases of one kind of query, declared before the first of them.

    Parameters
    ----------
    query : str
        Name of the query's class; once in a plan.
    count : int
        At most so many releases.
    share : Fraction
        Of the budget, at most so much for all of them that one party takes part in: of ``mu^2``
        for Gaussian noise, else of epsilon. How it is split among them may depend on what was
        released before.
    length : int
        At most so many released numbers in all of them.
    squared : int
        At most this squared L2 norm of one contribution, in ticks; it sizes the words of the sums
        before anything is charged.
    sampling_rate : Fraction, default=1
        Below 1, each release is a step on a fresh Poisson sample of the rows. Such steps are the
        whole plan, all have the same noise, and the share is 1: see ``check_plan``.
    smallest : Fraction or None
        No release is to take less, as its noise would be larger; it sizes the words likewise.
        ``None`` is an even split of ``share``.
    participations : int, default=0
        At most so many of the releases hold data of one and the same party; 0 means that all hold
        every party's (G2).
    discloses : str, default=""
        What these releases tell without noise, in words; the guarantee holds between data sets
        that agree on it.
    """

    query: str
    count: int
    share: Fraction
    length: int
    squared: int = 1
    sampling_rate: Fraction = Fraction(1)
    smallest: Fraction | None = None
    participations: int = 0
    discloses: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.participations <= self.count:
            raise ValueError(f"participations must be in [0, count]; got {self.participations}.")
        if not 0 < self.sampling_rate <= 1:
            raise ValueError(f"A plan's sampling_rate must be in (0, 1]; got {self.sampling_rate}.")
        if min(self.count, self.length, self.squared) < 1 or not 0 < self.share <= 1:
            raise ValueError(
                f"A plan's count, length and squared must be at least 1 and its share in (0, 1]; "
                f"got {self}."
            )
        if self.smallest is not None and not 0 < self.smallest <= self.share:
            raise ValueError(
                f"A plan's smallest share must be positive and at most its share, {self.share}; "
                f"got {self.smallest}."
            )


def check_plan(plan: Sequence[PlannedRelease], mechanism: str) -> None:
    """Refuse plans that no accountant here covers (G13).

    Unsampled releases share a budget in any order and split. Sampled steps are counted instead:
    the noise of each follows from how many there will be, so they have a plan for themselves.
    """
    if sum(planned.share for planned in plan) > 1:
        raise ValueError("The plan's shares add up to more than the budget.")
    if len({planned.query for planned in plan}) < len(plan):
        raise ValueError("The plan names a kind of query twice.")
    if any(planned.sampling_rate < 1 for planned in plan):
        if len(plan) > 1 or plan[0].share != 1 or mechanism != "gaussian":
            raise ValueError(
                "Sampled steps need Gaussian noise and a plan for themselves, with a share of 1."
            )


class RunLedger:
    """The releases of one fit against its plan: a filter that refuses before it spends (G13).

    Parameters
    ----------
    budget : Budget
    plan : sequence of PlannedRelease
    owner : str
        Whose ledger it is, for the error text.
    """

    def __init__(self, budget: Budget, plan: Sequence[PlannedRelease], owner: str) -> None:
        check_plan(plan, budget.mechanism)
        n_coordinates = sum(planned.length for planned in plan)
        self._step: PlannedRelease | None = None  # the planned kind of sampled steps
        self._multiplier = Fraction(0)
        self.total: Exact = inf
        if plan and plan[0].sampling_rate < 1:
            self._step = plan[0]
            if budget.private:  # steps are counted, in parts of the plan
                self.total = Fraction(1)
                step = self._step
                self._multiplier = sampled_multiplier(
                    budget.epsilon, budget.delta, n_coordinates, step.sampling_rate, step.count
                )
        else:
            self.total = budget.total(n_coordinates)
        self.spent: Exact = Fraction(0)
        self.owner = owner
        self._left = {
            planned.query: (planned.count, planned.share * self.total, planned.length)
            for planned in plan
        }
        self._squared = {planned.query: planned.squared for planned in plan}
        self._parts = {
            planned.query: planned.participations for planned in plan if planned.participations
        }
        self._kind = GaussianEvent if budget.mechanism == "gaussian" else PureEvent

    @property
    def part_spent(self) -> float:
        """Spent part of a finite budget, in [0, 1]."""
        return float(self.spent / self.total)

    def _cost(self, event: Event) -> Exact:
        if isinstance(event, UnprotectedEvent):
            return inf
        if self._step is not None and isinstance(event, SampledGaussianEvent):
            return self._cost_of_step(event, self._step)
        if self._step is not None or not isinstance(event, self._kind):
            raise BudgetExceeded(
                f"The ledger of {self.owner} was opened for "
                f"{(SampledGaussianEvent if self._step else self._kind).__name__}s and refuses a "
                f"{type(event).__name__}."
            )
        return event.mu_squared if isinstance(event, GaussianEvent) else event.epsilon

    def _cost_of_step(self, event: SampledGaussianEvent, planned: PlannedRelease) -> Fraction:
        """One of the planned steps, if it is sampled as thinly and as noisy as they are."""
        too_loud = event.mu_squared * self._multiplier**2 > 1
        if event.sampling_rate > planned.sampling_rate or too_loud:
            raise BudgetExceeded(
                f"A step of {planned.query} has more rows or less noise than the plan of "
                f"{self.owner} allows: the noise covers {planned.count} steps at sampling rate "
                f"{float(planned.sampling_rate):g}."
            )
        return Fraction(1, planned.count)

    def check(
        self, query: str, event: Event, length: int, squared: int, takes_part: bool = True
    ) -> None:
        """Raise ``BudgetExceeded`` if the release is outside the plan; spend nothing.

        ``length`` and ``squared`` are the query's length and squared bound in ticks. A release that
        its owner takes no part in, by a plan with participations, costs nothing.
        """
        if query not in self._left:
            raise BudgetExceeded(f"The plan that {self.owner} agreed to has no {query}.")
        count, share, numbers = self._left[query]
        takes_part = takes_part or query not in self._parts
        cost = self._cost(event) if takes_part else Fraction(0)
        if count < 1:
            raise BudgetExceeded(f"The plan lets {self.owner} release no further {query}.")
        if takes_part and self._parts.get(query, 1) < 1:
            raise BudgetExceeded(
                f"The plan lets {self.owner} take part in no further {query}: the noise was made "
                "for as often as it has."
            )
        if cost > share or cost + self.spent > self.total:
            raise BudgetExceeded(
                f"The plan leaves {self.owner} {_share(share, self.total)} of the fit's budget for "
                f"releases of {query}, and this one would take {_share(cost, self.total)}."
            )
        if squared > self._squared[query]:
            raise BudgetExceeded(
                f"The plan of {self.owner} has {query} with a squared bound of "
                f"{self._squared[query]} at most; {squared} came."
            )
        if length > numbers:
            raise BudgetExceeded(
                f"The plan lets {self.owner} release {numbers} more numbers of {query}; {length} "
                "were asked for."
            )

    def commit(
        self, query: str, event: Event, length: int, squared: int, takes_part: bool = True
    ) -> None:
        """Spend, after the same check."""
        self.check(query, event, length, squared, takes_part)
        count, share, numbers = self._left[query]
        takes_part = takes_part or query not in self._parts
        cost = self._cost(event) if takes_part else Fraction(0)
        if takes_part and query in self._parts:
            self._parts[query] -= 1
        self._left[query] = (count - 1, _minus(share, cost), numbers - length)
        self.spent = self.spent + cost


def _minus(whole: Exact, part: Exact) -> Exact:
    return whole if whole == inf else whole - part


def _share(part: Exact, whole: Exact) -> str:
    if isinstance(part, float) or isinstance(whole, float):
        return "an unbounded part"
    return f"{float(part / whole):.6%}"


@record
@dataclass(frozen=True)
class LedgerEntry:
    """One whole fit, charged before its first release.

    ``seeded`` marks a rehearsal: its noise is known to whoever knows the seed, so its epsilon says
    what an unseeded fit would cost, not what this one gave away.
    """

    fit: str
    epsilon: Fraction | float
    delta: Fraction
    seeded: bool = False


class Ledger:
    """A party's fits, and the most they may cost together (basic composition).

    Parameters
    ----------
    max_epsilon, max_delta : float or None
        Ceilings over all fits; None sets none.
    """

    def __init__(self, max_epsilon: float | None = None, max_delta: float | None = None) -> None:
        self.max_epsilon = inf if max_epsilon is None else exact(max_epsilon)
        self.max_delta = inf if max_delta is None else exact(max_delta)
        self.entries: list[LedgerEntry] = []

    @property
    def epsilon(self) -> Exact:
        """Sum over all fits."""
        return sum((entry.epsilon for entry in self.entries), Fraction(0))

    @property
    def delta(self) -> Fraction:
        """Sum over all fits."""
        return sum((entry.delta for entry in self.entries), Fraction(0))

    def check(self, entry: LedgerEntry, owner: str) -> None:
        """Raise ``BudgetExceeded``, naming the owner, if the fit does not fit; spend nothing."""
        for name, cost, spent, ceiling in (
            ("epsilon", entry.epsilon, self.epsilon, self.max_epsilon),
            ("delta", entry.delta, self.delta, self.max_delta),
        ):
            if cost + spent > ceiling:
                raise BudgetExceeded(
                    f"Party {owner!r} allows {name}={float(ceiling):g} in all, has spent "
                    f"{float(spent):g} and was asked for {float(cost):g} more. Nothing was "
                    f"released. Ask for less, or let the party raise its max_{name}."
                )

    def commit(self, entry: LedgerEntry, owner: str) -> None:
        """Spend, after the same check."""
        self.check(entry, owner)
        self.entries.append(entry)

    def to_dict(self) -> dict[str, object]:
        """Exact JSON form."""
        return {
            "max_epsilon": str(self.max_epsilon),
            "max_delta": str(self.max_delta),
            "entries": [[e.fit, str(e.epsilon), str(e.delta), e.seeded] for e in self.entries],
        }

    @classmethod
    def from_dict(cls, data: dict) -> "Ledger":
        """Inverse of ``to_dict``, exactly."""
        ledger = cls()
        ledger.max_epsilon = _read(data["max_epsilon"])
        ledger.max_delta = _read(data["max_delta"])
        ledger.entries = [
            LedgerEntry(fit, _read(epsilon), Fraction(delta), seeded)
            for fit, epsilon, delta, seeded in data["entries"]
        ]
        return ledger


def _read(text: str) -> Exact:
    return inf if text == "inf" else Fraction(text)

"""What a fit would release and how loud its noise would be, from public numbers alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn_fedpriv.federation._terms import Terms
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease
from sklearn_fedpriv.secure import PlainSum


@dataclass(frozen=True)
class PlannedNoise:
    """Releases of one kind: how many, the noise of one number, and what it has to stand out of.

    Parameters
    ----------
    query : str
    count : int
    noise_sd : float
        Standard deviation of the noise in one released number.
    signal : float
        The size that such a number should have, in the same units.
    meaning : str
        What the signal is.
    """

    query: str
    count: int
    noise_sd: float
    signal: float
    meaning: str


@dataclass(frozen=True)
class Preview:
    """Planned releases, noise against signal, and the smallest epsilon at which the signal wins.

    Attributes
    ----------
    releases : tuple of PlannedNoise
    epsilon : float
        The budget that was asked about.
    smallest_epsilon : float
        Below it, noise drowns even the first release.
    wins : str
        What it means that the signal wins.
    """

    releases: tuple[PlannedNoise, ...]
    epsilon: float
    smallest_epsilon: float
    wins: str

    def __str__(self) -> str:
        lines = [f"at epsilon {self.epsilon:g}:"]
        for planned in self.releases:
            lines.append(
                f"  {planned.count} x {planned.query}: noise of {planned.noise_sd:.3g} against "
                f"{planned.signal:.3g} {planned.meaning}"
            )
        verdict = "noise wins" if self.epsilon < self.smallest_epsilon else "signal wins"
        lines.append(f"  {verdict}; {self.wins} from epsilon {self.smallest_epsilon:.2g} on")
        return "\n".join(lines)


def imagined_terms(
    n_parties: int,
    min_honest: int | None,
    max_dropouts: int,
    budget: Budget,
    plan: Sequence[PlannedRelease],
) -> Terms:
    """Terms of a fit that does not take place, to ask for its noise."""
    return Terms(
        federation=b"",
        fit=0,
        parties=tuple(sorted(map(str, range(n_parties)))),
        min_honest=n_parties if min_honest is None else min_honest,
        max_dropouts=max_dropouts,
        secure_sum=PlainSum(),
        keys=b"",
        unit="record",
        adjacency="add_remove",
        budget=budget,
        calibration="proved",
        plan=tuple(plan),
        transforms=(),
        code=b"",
        seeded=False,
    )


def check_public_counts(**counts: Any) -> None:
    """Refuse arguments of ``preview`` that are no whole numbers from 1."""
    for name, value in counts.items():
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} of preview must be an int of at least 1; got {value!r}.")


def smallest_epsilon(wins: Callable[[float], bool]) -> float:
    """Smallest epsilon in [1e-4, 1e6], to 1 %, at which ``wins`` holds; the end if none is."""
    low, high = 1e-4, 1e6
    if wins(low):
        return low
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if wins(middle) else (middle, high)
    return high

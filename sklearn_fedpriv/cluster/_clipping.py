"""How long an update may be in each round: public numbers that never rise."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FallingClip:
    """A clip norm that is held at first and then falls in a geometric series.

    Early rounds have far to go; later ones are near, and the noise falls with the clip norm.

    Parameters
    ----------
    first : float, default=1.0
        Of the first rounds, positive.
    last : float, default=0.05
        Of the end, as a part of the first, in (0, 1].
    hold : float, default=0.2
        Part of the rounds that have the first, in [0, 1).
    """

    first: float = 1.0
    last: float = 0.05
    hold: float = 0.2

    def __post_init__(self) -> None:
        for name in ("first", "last", "hold"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"{name} must be a real number; got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not (0 < self.first < inf and 0 < self.last <= 1 and 0 <= self.hold < 1):
            raise ValueError(
                "FallingClip needs first > 0 and finite, last in (0, 1] and hold in [0, 1); got "
                f"{self}."
            )

    def norms(self, n_rounds: int) -> list[float]:
        """Clip norm of each round."""
        parts = [max(0.0, (t / n_rounds - self.hold) / (1 - self.hold)) for t in range(n_rounds)]
        return [self.first * self.last**part for part in parts]


def clip_norms(clip_norm: Any, n_rounds: int) -> list[float]:
    """What an estimator's ``clip_norm`` means for each of ``n_rounds`` rounds.

    Parameters
    ----------
    clip_norm : None, float, sequence of float, or FallingClip
        None is ``FallingClip()``; a number stays the same in all rounds.
    n_rounds : int
    """
    if clip_norm is None:
        clip_norm = FallingClip()
    if isinstance(clip_norm, FallingClip):
        clip_norm = clip_norm.norms(n_rounds)
    if isinstance(clip_norm, Real) and not isinstance(clip_norm, bool):
        clip_norm = [float(clip_norm)] * n_rounds
    if isinstance(clip_norm, str) or not isinstance(clip_norm, Sequence | np.ndarray):
        raise TypeError(
            "clip_norm must be a positive number, a sequence with one a round, a FallingClip or "
            f"None; got {clip_norm!r}."
        )
    norms = [float(norm) for norm in clip_norm]
    if len(norms) != n_rounds:
        raise ValueError(f"clip_norm has {len(norms)} numbers for {n_rounds} rounds.")
    if not all(2.0**-100 < norm < 2.0**100 for norm in norms):
        raise ValueError("Every clip_norm must be positive, finite and within 2**100 of 1.")
    if any(late > early for early, late in zip(norms, norms[1:], strict=False)):
        raise ValueError("clip_norm must not rise from one round to the next.")
    return norms

"""The simulation of the paper (250 parties), in part: ``benchmarks/hype.py`` has all of it."""

import pytest

pytest.importorskip("benchmarks.hype", reason="runs from the root of the repository")

from benchmarks.hype import (
    EXPECTED,
    THEIR_SIGMAS,
    VOTES,
    elections,
    our_sigma,
    share_of_good_choices,
)

REPEATS = 1500  # standard error .013 at most


@pytest.mark.slow
@pytest.mark.parametrize("setting", [(100, 5, 0.6), (100, 5, 0.0), (100, 16, 0.2)], ids=str)
@pytest.mark.parametrize("ours", [False, True])
def test_the_shares_of_good_choices_are_those_of_the_paper(setting, ours):
    """Fixed seeds; .05 is four standard errors at 1,500 elections."""
    true = elections(setting, REPEATS, ties_by_index=not ours)
    for epsilon, expected in zip(THEIR_SIGMAS, EXPECTED[setting], strict=True):
        for k, share in zip(VOTES, expected, strict=True):
            sigma = our_sigma(setting[0], k, epsilon) if ours else THEIR_SIGMAS[epsilon][k]
            found = share_of_good_choices(true[k], setting[1], sigma)
            assert found >= share - 0.05
            assert ours or found <= share + 0.05

"""The price of a hundred Gaussian releases: ``python -m benchmarks.accounting``, half a minute.

How much noise a release needs when a hundred of them share one budget, and how long it takes to
find out: ``gaussian_budget``, which is exact for Gaussians, against two accountants of Google's
dp-accounting. CPU time, one core; a median for ours, one run of theirs. Nothing here is random.
"""

import time
from collections.abc import Callable

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from benchmarks._common import pin_to_one_core, print_table, seconds, three_digits
from sklearn_fedpriv.privacy._calibration import exact, gaussian_budget

N_RELEASES = 100
DELTA = 1e-5
EPSILONS = (0.1, 1.0, 10.0)
REPEATS = 5


def our_multiplier(epsilon: float) -> float:
    """Noise over sensitivity of each release."""
    gaussian_budget.cache_clear()
    return (N_RELEASES / float(gaussian_budget(exact(epsilon), exact(DELTA)))) ** 0.5


def their_multiplier(make_accountant: Callable[[], object], epsilon: float) -> float:
    """The same from dp-accounting."""

    def make_event(sd: float) -> dp_accounting.DpEvent:
        return dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(sd), N_RELEASES)

    return dp_accounting.calibrate_dp_mechanism(make_accountant, make_event, epsilon, DELTA)


def compare(epsilon: float) -> tuple[str, ...]:
    """One row: our noise and time, and dp-accounting's as ratios to them."""
    ours = our_multiplier(epsilon)
    [our_time] = seconds(lambda: our_multiplier(epsilon), repeats=REPEATS)
    ratios = []
    for make_accountant in (PLDAccountant, RdpAccountant):
        start = time.process_time()
        theirs = their_multiplier(make_accountant, epsilon)
        their_time = time.process_time() - start
        ratios += [f"{theirs / ours:.6f}", three_digits(their_time / our_time)]
    return (f"{epsilon:g}", f"{ours:.4f}", f"{our_time * 1e3:.1f} ms", *ratios)


def main() -> None:
    """Measure and print a Markdown table."""
    pin_to_one_core()
    print_table(
        f"{N_RELEASES} Gaussian releases, delta {DELTA:g}: noise multiplier of each",
        (
            "epsilon",
            "ours",
            "time",
            "PLD: noise / ours",
            "time / ours",
            "RDP: noise / ours",
            "time / ours",
        ),
        [compare(epsilon) for epsilon in EPSILONS],
    )


if __name__ == "__main__":
    main()

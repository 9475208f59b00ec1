"""What the benchmarks share: medians, means with standard errors, fresh processes, tables."""

import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def seconds(*functions: Callable[[], object], repeats: int) -> list[float]:
    """Median CPU seconds of each function; they take short turns, so that noise hits all alike."""
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for times, function in zip(taken, functions, strict=True):
            start = time.process_time()
            function()
            times.append(time.process_time() - start)
    return [statistics.median(times) for times in taken]


def mean_and_error(values: Sequence[float]) -> str:
    """Mean and its standard error, from two values on."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {statistics.stdev(values) / math.sqrt(len(values)):.3f}"


def three_digits(value: float) -> str:
    """A positive number without an exponent: 0.0123, 12.3, 1,234."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table under a title."""
    print(f"\n{title}\n", flush=True)
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def pin_to_one_core() -> None:
    """Stay on one core, so that CPU times do not depend on the number of threads."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a module in a new interpreter, whose peak memory is its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        return pool.submit(function, *arguments).result()


def peak_megabytes() -> float:
    """Peak resident memory of this process (Linux).

    Not ``getrusage``: its maximum counts the process from which this one was started.
    """
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024

"""Plant one fault at a time in a copy of the package and see whether the tests notice.

::

    python -m tests.mutants.run            # all faults
    python -m tests.mutants.run NAME ...   # some of them
    python -m tests.mutants.run --list

Tests go soft without anybody noticing: a bound is loosened, a case is dropped. Each fault of
``faults`` is a slip that would end the guarantee and that no user would see. A fault that
survives its tests is a failure of the tests; so are tests that fail without a fault. Everything
happens in copies in a temporary folder, two at a time.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
COPIED = ("sklearn_fedpriv", "tests", "pyproject.toml")
AT_ONCE = 2
LONGEST = 600  # seconds; tests that hang on a fault have noticed it
NO_TESTS_RAN, COULD_NOT_START = 5, 4


def main() -> int:
    """Run the chosen faults; 1 if any survives or cannot be planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults to plant; all by default")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    arguments = parser.parse_args()
    known = {fault.name: fault for fault in FAULTS}
    if arguments.list:
        print("\n".join(known))
        return 0
    if strange := sorted(set(arguments.names) - set(known)):
        parser.error(f"there is no fault {', '.join(strange)}; see --list")
    chosen = [known[name] for name in arguments.names or known]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = []
        if failing := [test for test, bad in sound(chosen, pool) if bad]:
            print("these fail without any fault:", " ".join(failing))
            return 1
        for fault, outcome in zip(chosen, pool.map(try_fault, chosen), strict=True):
            print(f"{outcome:9} {fault.name}", flush=True)
            outcomes.append(outcome)
    missed = [fault.name for fault, o in zip(chosen, outcomes, strict=True) if o != "caught"]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults caught")
    if missed:
        print("not caught:", ", ".join(missed))
    return 1 if missed else 0


def sound(faults: list[Fault], pool: ThreadPoolExecutor) -> Iterable[tuple[str, bool]]:
    """Each file of tests that will be run, and whether it fails as things are: it must not."""
    files: dict[str, list[str]] = {}
    for fault in faults:
        for test in fault.tests:
            files.setdefault(test.split("::")[0], []).append(test)
    nothing = [Fault("", "pyproject.toml", "", "", tuple(dict.fromkeys(t))) for t in files.values()]
    return zip(files, [o != "survived" for o in pool.map(try_fault, nothing)], strict=True)


def try_fault(fault: Fault) -> str:
    """Plant one fault in a fresh copy and run its tests: caught, survived, or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        target = copy / fault.file
        text = target.read_text()
        if fault.old:
            if text.count(fault.old) != 1:
                return "not found"
            target.write_text(text.replace(fault.old, fault.new))
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        # The copy comes first on the path, before the package that is installed.
        environment = {**os.environ, "PYTHONPATH": str(copy), "OPENBLAS_NUM_THREADS": "1"}
        try:
            result = subprocess.run(
                [*command, *fault.tests],
                cwd=copy,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            return "caught"
    if result.returncode in (NO_TESTS_RAN, COULD_NOT_START):
        print(result.stdout[-2000:], result.stderr[-2000:])
        return "no tests"
    return "caught" if result.returncode else "survived"


if __name__ == "__main__":
    sys.exit(main())

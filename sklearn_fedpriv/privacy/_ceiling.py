"""``privacy_budget``: one ceiling over many fits, wherever they run.

A ceiling is a small database file, because that is what reaches every copy of an estimator: clones
in this process find it through the module, estimators sent to worker processes carry its path in
their pickled state. Each fit is reserved in one transaction before its first release, so that two
workers cannot both take the last of the budget (G14).
"""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from fractions import Fraction
from math import inf
from pathlib import Path

from sklearn_fedpriv.exceptions import BudgetExceeded
from sklearn_fedpriv.privacy._calibration import Exact, exact

_WAIT = 60.0  # seconds to wait for another process that is reserving
_active: list[Path] = []
_own: set[Path] = set()  # those whose block is open in this process
_inside_a_party = ContextVar("_inside_a_party", default=False)


class Ceiling:
    """A ceiling in force; ``spent`` stays readable after its block has ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._final: tuple[float, float] | None = None

    @property
    def spent(self) -> tuple[float, float]:
        """Epsilon and delta reserved so far, of the party that has spent most."""
        if self._final is not None:
            return self._final
        with closing(_open(self._path)) as database:
            epsilon, delta = _spent(database)
        return float(epsilon), float(delta)

    def close(self) -> None:
        """Keep the figures; the file goes."""
        self._final = self.spent if self._path.exists() else (inf, inf)


@contextmanager
def privacy_budget(epsilon: float, delta: float = 1e-4) -> Iterator[Ceiling]:
    """Hold all fits inside the block to ``epsilon`` and ``delta`` together.

    Whole fits are added. Fits on parties that were named by the user (``Party(name=...)`` or
    ``parties=labels``) and share no name do not add up; a fit on unnamed parties counts for all.
    Estimators made here are held to it wherever they are cloned or sent, worker processes included;
    an estimator that is first made inside a worker process is not.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float, default=1e-4
        In [0, 1).

    Yields
    ------
    ceiling : Ceiling
        ``ceiling.spent`` is the (epsilon, delta) reserved so far.

    Raises
    ------
    BudgetExceeded
        From the ``fit`` that would pass the ceiling, before any party is asked.

    Examples
    --------
    >>> from sklearn_fedpriv import FederatedDPDecisionTree, privacy_budget
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> hospitals = load_hospitals()
    >>> tree = FederatedDPDecisionTree(epsilon=1.0, **hospitals.public)
    >>> with privacy_budget(epsilon=2.0) as ceiling:
    ...     _ = tree.fit(hospitals.parties), tree.fit(hospitals.parties)
    >>> ceiling.spent[0]
    2.0
    """
    if not epsilon > 0 or not 0 <= delta < 1:
        raise ValueError(
            f"privacy_budget takes epsilon > 0 and delta in [0, 1); got {epsilon}, {delta}."
        )
    with tempfile.TemporaryDirectory(prefix="sklearn_fedpriv-") as folder:
        path = Path(folder) / "ceiling.sqlite"
        with closing(_open(path)) as database, database:
            database.execute("CREATE TABLE ceiling (epsilon TEXT, delta TEXT)")
            database.execute("CREATE TABLE spent (party TEXT, epsilon TEXT, delta TEXT)")
            database.execute(
                "INSERT INTO ceiling VALUES (?, ?)", (str(exact(epsilon)), str(exact(delta)))
            )
        _active.append(path)
        _own.add(path)
        ceiling = Ceiling(path)
        try:
            yield ceiling
        finally:
            _active[:] = [other for other in _active if other != path]
            _own.discard(path)
            ceiling.close()


def active_ceilings() -> tuple[str, ...]:
    """Paths of the ceilings in force here; written into the pickled state of estimators."""
    return tuple(str(path) for path in _active)


def enter_ceilings(paths: tuple[str, ...]) -> None:
    """Put ceilings that came with a pickled estimator into force in this process.

    A ceiling whose block has ended has no file any more and is passed over.
    """
    for path in map(Path, paths):
        if path not in _active and path.exists():
            _active.append(path)


@contextmanager
def inside_a_party() -> Iterator[None]:
    """Fits in here reserve nothing: what they find stays in the party that runs them."""
    token = _inside_a_party.set(True)
    try:
        yield
    finally:
        _inside_a_party.reset(token)


def reserve(
    parties: tuple[str, ...] | None, epsilon: Exact, delta: Exact, *, keep: bool = True
) -> None:
    """Reserve one whole fit under every ceiling in force, or raise ``BudgetExceeded``.

    ``parties`` are names that the user gave, or None when they have none: such a fit counts for
    every party. With ``keep=False`` the question is asked and nothing reserved.
    """
    if _inside_a_party.get():
        return
    lost = [path for path in _own if not path.exists()]
    if lost:
        raise BudgetExceeded(
            f"The file of a privacy_budget is gone ({lost[0]}): what was spent is not known any "
            "more. Nothing was released. Leave the block, and keep temporary files while it runs."
        )
    _active[:] = [path for path in _active if path.exists()]
    with ExitStack() as stack:  # all or nothing: leaving by an exception rolls every one back
        databases = [stack.enter_context(closing(_open(path))) for path in _active]
        for database in databases:
            stack.enter_context(database)
            database.execute("BEGIN IMMEDIATE")
            for name in parties if parties is not None else ("",):
                database.execute(
                    "INSERT INTO spent VALUES (?, ?, ?)", (name, str(epsilon), str(delta))
                )
            ceilings = database.execute("SELECT epsilon, delta FROM ceiling").fetchone()
            for what, cost, total, ceiling in zip(
                ("epsilon", "delta"),
                (epsilon, delta),
                _spent(database),
                map(_read, ceilings),
                strict=True,
            ):
                if total > ceiling:
                    raise BudgetExceeded(
                        f"privacy_budget allows {what}={float(ceiling):g} in all; this fit asks "
                        f"for {float(cost):g} and would bring it to {float(total):g}. Nothing was "
                        "released."
                    )
            if not keep:
                database.rollback()


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_WAIT)


def _spent(database: sqlite3.Connection) -> tuple[Exact, Exact]:
    """Largest totals over the named parties; the unnamed fits (party '') count for each."""
    totals: dict[str, list[Exact]] = {"": [Fraction(0), Fraction(0)]}
    for name, epsilon, delta in database.execute("SELECT party, epsilon, delta FROM spent"):
        total = totals.setdefault(name, [Fraction(0), Fraction(0)])
        total[0] += _read(epsilon)
        total[1] += _read(delta)
    common = totals.pop("")
    epsilons = [total[0] for total in totals.values()] or [Fraction(0)]
    deltas = [total[1] for total in totals.values()] or [Fraction(0)]
    return common[0] + max(epsilons), common[1] + max(deltas)


def _read(text: str) -> Exact:
    return inf if text == "inf" else Fraction(text)

"""A party: its rows, its ledger over fits, and its part in one fit.

``Party`` is what the user makes. ``PartyRun`` is that party under the terms of one fit: it charges
before anything is computed, answers each request once, and checks what it helps to open. The
answer itself is ``answer``, a pure function of a job, which any joblib backend can run.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from sklearn_fedpriv._wire import digest, from_bytes, to_bytes
from sklearn_fedpriv.exceptions import FedPrivError, LocalFailure, ProtocolError
from sklearn_fedpriv.federation._messages import Ask, sum_task
from sklearn_fedpriv.federation._metric import MetricNoise
from sklearn_fedpriv.federation._query import Query, Tools
from sklearn_fedpriv.federation._terms import Noise, Terms
from sklearn_fedpriv.privacy._ledger import Ledger, LedgerEntry, RunLedger
from sklearn_fedpriv.privacy._randomness import Stream, derive_key, fresh_key
from sklearn_fedpriv.secure._protocol import (
    Binding,
    Opening,
    PartySide,
    Protected,
    ReleaseLog,
    SumTask,
)


class Party:
    """One organisation's rows and its ledger, which outlives fits.

    Parameters
    ----------
    X : array, frame or sparse matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,), default=None
    name : str, default=None
        Identity of the party. Parties with different names are taken to hold different records when
        budgets are added up; leave it out when in doubt.
    max_epsilon, max_delta : float, default=None
        The party refuses a fit that would bring the sum over its fits above them.

    Attributes
    ----------
    ledger : Ledger
        The fits charged so far.

    Examples
    --------
    >>> from sklearn_fedpriv import Party
    >>> clinic = Party([[0.1], [0.7]], [0, 1], name="clinic", max_epsilon=2.0)
    >>> float(clinic.ledger.epsilon)
    0.0
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        name: str | None = None,
        max_epsilon: float | None = None,
        max_delta: float | None = None,
    ) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise ValueError(f"name of a Party must be a text or None; got {name!r}.")
        for what, value in (("max_epsilon", max_epsilon), ("max_delta", max_delta)):
            if value is not None and not (isinstance(value, Real) and value >= 0):
                raise ValueError(
                    f"{what} of a Party must be a number from 0 or None; got {value!r}."
                )
        self.X = X
        self.y = y
        self.name = name
        self.ledger = Ledger(max_epsilon, max_delta)

    def with_table(self, X: Any) -> "Party":
        """The same party and ledger with another ``X``, such as a transformed one."""
        view = object.__new__(Party)
        view.__dict__.update(self.__dict__, X=X)
        return view

    def __repr__(self) -> str:
        return f"Party(name={self.name!r})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "A Party cannot be copied or sent to another process: its ledger would lose what is "
            "spent there. Send its rows, and use privacy_budget for a ceiling over processes."
        )


def as_party(value: Any) -> Party:
    """A party from a ``Party`` or an ``(X, y)`` pair."""
    if isinstance(value, Party):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Party(*value)
    raise TypeError(f"A party is a Party or a tuple (X, y); got a {type(value).__name__}.")


@dataclass(frozen=True)
class Job:
    """All that one answer needs; may be sent to a worker process of the same party."""

    side: PartySide
    task: SumTask
    query: Query
    noise: Noise | MetricNoise
    X: np.ndarray
    y: np.ndarray | None
    seed: bytes | None
    code: Any
    takes_part: bool


def fingerprint(code: Any) -> bytes:
    """What stands for ``code`` in the terms."""
    return b"" if code is None else code.fingerprint


class PartyRun:
    """One party's part in one fit.

    Parameters
    ----------
    party : Party
    X, y : ndarray
        The rows after the transforms of the terms.
    terms : Terms
    public : record or None
        Public keys of the secure sum, which the terms name by their digest.
    side : PartySide
        The party's part of the secure sum, with its secrets.
    seed : bytes or None
        Key of this party's randomness in a seeded fit.
    code : object or None
        What this party built for itself; refused unless it is what the terms name.
    """

    def __init__(
        self,
        party: Party,
        X: np.ndarray,
        y: np.ndarray | None,
        terms: Terms,
        public: Any,
        side: PartySide,
        seed: bytes | None,
        code: Any = None,
    ) -> None:
        self.name = side.name
        if self.name not in terms.parties or digest(public) != terms.keys:
            raise ProtocolError(f"Party {self.name!r} is not in the terms, or has other keys.")
        if terms.seeded != (seed is not None):
            raise ProtocolError(f"Party {self.name!r} and the terms disagree on the seed.")
        if fingerprint(code) != terms.code:
            raise ProtocolError(
                f"Party {self.name!r} built other code than the terms name: its estimator, "
                "parameters or versions differ from the server's. Build the same on both sides."
            )
        self._party, self._X, self._y = party, X, y
        self._terms, self._side, self._seed, self._code = terms, side, seed, code
        self._ledger = RunLedger(terms.charged, terms.plan, f"party {side.name!r}")
        self._log = ReleaseLog()
        self._task: SumTask | None = None
        self._next = 0

    @property
    def entry(self) -> LedgerEntry:
        """The whole fit as one line of the party's ledger; no proof means no finite epsilon."""
        charged = self._terms.charged
        return LedgerEntry(
            self._terms.digest.hex(), charged.epsilon, charged.delta, self._terms.seeded
        )

    def check(self) -> None:
        """The party's veto on the whole fit; charges nothing."""
        self._party.ledger.check(self.entry, self.name)

    def join(self) -> None:
        """Charge the whole fit, before its first release."""
        self._party.ledger.commit(self.entry, self.name)

    def charge(self, ask: Ask) -> Job:
        """Check one request against the terms, charge it, and hand out the work (G6)."""
        # A party that was left out of a sum has not heard of that release: numbers only rise.
        number = self._next
        if self._terms.partial:
            number = max(number, ask.binding.release)
        bound = Binding(self._terms.federation, self._terms.digest, number)
        if ask.binding != bound:
            raise ProtocolError(
                f"Party {self.name!r} expects release {self._next} of its own terms and refuses "
                f"a request for release {ask.binding.release} that is repeated, out of order or "
                "bound to other terms."
            )
        task, noise = sum_task(self._terms, ask)
        self._side.check(task)
        if self.name not in task.parties:
            raise ProtocolError(
                f"Party {self.name!r} is not invited to release {number} and answers nothing."
            )
        query = ask.query
        takes_part = query.takes_part(self.name)
        self._ledger.commit(
            type(query).__name__, noise.event, query.length, query.squared_norm, takes_part
        )
        self._task = task
        self._next = number + 1
        return Job(
            self._side,
            task,
            query,
            noise,
            self._X,
            self._y,
            self._seed,
            self._code,
            takes_part,
        )

    def sent(self, protected: Protected) -> Protected:
        """Remember the answer to the latest request before it leaves (G16)."""
        task = self._latest()
        self._log.store("protect", task.binding, task.request, to_bytes(protected))
        return protected

    def repeat(self, ask: Ask) -> Protected | None:
        """The very message that was sent for this request, or None if it is new."""
        stored = self._log.replay("protect", ask.binding, ask.digest)
        return None if stored is None else from_bytes(stored, Protected)

    def _latest(self) -> SumTask:
        """The sum of the latest request, as this party derived it from the terms."""
        if self._task is None:
            raise ProtocolError(f"Party {self.name!r} has been asked nothing.")
        return self._task

    def open(self, request: Any) -> Opening:
        """Help to open the latest sum, once, after checking what is opened (G16)."""
        task = self._latest()
        asked = digest(request)
        stored = self._log.replay("open", task.binding, asked)
        if stored is not None:
            return from_bytes(stored, Opening)
        own = self._log.replay("protect", task.binding, task.request)
        if own is None:
            raise ProtocolError(
                f"Release {task.binding.release}: party {self.name!r} has sent nothing and opens "
                "nothing."
            )
        opening = self._side.open(task, from_bytes(own, Protected), request)
        self._log.store("open", task.binding, asked, to_bytes(opening))
        return opening


def piece(job: Job, i: int) -> Any:
    """One piece of the local work of an answer; stays in the party."""
    if not job.takes_part:
        return None
    return _guarded(job, lambda: job.query.piece(i, job.X, job.y, job.code))


def answer(job: Job, pieces: Sequence = ()) -> Protected:
    """Clip, encode, noise, protect: all that happens inside a party, in this order (G5).

    A pure function of the job in a seeded fit. Otherwise 256 fresh bits are drawn here, in the
    party's own process, after charging (G20). Keys and masks always come from the operating system.
    """
    release = job.task.binding.release
    key = fresh_key() if job.seed is None else derive_key(job.seed, release)
    tools = Tools(Stream(derive_key(key, "local")), job.code, pieces, job.side.name)
    ticks = np.zeros(job.query.length, dtype=np.int64)
    if job.takes_part:
        ticks = _guarded(job, lambda: job.query.ticks(job.X, job.y, tools))
    noisy = ticks * job.noise.scale
    if job.takes_part or job.noise.shared:
        noisy = noisy + job.query.noise(job.noise, ticks, Stream(derive_key(key, "noise")))
    return job.side.protect(job.task, noisy, os.urandom)


def _guarded(job: Job, work: Callable[[], Any]) -> Any:
    """Local work of which nothing but its result gets out: no warning, and no foreign text (G24).

    The text of a foreign error may quote rows, and so may the errors behind one of ours: both stay
    here. What is raised has no context, as it is raised outside of any handler.
    """
    failure: FedPrivError
    try:
        with one_thread(), silence():
            return work()
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except LocalFailure as error:  # the query's own words; it does not know the party's name
        failure = LocalFailure(f"Party {job.side.name!r}: {error}")
    except FedPrivError as error:
        failure = error
        failure.__cause__ = failure.__context__ = None
    except BaseException as error:
        failure = FedPrivError(
            f"Party {job.side.name!r} failed in release {job.task.binding.release} "
            f"({type(job.query).__name__}) with a {type(error).__name__}."
        )
    raise failure


class _WhileInside:
    """A setting of the whole process, kept while any thread is inside.

    The first that enters sets it and the last of those that overlap lifts it; settings saved and
    restored by each thread would restore each other's.
    """

    def __init__(self, setting: Callable[[], AbstractContextManager]) -> None:
        self._setting = setting
        self._lock = threading.Lock()
        self._inside = 0
        self._held: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._held = self._setting()
                self._held.__enter__()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._held.__exit__(None, None, None)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _InsideOf(type):
    """Takes every warning for one of its kind, in threads that are inside of ``silence``."""

    def __subclasscheck__(cls, subclass: type) -> bool:
        return getattr(_thread, "silent", 0) > 0


class _Local(Warning, metaclass=_InsideOf):
    """What a party's local work warns of."""


_thread = threading.local()


@contextmanager
def silence() -> Iterator[None]:
    """No warnings from this thread (G24).

    The filter that is left behind passes over other threads and later calls. Filters that were set
    and restored would be those of all threads: another's could be put back, ours for good.
    """
    warnings.simplefilter("ignore", _Local)
    _thread.silent = getattr(_thread, "silent", 0) + 1
    try:
        yield
    finally:
        _thread.silent -= 1


# Numerical libraries on one thread, so that floats add up in one order (G21).
one_thread = _WhileInside(lambda: _controller().limit(limits=1))

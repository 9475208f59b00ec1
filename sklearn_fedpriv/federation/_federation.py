"""A federation: parties, whom they trust, and how their answers are summed."""

import os
import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any

from sklearn_fedpriv._warnings import warn
from sklearn_fedpriv._wire import digest
from sklearn_fedpriv.exceptions import FedPrivWarning, TooFewParties
from sklearn_fedpriv.federation._messages import check_sizes
from sklearn_fedpriv.federation._party import PartyRun, as_party, fingerprint
from sklearn_fedpriv.federation._run import Run
from sklearn_fedpriv.federation._terms import Terms, check_trust
from sklearn_fedpriv.privacy._ceiling import reserve
from sklearn_fedpriv.privacy._ledger import Budget, PlannedRelease
from sklearn_fedpriv.privacy._randomness import derive_key
from sklearn_fedpriv.secure import MaskedSum, PaillierSum, PlainSum
from sklearn_fedpriv.secure._protocol import SecureSum

SECURE_SUMS: dict[str, type[SecureSum]] = {
    "masks": MaskedSum,
    "paillier": PaillierSum,
    "plain": PlainSum,
}


class Federation:
    """Parties whose rows are in this process, with one trust over several fits.

    An estimator's ``fit`` makes one for itself from a list of parties. Make it yourself to share
    keys and ledgers over fits: ``fit(federation)`` uses this trust, and raises if the estimator
    asks for another.

    Parameters
    ----------
    parties : list of Party or of (X, y)
    min_honest : int, default=None
        At least so many parties do not collude; the others may, with the server too. ``None`` means
        all. Fewer honest parties mean larger shares of noise; 1 is local differential privacy.
    max_dropouts : int, default=0
        So many parties may be missing from a sum; their shares of noise are made up for in advance.
        In a rehearsal nobody goes missing: a party that fails ends the fit.
    secure_sum : {"masks", "paillier", "plain"} or settings, default="masks"
        How answers are added. Under masks (fast) and Paillier (slower; needs a dealer) nobody sees
        a single one; plain sums are for rehearsals and tests. Masks allow ``max_dropouts`` up to
        ``min_honest - 2``.
    n_jobs : int, default=None
        Parties that compute at one time, as in joblib.

    Attributes
    ----------
    names : tuple of str
        The parties' names; unnamed ones are ``"0"``, ``"1"``, ...
    rehearsal : bool
        Whether all rows are in this process.

    Examples
    --------
    >>> from sklearn_fedpriv import Federation, FederatedDPDecisionTree
    >>> from sklearn_fedpriv.datasets import load_hospitals
    >>> hospitals = load_hospitals()
    >>> federation = Federation(hospitals.parties, min_honest=4)
    >>> tree = FederatedDPDecisionTree(**hospitals.public).fit(federation)
    >>> tree.privacy_.min_honest
    4
    """

    rehearsal = True

    def __init__(
        self,
        parties: Sequence,
        *,
        min_honest: int | None = None,
        max_dropouts: int = 0,
        secure_sum: str | SecureSum = "masks",
        n_jobs: int | None = None,
    ) -> None:
        self.parties = tuple(map(as_party, parties))
        if not self.parties:
            raise TooFewParties("A federation needs at least one party; got none.")
        if len({id(party.ledger) for party in self.parties}) < len(self.parties):
            raise ValueError("The same Party object came twice.")
        self.names = tuple(
            str(i) if party.name is None else party.name for i, party in enumerate(self.parties)
        )
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise ValueError(f"Names of parties must be distinct; repeated: {repeated}.")
        self.named = all(party.name is not None for party in self.parties)
        self.min_honest = len(self.parties) if min_honest is None else min_honest
        self.max_dropouts = max_dropouts
        self.secure_sum = as_secure_sum(secure_sum)
        self.n_jobs = n_jobs
        self.rows: tuple = tuple((party.X, party.y) for party in self.parties)
        self.transforms: tuple = ()
        self._pending: tuple = ()
        self._id = os.urandom(16)
        self._shared = _Shared()
        check_trust(len(self.parties), self.min_honest, max_dropouts)
        if len(self.parties) > 1:
            self.secure_sum.check(len(self.parties), self.min_honest, max_dropouts)

    def __reduce__(self) -> Any:
        raise TypeError("A federation holds rows and keys and cannot be pickled; send its parts.")

    def with_transform(self, step: Any) -> "Federation":
        """The same parties, keys and ledgers, with ``step.apply(X, y)`` run inside each party.

        Parameters
        ----------
        step : record
            Released state of an earlier step, as data; see ``_wire.record``.
        """
        view = copy(self)
        view.transforms = (*self.transforms, step)
        view._pending = (*self._pending, step)
        return view

    def with_rows(self, rows: Sequence) -> "Federation":
        """The same parties, keys and ledgers, with ``(X, y)`` as every party has it by now."""
        view = copy(self)
        view.rows = tuple(rows)
        view._pending = ()
        return view

    def __copy__(self) -> "Federation":
        view = object.__new__(Federation)
        view.__dict__.update(self.__dict__)
        return view

    def start(
        self,
        budget: Budget,
        plan: Sequence[PlannedRelease],
        *,
        unit: str = "record",
        adjacency: str = "add_remove",
        calibration: str = "proved",
        code: Any = None,
        seed: bytes | None = None,
        verbose: int = 0,
    ) -> Run:
        """Agree on terms, let every party and ceiling check the whole fit, charge it, begin.

        Parameters
        ----------
        budget : Budget
        plan : sequence of PlannedRelease
        unit : {"record", "party"}
        adjacency : {"add_remove", "replace"}
        calibration : {"proved", "published"}
        code : object with a ``fingerprint``, default=None
            What queries run inside each party; here every party runs the caller's.
        seed : bytes or None
            32 bytes for a reproducible fit, which is not private.
        verbose : int
            Above 0: one line a release.

        Raises
        ------
        BudgetExceeded
            A party or a ceiling refuses; nothing is charged or asked.
        """
        alone = len(self.parties) == 1
        settings: SecureSum = PlainSum() if alone else self.secure_sum
        public, secrets = self._shared.keys(self, settings)
        terms = Terms(
            federation=self._id,
            fit=self._shared.n_fits,
            parties=tuple(sorted(self.names)),
            min_honest=self.min_honest,
            max_dropouts=self.max_dropouts,
            secure_sum=settings,
            keys=digest(public),
            unit=unit,
            adjacency=adjacency,
            budget=budget,
            calibration=calibration,
            plan=tuple(plan),
            transforms=self.transforms,
            code=fingerprint(code),
            seeded=seed is not None,
        )
        server = settings.server(public)
        check_sizes(terms, server)
        sides = {name: settings.party(name, public, secrets[name]) for name in self.names}
        nonces = {name: side.greet(os.urandom) for name, side in sides.items()}
        for side in sides.values():
            side.meet(nonces)
        runs = []
        for name, party, (X, y) in zip(self.names, self.parties, self.transformed(), strict=True):
            key = None if seed is None else derive_key(seed, terms.fit, name)
            runs.append(PartyRun(party, X, y, terms, public, sides[name], key, code))
        for run in runs:
            run.check()
        entry = runs[0].entry
        reserve(self.names if self.named else None, entry.epsilon, entry.delta)
        for run in runs:
            run.join()
        self._shared.n_fits += 1
        return Run(
            terms,
            runs,
            server,
            n_jobs=self.n_jobs,
            rehearsal=self.rehearsal,
            verbose=verbose,
            on_failure=self._shared.forget_keys,
        )

    def transformed(self) -> list[tuple[Any, Any]]:
        """Every party's rows after the transforms; what several parties warn of is said once."""
        rows = []
        heard: dict[tuple[type[Warning], str], list[str]] = {}
        for name, (X, y) in zip(self.names, self.rows, strict=True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for step in self._pending:
                    X, y = step.apply(X, y)
            rows.append((X, y))
            for warning in caught:
                if issubclass(warning.category, FedPrivWarning):
                    heard.setdefault((warning.category, str(warning.message)), []).append(name)
                else:
                    warnings.warn_explicit(
                        warning.message, warning.category, warning.filename, warning.lineno
                    )
        for (category, text), names in heard.items():
            who = "Party" if len(names) == 1 else "Parties"
            warn(f"{who} {', '.join(map(repr, names))}: {text}", category)
        return rows


class _Shared:
    """What views of one federation have in common: keys and the number of fits."""

    def __init__(self) -> None:
        self.n_fits = 0
        self._keys: tuple[Any, dict[str, Any]] | None = None

    def keys(self, federation: Federation, settings: SecureSum) -> tuple[Any, dict[str, Any]]:
        if self._keys is None:
            names = tuple(sorted(federation.names))
            self._keys = settings.set_up(
                names, federation.min_honest, federation.max_dropouts, os.urandom
            )
        return self._keys

    def forget_keys(self) -> None:
        """After any error in opening, the next fit deals new keys (G18)."""
        self._keys = None


def as_secure_sum(secure_sum: str | SecureSum) -> SecureSum:
    """The settings behind a name."""
    if isinstance(secure_sum, SecureSum):
        return secure_sum
    if secure_sum in SECURE_SUMS:
        return SECURE_SUMS[secure_sum]()
    raise ValueError(
        f"secure_sum must be one of {sorted(SECURE_SUMS)} or a settings object; got {secure_sum!r}."
    )

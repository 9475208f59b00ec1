"""One fit's releases: ``Run.release`` is the only road data takes.

::

    party rows -> answer -> clip -> encode -> noise -> protect  =>  sum -> open -> decode
                  '------------- inside the party -----------'     '---- server ----'
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from time import perf_counter

import numpy as np
from joblib import Parallel, delayed

from sklearn_fedpriv.exceptions import FedPrivError
from sklearn_fedpriv.federation._messages import Ask, noise_of, sum_task
from sklearn_fedpriv.federation._party import PartyRun, answer, piece
from sklearn_fedpriv.federation._query import Query
from sklearn_fedpriv.federation._terms import Terms, noise_for
from sklearn_fedpriv.privacy._ledger import RunLedger
from sklearn_fedpriv.privacy._report import PrivacyReport
from sklearn_fedpriv.secure._protocol import Binding, ServerSide

_MECHANISMS = {"gaussian": "discrete Gaussian", "laplace": "discrete Laplace"}
_IN_FULL = "multivariate Laplace noise, in full at every party"


class Run:
    """The releases of one fit, in the caller's process.

    Made by ``Federation.start``. Parties have charged the whole fit when it exists.

    Parameters
    ----------
    terms : Terms
    parties : sequence of PartyRun
    server : ServerSide
    n_jobs : int or None
        Parties that compute at one time, as in joblib.
    rehearsal : bool
        Whether all rows are in this process.
    verbose : int
        Above 0: one line a release.
    on_failure : callable
        Called when a sum could not be opened.
    """

    def __init__(
        self,
        terms: Terms,
        parties: Sequence[PartyRun],
        server: ServerSide,
        *,
        n_jobs: int | None = None,
        rehearsal: bool = True,
        verbose: int = 0,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self.terms = terms
        self.rehearsal = rehearsal
        self._parties = {party.name: party for party in parties}
        self._server = server
        self._n_jobs, self._verbose = n_jobs, verbose
        self._on_failure = on_failure
        self._ledger = RunLedger(terms.charged, terms.plan, "the server")
        self._released: dict[str, int] = {}

    @property
    def n_parties(self) -> int:
        """Number of parties."""
        return len(self._parties)

    def noise_sd(self, squared: int | Fraction, absolute: int, share: Fraction) -> float:
        """Standard deviation of the noise in a sum of whole numbers: public, and no way to set it.

        Parameters
        ----------
        squared : int or Fraction
            Squared L2 sensitivity.
        absolute : int
            L1 sensitivity.
        share : Fraction
            Of the fit's budget.
        """
        return noise_for(self.terms, share, squared, absolute).sd(self.n_parties)

    def noise_sd_of(self, query: Query, share: Fraction) -> float:
        """The same for one number of the answer to ``query``, in ticks."""
        noise = noise_of(self.terms, query, share)
        n_shares = self.n_parties if noise.shared else len(query.participants) or self.n_parties
        return noise.sd(n_shares)

    def release(self, query: Query, share: Fraction) -> np.ndarray:
        """Ask every party, and return the noisy sum in data units.

        Parameters
        ----------
        query : Query
            Of a kind that the plan has.
        share : Fraction
            Of the fit's budget, within what the plan has for this kind.

        Returns
        -------
        total : ndarray of shape (query.length,), float64

        Raises
        ------
        BudgetExceeded
            The release is outside the plan or the budget. No party has answered.
        RangeOverflow
            The sum might not fit its words; likewise.
        """
        began = perf_counter()
        terms = self.terms
        number = sum(self._released.values())
        name = type(query).__name__
        ask = Ask(Binding(terms.federation, terms.digest, number), query, share)
        task, noise = sum_task(terms, ask)
        self._server.check(task)
        # Each party's own ledger counts how often it takes part; here the releases are counted.
        self._ledger.commit(
            name, noise.event, query.length, query.squared_norm, takes_part=not terms.partial
        )
        jobs = [self._parties[party].charge(ask) for party in task.parties]

        pieces = Parallel(n_jobs=self._n_jobs, verbose=self._verbose if query.n_pieces else 0)(
            delayed(piece)(job, i) for job in jobs for i in range(query.n_pieces)
        )
        answers = Parallel(n_jobs=self._n_jobs, prefer=query.prefer)(
            delayed(answer)(job, pieces[i * query.n_pieces : (i + 1) * query.n_pieces])
            for i, job in enumerate(jobs)
        )
        sent = [self._parties[reply.sender].sent(reply) for reply in answers]

        try:
            request = self._server.gather(task, sent)
            openers = self._server.openers(task, request)
            openings = Parallel(n_jobs=self._n_jobs, prefer="threads")(
                delayed(self._parties[opener].open)(self._server.request_for(task, request, opener))
                for opener in openers
            )
            total = self._server.finish(task, request, openings)
        except FedPrivError:
            self._on_failure()
            raise
        self._released[name] = self._released.get(name, 0) + 1
        if self._verbose:
            told = terms.charged.private and not terms.partial
            spent = f", {self._ledger.part_spent:.0%} spent" if told else ""
            n_asked = len(query.participants) or self.n_parties
            sys.stdout.write(
                f"release {number + 1}: {name}, {query.length} numbers of {n_asked} "
                f"parties, {perf_counter() - began:.2f} s{spent}\n"
            )
        return query.lattice.decode(total) / noise.scale

    def report(self, facts_from_rows: Iterable[str] = ()) -> PrivacyReport:
        """The bill: the whole plan, also when fewer releases were made (G13)."""
        terms, budget = self.terms, self.terms.budget
        facts = (*facts_from_rows, *terms.disclosed)
        proved = terms.charged.private
        m, n = terms.unknown_shares, len(terms.parties)
        alone = n == 1
        shares = "one share" if alone else f"{n} shares, {m} of them enough"
        if budget.mechanism == "metric":
            mechanism = _IN_FULL
        else:
            mechanism = f"{_MECHANISMS[budget.mechanism]} noise in {shares}"
        caps = [planned.participations for planned in terms.plan if planned.participations]
        if caps and budget.private:
            each = float(budget.epsilon / caps[0])
            cost = f", {each:.6g} each" if budget.mechanism == "metric" else ""
            mechanism += f"; a party takes part at most {caps[0]} times{cost}"
        if terms.sampled:
            step = terms.plan[0]
            mechanism += (
                f"; noise for {step.count} steps, each on a secret Poisson sample at rate "
                f"{float(step.sampling_rate):.6g}"
            )
        return PrivacyReport(
            epsilon=float(budget.epsilon) if proved else float("inf"),
            delta=float(budget.delta),
            server_epsilon=terms.server_epsilon(),
            unit=terms.unit,
            adjacency=terms.adjacency,
            proved="no" if not proved else "conditional" if facts else "yes",
            facts_from_rows=facts,
            seeded=terms.seeded,
            claimed_epsilon=float(budget.epsilon) if terms.calibration == "published" else None,
            mechanism=mechanism if budget.private else "no noise",
            secure_sum="one party, no secure sum"
            if alone
            else terms.secure_sum.describe(n, terms.max_dropouts),
            trusted=() if alone else terms.secure_sum.trusted_roles(),
            releases=tuple(self._released.items()),
            n_parties=n,
            min_honest=terms.min_honest,
            max_dropouts=terms.max_dropouts,
            insecure=terms.secure_sum.insecure,
            rehearsal=self.rehearsal,
        )

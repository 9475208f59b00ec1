"""The chosen candidate, fitted on all parties, and what that adds to the bill."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.pipeline import Pipeline

from sklearn_fedpriv.federation._estimator import FederatedMixin
from sklearn_fedpriv.federation._federation import Federation
from sklearn_fedpriv.privacy._calibration import Exact
from sklearn_fedpriv.privacy._ceiling import reserve
from sklearn_fedpriv.privacy._ledger import LedgerEntry
from sklearn_fedpriv.privacy._report import PrivacyReport, compose


def steps_of(estimator: Any) -> list[Any]:
    """The estimator, or the steps of a pipeline, and of pipelines in it."""
    if not isinstance(estimator, Pipeline):
        return [estimator]
    real = [step for _, step in estimator.steps if step not in (None, "passthrough")]
    return [inner for step in real for inner in steps_of(step)]


def takes_federations(estimator: Any) -> bool:
    """Whether ``fit(federation)`` works: ours, or a pipeline of ours only."""
    return not strangers(estimator)


def strangers(estimator: Any) -> list[Any]:
    """Steps that know nothing of parties."""
    return [
        step
        for step in steps_of(estimator)
        if all(cls.__module__.split(".")[0] != "sklearn_fedpriv" for cls in type(step).__mro__)
    ]


def cost_of(estimator: Any) -> tuple[Exact, Exact]:
    """Epsilon and delta that the parties will be charged for ``refit``, at most."""
    if strangers(estimator):
        return inf, Fraction(0)
    fits = [step for step in steps_of(estimator) if isinstance(step, FederatedMixin)]
    return total_of([step._planned_cost() for step in fits])


def total_of(costs: Sequence[tuple[Exact, Exact]]) -> tuple[Exact, Exact]:
    """Several (epsilon, delta), one after the other."""
    return sum((e for e, _ in costs), Fraction(0)), sum((d for _, d in costs), Fraction(0))


def check_cost(federation: Federation, epsilon: Exact, delta: Exact) -> None:
    """Let every party and ceiling refuse all of a search at once, before its first release."""
    entry = LedgerEntry("selection and refit", epsilon, delta)
    for name, party in zip(federation.names, federation.parties, strict=True):
        party.ledger.check(entry, name)
    reserve(federation.names if federation.named else None, epsilon, delta, keep=False)


def refit(estimator: Any, federation: Federation) -> Any:
    """Fit on all parties: as a federation if the estimator can, else on their pooled rows.

    Pooling is for rehearsals, and is not private.
    """
    if takes_federations(estimator):
        return estimator.fit(federation)
    if not federation.rehearsal:
        raise TypeError(
            f"{type(estimator).__name__} cannot be refitted on parties whose rows are on other "
            "machines: it takes pooled rows. Search over a federated estimator, or set refit=False."
        )
    X, y = pooled(federation.transformed())
    return estimator.fit(X) if y is None else estimator.fit(X, y)


def charge_pooling(federation: Federation) -> None:
    """Charge every party and ceiling for rows that are read without noise: everything (G4, G6)."""
    entry = LedgerEntry("pooled rows", inf, Fraction(0))
    members = list(zip(federation.names, federation.parties, strict=True))
    for name, party in members:
        party.ledger.check(entry, name)
    reserve(federation.names if federation.named else None, inf, Fraction(0))
    for name, party in members:
        party.ledger.commit(entry, name)


def pooled(rows: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """All rows in one table."""
    if len(rows) == 1:
        return rows[0]
    labels = [y for _, y in rows]
    y = None if labels[0] is None else np.concatenate([np.asarray(part) for part in labels])
    return stacked([X for X, _ in rows]), y


def stacked(tables: Sequence[Any]) -> Any:
    """Tables one below the other, in the kind they have."""
    first = tables[0]
    if issparse(first):
        return vstack(tables).tocsr()
    if hasattr(first, "iloc"):
        import pandas

        return pandas.concat(tables, ignore_index=True)
    if hasattr(first, "shape"):
        return np.concatenate([np.asarray(table) for table in tables])
    return [row for table in tables for row in table]


def bill(selection: PrivacyReport, estimator: Any) -> PrivacyReport:
    """What selection and refit cost together; a refit without privacy voids it.

    Parameters
    ----------
    selection : PrivacyReport
    estimator : estimator
        Fitted by ``refit``.
    """
    unprotected = strangers(estimator)
    if unprotected:
        names = dict.fromkeys(type(step).__name__ for step in unprotected)
        return replace(void(selection), unprotected=tuple(names))
    fits = [step for step in steps_of(estimator) if isinstance(step, FederatedMixin)]
    return compose(selection, *fits)


def void(selection: PrivacyReport) -> PrivacyReport:
    """What can be said after a vote while its refit may have charged and released anything."""
    return replace(selection, epsilon=inf, server_epsilon=inf, proved="no")

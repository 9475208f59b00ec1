"""What a fit promises, to whom, against whom, and what it does not promise."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from html import escape
from math import exp, inf
from typing import Any

from sklearn_fedpriv.privacy._calibration import exact

NOT_COVERED = (
    "malicious parties, timing, that a party took part or failed, records of one person at several "
    "parties"
)
_UNITS = {
    ("record", "add_remove"): "one record added or removed",
    ("record", "replace"): "one record replaced",
    ("party", "replace"): "one party's whole data replaced",
    ("party", "add_remove"): "one party's whole data added or removed",
}
_PROVED = ("yes", "conditional", "no")


@dataclass(frozen=True, kw_only=True)
class PrivacyReport:
    """The bill of one fit, or of several composed.

    Attributes
    ----------
    epsilon, delta : float
        What was proved for this run, towards everybody who sees the model and towards any
        ``max(1, n_parties - min_honest)`` parties.
    server_epsilon : float
        The same towards the server, alone or with those parties: larger than ``epsilon`` where it
        sees each party's answer by itself.
    unit : {"record", "party"}
    adjacency : {"add_remove", "replace"}
    proved : {"yes", "conditional", "no"}
        Conditional: only between data sets that agree on ``facts_from_rows``.
    facts_from_rows : tuple of str
        Public facts that nobody declared and that were taken from the rows.
    seeded : bool
        Whether ``random_state`` was set, which makes the noise predictable.
    claimed_epsilon : float or None
        The figure of a published method that has no proof.
    mechanism : str
        In words.
    secure_sum : str
        In words, with key sizes and counts.
    trusted : tuple of str
        Roles beside parties and server on whose honesty the secrecy rests.
    releases : tuple of (str, int)
        What was released, and how often.
    insecure : bool
        Whether the secure sum had settings for tests, which hide nothing.
    n_parties, min_honest, max_dropouts : int
    rehearsal : bool
        Whether all rows were in the caller's process.
    unprotected : tuple of str
        Classes that read rows without noise.
    """

    epsilon: float
    delta: float
    server_epsilon: float
    unit: str = "record"
    adjacency: str = "add_remove"
    proved: str = "yes"
    facts_from_rows: tuple[str, ...] = ()
    seeded: bool = False
    claimed_epsilon: float | None = None
    mechanism: str
    secure_sum: str
    trusted: tuple[str, ...] = ()
    releases: tuple[tuple[str, int], ...]
    n_parties: int
    min_honest: int
    max_dropouts: int = 0
    insecure: bool = False
    rehearsal: bool = True
    unprotected: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """True only when the guarantee is proved, unconditional, unseeded and finite."""
        return not self.reasons

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the run is not private, in words; empty when it is."""
        reasons = []
        if self.proved == "no" and self.claimed_epsilon is not None:
            reasons.append(
                f"the published method has no proof (its paper claims {self.claimed_epsilon:g})"
            )
        elif self.unprotected:
            reasons.append(f"{', '.join(self.unprotected)} read rows without noise")
        elif self.epsilon == inf:
            reasons.append("epsilon is infinite: nothing is protected")
        elif self.server_epsilon == inf:
            reasons.append("nothing is proved towards the server, which sees single answers")
        if self.proved == "conditional":
            reasons.append("facts were taken from the rows")
        if self.insecure:
            reasons.append("the secure sum had a key for tests")
        if self.seeded:
            reasons.append("random_state was set")
        return tuple(reasons)

    def __str__(self) -> str:
        colluders = self.n_parties - self.min_honest
        others = f"any {colluders} parties together" if colluders > 1 else "each party"
        them = f" or with {'them' if colluders > 1 else 'one'}" if colluders else ""
        releases = ", ".join(f"{count} x {name}" for name, count in self.releases)
        lines = [
            f"epsilon {_number(self.epsilon)}, delta {_number(self.delta)} for "
            f"{_UNITS[self.unit, self.adjacency]}",
            f"  promised to: whoever sees the model, {others}",
            f"  server alone{them}: epsilon {_number(self.server_epsilon)} ({self.secure_sum})",
            f"  proved: {self._proof()}",
            f"  released: {releases} ({self.mechanism})",
            f"  parties: {self.n_parties}, at least {self.min_honest} honest, at most "
            f"{self.max_dropouts} missing"
            + ("; all rows in this process (a rehearsal)" if self.rehearsal else ""),
            f"  not covered: {NOT_COVERED}",
            f"  private: {self._verdict()}",
        ]
        if self.trusted:
            lines.insert(3, f"  trusted besides: {', '.join(self.trusted)}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if not self.private:
            return f"no, {'; '.join(self.reasons)}"
        weaker = self.server_epsilon > self.epsilon
        return "yes, towards the server as its line says" if weaker else "yes"

    def _proof(self) -> str:
        if self.proved == "conditional":
            facts = ", ".join(self.facts_from_rows)
            return (
                f"conditional, epsilon {_number(self.epsilon)} only between data sets that agree "
                f"on: {facts}"
            )
        return self.proved

    def _repr_html_(self) -> str:
        first, *rest = str(self).split("\n")
        rows = "".join(
            "<tr style='text-align:left'><th>{}</th><td>{}</td></tr>".format(
                *map(escape, line.strip().split(": ", 1))
            )
            for line in rest
        )
        return f"<div><strong>{escape(first)}</strong><table>{rows}</table></div>"

    def to_dict(self) -> dict[str, object]:
        """Exact form for JSON; an infinite number becomes the text ``"inf"``."""
        return {
            name: "inf" if value == inf else value for name, value in _lists(asdict(self)).items()
        }

    @classmethod
    def from_dict(cls, data: dict) -> "PrivacyReport":
        """Inverse of ``to_dict``, exactly."""
        values: dict[str, Any] = {
            name: inf if value == "inf" else value for name, value in data.items()
        }
        for name in ("facts_from_rows", "trusted", "unprotected"):
            values[name] = tuple(values.get(name, ()))
        values["releases"] = tuple((name, count) for name, count in values["releases"])
        return cls(**values)


def compose(*reports: Any) -> PrivacyReport:
    """One bill for several fits on the same records: epsilon and delta add up.

    Fits with different units are first stated for one record: a guarantee for replacing a party
    holds unchanged for a record that is added, removed or replaced at one party; one for adding or
    removing a party is doubled first (group privacy of size two), and so is one for adding or
    removing a record where another fit speaks of replacing one. The weakest proof is kept.

    Parameters
    ----------
    *reports : PrivacyReport, or fitted estimators that have one as ``privacy_``

    Returns
    -------
    report : PrivacyReport
    """
    reports = tuple(getattr(report, "privacy_", report) for report in reports)
    if not reports or not all(isinstance(report, PrivacyReport) for report in reports):
        raise ValueError(
            "compose takes reports, or fitted estimators with a privacy_, one by one: "
            f"compose(first, second); got {', '.join(type(r).__name__ for r in reports) or 'none'}."
        )
    units = {(report.unit, report.adjacency) for report in reports}
    if len(units) > 1:
        adjacency = "replace" if ("record", "replace") in units else "add_remove"
        reports = tuple(_for_one_record(report, adjacency) for report in reports)
    releases: dict[str, int] = {}
    for report in reports:
        for name, count in report.releases:
            releases[name] = releases.get(name, 0) + count
    claimed = any(report.claimed_epsilon is not None for report in reports)
    claims = [r.epsilon if r.claimed_epsilon is None else r.claimed_epsilon for r in reports]
    n_parties = max(report.n_parties for report in reports)
    return replace(
        reports[0],
        epsilon=_sum(report.epsilon for report in reports),
        delta=min(1.0, _sum(report.delta for report in reports)),
        server_epsilon=_sum(report.server_epsilon for report in reports),
        proved=max((report.proved for report in reports), key=_PROVED.index),
        facts_from_rows=_union(report.facts_from_rows for report in reports),
        seeded=any(report.seeded for report in reports),
        insecure=any(report.insecure for report in reports),
        claimed_epsilon=_sum(claims) if claimed else None,
        mechanism="; ".join(_union((report.mechanism,) for report in reports)),
        secure_sum="; ".join(_union((report.secure_sum,) for report in reports)),
        trusted=_union(report.trusted for report in reports),
        releases=tuple(releases.items()),
        n_parties=n_parties,
        min_honest=n_parties - min(r.n_parties - r.min_honest for r in reports),
        max_dropouts=max(report.max_dropouts for report in reports),
        rehearsal=any(report.rehearsal for report in reports),
        unprotected=_union(report.unprotected for report in reports),
    )


def _for_one_record(report: PrivacyReport, adjacency: str) -> PrivacyReport:
    # A party that has one record more, less or other is a party replaced.
    if (report.unit, report.adjacency) in (("party", "replace"), ("record", adjacency)):
        return replace(report, unit="record", adjacency=adjacency)
    return replace(
        report,
        unit="record",
        adjacency=adjacency,
        epsilon=2 * report.epsilon,
        delta=min(1.0, report.delta * (1 + exp(min(700.0, report.epsilon)))),
        # A larger epsilon doubles with a larger delta, which the report has no line for.
        server_epsilon=inf if report.server_epsilon > report.epsilon else 2 * report.server_epsilon,
        claimed_epsilon=None if report.claimed_epsilon is None else 2 * report.claimed_epsilon,
    )


def _sum(values: Iterable[float]) -> float:
    """Sum of the decimal numbers as written: ten times 0.1 is 1.0."""
    return float(sum(exact(value) for value in values))


def _union(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))


def _lists(value: object) -> Any:
    """The same value with lists for tuples, as JSON has it."""
    if isinstance(value, dict):
        return {name: _lists(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_lists(item) for item in value]
    return value


def _number(value: float) -> str:
    return f"{value:.6g}"

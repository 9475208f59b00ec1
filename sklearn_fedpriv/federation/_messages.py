"""Messages between server and parties, beside those of the secure sum.

One release, in order: the server sends ``Ask``; each party charges its ledgers and answers with
``Protected``; where the secure sum needs help to open, the server sends ``OpenRequest``, or the
protocol's own form of it, and parties answer with ``Opening``. Every message names the federation,
the terms and the release (G19).
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

from sklearn_fedpriv._wire import digest, record
from sklearn_fedpriv.exceptions import BudgetExceeded, ProtocolError
from sklearn_fedpriv.federation._metric import MetricNoise, metric_noise_for
from sklearn_fedpriv.federation._query import Query, party_limit
from sklearn_fedpriv.federation._terms import LOG2_FAILURE, Noise, Terms, noise_for
from sklearn_fedpriv.secure._protocol import Binding, ServerSide, SumTask


@record
@dataclass(frozen=True, eq=False)  # equal is what has the same bytes
class Ask:
    """The request of one release: a query, and how much of the agreed budget it takes.

    The share is no noise scale: each party derives its noise from it, the terms and the query, and
    charges its own ledger, so too little noise is simply too dear (G6).
    """

    binding: Binding
    query: Query
    share: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"the share of a release must be in (0, 1]; got {self.share}")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the request."""
        return digest(self)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Ask) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=4)  # the parties of one process derive the same
def sum_task(terms: Terms, ask: Ask) -> tuple[SumTask, Noise | MetricNoise]:
    """The secure sum of one release and each party's noise, as every role derives them."""
    query = ask.query
    if query.unit != terms.unit:
        raise BudgetExceeded(
            f"The terms protect a {terms.unit}; a {type(query).__name__} bounds what a "
            f"{query.unit} adds, and is refused."
        )
    if not query.proved and terms.calibration == "proved":
        raise BudgetExceeded(
            f"The sensitivity of a {type(query).__name__} is claimed, not proved: terms that "
            "promise a proof refuse it."
        )
    if query.discloses and query.discloses not in terms.disclosed:
        raise BudgetExceeded(
            f"A {type(query).__name__} tells {query.discloses} without noise, and the terms do not "
            "say so: refused."
        )
    if query.discloses and terms.budget.mechanism != "metric":
        raise BudgetExceeded(
            f"A {type(query).__name__} has noise in one slot only, which shares of other parties "
            "do not fill: it goes with metric noise, made in full by each participant."
        )
    if query.participants and not terms.partial:
        raise BudgetExceeded(
            f"A {type(query).__name__} asks some of the parties, and the plan counts no "
            "participations: refused."
        )
    strangers = set(query.participants) - set(terms.parties)
    if strangers or list(query.participants) != sorted(set(query.participants)):
        raise ProtocolError(
            f"The participants of a {type(query).__name__} must be distinct parties of the terms, "
            "sorted."
        )
    noise = noise_of(terms, query, ask.share)
    parties = terms.invited(query.participants)
    task = _task(terms, ask.binding, ask.digest, query.length, query.squared_norm, noise, parties)
    return task, noise


def noise_of(terms: Terms, query: Query, share: Fraction) -> Noise | MetricNoise:
    """Each party's noise for ``query``, of ``share`` of the budget."""
    squared = query.squared_sensitivity(terms.adjacency)
    if terms.budget.mechanism == "metric":
        return metric_noise_for(terms, share, squared, query.n_joint)
    laplace = terms.budget.mechanism == "laplace"
    return noise_for(
        terms,
        share,
        squared,
        query.sensitivity(terms.adjacency) if laplace else 0,
        query.sampling_rate,
    )


def check_sizes(terms: Terms, server: ServerSide) -> None:
    """Refuse a plan whose sums might not fit their words, before anything is charged (G12).

    An answer is multiplied by about the same number over its sensitivity, so its largest size after
    that hardly depends on the query; a factor of four covers all roundings of both. The noise
    itself is largest for the smallest share of the plan; half of that covers roundings of shares.
    """
    binding = Binding(terms.federation, terms.digest, 0)
    for planned in terms.plan:
        smallest = planned.smallest or planned.share / (planned.participations or planned.count)
        for squared, share in product((1, planned.squared), (planned.share, smallest / 2)):
            noise: Noise | MetricNoise
            if terms.budget.mechanism == "metric":
                noise = metric_noise_for(terms, share, 4 * squared, planned.length // planned.count)
            else:
                noise = noise_for(terms, share, squared, squared, planned.sampling_rate)
            noise = replace(noise, scale=4 * noise.scale)
            server.check(_task(terms, binding, b"", planned.length, squared, noise, terms.parties))


def _task(
    terms: Terms,
    binding: Binding,
    request: bytes,
    length: int,
    squared: int,
    noise: Noise | MetricNoise,
    parties: tuple[str, ...],
) -> SumTask:
    n = len(parties)
    bits = LOG2_FAILURE + terms.n_coordinates.bit_length()
    limit = noise.scale * party_limit(terms.unit, squared)
    return SumTask(
        binding=binding,
        request=request,
        parties=parties,
        max_dropouts=terms.max_dropouts,
        length=length,
        party_limit=limit + noise.tail(1, bits),
        limit=n * limit + noise.tail(n, bits),
    )

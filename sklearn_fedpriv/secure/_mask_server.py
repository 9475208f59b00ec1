"""The server's side of the masked sum: names, digests, encrypted shares, masked words.

It never holds a key. What it can remove from the sum of the survivors' words it recombines from the
shares that they open, and by the rules of ``_masks`` that is all that remains in the sum and
nothing that would remain in one party's words alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sklearn_fedpriv._wire import digest
from sklearn_fedpriv.exceptions import ProtocolError, TooFewParties
from sklearn_fedpriv.secure._keystream import add_keystreams
from sklearn_fedpriv.secure._mask_keys import MaskKeys, mask_sign
from sklearn_fedpriv.secure._mask_wire import (
    MaskPlan,
    UnmaskRequest,
    contribution_digest,
    digest_of_list,
    plan_masks,
)
from sklearn_fedpriv.secure._protocol import (
    Opening,
    OpenRequest,
    Protected,
    ServerSide,
    SumTask,
    check_included,
    check_message,
)
from sklearn_fedpriv.secure._shares import combine


class MaskServer(ServerSide):
    """Made by ``MaskedSum.server``."""

    def __init__(self, keys: MaskKeys) -> None:
        self._keys = keys

    def check(self, task: SumTask) -> None:
        plan_masks(self._keys, task)

    def gather(self, task: SumTask, answers: Iterable[Protected]) -> OpenRequest:
        plan = plan_masks(self._keys, task)
        request = super().gather(task, answers)
        for message in request.included:
            plan.words(message)
        return _Gathered(request.binding, request.included, task)

    def openers(self, task: SumTask, request: OpenRequest) -> tuple[str, ...]:
        """All survivors, where there can be dropouts: some of them may fall silent now."""
        plan = plan_masks(self._keys, task)
        return tuple(_gathered(task, request).messages) if plan.graph.threshold else ()

    def request_for(self, task: SumTask, request: OpenRequest, opener: str) -> UnmaskRequest:
        plan, gathered = plan_masks(self._keys, task), _gathered(task, request)
        messages = gathered.messages
        if not plan.graph.threshold or opener not in messages:
            raise ProtocolError(
                f"Release {task.binding.release}: party {opener!r} has nothing to open."
            )
        bundles = tuple(
            messages[peer].payload[plan.bundle_at(peer, opener)]
            for peer in plan.graph.alive(opener, messages)
        )
        return UnmaskRequest(
            task.binding,
            task.request,
            tuple(messages),
            gathered.dropped,
            gathered.digests,
            bundles,
        )

    def finish(
        self, task: SumTask, request: OpenRequest, openings: Iterable[Opening]
    ) -> np.ndarray:
        plan, gathered = plan_masks(self._keys, task), _gathered(task, request)
        streams = self._masks_left(plan, task, gathered, openings)
        total = np.zeros(task.length, dtype=plan.dtype)
        for message in request.included:
            total += plan.words(message)
        add_keystreams(total, streams)
        return total.view(f"<i{plan.word_bits // 8}").astype(np.int64)

    def _masks_left(
        self, plan: MaskPlan, task: SumTask, gathered: "_Gathered", openings: Iterable[Opening]
    ) -> list[tuple[bytes, int]]:
        """The keystreams that the sum of the survivors still holds, with the sign that ends them.

        Those of survivors' own seeds, and of masks whose other end dropped out.
        """
        release, dropped = f"Release {task.binding.release}", gathered.dropped
        survivors, openers = tuple(gathered.messages), self.openers(task, gathered)
        rows = {name: plan.rows_to_open(name, dropped) for name in survivors}
        opened: dict[str, dict[str, np.ndarray]] = {}
        for opening in openings:
            if opening.sender not in openers:
                raise ProtocolError(f"{release}: party {opening.sender!r} was not asked to open.")
            if opening.sender in opened:
                raise ProtocolError(f"{release}: party {opening.sender!r} opened twice.")
            asked = self.request_for(task, gathered, opening.sender)
            check_message(opening, task.binding, digest(asked), survivors)
            expected = [
                (name, len(rows[name])) for name in plan.graph.alive(opening.sender, survivors)
            ]
            opened[opening.sender] = plan.opened_rows(opening, expected, gathered.list_digest)
        if not plan.graph.threshold:
            return []
        if len(opened) < task.fewest:
            missing = ", ".join(repr(name) for name in survivors if name not in opened)
            raise TooFewParties(
                f"{release}: {len(opened)} parties helped to open and at least {task.fewest} of "
                f"{len(task.parties)} must; missing: {missing}. Nothing was opened."
            )

        streams = []
        for name in survivors:
            # At most max_dropouts parties are missing in all, so threshold neighbours have opened.
            helpers = [peer for peer in plan.graph.points[name] if peer in opened]
            helpers = helpers[: plan.graph.threshold]
            points = [plan.graph.points[name][peer] for peer in helpers]
            try:
                seeds = combine(points, np.stack([opened[peer][name] for peer in helpers]))
            except ProtocolError as error:
                raise ProtocolError(f"{release}, masks of party {name!r}: {error}") from error
            streams.append((seeds[0], -1))
            lost = [peer for peer in dropped if peer in plan.graph.points[name]]
            streams += [
                (seed, -mask_sign(name, peer)) for seed, peer in zip(seeds[1:], lost, strict=True)
            ]
        return streams


@dataclass(frozen=True)
class _Gathered(OpenRequest):
    """The contributions to be opened, and what every ``UnmaskRequest`` says about them."""

    task: SumTask

    @cached_property
    def messages(self) -> Mapping[str, Protected]:
        return {message.sender: message for message in self.included}

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        return tuple(name for name in self.task.parties if name not in self.messages)

    @cached_property
    def digests(self) -> bytes:
        return b"".join(map(contribution_digest, self.included))

    @cached_property
    def list_digest(self) -> bytes:
        survivors = tuple(self.messages)
        return digest_of_list(
            self.binding, self.task.request, survivors, self.dropped, self.digests
        )


def _gathered(task: SumTask, request: OpenRequest) -> _Gathered:
    if isinstance(request, _Gathered) and request.task == task:
        return request
    check_included(task, request.included, "the server")
    return _Gathered(request.binding, request.included, task)

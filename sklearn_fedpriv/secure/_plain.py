"""No secrecy: the server adds what it receives. The definition the others are tested against."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sklearn_fedpriv._wire import digest, record
from sklearn_fedpriv.exceptions import ProtocolError
from sklearn_fedpriv.secure._protocol import (
    Entropy,
    Opening,
    OpenRequest,
    PartySide,
    Protected,
    SecureSum,
    ServerSide,
    SumTask,
    check_own,
    check_word_size,
)


@record
@dataclass(frozen=True)
class PlainSum(SecureSum):
    """Words travel in clear: the server sees each party's noisy answer by itself.

    For rehearsals and tests. The report gives the server's own epsilon, which is that of one
    party's share of the noise.
    """

    label: ClassVar[str] = "plain"
    hides_parties: ClassVar[bool] = False
    takes_subsets: ClassVar[bool] = True

    def describe(self, n_parties: int, max_dropouts: int) -> str:
        return "plain sums: it sees each party's noisy answer"

    def set_up(
        self, parties: tuple[str, ...], min_honest: int, max_dropouts: int, entropy: Entropy
    ) -> tuple[None, dict[str, None]]:
        return None, dict.fromkeys(parties)

    def party(self, name: str, public: Any, secret: Any) -> PartySide:
        return _PlainParty(name)

    def server(self, public: Any) -> ServerSide:
        return _PlainServer()


class _PlainParty(PartySide):
    def check(self, task: SumTask) -> None:
        check_word_size(task)

    def protect(self, task: SumTask, words: np.ndarray, entropy: Entropy) -> Protected:
        payload = np.ascontiguousarray(words, dtype="<i8").tobytes()
        return Protected(task.binding, task.request, self.name, payload)

    def open(self, task: SumTask, own: Protected, request: OpenRequest) -> Opening:
        check_own(task, own, request)
        return Opening(task.binding, digest(request), self.name, b"")


class _PlainServer(ServerSide):
    def check(self, task: SumTask) -> None:
        check_word_size(task)

    def openers(self, task: SumTask, request: OpenRequest) -> tuple[str, ...]:
        return ()

    def finish(
        self, task: SumTask, request: OpenRequest, openings: Iterable[Opening]
    ) -> np.ndarray:
        total = np.zeros(task.length, dtype=np.int64)
        for answer in request.included:
            if len(answer.payload) != 8 * task.length:
                raise ProtocolError(
                    f"Release {task.binding.release}: party {answer.sender!r} sent "
                    f"{len(answer.payload)} bytes; {8 * task.length} were expected."
                )
            total += np.frombuffer(answer.payload, dtype="<i8")
        return total

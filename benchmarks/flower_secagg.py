"""Flower's SecAgg+ in one process, for ``benchmarks.masks``; needs ``pip install flwr``.

Its server workflow talks to clients through a *grid*. ``LocalGrid`` is one that calls the client
app directly, so that what is measured is the protocol and neither a network nor processes. The
arithmetic, messages and defaults are Flower's own. Written for flwr 1.42.
"""

import copy
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common.recorddict_compat import parameters_to_arrayrecord
from flwr.server import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

DROPPED = 3  # this client is silent from the stage in which masked vectors are collected
SILENT_IN = ("collect_masked_vectors", "unmask")


class LocalGrid(Grid):
    """Clients that are called, one after the other."""

    def __init__(self, app: ClientApp, n_clients: int, drops: Callable[[int, Message], bool]):
        self._app, self._drops = app, drops
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count()
        self._contexts = {
            i + 1: Context(1, i + 1, {"partition-id": i}, RecordDict(), {})
            for i in range(n_clients)
        }

    def set_run(self, run: Any) -> None:
        """There is one run."""

    @property
    def run(self) -> Any:
        """None is needed."""
        return None

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, **more: Any
    ) -> Message:
        """A message to one client."""
        return Message(content, dst_node_id, message_type, group_id=group_id, **more)

    def get_node_ids(self) -> Iterable[int]:
        """All clients."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Call the clients at once."""
        pushed = []
        for message in messages:
            number, client = str(next(self._numbers)), message.metadata.dst_node_id
            message.metadata.__dict__["_message_id"] = number
            pushed.append(number)
            if not self._drops(client, message):
                # A transport copies; the app changes what it is given.
                self._replies[number] = self._app(copy.deepcopy(message), self._contexts[client])
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies that there are."""
        return [self._replies.pop(number) for number in message_ids if number in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Both in turn."""
        return self.pull_messages(self.push_messages(messages))


class Constant(NumPyClient):
    """A client whose whole training is to add its number to what it gets."""

    def __init__(self, number: int) -> None:
        self._step = (number + 1) / 10

    def fit(self, parameters: list[np.ndarray], config: dict) -> tuple:
        """All clients have as many examples."""
        return [parameters[0] + self._step], 10, {}


class Recording(FedAvg):
    """Keeps the mean."""

    mean: np.ndarray
    n_results: int

    def aggregate_fit(self, server_round: int, results: list, failures: list) -> Any:
        """As in FedAvg."""
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        self.n_results = len(results)
        [self.mean] = parameters_to_ndarrays(parameters)
        return parameters, metrics


def secaggplus(n_clients: int, length: int) -> tuple[float, float, int]:
    """One round in which one client drops out: seconds, largest error, clients in the mean."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1

    def drops(client: int, message: Message) -> bool:
        records = message.content.config_records.values()
        return client == DROPPED and any(str(r.get("stage")) in SILENT_IN for r in records)

    app = ClientApp(
        client_fn=lambda context: Constant(int(context.node_config["partition-id"])).to_client(),
        mods=[secaggplus_mod],
    )
    grid, manager = LocalGrid(app, n_clients, drops), SimpleClientManager()
    for client in grid.get_node_ids():
        manager.register(GridClientProxy(node_id=client, grid=grid, run_id=1))
    strategy = Recording(
        min_fit_clients=n_clients, min_available_clients=n_clients, fraction_fit=1.0
    )
    context = LegacyContext(
        Context(1, 0, {}, RecordDict(), {}), strategy=strategy, client_manager=manager
    )
    start = ndarrays_to_parameters([np.zeros(length)])
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    context.state.array_records[MAIN_PARAMS_RECORD] = parameters_to_arrayrecord(start, True)

    workflow = SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.5, max_weight=100)
    began = time.perf_counter()
    workflow(grid, context)
    taken = time.perf_counter() - began
    expected = np.mean([(i + 1) / 10 for i in range(n_clients) if i + 1 != DROPPED])
    return taken, float(np.abs(strategy.mean - expected).max()), strategy.n_results

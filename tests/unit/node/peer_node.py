"""A node that peers can dial: a listener, the dispatcher, and metadata; no partitions."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from metadata_raft.image import Endpoint
from metadata_raft.metadata_version import SUPPORTED_FEATURES
from node.kafka_api.dispatch import Dispatcher
from node.net.connection_quota import ConnectionQuota
from node.net.listener import Listener, ListenerLimits
from node.net.peer_handshake import PeerGate, PeerIdentity
from node.net.peer_network import PeerNetwork
from node.net.receive_memory import ReceiveMemory
from tests.unit.node.metadata_node import MetadataNode

SECRET = b"sixteen characters"
CLUSTER_ID = b"the cluster's id"


class Unique:
    """Bytes that differ each time and are the same in every run."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def __call__(self, count: int) -> bytes:
        return self._chance.randbytes(count)


def gate(node_id: int, *, secret: bytes = SECRET, cluster_id: bytes = CLUSTER_ID) -> PeerGate:
    identity = PeerIdentity(node_id, cluster_id, b"directory-%06d" % node_id)
    return PeerGate(secret, lambda: identity, Unique(node_id))


class PeerNode(MetadataNode):
    """What the dispatcher sees of a broker with peers."""

    def __init__(
        self, node_id: int = 0, *, own_gate: PeerGate | None = None, listener: str = "PLAINTEXT"
    ) -> None:
        super().__init__({"node.id": str(node_id)})
        self.peer_gate = own_gate if own_gate is not None else gate(node_id)
        self.supported_features = SUPPORTED_FEATURES
        self.lost: list[int] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.listener = Listener(
            name=listener,
            service=Dispatcher(cast(Any, self)).service,
            memory=ReceiveMemory(),
            quota=ConnectionQuota(),
            limits=ListenerLimits(),
            start_task=self._start_task,
            on_peer_lost=self.lost.append,
        )

    def _start_task(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.listener.port)


def network(node_id: int, *nodes: PeerNode, own_gate: PeerGate | None = None) -> PeerNetwork:
    """The connections of node `node_id` to these nodes, which it finds by their ids."""
    endpoints = {node.config.node_id: node.endpoint for node in nodes}
    return PeerNetwork(
        gate=own_gate or gate(node_id),
        node_id=node_id,
        endpoint_of=endpoints.get,
        chance=random.Random(node_id),
    )


@asynccontextmanager
async def serving(node: PeerNode) -> AsyncIterator[PeerNode]:
    await node.listener.bind("127.0.0.1", 0)
    await node.listener.start()
    try:
        yield node
    finally:
        node.listener.stop_accepting()
        node.listener.close_connections()
        node.listener.abort_connections()
        await asyncio.sleep(0)

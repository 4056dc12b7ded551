"""A node that peers can dial: a listener, the dispatcher, and metadata, but no partitions."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ottla.metadata_raft.cluster_features import SUPPORTED_FEATURES
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.node.audit.audit_log import AuditLog
from ottla.node.clock import ManualClock
from ottla.node.kafka_api.served_apis import SERVED
from ottla.node.metadata.command_sender import CommandSender
from ottla.node.metadata.metadata_feed import MetadataFeed
from ottla.node.metadata.metadata_observer import MetadataObserver
from ottla.node.metadata.metadata_publisher import controller_config
from ottla.node.metadata.metadata_runtime import MetadataRuntime
from ottla.node.net.connection_quota import ConnectionQuota
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.listener import Listener, ListenerLimits
from ottla.node.net.peer_handshake import PeerGate, PeerIdentity
from ottla.node.net.peer_network import EndedConnection, PeerNetwork
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.settings.config import parse_config
from ottla.node.wire.messages.fetch_metadata import VoterAddress
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.metadata.metadata_node import MetadataNode

SECRET = b"sixteen characters"
CLUSTER_ID = b"the cluster's id"


class Unique:
    """Bytes that differ on each call and are the same in every run."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def __call__(self, count: int) -> bytes:
        return self._chance.randbytes(count)


def gate(node_id: int, *, secret: bytes = SECRET, cluster_id: bytes = CLUSTER_ID) -> PeerGate:
    identity = PeerIdentity(node_id, cluster_id, b"directory-%06d" % node_id)
    return PeerGate(secret, lambda: identity, Unique(node_id))


class PeerNode(MetadataNode):
    """A broker with peers, by the members that the dispatcher needs."""

    def __init__(
        self,
        node_id: int = 0,
        *,
        own_gate: PeerGate | None = None,
        listener: str = "PLAINTEXT",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__({"node.id": str(node_id), **(settings or {})})
        self.voters = [self]
        self.metadata_feed = MetadataFeed(
            self.metadata.image,
            leader=lambda: (self.metadata.controller_id, self.metadata.controller_epoch),
            voters=lambda: [
                VoterAddress(node_id=one.config.node_id, host="127.0.0.1", port=one.listener.port)
                for one in self.voters
            ],
            hears_all=lambda: self.quorum.hears_all,
        )
        self.metadata.add_commit_listener(self.metadata_feed.add)
        self.peer_gate = own_gate if own_gate is not None else gate(node_id)
        self.supported_features = SUPPORTED_FEATURES
        self.served_apis = SERVED
        self.lost: list[int] = []
        self.audit = AuditLog()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.listener = Listener(
            name=listener,
            service=dispatcher_of(self, peer_gate=self.peer_gate, audit=self.audit).service,
            memory=ReceiveMemory(),
            quota=ConnectionQuota(),
            limits=ListenerLimits(),
            start_task=self._start_task,
            gathered=GatheredAnswers(asyncio.get_running_loop()),
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


def network(
    node_id: int,
    *nodes: PeerNode,
    own_gate: PeerGate | None = None,
    on_lost: Callable[[EndedConnection], None] = lambda ended: None,
) -> PeerNetwork:
    """Return the connections of node `node_id` to these nodes, which it finds by their ids."""
    endpoints = {node.config.node_id: node.endpoint for node in nodes}
    return PeerNetwork(
        gate=own_gate or gate(node_id),
        node_id=node_id,
        endpoint_of=endpoints.get,
        chance=random.Random(node_id),
        on_lost=on_lost,
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


class ObserverNode:
    """A node that is no voter: it learns the metadata from `voter` and sends it commands."""

    def __init__(self, node_id: int, voter: PeerNode, *others: PeerNode) -> None:
        """`others` can be reached, too, but are not known as voters."""
        chance = random.Random(node_id)
        voter_id = voter.config.node_id
        self.peers = network(node_id, voter, *others)
        self.observer = MetadataObserver(
            MetadataImage(cluster_id=voter.metadata.image.cluster_id),
            voters={voter_id: voter.endpoint},
            connect=self.peers.client,
            chance=chance,
        )
        self.metadata = MetadataRuntime(
            quorum=self.observer,
            image=self.observer.image,
            config=controller_config(parse_config({})),
            clock=ManualClock(),
            broker_id=node_id,
            sender=CommandSender(self.peers.client),
            voters=lambda: [voter_id],
            chance=chance,
            request_timeout_ms=500,
        )

    async def reaches(self, offset: int) -> None:
        """Wait until this node knows the metadata up to there."""
        async with asyncio.timeout(60):
            while self.metadata.image.version < offset:
                await asyncio.sleep(0.001)


@asynccontextmanager
async def observing(node: ObserverNode) -> AsyncIterator[ObserverNode]:
    running = asyncio.get_running_loop().create_task(node.metadata.run())
    try:
        yield node
    finally:
        node.metadata.close()
        await running
        node.peers.close()
        await asyncio.sleep(0)

"""Several nodes cut down to their replicas, over a network without sockets and a clock that jumps.

The handlers, codecs, logs and fetchers are the shipped ones; the controller is one function of this file. A
node can receive the metadata late, be cut off from others, and start again with or without its disk.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.metadata_raft.commands import (
    AlterPartition,
    AlterPartitionReply,
    AlterPartitionResult,
    AlterPartitionTopicResult,
)
from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import PartitionImage, TopicImage, TopicsImage
from ottla.node.kafka_api import fetch, list_offsets
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.replica.follower_fetcher import FetcherSettings, FetcherWorld
from ottla.node.replica.follower_state import FetchBounds
from ottla.node.replica.partition import Partition
from ottla.node.replica.replication import Replication
from ottla.node.wire import codec
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import CONNECTION, ReplicaWorld, batch

LAG_MS = 10_000
TOPIC_ID = b"t" * 16
HANDLERS: dict[int, Callable[..., Any]] = {1: fetch.handle, 2: list_offsets.handle}
LATENCY_S = 0.001


class Node:
    """One process of a node, from its start to its end."""

    def __init__(self, cluster: "Cluster", node_id: int, disk: MemoryDisk) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.disk = disk
        self.sync_s = 0.0  # the duration of a file sync
        self.is_behind = False  # True if the disk lags behind the fetched bytes
        self.kept_recovery_points: list[int] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.world = ReplicaWorld(
            node_id,
            others=[one for one in cluster.node_ids if one != node_id],
            disk=disk,
            monotonic_ms=lambda: int(asyncio.get_running_loop().time() * 1000),
        )
        self.world.start_task = self.start_task  # type: ignore[attr-defined]
        self.world.replica_manager.context.max_lag_ms = lambda: LAG_MS
        self.world.configs["t"] = cluster.config
        self.replication = Replication(
            replicas=self.world.replica_manager,
            world=FetcherWorld(
                broker_id=node_id,
                broker_epoch=lambda: cluster.broker_epochs[node_id],
                connect=self.connect,
                settings=lambda: FetcherSettings(
                    bounds=FetchBounds(cluster.max_bytes, 1, cluster.max_bytes, 500),
                    backoff_ms=1_000,
                    socket_timeout_ms=5_000,
                ),
                quotas=self.world.replica_manager.quotas,
                now_ms=self.world.clock.now_ms,
                chance=random.Random(node_id),
                start_task=self.start_task,
                until_safe=self.world.flusher.until_safe,
                keep_log_starts=lambda: asyncio.sleep(self.sync_s),
                keep_recovery_points=self.keep_recovery_points,
                must_pause=lambda: self.is_behind,
            ),
            num_fetchers=lambda: 1,
            alter_partition=cluster.alter_partition,
        )
        self.start_task(self.replication.run())

    def start_task(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def keep_recovery_points(self) -> None:
        self.kept_recovery_points.append(self.partition.log.recovery_point)
        await asyncio.sleep(self.sync_s)

    def stop(self) -> None:
        for task in self.tasks:
            task.cancel()

    async def connect(self, leader_id: int, purpose: str) -> "Connection":
        await asyncio.sleep(LATENCY_S)
        self.cluster.check_link(self.node_id, leader_id)
        return Connection(self.cluster, self.node_id, leader_id)

    @property
    def partition(self) -> Partition:
        return self.world.partition()

    def records(self) -> list[tuple[int, int, bytes]]:
        """Return (base offset, leader epoch, bytes) of each batch in the log."""
        log = self.partition.log
        content = b"".join(
            segment.file.read_at(0, segment.size_bytes) for segment in log.segments if segment.size_bytes
        )
        found, position = [], 0
        while position < len(content):
            size = int.from_bytes(content[position + 8 : position + 12], "big") + 12
            one = content[position : position + size]
            epoch = int.from_bytes(one[12:16], "big")
            found.append((int.from_bytes(one[:8], "big"), epoch, one[16:]))
            position += size
        return found

    def produce(self, count: int = 1, *, value: bytes = b"value") -> int:
        """Append as leader, if this node believes that it leads; return the next offset."""
        result = self.partition.append_as_leader(
            batch(count, value=value), required_acks=-1, now_ms=self.world.clock.now_ms(), produce_version=9
        )
        return result.last_offset + 1

    async def acknowledged(
        self, count: int = 1, *, value: bytes = b"value", timeout_ms: int = 3 * LAG_MS
    ) -> ErrorCode:
        """Return the error code of a produce with acks=all."""
        partition = self.partition
        offset = self.produce(count, value=value)
        codes = await self.world.replica_manager.delay_produce(
            {partition: RequiredOffset(offset, partition.leader_epoch)}, timeout_ms
        )
        return codes[partition]


class Connection:
    """A connection between two nodes that encodes and decodes everything."""

    def __init__(self, cluster: "Cluster", source: int, target: int) -> None:
        self.cluster, self.source, self.target = cluster, source, target

    async def request(self, message: object, response_type: type[Any], *, timeout_s: float = 30.0) -> Any:
        cluster = self.cluster
        schema = schema_of(type(message))
        assert schema.api_key is not None
        api_key, version = schema.api_key, schema.max_version
        frame = b"".join(codec.encode_request(api_key, version, 1, "peer", message))
        await asyncio.sleep(LATENCY_S)
        cluster.check_link(self.source, self.target)
        node = cluster.nodes[self.target]
        _, position = codec.decode_request_header(frame, 4)
        info = replace(CONNECTION, peer_id=self.source)
        context = RequestContext(api_key, version, 1, "peer", info)
        request = codec.decode_request(api_key, version, frame, position)
        result = await settled(HANDLERS[api_key](node.world, context, request))
        assert isinstance(result, response_type)
        answer = b"".join(codec.encode_response(api_key, version, 1, result))
        await asyncio.sleep(LATENCY_S)
        cluster.check_link(self.source, self.target)
        if cluster.corrupt is not None:
            answer = cluster.corrupt(answer)
        return codec.decode_response(api_key, version, answer, 4)[1]


class Cluster:
    """The nodes 1 to `count`, with one topic `t` of one partition, and its leader."""

    def __init__(self, count: int = 3, *, config: LogConfig | None = None) -> None:
        self.node_ids = tuple(range(1, count + 1))
        self.config = config or LogConfig(min_insync_replicas=2 if count > 2 else 1)
        self.broker_epochs = dict.fromkeys(self.node_ids, 1)
        self.max_bytes = 1 << 20
        self.cuts: set[frozenset[int]] = set()
        self.without_metadata: set[int] = set()  # nodes that do not receive the metadata
        self.corrupt: Callable[[bytes], bytes] | None = None
        self.state = PartitionImage(0, self.node_ids, self.node_ids, 1, 0, 0)
        self.nodes = {one: Node(self, one, MemoryDisk()) for one in self.node_ids}
        self.publish()

    # ---- the controller --------------------------------------------------------------------------

    def change(self, **fields: Any) -> None:
        """Change the partition's metadata and publish them; a new leader starts a new epoch."""
        if "leader" in fields:
            fields.setdefault("leader_epoch", self.state.leader_epoch + 1)
        self.state = self.state._replace(partition_epoch=self.state.partition_epoch + 1, **fields)
        self.publish()

    def publish(self) -> None:
        for node_id in self.node_ids:
            if node_id not in self.without_metadata:
                self.publish_to(node_id)

    def publish_to(self, node_id: int) -> None:
        world = self.nodes[node_id].world
        image = world.metadata.image
        before = image.topics.by_name.get("t")
        after = TopicImage("t", TOPIC_ID, (self.state,))
        brokers = {
            one: broker._replace(broker_epoch=self.broker_epochs[one])
            for one, broker in image.brokers.items()
        }
        world.metadata.image = replace(
            image,
            version=image.version + 1,
            brokers=brokers,
            topics=TopicsImage(by_name={"t": after}, by_id={TOPIC_ID: after}),
        )
        changes = MetadataChanges((ChangedTopic(before, after),), frozenset(), frozenset(brokers), False)
        world.replica_manager.apply(world.metadata.image, changes)

    async def alter_partition(self, command: AlterPartition) -> AlterPartitionReply:
        await asyncio.sleep(LATENCY_S)
        wanted = command.topics[0].partitions[0]
        code = ErrorCode.NONE
        if wanted.leader_epoch != self.state.leader_epoch or command.broker_id != self.state.leader:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.partition_epoch != self.state.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif any(epoch not in (-1, self.broker_epochs[one]) for one, epoch in _members(wanted)):
            code = ErrorCode.INELIGIBLE_REPLICA
        elif self.state.leader not in dict(_members(wanted)):
            code = ErrorCode.NEW_LEADER_ELECTED
            isr = tuple(one for one, _ in _members(wanted))
            self.change(leader=isr[0], isr=isr)
        else:
            self.change(isr=tuple(one for one, _ in _members(wanted)))
        result = AlterPartitionResult(partition_index=0, error_code=code, isr=self.state.isr)
        return AlterPartitionReply(topics=[AlterPartitionTopicResult(topic_id=TOPIC_ID, partitions=[result])])

    # ---- failures --------------------------------------------------------------------------------

    def check_link(self, one: int, other: int) -> None:
        if frozenset((one, other)) in self.cuts:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the link is cut")

    def cut(self, *node_ids: int) -> None:
        """Cut these nodes off from all others."""
        for one in node_ids:
            self.cuts |= {frozenset((one, other)) for other in self.node_ids if other != one}

    def heal(self) -> None:
        self.cuts.clear()

    def restart(self, node_id: int, *, loses_disk: bool = False) -> Node:
        """Start a new process of a node; it takes no part until it receives the metadata."""
        old = self.nodes[node_id]
        old.stop()
        self.broker_epochs[node_id] += 1
        node = self.nodes[node_id] = Node(self, node_id, MemoryDisk() if loses_disk else old.disk)
        return node

    # ---- checks ----------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], bool], within_s: float = 20.0) -> None:
        """Wait until the condition holds, for at most `within_s` of the loop's time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not holds():
            assert loop.time() < deadline, self.describe()
            await asyncio.sleep(0.005)

    async def settled(self, *node_ids: int) -> None:
        """Wait until all replicas (or these) have the leader's log and high watermark, and are in sync."""
        wanted = node_ids or self.node_ids
        leader = self.nodes[self.state.leader]

        def holds() -> bool:
            end = leader.partition.log.log_end_offset
            return all(
                self.nodes[one].partition.log.log_end_offset == end
                and self.nodes[one].partition.log.high_watermark == end
                and one in self.state.isr
                for one in wanted
            )

        await self.until(holds)
        for one in wanted:
            assert self.nodes[one].records() == leader.records(), one

    def describe(self) -> str:
        return (
            "; ".join(
                f"{one}: {node.partition.log!r} hw {node.partition.log.high_watermark}"
                for one, node in self.nodes.items()
            )
            + f"; {self.state}"
        )


def _members(wanted: Any) -> Sequence[tuple[int, int]]:
    return [(one.broker_id, one.broker_epoch) for one in wanted.new_isr_with_epochs]


class Result(NamedTuple):
    """The result of a scenario."""

    seconds: float


def play(scenario: Callable[[Cluster], Coroutine[Any, Any, None]], count: int = 3, **fields: Any) -> Result:
    """Run a scenario in a cluster of its own."""

    async def run() -> None:
        cluster = Cluster(count, **fields)
        try:
            await scenario(cluster)
        finally:
            for node in cluster.nodes.values():
                node.stop()

    loop = VirtualLoop(random.Random(1))
    loop.run(run(), limit_s=3_600.0)
    return Result(loop.now_s)

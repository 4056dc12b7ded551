"""A broker cut down to its replicas: real logs on a disk in memory, metadata written by hand, no sockets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.record import build_batch
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.delta import ChangedTopic, MetadataChanges
from ottla.metadata_raft.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from ottla.node.authorization.access import ANONYMOUS, Access
from ottla.node.clock import ManualClock
from ottla.node.kafka_api.request_context import ConnectionInfo, RequestContext
from ottla.node.kafka_api.served_apis import SERVED
from ottla.node.log_care.log_flusher import LogFlusher
from ottla.node.net.unsent_answers import UnsentAnswers
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from ottla.node.security.administrators import Administrators
from ottla.node.settings.config import parse_config
from ottla.node.work.fair_pool import FairPool
from ottla.node.work.large_requests import LargeRequests
from ottla.node.work.opened_batches import OpenedBatches
from tests.unit.node.fakes import Maintenance, Metadata

NODE_ID = 1
OTHER_ID = 2
CONNECTION = ConnectionInfo(
    access=Access(ANONYMOUS, "127.0.0.1"),
    number=1,
    connection_id="127.0.0.1:9092-127.0.0.1:50000-1",
    listener_name="PLAINTEXT",
    security_protocol="PLAINTEXT",
    client_host="127.0.0.1",
    client_port=50000,
    local_host="127.0.0.1",
    local_port=9092,
)


@dataclass(slots=True)
class FakeLogManager:
    """Logs on a disk in memory."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    deleted: list[TopicPartition] = field(default_factory=list)

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, *, is_new: bool
    ) -> PartitionLog:
        directory = Path("/data") / str(topic_partition)
        self.disk.make_directory(directory)
        return PartitionLog.open(
            disk=self.disk,
            directory=directory,
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=config,
            now_ms=0,
            clean_shutdown=True,
        )

    def delete(self, topic_partition: TopicPartition) -> None:
        self.deleted.append(topic_partition)


class ReplicaWorld:
    """A broker with only those members that handlers use."""

    def __init__(
        self,
        node_id: int = NODE_ID,
        *,
        others: Sequence[int] = (OTHER_ID,),
        disk: MemoryDisk | None = None,
        monotonic_ms: Callable[[], int] | None = None,
        on_freed: Callable[[int], None] = lambda objects: None,
    ) -> None:
        self.clock = ManualClock()
        self.unsent = UnsentAnswers()
        self.large_requests = LargeRequests()
        self.is_cut_off = False
        self.txn_gate: Any = None
        self.opened_batches = OpenedBatches()
        self.batch_pool = FairPool("batches", threads=1, max_cpu_s=60.0)
        self.time_pool = FairPool("times", threads=1, max_cpu_s=60.0)
        self.administrators = Administrators(list, lambda: True)
        self.served_apis = SERVED
        self.config = parse_config({"node.id": str(node_id)})
        self.log_manager = FakeLogManager() if disk is None else FakeLogManager(disk)
        self.maintenance = Maintenance()
        self.configs: dict[str, LogConfig] = {}
        brokers = {
            one: BrokerImage(
                one,
                1,
                bytes(16),
                {"PLAINTEXT": Endpoint(f"host{one}", 9092)},
                None,
                False,
                False,
                (),
                {},
            )
            for one in (node_id, *others)
        }
        self.metadata = Metadata(MetadataImage(version=0, cluster_id=b"c" * 16, brokers=brokers))
        self.replica_manager = ReplicaManager(
            broker_id=node_id,
            log_manager=self.log_manager,  # type: ignore[arg-type]
            image=lambda: self.metadata.image,
            log_config=lambda image, topic: self.configs.get(topic, LogConfig()),
            monotonic_ms=monotonic_ms or self.clock.now_ms,
            on_freed=on_freed,
        )
        self.flusher = LogFlusher(  # flushes requested logs while its `run` is awaited
            is_current=lambda _: True, clock=self.clock, on_flushed=self.replica_manager.log_flushed
        )
        self.replica_manager.flush_by(self.flusher.flush_soon)

    def endpoint_of(self, broker_id: int, connection: ConnectionInfo) -> Endpoint | None:
        broker = self.metadata.image.brokers.get(broker_id)
        return None if broker is None else broker.listeners[connection.listener_name]

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return call(*arguments)

    def create_topic(
        self,
        name: str = "t",
        *,
        partitions: int = 1,
        leader: int = NODE_ID,
        leader_epoch: int = 0,
        replicas: Sequence[int] = (NODE_ID,),
        isr: Sequence[int] | None = None,
        config: LogConfig | None = None,
        topic_id: bytes | None = None,
    ) -> TopicImage:
        """Create a topic in the metadata, with this node's replicas, or change an existing one."""
        if config is not None:
            self.configs[name] = config
        in_sync = tuple(replicas if isr is None else isr)
        before = self.metadata.image.topics.by_name.get(name)
        after = TopicImage(
            name,
            topic_id or name.encode().ljust(16, b"."),
            tuple(
                PartitionImage(index, tuple(replicas), in_sync, leader, leader_epoch, 0)
                for index in range(partitions)
            ),
        )
        self._publish(before, after)
        return after

    def change_partition(self, name: str, index: int, **fields: Any) -> None:
        """Change one partition in the metadata."""
        before = self.metadata.image.topics.by_name[name]
        partitions = list(before.partitions)
        partitions[index] = partitions[index]._replace(**fields)
        self._publish(before, before._replace(partitions=tuple(partitions)))

    def delete_topic(self, name: str) -> None:
        self._publish(self.metadata.image.topics.by_name[name], None)

    def _publish(self, before: TopicImage | None, after: TopicImage | None) -> None:
        image = self.metadata.image
        by_name = dict(image.topics.by_name)
        if before is not None:
            del by_name[before.name]
        if after is not None:
            by_name[after.name] = after
        topics = TopicsImage(by_name=by_name, by_id={one.topic_id: one for one in by_name.values()})
        self.metadata.image = MetadataImage(
            version=image.version + 1, cluster_id=image.cluster_id, brokers=image.brokers, topics=topics
        )
        changes = MetadataChanges((ChangedTopic(before, after),), frozenset(), frozenset(), False)
        self.replica_manager.apply(self.metadata.image, changes)

    def partition(self, name: str = "t", index: int = 0) -> Partition:
        return self.replica_manager.partition((name, index))

    def append(self, name: str = "t", *, count: int = 1, index: int = 0, value: bytes = b"value") -> int:
        """Append a batch of `count` records; return its base offset."""
        result = self.partition(name, index).append_as_leader(
            batch(count, value=value, now_ms=self.clock.now_ms()),
            required_acks=1,
            now_ms=self.clock.now_ms(),
            produce_version=9,
        )
        return result.base_offset


def batch(
    count: int = 1, *, value: bytes = b"value", now_ms: int = 1_700_000_000_000, **fields: Any
) -> bytearray:
    return build_batch([(b"key", value, now_ms, ())] * count, **fields)


def context(api_key: int, version: int, client_id: str | None = "test") -> RequestContext:
    return RequestContext(api_key, version, 1, client_id, CONNECTION)

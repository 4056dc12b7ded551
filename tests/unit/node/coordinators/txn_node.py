"""A node's transaction coordinator on real logs in memory, for tests. A restart keeps the disk."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_commands import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersWritten,
    VerifyPartitions,
)
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_effects import MarkerJob
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC, decode_key, decode_value
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.record import Record, iterate_records
from ottla.logstore.record_batch import LOG_OVERHEAD, iterate_headers
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.cluster_features import TRANSACTION_VERSION
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.clock import ManualClock
from ottla.node.coordinators.txn_runtime import Make, TxnRuntime
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from ottla.node.net.answers import Delayed
from ottla.node.replica.partition import Assignment, Partition
from ottla.node.services import Services
from ottla.node.settings.config import parse_config
from ottla.node.work.fair_pool import FairPool
from tests.unit.node.coordinators.group_node import NUM_PARTITIONS, host_topic, replicas_on
from tests.unit.node.fakes import Groups, Ids, services_of

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class TxnNode:
    """The parts of one broker that the coordinator needs. Markers are kept in `jobs`, for tests to write."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        replicas: tuple[int, ...] = (1,),
        level: int = 1,
        config: TransactionConfig | None = None,
        commit_timeout_ms: int = 100,
        first_producer_id: int = 1_000,
    ) -> None:
        self.suspects = SuspectedBrokers()
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock()
        self.image = MetadataImage()
        self.level = level
        self.created = 0
        self.next_id = first_producer_id
        self.id_error: KafkaError | None = None  # the controller's error instead of an id
        self.ids_ready: asyncio.Event | None = None
        self.jobs: list[tuple[int, MarkerJob]] = []
        self.dropped: list[int] = []
        self._assignment = replicas
        self.pattern_pool = FairPool("patterns", threads=1, max_cpu_s=60.0)
        self.replicas = replicas_on(self.disk, self.clock, lambda: self.image)
        self.txns = TxnRuntime(
            config=config or TransactionConfig(),
            replicas=self.replicas,
            image=lambda: self.image,
            create_topic=self.create_topic,
            clock=self.clock,
            num_partitions=NUM_PARTITIONS,
            commit_timeout_ms=commit_timeout_ms,
            next_producer_id=self.give_id,
            send_markers=lambda index, job: self.jobs.append((index, job)),
            drop_markers=self.dropped.append,
        )

    async def create_topic(self) -> None:
        self.created += 1
        await asyncio.sleep(0)
        self.host(leader_epoch=0)

    async def give_id(self) -> int:
        if self.ids_ready is not None:
            await self.ids_ready.wait()
        if self.id_error is not None:
            raise self.id_error
        self.next_id += 1
        return self.next_id

    def host(self, *, leader_epoch: int, leader: int = 1) -> None:
        assignment = Assignment(
            leader_id=leader,
            leader_epoch=leader_epoch,
            partition_epoch=0,
            replicas=self._assignment,
            in_sync_replicas=self._assignment,
        )
        topics = host_topic(self.replicas, self.image, TRANSACTIONS_TOPIC, assignment)
        parts = tuple(
            PartitionImage(
                partition=index, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
            )
            for index in range(2)
        )
        written_to = TopicImage("t", b"t" * 16, parts)  # the topic that the tests write to
        self.image = MetadataImage(
            topics=TopicsImage(by_name={**topics.by_name, "t": written_to}, by_id=topics.by_id),
            features={TRANSACTION_VERSION: self.level},
        )

    @property
    def services(self) -> Services:
        """The parts of a node that the handlers of the transaction APIs use."""
        return services_of(
            parse_config({"node.id": "1", "advertised.listeners": "PLAINTEXT://here:9092"}),
            txns=self.txns,
            groups=Groups(partition=7),
            metadata=self,
            producer_ids=Ids(self.give_id),
            pattern_pool=self.pattern_pool,
        )

    # ---- requests ------------------------------------------------------------------------------------

    def submit(self, transactional_id: str, make: Make) -> Any:
        """Return the answer, or a future of it."""
        answer = self.txns.ask(transactional_id, make, lambda answer: answer)
        return answer.future if isinstance(answer, Delayed) else answer

    async def ask(self, transactional_id: str, make: Make) -> Any:
        answer = self.submit(transactional_id, make)
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def begin(self, transactional_id: str = "x") -> ProducerPair:
        """Return a producer that was initialized with this id."""
        await self.txns.coordinator_of(transactional_id)
        return cast(ProducerPair, (await self.ask(transactional_id, init(transactional_id))).producer)

    def marked(self, *partitions: TopicPartition, job: int = -1) -> None:
        """Report that these partitions (all, if none is named) have the marker of a job."""
        index, sent = self.jobs[job]
        self.txns.send(
            index,
            MarkersWritten(
                transactional_id=sent.transactional_id,
                producer_id=sent.producer_id,
                marker_epoch=sent.marker_epoch,
                partitions=frozenset(partitions or sent.partitions),
            ),
        )

    # ---- the log -------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> Partition:
        found = self.replicas.find(
            TopicPartition(TRANSACTIONS_TOPIC, self.txns.partition_for(transactional_id))
        )
        assert found is not None
        return found

    def batches(self, transactional_id: str = "x") -> list[int]:
        """Return the number of records of each batch in the id's partition."""
        return [header.records_count for _, header in iterate_headers(self._content(transactional_id))]

    def states(self, transactional_id: str = "x") -> list[str]:
        """Return the states of an id in the log, in their order."""
        found = []
        for record in self.records(transactional_id):
            assert record.key is not None
            if decode_key(record.key) == transactional_id:
                value = record.value and decode_value(transactional_id, record.value)
                found.append(value.state.value if value else "gone")
        return found

    def records(self, transactional_id: str = "x") -> list[Record]:
        """Return all records of the id's partition."""
        content = memoryview(self._content(transactional_id))
        batches = [
            content[position : position + LOG_OVERHEAD + header.batch_length]
            for position, header in iterate_headers(content)
        ]
        return [record for batch in batches for record in iterate_records(batch)]

    def _content(self, transactional_id: str) -> bytes:
        segment = self.partition_of(transactional_id).log.active_segment
        return bytes(segment.slice(0, segment.size_bytes).read())

    async def loaded(self) -> None:
        while not all(shard.is_loaded for shard in self.txns.shards.values()):
            await asyncio.sleep(0.001)

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.001)


def init(transactional_id: str = "x", **fields: Any) -> Make:
    return lambda token: InitProducer(
        token=token, transactional_id=transactional_id, **{"timeout_ms": 60_000, **fields}
    )


def add(
    producer: ProducerPair,
    *partitions: TopicPartition,
    transactional_id: str = "x",
    client_version: int = 0,
    may_wait: bool = True,
) -> Make:
    return lambda token: AddPartitions(
        token=token,
        transactional_id=transactional_id,
        producer=producer,
        partitions=frozenset(partitions or (T0, T1)),
        client_version=client_version,
        may_wait=may_wait,
    )


def verify(producer: ProducerPair, *partitions: TopicPartition, transactional_id: str = "x") -> Make:
    return lambda token: VerifyPartitions(
        token=token,
        transactional_id=transactional_id,
        producer=producer,
        partitions=frozenset(partitions or (T0, T1)),
    )


def end(
    producer: ProducerPair,
    *,
    committed: bool = True,
    transactional_id: str = "x",
    client_version: int = 0,
    connection_number: int = 1,
) -> Make:
    return lambda token: EndTransaction(
        token=token,
        transactional_id=transactional_id,
        producer=producer,
        committed=committed,
        client_version=client_version,
        connection_number=connection_number,
    )


Scenario = Callable[[TxnNode], Coroutine[Any, Any, None]]


def play(scenario: Scenario, node: TxnNode | None = None) -> TxnNode:
    node = node or TxnNode()

    async def run() -> None:
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            node.txns.start(tasks.create_task)
            await scenario(node)
            node.txns.close()

    asyncio.run(run())
    return node

"""The requests of the exactly-once protocol to a cluster, and the cluster that serves them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.broker_settings import max_transaction_timeout_ms
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.pipeline.client.group_settings import keep_offsets
from ottla.pipeline.client.metadata import Cluster, CoordinatorType, TopicGone
from ottla.pipeline.client.process_clusters import cluster_of
from ottla.pipeline.client.retries import is_retriable
from ottla.pipeline.client.transactions import TransactionDescription, Transactions
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.record_parts import count_parts, join, split
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.words import OptionError

# A record is stored as an offset of this partition, which every cluster with groups has, whatever happens to
# the topics that a query writes to.
RECORD_PARTITION: Final = TopicPartition("__consumer_offsets", 0)
# This one is in every cluster with transactions: its offset is the note of the batch completed last.
COMPLETED_PARTITION: Final = TopicPartition("__transaction_state", 0)
READS_OF_A_RECORD: Final = (
    3  # a newer record may have more parts than the one before; only its driver reads repeatedly
)
# For transactions that do not wait for tasks, such as that of the record; Java's default.
COORDINATING_TIMEOUT_MS: Final = 60_000
# A node that is down is out of the metadata after some seconds; a batch does not wait longer for a list.
LIST_TIMEOUT_MS: Final = 5_000
# Nor does it wait longer for a note that is needed only after days without use.
NOTE_TIMEOUT_MS: Final = 5_000


class SinkCluster(Protocol):
    """A cluster as the protocol uses it. All methods raise KafkaError if retries fail."""

    def init(self, ids: Sequence[str], *, timeout_ms: int, two_phase: bool) -> Mapping[str, ProducerPair]: ...

    def describe(self, ids: Sequence[str]) -> Mapping[str, TransactionDescription | None]: ...

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> Mapping[str, KafkaError | None]: ...

    def list_open(self, prefix: str) -> set[str] | None:
        """Return the ids with this prefix whose transaction is open; None while a node does not answer."""

    def add_partitions(
        self, transactional_id: str, pair: ProducerPair, partitions: Sequence[TopicPartition]
    ) -> None: ...

    def write_record(
        self, transactional_id: str, pair: ProducerPair, group_id: str, record: CommittedOffset
    ) -> None:
        """Add the record to the transaction, which stays open."""

    def read_record(self, group_id: str) -> CommittedOffset | None:
        """Return the last committed record, or None; waits for one whose commit is under way."""

    def refresh_coordinator(self, group_id: str) -> None:
        """Find the coordinator again, so that `read_record` asks none that another node has replaced."""

    def note_completed(self, group_id: str, note: CommittedOffset) -> None:
        """Note, beside the record, that its transactions are all committed; a failure is ignored."""

    def read_completed(self, group_id: str) -> CommittedOffset | None:
        """Return the last note, or None."""

    def keep_record(self, group_id: str) -> None:
        """Let record and note never expire, if the cluster can."""

    def max_timeout_ms(self) -> int:
        """Return the longest `transaction.timeout.ms` that the cluster allows."""


def _record_partitions(count: int) -> list[TopicPartition]:
    return [TopicPartition(RECORD_PARTITION.topic, number) for number in range(count)]


Connect = Callable[[SinkOptions], SinkCluster]


def connect(options: SinkOptions) -> SinkCluster:
    """Return this process's cluster for these options."""
    return KafkaSinkCluster(cluster_of(options.client))


class KafkaSinkCluster:
    """A cluster of Ottla or Apache Kafka."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transactions = Transactions(cluster)

    def init(self, ids: Sequence[str], *, timeout_ms: int, two_phase: bool) -> Mapping[str, ProducerPair]:
        return self._transactions.init(ids, timeout_ms=timeout_ms, two_phase=two_phase)

    def describe(self, ids: Sequence[str]) -> Mapping[str, TransactionDescription | None]:
        return self._transactions.describe(ids)

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> Mapping[str, KafkaError | None]:
        return self._transactions.end(pairs, commit=commit)

    def list_open(self, prefix: str) -> set[str] | None:
        try:
            return self._transactions.list_open(prefix, timeout_ms=LIST_TIMEOUT_MS)
        except KafkaError as error:
            if is_retriable(error):
                return None
            raise

    def add_partitions(
        self, transactional_id: str, pair: ProducerPair, partitions: Sequence[TopicPartition]
    ) -> None:
        self._transactions.add_partitions(transactional_id, pair, partitions)

    def write_record(
        self, transactional_id: str, pair: ProducerPair, group_id: str, record: CommittedOffset
    ) -> None:
        parts = split(record.metadata)
        if len(parts) > 1 and len(parts) > (most := len(self._cluster.topic(RECORD_PARTITION.topic).leaders)):
            raise OptionError(
                "delivery.guarantee",
                f"exactly_once writes the participants of this batch to {len(parts)} "
                f"partitions of {RECORD_PARTITION.topic}, which has only {most}: use coalesce, "
                "or a lower spark.sql.shuffle.partitions",
            )
        offsets = {
            partition: CommittedOffset(offset=record.offset, metadata=part)
            for partition, part in zip(_record_partitions(len(parts)), parts, strict=True)
        }
        self._transactions.add_offsets(transactional_id, pair, group_id, offsets)

    def read_record(self, group_id: str) -> CommittedOffset | None:
        count = 1
        for _ in range(READS_OF_A_RECORD):
            partitions = _record_partitions(count)
            found = committed_offsets(self._cluster, group_id, partitions)
            first = found.get(RECORD_PARTITION)
            if first is None:
                return None
            # One request for all parts, so that they come from one transaction.
            if count_parts(first.metadata) == count:
                parts = [found[one].metadata for one in partitions if one in found]
                return CommittedOffset(offset=first.offset, metadata=join(parts))
            count = count_parts(first.metadata)
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the record of group {group_id} keeps "
            "changing: check that no other query "
            "uses this transactional.id",
        )

    def refresh_coordinator(self, group_id: str) -> None:
        self._cluster.rediscover_coordinator(CoordinatorType.GROUP, group_id)

    def note_completed(self, group_id: str, note: CommittedOffset) -> None:
        try:
            commit_offsets(self._cluster, group_id, {COMPLETED_PARTITION: note}, timeout_ms=NOTE_TIMEOUT_MS)
        except (KafkaError, TopicGone):
            pass  # the batch is complete without the note

    def read_completed(self, group_id: str) -> CommittedOffset | None:
        return committed_offsets(self._cluster, group_id, [COMPLETED_PARTITION]).get(COMPLETED_PARTITION)

    def keep_record(self, group_id: str) -> None:
        keep_offsets(self._cluster, group_id)

    def max_timeout_ms(self) -> int:
        return max_transaction_timeout_ms(self._cluster)


def has_two_phase(cluster: SinkCluster, name: str) -> bool:
    """Return True if the cluster allows two-phase commit; asks with an id that never has a transaction."""
    try:
        cluster.init([name], timeout_ms=COORDINATING_TIMEOUT_MS, two_phase=True)
    except KafkaError as refused:
        if refused.code in (
            ErrorCode.UNSUPPORTED_VERSION,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ):
            return False
        raise
    return True

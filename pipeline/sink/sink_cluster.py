"""What the protocol of exactly-once asks of a cluster, and the cluster that is asked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.broker_settings import max_transaction_timeout_ms
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets, committed_offsets
from ottla.pipeline.client.group_settings import keep_offsets
from ottla.pipeline.client.metadata import Cluster, Kind, TopicGone
from ottla.pipeline.client.process_clusters import cluster_of
from ottla.pipeline.client.retries import is_retriable
from ottla.pipeline.client.transactions import Described, Transactions
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.record_parts import count_parts, join, split
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.words import OptionError

# A record hangs on a partition, as an offset of it. This one is in every cluster that has groups, whatever
# becomes of the topics that a query writes to.
ANCHOR: Final = TopicPartition("__consumer_offsets", 0)
# And this one is in every cluster that has transactions: on it hangs which batch was completed last.
ANCHOR_OF_COMPLETED: Final = TopicPartition("__transaction_state", 0)
READS_OF_A_RECORD: Final = (
    3  # a newer one may have more parts than the one before; who reads twice is its driver
)
# Of transactions in which nothing is waited for, as that with the record; Java's default.
COORDINATING_TIMEOUT_MS: Final = 60_000
# A node that has gone is out of the metadata after some seconds; a batch waits no longer for a list.
LIST_BUDGET_MS: Final = 5_000
# Nor does it wait longer for a note that is needed only after a rest of days.
NOTE_BUDGET_MS: Final = 5_000


class SinkCluster(Protocol):
    """All methods raise KafkaError for what retries have not mended."""

    def init(self, ids: Sequence[str], *, timeout_ms: int, two_phase: bool) -> Mapping[str, ProducerPair]: ...

    def describe(self, ids: Sequence[str]) -> Mapping[str, Described | None]: ...

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> Mapping[str, KafkaError | None]: ...

    def list_open(self, prefix: str) -> set[str] | None:
        """The ids with that beginning whose transaction is open; None while a node does not answer."""

    def add_partitions(
        self, transactional_id: str, pair: ProducerPair, partitions: Sequence[TopicPartition]
    ) -> None: ...

    def write_record(
        self, transactional_id: str, pair: ProducerPair, group_id: str, record: CommittedOffset
    ) -> None:
        """Within the transaction, which is not ended."""

    def read_record(self, group_id: str) -> CommittedOffset | None:
        """The last one that was committed, as the coordinator knows; waits for one that is about to be."""

    def settle_record(self, group_id: str) -> None:
        """Let the next `read_record` ask no coordinator that others know to be none any more."""

    def note_completed(self, group_id: str, note: CommittedOffset) -> None:
        """Beside the record, that its transactions are all committed; where it can not be, it is left out."""

    def read_completed(self, group_id: str) -> CommittedOffset | None:
        """The last note."""

    def keep_record(self, group_id: str) -> None:
        """Let record and note never expire, where the cluster can."""

    def max_timeout_ms(self) -> int:
        """The longest `transaction.timeout.ms` that it grants."""


def _anchors(count: int) -> list[TopicPartition]:
    return [TopicPartition(ANCHOR.topic, number) for number in range(count)]


Connect = Callable[[SinkOptions], SinkCluster]


def connect(options: SinkOptions) -> SinkCluster:
    """The cluster of this process that the options lead to."""
    return KafkaSinkCluster(cluster_of(options.client))


class KafkaSinkCluster:
    """A cluster of Ottla or Apache Kafka."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._transactions = Transactions(cluster)

    def init(self, ids: Sequence[str], *, timeout_ms: int, two_phase: bool) -> Mapping[str, ProducerPair]:
        return self._transactions.init(ids, timeout_ms=timeout_ms, two_phase=two_phase)

    def describe(self, ids: Sequence[str]) -> Mapping[str, Described | None]:
        return self._transactions.describe(ids)

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> Mapping[str, KafkaError | None]:
        return self._transactions.end(pairs, commit=commit)

    def list_open(self, prefix: str) -> set[str] | None:
        try:
            return self._transactions.list_open(prefix, budget_ms=LIST_BUDGET_MS)
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
        if len(parts) > 1 and len(parts) > (most := len(self._cluster.topic(ANCHOR.topic).leaders)):
            raise OptionError(
                "delivery.guarantee",
                f"exactly_once writes the participants of this batch to {len(parts)} "
                f"partitions of {ANCHOR.topic}, which has only {most}: use coalesce, "
                "or a lower spark.sql.shuffle.partitions",
            )
        offsets = {
            anchor: CommittedOffset(offset=record.offset, metadata=part)
            for anchor, part in zip(_anchors(len(parts)), parts, strict=True)
        }
        self._transactions.add_offsets(transactional_id, pair, group_id, offsets)

    def read_record(self, group_id: str) -> CommittedOffset | None:
        count = 1
        for _ in range(READS_OF_A_RECORD):
            anchors = _anchors(count)
            found = committed_offsets(self._cluster, group_id, anchors)
            first = found.get(ANCHOR)
            if first is None:
                return None
            # One question for all parts: they are what one transaction has committed.
            if count_parts(first.metadata) == count:
                parts = [found[one].metadata for one in anchors if one in found]
                return CommittedOffset(offset=first.offset, metadata=join(parts))
            count = count_parts(first.metadata)
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the record of group {group_id} keeps "
            "changing: check that no other query "
            "uses this transactional.id",
        )

    def settle_record(self, group_id: str) -> None:
        self._cluster.settle_coordinator(Kind.GROUP, group_id)

    def note_completed(self, group_id: str, note: CommittedOffset) -> None:
        try:
            commit_offsets(self._cluster, group_id, {ANCHOR_OF_COMPLETED: note}, budget_ms=NOTE_BUDGET_MS)
        except (KafkaError, TopicGone):
            pass  # the batch is complete all the same

    def read_completed(self, group_id: str) -> CommittedOffset | None:
        return committed_offsets(self._cluster, group_id, [ANCHOR_OF_COMPLETED]).get(ANCHOR_OF_COMPLETED)

    def keep_record(self, group_id: str) -> None:
        keep_offsets(self._cluster, group_id)

    def max_timeout_ms(self) -> int:
        return max_transaction_timeout_ms(self._cluster)


def has_two_phase(cluster: SinkCluster, name: str) -> bool:
    """Whether transactions of two phases are granted, asked for an id that never has one."""
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

"""One partition as this node has it: leader or follower, its log, and whoever waits for it to change.

The promise: what an acks=all produce was told to be safe is below the high watermark, and nothing at or above
the high watermark is shown to a consumer. A request that names a leader epoch is served in that epoch only.
"""

from dataclasses import dataclass

from logstore.errors import ErrorCode, KafkaError
from logstore.leader_epoch_cache import EpochEndOffset
from logstore.partition_log import (
    LATEST_TIMESTAMP,
    AppendOrigin,
    AppendResult,
    FetchDataInfo,
    FetchIsolation,
    PartitionLog,
)
from logstore.schema import Buffer
from logstore.segment import TimestampAndOffset
from logstore.topic_partition import TopicPartition
from node.replica import delayed_fetch, delayed_produce
from node.replica.delayed_fetch import DelayedFetch
from node.replica.delayed_produce import DelayedProduce
from node.replica.high_watermark import high_watermark_of

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who has a partition, as the metadata say."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class Partition:
    """A replica of one partition on this node."""

    __slots__ = (
        "_broker_id",
        "_follower_end_offsets",
        "assignment",
        "delayed_fetches",
        "delayed_produces",
        "is_leader",
        "leader_epoch",
        "log",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, *, broker_id: int, log: PartitionLog, topic_id: bytes, assignment: Assignment) -> None:
        self._broker_id = broker_id
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.delayed_fetches: dict[DelayedFetch, None] = {}
        self.delayed_produces: dict[DelayedProduce, None] = {}
        self._follower_end_offsets: dict[int, int] = {}
        self.assign(assignment)

    # ---- roles -----------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """Take the role that the metadata give this node."""
        self.assignment = assignment
        self.is_leader = assignment.leader_id == self._broker_id
        if assignment.leader_epoch != getattr(self, "leader_epoch", None):
            # Positions that followers had under another leader say nothing about this one's log.
            self._follower_end_offsets = {}
        self.leader_epoch = assignment.leader_epoch
        if self.is_leader:
            self._advance_high_watermark()
        else:
            self._wake_all()

    def close(self) -> None:
        """The partition leaves this node: whoever waits for it is answered."""
        self.is_leader = False
        self._wake_all()

    def follower_fetched(self, replica_id: int, log_end_offset: int) -> None:
        """A follower has everything below this offset."""
        self._follower_end_offsets[replica_id] = log_end_offset
        self._advance_high_watermark()

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise unless this node leads the partition in the epoch that the client knows (KIP-320).

        FENCED_LEADER_EPOCH if the client's is older, UNKNOWN_LEADER_EPOCH if ours is,
        NOT_LEADER_OR_FOLLOWER if another node leads.
        """
        # Any negative epoch stands for "I know none".
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # ---- writing ---------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        required_acks: int,
        now_ms: int,
        produce_version: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Append a producer's batch; KafkaError says why not. With acks=all the ISR must be large enough."""
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if required_acks == -1 and not self._has_enough_replicas():
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {len(self.assignment.in_sync_replicas)} replicas in sync,"
                f" min.insync.replicas is {self.log.config.min_insync_replicas}.",
            )
        result = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            produce_version=produce_version,
            origin=origin,
        )
        self._advance_high_watermark()
        return result

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the high watermark); returns where the log starts now."""
        self.check_leader()
        high_watermark = self.log.high_watermark
        offset = high_watermark if offset == -1 else offset
        if not 0 <= offset <= high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} can be cut up to its high watermark {high_watermark}, not {offset}.",
            )
        if self.log.increment_log_start_offset(offset):
            delayed_fetch.check_all(self.delayed_fetches, self)
        return self.log.log_start_offset

    def acknowledgement_of(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """What a produce that waits for `required_offset` is told; None: wait on."""
        if not self.is_leader or self.leader_epoch != leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < required_offset:
            return None
        return ErrorCode.NONE if self._has_enough_replicas() else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def _has_enough_replicas(self) -> bool:
        # A topic with fewer replicas than min.insync.replicas can be written to, as in Kafka 4.
        required = min(self.log.config.min_insync_replicas, len(self.assignment.replicas))
        return len(self.assignment.in_sync_replicas) >= required

    def _advance_high_watermark(self) -> None:
        assignment = self.assignment
        log = self.log
        if len(assignment.in_sync_replicas) == 1:
            high_watermark = log.log_end_offset
        else:
            high_watermark = high_watermark_of(
                leader_id=self._broker_id,
                leader_end_offset=log.log_end_offset,
                in_sync_replicas=assignment.in_sync_replicas,
                follower_end_offsets=self._follower_end_offsets,
            )
        if high_watermark > log.high_watermark:
            log.update_high_watermark(high_watermark)
            if self.delayed_produces:
                delayed_produce.check_all(self.delayed_produces, self)
            if self.delayed_fetches:
                delayed_fetch.check_all(self.delayed_fetches, self)

    def _wake_all(self) -> None:
        delayed_produce.check_all(self.delayed_produces, self)
        delayed_fetch.check_all(self.delayed_fetches, self)

    # ---- reading ---------------------------------------------------------------------------------

    def end_offset(self, isolation: FetchIsolation) -> int:
        """The first offset that a reader of this isolation is not shown."""
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.log.high_watermark
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.log.last_stable_offset
        return self.log.log_end_offset

    def read(
        self, fetch_offset: int, max_bytes: int, *, isolation: FetchIsolation, minimum_one_batch: bool
    ) -> FetchDataInfo:
        """Where the records from `fetch_offset` on lie; OFFSET_OUT_OF_RANGE if they lie nowhere."""
        return self.log.read(
            fetch_offset, max_bytes, isolation=isolation, minimum_one_batch=minimum_one_batch
        )

    def readable_bytes(self, fetch_offset: int, max_bytes: int, isolation: FetchIsolation) -> int | None:
        """How much a fetch could have now; None if it would get an error."""
        if not self.is_leader:
            return None
        if fetch_offset == self.end_offset(isolation):
            return 0
        try:
            found = self.read(fetch_offset, max_bytes, isolation=isolation, minimum_one_batch=True)
        except KafkaError:
            return None
        return found.slice.size

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Where a leader epoch, or the last known one before it, ended; (-1, -1) when that is not known.

        The log learns of an epoch with its first batch, so that a start need not write a file for each
        partition; until then this leader's epoch begins, and ends, at the log end.
        """
        latest_epoch = self.log.latest_epoch
        if self.is_leader and latest_epoch < epoch <= self.leader_epoch:
            is_known = epoch == self.leader_epoch or latest_epoch < 0
            return EpochEndOffset(epoch if is_known else latest_epoch, self.log.log_end_offset)
        return self.log.end_offset_for_epoch(epoch)

    def diverging_epoch(self, fetch_offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
        """Where the log of a reader that has read up to here parts from ours (KIP-595), None if it does not.

        OFFSET_OUT_OF_RANGE if nothing of ours tells.
        """
        ours = self.end_offset_for_epoch(last_fetched_epoch)
        if ours.leader_epoch == NO_EPOCH or ours.end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if ours.leader_epoch < last_fetched_epoch or ours.end_offset < fetch_offset:
            return ours
        return None

    def offset_for_timestamp(self, timestamp: int, isolation: FetchIsolation) -> TimestampAndOffset | None:
        """The first offset at or after a timestamp (or at a special place), if this reader may see it."""
        if timestamp == LATEST_TIMESTAMP:
            end_offset = self.end_offset(isolation)
            return TimestampAndOffset(-1, end_offset, self.leader_epoch)
        return self.offset_to_show(timestamp, self.log.fetch_offset_for_timestamp(timestamp), isolation)

    def offset_to_show(
        self, timestamp: int, found: TimestampAndOffset | None, isolation: FetchIsolation
    ) -> TimestampAndOffset | None:
        """What this reader is told of the answer that the log gave."""
        if found is not None and timestamp >= 0 and found.offset >= self.end_offset(isolation):
            return None
        if found is not None and found.leader_epoch < 0 and found.offset == self.log.log_end_offset:
            return found._replace(leader_epoch=self.leader_epoch)  # nothing is there yet: it will be ours
        return found

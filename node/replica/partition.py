"""A replica of one partition on this node: leader or follower, its log, and the requests that wait for it.

The promise: records of an acknowledged acks=all produce are below the high watermark, and consumers are shown
nothing at or above it. A request that names a leader epoch is served in that epoch only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.logstore.batch_validator import LATEST_PRODUCE_VERSION, ValidBatch
from ottla.logstore.leader_epoch_cache import EpochEndOffset
from ottla.logstore.partition_log import (
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    AppendOrigin,
    AppendResult,
    FetchIsolation,
    PartitionLog,
)
from ottla.logstore.record import EndTransactionMarker
from ottla.logstore.record_batch import HEADER_SIZE, BatchHeader, read_header
from ottla.logstore.segment import TimestampAndOffset
from ottla.logstore.verification import Guard
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.counters.topic_counters import TopicCounters
from ottla.node.replica.delayed_delete import DelayedDelete
from ottla.node.replica.delayed_fetch import DelayedFetch
from ottla.node.replica.delayed_operation import check_all
from ottla.node.replica.delayed_produce import DelayedProduce, RequiredOffset
from ottla.node.replica.isr import UNKNOWN_BROKER_EPOCH, InSyncReplicas, IsrProposal
from ottla.node.replica.refused_batches import RefusedBatches
from ottla.node.replica.replica_context import ReplicaContext, standalone_context

NO_LEADER = -1
NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The replicas and leader of a partition, as in the metadata."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    eligible_replicas: tuple[int, ...] = ()  # replicas outside the ISR that may still lead (KIP-966)


class LogWatcher(Protocol):
    """A watcher of a log: a partition in the fetch session of one follower."""

    def log_grew(self) -> None:
        """Handle new records, or a change of the role. Called once; then the watch is over."""
        ...

    def offsets_moved(self) -> None:
        """Handle a new high watermark or log start."""
        ...


class Partition:
    """A replica of one partition on this node."""

    __slots__ = (
        "_checkpointed_log_start",
        "_context",
        "_interrupted",
        "_refused",
        "assignment",
        "counters",
        "damaged",
        "delayed_deletes",
        "delayed_fetches",
        "delayed_produces",
        "is_leader",
        "isr",
        "leader_epoch",
        "log",
        "topic_id",
        "topic_partition",
        "watchers",
    )

    def __init__(
        self,
        *,
        broker_id: int = -1,
        log: PartitionLog,
        topic_id: bytes,
        assignment: Assignment,
        context: "ReplicaContext[Partition] | None" = None,
        counters: TopicCounters | None = None,
    ) -> None:
        """`context` is the node's; without it, `broker_id` is the only node. `counters` are the topic's."""
        self.counters = TopicCounters() if counters is None else counters
        self._context = standalone_context(broker_id) if context is None else context
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self._checkpointed_log_start = log.log_start_offset
        self.delayed_fetches: dict[DelayedFetch, None] = {}
        self.delayed_produces: dict[DelayedProduce, None] = {}
        self.delayed_deletes: dict[DelayedDelete, None] = {}
        self.watchers: list[LogWatcher] = []
        self.assignment = assignment
        self.is_leader = False
        self.isr: InSyncReplicas | None = None  # of a leader
        self._interrupted: IsrProposal | None = None  # pending when the last leader epoch here ended
        self._refused: RefusedBatches | None = None  # while there are any, and a little longer
        self.damaged = False  # True while damaged batches of the log are known
        self.leader_epoch = NO_EPOCH
        self.assign(assignment)

    # ---- roles -----------------------------------------------------------------------------------

    def assign(self, assignment: Assignment) -> bool:
        """Take the role that the metadata assign to this node; return True if role or epoch changed."""
        context = self._context
        is_leader = assignment.leader_id == context.broker_id and not context.is_fenced
        is_new = (
            is_leader != self.is_leader
            or assignment.leader_epoch != self.leader_epoch
            or assignment.leader_id != self.assignment.leader_id
        )
        known_isr = self.assignment.in_sync_replicas
        self.assignment = assignment
        self.is_leader = is_leader
        self.leader_epoch = assignment.leader_epoch
        if self.isr is not None and not is_leader:
            self._interrupted, self.isr = self.isr.pending, None
        elif is_leader and (is_new or self.isr is None):
            self.isr = InSyncReplicas(
                leader_id=context.broker_id,
                leader_epoch=assignment.leader_epoch,
                partition_epoch=assignment.partition_epoch,
                replicas=assignment.replicas,
                in_sync_replicas=assignment.in_sync_replicas,
                leader_end_offset=self.log.log_end_offset,
                now_ms=context.now_ms(),
            )
            self.isr.is_damaged = self.damaged
            self._resume_interrupted(self.isr)
        elif self.isr is not None:
            self.isr.update(
                partition_epoch=assignment.partition_epoch,
                replicas=assignment.replicas,
                in_sync_replicas=assignment.in_sync_replicas,
                now_ms=context.now_ms(),
            )
        if is_new:
            self._wake_all()
        if is_leader:
            self._advance_high_watermark()
            # The ISR may now be too small for requests that wait.
            check_all(self.delayed_produces, self)
            check_all(self.delayed_deletes, self)
        if (is_new or assignment.in_sync_replicas != known_isr) and self._should_flush():
            context.flush_soon(self.log)
        return is_new

    def _should_flush(self) -> bool:
        """Return True if the log must be flushed: a power failure of this host alone could lose records.

        That is so if `flush.messages` requires it of the leader; if other nodes have replicas but may not
        lead; or if fewer than min.insync.replicas are in sync. Also on a replica that is the only one that
        may lead, but does not lead at present, because the quorum was lost.
        """
        if self.is_leader and self.log.flush_due_from is not None:
            return True
        if len(self.assignment.replicas) == 1:
            return False
        may_lead = self.assignment.in_sync_replicas or self.assignment.eligible_replicas
        if set(may_lead) == {self._context.broker_id}:
            return True
        return self.is_leader and not self.has_enough_replicas()

    def _resume_interrupted(self, isr: InSyncReplicas) -> None:
        """Propose again the ISR that was pending when leadership was interrupted: it may still succeed."""
        proposal, self._interrupted = self._interrupted, None
        if proposal is not None and isr.resume(proposal):
            self._context.propose(self, proposal)

    def close(self) -> None:
        """Answer all waiting requests: the partition leaves this node."""
        self.is_leader = False
        self.isr = None
        self._wake_all()

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raise an error unless this node leads the partition in the epoch that the client knows (KIP-320).

        FENCED_LEADER_EPOCH if the client's epoch is older, UNKNOWN_LEADER_EPOCH if ours is,
        NOT_LEADER_OR_FOLLOWER if another node leads.
        """
        self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise an error unless the client and this replica, in either role, know the same leader epoch."""
        # Any negative epoch means that the client knows none.
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            if current_leader_epoch < self.leader_epoch:
                raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # ---- leading: positions of followers ---------------------------------------------------------

    def check_follower(self, replica_id: int, broker_epoch: int) -> None:
        """Raise an error unless this broker is a follower here, with its newest known broker epoch.

        UNKNOWN_LEADER_EPOCH for a broker that is no replica in our metadata yet, and if this replica does not
        lead; NOT_LEADER_OR_FOLLOWER for an earlier process of the broker: its position says nothing about
        that of its successor.
        """
        if self.isr is None or replica_id not in self.isr.followers:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if broker_epoch != UNKNOWN_BROKER_EPOCH and not self._context.is_current(replica_id, broker_epoch):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def follower_fetched(
        self,
        replica_id: int,
        log_end_offset: int,
        *,
        log_start_offset: int = 0,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        is_damaged: bool = False,
    ) -> None:
        """Record a fetch of a follower, which has all records from its log start up to this offset."""
        isr = self.isr
        follower = None if isr is None else isr.followers.get(replica_id)
        if isr is None or follower is None:
            return
        has_more = follower.log_end_offset != log_end_offset
        follower.fetched(
            offset=log_end_offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            now_ms=self._context.now_ms(),
            is_damaged=is_damaged,
        )
        if replica_id not in isr.maximal:
            self._expand_isr(replica_id)
        elif is_damaged:
            self.check_isr()
        if has_more:
            self._advance_high_watermark()
        if self.delayed_deletes:
            check_all(self.delayed_deletes, self)

    def follower_was_caught_up(self, replica_id: int, at_ms: int) -> None:
        """Record that a follower with the whole log asked for more at this time, before the log grew."""
        follower = None if self.isr is None else self.isr.followers.get(replica_id)
        if follower is not None:
            follower.last_fetch_ms = max(follower.last_fetch_ms, at_ms)
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, at_ms)

    def check_isr(self) -> None:
        """Request the ISR changes that are due: a follower may join, or one has lagged for too long."""
        isr, context = self.isr, self._context
        if isr is None or isr.pending is not None:
            return
        if len(isr.committed) < len(self.assignment.replicas):
            for replica_id in self.assignment.replicas:
                if replica_id not in isr.maximal and replica_id != context.broker_id:
                    self._expand_isr(replica_id)
        kinds = (isr.propose_leaving, isr.propose_shrinking) if isr.is_damaged else (isr.propose_shrinking,)
        for propose in kinds:
            proposal = propose(
                self.log.log_end_offset,
                now_ms=context.now_ms(),
                max_lag_ms=context.max_lag_ms(),
                own_broker_epoch=context.broker_epoch(),
            )
            if proposal is not None:
                context.propose(self, proposal)
                break
        self._advance_high_watermark()

    def set_damaged(self, damaged: bool) -> None:
        """Record that batches of the log are damaged, or intact again.

        A damaged leader gives up leadership once an intact replica is in sync. A follower must report it to
        its leader.
        """
        self.damaged = damaged
        if self.isr is not None:
            self.isr.is_damaged = damaged
            self.check_isr()
            check_all(self.delayed_produces, self)

    @property
    def may_leave_isr(self) -> bool:
        """Return True if this replica is in sync and may leave the ISR, since another live one is in it."""
        isr, own_id = self.isr, self._context.broker_id
        in_sync = self.assignment.in_sync_replicas
        others = [one for one in in_sync if one != own_id and self._context.is_alive(one)]
        if isr is not None:
            return any(one in isr.followers and not isr.followers[one].is_damaged for one in others)
        return own_id in in_sync and bool(others)

    def isr_settled(self) -> None:
        """Handle the end of a proposal: the ISR may have changed."""
        self._advance_high_watermark()
        check_all(self.delayed_produces, self)

    def _expand_isr(self, replica_id: int) -> None:
        isr, context = self.isr, self._context
        if isr is None:
            return
        proposal = isr.propose_expansion(
            replica_id,
            log_start_offset=self.log.log_start_offset,
            high_watermark=self.log.high_watermark,
            own_broker_epoch=context.broker_epoch(),
            is_eligible=context.is_eligible,
        )
        if proposal is not None:
            context.propose(self, proposal)

    # ---- leading: writing ------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Buffer,
        *,
        required_acks: int,
        now_ms: int,
        produce_version: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Guard | None = None,
        valid: ValidBatch | None = None,
    ) -> AppendResult:
        """Append a batch of a producer, as `PartitionLog.append_as_leader` does.

        NOT_LEADER_OR_FOLLOWER unless this replica leads, and for a batch that follows one that was rejected
        for that reason. NOT_ENOUGH_REPLICAS with acks=all (`required_acks` -1) if the ISR is too small.
        """
        isr = self.isr
        if isr is None:
            if self._refused is None:
                self._refused = RefusedBatches()
            self._refused.note(records, now_ms)
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._refused is not None:
            self._check_turn(self._refused, records, now_ms)
        if required_acks == -1 and not self.has_enough_replicas():
            raise self._not_enough_replicas(isr)
        result = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            produce_version=produce_version,
            origin=origin,
            guard=guard,
            valid=valid,
        )
        self._log_grew(isr, 1, len(records), result[1] - result[0] + 1)
        return result

    def _check_turn(self, refused: RefusedBatches, records: Buffer, now_ms: int) -> None:
        """Raise NOT_LEADER_OR_FOLLOWER for a batch that its producer sent behind a rejected one."""
        if refused.holds_back(records, now_ms, self.log.last_sequence):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "An earlier batch of this producer was rejected."
            )
        if not refused:
            self._refused = None

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, bumps_epoch: bool, now_ms: int
    ) -> Guard | None:
        """Call `PartitionLog.begin_verification`, on the leader only."""
        if self.isr is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log.begin_verification(
            producer_id, producer_epoch, base_sequence, bumps_epoch=bumps_epoch, now_ms=now_ms
        )

    def append_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
        now_ms: int,
    ) -> AppendResult:
        """Call `PartitionLog.append_marker`, with acks=all: the ISR must be large enough."""
        isr = self.isr
        if isr is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.has_enough_replicas():
            raise self._not_enough_replicas(isr)
        result = self.log.append_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
        )
        self._log_grew(isr)
        return result

    def _not_enough_replicas(self, isr: InSyncReplicas) -> KafkaError:
        count, undamaged = len(isr.committed), isr.undamaged_count
        of_them = f", {undamaged} of them undamaged" if undamaged < count else ""
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{self.topic_partition} has {count} replicas in sync{of_them}"
            f", but min.insync.replicas is {self.log.config.min_insync_replicas}.",
        )

    def append_run(
        self,
        batches: Sequence[memoryview],
        *,
        required_acks: int,
        now_ms: int,
        produce_version: int = LATEST_PRODUCE_VERSION,
    ) -> list[tuple[int, int]]:
        """Call `PartitionLog.append_run`; return [] if this replica may not take the batches."""
        isr = self.isr
        if (
            isr is None
            or self._refused is not None
            or (required_acks == -1 and not self.has_enough_replicas())
        ):
            return []
        log = self.log
        segment = log.segments[-1]
        size_bytes = segment.size_bytes
        places = log.append_run(
            batches, leader_epoch=self.leader_epoch, now_ms=now_ms, produce_version=produce_version
        )
        if places:
            self._log_grew(isr, len(places), segment.size_bytes - size_bytes, places[-1][1] - places[0][0])
        return places

    def _log_grew(self, isr: InSyncReplicas, batches: int = 0, size_bytes: int = 0, records: int = 0) -> None:
        """Count what producers appended, and wake the requests that wait for more of the log.

        Every append on the leader ends here.
        """
        counters, log = self.counters, self.log
        counters.total_produce_requests += batches
        counters.bytes_in += size_bytes
        counters.messages_in += records
        if self.watchers:
            self._notify_watchers()
        if log.flush_due_from is not None:
            self._context.flush_soon(log)
        if len(isr.maximal) == 1:  # otherwise another replica's position decides, which is unchanged
            self._advance_high_watermark()

    def delete_records_before(self, offset: int) -> int:
        """Move the log start up to `offset` (-1: the high watermark); return the resulting offset.

        The deletion is complete once `low_watermark` has reached that offset. NOT_LEADER_OR_FOLLOWER unless
        this replica leads, OFFSET_OUT_OF_RANGE above the high watermark.
        """
        self.check_leader()
        high_watermark = self.log.high_watermark
        offset = high_watermark if offset == -1 else offset
        if not 0 <= offset <= high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Records of {self.topic_partition} can be deleted up to its high "
                f"watermark {high_watermark}, not to {offset}.",
            )
        if self.log.increment_log_start_offset(offset):
            self.log_start_moved()
        return offset

    def log_start_moved(self) -> None:
        """Inform waiting fetches and followers that the log starts later, by DeleteRecords or retention."""
        check_all(self.delayed_fetches, self)
        for watcher in tuple(self.watchers):
            watcher.offsets_moved()

    def low_watermark(self) -> int:
        """Return the offset below which no replica that is alive, or may still lead, has records.

        -1 while such a replica has not fetched yet. On a follower it is the start of its own log.
        """
        log_start_offset = self.log.log_start_offset
        if self.isr is None:
            return log_start_offset
        is_alive, eligible = self._context.is_alive, self.assignment.eligible_replicas
        return self.isr.low_watermark(log_start_offset, lambda one: one in eligible or is_alive(one))

    def acknowledgement_of(self, required: RequiredOffset) -> ErrorCode | None:
        """Return the result of a produce that waits for `required`, or None while it has to wait."""
        isr, required_offset = self.isr, required.required_offset
        if self.log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if isr is None or self.leader_epoch != required.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not required.needs_all:
            flush_due_from = self.log.flush_due_from
            is_safe = flush_due_from is None or flush_due_from >= required_offset
            return ErrorCode.NONE if is_safe else None
        if self.log.high_watermark >= required_offset:
            enough = self.has_enough_replicas()
            return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if not self.has_enough_replicas() and isr.safe_offset(self.log.log_end_offset) >= required_offset:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return None

    def has_enough_replicas(self) -> bool:
        """Return True if the leader accepts acks=all at present.

        A topic with fewer replicas than min.insync.replicas can be written to, as in Kafka 4. While the log
        of the leader itself is damaged and there are other replicas, only undamaged ones count.
        """
        isr = self.isr
        assert isr is not None
        replica_count = len(self.assignment.replicas)
        required = min(self.log.config.min_insync_replicas, replica_count)
        if isr.is_damaged and replica_count > 1:
            return isr.undamaged_count >= required
        return len(isr.committed) >= required

    def _advance_high_watermark(self) -> None:
        isr, log, context = self.isr, self.log, self._context
        # As in Kafka 4, records on too few replicas are not shown either (KIP-966). While fenced, a node
        # acknowledges nothing, even if some of its partitions learn only later that they no longer lead.
        if isr is None or context.is_fenced or not self.has_enough_replicas():
            return
        high_watermark = log.log_end_offset
        if isr.followers:
            high_watermark = isr.high_watermark(
                high_watermark,
                now_ms=context.now_ms(),
                max_lag_ms=context.max_lag_ms(),
                is_eligible=context.is_eligible,
            )
        if log.flush_due_from is not None:
            high_watermark = min(high_watermark, log.flush_due_from)
        if high_watermark > log.high_watermark:
            log.update_high_watermark(high_watermark)
            self._high_watermark_moved()

    def replace_log(self, log: PartitionLog) -> None:
        """Continue with the log in another log directory."""
        self.log = log
        if log.flush_due_from is not None:
            self._context.flush_soon(log)
        self.log_flushed()

    def log_flushed(self) -> None:
        """Advance the high watermark, and answer produces that waited for a flush."""
        self._advance_high_watermark()
        check_all(self.delayed_produces, self)

    def _high_watermark_moved(self) -> None:
        if self.delayed_produces:
            check_all(self.delayed_produces, self)
        if self.delayed_fetches:
            check_all(self.delayed_fetches, self)
        for watcher in self.watchers:
            watcher.offsets_moved()

    def _notify_watchers(self) -> None:
        watchers, self.watchers = self.watchers, []
        for watcher in watchers:
            watcher.log_grew()

    def _wake_all(self) -> None:
        """Wake all waiting requests after a change of the role; fetches are answered in any case."""
        check_all(self.delayed_produces, self)
        for fetch in tuple(self.delayed_fetches):
            fetch.finish()
        check_all(self.delayed_deletes, self)
        self._notify_watchers()

    # ---- following -------------------------------------------------------------------------------

    def append_as_follower(
        self, records: Buffer, *, high_watermark: int, log_start_offset: int, now_ms: int
    ) -> None:
        """Append the leader's batches, and adopt its high watermark and log start.

        KafkaError as for `PartitionLog.append_as_follower`; nothing is written then.
        """
        assert not self.is_leader, "a leader does not follow"
        log = self.log
        if len(records):
            first = self._batch_over_log_start(records, log_start_offset)
            if first is not None:
                self._begin_again_at(first.base_offset, now_ms)
            log.append_as_follower(records, now_ms=now_ms)
            self.counters.replication_bytes_in += len(records)
        safe = min(high_watermark, log.log_end_offset)
        if safe > log.high_watermark:  # a new leader may know a lower one than its predecessor
            log.update_high_watermark(safe)
            if self.delayed_fetches:
                check_all(self.delayed_fetches, self)
        start = min(log_start_offset, log.high_watermark)
        if start > log.log_start_offset and log.increment_log_start_offset(start):
            check_all(self.delayed_fetches, self)

    def _batch_over_log_start(self, records: Buffer, leader_start: int) -> BatchHeader | None:
        """Return the first batch if this log ends in the middle of it and has nothing that the leader has.

        Such a log is empty, or the leader has deleted the records in it. Its last batch may differ from the
        leader's, which knows the end of an epoch that it deleted only as its log start.
        """
        log = self.log
        if log.log_end_offset > max(log.log_start_offset, leader_start) or len(records) < HEADER_SIZE:
            return None
        header = read_header(records)
        begins_before = 0 <= header.base_offset < log.log_end_offset <= header.last_offset
        return header if begins_before else None

    @property
    def durable_log_start(self) -> int:
        """Return the log start offset that this log would have after a crash now."""
        log = self.log
        return min(log.log_start_offset, max(log.segments[0].base_offset, self._checkpointed_log_start))

    def log_start_checkpointed(self, offset: int) -> None:
        """Record that the checkpoint file has this log start offset, or a later one."""
        self._checkpointed_log_start = max(offset, self._checkpointed_log_start)

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Cut the log to `offset`: the leader does not have the rest."""
        assert not self.is_leader, "a leader's log is never cut"
        if self.log.truncate_to(offset, now_ms=now_ms):
            check_all(self.delayed_fetches, self)

    def start_again_at(self, offset: int, *, now_ms: int) -> None:
        """Drop all records and continue at this offset: the leader's log now starts there."""
        assert not self.is_leader, "a leader's log is never cut"
        self._begin_again_at(offset, now_ms)
        check_all(self.delayed_fetches, self)

    def _begin_again_at(self, offset: int, now_ms: int) -> None:
        self.log.truncate_fully_and_start_at(offset, now_ms=now_ms)
        # The checkpoint file has no log start for a log whose first segment began there.
        self._checkpointed_log_start = min(self._checkpointed_log_start, offset)

    # ---- reading ---------------------------------------------------------------------------------

    def end_offset(self, isolation: FetchIsolation) -> int:
        """Return the offset below which a reader of this isolation level may read."""
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.log.high_watermark
        if isolation is FetchIsolation.TXN_COMMITTED:
            return self.log.last_stable_offset
        return self.log.log_end_offset

    def check_offset(self, offset: int) -> None:
        """Raise OFFSET_OUT_OF_RANGE unless the offset is in the log or is its end."""
        log = self.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} has offsets {log.log_start_offset} to "
                f"{log.log_end_offset}, but not {offset}.",
            )

    def readable_bytes(
        self, fetch_offset: int, max_bytes: int, isolation: FetchIsolation, *, enough_bytes: int
    ) -> int | None:
        """Return how many bytes a fetch at this offset would return now; None if it would get an error.

        Bytes beyond `enough_bytes` need not be counted.
        """
        end_offset = self.end_offset(isolation)
        if fetch_offset == end_offset:
            return 0
        if enough_bytes <= HEADER_SIZE and self.log.log_start_offset <= fetch_offset < end_offset:
            return HEADER_SIZE  # no batch is smaller
        try:
            found = self.log.read(fetch_offset, max_bytes, isolation=isolation, minimum_one_batch=True)
        except KafkaError:
            return None
        return found.readable_bytes

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the end offset of a leader epoch, or of the last known one before it; (-1, -1) if unknown.

        The log learns of an epoch with its first batch, so a start need not write a file for each partition;
        until then this leader's epoch starts and ends at the log end.
        """
        latest_epoch = self.log.latest_epoch
        if self.is_leader and latest_epoch < epoch <= self.leader_epoch:
            is_known = epoch == self.leader_epoch or latest_epoch < 0
            return EpochEndOffset(epoch if is_known else latest_epoch, self.log.log_end_offset)
        return self.log.end_offset_for_epoch(epoch)

    def diverging_epoch(self, fetch_offset: int, last_fetched_epoch: int) -> EpochEndOffset | None:
        """Return where a reader's log diverges from ours (KIP-595), None if it does not.

        OFFSET_OUT_OF_RANGE if our log cannot tell.
        """
        ours = self.end_offset_for_epoch(last_fetched_epoch)
        if ours.leader_epoch == NO_EPOCH or ours.end_offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if ours.leader_epoch < last_fetched_epoch or ours.end_offset < fetch_offset:
            return ours
        return None

    def offset_for_timestamp(self, timestamp: int, isolation: FetchIsolation) -> TimestampAndOffset | None:
        """Return the first offset at or after a timestamp (or a special one), if this reader may see it."""
        if timestamp == LATEST_TIMESTAMP:
            self._check_end_is_known(isolation)
            end_offset = self.end_offset(isolation)
            return TimestampAndOffset(-1, end_offset, self.leader_epoch)
        return self.offset_to_show(timestamp, self.log.fetch_offset_for_timestamp(timestamp), isolation)

    def offset_to_show(
        self, timestamp: int, found: TimestampAndOffset | None, isolation: FetchIsolation
    ) -> TimestampAndOffset | None:
        """Return what the log found for a timestamp, or None if this reader may not see that record yet."""
        is_time = timestamp >= 0 or timestamp == MAX_TIMESTAMP
        if is_time and (found is None or found.offset >= self.end_offset(isolation)):
            self._check_end_is_known(isolation)
            return None
        if found is not None and found.leader_epoch < 0 and found.offset == self.log.log_end_offset:
            return found._replace(leader_epoch=self.leader_epoch)  # nothing is there yet: it will be ours
        return found

    def _check_end_is_known(self, isolation: FetchIsolation) -> None:
        """Raise OFFSET_NOT_AVAILABLE while this leader may not know all committed records (KIP-207)."""
        if isolation is FetchIsolation.LOG_END or self.isr is None:
            return
        if self.isr.epoch_start_offset > self.log.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)

"""A share fetch while it is served: it finds, reads and acquires the records of its partitions.

The fetch first finds the places in the logs of all records that may be acquired; if there are too few, it
waits. Otherwise it reads their headers and contents, and only then acquires records, so that it acquires none
that cannot be sent. A thread reads parts that are not in the page cache, and parts after records that are not
due yet, of which a fetch skips any number.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ottla.logstore.delivery_delay import DueTimes
from ottla.logstore.disk import FileRecords, FileSlice
from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchDataInfo, FetchIsolation
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.share.acquire_records import MAX_ACQUIRED_RANGES
from ottla.node.share.led_partition import LedPartition
from ottla.node.share.read_batches import ReadBatches, read_batches
from ottla.node.share.read_delays import is_read_soon, read_delays
from ottla.node.share.share_sessions import SessionKey, ShareSession, TopicIdPartition
from ottla.node.share.share_window import MAX_OFFSET
from ottla.node.share.share_words import UNEXPECTED_ERRORS, AcquiredRecords, FetchedRecords

# Exceptions that mean that records in the log cannot be delivered.
UNREADABLE = (OSError, KafkaError, *UNEXPECTED_ERRORS)
# The least bytes sent from a file. Fewer are read: one write of header and records costs less than two system
# calls.
MIN_SENT_FILE_BYTES = 32 * 1024
# Share-partitions located in one turn: some 20 us each.
MAX_LOCATED = 256
# At most this many records not due yet in each share-partition while memory for them is short.
FEW_DELAYED = 100
# Read at once after records that are not due yet, in a thread: a few milliseconds of work.
SKIPPED_RECORDS = 4_096
SKIPPED_BYTES = 1024 * 1024
# Records not due yet that are added in one turn: up to 2 us each. A batch that has more is opened again.
DELAYS_AT_ONCE = 65_536

Content = Buffer | FileRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFetchParams:
    """The parameters of one ShareFetch."""

    key: SessionKey
    session: ShareSession | None
    connection: ConnectionInfo
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    max_records: int
    batch_size: int
    is_strict: bool
    # Charges bytes to the client's quota before they are acquired; returns True if the client is over it, and
    # gets none.
    charge_quota: Callable[[int], bool] = lambda size_bytes: False
    # Returns the error if the client may not read a topic; it is called before each attempt, since ACLs may
    # change while the fetch waits.
    refusal_of: Callable[[str], ErrorCode] = lambda topic: ErrorCode.NONE


@dataclass(slots=True)
class PartitionResult:
    """The records acquired from one share-partition, or its error."""

    records: Content = b""
    acquired: Sequence[AcquiredRecords] = ()
    error: ErrorCode = ErrorCode.NONE
    topic: str = ""


@dataclass(slots=True, eq=False)
class Located:
    """The place in the log of records that may be acquired."""

    led: LedPartition
    offset: int
    found: FetchDataInfo
    batches: ReadBatches | None = None
    content: Content = b""
    due_times: Sequence[DueTimes] | None = None  # None if the topic does not delay records
    due_times_to: int = MAX_OFFSET


class Warm(NamedTuple):
    """Bytes that a thread has read from a place of a log."""

    offset: int
    piece: FileSlice
    batches: ReadBatches
    content: Buffer


class ColdRead(NamedTuple):
    """A function that a thread runs for a fetch, and the share-partition that it is for."""

    led: LedPartition
    run: Callable[[], object]


@dataclass(slots=True, eq=False)
class ShareFetch:
    """One share fetch; `results` has partitions with an error from the start, and the others at the end."""

    params: ShareFetchParams
    isolation: FetchIsolation
    led: Mapping[TopicIdPartition, LedPartition]
    results: dict[TopicIdPartition, PartitionResult]
    cold: list[ColdRead] = field(default_factory=list)  # reads that a thread must do first
    warm: dict[TopicIdPartition, Warm] = field(default_factory=dict)
    is_throttled: bool = False
    has_skipped_all: bool = False  # none of the records read is due, so there may be due ones after them
    is_skipping: bool = False  # after that: it reads more at once
    unreadable: list[tuple[LedPartition, KafkaError]] = field(default_factory=list)  # not logged yet
    # There is no memory for more states: only records in flight are acquired again, which frees memory later.
    is_short_of_memory: bool = False
    is_short_of_delay_memory: bool = False  # records not due yet, or all states, have used up their memory
    max_new_delayed: int = 2**31  # the number of further records not due yet that there is memory for
    changed: list[LedPartition] = field(default_factory=list)  # their log or its settings have changed

    def refusal_of(self, led: LedPartition) -> ErrorCode:
        """Return the error if the client may not read a partition now, NONE if it may."""
        return self.params.refusal_of(led.partition.topic_partition.topic)

    # ---- finding records ---------------------------------------------------------------------------------

    def locate(self) -> list[Located]:
        """Return the places of records that may be acquired, and note reads that a thread must do first."""
        for led in self.led.values():
            self._follow_log(led)
        candidates = [
            one
            for one in self.led.values()
            if one.may_acquire(self)
            and self._has_memory_for(one)
            and not self._has_failed(one)
            and not self.refusal_of(one)
        ]
        del candidates[MAX_LOCATED:]
        located = []
        left = self.params.max_bytes
        is_first = True
        for led, max_bytes in zip(candidates, uniform_bytes(left, len(candidates)), strict=True):
            try:
                one = self._locate(led, min(left, max_bytes), is_first)
            except KafkaError as error:
                self._failed(led, error)
                continue
            if one is not None and one.found.slice.size:
                located.append(one)
                is_first = False
                left = max(0, left - one.found.slice.size)
        return located

    def _has_memory_for(self, led: LedPartition) -> bool:
        """Return True if there is memory to acquire from a share-partition.

        Without memory, records in flight may be acquired again, and one batch if nothing is in flight, so
        that no share-partition stands still.
        """
        return not self.is_short_of_memory or led.core.fetches_again or not led.core.in_flight_range_count

    def _has_failed(self, led: LedPartition) -> bool:
        result = self.results.get(led.topic_id_partition)
        return result is not None and result.error is not ErrorCode.NONE

    def _follow_log(self, led: LedPartition) -> None:
        """Update a share-partition with the log's start offset and the topic's delivery delay.

        This is needed even if it may acquire nothing, because the update may be what it waits for.
        """
        core, partition = led.core, led.partition
        if led.is_gone or not core.is_active or not partition.is_leader:
            return
        log_start_offset, config = partition.log.log_start_offset, partition.log.config
        has_moved = log_start_offset > core.start_offset and core.move_log_start(log_start_offset)
        max_delayed = config.ottla_delivery_delay_max_records
        if self.is_short_of_delay_memory:
            max_delayed = min(max_delayed, FEW_DELAYED)
        if core.delay_delivery(max_delayed if config.ottla_delivery_delay_enable else None) or has_moved:
            self.changed.append(led)

    def _locate(self, led: LedPartition, max_bytes: int, is_first: bool) -> Located | None:
        partition, log = led.partition, led.partition.log
        partition.check_leader()
        offset = led.core.next_fetch_offset()
        if not log.log_start_offset <= offset < partition.end_offset(self.isolation):
            return None
        cold = log.cold_read(offset, self.isolation)
        if cold is not None:
            self.cold.append(ColdRead(led, cold.run))
            return None
        found = log.read(offset, max_bytes, isolation=self.isolation, minimum_one_batch=is_first)
        return Located(led, offset, found)

    def is_enough(self, located: Sequence[Located]) -> bool:
        """Return True if the response should be sent: there are enough bytes, or a result that must not wait.

        A share-partition whose state could not be read, or that has failed for another fetch, is no such
        result: its client would ask again at once. Apache Kafka waits too if the state could not be read.
        """
        if any(led.is_gone and led.failure is None for led in self.led.values()):
            return True
        if any(
            one.error is not ErrorCode.NONE and topic_id_partition in self.led
            for topic_id_partition, one in self.results.items()
        ):
            return True
        return sum(one.found.readable_bytes for one in located) >= max(1, self.params.min_bytes)

    def readable_bytes(self, led: LedPartition) -> int | None:
        """Return the bytes that this partition has for the fetch now, None if it must try at once."""
        offset = led.core.next_fetch_offset()
        if not led.partition.is_leader or led.partition.log.log_start_offset > offset:
            return None
        if offset >= led.partition.end_offset(self.isolation):
            return 0
        return led.partition.readable_bytes(
            offset, max(1, self.params.max_bytes), self.isolation, enough_bytes=max(1, self.params.min_bytes)
        )

    # ---- reading and acquiring ---------------------------------------------------------------------------

    def read(self, located: Sequence[Located], wall_ms: int) -> None:
        """Read headers and records at these places, or note reads that a thread must do first.

        Records that are due after `wall_ms` will wait.
        """
        for one in located:
            try:
                self._read_one(one, wall_ms)
                config = one.led.partition.log.config
                if config.ottla_delivery_delay_enable and one.batches is not None:
                    assert not isinstance(one.content, FileRecords)
                    self._read_delays(one, one.content, config, wall_ms)
            except UNREADABLE as error:
                self.read_failed(one.led, error)

    def read_failed(self, led: LedPartition, error: Exception) -> None:
        """Set the error of a partition whose records cannot be read; this fetch does not try it again."""
        if isinstance(error, OSError):
            error = led.partition.log.flush_failed(error)
        elif not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{type(error).__name__}: {error}")
        self._failed(led, error)
        self.unreadable.append((led, error))

    def _read_delays(self, one: Located, content: Buffer, config: LogConfig, wall_ms: int) -> None:
        """Find the due times of the records of one partition, or note that a thread must do it."""
        led, batches = one.led, one.batches
        assert batches is not None
        from_offset = led.core.delays_from
        if not batches.last_offsets or batches.last_offsets[-1] < from_offset:
            one.due_times = ()
            return
        most = self._delays_at_once(led)
        known = led.delays  # kept until it acquires: another partition may need a read in a thread first
        if (
            known is None
            or known.last_offset < one.offset
            or not known.first_offset <= from_offset <= known.last_offset
        ):
            known = None
            if is_read_soon(content, batches, from_offset):
                known = read_delays(content, batches, from_offset, config, wall_ms, most)
        if known is not None:
            one.due_times, one.due_times_to = known.due_times, known.last_offset
        else:

            def read_in_thread() -> None:
                led.delays = read_delays(content, batches, from_offset, config, wall_ms, most)

            self.cold.append(ColdRead(led, read_in_thread))

    def _delays_at_once(self, led: LedPartition) -> int:
        return min(led.core.delayed_room, DELAYS_AT_ONCE, self.max_new_delayed)

    def _read_one(self, one: Located, wall_ms: int) -> None:
        core, piece = one.led.core, one.found.slice
        warm = self.warm.get(one.led.topic_id_partition)
        if warm is not None and warm.offset == one.offset and _have_equal_start(warm.piece, piece):
            one.batches, one.content = warm.batches, warm.content
            return
        most = min(self.params.max_records, core.config.partition_max_record_locks)
        last_offset = max(one.offset, core.end_offset + 1) + max(most, 1) - 1
        if self.is_short_of_memory:
            last_offset = max(one.offset, core.end_offset)
        aborted = one.found.aborted_transactions or ()
        is_delayed = one.led.partition.log.config.ottla_delivery_delay_enable
        if is_delayed and self.is_skipping and not self.is_short_of_memory:
            read_ahead = partial(self._read_ahead, one, last_offset, aborted, wall_ms)
            self.cold.append(ColdRead(one.led, read_ahead))
            return
        batches = read_batches(piece, FileSlice.read_cached, last_offset=last_offset, aborted=aborted)
        content: Content | None = None
        if batches is not None:
            whole = FileSlice(piece.file, piece.position, batches.size_bytes)
            is_plain = "SSL" not in self.params.connection.security_protocol
            if whole.size >= MIN_SENT_FILE_BYTES and is_plain and not is_delayed:
                content = whole.to_send()
            if content is None:
                content = whole.read_cached()
        if batches is None or content is None:
            self.cold.append(ColdRead(one.led, partial(self._read_cold, one, last_offset, aborted)))
        elif len(content) == batches.size_bytes:  # otherwise the log was truncated meanwhile
            one.batches, one.content = batches, content

    def _read_cold(
        self,
        one: Located,
        last_offset: int,
        aborted: Sequence[AbortedTransaction],
        further_offset: int = -1,
    ) -> Warm | None:
        """Read batches from the disk, in a thread, for the next attempt."""
        piece = one.found.slice
        batches = read_batches(
            piece,
            FileSlice.read,
            last_offset=last_offset,
            aborted=aborted,
            further_offset=further_offset,
            further_bytes=SKIPPED_BYTES,
        )
        assert batches is not None, "a read in a thread returns batches"
        content = FileSlice(piece.file, piece.position, batches.size_bytes).read()
        if len(content) != batches.size_bytes:
            return None
        warm = self.warm[one.led.topic_id_partition] = Warm(one.offset, piece, batches, content)
        return warm

    def _read_ahead(
        self, one: Located, last_offset: int, aborted: Sequence[AbortedTransaction], wall_ms: int
    ) -> None:
        """Read records that may all be skipped, and their due times, in a thread."""
        led = one.led
        from_offset, most = led.core.delays_from, self._delays_at_once(led)
        warm = self._read_cold(one, last_offset, aborted, one.offset + SKIPPED_RECORDS - 1)
        if warm is not None and warm.batches.last_offsets and warm.batches.last_offsets[-1] >= from_offset:
            config = led.partition.log.config
            led.delays = read_delays(warm.content, warm.batches, from_offset, config, wall_ms, most)

    def acquire(self, located: Sequence[Located], now_ms: int) -> list[LedPartition]:
        """Acquire records that were read, in order, and fill in the results.

        Return the share-partitions whose timers must be set: records were acquired, or wait until they are
        due. If the client would exceed its quota, acquire nothing.
        """
        ready = [one for one in located if one.batches is not None and not one.led.is_gone]
        if self.params.charge_quota(sum(len(one.content) for one in ready)):
            self.is_throttled = True
            return []
        left = self.params.max_records
        ranges = 0
        changed_timers = []
        for one in ready:
            if ranges >= MAX_ACQUIRED_RANGES:
                break
            batches = one.batches
            assert batches is not None
            fetched = FetchedRecords(
                one.offset,
                batches.base_offsets,
                batches.last_offsets,
                batches.aborted,
                due_times=one.due_times or (),
                due_times_to=one.due_times_to,
            )
            if self.is_short_of_memory:
                fetched = _without_new(fetched, one.led.core.end_offset, one.led.core.fetches_again)
            try:
                acquired = one.led.core.acquire(
                    self.params.key.member,
                    now_ms,
                    fetched,
                    left,
                    self.params.batch_size,
                    self.params.is_strict,
                )
            except UNEXPECTED_ERRORS as error:  # caused by the contents of the log
                reason = f"{type(error).__name__}: {error}"
                one.led.failure = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
                self._failed(one.led, one.led.failure)
                continue
            self.warm.pop(one.led.topic_id_partition, None)
            one.led.delays = None
            topic = one.led.partition.topic_partition.topic
            if not acquired:
                if one.due_times is not None:
                    changed_timers.append(one.led)  # records that wait need a timer, too
                    self.has_skipped_all |= one.led.core.next_fetch_offset() != one.offset
                self.results.setdefault(one.led.topic_id_partition, PartitionResult(topic=topic))
                continue
            changed_timers.append(one.led)
            left -= sum(each.record_count for each in acquired)
            ranges += len(acquired)
            begin, end = batches.span(acquired[0].first_offset, acquired[-1].last_offset)
            content = _part(one.content, begin, end)
            one.led.partition.counters.bytes_out += len(content)
            self.results[one.led.topic_id_partition] = PartitionResult(content, acquired, topic=topic)
        if left < self.params.max_records:
            self.has_skipped_all = False
        return changed_timers

    def _failed(self, led: LedPartition, error: KafkaError) -> None:
        self.results[led.topic_id_partition] = PartitionResult(
            error=error.code, topic=led.partition.topic_partition.topic
        )


def _have_equal_start(one: FileSlice, other: FileSlice) -> bool:
    """Return True if two pieces begin at the same position of one file, which may be open twice."""
    if one.file is None or other.file is None or one.position != other.position:
        return False
    return one.file is other.file or one.file.identity() == other.file.identity()


def uniform_bytes(max_bytes: int, count: int) -> list[int]:
    """Split a limit of bytes among partitions; if there are fewer bytes than partitions, some get none."""
    if not count:
        return []
    if max_bytes < count:
        return [1] * max_bytes + [0] * (count - max_bytes)
    each, rest = divmod(max_bytes, count)
    return [each + rest] + [each] * (count - 1)


def _without_new(fetched: FetchedRecords, end_offset: int, fetches_again: bool) -> FetchedRecords:
    """Cut a fetch after the records in flight; if it has none of these, after its first batch."""
    is_again = fetches_again and bool(fetched.base_offsets) and fetched.base_offsets[0] <= end_offset
    count = bisect_right(fetched.base_offsets, end_offset) if is_again else 1
    lasts = list(fetched.last_offsets[:count])
    if is_again:
        lasts[-1] = min(lasts[-1], end_offset)
    return fetched._replace(base_offsets=fetched.base_offsets[:count], last_offsets=lasts)


def _part(content: Content, begin: int, end: int) -> Content:
    if isinstance(content, FileRecords):
        return FileRecords(content.file, content.position + begin, end - begin)
    return memoryview(content)[begin:end]

"""The log of one partition: a row of segments, appended to at the end, read anywhere, truncated at both ends.

Only its owner, the event loop, changes a log. Work that may wait for a disk is handed out as objects that no
longer change: `flush_target` for fsync, `FileSlice.read` for cold data, `deleted_paths` for removal.

After a failed write the log truncates the partial data, calls `on_failure`, and raises KAFKA_STORAGE_ERROR on
every later operation until it is opened again: a disk that failed once cannot be trusted with the next write.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.batch_validator import (
    LATEST_PRODUCE_VERSION,
    ValidBatch,
    accepted_timestamps,
    check_follower_batches,
    latest_codec,
    plain_header,
    validate_batch,
)
from ottla.logstore.disk import EMPTY_SLICE, Disk
from ottla.logstore.duplicate_window import complete_window
from ottla.logstore.flush_target import FlushTarget
from ottla.logstore.leader_epoch_cache import EpochEndOffset, EpochEntry
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ColdRead,
    FetchDataInfo,
    FetchIsolation,
    TimeSearch,
    collect_aborted,
    find_range,
    time_search,
    without_time,
)
from ottla.logstore.log_segments import LogSegments
from ottla.logstore.producer_state import BatchMetadata, ProducerEntry
from ottla.logstore.producer_tally import ProducerTally
from ottla.logstore.record import MARKER_SIZE, EndTransactionMarker, build_marker
from ottla.logstore.record_batch import (
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    patch_offset_and_epoch,
)
from ottla.logstore.recovery import LoadedLog, apply_to_producers, end_transaction, load_log, replay_producers
from ottla.logstore.roll import Room, is_roll_due, longest_age_ms, room_in
from ottla.logstore.segment import MAX_RELATIVE_OFFSET, Segment, TimestampAndOffset
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.verification import Guard, Verifications
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.logstore.words.varint import ByteSource

# The names of the log's interface, wherever they are defined.
__all__ = [
    "EARLIEST_LOCAL_TIMESTAMP",
    "EARLIEST_PENDING_UPLOAD_TIMESTAMP",
    "EARLIEST_TIMESTAMP",
    "LATEST_TIERED_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "AbortedTransaction",
    "AppendOrigin",
    "AppendResult",
    "FetchDataInfo",
    "FetchIsolation",
    "FlushTarget",
    "PartitionLog",
]

UNKNOWN_OFFSET: Final = -1
JOIN_LIMIT_BYTES: Final = 16 * 1024  # batches up to this are joined for one write; beyond, pwritev is cheaper
# The numbers of these fields in a header.
_BATCH_LENGTH, _MAX_TIMESTAMP, _PRODUCER_ID, _COUNT = map(
    BatchHeader._fields.index, ("batch_length", "max_timestamp", "producer_id", "records_count")
)


class AppendOrigin(Enum):
    """The origin of a batch that a leader appends, which decides how much of it is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"  # a group or transaction coordinator of this cluster


_TRANSACTIONAL_OR_CONTROL: Final = TRANSACTIONAL_BIT | CONTROL_BIT
_CLIENT: Final = AppendOrigin.CLIENT  # looking up an enum member in its class costs 0.1 us


class AppendResult(NamedTuple):
    """The offsets of a batch in the log; `log_append_time_ms` is -1 unless the broker set its timestamps."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class PartitionLog:
    """The log of a partition. Its offsets: start <= last stable <= high watermark <= end."""

    __slots__ = (
        "_base_offsets",
        "_cuts",
        "_disk",
        "_epochs",
        "_failure",
        "_files",
        "_first_unstable",
        "_lowest_cut",
        "_producers",
        "_room",
        "_snapshots",
        "_verifications",
        "config",
        "directory",
        "flush_due_from",
        "high_watermark",
        "last_flush_ms",
        "log_end_offset",
        "log_start_offset",
        "notes",
        "on_failure",
        "recovery_point",
        "segments",
        "topic_id",
        "topic_partition",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: Path,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        loaded: LoadedLog,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self._files = LogSegments(disk, directory, loaded.segments, loaded.snapshots)
        # The lists of `_files`, which changes them in place: this saves a look-up for each batch.
        self.segments = self._files.segments
        self._base_offsets = self._files.base_offsets
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._verifications = Verifications(self._producers)
        self._snapshots = loaded.snapshots
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point
        self.high_watermark = loaded.log_start_offset
        self.notes = loaded.notes  # a sentence for each oddity found when the log was opened
        self.last_flush_ms = now_ms
        # Batches from this offset on are neither acknowledged nor committed before a flush
        # (`flush.messages`). None: no batch waits for the disk.
        self.flush_due_from: int | None = None
        self._cuts = 0
        # See `take_lowest_cut`. At first it is the log end, as a crash may have cost the records above.
        self._lowest_cut: int | None = self.log_end_offset
        self.on_failure: Callable[[PartitionLog, OSError], None] | None = None
        self._failure: OSError | None = None
        self._room: Room | None = None
        self._first_unstable: int | None
        self._update_first_unstable()

    @classmethod
    def open(
        cls,
        *,
        disk: Disk,
        directory: Path,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        clean_shutdown: bool,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        compacted_to: int = 0,
    ) -> "PartitionLog":
        """Open or create the log in `directory`, and recover it unless the last shutdown was clean.

        Blocks; KAFKA_STORAGE_ERROR if the disk fails. The high watermark starts at the log start offset.
        """
        try:
            loaded = load_log(
                disk,
                directory,
                config,
                now_ms=now_ms,
                clean_shutdown=clean_shutdown,
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                compacted_to=compacted_to,
            )
        except OSError as error:
            raise _storage_error(directory, error) from error
        return cls(
            disk=disk,
            directory=directory,
            topic_partition=topic_partition,
            topic_id=topic_id,
            config=config,
            loaded=loaded,
            now_ms=now_ms,
        )

    # Its state.

    @property
    def active_segment(self) -> Segment:
        return self.segments[-1]

    @property
    def deleted_paths(self) -> list[Path]:
        """The files that were renamed to `.deleted`; see `take_deleted_paths`."""
        return self._files.deleted_paths

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which all transactions have ended and are replicated, for read_committed."""
        first_unstable = self._first_unstable
        if first_unstable is not None and first_unstable < self.high_watermark:
            return first_unstable
        return self.high_watermark

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch in the log, or -1."""
        return self._epochs.latest_epoch

    @property
    def epoch_entries(self) -> tuple[EpochEntry, ...]:
        """The leader epochs of the log, each with its first offset."""
        return self._epochs.entries

    @property
    def epochs_path(self) -> Path:
        """The path of the leader epochs' file."""
        return self._epochs.path

    def replace_epochs(self, entries: Sequence[EpochEntry], end_offset: int) -> None:
        """Replace the leader epochs below `end_offset` by these, and write the file."""
        try:
            self._epochs.replace(entries, end_offset)
        except OSError as error:
            raise self._fail(error) from error

    @property
    def cuts(self) -> int:
        """The number of truncations of the log's end: after one, batches read before may be gone."""
        return self._cuts

    @property
    def producer_id_count(self) -> int:
        """The number of producers with state in the log."""
        return len(self._producers.entries)

    @property
    def failure(self) -> OSError | None:
        """The disk error after which the log rejects all operations, or None."""
        return self._failure

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"

    # Appending.

    def append_as_leader(
        self,
        records: ByteSource | None,
        *,
        leader_epoch: int,
        now_ms: int,
        produce_version: int = LATEST_PRODUCE_VERSION,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: Guard | None = None,
        valid: ValidBatch | None = None,
    ) -> AppendResult:
        """Check the one batch in `records`, assign its offsets and append it.

        Base offset, leader epoch and LogAppendTime are written into `records` itself if it is writable. A
        batch that an idempotent producer sent before is not appended again: the result has the offsets of the
        first one and `duplicate`. The first batch of a transaction needs the `guard` from
        `begin_verification`. `valid` is the batch if it was already validated in a thread.

        KafkaError as in `validate_batch`, `ProducerState.check_batch` and `Verifications.check_first`;
        RECORD_LIST_TOO_LARGE for a batch larger than a segment; KAFKA_STORAGE_ERROR if the disk fails.
        """
        if self._failure is not None:
            raise _storage_error(self.directory, self._failure)
        is_client = origin is _CLIENT
        config = self.config
        if valid is None:
            valid = validate_batch(
                records, config=config, now_ms=now_ms, produce_version=produce_version, is_client=is_client
            )
        header, batch = valid
        # Every batch passes here: unpacking the header costs as much as reading three of its attributes.
        (
            _,
            batch_length,
            _,
            _,
            _,
            attributes,
            last_offset_delta,
            _,
            max_timestamp,
            producer_id,
            epoch,
            _,
            _,
        ) = header
        offset = self.log_end_offset
        producers = self._producers
        if producer_id >= 0:
            opens_transaction = False
            if attributes & _TRANSACTIONAL_OR_CONTROL:
                if attributes & CONTROL_BIT:
                    raise KafkaError(ErrorCode.INVALID_RECORD, "A control batch cannot be written as data.")
                opens_transaction = not producers.has_ongoing_transaction(producer_id, epoch)
            try:
                if opens_transaction:
                    duplicate = self._verifications.check_first(header, guard, is_client=is_client)
                else:
                    duplicate = producers.check_batch(header, is_client=is_client)
            except KafkaError as refusal:
                duplicate = self._older_duplicate(header, refusal)
                if duplicate is None:
                    raise
            if duplicate is not None:
                return self._duplicate_result(duplicate)
        size_bytes = LOG_OVERHEAD + batch_length
        last_offset = offset + last_offset_delta
        if size_bytes > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"A batch of {size_bytes} bytes does not fit in a segment of {config.segment_bytes}.",
            )
        try:
            segment = self._segment_for(size_bytes, offset, last_offset, max_timestamp, now_ms)
            if leader_epoch > self._epochs.latest_epoch >= -1:
                self._epochs.assign(leader_epoch, offset)
            position = segment.size_bytes
            segment.append(_patched(batch, offset, batch_length, leader_epoch), size_bytes)
            if segment.index_batch(
                last_offset, max_timestamp, position, config.index_interval_bytes
            ) and segment.is_full(config):
                self._room = None
            self.log_end_offset = next_offset = last_offset + 1
            if producer_id >= 0:
                producers.add_batch(header, now_ms, base_offset=offset)
                if opens_transaction:
                    self._verifications.data_appended(producer_id, header.producer_epoch)
                    self._update_first_unstable()
            producers.map_end_offset = next_offset
        except OSError as error:
            raise self._fail(error) from error
        if next_offset - self.recovery_point >= config.flush_messages and self.flush_due_from is None:
            self.flush_due_from = offset
        log_append_time_ms = now_ms if is_client and config.log_append_time else NO_TIMESTAMP
        # Faster than with keywords.
        return tuple.__new__(
            AppendResult, (offset, last_offset, log_append_time_ms, self.log_start_offset, False)
        )

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, bumps_epoch: bool, now_ms: int
    ) -> Guard | None:
        """Return the guard for appending the first batch of a transaction, once its coordinator confirmed it.

        None if a transaction of this epoch is open in the log, so that no verification is needed.
        INVALID_PRODUCER_EPOCH for a fenced producer.
        """
        return self._verifications.begin(
            producer_id, producer_epoch, base_sequence, bumps_epoch=bumps_epoch, now_ms=now_ms
        )

    def append_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """Append the marker by which the coordinator ends the transaction of a producer.

        With `duplicate` in the result the marker was appended before, at or below the offsets in the result,
        which are those of the last record. KafkaError as in `ProducerState.check_marker`; KAFKA_STORAGE_ERROR
        if the disk fails.
        """
        if self._failure is not None:
            raise _storage_error(self.directory, self._failure)
        offset, producers = self.log_end_offset, self._producers
        is_new = producers.check_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
        )
        if not is_new:
            return AppendResult(offset - 1, offset - 1, NO_TIMESTAMP, self.log_start_offset, True)
        batch = build_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            timestamp_ms=now_ms,
            is_log_append_time=self.config.log_append_time,
            base_offset=offset,
            partition_leader_epoch=leader_epoch,
        )
        try:
            segment = self._segment_for(MARKER_SIZE, offset, offset, now_ms, now_ms)
            if leader_epoch > self._epochs.latest_epoch:
                self._epochs.assign(leader_epoch, offset)
            position = segment.size_bytes
            segment.append([batch], MARKER_SIZE)
            if segment.index_batch(
                offset, now_ms, position, self.config.index_interval_bytes
            ) and segment.is_full(self.config):
                self._room = None
            self.log_end_offset = producers.map_end_offset = offset + 1
            aborted = end_transaction(
                producers,
                marker,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                offset=offset,
                timestamp=now_ms,
                now_ms=now_ms,
            )
            if aborted is not None:
                segment.transaction_index.append(aborted)
        except OSError as error:
            raise self._fail(error) from error
        self._verifications.marker_appended(producer_id, producer_epoch)
        self._update_first_unstable()
        self._find_flush_due(offset)
        return AppendResult(offset, offset, NO_TIMESTAMP, self.log_start_offset)

    def append_run(
        self,
        batches: Sequence[memoryview],
        *,
        leader_epoch: int,
        now_ms: int,
        produce_version: int = LATEST_PRODUCE_VERSION,
    ) -> list[tuple[int, int]]:
        """Append the leading batches that are plain in one write; return the offsets of each.

        The offsets are (base offset, offset after the last record). The first batch that is not plain, and
        all after it, are left for `append_as_leader`: it may be invalid, a duplicate, or the first in a
        segment or leader epoch. Offsets are written into `batches`, which come from clients.
        KAFKA_STORAGE_ERROR if the disk fails; then none was appended.
        """
        room, config = self._room, self.config
        if (
            room is None
            or self._failure is not None
            or leader_epoch != self._epochs.latest_epoch
            or now_ms > room.last_clock_ms
            or not room.as_it_is
            or self.segments[-1].is_full(config, len(batches))
        ):
            return []
        earliest_ms, latest_ms = accepted_timestamps(config, now_ms)
        latest_ms = min(latest_ms, room.last_timestamp)
        max_bytes, segment, producers = config.max_message_bytes, self.segments[-1], self._producers
        checks_records, max_opened_bytes = config.validate_records, config.max_decompressed_message_bytes
        codec = latest_codec(produce_version)
        position, end_position, offset = segment.size_bytes, room.end_position, self.log_end_offset
        places: list[tuple[int, int]] = []
        rows: list[tuple[int, int, int]] = []
        for batch in batches:
            fields = plain_header(
                batch, max_bytes, earliest_ms, latest_ms, checks_records, codec, max_opened_bytes
            )
            next_position = position + len(batch)
            if fields is None or next_position > end_position:
                break
            next_offset = offset + fields[_COUNT]
            if next_offset > room.last_offset:
                break
            if fields[_PRODUCER_ID] >= 0:
                header = tuple.__new__(BatchHeader, fields)
                try:
                    if producers.check_batch(header, is_client=True) is not None:
                        break
                except KafkaError:
                    break
                producers.add_batch(header, now_ms, base_offset=offset)
            patch_offset_and_epoch(batch, offset, fields[_BATCH_LENGTH], leader_epoch)
            places.append((offset, next_offset))
            rows.append((next_offset - 1, fields[_MAX_TIMESTAMP], position))
            offset, position = next_offset, next_position
        if not places:
            return places
        try:
            size_bytes = position - segment.size_bytes
            buffers: list[ByteSource] = list(batches[: len(places)])
            if len(buffers) > 1 and size_bytes <= JOIN_LIMIT_BYTES:
                buffers = [b"".join(buffers)]
            segment.append(buffers, size_bytes)
        except OSError as error:
            raise self._fail(error) from error
        index_batch, interval_bytes, has_new_row = segment.index_batch, config.index_interval_bytes, False
        for last_offset, max_timestamp, at in rows:
            if index_batch(last_offset, max_timestamp, at, interval_bytes):
                has_new_row = True
        if has_new_row and segment.is_full(config):
            self._room = None
        self.log_end_offset = producers.map_end_offset = offset
        self._find_flush_due(places[0][0])
        return places

    def append_as_follower(self, records: ByteSource, *, now_ms: int = -1) -> AppendResult:
        """Append batches as their leader has them, with its offsets and epochs; drop a torn last batch.

        CORRUPT_MESSAGE if a batch is not valid, OFFSET_OUT_OF_RANGE if offsets do not grow from the log end
        offset on; then nothing is appended. The first offset may be above the log end offset. Without a whole
        batch, the offsets in the result are -1. KAFKA_STORAGE_ERROR if the disk fails.
        """
        if self._failure is not None:
            raise _storage_error(self.directory, self._failure)
        view = memoryview(records)
        headers = check_follower_batches(view, self.log_end_offset, self.topic_partition)
        if not headers:
            return AppendResult(UNKNOWN_OFFSET, UNKNOWN_OFFSET, NO_TIMESTAMP, self.log_start_offset)
        first, last = headers[0][1].base_offset, headers[-1][1].last_offset
        try:
            done = 0
            while done < len(headers):
                done += self._append_placed(view, headers, done, now_ms)
        except OSError as error:
            raise self._fail(error) from error
        self._find_flush_due(first)
        return AppendResult(first, last, NO_TIMESTAMP, self.log_start_offset)

    def _append_placed(
        self, view: memoryview, headers: Sequence[tuple[int, BatchHeader]], begin: int, now_ms: int
    ) -> int:
        """Append batch number `begin`, and those after it that fit into its segment, in one write.

        Return the number of batches appended.
        """
        (start, first), config = headers[begin], self.config
        segment = self._segment_for(
            first.size_bytes, first.base_offset, first.last_offset, first.max_timestamp, max(now_ms, 0)
        )
        if first.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(first.partition_leader_epoch, first.base_offset)
        stop, end = begin + 1, start + first.size_bytes
        room = self._room
        if room is not None and not segment.is_full(config, len(headers)):
            space = room.end_position - segment.size_bytes + start
            for position, header in islice(headers, stop, None):
                if (
                    position + header.size_bytes > space
                    or header.last_offset > room.last_offset
                    or header.max_timestamp > room.last_timestamp
                    or header.partition_leader_epoch != first.partition_leader_epoch
                ):
                    break
                stop, end = stop + 1, position + header.size_bytes
        at = segment.size_bytes
        segment.append([view[start:end]], end - start)
        for position, header in islice(headers, begin, stop):
            segment.index_batch(
                header.last_offset,
                header.max_timestamp,
                at + position - start,
                config.index_interval_bytes,
            )
            self.log_end_offset = header.next_offset
            if header.producer_id >= 0:
                batch = view[position : position + header.size_bytes]
                seen_ms = now_ms if now_ms >= 0 else header.max_timestamp
                self._add_copy_to_producers(segment, header, batch, seen_ms)
        if segment.is_full(config):
            self._room = None
        self._producers.map_end_offset = self.log_end_offset
        return stop - begin

    def _add_copy_to_producers(
        self, segment: Segment, header: BatchHeader, batch: memoryview, now_ms: int
    ) -> None:
        if header.is_control:
            aborted = apply_to_producers(self._producers, header, batch, now_ms)
            if aborted is not None:
                segment.transaction_index.append(aborted)
            self._verifications.marker_appended(header.producer_id, header.producer_epoch)
        else:
            self._producers.add_batch(header, now_ms)
            if header.is_transactional:
                self._verifications.data_appended(header.producer_id, header.producer_epoch)
        if header.is_transactional:
            self._update_first_unstable()

    def _update_first_unstable(self) -> None:
        first = self._producers.first_unstable_offset
        self._first_unstable = None if first is None else max(first, self.log_start_offset)

    def _older_duplicate(self, header: BatchHeader, refusal: KafkaError) -> BatchMetadata | None:
        """Return the batch that one out of sequence duplicates, if it is in the log but not in the state."""
        entry = self._producers.entries.get(header.producer_id)
        if (
            refusal.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            or entry is None
            or not entry.is_window_cut
            or entry.epoch != header.producer_epoch
        ):
            return None
        try:
            is_longer = complete_window(entry, self.segments, self._base_offsets)
        except OSError as error:
            raise self._fail(error) from error
        return self._producers.duplicate_of(entry, header) if is_longer else None

    def _duplicate_result(self, batch: BatchMetadata) -> AppendResult:
        return AppendResult(
            batch.first_offset, batch.last_offset, batch.timestamp, self.log_start_offset, True
        )

    def _fail(self, error: OSError) -> KafkaError:
        self._failure = error
        if self.on_failure is not None:
            self.on_failure(self, error)
        return _storage_error(self.directory, error)

    # Rolling.

    def _segment_for(
        self, size_bytes: int, first_offset: int, last_offset: int, timestamp: int, now_ms: int
    ) -> Segment:
        """Return the segment for a batch: the active one, or a new one if that is full or too old."""
        segment = self.segments[-1]
        room = self._room
        if room is not None and (
            segment.size_bytes + size_bytes <= room.end_position
            and last_offset <= room.last_offset
            and timestamp <= room.last_timestamp
            and now_ms <= room.last_clock_ms
        ):
            return segment
        config = self.config
        if segment.size_bytes:
            longest_ms = longest_age_ms(self.topic_partition, segment, config)
            if is_roll_due(
                segment,
                config,
                longest_ms,
                size_bytes=size_bytes,
                last_offset=last_offset,
                timestamp=timestamp,
                now_ms=now_ms,
            ):
                # The new segment begins where the old one ends, even if the leader has compacted away the
                # batches before this one: recovery takes a gap between segments for the result of a power cut
                # (D7).
                is_near = last_offset - self.log_end_offset <= MAX_RELATIVE_OFFSET
                segment = self._roll(self.log_end_offset if is_near else first_offset, now_ms)
            else:
                self._room = room_in(segment, config, longest_ms)
        elif first_offset > segment.base_offset and (last_offset - segment.base_offset > MAX_RELATIVE_OFFSET):
            segment = self._roll(first_offset, now_ms)
        return segment

    def roll(self, *, now_ms: int) -> Segment:
        """Begin a new segment at the log end, unless the active one is empty; return the active segment."""
        try:
            return self._roll(self.log_end_offset, now_ms)
        except OSError as error:
            raise self._fail(error) from error

    def _roll(self, next_offset: int, now_ms: int) -> Segment:
        self._room = None
        active = self.segments[-1]
        base_offset = max(next_offset, self.log_end_offset)
        if active.size_bytes == 0 and active.base_offset == base_offset:
            return active
        segment = self._files.roll(base_offset, self.config, now_ms=now_ms)
        self._producers.map_end_offset = base_offset
        self._snapshots.take(self._producers)
        return segment

    # Reading.

    def read(
        self, offset: int, max_bytes: int, *, isolation: FetchIsolation, minimum_one_batch: bool
    ) -> FetchDataInfo:
        """Return the batches from the one that contains `offset` on, up to `max_bytes`.

        The last batch may be cut off (`find_range`); clients drop it. If the first batch is larger than
        `max_bytes`, it is returned whole with `minimum_one_batch`; without, the slice is empty.
        OFFSET_OUT_OF_RANGE for an offset below the log start or above the log end.
        """
        high_watermark, last_stable = self.high_watermark, self.last_stable_offset
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition} has offsets {self.log_start_offset} to "
                f"{self.log_end_offset}, but not {offset}.",
            )
        is_committed = isolation is FetchIsolation.TXN_COMMITTED
        if is_committed:
            upper = last_stable
        else:
            upper = self.log_end_offset if isolation is FetchIsolation.LOG_END else high_watermark
        piece, is_too_large, readable_bytes = EMPTY_SLICE, False, 0
        aborted: list[AbortedTransaction] | None = [] if is_committed else None
        if offset < upper:
            try:
                found = find_range(
                    self.segments,
                    self._base_offsets,
                    self.log_end_offset,
                    offset=offset,
                    upper_offset=upper,
                    max_bytes=max_bytes,
                    minimum_one_batch=minimum_one_batch,
                )
                piece, _, is_too_large, readable_bytes = found
                if is_committed and piece.size:
                    aborted = collect_aborted(self.segments, found, offset=offset, upper_offset=upper)
            except OSError as error:
                raise self._fail(error) from error
        return FetchDataInfo(
            piece,
            offset,
            self.log_start_offset,
            self.log_end_offset,
            high_watermark,
            last_stable,
            aborted,
            is_too_large,
            readable_bytes,
        )

    def cold_read(self, offset: int, isolation: FetchIsolation) -> ColdRead | None:
        """Return work to run in a thread before `read`; None unless `read` is the first to use an index file.

        The segment counts as warm from this call on, so that the work is returned only once.
        """
        if offset >= self._base_offsets[-1] or offset < self.log_start_offset:
            return None
        number = bisect_right(self._base_offsets, offset) - 1
        segment = self.segments[number]
        if segment.is_warm:
            return None
        segment.is_warm = True
        indexes: tuple[Path, ...] = ()
        if isolation is FetchIsolation.TXN_COMMITTED:
            # A transaction may end in any later segment.
            indexes = tuple(one.transaction_index.path for one in self.segments[number:-1])
        return ColdRead(self._disk, self.directory, segment.base_offset, offset, indexes)

    # Looking up.

    def fetch_offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the offset for a timestamp of ListOffsets, which may be a special one (-1 to -6).

        For a time it is the first record with that or a later timestamp, None if there is none. The leader
        epoch is that of the offset, or -1. For -1 (latest) this returns the log end; the caller answers
        consumers with the high watermark or the last stable offset.
        """
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return without_time(self.log_start_offset, self._epochs.epoch_for_offset(self.log_start_offset))
        if timestamp == LATEST_TIMESTAMP:
            return without_time(self.log_end_offset, self.latest_epoch)
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            # Without tiered storage no segment is uploaded or waits for an upload.
            return without_time(UNKNOWN_OFFSET, -1)
        search = self.time_search(timestamp)
        try:
            return search.run()
        except OSError as error:
            raise self._fail(error) from error

    def time_search(self, timestamp: int) -> TimeSearch:
        """Return the look-up for a time or MAX_TIMESTAMP as work for a thread."""
        try:
            return time_search(self.segments, timestamp, self.log_start_offset)
        except OSError as error:
            raise self._fail(error) from error

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset:
        """Return the end of a leader epoch, or of the last known one before it; (-1, -1) if unknown."""
        return self._epochs.end_offset_for(epoch, self.log_end_offset)

    # Offsets that move.

    def update_high_watermark(self, offset: int) -> int:
        """Move the high watermark to `offset`, within the bounds of the log; return the new one."""
        if offset > self.log_end_offset:
            offset = self.log_end_offset
        if offset < self.log_start_offset:
            offset = self.log_start_offset
        self.high_watermark = offset
        self._producers.on_high_watermark(offset)
        if self._first_unstable is not None:
            self._update_first_unstable()
        return offset

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset up (DeleteRecords, retention); return True if it changed.

        OFFSET_OUT_OF_RANGE above the high watermark. Retention deletes the segments later.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot delete below {offset} of {self.topic_partition}: its high watermark is"
                f" {self.high_watermark}.",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.recovery_point = max(self.recovery_point, offset)
        try:
            self._epochs.truncate_from_start(offset)
        except OSError as error:
            raise self._fail(error) from error
        self._producers.on_high_watermark(offset)
        self._update_first_unstable()
        return True

    def truncate_to(self, offset: int, *, now_ms: int) -> bool:
        """Remove everything from the batch that contains `offset` on; return True if there was any."""
        if offset >= self.log_end_offset:
            return False
        try:
            if offset < self._base_offsets[0]:
                self._truncate_fully(offset, now_ms)
            else:
                self._truncate(offset, now_ms)
        except OSError as error:
            raise self._fail(error) from error
        return True

    def _truncate(self, offset: int, now_ms: int) -> None:
        self._room = None
        self.log_end_offset = self._files.truncate_to(offset)
        self._after_truncation(now_ms)

    def _after_truncation(self, now_ms: int) -> None:
        end = self.log_end_offset
        self.log_start_offset = min(self.log_start_offset, end)
        self._cut_at(end)
        self._epochs.truncate_from_end(end)
        self._snapshots.remove_above(end)
        self.notes += self._snapshots.load_latest(self._producers, self._base_offsets[0], end, now_ms)
        replay_producers(self._producers, self.segments, end, now_ms)
        self._producers.map_end_offset = end
        self.update_high_watermark(self.high_watermark)
        self._update_first_unstable()

    def truncate_fully_and_start_at(self, offset: int, *, now_ms: int) -> None:
        """Drop everything and start afresh at `offset`, for a follower too far behind its leader."""
        try:
            self._truncate_fully(offset, now_ms)
        except OSError as error:
            raise self._fail(error) from error

    def _truncate_fully(self, offset: int, now_ms: int) -> None:
        self._room = None
        self._files.drop_all()
        self._epochs.clear()
        self._snapshots.clear()
        self._producers.clear(offset)
        self._verifications.clear()
        self._files.begin(offset, self.config, now_ms=now_ms)
        self.log_start_offset = self.log_end_offset = offset
        self._cut_at(offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.update_high_watermark(self.high_watermark)
        self._update_first_unstable()

    # Segments that come and go.

    def delete_segments(self, segments: Sequence[Segment], *, now_ms: int) -> None:
        """Delete the oldest segments: move the log start offset up, and their files to `deleted_paths`.

        If these are all segments, an empty one is created first.
        """
        if not segments:
            return
        assert list(segments) == self.segments[: len(segments)], "only the oldest segments can go"
        try:
            count = len(segments)
            if count == len(self.segments):
                if self.segments[-1].size_bytes == 0:
                    count -= 1
                else:
                    self._roll(self.log_end_offset, now_ms)
            if not count:
                return
            self._files.drop_oldest(count)
            start = self._base_offsets[0]
            if start > self.log_start_offset:
                self.high_watermark = max(self.high_watermark, start)
                self.increment_log_start_offset(start)
        except OSError as error:
            raise self._fail(error) from error

    def replace_segments(self, new: Sequence[Segment], old: Sequence[Segment]) -> None:
        """Replace segments by the cleaned ones made from them (suffix `.cleaned`, sealed)."""
        try:
            self._files.replace(new, old)
        except OSError as error:
            raise self._fail(error) from error

    def take_deleted_paths(self) -> list[Path]:
        """Hand over the paths of `.deleted` files, which the caller removes after `file.delete.delay.ms`."""
        taken, self._files.deleted_paths = self._files.deleted_paths, []
        return taken

    # Durability.

    def _find_flush_due(self, appended_from: int) -> None:
        """Set `flush_due_from` if a flush is due after an append from this offset on."""
        is_due = self.log_end_offset - self.recovery_point >= self.config.flush_messages
        if is_due and self.flush_due_from is None:
            self.flush_due_from = appended_from

    def _cut_at(self, end_offset: int) -> None:
        """Note a truncation: nothing from this offset on is durable, nor will be by a flush under way."""
        self._cuts += 1
        if self._lowest_cut is None or end_offset < self._lowest_cut:
            self._lowest_cut = end_offset
        self.recovery_point = min(self.recovery_point, end_offset)
        if self.flush_due_from is not None and self.flush_due_from >= end_offset:
            self.flush_due_from = None

    def take_lowest_cut(self) -> int | None:
        """Return the lowest offset at which the log was truncated since the last call, or None."""
        lowest_cut, self._lowest_cut = self._lowest_cut, None
        return lowest_cut

    def flush_target(self) -> FlushTarget:
        """Return the files to fsync so that the recovery point may move; after `run`, call `flushed`."""
        try:
            self._epochs.write_changes()
        except OSError as error:
            raise self._fail(error) from error
        return FlushTarget(
            offset=self.log_end_offset,
            cuts=self._cuts,
            disk=self._disk,
            directory=self.directory,
            files=(self.active_segment.file,),
            paths=(self._epochs.path, *self._files.unflushed_paths(self.recovery_point)),
        )

    def flushed(self, target: FlushTarget, now_ms: int) -> None:
        """Move the recovery point after `target` has run, unless the log was truncated meanwhile."""
        if target.cuts != self._cuts:
            return  # The offsets may belong to other records by now.
        self.recovery_point = max(self.recovery_point, target.offset)
        self.last_flush_ms = now_ms
        if self.flush_due_from is not None:
            is_due = self.log_end_offset - self.recovery_point >= self.config.flush_messages
            self.flush_due_from = max(self.flush_due_from, self.recovery_point) if is_due else None

    def flush_failed(self, error: OSError) -> KafkaError:
        """Fail the log, as a flush raised an error: fsync reports only once that it lost data."""
        return self._fail(error)

    def flush(self, *, now_ms: int) -> None:
        """Make everything durable, waiting for the disk."""
        target = self.flush_target()
        try:
            target.run()
        except OSError as error:
            raise self._fail(error) from error
        self.flushed(target, now_ms)

    def close(self, *, now_ms: int) -> None:
        """Make everything durable and write indexes and producer state, so that no recovery is needed."""
        if self._failure is not None:
            return
        try:
            if self.recovery_point < self.log_end_offset:
                self.flush(now_ms=now_ms)
            self.active_segment.close()
            if self.log_end_offset > self._base_offsets[0] or self._snapshots.offsets:
                self._snapshots.take(self._producers)
        except OSError as error:
            raise self._fail(error) from error

    # Housekeeping.

    def update_config(self, config: LogConfig) -> None:
        """Use changed settings of the topic from the next append on."""
        self.config = config
        self._room = None

    def move_to(self, directory: Path) -> None:
        """Use the new directory, after a rename (deletion of the topic, move to another log directory)."""
        self.directory = directory
        self._epochs.move_to(directory)
        self._files.move_to(directory)

    def active_producers(self) -> Iterable[ProducerEntry]:
        """Return the producers with state in the log (DescribeProducers)."""
        return self._producers.entries.values()

    def last_sequence(self, producer_id: int, producer_epoch: int) -> int:
        """Return the last sequence of a producer in this epoch, or -1."""
        entry = self._producers.entries.get(producer_id)
        return NO_SEQUENCE if entry is None or entry.epoch != producer_epoch else entry.last_sequence

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return True if this epoch of a producer has data of an open transaction in the log (KIP-890)."""
        return self._producers.has_ongoing_transaction(producer_id, producer_epoch)

    def check_transaction(self, producer_id: int, producer_epoch: int, guard: Guard | None) -> None:
        """Check that a coordinator may write in the transaction of this producer: `Verifications.check`."""
        self._verifications.check(producer_id, producer_epoch, guard)

    def remove_expired_producers(self, now_ms: int, expiration_ms: int) -> Iterator[int]:
        """Expire producers silent for `producer.id.expiration.ms`, some at a time; yield their number."""
        for _ in self._verifications.remove_expired(now_ms, expiration_ms):
            yield 0
        yield from self._producers.remove_expired(now_ms, expiration_ms)

    def count_producers_in(self, tally: ProducerTally) -> None:
        """Count the producers of this log in `tally` from now on."""
        self._producers.count_in(tally)

    def silent_producers(self, before_ms: int) -> Iterator[list[int]]:
        """Yield the times at which producers that may be expired were last seen, some at a time."""
        return self._producers.silent_since(before_ms)

    def forget_silent_producers(self, before_ms: int) -> Iterator[int]:
        """Expire the producers last seen before `before_ms`, some at a time; yield their number."""
        return self._producers.forget_silent(before_ms)

    def check_invariants(self) -> None:
        """Assert the invariants of the log; this reads all of it."""
        self._files.check_invariants()
        assert self._base_offsets[0] <= self.log_start_offset or len(self.segments) == 1
        assert self.log_start_offset <= self.last_stable_offset <= self.high_watermark <= self.log_end_offset
        assert self.recovery_point <= self.log_end_offset
        assert self.flush_due_from is None or self.flush_due_from <= self.log_end_offset
        assert self._producers.map_end_offset == self.log_end_offset
        for segment, upper in zip(self.segments, [*self._base_offsets[1:], self.log_end_offset], strict=True):
            if upper <= self.log_start_offset and not segment.is_active:
                continue  # Below the log start: perhaps torn by a power cut, and about to be deleted.
            segment.check_invariants()
            assert segment.find_end()[0] <= upper, (segment, upper)
        self._epochs.check_invariants()
        self._producers.check_invariants()


def _patched(batch: ByteSource, offset: int, batch_length: int, leader_epoch: int) -> list[ByteSource]:
    view = batch if type(batch) is memoryview else memoryview(batch)
    if not view.readonly:
        patch_offset_and_epoch(view, offset, batch_length, leader_epoch)
        return [view]
    head = bytearray(view[:HEADER_SIZE])
    patch_offset_and_epoch(head, offset, batch_length, leader_epoch)
    return [head, view[HEADER_SIZE:]]


def _storage_error(directory: Path, error: OSError) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The disk under {directory} failed: {error}.")

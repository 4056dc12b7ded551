"""The state of the producers of a log: their epochs, last sequences and open transactions (KIP-98).

A leader calls `check_batch` before an append and `add_batch` after it, so a failed write leaves no trace.
Followers and recovery only call `add_batch`. The state is written to `<offset>.snapshot` files, in Kafka's
format:

    i16 version (1), u32 CRC-32C of the rest, i32 count, and 46 bytes a producer:
    i64 id, i16 epoch, i32 last sequence, i64 last offset, i32 offset delta, i64 timestamp,
    i32 coordinator epoch, i64 first offset of the open transaction (-1: none)

A snapshot has only the last batch of a producer; `duplicate_window` finds the others when they are needed.
"""

import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.logstore.producer_tally import ProducerTally
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.record_batch import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from ottla.logstore.words.errors import ErrorCode, KafkaError

# A client may have five requests in flight, so any of the last five batches may be sent again.
RETAINED_BATCHES: Final = 5
ENTRIES_AT_ONCE: Final = 4_096  # producers to look at before other work gets its turn: half a millisecond
NO_OFFSET: Final = -1
MAX_PRODUCER_EPOCH: Final = 2**15 - 1
FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2  # of transaction.version
SNAPSHOT_VERSION: Final = 1

_SNAPSHOT_HEAD = struct.Struct(">hIi")
_SNAPSHOT_ROW = struct.Struct(">qhiqiqiq")
_CRC_START = 6


class BatchMetadata(NamedTuple):
    """The sequences and offsets of one of the last batches of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True)
class ProducerEntry:
    """The state of one producer id.

    `last_seen_ms` is by our clock, not by the batch's timestamp: a producer in an old, replayed log must not
    expire at once.
    """

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    current_txn_first_offset: int = NO_OFFSET
    last_seen_ms: int = -1
    batches: list[BatchMetadata] | None = None  # at most RETAINED_BATCHES, oldest first
    is_window_cut: bool = False  # only the last batch is here, from a snapshot; earlier ones still count

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """The producers of one log, and the transactions that hold back its last stable offset."""

    __slots__ = ("_ongoing", "_tally", "_unreplicated", "_unreplicated_starts", "entries", "map_end_offset")

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self._tally = ProducerTally()
        self.map_end_offset = 0  # the state covers the log up to here
        # First offset -> producer id, ascending. Both are ordered dicts: finding the first key of a plain
        # dict that shrinks from the front takes time in proportion to its former size.
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        # First offset -> last offset of transactions that ended, but not below the high watermark yet; last
        # offsets ascend. There may be very many while replication stands still, so the lowest first offset is
        # found by a heap, from which completed transactions are removed lazily.
        self._unreplicated: OrderedDict[int, int] = OrderedDict()
        self._unreplicated_starts: list[int] = []

    def count_in(self, tally: ProducerTally) -> None:
        """Count the producers in another tally from now on, and no longer in the old one."""
        self._tally.count -= len(self.entries)
        self._tally = tally
        tally.count += len(self.entries)

    def clear(self, map_end_offset: int) -> None:
        """Drop all producers; the state then covers the log up to `map_end_offset`."""
        self._tally.count -= len(self.entries)
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._unreplicated_starts.clear()
        self.map_end_offset = map_end_offset

    # Before an append.

    def check_batch(self, header: BatchHeader, *, is_client: bool) -> BatchMetadata | None:
        """Check a data batch before a leader appends it; return the batch that it duplicates, or None.

        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap or an old duplicate, INVALID_PRODUCER_EPOCH for a fenced
        producer, INVALID_TXN_STATE for a batch outside the producer's open transaction. A producer without
        state may begin with any sequence, as its state may have been deleted or expired; REQUEST_TIMED_OUT if
        there is no memory for another producer. Batches that a coordinator writes (not `is_client`) have no
        sequence; only their epoch is checked.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            if is_client and self._tally.is_full:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    "The memory for the state of producers "
                    f"({self._tally.limit_bytes} bytes) is used up: producer "
                    f"{header.producer_id}, which is new to this partition, has to "
                    "wait.",
                )
            return None
        if header.producer_epoch == entry.epoch:
            if is_client:
                batches = entry.batches
                last_sequence = batches[-1][0] if batches else NO_SEQUENCE
                if header.base_sequence != (last_sequence + 1) & MAX_SEQUENCE:
                    duplicate = self.duplicate_of(entry, header)
                    if duplicate is None:
                        raise KafkaError(
                            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                            f"Producer {header.producer_id} sent sequence "
                            f"{header.base_sequence} after sequence {last_sequence}.",
                        )
                    return duplicate
        elif header.producer_epoch < entry.epoch:
            raise old_epoch(header.producer_id, header.producer_epoch, entry.epoch)
        elif is_client and header.base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {header.producer_id} began epoch {header.producer_epoch} "
                f"with sequence {header.base_sequence} instead of 0.",
            )
        if entry.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {header.producer_id} sent a batch outside its open transaction.",
            )
        return None

    def check_epoch(self, producer_id: int, producer_epoch: int) -> None:
        """Raise INVALID_PRODUCER_EPOCH if the producer has a newer epoch."""
        entry = self.entries.get(producer_id)
        if entry is not None and producer_epoch < entry.epoch:
            raise old_epoch(producer_id, producer_epoch, entry.epoch)

    def duplicate_of(self, entry: ProducerEntry, header: BatchHeader) -> BatchMetadata | None:
        """Return the one of the producer's last batches that has the same sequences, or None."""
        for batch in entry.batches or ():
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def check_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int,
    ) -> bool:
        """Check a marker; return True if a leader must append it, and False if it was appended before.

        From transaction version 2 on, a marker has a new epoch, so a second marker of that epoch is a
        duplicate (KAFKA-19999). Only at the largest epoch a marker may have that of its transaction.
        INVALID_PRODUCER_EPOCH for a transaction that has ended, TRANSACTION_COORDINATOR_FENCED for a
        coordinator that was replaced.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return True
        bumps_epoch = transaction_version >= FIRST_VERSION_WITH_EPOCH_BUMP
        is_open = entry.current_txn_first_offset != NO_OFFSET
        is_same_epoch = producer_epoch == entry.epoch
        if producer_epoch < entry.epoch or (
            bumps_epoch and is_same_epoch and is_open and producer_epoch != MAX_PRODUCER_EPOCH
        ):
            raise old_epoch(producer_id, producer_epoch, entry.epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"A marker for producer {producer_id} has coordinator epoch "
                f"{marker.coordinator_epoch}, but epoch {entry.coordinator_epoch} was "
                "already seen.",
            )
        return is_open or not (bumps_epoch and is_same_epoch)

    # After an append.

    def add_batch(self, header: BatchHeader, now_ms: int, *, base_offset: int | None = None) -> None:
        """Update the state for a data batch in the log, at `base_offset` or else at its header's offset."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id)
            self._tally.count += 1
        batches = entry.batches
        if entry.epoch != header.producer_epoch or batches is None:
            entry.epoch = header.producer_epoch
            entry.batches = batches = []
            entry.is_window_cut = False
        elif len(batches) == RETAINED_BATCHES:
            del batches[0]
        if base_offset is None:
            base_offset = header.base_offset
        sequence, delta, max_timestamp = header.base_sequence, header.last_offset_delta, header.max_timestamp
        last_sequence = (sequence + delta) & MAX_SEQUENCE if sequence >= 0 else NO_SEQUENCE
        # Faster than with keywords.
        batches.append(
            tuple.__new__(BatchMetadata, (last_sequence, base_offset + delta, delta, max_timestamp))
        )
        entry.last_timestamp = max_timestamp
        entry.last_seen_ms = now_ms
        if header.is_transactional and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = header.producer_id

    def add_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        offset: int,
        timestamp: int,
        now_ms: int,
    ) -> CompletedTransaction | None:
        """Update the state for a marker in the log; return the transaction that it ends.

        None if the transaction has no data in this log.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id)
            self._tally.count += 1
        if entry.epoch != producer_epoch:
            entry.epoch = producer_epoch
            entry.batches = None
            entry.is_window_cut = False
        first_offset, entry.current_txn_first_offset = entry.current_txn_first_offset, NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        entry.last_seen_ms = now_ms
        if first_offset == NO_OFFSET:
            return None
        is_aborted = marker.control_type is ControlType.ABORT
        return CompletedTransaction(producer_id, first_offset, offset, is_aborted)

    def last_stable_offset_after(self, transaction: CompletedTransaction) -> int:
        """Return the last stable offset after the end of `transaction`, for its row in the index."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != transaction.producer_id:
                return first_offset
        return transaction.last_offset + 1

    def complete(self, transaction: CompletedTransaction) -> None:
        """Move a transaction from the ongoing ones to those whose marker is not replicated yet.

        It holds back the last stable offset until then.
        """
        del self._ongoing[transaction.first_offset]
        self._unreplicated[transaction.first_offset] = transaction.last_offset
        heappush(self._unreplicated_starts, transaction.first_offset)

    # The last stable offset.

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open or ended above the high watermark, or None."""
        ongoing = next(iter(self._ongoing), None)
        if not self._unreplicated:
            return ongoing
        unreplicated = self._unreplicated_starts[0]
        return unreplicated if ongoing is None else min(ongoing, unreplicated)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Drop the transactions whose marker is below the high watermark: they are stable."""
        unreplicated = self._unreplicated
        if unreplicated:
            while unreplicated and unreplicated[first_offset := next(iter(unreplicated))] < high_watermark:
                del unreplicated[first_offset]
            starts = self._unreplicated_starts
            while starts and starts[0] not in unreplicated:
                heappop(starts)

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return True if this epoch of a producer has data of an open transaction in the log."""
        entry = self.entries.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset != NO_OFFSET
            and entry.epoch == producer_epoch
        )

    # Expiry and snapshots.

    def remove_expired(self, now_ms: int, expiration_ms: int) -> Iterator[int]:
        """Expire producers not seen for `producer.id.expiration.ms`, except those with open transactions.

        Work through some producers at a time, and yield the number that expired.
        """
        return self.forget_silent(now_ms - expiration_ms + 1)

    def silent_since(self, before_ms: int) -> Iterator[list[int]]:
        """Yield the times at which producers that may be expired were last seen, some at a time."""
        for some in self._some_at_a_time():
            yield [one.last_seen_ms for one in some if _is_silent(one, before_ms)]

    def forget_silent(self, before_ms: int) -> Iterator[int]:
        """Expire the producers last seen before `before_ms`, some at a time; yield their number each time."""
        for some in self._some_at_a_time():
            # Between two steps producers may be added or removed, or may write again.
            silent = [
                one for one in some if _is_silent(one, before_ms) and self.entries.get(one.producer_id) is one
            ]
            for one in silent:
                del self.entries[one.producer_id]
            self._tally.count -= len(silent)
            yield len(silent)

    def _some_at_a_time(self) -> Iterator[list[ProducerEntry]]:
        entries = list(self.entries.values())
        for start in range(0, len(entries), ENTRIES_AT_ONCE):
            yield entries[start : start + ENTRIES_AT_ONCE]

    def load(self, entries: Iterable[ProducerEntry], map_end_offset: int) -> None:
        """Replace the state by that of a snapshot taken at `map_end_offset`."""
        self.clear(map_end_offset)
        for entry in entries:
            self.entries[entry.producer_id] = entry
        self._tally.count += len(self.entries)
        ongoing = {
            entry.current_txn_first_offset: entry.producer_id
            for entry in self.entries.values()
            if entry.current_txn_first_offset != NO_OFFSET
        }
        self._ongoing = OrderedDict(sorted(ongoing.items()))

    def check_invariants(self) -> None:
        """Assert that open transactions and entries agree."""
        assert list(self._ongoing) == sorted(self._ongoing), self._ongoing
        ends, starts = list(self._unreplicated.values()), self._unreplicated_starts
        assert ends == sorted(ends), ends
        assert set(starts) >= set(self._unreplicated)
        assert not starts or starts[0] == min(self._unreplicated), (starts, self._unreplicated)
        assert self._ongoing == {
            entry.current_txn_first_offset: entry.producer_id
            for entry in self.entries.values()
            if entry.current_txn_first_offset != NO_OFFSET
        }
        for entry in self.entries.values():
            batches = entry.batches or []
            assert len(batches) <= RETAINED_BATCHES, entry
            assert all(batch.last_offset < self.map_end_offset for batch in batches), (
                entry,
                self.map_end_offset,
            )


def _is_silent(entry: ProducerEntry, before_ms: int) -> bool:
    """Return True if a producer has no open transaction and was last seen before `before_ms`."""
    return entry.last_seen_ms < before_ms and entry.current_txn_first_offset == NO_OFFSET


def old_epoch(producer_id: int, epoch: int, current: int) -> KafkaError:
    """Return the error for a fenced producer."""
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {epoch}, but a newer instance of it has epoch {current}.",
    )


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the content of a `.snapshot` file."""
    rows: list[bytes] = []
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        rows.append(
            _SNAPSHOT_ROW.pack(
                entry.producer_id,
                entry.epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NO_OFFSET,
                last.offset_delta if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.current_txn_first_offset,
            )
        )
    body = len(rows).to_bytes(4, "big") + b"".join(rows)
    return _SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc32c(body), 0)[:_CRC_START] + body


def decode_snapshot(content: bytes, now_ms: int) -> list[ProducerEntry]:
    """Return the producers in a `.snapshot` file, last seen at `now_ms`; CORRUPT_MESSAGE if it is damaged."""
    if len(content) < _SNAPSHOT_HEAD.size:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"A producer snapshot of {len(content)} bytes is too short."
        )
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
    if version != SNAPSHOT_VERSION:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A producer snapshot has version {version}.")
    if crc32c(memoryview(content)[_CRC_START:]) != crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The CRC of a producer snapshot does not match.")
    if count < 0 or len(content) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ROW.size:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A producer snapshot gives a count of {count} producers, which is not possible.",
        )
    entries: list[ProducerEntry] = []
    for row in _SNAPSHOT_ROW.iter_unpack(memoryview(content)[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_offset = (
            row
        )
        batches = [BatchMetadata(last_sequence, last_offset, delta, timestamp)] if last_offset >= 0 else None
        is_window_cut = batches is not None and last_sequence >= 0 and batches[0].first_sequence != 0
        entries.append(
            ProducerEntry(
                producer_id,
                epoch,
                coordinator_epoch,
                timestamp,
                first_offset,
                now_ms,
                batches,
                is_window_cut,
            )
        )
    return entries

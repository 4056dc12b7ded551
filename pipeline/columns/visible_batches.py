"""The batches of a fetch that a reader sees: data, in its range, not of an aborted transaction."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ottla.logstore.record import ControlType, marker_of_batch
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, check_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource

_BATCH_LENGTH: Final = struct.Struct(">i")
_BATCH_LENGTH_POSITION: Final = 8


class AbortedTransaction(Protocol):
    """An aborted transaction of a fetch response: the producer, and its first offset in this partition."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class InRange(NamedTuple):
    """The batches that a reader sees, each with its position in the fetch, and the next offset to fetch."""

    visible: list[tuple[int, BatchHeader]]
    next_offset: int


def batches_in_range(
    records: ByteSource, *, aborted: Sequence[AbortedTransaction], read_committed: bool, start: int, end: int
) -> InRange:
    """Return the batches of `records` with offsets from `start` to before `end`, in order.

    Control batches are left out, and with `read_committed` those of aborted transactions, too.
    A batch that is cut off at the end of the answer is left for the next fetch. Raises CORRUPT_MESSAGE for
    bytes that are no batches, a CRC that does not match, offsets that do not rise, or an answer that holds
    nothing from `start` on: the next answer would be the same.
    """
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True) if read_committed else []
    aborted_producers: set[int] = set()
    visible: list[tuple[int, BatchHeader]] = []
    position, next_offset = 0, 0
    while next_offset < end and _has_whole_batch(records, position):
        header = check_batch(records, position)
        if header.base_offset < next_offset:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"A batch at offset {header.base_offset} is out of order."
            )
        while waiting and waiting[-1].first_offset <= header.last_offset:
            aborted_producers.add(waiting.pop().producer_id)
        if header.producer_id in aborted_producers and (header.is_control or header.is_transactional):
            if header.is_control and _ends_aborted_transaction(records, position, header):
                aborted_producers.discard(header.producer_id)
        elif not header.is_control and header.next_offset > start and header.base_offset < end:
            visible.append((position, header))
        position += header.size_bytes
        next_offset = header.next_offset
    if next_offset <= start and len(records):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{len(records)} bytes contain no whole batch from offset {start} on."
        )
    return InRange(visible, min(max(next_offset, start), end))


def _has_whole_batch(records: ByteSource, position: int) -> bool:
    if len(records) - position < HEADER_SIZE:
        return False
    (batch_length,) = _BATCH_LENGTH.unpack_from(records, position + _BATCH_LENGTH_POSITION)
    # `check_batch` rejects a negative length.
    return bool(position + LOG_OVERHEAD + batch_length <= len(records))


def _ends_aborted_transaction(records: ByteSource, position: int, header: BatchHeader) -> bool:
    marker = marker_of_batch(memoryview(records)[position : position + header.size_bytes])
    return marker is not None and marker.control_type is ControlType.ABORT

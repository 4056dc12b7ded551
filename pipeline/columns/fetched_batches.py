"""The records of one partition in a fetch answer, all opened at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ottla.logstore.compression import MAX_DECOMPRESSED_BYTES, decompress
from ottla.logstore.record import MIN_RECORD_BYTES
from ottla.logstore.record_batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    BatchHeader,
    TimestampType,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource
from ottla.pipeline.columns.binary_columns import MAX_COLUMN_BYTES, Part, gather, gather_one
from ottla.pipeline.columns.header_columns import read_headers
from ottla.pipeline.columns.record_columns import RecordColumns
from ottla.pipeline.columns.record_places import find_places
from ottla.pipeline.columns.record_walk import Section, find_record
from ottla.pipeline.columns.varints import Bytes, Int64s, read_varints, read_varlongs
from ottla.pipeline.columns.visible_batches import AbortedTransaction, batches_in_range

# A fetch of 8 MiB may hold thousands of small batches, each of which opens into 100 MiB, and 100 MiB are
# fifteen million records of seven bytes or fifty million headers, for which numpy would take gigabytes.
# Whatever would open beyond these limits is left for the next fetch. A fetch of text stays far below all
# three.
MAX_OPENED_BYTES: Final = MAX_DECOMPRESSED_BYTES
MAX_OPENED_RECORDS: Final = 1_000_000
MAX_OPENED_HEADERS: Final = 4_000_000
KEY_AND_VALUE: Final = frozenset({"key", "value"})


class Fetched(NamedTuple):
    """The columns of a fetch (None if no record is visible), and the offset that the next fetch asks for."""

    columns: RecordColumns | None
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """The records of batches in one buffer, and the header of each batch."""

    content: ByteSource
    sections: list[Section]
    headers: list[BatchHeader]


class _Fields(NamedTuple):
    """The offset, timestamp (ms) and type of each record, and the places of its other fields."""

    offsets: Int64s
    timestamps_ms: Int64s
    timestamp_types: NDArray[np.int32]
    keys: Part
    values: Part
    ends: Int64s


def open_fetched(
    records: ByteSource,
    *,
    aborted: Sequence[AbortedTransaction],
    read_committed: bool,
    start: int,
    end: int,
    with_headers: bool,
    wanted: frozenset[str] = KEY_AND_VALUE,
    max_opened_bytes: int = MAX_OPENED_BYTES,
    max_opened_records: int = MAX_OPENED_RECORDS,
    max_opened_headers: int = MAX_OPENED_HEADERS,
) -> Fetched:
    """Return the visible records of `records` with offsets from `start` to before `end`.

    `next_offset` goes by batches, not by records: markers, aborted and compacted records move it, too. It is
    `end` when the range is done, `start` if nothing was there, and within a batch if the batch is too large.
    `wanted` has those of "key" and "value" that are to be read. Raises CORRUPT_MESSAGE and
    UNSUPPORTED_COMPRESSION_TYPE for bytes that cannot be read, and MESSAGE_TOO_LARGE for a batch that opens
    into more than a broker takes.
    """
    found = batches_in_range(records, aborted=aborted, read_committed=read_committed, start=start, end=end)
    taken, next_offset = _as_many_as_fit(found.visible, max_opened_records), found.next_offset
    try:
        opened = _open(records, found.visible[:taken], max_opened_bytes)
        taken = len(opened.headers)
        if taken < len(found.visible):
            next_offset = found.visible[taken][1].base_offset
        opened, left_from = _piece(opened, start, max_opened_records)
        columns, cut_at = _read(
            opened, start, end, with_headers=with_headers, wanted=wanted, max_headers=max_opened_headers
        )
    except KafkaError as error:
        if error.code is ErrorCode.INVALID_RECORD:  # One error for all bytes that are not as they should be.
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, error.detail) from None
        raise
    next_offset = min([next_offset, *(one for one in (left_from, cut_at) if one is not None)])
    if columns is not None and next_offset <= start:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The offsets of a batch do not increase from {start}.")
    return Fetched(columns, next_offset)


def _as_many_as_fit(visible: Sequence[tuple[int, BatchHeader]], max_records: int) -> int:
    """Return how many batches, at least one, stay below `max_records`."""
    total = 0
    for index, (_, header) in enumerate(visible):
        total += header.records_count
        if total > max_records and index:
            return index
    return len(visible)


def _open(records: ByteSource, visible: Sequence[tuple[int, BatchHeader]], max_opened_bytes: int) -> _Opened:
    """Open the batches, and stop once more than `max_opened_bytes` came out of those before."""
    view = memoryview(records)
    if not any(header.attributes & COMPRESSION_MASK for _, header in visible):
        places = [(position + HEADER_SIZE, position + header.size_bytes) for position, header in visible]
        return _opened(records, places, [header for _, header in visible])
    contents: list[ByteSource] = []
    places, headers, size = [], [], 0
    for position, header in visible:
        if size > max_opened_bytes:
            break
        closed = view[position + HEADER_SIZE : position + header.size_bytes]
        contents.append(decompress(header.compression, closed))
        places.append((size, size + len(contents[-1])))
        headers.append(header)
        size = places[-1][1]
    return _opened(contents[0] if len(contents) == 1 else b"".join(contents), places, headers)


def _opened(content: ByteSource, places: list[tuple[int, int]], headers: list[BatchHeader]) -> _Opened:
    assert len(content) <= MAX_COLUMN_BYTES, "frames and opened batches have limits far below"
    sections = []
    for (start, end), header in zip(places, headers, strict=True):
        if header.records_count * MIN_RECORD_BYTES > end - start or (end > start) != (
            header.records_count > 0
        ):
            problem = (
                f"A batch counts {header.records_count} records, which do not fit into {end - start} bytes."
            )
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, problem)
        if header.records_count:  # Compaction keeps the last batch of a producer even if it is empty.
            sections.append(Section(start, end, header.records_count))
    return _Opened(content=content, sections=sections, headers=headers)


def _piece(opened: _Opened, start: int, max_records: int) -> tuple[_Opened, int | None]:
    """Cut a single batch with too many records to a piece of at most `max_records` that has `start` in it.

    Returns the piece and the offset after it, or None in its place if nothing is left.
    """
    if not opened.sections or opened.sections[0].records_count <= max_records:
        return opened, None
    # It is alone: batches that fit come before it.
    (section,), (header,) = opened.sections, opened.headers
    view = np.frombuffer(opened.content, np.uint8)
    begun, left = section.start, section.records_count
    while left > max_records:
        last, piece_end = find_record(view, Section(begun, section.end, left), max_records)
        _, delta_at = read_varlongs(view, np.array([last + 1]))
        offset_deltas, _ = read_varints(view, delta_at)
        following = header.base_offset + int(offset_deltas[0]) + 1
        if following > start:
            return replace(opened, sections=[Section(begun, piece_end, max_records)]), following
        begun, left = piece_end, left - max_records
    return replace(opened, sections=[Section(begun, section.end, left)]), None


def _read(
    opened: _Opened,
    start: int,
    end: int,
    *,
    with_headers: bool,
    wanted: frozenset[str],
    max_headers: int,
) -> tuple[RecordColumns | None, int | None]:
    """Return the records from `start` to before `end`, and the offset at which headers cut them off."""
    if not opened.sections:
        return None, None
    view = np.frombuffer(opened.content, np.uint8)
    fields, cut_at = _select_range(_read_fields(opened, view), start, end), None
    if not len(fields.offsets):
        return None, None
    headers = None
    if with_headers:
        counts, _ = read_varints(view, fields.values.ends)
        rows = max(int(np.searchsorted(np.cumsum(counts), max_headers, side="right")), 1)
        if rows < len(fields.offsets):
            cut_at = int(fields.offsets[rows])
            fields = _select(fields, np.arange(len(fields.offsets)) < rows)
        headers = read_headers(opened.content, view, fields.values.ends, fields.ends)
    keys, values = None, None
    if wanted >= KEY_AND_VALUE:
        keys, values = gather(opened.content, fields.keys, fields.values)
    elif "key" in wanted:
        keys = gather_one(opened.content, fields.keys, fields.values, wants_second=False)
    elif "value" in wanted:
        values = gather_one(opened.content, fields.keys, fields.values, wants_second=True)
    columns = RecordColumns(
        keys=keys,
        values=values,
        offsets=fields.offsets,
        timestamps_ms=fields.timestamps_ms,
        timestamp_types=fields.timestamp_types,
        headers=headers,
    )
    return columns, cut_at


def _read_fields(opened: _Opened, view: Bytes) -> _Fields:
    ends, timestamp_deltas, offset_deltas, keys, values = find_places(view, opened.sections)
    batches = [header for header in opened.headers if header.records_count]
    counts = np.array([section.records_count for section in opened.sections], np.int64)

    def per_record(per_batch: list[int]) -> Int64s:
        return np.repeat(np.array(per_batch, np.int64), counts)

    too_high = offset_deltas > per_record([header.last_offset_delta for header in batches])
    if (too_high | (offset_deltas < 0)).any():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A record has an offset beyond those of its batch.")
    timestamps_ms = timestamp_deltas + per_record([header.base_timestamp for header in batches])
    timestamp_types = np.full(len(ends), TimestampType.CREATE_TIME, np.int32)
    if any(header.attributes & LOG_APPEND_TIME_BIT for header in batches):
        appended_ms = per_record([header.max_timestamp for header in batches])
        timestamp_types = per_record([header.timestamp_type for header in batches]).astype(np.int32)
        is_appended = timestamp_types == TimestampType.LOG_APPEND_TIME
        timestamps_ms = np.where(is_appended, appended_ms, timestamps_ms)
    return _Fields(
        offset_deltas + per_record([header.base_offset for header in batches]),
        timestamps_ms,
        timestamp_types,
        keys,
        values,
        ends,
    )


def _select_range(fields: _Fields, start: int, end: int) -> _Fields:
    """Return the records with offsets from `start` to before `end`."""
    is_inside = (fields.offsets >= start) & (fields.offsets < end)
    return fields if is_inside.all() else _select(fields, is_inside)


def _select(fields: _Fields, is_selected: NDArray[np.bool_]) -> _Fields:
    return _Fields(
        fields.offsets[is_selected],
        fields.timestamps_ms[is_selected],
        fields.timestamp_types[is_selected],
        Part(*(part[is_selected] for part in fields.keys)),
        Part(*(part[is_selected] for part in fields.values)),
        fields.ends[is_selected],
    )

"""Encodes columns as record batches, all rows of a batch in a handful of calls."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.logstore.compression import Compression, compress
from ottla.logstore.record import seal_batch
from ottla.logstore.record_batch import (
    HEADER_SIZE,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    increment_sequence,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.columns.row_columns import NOW, RowColumns
from ottla.pipeline.columns.varints import Int64s, varint_sizes, write_varints
from ottla.pipeline.words import OptionError

_NOTHING: Final = pa.scalar(b"", pa.binary())
_NO_ATTRIBUTES: Final = pa.scalar(b"\0", pa.binary())
_NO_TIME: Final = pa.scalar(b"\0", pa.binary())
_NULL: Final = pa.scalar(b"\x01", pa.binary())  # the varint of -1
_NO_HEADERS: Final = pa.scalar(b"\0", pa.binary())
_LIKELY_RECORDS: Final = 2**15  # a batch of 900 KB with more has rows of less than 27 bytes
_deltas_without_time: list[pa.BinaryArray] = []


class EncodedBatch(NamedTuple):
    """A record batch ready to be sent; `first_row` is the index of its first row."""

    data: bytearray
    records_count: int
    first_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """The rows with values that are computed once for all of them; `sizes` has an upper bound for each."""

    rows: RowColumns
    key_lengths: Int64s | None
    value_lengths: Int64s
    headers: pa.BinaryArray | None
    header_lengths: Int64s
    timestamps_ms: Int64s
    sizes: Int64s


def encode_batches(
    rows: RowColumns,
    *,
    compression: Compression,
    level: int | None,
    producer: ProducerPair | None,
    base_sequence: int,
    is_transactional: bool,
    max_batch_bytes: int,
    now_ms: int,
    max_row_bytes: int = 0,
) -> list[EncodedBatch]:
    """Encode all `rows` in as few batches as `max_batch_bytes` (before compression) allows.

    A row that takes more has a batch of its own, up to `max_row_bytes`, as with Java's producer.
    `base_sequence` is the sequence number of the first row, and has no meaning without `producer`. Raises
    MESSAGE_TOO_LARGE for a row that no such batch can hold, and OptionError for a header without a key.
    """
    written = _write(rows, now_ms)
    batches: list[EncodedBatch] = []
    for first, last in _cuts(written.sizes, max_batch_bytes, max(max_batch_bytes, max_row_bytes)):
        timestamps_ms = written.timestamps_ms[first:last]
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=compression | (TRANSACTIONAL_BIT if is_transactional else 0),
            last_offset_delta=last - first - 1,
            base_timestamp=int(timestamps_ms[0]),
            max_timestamp=int(timestamps_ms.max()),
            producer_id=producer.producer_id if producer else NO_PRODUCER_ID,
            producer_epoch=producer.epoch if producer else NO_PRODUCER_EPOCH,
            base_sequence=increment_sequence(base_sequence, first) if producer else NO_SEQUENCE,
            records_count=last - first,
        )
        records = _join(written, first, last)
        content = records if compression is Compression.NONE else compress(compression, records, level)
        batches.append(EncodedBatch(seal_batch(header, content), last - first, first))
    return batches


def _write(rows: RowColumns, now_ms: int) -> _Written:
    key_lengths = None if rows.keys is None else _lengths(rows.keys)
    value_lengths = _lengths(rows.values)
    headers = None if rows.headers is None else _write_headers(rows.headers)
    header_lengths = np.ones(len(rows), np.int64) if headers is None else _lengths(headers)
    timestamps_ms = np.full(len(rows), now_ms, np.int64)
    if rows.timestamps_ms is not None:
        timestamps_ms = np.where(rows.timestamps_ms == NOW, now_ms, rows.timestamps_ms)
    # The offset of a row in its batch and its distance in time from the first row are known only when batches
    # are cut, so their sizes here are upper bounds.
    span_ms = timestamps_ms.max() - timestamps_ms.min() if len(rows) else 0
    most = 1 + int(varint_sizes(np.array([span_ms, len(rows)], np.int64)).sum())
    sizes = most + _field_sizes(value_lengths) + header_lengths
    sizes += 1 if key_lengths is None else _field_sizes(key_lengths)
    return _Written(
        rows=rows,
        key_lengths=key_lengths,
        value_lengths=value_lengths,
        headers=headers,
        header_lengths=header_lengths,
        timestamps_ms=timestamps_ms,
        sizes=sizes + varint_sizes(sizes),
    )


def _lengths(column: pa.BinaryArray) -> Int64s:
    """Return the number of bytes of each row, -1 for null."""
    lengths = pc.binary_length(column)
    return np.asarray(pc.fill_null(lengths, -1) if column.null_count else lengths).astype(np.int64)


def _field_sizes(lengths: Int64s) -> Int64s:
    return varint_sizes(lengths) + np.maximum(lengths, 0)


def _cuts(sizes: Int64s, max_batch_bytes: int, max_row_bytes: int) -> list[tuple[int, int]]:
    """Return the first row of each batch and the row after its last."""
    room = max_batch_bytes - HEADER_SIZE
    too_large = np.flatnonzero(sizes > max_row_bytes - HEADER_SIZE)
    if len(too_large):
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"A row takes {sizes[too_large[0]] + HEADER_SIZE} bytes, more than "
            f"kafka.max.request.size, which is {max_row_bytes}. Raise it, and the topic's "
            "max.message.bytes if needed.",
        )
    ends = np.cumsum(sizes)
    cuts: list[tuple[int, int]] = []
    first, before = 0, 0
    while first < len(sizes):
        last = max(int(np.searchsorted(ends, before + room, side="right")), first + 1)
        cuts.append((first, last))
        first, before = last, int(ends[last - 1])
    return cuts


def _join(written: _Written, first: int, last: int) -> memoryview:
    """Return the records of rows `first` to before `last` as they are laid out in a batch."""
    timestamp_deltas = written.timestamps_ms[first:last] - written.timestamps_ms[first]
    offset_deltas = np.arange(last - first, dtype=np.int64)
    value_lengths = written.value_lengths[first:last]
    lengths = 1 + varint_sizes(timestamp_deltas) + varint_sizes(offset_deltas) + _field_sizes(value_lengths)
    lengths += written.header_lengths[first:last]
    if written.key_lengths is None or written.rows.keys is None:
        lengths += 1
        key = [_NULL]
    else:
        key_lengths = written.key_lengths[first:last]
        lengths += _field_sizes(key_lengths)
        key = [write_varints(key_lengths), written.rows.keys[first:last]]
    joined = pc.binary_join_element_wise(
        write_varints(lengths),
        *_write_deltas(timestamp_deltas, offset_deltas),
        *key,
        write_varints(value_lengths),
        written.rows.values[first:last],
        _NO_HEADERS if written.headers is None else written.headers[first:last],
        _NOTHING,
        null_handling="replace",
        null_replacement=b"",
    )
    places = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2])[places[0] : places[-1]]


def _write_deltas(timestamp_deltas: Int64s, offset_deltas: Int64s) -> list[pa.Array | pa.Scalar]:
    """Return the columns between the length of a record and its key: attributes and deltas."""
    rows = len(offset_deltas)
    if timestamp_deltas.any() or rows > _LIKELY_RECORDS:
        return [_NO_ATTRIBUTES, write_varints(timestamp_deltas), write_varints(offset_deltas)]
    # Rows without a timestamp of their own all have the batch's: the same bytes in every batch.
    if not _deltas_without_time:
        numbers = np.arange(_LIKELY_RECORDS, dtype=np.int64)
        written = [_NO_ATTRIBUTES, _NO_TIME, write_varints(numbers), _NOTHING]
        _deltas_without_time.append(pc.binary_join_element_wise(*written))
    return [_deltas_without_time[0][:rows]]


def _write_headers(headers: pa.ListArray) -> pa.BinaryArray:
    """Return the count and the headers of each row, as they are laid out at the end of a record."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(headers), 0)).astype(np.int64)
    elements = headers.flatten()
    keys, values = elements.field("key").cast(pa.binary()), elements.field("value")
    if elements.null_count or keys.null_count:
        raise OptionError("headers", "has a row with a header that has no key, which Kafka does not allow")
    if not len(elements):
        return write_varints(counts)
    written = pc.binary_join_element_wise(
        write_varints(_lengths(keys)),
        keys,
        write_varints(_lengths(values)),
        values,
        _NOTHING,
        null_handling="replace",
        null_replacement=b"",
    )
    places = np.frombuffer(written.buffers()[1], np.int32)[written.offset : written.offset + len(written) + 1]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    of_rows = pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(places[firsts]), written.buffers()[2]]
    )
    return pc.binary_join_element_wise(write_varints(counts), of_rows, _NOTHING)

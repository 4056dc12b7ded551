"""The records of a fetch as columns, and as a batch with the schema of Spark's Kafka connector."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.header_columns import HEADERS_TYPE
from ottla.pipeline.columns.number_columns import number_column, text_column
from ottla.pipeline.columns.varints import Int64s

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")
# Spark's own schema, to the letter: Spark compares the batches of a reader with the schema it announced.
FIELDS: Final = {
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "offset": pa.field("offset", pa.int64()),
    "timestamp": pa.field("timestamp", TIMESTAMP_TYPE),
    "timestampType": pa.field("timestampType", pa.int32()),
    "headers": pa.field("headers", HEADERS_TYPE),
}
_MAX_TIMESTAMP_MS: Final = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Records in the order of their log; keys, values and headers are None if they were not asked for.

    None of the arrays keeps the bytes alive that they were read from.
    """

    keys: pa.BinaryArray | None
    values: pa.BinaryArray | None
    offsets: Int64s
    timestamps_ms: Int64s
    timestamp_types: NDArray[np.int32]
    headers: pa.ListArray | None

    def __len__(self) -> int:
        return len(self.offsets)


def with_timestamps_in(columns: RecordColumns, ranges_ms: Sequence[tuple[int, int]]) -> RecordColumns:
    """Return the records whose timestamps lie in one of these ranges, which are disjoint and in order."""
    starts = np.array([start for start, _ in ranges_ms], np.int64)
    lasts = np.array([end - 1 for _, end in ranges_ms], np.int64)
    place = np.searchsorted(starts, columns.timestamps_ms, side="right") - 1
    is_wanted = place >= 0
    is_wanted[is_wanted] = columns.timestamps_ms[is_wanted] <= lasts[place[is_wanted]]
    if is_wanted.all():
        return columns
    mask = pa.array(is_wanted)
    return RecordColumns(
        keys=None if columns.keys is None else columns.keys.filter(mask),
        values=None if columns.values is None else columns.values.filter(mask),
        offsets=columns.offsets[is_wanted],
        timestamps_ms=columns.timestamps_ms[is_wanted],
        timestamp_types=columns.timestamp_types[is_wanted],
        headers=None if columns.headers is None else columns.headers.filter(mask),
    )


def to_record_batch(
    columns: RecordColumns, partition: TopicPartition, fields: Sequence[str]
) -> pa.RecordBatch:
    """Return the columns named in `fields`, in that order. Keys, values and headers must have been read.

    Raises INVALID_TIMESTAMP for a time that 64 bits of microseconds cannot hold.
    """
    rows = len(columns)
    made: dict[str, Callable[[], pa.Array | None]] = {
        "key": lambda: columns.keys,
        "value": lambda: columns.values,
        "topic": lambda: text_column(partition.topic, rows),
        "partition": lambda: number_column(np.full(rows, partition.partition, np.int32), pa.int32()),
        "offset": lambda: number_column(columns.offsets, pa.int64()),
        "timestamp": lambda: _timestamps(columns),
        "timestampType": lambda: number_column(columns.timestamp_types, pa.int32()),
        "headers": lambda: columns.headers,
    }
    return pa.RecordBatch.from_arrays(
        [made[name]() for name in fields], schema=pa.schema([FIELDS[name] for name in fields])
    )


def _timestamps(columns: RecordColumns) -> pa.TimestampArray:
    timestamps_ms = columns.timestamps_ms
    too_far = np.flatnonzero((timestamps_ms > _MAX_TIMESTAMP_MS) | (timestamps_ms < -_MAX_TIMESTAMP_MS))
    if len(too_far):
        row = too_far[0]
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"The record at offset {columns.offsets[row]} has timestamp {timestamps_ms[row]} ms, "
            "which does not fit into microseconds: read with a schema without the column "
            "timestamp.",
        )
    return number_column(timestamps_ms * 1000, TIMESTAMP_TYPE)

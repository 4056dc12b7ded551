"""The columns of a user's rows: those that a sink takes, and the rows of a batch by partition."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.header_columns import HEADER_TYPE
from ottla.pipeline.columns.partitioner import Sticky, partitions_of
from ottla.pipeline.columns.varints import Int64s
from ottla.pipeline.words import OptionError

NOW: Final = -1  # the timestamp of a row without one: it gets the time at which its batch is made
_UNITS_PER_S: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The indices of the columns of a sink in a batch; None for one that is not there.

    `topic_of_all` is the topic of every row if an option names it; then no column does.
    """

    value: int
    key: int | None
    topic: int | None
    headers: int | None
    partition: int | None
    timestamp: int | None
    topic_of_all: str | None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """Rows on their way to one partition. Timestamps are in ms, NOW for none; None if no row has one.

    `offsets` are the offsets of copied rows in the log they were read from; they are not written with the
    rows.
    """

    keys: pa.BinaryArray | None
    values: pa.BinaryArray
    headers: pa.ListArray | None
    timestamps_ms: Int64s | None
    offsets: Int64s | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Int64s) -> "RowColumns":
        index = pa.array(rows)
        return RowColumns(
            keys=None if self.keys is None else self.keys.take(index),
            values=self.values.take(index),
            headers=None if self.headers is None else self.headers.take(index),
            timestamps_ms=None if self.timestamps_ms is None else self.timestamps_ms[rows],
            offsets=None if self.offsets is None else self.offsets[rows],
        )

    def slice(self, first: int, last: int) -> "RowColumns":
        """Return the rows from `first` to before `last` without a copy."""
        return RowColumns(
            keys=None if self.keys is None else self.keys[first:last],
            values=self.values[first:last],
            headers=None if self.headers is None else self.headers[first:last],
            timestamps_ms=None if self.timestamps_ms is None else self.timestamps_ms[first:last],
            offsets=None if self.offsets is None else self.offsets[first:last],
        )


def find_row_layout(schema: pa.Schema, *, topic: str | None, with_offsets: bool = False) -> RowLayout:
    """Return the columns of `schema` that go into records; a `topic` given as an option wins over a column.

    Columns with other names are ignored, as by Spark's Kafka connector; `offset` is one of them unless
    `with_offsets` is set. Raises OptionError for a missing column or one of a wrong type.
    """
    places = {name: schema.get_field_index(name) for name in schema.names}
    for name in ("key", "value", "topic", "headers", "partition", "timestamp"):
        if schema.names.count(name) > 1:
            raise OptionError(name, "is the name of several columns")
    if "value" not in places:
        raise OptionError("value", "is a column that is required in every row")
    if topic is None and "topic" not in places:
        raise OptionError("topic", "is neither an option nor a column")
    _check_type(schema, "key", _is_text_or_bytes, "string or binary")
    _check_type(schema, "value", _is_text_or_bytes, "string or binary")
    if topic is None:
        _check_type(schema, "topic", _is_text, "string")
    _check_type(schema, "headers", _is_headers, "array<struct<key: string, value: binary>>")
    _check_type(schema, "partition", pa.types.is_int32, "int")
    _check_type(schema, "timestamp", pa.types.is_timestamp, "timestamp")
    if with_offsets:
        if "offset" not in places:
            raise OptionError("offset", "is a required column: it says where the copied rows were read")
        _check_type(schema, "offset", pa.types.is_int64, "long")
    return RowLayout(
        value=places["value"],
        key=places.get("key"),
        topic=None if topic is not None else places["topic"],
        headers=places.get("headers"),
        partition=places.get("partition"),
        timestamp=places.get("timestamp"),
        topic_of_all=topic,
        offset=places["offset"] if with_offsets else None,
    )


def _check_type(schema: pa.Schema, name: str, is_right: Callable[[pa.DataType], bool], words: str) -> None:
    place = schema.get_field_index(name)
    if place >= 0 and not is_right(schema.field(place).type):
        raise OptionError(name, f"is a column of type {schema.field(place).type}, but must be {words}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_text_or_bytes(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_headers(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        and pa.types.is_struct(kind.value_type)
        and [(field.name, field.type) for field in kind.value_type]
        == [(field.name, field.type) for field in HEADER_TYPE]
    )


def rows_by_partition(
    batch: pa.RecordBatch, layout: RowLayout, partition_counts: Mapping[str, int], sticky: Sticky
) -> list[tuple[TopicPartition, RowColumns]]:
    """Return the rows of `batch`, in their order, for each partition that they go to.

    `partition_counts` has every topic that may occur. Raises OptionError for a row without a topic, with an
    unknown one, or with a partition that its topic does not have.
    """
    rows = RowColumns(
        keys=None if layout.key is None else _as_bytes(batch.column(layout.key)),
        values=_as_bytes(batch.column(layout.value)),
        headers=None if layout.headers is None else batch.column(layout.headers),
        timestamps_ms=None if layout.timestamp is None else _milliseconds(batch.column(layout.timestamp)),
        offsets=None if layout.offset is None else _offsets(batch.column(layout.offset)),
    )
    chosen = None if layout.partition is None else batch.column(layout.partition)
    if not len(rows):
        return []
    if layout.topic is None:
        assert layout.topic_of_all is not None
        return _divide_by_partition(layout.topic_of_all, rows, chosen, partition_counts, sticky)
    topics = pc.dictionary_encode(batch.column(layout.topic))
    if topics.null_count:
        raise OptionError("topic", "is null in a row, and no option sets it")
    indices = topics.indices.to_numpy(zero_copy_only=False)
    found: list[tuple[TopicPartition, RowColumns]] = []
    for number, topic in enumerate(topics.dictionary.to_pylist()):
        of_topic = np.flatnonzero(indices == number)
        part = None if chosen is None else chosen.take(pa.array(of_topic))
        found += _divide_by_partition(topic, rows.take(of_topic), part, partition_counts, sticky)
    return found


def _divide_by_partition(
    topic: str, rows: RowColumns, chosen: pa.Int32Array | None, counts: Mapping[str, int], sticky: Sticky
) -> list[tuple[TopicPartition, RowColumns]]:
    """Return the rows of a topic by partition; OptionError if the topic does not exist."""
    if topic not in counts:
        raise OptionError("topic", f"{topic} does not exist")
    partitions = partitions_of(topic, len(rows), rows.keys, chosen, counts[topic], sticky)
    if (partitions == partitions[0]).all():
        return [(TopicPartition(topic, int(partitions[0])), rows)]
    # numpy sorts 16-bit numbers without comparisons.
    short = partitions.astype(np.uint16) if counts[topic] < 2**16 else partitions
    in_order = np.argsort(short, kind="stable")
    names, firsts = np.unique(partitions[in_order], return_index=True)
    ordered = rows.take(in_order)  # With many partitions a call for each would cost more than its rows.
    return [
        (TopicPartition(topic, name), ordered.slice(first, last))
        for name, (first, last) in zip(names.tolist(), pairwise([*firsts.tolist(), len(rows)]), strict=True)
    ]


def _as_bytes(column: pa.Array) -> pa.BinaryArray:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def _offsets(column: pa.Int64Array) -> Int64s:
    if column.null_count:
        raise OptionError("offset", "is null in a row")
    return np.asarray(column).astype(np.int64, copy=False)


def _milliseconds(column: pa.TimestampArray) -> Int64s:
    """Return milliseconds, rounded down as Spark does; a timestamp is a moment, in any session's zone.

    A record without a timestamp is read as -1 ms, so -1 counts as none, as null does: a copy does not stop at
    it.
    """
    units = column.cast(pa.int64())
    in_a_ms = _UNITS_PER_S[column.type.unit] // 1000  # 0: seconds
    filled = np.asarray(pc.fill_null(units, 0))
    moments: Int64s = filled // in_a_ms if in_a_ms else filled * 1000
    is_none = np.asarray(column.is_null())
    if in_a_ms:
        is_none = is_none | (filled == NOW * in_a_ms)
    if ((moments < 0) & ~is_none).any():
        raise OptionError("timestamp", "is before 1970 in a row, which Kafka does not allow")
    return np.where(is_none, NOW, moments)

"""Headers of records as the list column of Spark's Kafka connector: null for a record without headers."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import ByteSource
from ottla.pipeline.columns.binary_columns import Part, gather
from ottla.pipeline.columns.number_columns import flag_column, number_column
from ottla.pipeline.columns.varints import Bytes, Int64s, read_varints

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))
# Each rank (the first header of all records, the second and so on) is a handful of numpy steps. A batch of
# 100 MiB could hold one record with fifty million headers, which would take minutes; real records do not have
# a thousand.
MAX_HEADERS: Final = 100_000
_MIN_HEADER_BYTES: Final = 2


def read_headers(content: ByteSource, view: Bytes, counts_at: Int64s, ends: Int64s) -> pa.ListArray:
    """Read the headers of each record, whose count is at `counts_at`.

    Raises CORRUPT_MESSAGE if they do not end where the record does.
    """
    counts, cursors = read_varints(view, counts_at)
    if ((counts < 0) | (counts * _MIN_HEADER_BYTES > ends - cursors)).any():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A record counts more headers than fit into it.")
    if counts.max(initial=0) > MAX_HEADERS:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A record has more than {MAX_HEADERS} headers.")
    places = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=places[1:])
    keys, values, cursors = _read_by_rank(view, counts, places, cursors, ends)
    if (cursors != ends).any():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A record does not end where its headers do.")
    key_column, value_column = gather(content, keys, values)
    elements = pa.StructArray.from_arrays(
        [_as_text(key_column), value_column], fields=[HEADER_TYPE.field(0), HEADER_TYPE.field(1)]
    )
    return pa.ListArray.from_arrays(
        number_column(places, pa.int32()),
        elements,
        type=HEADERS_TYPE,
        mask=flag_column(counts == 0) if len(counts) else None,
    )


def _read_by_rank(
    view: Bytes,
    counts: Int64s,
    places: np.ndarray[tuple[int], np.dtype[np.int32]],
    cursors: Int64s,
    ends: Int64s,
) -> tuple[Part, Part, Int64s]:
    total = int(places[-1])
    keys = Part(np.zeros(total, np.int64), np.zeros(total, np.int64))
    values = Part(np.zeros(total, np.int64), np.zeros(total, np.int64))
    rows, rank = np.flatnonzero(counts), 0
    while len(rows):
        key_lengths, key_starts = read_varints(view, cursors[rows])
        if (key_lengths < 0).any():
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "The key of a record header is null.")
        value_lengths, value_starts = read_varints(view, key_starts + key_lengths)
        after = value_starts + np.maximum(value_lengths, 0)
        if (after > ends[rows]).any():
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A header extends beyond its record.")
        elements = places[rows] + rank
        keys.starts[elements], keys.lengths[elements] = key_starts, key_lengths
        values.starts[elements], values.lengths[elements] = value_starts, value_lengths
        cursors[rows] = after
        rank += 1
        rows = rows[counts[rows] > rank]
    return keys, values, cursors


def _as_text(keys: pa.BinaryArray) -> pa.StringArray:
    """Return the keys as UTF-8; bytes that are not valid UTF-8 become what Java makes of them."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        encoded = pc.dictionary_encode(keys)
        words = [word.decode(errors="replace") for word in encoded.dictionary.to_pylist()]
        return pa.array(words, pa.string()).take(encoded.indices)

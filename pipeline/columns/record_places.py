"""The places of the parts of each record of many batches, found by the compiled walk or by numpy."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ottla.logstore import record_walk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.columns.binary_columns import Part
from ottla.pipeline.columns.record_walk import Section, walk_records
from ottla.pipeline.columns.varints import Bytes, Int64s, read_varints, read_varlongs

_COLUMNS: Final = 7


class Places(NamedTuple):
    """The end of each record, its deltas and the places of its parts, in the order of the sections."""

    ends: Int64s
    timestamp_deltas: Int64s
    offset_deltas: Int64s
    keys: Part
    values: Part


def find_places(content: Bytes, sections: Sequence[Section]) -> Places:
    """Find the records of `sections`, each of which holds at least one.

    Headers are not looked into. Raises CORRUPT_MESSAGE if lengths do not add up.
    """
    return _find_compiled(content, sections) if record_walk.IS_COMPILED else _find_by_numpy(content, sections)


def _find_compiled(content: Bytes, sections: Sequence[Section]) -> Places:
    rows = sum(section.records_count for section in sections)
    found = np.empty((_COLUMNS, rows), np.int64)
    into, row = found.data, 0
    for start, end, count in sections:
        problem, index = record_walk.places(content.data, start, end, count, into, row, rows)
        if problem:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, record_walk.describe_problem(problem, index))
        row += count
    ends, timestamp_deltas, offset_deltas, key_starts, key_lengths, value_starts, value_lengths = found
    keys, values = Part(key_starts, key_lengths), Part(value_starts, value_lengths)
    return Places(ends, timestamp_deltas, offset_deltas, keys, values)


def _find_by_numpy(content: Bytes, sections: Sequence[Section]) -> Places:
    starts, ends = walk_records(content, sections)
    timestamp_deltas, at = read_varlongs(content, starts + 1)
    offset_deltas, at = read_varints(content, at)
    key_lengths, key_starts = read_varints(content, at)
    keys = Part(key_starts, key_lengths)
    value_lengths, value_starts = read_varints(content, keys.ends)
    values = Part(value_starts, value_lengths)
    header_counts, after = read_varints(content, values.ends)
    # All that was read lies before `after`. Headers that do not end with their record are found by
    # `header_columns`, when they are read.
    if ((after > ends) | ((header_counts == 0) & (after != ends)) | (header_counts < 0)).any():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A record does not end where its fields end.")
    return Places(ends, timestamp_deltas, offset_deltas, keys, values)

"""Parts of a buffer as an Arrow column, copied by Arrow and not by Python."""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.logstore.words.varint import ByteSource
from ottla.pipeline.columns.number_columns import number_column
from ottla.pipeline.columns.varints import Int64s

MAX_COLUMN_BYTES: Final = 2**31 - 1  # Spark's columns have 32-bit offsets


class Part(NamedTuple):
    """The bytes of one field in each row: where they begin, and their number; a negative length is null."""

    starts: Int64s
    lengths: Int64s

    @property
    def ends(self) -> Int64s:
        return self.starts + np.maximum(self.lengths, 0)


def gather(content: ByteSource, first: Part, second: Part) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Return two columns of parts that alternate in the buffer: first, second, first, second and so on.

    The whole buffer, gaps included, is one Arrow array without a copy, and every fourth element of it is a
    row's first part. So `take` copies each part once, and the columns do not keep `content` alive.
    """
    places = _places(first, second)
    return _take(content, places, 0, first.lengths), _take(content, places, 2, second.lengths)


def gather_one(content: ByteSource, first: Part, second: Part, *, wants_second: bool) -> pa.BinaryArray:
    """Return only one of the two columns of `gather`."""
    places = _places(first, second)
    if wants_second:
        return _take(content, places, 2, second.lengths)
    return _take(content, places, 0, first.lengths)


def _places(first: Part, second: Part) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    rows = len(first.starts)
    places = np.empty(4 * rows + 1, np.int32)
    places[0:-1:4] = first.starts
    places[1::4] = first.ends
    places[2::4] = second.starts
    places[3::4] = ends = second.ends
    places[-1] = ends[-1] if rows else 0
    return places


def _take(
    content: ByteSource, places: np.ndarray[tuple[int], np.dtype[np.int32]], nth: int, lengths: Int64s
) -> pa.BinaryArray:
    elements = len(places) - 1
    whole = pa.Array.from_buffers(pa.binary(), elements, [None, pa.py_buffer(places), pa.py_buffer(content)])
    index = np.arange(nth, elements, 4, dtype=np.int32)
    is_null = lengths < 0
    return whole.take(number_column(index, pa.int32(), is_null=is_null if is_null.any() else None))

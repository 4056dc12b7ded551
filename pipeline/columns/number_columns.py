"""Numbers of numpy as Arrow columns, without a copy.

`pa.array` and Python scalars are avoided: they import pandas, only to check whether they were given an object
of pandas. That takes a third of a second in each new worker of Spark, and leaves thirty thousand objects that
its garbage collector walks through after each task.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def number_column(
    numbers: NDArray[Any], kind: pa.DataType, *, is_null: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return a column of `kind`, whose numbers must take as many bytes as those of `numbers`."""
    validity = None if is_null is None else _bits(~is_null)
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))])


def flag_column(flags: NDArray[np.bool_]) -> pa.BooleanArray:
    """Return a column of true and false."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def text_column(text: str, rows: int) -> pa.StringArray:
    """Return a column with one text in each row; raises OverflowError beyond 2 GiB."""
    content = text.encode()
    ends = np.arange(rows + 1, dtype=np.int64) * len(content)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{rows} times {len(content)} bytes are too many for a column")
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(content * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _bits(flags: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))

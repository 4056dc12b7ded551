"""Small batches of rows joined into larger ones.

Spark hands a task its rows ten thousand at a time. Per partition these are few, and a call of numpy or Arrow
costs microseconds whether it has ten rows to work on or ten thousand; so does a request to a node.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

# Enough that calls cost little per row, and not so much that a task's first rows leave late, that its columns
# of numbers (512 KiB each) fall out of a core's cache, or that workers need much memory.
ENOUGH_ROWS: Final = 2**16
ENOUGH_BYTES: Final = 4 * 1024 * 1024


def gather(
    batches: Iterable[pa.RecordBatch], *, enough_rows: int = ENOUGH_ROWS, enough_bytes: int = ENOUGH_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of `batches` in order, in batches of at least `enough_rows` or `enough_bytes`.

    A batch that is large enough by itself is passed on as it is. Batches without rows are left out.
    """
    waiting: list[pa.RecordBatch] = []
    rows, size_bytes = 0, 0
    for batch in batches:
        if not batch.num_rows:
            continue
        is_enough = batch.num_rows >= enough_rows or batch.nbytes >= enough_bytes
        if is_enough and waiting:
            yield _joined(waiting)
            waiting, rows, size_bytes = [], 0, 0
        waiting.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= enough_rows or size_bytes >= enough_bytes:
            yield _joined(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

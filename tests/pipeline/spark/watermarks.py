"""Spark's watermarks, computed independently: which rows of which batch are late, and which windows are over.

A batch's watermark is the latest time among the rows of the batches before, less the delay. It ends windows
in that batch. Rows are late by the watermark of the batch before, since the windows that it ended are dropped
by then. With two streams the earlier of their watermarks counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

BEGINNING = pd.Timestamp(0, tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """The watermark by which each row may be late, and that by which windows of each batch end.

    The last one belongs to a batch without rows, which Spark runs at the end.
    """

    late: pd.Series
    of_batch: Sequence[pd.Timestamp]

    @property
    def last(self) -> pd.Timestamp:
        return self.of_batch[-1]


def watermarks(times: pd.Series, rows_in_batch: int, delay: str) -> Watermarks:
    """Return the watermarks of a stream with these times; null if a row has none."""
    return watermarks_of([(times, delay)], rows_in_batch)[0]


def watermarks_of(streams: Sequence[tuple[pd.Series, str]], rows_in_batch: int) -> list[Watermarks]:
    """Return the watermarks of streams that are read together, each `rows_in_batch` rows a batch."""
    batches = max(-(-len(times) // rows_in_batch) for times, _ in streams)
    of_batch = [BEGINNING]
    for number in range(batches):
        end = (number + 1) * rows_in_batch
        each = [times.iloc[:end].max() - pd.Timedelta(delay) for times, delay in streams]
        of_batch.append(max(of_batch[-1], min(each)))
    late_of = [BEGINNING, *of_batch[:-1]]
    return [
        Watermarks(
            late=pd.Series(
                [late_of[index // rows_in_batch] for index in range(len(times))], index=times.index
            ),
            of_batch=of_batch,
        )
        for times, _ in streams
    ]

"""Spark's watermarks, told independently of it: which rows of which batch are late, and what is over.

A batch's watermark is the latest time among the rows of the batches before, less the delay. It ends what is
over in that batch; late are rows by the watermark of the batch before, for those that it ended were let go by
then. With two streams the earlier of their watermarks counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

BEGINNING = pd.Timestamp(0, tz="UTC")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermarks:
    """`late`: of each row the one by which it may be late. `of_batch`: of each batch the one by which things
    are over in it; the last is that of a batch without rows, which Spark runs at the end."""

    late: pd.Series
    of_batch: Sequence[pd.Timestamp]

    @property
    def last(self) -> pd.Timestamp:
        return self.of_batch[-1]


def watermarks(times: pd.Series, rows_in_batch: int, delay: str) -> Watermarks:
    """Of a stream with these times, null where a row has none."""
    return watermarks_of([(times, delay)], rows_in_batch)[0]


def watermarks_of(streams: Sequence[tuple[pd.Series, str]], rows_in_batch: int) -> list[Watermarks]:
    """Of streams that are read together, each so many rows a batch."""
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

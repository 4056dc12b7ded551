"""Fetches made of rows, and rows made of opened fetches."""

from typing import NamedTuple

from ottla.logstore.record import Record
from ottla.pipeline.columns.fetched_batches import Fetched, open_fetched

MAX_OFFSET = 2**63 - 1


class Aborted(NamedTuple):
    """One aborted transaction of a fetch response."""

    producer_id: int
    first_offset: int


def open_all(
    records: bytes,
    *,
    start: int = 0,
    end: int = MAX_OFFSET,
    aborted: tuple[Aborted, ...] = (),
    **limits: int,
) -> Fetched:
    return open_fetched(
        records, aborted=aborted, read_committed=True, start=start, end=end, with_headers=True, **limits
    )


def rows_of(fetched: Fetched) -> list[Record]:
    """Return the records of the columns."""
    columns = fetched.columns
    if columns is None:
        return []
    assert columns.keys is not None and columns.values is not None and columns.headers is not None
    columns.keys.validate(full=True)
    columns.values.validate(full=True)
    columns.headers.validate(full=True)
    return [
        Record(offset, timestamp, key, value, tuple((h["key"], h["value"]) for h in headers or ()))
        for offset, timestamp, key, value, headers in zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.headers.to_pylist(),
            strict=True,
        )
    ]

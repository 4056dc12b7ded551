"""A cursor over the records in a Fetch response, which opens them as they are read.

4 kB may decompress into millions of records: a caller that reads some of them pays for these alone, and some
nanoseconds for each record that it skips.
"""

from collections.abc import Iterator, Sequence

from ottla.logstore.compression import MAX_ZSTD_WINDOW_BYTES
from ottla.logstore.record import Record, iterate_records, records_from
from ottla.logstore.record_batch import check_batch, iterate_headers
from ottla.node.wire.messages.fetch import AbortedTransaction

_ABORT_MARKER = 0


class RecordCursor:
    """A cursor over the data records of whole batches, from an offset on.

    Iterating yields records, and None after a millisecond or so that found none. After each step `position`
    is the offset to continue with. Batches of aborted transactions are skipped, from the transaction's first
    offset to its marker. KafkaError if the bytes are not batches.
    """

    def __init__(
        self,
        view: memoryview,
        aborted: Sequence[AbortedTransaction],
        position: int,
        max_window_bytes: int = MAX_ZSTD_WINDOW_BYTES,
    ) -> None:
        self.position = position
        self.has_bytes = len(view) > 0
        # It has no reference to this cursor, so both are freed with their opened records as soon as reading
        # ends.
        self._found = _open(view, aborted, position, max_window_bytes)

    def __iter__(self) -> Iterator[Record | None]:
        return self

    def __next__(self) -> Record | None:
        found = next(self._found)
        if isinstance(found, int):
            self.position = max(self.position, found)
            return None
        if found is not None:
            self.position = found.offset + 1
        return found


def _open(
    view: memoryview, aborted: Sequence[AbortedTransaction], offset: int, max_window_bytes: int
) -> Iterator[Record | int | None]:
    """Yield the data records from `offset` on, None for pauses, and after each batch the next offset."""
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    open_aborted: set[int] = set()
    for start, header in iterate_headers(view):
        check_batch(view, start)
        batch = view[start : start + header.size_bytes]
        while waiting and waiting[-1].first_offset <= header.last_offset:
            open_aborted.add(waiting.pop().producer_id)
        if header.is_control:
            marker = next(iterate_records(batch), None)
            kind = int.from_bytes((marker.key or b"")[2:4], "big") if marker is not None else -1
            if kind == _ABORT_MARKER:
                open_aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_aborted):
            yield from records_from(batch, offset, max_window_bytes)
        yield header.next_offset

"""Reads the headers of the batches in a slice of the log, from which a share fetch acquires.

Headers are read piece by piece, and no further than the fetch could acquire or skip: members take some
hundred records at a time from a log that has millions. The records themselves are not read.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.logstore.disk import FileSlice
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, read_header
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer

# Bytes read at once: some dozens of small batches, or the header of a large one and a part of its records.
CHUNK_BYTES: Final = 16 * 1024


class ReadBatches(NamedTuple):
    """The whole batches of a slice: their first and last offsets, and their positions in the slice."""

    base_offsets: Sequence[int]
    last_offsets: Sequence[int]
    positions: Sequence[int]  # of the start of each batch, and of the end of the last
    aborted: Sequence[tuple[int, int]]  # the offsets of batches of aborted transactions

    @property
    def size_bytes(self) -> int:
        """The bytes of all these batches."""
        return self.positions[-1]

    def span(self, first_offset: int, last_offset: int) -> tuple[int, int]:
        """Return the positions, from and to, of the batches that have these offsets."""
        begin = bisect_left(self.last_offsets, first_offset)
        end = bisect_right(self.base_offsets, last_offset)
        return self.positions[begin], self.positions[max(begin, end)]


Read = Callable[[FileSlice], Buffer | None]


def read_batches(
    piece: FileSlice,
    read: Read,
    *,
    last_offset: int,
    aborted: Sequence[AbortedTransaction],
    further_offset: int = -1,
    further_bytes: int = 0,
) -> ReadBatches | None:
    """Read the headers of a slice up to the batch that has `last_offset`; None if `read` returns None.

    It goes on to `further_offset` while all batches together have fewer than `further_bytes`. `aborted` are
    the transactions with records in the slice, ordered by their first offset. Raises KafkaError with
    CORRUPT_MESSAGE if a batch is not valid.
    """
    bases: list[int] = []
    lasts: list[int] = []
    positions = [0]
    ranges: list[tuple[int, int]] = []
    producers: set[int] = set()
    next_aborted = 0
    chunk: Buffer = b""
    chunk_at = position = 0
    while position + HEADER_SIZE <= piece.size:
        if position + HEADER_SIZE > chunk_at + len(chunk):
            size = min(CHUNK_BYTES, piece.size - position)
            found = read(FileSlice(piece.file, piece.position + position, size))
            if found is None:
                return None
            chunk, chunk_at = found, position
            if len(chunk) < HEADER_SIZE:
                break  # the log was truncated meanwhile
        header = read_header(chunk, position - chunk_at)
        size = LOG_OVERHEAD + header.batch_length
        if size < HEADER_SIZE or (bases and header.base_offset <= lasts[-1]):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
        if position + size > piece.size:
            break  # the limit of the read has cut this batch
        first, last = header.base_offset, header.last_offset
        bases.append(first)
        lasts.append(last)
        position += size
        positions.append(position)
        if aborted and header.producer_id >= 0:
            while next_aborted < len(aborted) and aborted[next_aborted].first_offset <= last:
                producers.add(aborted[next_aborted].producer_id)
                next_aborted += 1
            if header.is_control:
                # The marker ends the aborted transaction that is open here.
                producers.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in producers:
                ranges.append((first, last))
        if last >= last_offset and (last >= further_offset or position >= further_bytes):
            break
    return ReadBatches(bases, lasts, positions, ranges)

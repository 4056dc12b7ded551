"""The batches of a slice of the log, by their headers: what a share fetch may acquire of it.

Headers are read piece by piece, and no further than what the fetch could acquire, or pass over: members take
some hundred records at a time of a log that has millions. The records themselves are not looked at.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.logstore.disk import FileSlice
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, read_header
from ottla.logstore.transaction_index import AbortedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer

# Read at once: some dozens of small batches, or the header of a large one and a part of its records.
CHUNK_BYTES: Final = 16 * 1024


class ReadBatches(NamedTuple):
    """Whole batches of a slice: their first and last offsets, and where each begins and the last one ends."""

    base_offsets: Sequence[int]
    last_offsets: Sequence[int]
    positions: Sequence[int]  # one more than there are batches
    aborted: Sequence[tuple[int, int]]  # the offsets of batches of aborted transactions

    @property
    def size_bytes(self) -> int:
        """The bytes of all these batches."""
        return self.positions[-1]

    def span(self, first_offset: int, last_offset: int) -> tuple[int, int]:
        """Return the bytes, from and to, of the batches that have these offsets."""
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
    """Read the headers of a slice up to the batch that has `last_offset`; None where `read` gives None.

    It goes on to `further_offset` while all together have fewer than so many bytes. `aborted` are the
    transactions that have records in it, by their first offset. CORRUPT_MESSAGE for what is no batch.
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
                break  # the log was cut meanwhile
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
                # The marker that ends its transaction: one that was aborted, as it was open here.
                producers.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in producers:
                ranges.append((first, last))
        if last >= last_offset and (last >= further_offset or position >= further_bytes):
            break
    return ReadBatches(bases, lasts, positions, ranges)

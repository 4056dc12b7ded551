"""Zig-zag varints at many positions at once, and the sizes and bytes of many numbers.

Positions are int64 and may lie anywhere: a read beyond the content gets its last byte, so that wrong lengths
cost nothing and raise nothing here. Callers prove afterwards that each record ended where it said it would
(`record_walk`, `fetched_batches`), so that no read has left it.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]

# Nearly all varints have one byte or two. Three tables over all pairs of bytes, first byte low: the number
# that begins with the pair, how many bytes it takes (0: more than two), and how far a record with this length
# reaches.
_PAIRS: Final = np.arange(2**16)
_FOLDED: Final = np.where(_PAIRS & 0x80, (_PAIRS & 0x7F) | (_PAIRS >> 8) << 7, _PAIRS & 0x7F)
NUMBER_OF_PAIR: Final = (_FOLDED >> 1) ^ -(_FOLDED & 1)
SIZE_OF_PAIR: Final = np.where(_PAIRS & 0x80, np.where(_PAIRS >> 15, 0, 2), 1)
REACH_OF_PAIR: Final = np.where(SIZE_OF_PAIR == 0, 0, SIZE_OF_PAIR + (_FOLDED >> 1))
# A table of the varints of -1 to 65,534: with it the lengths of keys and values are written in one gather.
_TABLE_NUMBERS: Final = 2**16
_CONTINUES: Final = 0x80
_PAIR: Final = np.dtype("<u2")


def read_pairs(content: Bytes, positions: Int64s) -> NDArray[np.uint16]:
    """Return the two bytes at each position, the first one low."""
    # A negative position is a very large one here.
    if len(content) < 2 or int(positions.view(np.uint64).max(initial=0)) > len(content) - 2:
        second = content.take(positions + 1, mode="clip").astype(np.uint16)
        return second << np.uint16(8) | content.take(positions, mode="clip")
    # The access to memory is what costs, so both bytes are read at once, aligned or not.
    pairs: NDArray[np.uint16] = np.ndarray(len(content) - 1, _PAIR, content, strides=(1,))
    return pairs[positions]


def read_varints(
    content: Bytes, positions: Int64s, *, max_bytes: int = MAX_VARINT_BYTES
) -> tuple[Int64s, Int64s]:
    """Return the numbers at `positions` and the positions after them.

    Raises CORRUPT_MESSAGE for a number that is too long.
    """
    # One field's numbers are much alike in all records, and one byte is read faster than two.
    if (content.take(positions[-1:], mode="clip") < _CONTINUES).all():
        first = content.take(positions, mode="clip")
        if not len(first) or first.max() < _CONTINUES:
            return NUMBER_OF_PAIR.take(first), positions + 1
    pairs = read_pairs(content, positions)
    sizes = SIZE_OF_PAIR.take(pairs)
    numbers, after = NUMBER_OF_PAIR.take(pairs), positions + sizes
    longer = np.flatnonzero(sizes == 0)
    if len(longer):
        numbers[longer], after[longer] = _read_long(content, positions[longer], max_bytes)
    return numbers, after


def _read_long(content: Bytes, positions: Int64s, max_bytes: int) -> tuple[Int64s, Int64s]:
    """Read varints of two bytes or more."""
    folded = (content.take(positions, mode="clip") & 0x7F).astype(np.uint64)
    after = positions + 1
    longer = np.arange(len(positions))
    shift = 7
    while len(longer):
        if shift >= 7 * max_bytes:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"A varint is longer than {max_bytes} bytes.")
        byte = content.take(after[longer], mode="clip")
        # Bits beyond the 64th fall off, as in every Java client.
        folded[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        longer = longer[byte >= _CONTINUES]
        shift += 7
    signs = -(folded & np.uint64(1)).astype(np.int64)
    return (folded >> np.uint64(1)).astype(np.int64) ^ signs, after


def read_varlongs(content: Bytes, positions: Int64s) -> tuple[Int64s, Int64s]:
    """Read numbers of 64 bits (timestamp deltas), otherwise as `read_varints`."""
    return read_varints(content, positions, max_bytes=MAX_VARLONG_BYTES)


def varint_sizes(numbers: Int64s) -> Int64s:
    """Return the number of bytes that each number takes."""
    folded = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    shift, largest = 7, int(folded.max(initial=0))
    while largest >> shift:
        sizes += folded >= np.uint64(1 << shift)
        shift += 7
    return sizes


def write_varints(numbers: Int64s) -> pa.BinaryArray:
    """Return the bytes of each number."""
    if len(numbers) and numbers.min() >= -1 and numbers.max() < _TABLE_NUMBERS - 1:
        return _table().take(pa.array(numbers + 1))
    return _write_out(numbers)


def _write_out(numbers: Int64s) -> pa.BinaryArray:
    folded = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    sizes = varint_sizes(numbers)
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    written = np.empty(offsets[-1], np.uint8)
    for index in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > index)
        byte = ((folded[rows] >> np.uint64(7 * index)) & np.uint64(0x7F)).astype(np.uint8)
        byte[sizes[rows] > index + 1] |= _CONTINUES
        written[offsets[:-1][rows] + index] = byte
    return pa.Array.from_buffers(
        pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(written)]
    )


_tables: list[pa.BinaryArray] = []


def _table() -> pa.BinaryArray:
    # Made when first needed: a process that only reads has no use for it.
    if not _tables:
        _tables.append(_write_out(np.arange(-1, _TABLE_NUMBERS - 1, dtype=np.int64)))
    return _tables[0]

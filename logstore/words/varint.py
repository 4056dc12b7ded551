"""Zig-zag varints (Protocol Buffers' sint32 and sint64): lengths, deltas and counts of record batch v2.

Each byte has seven bits of the number, least significant first; its high bit says that more bytes follow.
Signed numbers are folded so that small negative ones stay short: 0 -1 1 -2 2 become 0 1 2 3 4. Bytes that are
not a varint raise INVALID_RECORD.
"""

from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError

MAX_VARINT_BYTES: Final = 5  # 32 bits at 7 bits a byte
MAX_VARLONG_BYTES: Final = 10  # 64 bits at 7 bits a byte

ByteSource = bytes | bytearray | memoryview


def append_varint(target: bytearray, number: int) -> None:
    """Append `number`, any signed integer of at most 64 bits, to `target`."""
    folded = (number << 1) ^ (number >> 63)
    while folded > 0x7F:
        target.append(folded & 0x7F | 0x80)
        folded >>= 7
    target.append(folded)


def read_varint(source: ByteSource, position: int, *, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """Return the number at `position` and the position after it; INVALID_RECORD if cut off or too long."""
    try:
        byte = source[position]
        if byte < 0x80:  # Nearly every varint of a record is one byte long.
            return (byte >> 1) ^ -(byte & 1), position + 1
        folded, shift, end = byte & 0x7F, 7, position + 1
        while True:
            byte = source[end]
            end += 1
            folded |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if end - position >= max_bytes:
                raise KafkaError(ErrorCode.INVALID_RECORD, f"A varint is longer than {max_bytes} bytes.")
    except IndexError:
        raise KafkaError(ErrorCode.INVALID_RECORD, "A varint is cut off.") from None
    if (
        shift >= 63
    ):  # The tenth byte has one bit of the number; the others are dropped as in every Java client.
        folded &= 0xFFFF_FFFF_FFFF_FFFF
    return (folded >> 1) ^ -(folded & 1), end


def read_varlong(source: ByteSource, position: int) -> tuple[int, int]:
    """Return the 64-bit number (a timestamp delta) at `position` and the position after it."""
    return read_varint(source, position, max_bytes=MAX_VARLONG_BYTES)

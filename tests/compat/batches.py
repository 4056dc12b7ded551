"""Record batches for the tests, built by hand: valid by default, and wrong in any field on demand."""

import struct
import time
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
FIELDS = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "records_count",
)
TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 1 << 4, 1 << 5, 1 << 3
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def now_ms() -> int:
    return int(time.time() * 1000)


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def record(delta: int, value: bytes | None, key: bytes | None = None, timestamp_delta: int = 0) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def batch(
    values: Sequence[bytes | None] = (b"value",), *, keys: Sequence[bytes | None] | None = None, **wrong: Any
) -> bytes:
    """Return a batch of the values, with a CRC that fits.

    `wrong` sets any header field, or the bytes of `records`.
    """
    first = wrong.pop("base_timestamp", now_ms())
    fields: dict[str, Any] = {
        "base_offset": 0,
        "partition_leader_epoch": -1,
        "magic": 2,
        "attributes": 0,
        "last_offset_delta": len(values) - 1,
        "base_timestamp": first,
        "max_timestamp": first,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": len(values),
    }
    own = keys if keys is not None else [None] * len(values)
    records = wrong.pop(
        "records", b"".join(record(i, v, k) for i, (v, k) in enumerate(zip(values, own, strict=True)))
    )
    fields |= {"batch_length": HEADER.size - 12 + len(records), "crc": 0, **wrong}
    raw = bytearray(HEADER.pack(*(fields[name] for name in FIELDS)) + records)
    if "crc" not in wrong:
        struct.pack_into(">I", raw, 17, crc32c(bytes(raw[21:])))
    return bytes(raw)


def read_headers(records: bytes | memoryview | None) -> list[dict[str, int]]:
    """Return the headers of the whole batches in fetched bytes."""
    data = bytes(records or b"")
    found, at = [], 0
    while at + HEADER.size <= len(data):
        header = dict(zip(FIELDS, HEADER.unpack_from(data, at), strict=True))
        found.append(header)
        at += 12 + header["batch_length"]
    return found

"""Produce and Fetch frames, built once and replayed: a generator that serialises would measure itself.

They are built with `struct` and not with Ottla's codec, so that the load does not depend on the code under
test. The versions are Produce 8 and Fetch 11, the newest that are not flexible, which every broker serves.
"""

import random
import struct
from dataclasses import dataclass

import lz4.frame
import zstandard
from crc32c import crc32c

PRODUCE_VERSION = 8
FETCH_VERSION = 11
CLIENT_ID = b"bench"
COMPRESSIONS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
WORDS = [f"{a}{b}" for a in ("delay", "origin", "carrier", "tail", "gate") for b in range(400)]
TIMESTAMP_MS = 1_790_000_000_000
BATCH = struct.Struct(">qiibIhiqqqhii")
CRC_AT, CRC_FROM, PRODUCER_ID_AT = 17, 21, 43
SIZE_AND_CORRELATION_ID = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A record batch as a producer sends it; `payload_bytes` counts the uncompressed record values."""

    data: bytes
    records: int
    payload_bytes: int


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def values(count: int, size_bytes: int, seed: int = 1) -> list[bytes]:
    """Return distinct texts that compress about as well as JSON, three to one."""
    chance = random.Random(seed)
    length = size_bytes // 8 + 2
    return [
        " ".join(chance.choices(WORDS, k=length)).encode()[:size_bytes].ljust(size_bytes)
        for _ in range(count)
    ]


def build_batch(
    record_bytes: int, batch_bytes: int, compression: str = "none", timestamp_ms: int = TIMESTAMP_MS
) -> Batch:
    """Return a batch of as many records as fit in `batch_bytes` uncompressed; at least one."""
    overhead_bytes = 12
    count = max(1, (batch_bytes - BATCH.size) // (record_bytes + overhead_bytes))
    distinct = values(min(count, 1000), record_bytes)
    out = bytearray()
    for delta in range(count):
        value = distinct[delta % len(distinct)]
        body = b"\0\0" + varint(delta) + b"\x01" + varint(len(value)) + value + b"\0"
        out += varint(len(body)) + body
    records = bytes(out)
    if compression == "lz4":
        records = lz4.frame.compress(records)
    elif compression == "zstd":
        records = zstandard.ZstdCompressor(level=3).compress(records)
    tail = struct.pack(
        ">hiqqqhii", COMPRESSIONS[compression], count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count
    )
    crc = crc32c(tail + records)
    head = struct.pack(">qiibI", 0, len(tail) + len(records) + 9, -1, 2, crc)
    return Batch(data=head + tail + records, records=count, payload_bytes=count * record_bytes)


def header(api_key: int, version: int) -> bytes:
    """Return a request header v1 with correlation id 0, without the size."""
    return struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID


def produce_frame(topic: str, partitions: list[int], batch: bytes, acks: int) -> bytearray:
    """Return a Produce request that sends `batch` to each of the partitions, with its size."""
    name = topic.encode()
    body = struct.pack(">hhiih", -1, acks, 30_000, 1, len(name)) + name + struct.pack(">i", len(partitions))
    parts = b"".join(struct.pack(">ii", partition, len(batch)) + batch for partition in partitions)
    frame = header(0, PRODUCE_VERSION) + body + parts
    return bytearray(struct.pack(">i", len(frame)) + frame)


def stamp(frame: bytearray, batch_at: int, producer_id: int, sequence: int) -> None:
    """Write producer id, epoch 0 and sequence into the batch that starts at `batch_at`; renew its CRC."""
    struct.pack_into(">qhi", frame, batch_at + PRODUCER_ID_AT, producer_id, 0, sequence)
    with memoryview(frame) as view:
        crc = crc32c(view[batch_at + CRC_FROM :])
    struct.pack_into(">I", frame, batch_at + CRC_AT, crc)


def produce_response_bytes(topic: str, partitions: int) -> int:
    """Return the size of a response without errors, size prefix included."""
    one_partition = 4 + 2 + 8 + 8 + 8 + 4 + 2
    return SIZE_AND_CORRELATION_ID + 4 + 2 + len(topic) + 4 + partitions * one_partition + 4


def produce_error_at(topic: str) -> int:
    """Return the position of the first partition's error code in a response, size prefix included."""
    return SIZE_AND_CORRELATION_ID + 4 + 2 + len(topic) + 4 + 4


FETCH_OFFSET_FROM_END = 8 + 8 + 4 + 4 + 2  # offset, log start, max bytes, no forgotten topics, empty rack


def fetch_frame(
    topic: str, partition: int, max_wait_ms: int, partition_max_bytes: int, isolation_level: int = 0
) -> bytearray:
    """Return a sessionless Fetch of one partition; the offset is at `len(frame) - FETCH_OFFSET_FROM_END`."""
    name = topic.encode()
    body = struct.pack(">iiiibii", -1, max_wait_ms, 1, 52_428_800, isolation_level, 0, -1)
    body += struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iiiqqi", 1, partition, -1, 0, -1, partition_max_bytes) + struct.pack(">ih", 0, 0)
    frame = header(1, FETCH_VERSION) + body
    return bytearray(struct.pack(">i", len(frame)) + frame)


def fetch_error_at(topic: str) -> int:
    """Return the position of the first partition's error code in a response, size prefix included."""
    return 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4


def records_of(response: memoryview, topic: str) -> tuple[int, memoryview]:
    """Return (error code, records) of a Fetch response for one partition, without its size prefix."""
    error, _, records = fetched(response, topic)
    return error, records


def fetched(response: memoryview, topic: str) -> tuple[int, list[tuple[int, int]], memoryview]:
    """Return (error code, aborted transactions, records) of a Fetch response for one partition.

    An aborted transaction is (first offset, producer id).
    """
    at = 4 + 4 + 2 + 4
    topics = struct.unpack_from(">i", response, at)[0]
    if topics == 0:
        return 0, [], response[:0]
    at += 4 + 2 + len(topic) + 4 + 4
    error = struct.unpack_from(">h", response, at)[0]
    at += 2 + 24
    count = max(0, struct.unpack_from(">i", response, at)[0])
    rows = struct.unpack_from(f">{2 * count}q", response, at + 4)
    at += 4 + 16 * count + 4
    size = max(0, struct.unpack_from(">i", response, at)[0])
    return error, list(zip(rows[1::2], rows[::2], strict=True)), response[at + 4 : at + 4 + size]


def end_of(records: memoryview, offset: int) -> tuple[int, int]:
    """Return (next offset, number of records) of the whole batches in `records`; (offset, 0) if none."""
    at, count = 0, 0
    while at + BATCH.size <= len(records):
        base, size = struct.unpack_from(">qi", records, at)
        if at + 12 + size > len(records):
            break
        offset = base + struct.unpack_from(">i", records, at + 23)[0] + 1
        count += struct.unpack_from(">i", records, at + 57)[0]
        at += 12 + size
    return offset, count

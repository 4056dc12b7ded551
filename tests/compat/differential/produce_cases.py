"""Produce: every field of a batch header, valid and invalid, and the idempotent producer."""

from collections.abc import Callable
from typing import Any

from ottla.logstore.compression import Compression, compress
from tests.compat.batches import CONTROL, TRANSACTIONAL, batch, record, varint
from tests.compat.differential.cases import LONG_AGO_MS, Context, Fields, case


def produce(
    name: str, *partitions: tuple[int, Callable[[], bytes]], topic: str | None = None, **fields: Any
) -> None:
    def ask(c: Context) -> Fields:
        data = [{"index": index, "records": make()} for index, make in partitions]
        wanted = c.named(13, topic, partition_data=data)
        repeat = fields.get("repeat", 1)
        rest = {key: value for key, value in fields.items() if key != "repeat"}
        return {"acks": -1, "timeout_ms": 3000, "topic_data": [wanted] * repeat, **rest}

    case("produce", name, ask)


def made(values: tuple[bytes, ...] = (b"value",), **wrong: Any) -> Callable[[], bytes]:
    return lambda: batch(values, **{"base_timestamp": LONG_AGO_MS, **wrong})


produce("one record", (0, made()))
produce("two partitions", (0, made((b"a", b"b"))), (1, made()))
produce("one of them missing", (0, made()), (7, made()), (-1, made()))
produce("a transactional one beside others", (0, made()), (1, made(attributes=TRANSACTIONAL)), (7, made()))
produce("unknown topic", (0, made()), topic="no-such-topic")
produce("illegal topic", (0, made()), topic="bad name")
produce("acks 1", (0, made()), acks=1)
produce("acks 2", (0, made()), acks=2)
produce("no timeout", (0, made()), timeout_ms=0)
produce("negative timeout", (0, made()), timeout_ms=-1)
produce("no partitions")
produce("no topics", repeat=0)
produce("empty", (0, lambda: b""))
produce("garbage", (0, lambda: b"garbage that is longer than a batch header of sixty-one bytes is, by far"))
produce("zeros", (0, lambda: bytes(200)))
produce("two batches", (0, lambda: made()() + made()()))
produce("tail", (0, lambda: made()() + b"\0" * 11))
produce("tail of a header", (0, lambda: made()() + b"\0" * 61))
for field, values in {
    "magic": (0, 1, 3, -1),
    "crc": (0,),
    "batch_length": (0, -1, 48, 49, 60, 2**31 - 1),
    "base_offset": (1, -1, 2**40),
    "records_count": (0, 2, -1, 2**31 - 1),
    "last_offset_delta": (-1, 1, 2**31 - 1),
    "attributes": (CONTROL, TRANSACTIONAL, 1 << 6, 1 << 7, -(1 << 15), 1 << 3),
    "partition_leader_epoch": (5,),
    "max_timestamp": (LONG_AGO_MS + 5, LONG_AGO_MS - 5, -1),
    "base_timestamp": (-1, -5),
    "base_sequence": (5, -2),
    "producer_epoch": (3,),
}.items():
    for value in values:
        produce(f"{field} {value}", (0, made((b"value",), **{field: value})))
produce("magic 1, transactional", (0, made((b"value",), magic=1, attributes=TRANSACTIONAL)))
produce("idempotent without sequence", (0, made(producer_id=9, producer_epoch=0, base_sequence=-1)))
produce("idempotent without epoch", (0, made(producer_id=9, producer_epoch=-1, base_sequence=0)))
produce("idempotent first", (0, made(producer_id=900, producer_epoch=1, base_sequence=0)))
produce("idempotent again", (0, made(producer_id=900, producer_epoch=1, base_sequence=0)))
produce("idempotent gap", (0, made(producer_id=900, producer_epoch=1, base_sequence=5)))
produce("idempotent old epoch", (0, made(producer_id=900, producer_epoch=0, base_sequence=1)))
produce("idempotent new epoch", (0, made(producer_id=900, producer_epoch=2, base_sequence=0)))
produce("idempotent new epoch from 3", (0, made(producer_id=900, producer_epoch=3, base_sequence=3)))
produce("no value", (0, lambda: batch([None], base_timestamp=LONG_AGO_MS)))


def produce_compacted(name: str, keys: list[bytes | None]) -> None:
    def ask(c: Context) -> Fields:
        data = batch([b"v"] * len(keys), keys=keys, base_timestamp=LONG_AGO_MS)
        return {
            "acks": -1,
            "timeout_ms": 3000,
            "topic_data": [{"name": c.compacted, "partition_data": [{"index": 0, "records": data}]}],
        }

    case("produce", name, ask, until=12)


def damaged(name: str, records: bytes, count: int, codec: Compression = Compression.NONE) -> None:
    """Add a case with records that are invalid, or not compressed as stated, under a valid header."""
    delta = {"last_offset_delta": count - 1, "records_count": count, "attributes": int(codec)}
    produce(f"records: {name}, {codec.name.lower()}", (0, made((b"v",), records=records, **delta)))


ONE, TWO = record(0, b"v"), record(0, b"v") + record(1, b"v")
for label, content, counted in (
    ("count 1000 for one", ONE, 1000),
    ("count 2^31-1 for one", ONE, 2**31 - 1),
    ("count 1 for two", TWO, 1),
    ("nothing", b"", 1),
    ("no length", b"\0", 1),
    ("a byte behind", TWO + b"\0", 2),
    ("header without a key", b"\x12\0\0\0\x01\x02v\x02\x01\0", 1),
    ("header without a value", b"\x14\0\0\0\x01\x02v\x02\x02h\x01", 1),
    ("count of headers", b"\x0e\0\0\0\x01\x02v\x0a", 1),
    ("attributes", b"\x0e\xff" + ONE[2:], 1),
    ("late", record(0, b"v", timestamp_delta=10**13), 1),
):
    for packed in (Compression.NONE, Compression.GZIP, Compression.ZSTD):
        damaged(label, compress(packed, content), counted, packed)
# Not compressed only: Apache Kafka stores these records if they are compressed. It also stores records that
# are not compressed and whose offset deltas are wrong, which no case has.
damaged("negative length", varint(-5) + ONE[1:], 1)
damaged("length beyond the end", varint(100) + ONE[1:], 1)
for packed in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
    damaged("garbage", b"\xee" * 60, 1, packed)
    damaged("cut off", compress(packed, TWO)[:-1], 2, packed)
    damaged("sound", compress(packed, TWO), 2, packed)

produce_compacted("compacted with keys", [b"a", b"b"])
produce_compacted("compacted without keys", [None, b"b", None])

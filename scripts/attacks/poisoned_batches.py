"""Corrupt batches that Kafka's consumers could not get past: nodes must reject all and keep nothing of them.

They have false counts, lengths below zero or beyond the end, trailing bytes, garbage marked as compressed, or
125,000 empty gzip members, which once took quadratic time.
"""

import gzip
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from attacks.attack import Attack
from attacks.hostile import TIMEOUT_S, at_leader, codes_in, in_words
from attacks.nodes import Nodes
from ottla.logstore.words.schema_compiler import decode
from tests.compat.batches import GZIP, LZ4, SNAPPY, ZSTD, batch, record, varint
from tests.compat.wire_client import WireClient, eventually, message_class

TOPIC: Final = "poisoned"
LARGE_TOPIC: Final = "poisoned-members"
ROUNDS: Final = 40
OVERSTATED_ROUNDS: Final = 1_500
IN_FLIGHT: Final = 50
MEMBERS: Final = 125_000
MEMBER_ROUNDS: Final = 4
MOST: Final = 2**31 - 1
_GARBAGE: Final = bytes(number * 167 % 251 for number in range(2_000))
_MAGIC: Final = {
    GZIP: b"\x1f\x8b\x08\x00",
    SNAPPY: b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x07\xd0",
    LZ4: b"\x04\x22\x4d\x18\x60\x40\x82",
    ZSTD: b"\x28\xb5\x2f\xfd\x24",
}


def _body(delta: bytes, key: bytes, value: bytes, headers: bytes = b"\0") -> bytes:
    """Return a record of these encoded parts, with the correct length."""
    body = b"\0\0" + delta + key + value + headers
    return varint(len(body)) + body


def poisons() -> dict[str, bytes]:
    """Return a batch for each kind of corruption, by its description."""
    good = record(0, b"value")
    null = varint(-1)
    wrong = {
        "a count of 1,000": batch(records_count=1_000, last_offset_delta=999),
        "a count below zero": batch(records_count=-1),
        "no records": batch(records_count=0, last_offset_delta=-1, records=b""),
        "a delta of the last offset beyond": batch(last_offset_delta=5),
        "a length below zero": batch(records=varint(-7) + good[1:]),
        "a length beyond the end": batch(records=varint(MOST) + good[1:]),
        "a key's length beyond the record": batch(records=_body(varint(0), varint(MOST), null)),
        "a value's length beyond the record": batch(records=_body(varint(0), null, varint(MOST))),
        "headers below zero": batch(records=_body(varint(0), null, null, varint(-1))),
        "headers without end": batch(records=_body(varint(0), null, null, varint(MOST))),
        "another offset's delta": batch(records=record(3, b"value")),
        "bytes left over": batch(records=good + b"\0\0\0"),
        "a length that never ends": batch(records=b"\xff" * 20),
    }
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        wrong[f"garbage as codec {codec}"] = batch(attributes=codec, records=_GARBAGE)
        wrong[f"garbage behind the head of codec {codec}"] = batch(
            attributes=codec, records=_MAGIC[codec] + _GARBAGE
        )
    return wrong


def overstated() -> bytes:
    """Return a batch of one record that claims 2^31-1; 1,500 such batches once created 6,003 files."""
    return batch(records_count=MOST, last_offset_delta=MOST - 1)


def _make(nodes: Nodes, topic: str, **configs: str) -> None:
    with nodes.connect() as client:
        wanted = {
            "name": topic,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }
        client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000)
    leader = at_leader(nodes, topic)
    codes = eventually(lambda: _produce(leader, topic, [batch()]), lambda codes: set(codes) == {0})
    assert set(codes) == {0}, in_words(codes)


def _produce(nodes: Nodes, topic: str, batches: Sequence[bytes]) -> Counter[int]:
    """Produce each batch in a request of its own, IN_FLIGHT at a time; return the error codes."""
    codes: Counter[int] = Counter()
    response = message_class("produce", "Response")
    with nodes.connect(timeout_s=TIMEOUT_S) as client:
        for first in range(0, len(batches), IN_FLIGHT):
            some = batches[first : first + IN_FLIGHT]
            for one in some:
                data = [{"name": topic, "partition_data": [{"index": 0, "records": one}]}]
                client.send("produce", 9, acks=1, timeout_ms=30_000, topic_data=data)
            for _ in some:
                frame = client.receive_frame()
                codes += codes_in(decode(response, 9, frame[5:]))
                assert struct.unpack_from(">i", frame)[0] <= client.correlation_id
    return codes


def _end_offset(client: WireClient, topic: str) -> int:
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    answer: Any = client.call("list_offsets", 7, replica_id=-1, topics=topics)
    return int(answer.topics[0].partitions[0].offset)


def _files(nodes: Nodes, topic: str) -> int:
    homes = [one.home.directory for one in nodes.processes]
    return sum(1 for home in homes for one in home.glob(f"*/{topic}-0/*") if one.is_file())


def _check_refusals(nodes: Nodes, topic: str, batches: Sequence[bytes]) -> str:
    """Produce the batches, and return the error codes; AssertionError if a node accepts or keeps any."""
    leader = at_leader(nodes, topic)
    files = _files(nodes, topic)
    with leader.connect() as client:
        end = _end_offset(client, topic)
        codes = _produce(leader, topic, batches)
        assert not codes[0], f"{codes[0]} poisoned batches were accepted"
        assert _end_offset(client, topic) == end, "a part of a poisoned batch is in the log"
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic": topic, "partitions": [partition]}]
        fetched = client.call("fetch", 12, max_wait_ms=0, min_bytes=0, topics=topics)
        assert not fetched.responses[0].partitions[0].error_code, "the log cannot be read any more"
    made = _files(nodes, topic) - files
    assert not made, f"{made} files were created"
    return in_words(codes)


def _prepare(nodes: Nodes) -> None:
    _make(nodes, TOPIC)


def _send_each(nodes: Nodes) -> str:
    taken = [name for name, one in poisons().items() if _produce(at_leader(nodes, TOPIC), TOPIC, [one])[0]]
    assert not taken, f"accepted: {', '.join(taken)}"
    return _check_refusals(nodes, TOPIC, [*poisons().values()] * ROUNDS)


def _send_overstated(nodes: Nodes) -> str:
    return _check_refusals(nodes, TOPIC, [overstated()] * OVERSTATED_ROUNDS)


def _prepare_members(nodes: Nodes) -> None:
    _make(nodes, LARGE_TOPIC, **{"max.message.bytes": "10000000"})


def _send_members(nodes: Nodes) -> str:
    empty = gzip.compress(b"", mtime=0)
    poison = batch(attributes=GZIP, records=empty * MEMBERS)
    return _check_refusals(nodes, LARGE_TOPIC, [poison] * MEMBER_ROUNDS)


ATTACKS: Final[Sequence[Attack]] = (
    Attack(
        name="poisoned-batches",
        sends=f"{len(poisons())} kinds of batches with wrong counts, lengths or garbage, {ROUNDS} times",
        send=_send_each,
        prepare=_prepare,
        cpu_s=2.0,
    ),
    Attack(
        name="lying-counts",
        sends=f"{OVERSTATED_ROUNDS:,} batches of one record that claim 2,147,483,647",
        send=_send_overstated,
        prepare=_prepare,
        cpu_s=2.0,
    ),
    Attack(
        name="empty-gzip-members",
        sends=f"{MEMBER_ROUNDS} batches of {MEMBERS:,} empty members of gzip",
        send=_send_members,
        prepare=_prepare_members,
        cpu_s=3.0,
    ),
)

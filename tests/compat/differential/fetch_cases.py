"""Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords and DescribeProducers."""

from typing import Any

from tests.compat.differential.cases import LONG_AGO_MS, Context, Fields, case


def fetch(
    name: str, *partitions: Fields, topic: str | None = None, since: int = 0, repeat: int = 1, **fields: Any
) -> None:
    def ask(c: Context) -> Fields:
        listed = [
            {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 300, **one} for one in partitions
        ]
        own = {key: value for key, value in fields.items() if c.version >= 7 or not key.startswith("session")}
        topics = [c.named(13, topic, partitions=listed)] * repeat
        return {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 100_000, "topics": topics, **own}

    case("fetch", name, ask, since=since)


fetch("from the start", {})
fetch("both partitions", {}, {"partition": 1})
fetch("from the middle", {"fetch_offset": 3})
fetch("far beyond", {"fetch_offset": 10**9})
fetch("negative offsets", {"fetch_offset": -1}, {"partition": 1, "fetch_offset": -(2**63)})
fetch("missing partitions", {"partition": 7}, {"partition": -1})
fetch("unknown topic", {}, topic="no-such-topic")
fetch("one byte", {"partition_max_bytes": 1}, max_bytes=1)
fetch("no bytes", {"partition_max_bytes": 0}, max_bytes=0)
fetch("negative bytes", {"partition_max_bytes": -1}, max_bytes=-1)
fetch("committed only", {}, isolation_level=1)
fetch("isolation 9", {}, isolation_level=9)
fetch("negative wait", {}, max_wait_ms=-1)
fetch("nothing")
fetch("no topics", repeat=0)
fetch("twice the same", {}, {})
fetch("twice the topic", {}, repeat=2)
fetch("epoch 0", {"current_leader_epoch": 0}, since=9)
fetch("epoch 5", {"current_leader_epoch": 5}, since=9)
fetch("epoch -2", {"current_leader_epoch": -2}, since=9)
fetch("last fetched epoch 0", {"last_fetched_epoch": 0}, since=12)
fetch("last fetched epoch 3", {"last_fetched_epoch": 3}, since=12)
fetch("session new", {}, session_id=0, session_epoch=0, since=7)
fetch("session unknown", {}, session_id=77, session_epoch=3, since=7)
fetch("session closing unknown", {}, session_id=77, session_epoch=-1, since=7)
fetch("session 0 epoch 4", {}, session_id=0, session_epoch=4, since=7)
fetch("session negative", {}, session_id=-3, session_epoch=-7, since=7)
fetch("rack", {}, rack_id="nowhere", since=11)
fetch("a consumer's debug id", {}, replica_id=-2, since=0)

for stamp in (-1, -2, -3, -4, -5, -6, -7, -100, 0, LONG_AGO_MS, LONG_AGO_MS + 1, 2**62):
    for isolation in (0, 1):

        def ask(c: Context, stamp: int = stamp, isolation: int = isolation) -> Fields:
            both = [{"partition_index": index, "timestamp": stamp} for index in (0, 1)]
            level = {"isolation_level": isolation} if c.version >= 2 else {}
            return {"replica_id": -1, "topics": [{"name": c.topic, "partitions": both}], **level}

        case("list_offsets", f"timestamp {stamp} isolation {isolation}", ask)


def list_offsets(
    name: str, *partitions: Fields, topic: str | None = None, since: int = 0, replica_id: int = -1
) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"partition_index": 0, "timestamp": -1, **one} for one in partitions]
        return {"replica_id": replica_id, "topics": [{"name": topic or c.topic, "partitions": listed}]}

    case("list_offsets", name, ask, since=since)


list_offsets("unknown topic", {}, topic="no-such-topic")
list_offsets("missing partitions", {"partition_index": 7}, {"partition_index": -1})
list_offsets("twice the same", {}, {})
list_offsets("epoch 0", {"current_leader_epoch": 0}, since=4)
list_offsets("epoch 5", {"current_leader_epoch": 5}, since=4)
list_offsets("nothing")
list_offsets("a debugging consumer", {}, replica_id=-2)


def epoch_end(name: str, *partitions: Fields, topic: str | None = None) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"partition": 0, "leader_epoch": 0, **one} for one in partitions]
        return {"replica_id": -1, "topics": [{"topic": topic or c.topic, "partitions": listed}]}

    # Version 2 has no replica id.
    case(
        "offset_for_leader_epoch",
        name,
        lambda c: {k: v for k, v in ask(c).items() if c.version >= 3 or k != "replica_id"},
    )


for number in (-1, 0, 1, 99, -5):
    epoch_end(f"epoch {number}", {"leader_epoch": number})
epoch_end("current 0", {"current_leader_epoch": 0})
epoch_end("current 5", {"current_leader_epoch": 5})
epoch_end("unknown", {}, topic="no-such-topic")
epoch_end("missing partitions", {"partition": 7}, {"partition": -1})


def delete_records(name: str, *partitions: tuple[int, int], topic: str | None = None) -> None:
    def ask(c: Context) -> Fields:
        listed = [{"partition_index": index, "offset": offset} for index, offset in partitions]
        return {"topics": [{"name": topic or c.topic, "partitions": listed}], "timeout_ms": 3000}

    case("delete_records", name, ask)


delete_records("to 0", (0, 0))
delete_records("to 1", (0, 1))
delete_records("back to 0", (0, 0))
delete_records("beyond", (0, 10**9))
delete_records("to -2", (0, -2))
delete_records("missing partitions", (7, 0), (-1, 0))
delete_records("unknown", (0, 0), topic="no-such-topic")
delete_records("twice the same", (0, 1), (0, 1))
delete_records("a whole partition", (1, -1))
fetch("what was deleted", {"partition": 1}, {"fetch_offset": 0})
list_offsets("earliest after deletion", {"timestamp": -2}, {"partition_index": 1, "timestamp": -2})


def producers(name: str, *partitions: int, topic: str | None = None) -> None:
    case(
        "describe_producers",
        name,
        lambda c: {"topics": [{"name": topic or c.topic, "partition_indexes": list(partitions)}]},
    )


producers("of a partition", 1)
producers("missing", 7, -1)
producers("unknown", 0, topic="no-such-topic")

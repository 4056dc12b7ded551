"""States of share-partitions survive kills of their node, and their log is kept short."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.groupcoord.share_state.share_state_shard import UNKNOWN_INCARNATION
from tests.compat.batches import batch
from tests.compat.servers import Server, start_ottla
from tests.compat.share_states import GROUP, write_share_state
from tests.compat.wire_client import WireClient, eventually, only, plain

pytestmark = pytest.mark.slow

ROUNDS, WRITES, IN_FLIGHT = 3, 400, 10
KEPT_BYTES = 100_000  # of about 300,000 that are written
# The last key is of an unknown kind, as a newer version may write: that is no error.
JUNK_KEYS = (b"\0", b"\0\0", b"\0\1" + b"\xff" * 50, b"\0\0\0\1g" + bytes(20), b"\0\7new")
JUNK_VALUES = (b"x", b"", None, b"\0\0" + b"\xff" * 200, b"x")
JUNK_RECORDS = 4
SETTINGS = (
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.snapshot.update.records.per.snapshot=50",
    "share.coordinator.state.topic.prune.interval.ms=100",
    "share.coordinator.cold.partition.snapshot.interval.ms=100",
    "log.roll.ms=500",
    "log.initial.task.delay.ms=100",
    "log.retention.check.interval.ms=200",
    "log.segment.delete.delay.ms=100",
)


def test_acknowledged_states_survive_each_kill(tmp_path: Path) -> None:
    server = start_ottla(tmp_path, *SETTINGS)
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
        write_share_state(server.bootstrap, "orders", 1)
        topic_id = id_of(server, "orders")
        result_of(
            server, "initialize_share_group_state", topic_id, partition=0, state_epoch=0, start_offset=0
        )
        for end_offset in range(WRITES, ROUNDS * WRITES + 1, WRITES):
            with WireClient(server.bootstrap) as client:
                for offset in range(end_offset - WRITES, end_offset):
                    acknowledge(client, topic_id, offset)
            server.kill()
            server = start_ottla(tmp_path, *SETTINGS)

            read = result_of(server, "read_share_group_state", topic_id, partition=0, leader_epoch=-1)
            assert read.start_offset == end_offset - IN_FLIGHT
            [batch] = read.state_batches
            assert (batch.first_offset, batch.last_offset) == (read.start_offset, end_offset - 1)
            cold = result_of(server, "read_share_group_state", topic_id, partition=1, leader_epoch=-1)
            assert cold.start_offset == 3 and len(cold.state_batches) == 1
        folder = tmp_path / "ottla" / "__share_group_state-0"
        size = eventually(lambda: log_bytes(folder), lambda size: size < KEPT_BYTES, 20)
        assert size < KEPT_BYTES, [one.name for one in folder.iterdir()]
    finally:
        assert server.stop() == 0
        assert "Traceback" not in server.output(), server.output()[-3000:]


def test_malformed_records_among_the_states_damage_none(tmp_path: Path) -> None:
    server = start_ottla(tmp_path, SETTINGS[0])
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)
        write_share_state(server.bootstrap, "orders", 1)
        topic_id = id_of(server, "orders")
        before = result_of(server, "read_share_group_state", topic_id, partition=1, leader_epoch=-1)
        write_junk(server)
        server.kill()
        server = start_ottla(tmp_path, SETTINGS[0])

        after = result_of(server, "read_share_group_state", topic_id, partition=1, leader_epoch=-1)

        assert plain(after, 0) == plain(before, 0) | {"incarnation": UNKNOWN_INCARNATION}
        assert server.output().count("a record was skipped") == JUNK_RECORDS, server.output()
    finally:
        assert server.stop() == 0
        assert "Traceback" not in server.output(), server.output()[-3000:]


def write_junk(server: Server) -> None:
    """Write malformed keys and values, as a client may that writes to internal topics."""
    with WireClient(server.bootstrap, client_id="__admin_client") as client:
        data = {"index": 0, "records": batch(JUNK_VALUES, keys=JUNK_KEYS)}
        topics = [{"name": "__share_group_state", "partition_data": [data]}]
        answer = client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=topics)
        assert only(only(answer.responses).partition_responses).error_code == 0, answer


def id_of(server: Server, topic: str) -> bytes:
    with WireClient(server.bootstrap) as client:
        return bytes(only(client.call("metadata", 12, topics=[{"name": topic}]).topics).topic_id)


def result_of(server: Server, api: str, topic_id: bytes, **fields: Any) -> Any:
    """Return the answer about a partition once the coordinator has loaded."""
    with WireClient(server.bootstrap) as client:
        topics = [{"topic_id": topic_id, "partitions": [fields]}]
        answer = eventually(
            lambda: client.call(api, 0, group_id=GROUP, topics=topics),
            lambda answer: only(only(answer.results).partitions).error_code == 0,
        )
    found = only(only(answer.results).partitions)
    assert found.error_code == 0, found
    return found


def acknowledge(client: WireClient, topic_id: bytes, offset: int) -> None:
    partition = {
        "partition": 0,
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": max(0, offset + 1 - IN_FLIGHT),
        "delivery_complete_count": IN_FLIGHT,
        "state_batches": [
            {"first_offset": offset, "last_offset": offset, "delivery_state": 2, "delivery_count": 1}
        ],
    }
    topics = [{"topic_id": topic_id, "partitions": [partition]}]
    answer = client.call("write_share_group_state", 1, group_id=GROUP, topics=topics)
    assert only(only(answer.results).partitions).error_code == 0, answer


def log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))

"""Log directories with very many logs are described in turns with the loop."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.volume import VolumeBytes
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.kafka_api import describe_log_dirs
from ottla.node.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.node.work import turns
from tests.unit.node.fakes import services_of

TOPIC_ID = bytes(range(16))
LOGS = 10


@pytest.mark.parametrize(("steps_per_turn", "is_in_turns"), [(4, True), (100, False)])
def test_very_many_logs_are_described_in_turns(
    monkeypatch: pytest.MonkeyPatch, steps_per_turn: int, is_in_turns: bool
) -> None:
    manager = LogManager(
        log_dirs=(Path("/a"), Path("/b")),
        disk=MemoryDisk(),
        now_ms=lambda: 0,
        unique=lambda: TOPIC_ID,
        lock=None,
    )
    manager.acquire()
    manager.claim(cluster_id=TOPIC_ID, node_id=1)
    manager.load(lambda _topic: LogConfig())
    for number in range(LOGS):
        manager.get_or_create(TopicPartition("t", number), TOPIC_ID, LogConfig())
    monkeypatch.setattr(describe_log_dirs, "volume_bytes", lambda _path: VolumeBytes(1, 1))
    monkeypatch.setattr(turns, "STEPS_PER_TURN", steps_per_turn)

    answer: Any = describe_log_dirs.handle(
        services_of(log_manager=manager), cast(Any, None), DescribeLogDirsRequest(topics=None)
    )

    assert asyncio.iscoroutine(answer) == is_in_turns
    described = asyncio.run(answer) if is_in_turns else answer
    found = [
        one.partition_index
        for result in described.results
        for topic in result.topics
        for one in topic.partitions
    ]
    assert sorted(found) == list(range(LOGS))

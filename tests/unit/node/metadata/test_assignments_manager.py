"""A failed log directory is reported to the controller, or the node ends (log.dir.failure.timeout.ms)."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.commands import ReportOfflineLogDirs, ReportOfflineLogDirsReply
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from ottla.node.metadata.assignments_manager import AssignmentsManager
from tests.simulation.virtual_loop import VirtualLoop

FAILED = b"a failed one 16!"


class Metadata:
    """Accepts commands once `is_reachable` is set."""

    broker_id, broker_epoch = 0, 1
    partition = PartitionImage(0, (0,), (0,), 0, 0, 0, (FAILED,))
    image = MetadataImage(topics=TopicsImage(by_name={"t": TopicImage("t", b"t" * 16, (partition,))}))

    def __init__(self) -> None:
        self.is_reachable = asyncio.Event()
        self.taken: list[Any] = []

    async def submit(self, command: Any) -> ReportOfflineLogDirsReply:
        await self.is_reachable.wait()
        self.taken.append(command)
        return ReportOfflineLogDirsReply()


def play(scenario: Callable[[Metadata, AssignmentsManager], Any], timeout_ms: int) -> None:
    async def scene() -> None:
        metadata = Metadata()
        manager = AssignmentsManager(metadata, failure_timeout_ms=timeout_ms)  # type: ignore[arg-type]
        await scenario(metadata, manager)

    VirtualLoop(random.Random(1)).run(scene(), limit_s=60)


def test_a_node_that_cannot_report_a_failure_in_time_ends() -> None:
    async def scenario(_: Metadata, manager: AssignmentsManager) -> None:
        manager.dir_failed(FAILED)

        with pytest.raises(
            KafkaError, match=r"not be reported .* for 0.02 s \(log.dir.failure.timeout.ms\)"
        ) as end:
            await manager.run()

        assert end.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    play(scenario, 20)


def test_the_time_begins_when_the_directory_fails_even_during_another_report() -> None:
    async def scenario(_: Metadata, manager: AssignmentsManager) -> None:
        manager.assign(TopicPartition("t", 0), b"another one 16!!")
        running = asyncio.ensure_future(manager.run())
        await asyncio.sleep(0.05)
        assert not running.done()

        manager.dir_failed(FAILED)

        with pytest.raises(KafkaError):
            await running

    play(scenario, 20)


def test_a_node_that_reported_a_failure_goes_on() -> None:
    async def scenario(metadata: Metadata, manager: AssignmentsManager) -> None:
        running = asyncio.ensure_future(manager.run())
        manager.dir_failed(FAILED)
        await asyncio.sleep(0.1)
        metadata.is_reachable.set()
        await asyncio.sleep(10)

        assert not running.done()
        assert metadata.taken == [ReportOfflineLogDirs(broker_id=0, broker_epoch=1, log_dirs=(FAILED,))]
        running.cancel()

    play(scenario, 200)

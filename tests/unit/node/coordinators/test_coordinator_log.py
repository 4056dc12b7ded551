"""The appends of a coordinator: answers wait for the commit up to a timeout, effects wait for any time."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from ottla.logstore.compression import Compression
from ottla.logstore.record import iterate_records
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import coordinator_log
from ottla.node.coordinators.coordinator_log import AlikeRows, CoordinatorLog
from ottla.node.replica.partition import Partition
from tests.unit.node.coordinators.group_node import GroupNode
from tests.unit.node.coordinators.test_group_log import too_few_replicas

Told = list[Any]
TOO_LATE = ErrorCode.COORDINATOR_NOT_AVAILABLE
Story = Callable[[CoordinatorLog[str], Partition, Told], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    """Run a test with a log whose partition has a follower that fetches only when the test says so."""

    async def run() -> None:
        node, told = GroupNode(replicas=(1, 2)), list[Any]()
        node.host(leader_epoch=0)
        partition = node.replicas.find(TopicPartition("__consumer_offsets", 0))
        assert partition is not None
        log = CoordinatorLog[str](
            partition=partition,
            replicas=node.replicas,
            clock=node.clock,
            commit_timeout_ms=1,
            compression=Compression.NONE,
            max_batch_bytes=1_000,
            answer=lambda token, answer: told.append((token, getattr(answer, "code", answer))),
            failed=lambda error: told.append(error.code),
        )
        async with asyncio.timeout(60):
            await story(log, partition, told)

    asyncio.run(run())


def effect_of(told: Told) -> Callable[[KafkaError | None], None]:
    return lambda error: told.append("done" if error is None else error.code)


async def until(count: int, told: Told) -> None:
    while len(told) < count:
        await asyncio.sleep(0.001)


def test_an_answer_times_out_with_an_error_while_an_effect_keeps_waiting(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 0.001)

    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        log.append([(b"k", b"v")])
        log.when_committed(effect_of(told))
        log.answer_when_committed(1, "yes")
        await until(1, told)
        await asyncio.sleep(0.01)
        assert told == [(1, TOO_LATE)]

        partition.follower_fetched(2, 1)
        await until(2, told)

        assert told == [(1, TOO_LATE), "done"]

    play(story)


def test_an_effect_waits_for_the_records_appended_before_it_and_for_no_later_ones() -> None:
    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        log.when_committed(effect_of(told))
        assert told == ["done"]
        log.append([(b"k", b"v")])
        log.when_committed(effect_of(told))
        log.flush()
        log.append([(b"k", None)])
        log.when_committed(effect_of(told))
        log.flush()

        partition.follower_fetched(2, 1)
        await until(2, told)
        assert told == ["done", "done"]

        partition.follower_fetched(2, 2)
        await until(3, told)

    play(story)


def test_the_end_of_a_leader_epoch_completes_all_waiting_events(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 60)

    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        log.append([(b"k", b"v")])
        log.answer_when_committed(1, "late")
        log.when_committed(effect_of(told))
        await until(1, told)  # the answer has timed out; the effect never does
        log.append([(b"k", b"w")])
        log.when_committed(effect_of(told))
        log.flush()
        log.append([(b"k", b"x")])
        log.when_committed(effect_of(told))

        log.close(
            KafkaError(ErrorCode.NOT_COORDINATOR), not_appended=KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        )

        moved = ErrorCode.NOT_COORDINATOR
        assert told == [(1, TOO_LATE), moved, moved, ErrorCode.UNKNOWN_SERVER_ERROR]

    play(story)


def test_overdue_effects_notice_another_leader_epoch(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 0.001)

    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        log.append([(b"k", b"v")])
        log.when_committed(effect_of(told))
        await asyncio.sleep(0.02)

        partition.assign(replace(partition.assignment, leader_id=2, leader_epoch=1))
        await until(1, told)

        assert told == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    play(story)


def test_lingering_records_are_appended_with_records_that_a_client_waits_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LINGER_S", 60)

    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        log.append([(b"a", b"")], may_linger=True)
        await asyncio.sleep(0.001)
        assert partition.log.log_end_offset == 0
        log.append([(b"b", b"")], may_linger=True)
        log.answer_when_committed(1, "yes")
        await asyncio.sleep(0)
        assert partition.log.log_end_offset == 2

        log.append([(b"c", b"")], may_linger=True)
        log.append([(b"d", b"")])
        await asyncio.sleep(0)
        assert partition.log.log_end_offset == 4

        log.append([(b"e", b"")], may_linger=True)
        log.close(KafkaError(ErrorCode.NOT_COORDINATOR), not_appended=KafkaError(ErrorCode.NOT_COORDINATOR))
        assert partition.log.log_end_offset == 5

    play(story)


def test_lingering_records_wait_for_enough_replicas_and_for_nothing_else(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LINGER_S", 0.001)
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 0.001)

    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        with too_few_replicas():
            log.append([(b"a", b"")], may_linger=True)
            await asyncio.sleep(0.02)
            assert partition.log.log_end_offset == 0 and not told

        while partition.log.log_end_offset == 0:
            await asyncio.sleep(0.001)
        assert not told

    play(story)


def test_alike_rows_and_single_rows_are_one_batch_in_their_order() -> None:
    async def story(log: CoordinatorLog[str], partition: Partition, told: Told) -> None:
        log.append([(b"a", b"1"), AlikeRows(b"b", [b"0", b"1"], [b"2", b"3"]), (b"c", None)])
        log.flush()

        segment = partition.log.active_segment
        records = iterate_records(memoryview(segment.slice(0, segment.size_bytes).read()))
        assert [(bytes(each.key or b""), each.value and bytes(each.value)) for each in records] == [
            (b"a", b"1"),
            (b"b0", b"2"),
            (b"b1", b"3"),
            (b"c", None),
        ]

    play(story)

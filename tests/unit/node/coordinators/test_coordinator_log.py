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
from ottla.node.coordinators.coordinator_log import CoordinatorLog, RowsWithKeyHead
from ottla.node.replica.partition import Partition
from tests.unit.node.coordinators.group_node import GroupNode, too_few_replicas

Results = list[Any]
TOO_LATE = ErrorCode.COORDINATOR_NOT_AVAILABLE
Scenario = Callable[[CoordinatorLog[str], Partition, Results], Coroutine[Any, Any, None]]


def play(scenario: Scenario) -> None:
    """Run a test with a log whose partition has a follower that fetches only when the test says so."""

    async def run() -> None:
        node, results = GroupNode(replicas=(1, 2)), list[Any]()
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
            answer=lambda token, answer: results.append((token, getattr(answer, "code", answer))),
            failed=lambda error: results.append(error.code),
        )
        async with asyncio.timeout(60):
            await scenario(log, partition, results)

    asyncio.run(run())


def effect_of(results: Results) -> Callable[[KafkaError | None], None]:
    return lambda error: results.append("done" if error is None else error.code)


async def until(count: int, results: Results) -> None:
    while len(results) < count:
        await asyncio.sleep(0.001)


def test_an_answer_times_out_with_an_error_while_an_effect_keeps_waiting(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 0.001)

    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
        log.append([(b"k", b"v")])
        log.when_committed(effect_of(results))
        log.answer_when_committed(1, "yes")
        await until(1, results)
        await asyncio.sleep(0.01)
        assert results == [(1, TOO_LATE)]

        partition.follower_fetched(2, 1)
        await until(2, results)

        assert results == [(1, TOO_LATE), "done"]

    play(scenario)


def test_an_effect_waits_for_the_records_appended_before_it_and_for_no_later_ones() -> None:
    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
        log.when_committed(effect_of(results))
        assert results == ["done"]
        log.append([(b"k", b"v")])
        log.when_committed(effect_of(results))
        log.flush()
        log.append([(b"k", None)])
        log.when_committed(effect_of(results))
        log.flush()

        partition.follower_fetched(2, 1)
        await until(2, results)
        assert results == ["done", "done"]

        partition.follower_fetched(2, 2)
        await until(3, results)

    play(scenario)


def test_the_end_of_a_leader_epoch_completes_all_waiting_events(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 60)

    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
        log.append([(b"k", b"v")])
        log.answer_when_committed(1, "late")
        log.when_committed(effect_of(results))
        await until(1, results)  # the answer has timed out; the effect never does
        log.append([(b"k", b"w")])
        log.when_committed(effect_of(results))
        log.flush()
        log.append([(b"k", b"x")])
        log.when_committed(effect_of(results))

        log.close(
            KafkaError(ErrorCode.NOT_COORDINATOR), not_appended=KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        )

        moved = ErrorCode.NOT_COORDINATOR
        assert results == [(1, TOO_LATE), moved, moved, ErrorCode.UNKNOWN_SERVER_ERROR]

    play(scenario)


def test_overdue_effects_notice_another_leader_epoch(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 0.001)

    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
        log.append([(b"k", b"v")])
        log.when_committed(effect_of(results))
        await asyncio.sleep(0.02)

        partition.assign(replace(partition.assignment, leader_id=2, leader_epoch=1))
        await until(1, results)

        assert results == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    play(scenario)


def test_lingering_records_are_appended_with_records_that_a_client_waits_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LINGER_S", 60)

    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
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

    play(scenario)


def test_lingering_records_wait_for_enough_replicas_and_for_nothing_else(monkeypatch: Any) -> None:
    monkeypatch.setattr(coordinator_log, "LINGER_S", 0.001)
    monkeypatch.setattr(coordinator_log, "LOOK_AGAIN_S", 0.001)

    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
        with too_few_replicas():
            log.append([(b"a", b"")], may_linger=True)
            await asyncio.sleep(0.02)
            assert partition.log.log_end_offset == 0 and not results

        while partition.log.log_end_offset == 0:
            await asyncio.sleep(0.001)
        assert not results

    play(scenario)


def test_alike_rows_and_single_rows_are_one_batch_in_their_order() -> None:
    async def scenario(log: CoordinatorLog[str], partition: Partition, results: Results) -> None:
        log.append([(b"a", b"1"), RowsWithKeyHead(b"b", [b"0", b"1"], [b"2", b"3"]), (b"c", None)])
        log.flush()

        segment = partition.log.active_segment
        records = iterate_records(memoryview(segment.slice(0, segment.size_bytes).read()))
        assert [(bytes(each.key or b""), each.value and bytes(each.value)) for each in records] == [
            (b"a", b"1"),
            (b"b0", b"2"),
            (b"b1", b"3"),
            (b"c", None),
        ]

    play(scenario)

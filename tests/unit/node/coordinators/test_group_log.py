"""The appends of a shard: one batch a turn, answers in order, nothing while too few replicas are in sync."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat, TopicsChanged
from ottla.groupcoord.coordinator_effects import StartTimer, TimerKey
from ottla.groupcoord.offsets.offset_commands import (
    EndTransaction,
    OffsetCommit,
    OffsetToCommit,
    Producer,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetFetchResult
from ottla.groupcoord.timer_commands import ExpireSession
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import coordinator_shard
from ottla.node.coordinators.group_runtime import Make
from ottla.node.coordinators.group_topics import ImageTopics
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.net.answers import Delayed
from ottla.node.replica.partition import Partition
from tests.unit.node.coordinators.group_node import GroupNode, play, too_few_replicas
from tests.unit.node.coordinators.test_group_runtime import (
    NEW_ID,
    OLD_ID,
    commit,
    commit_all,
    fetch,
    join,
    stable_group,
)


def partition_of(node: GroupNode, group_id: str) -> Partition:
    found = node.replicas.find(TopicPartition("__consumer_offsets", node.groups.partition_for(group_id)))
    assert found is not None
    return found


def batches(partition: Partition) -> list[int]:
    """Return the number of records of each batch in the log."""
    segment = partition.log.active_segment
    content = segment.slice(0, segment.size_bytes).read()
    return [header.records_count for _, header in iterate_headers(content)]


def outcome(node: GroupNode, group_id: str, make: Make) -> "asyncio.Future[Any]":
    answer = node.groups.ask(group_id, make, lambda answer: answer)
    assert isinstance(answer, Delayed)
    return cast("asyncio.Future[Any]", answer.future)


def test_commits_of_one_turn_are_one_batch() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")

        waiting = [outcome(node, "g", commit("g", each)) for each in range(100)]
        reading = outcome(node, "g", fetch("g"))
        assert batches(partition_of(node, "g")) == []
        answers = await asyncio.gather(*waiting)

        assert all(isinstance(each, OffsetCommitResult) for each in answers)
        assert batches(partition_of(node, "g")) == [100]
        fetched = await reading
        assert isinstance(fetched, OffsetFetchResult) and fetched.topics[0][1][0].offset == 99

    play(scenario)


def test_a_batch_is_no_larger_than_the_log_allows_and_no_append_is_split() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")

        def many(group_id: str) -> Make:
            offsets = [OffsetToCommit("t", each, each) for each in range(6)]
            return lambda token: OffsetCommit(
                token=token, group_id=group_id, generation_id=-1, member_id="", offsets=offsets
            )

        await asyncio.gather(*(outcome(node, "g", many("g")) for _ in range(10)))

        counts = batches(partition_of(node, "g"))
        assert sum(counts) == 60 and len(counts) > 1 and all(count % 6 == 0 for count in counts)

    play(scenario, GroupNode(max_batch_bytes=2_000))


def commit_in(producer: Producer) -> Make:
    return lambda token: TxnOffsetCommit(
        token=token,
        group_id="g",
        generation_id=-1,
        member_id="",
        offsets=[OffsetToCommit("t", 0, 1)],
        producer=producer,
        guard=NOT_VERIFIED,
    )


def test_records_in_a_transaction_are_a_batch_of_their_producer_in_order() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        makes = [commit("g"), commit("g"), commit_in(Producer(7, 3)), commit("g")]

        waiting = [node.groups.ask("g", make, lambda answer: answer) for make in makes]
        for each in waiting:
            answer = await cast(Any, each.future) if isinstance(each, Delayed) else each
            assert isinstance(answer, OffsetCommitResult)

        segment = partition_of(node, "g").log.active_segment
        headers = [each for _, each in iterate_headers(segment.slice(0, segment.size_bytes).read())]
        assert [each.records_count for each in headers] == [2, 1, 1]
        assert [each.is_transactional for each in headers] == [False, True, False]
        assert (headers[1].producer_id, headers[1].producer_epoch) == (7, 3)

    play(scenario)


def test_a_fenced_producer_is_rejected_and_nothing_is_loaded_again() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        assert isinstance(await node.ask("g", commit_in(Producer(7, 3))), OffsetCommitResult)
        shard = node.groups.shards[node.groups.partition_for("g")]

        answer = await node.ask("g", commit_in(Producer(7, 2)))

        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert node.groups.shards[node.groups.partition_for("g")] is shard

    play(scenario)


def test_a_failed_append_fails_its_whole_batch_and_no_earlier_one() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        partition = partition_of(node, "g")
        before = outcome(node, "g", commit("g", 1))
        await asyncio.sleep(0)
        plain = partition.log.config
        partition.log.update_config(LogConfig(cleanup_policy=("compact",), max_message_bytes=10))

        failing = [outcome(node, "g", commit("g", each)) for each in (2, 3)]
        answers = await asyncio.gather(*failing)
        partition.log.update_config(plain)
        await node.loaded()

        assert isinstance(await before, OffsetCommitResult)
        assert [each.code for each in answers] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
        fetched = await node.ask("g", fetch("g"))
        assert isinstance(fetched, OffsetFetchResult) and fetched.topics[0][1][0].offset == 1

    play(scenario)


def test_a_shard_that_closes_with_an_open_batch_answers_it_and_appends_nothing() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        partition = partition_of(node, "g")
        waiting = outcome(node, "g", commit("g", 1))

        node.host(leader_epoch=1, leader=2)
        node.groups.refresh()

        answer = await waiting
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR
        await asyncio.sleep(0)
        assert batches(partition) == []

    play(scenario)


def test_while_too_few_replicas_are_in_sync_commits_are_rejected_and_nothing_is_loaded_again() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        member_id = await stable_group(node, "g")
        shard = node.groups.shards[node.groups.partition_for("g")]
        written = partition_of(node, "g").log.log_end_offset

        with too_few_replicas():
            for make in [commit("h")] * 100 + [join("g")]:
                answer = await node.ask("g", make)
                assert isinstance(answer, KafkaError) and answer.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            heartbeat = Heartbeat(token=0, group_id="g", generation_id=1, member_id=member_id)
            answer = await node.ask("g", lambda token: replace(heartbeat, token=token))
            assert answer.error is ErrorCode.NONE

        assert node.groups.shards[node.groups.partition_for("g")] is shard
        assert partition_of(node, "g").log.log_end_offset == written
        assert isinstance(await node.ask("g", commit("h")), OffsetCommitResult)

    play(scenario, GroupNode())


def test_members_of_consumer_groups_keep_their_sessions_while_their_heartbeats_are_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        joined = await node.ask("g", heartbeat(epoch=0))
        started: list[tuple[Any, int]] = []
        monkeypatch.setattr(
            TimerQueue, "start", lambda queue, key, delay_ms, _: started.append((key[1], delay_ms))
        )

        with too_few_replicas():
            refused = await node.ask("g", heartbeat(epoch=joined.member_epoch))
            left = await node.ask("g", heartbeat(epoch=-1))
            unknown = await node.ask("h", heartbeat(epoch=1))

        assert [one.code for one in (refused, left, unknown)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
        assert started == [(TimerKey("session", "g", "m"), 45_000)]
        assert (await node.ask("g", heartbeat(epoch=joined.member_epoch))).member_epoch == joined.member_epoch

    play(scenario)


def heartbeat(*, epoch: int) -> Make:
    return lambda token: ConsumerGroupHeartbeat(
        token=token,
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        instance_id=None,
        rack_id=None,
        rebalance_timeout_ms=5_000,
        subscribed_topic_names=("t",),
        subscribed_topic_regex=None,
        server_assignor=None,
        owned=(),
        client_id="c",
        client_host="/127.0.0.1",
        member_id_required=True,
    )


def test_a_transaction_whose_marker_is_in_the_log_ends_whatever_the_replicas_do() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        shard = node.groups.shards[node.groups.partition_for("g")]
        in_transaction = TxnOffsetCommit(
            token=0,
            group_id="g",
            generation_id=-1,
            member_id="",
            offsets=[OffsetToCommit("t", 0, 5)],
            producer=Producer(7, 0),
            guard=NOT_VERIFIED,
        )
        await node.ask("g", lambda token: replace(in_transaction, token=token))

        with too_few_replicas():
            shard.handle(EndTransaction(producer_id=7, committed=True))

        fetched = cast(OffsetFetchResult, await node.ask("g", fetch("g")))
        assert [one.offset for one in fetched.topics[0][1]] == [5]

    play(scenario)


def test_timers_that_may_write_and_deleted_topics_wait_for_the_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(node: GroupNode) -> None:
        monkeypatch.setattr(coordinator_shard, "WRITE_AGAIN_MS", 5)
        await node.groups.coordinator_of("g")
        member_id = await stable_group(node, "g")
        await node.ask("h", commit_all("h", ("gone", OLD_ID)))
        shard = node.groups.shards[node.groups.partition_for("g")]
        assert shard.coordinator is not None
        members = shard.coordinator.shard.groups["g"].members

        with too_few_replicas():
            node.groups.forget_topics(["gone"])
            expiry = ExpireSession(group_id="g", member_id=member_id)
            shard.carry_out([StartTimer(TimerKey("session", "g", member_id), 0, expiry)])
            await asyncio.sleep(0.02)
            assert member_id in members

        while members or await offsets_of(node, "h"):
            await asyncio.sleep(0.001)

    async def offsets_of(node: GroupNode, group_id: str) -> Any:
        return cast(OffsetFetchResult, await node.ask(group_id, fetch(group_id))).topics

    play(scenario)


def test_offsets_of_a_topic_created_again_survive_the_late_removal_of_the_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_shard, "WRITE_AGAIN_MS", 1)
    both = [("g", ("t", OLD_ID)), ("h", ("t", OLD_ID))]

    async def scenario(node: GroupNode) -> None:
        node.host(leader_epoch=0)
        node.groups.refresh()
        for group, topic in both:
            assert isinstance(await node.ask(group, commit_all(group, topic)), OffsetCommitResult)

        with too_few_replicas():
            node.groups.forget_topics(["t"])
        node.add_topic("t", NEW_ID)
        node.groups.change_topics(
            TopicsChanged(topics=ImageTopics(node.image), has_new_topics=True, changed=frozenset(("t",)))
        )
        assert isinstance(await node.ask("g", commit_all("g", ("t", NEW_ID))), OffsetCommitResult)
        while (await node.ask("h", fetch("h"))).topics:
            await asyncio.sleep(0.001)

        assert (await node.ask("g", fetch("g"))).topics

    play(scenario)

"""Requests of share groups to the share coordinators, by a group coordinator with real logs in memory."""

import asyncio
from collections.abc import Sequence

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.share.share_commands import (
    AlterShareGroupOffsets,
    ListSharePartitions,
    NewStart,
    ShareGroupHeartbeat,
)
from ottla.groupcoord.share_state.share_state_words import (
    DeleteState,
    InitializeState,
    ReadStateSummary,
    SharePartitionKey,
    StateResult,
    StateSummary,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.group_runtime import Make
from ottla.node.coordinators.persister_jobs import PARTITIONS_PER_QUESTION
from tests.unit.node.coordinators.group_node import GroupNode, play

T_ID = b"t" * 16


class Persister:
    """Share coordinators that answer when `is_open` is set."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.states: dict[SharePartitionKey, int] = {}
        self.questions: list[int] = []  # the number of share-partitions in each

    async def initialize(self, requests: Sequence[InitializeState], /) -> list[StateResult]:
        self.questions.append(len(requests))
        await self.is_open.wait()
        self.states.update({one.key: one.start_offset for one in requests})
        return [StateResult(one.key) for one in requests]

    async def delete(self, requests: Sequence[DeleteState], /) -> list[StateResult]:
        self.questions.append(len(requests))
        await self.is_open.wait()
        for one in requests:
            self.states.pop(one.key, None)
        return [StateResult(one.key) for one in requests]

    async def read_summary(self, requests: Sequence[ReadStateSummary], /) -> list[StateSummary]:
        return [StateSummary(one.key, start_offset=self.states[one.key]) for one in requests]


def heartbeat(epoch: int, *names: str) -> Make:
    return lambda token: ShareGroupHeartbeat(
        token=token,
        group_id="g",
        member_id="m",
        member_epoch=epoch,
        subscribed_topic_names=names or None,
    )


def alter(*partitions: int) -> Make:
    starts = [NewStart(one, 5) for one in partitions]
    return lambda token: AlterShareGroupOffsets(token=token, group_id="g", topics=[("t", starts)])


def listed(token: int) -> ListSharePartitions:
    return ListSharePartitions(token=token, group_id="g")


async def until_begun(node: GroupNode, partitions: int) -> None:
    async with asyncio.timeout(10):
        while sum(len(one.partitions) for one in (await node.ask("g", listed)).topics) < partitions:
            await asyncio.sleep(0)


def test_states_begin_after_the_answer_and_are_assigned_at_the_next_heartbeat() -> None:
    persister = Persister()

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        persister.is_open.clear()
        first = await node.ask("g", heartbeat(0, "t"))
        persister.is_open.set()
        await until_begun(node, 2)
        node.clock.advance(1_000)
        second = await node.ask("g", heartbeat(first.member_epoch))

        assert first.assignment == []
        assert [(one.topic_id, list(one.partitions)) for one in second.assignment] == [(T_ID, [0, 1])]

    play(scenario, GroupNode(persister=persister))


def test_an_alter_request_waits_and_its_result_survives_a_restart() -> None:
    persister = Persister()
    node = GroupNode(persister=persister)

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        answer = await node.ask("g", alter(1))

        assert [one.error for one in answer.topics[0].partitions] == [ErrorCode.NONE]
        assert persister.states == {SharePartitionKey("g", T_ID, 1): 5}

    async def later(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        await node.loaded()

        assert [list(one.partitions) for one in (await node.ask("g", listed)).topics] == [[1]]

    play(scenario, node)
    play(later, GroupNode(node.disk, persister=persister))


def test_a_waiting_request_fails_when_the_coordinator_moves() -> None:
    persister = Persister()

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        persister.is_open.clear()
        waiting = asyncio.ensure_future(node.ask("g", alter(0)))
        await asyncio.sleep(0.01)
        node.host(leader_epoch=1, leader=2)
        node.groups.refresh()
        answer = await waiting
        persister.is_open.set()  # too late
        await asyncio.sleep(0.01)

        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR

    play(scenario, GroupNode(persister=persister))


def test_a_group_is_deleted_with_its_state() -> None:
    persister = Persister()

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await node.ask("g", alter(0, 1))
        answer = await node.ask("g", lambda token: DeleteGroups(token=token, group_ids=("g",)))

        assert answer.errors == [("g", ErrorCode.NONE)]
        assert persister.states == {}

    play(scenario, GroupNode(persister=persister))


def test_a_node_without_share_coordinators_answers_with_an_error() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        answer = await node.ask("g", alter(0))
        (summary,) = await node.groups.persister_jobs.read_summary(
            [ReadStateSummary(SharePartitionKey("g", T_ID, 0))]
        )

        assert answer.topics[0].partitions[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert summary.error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario)


def test_very_many_partitions_are_sent_in_several_requests() -> None:
    persister = Persister()

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        node.add_topic("t", T_ID, partitions=2 * PARTITIONS_PER_QUESTION + 1)
        node.groups.change_topics(node.topics_now())
        answer = await node.ask("g", alter(*range(2 * PARTITIONS_PER_QUESTION + 1)))

        assert {one.error for one in answer.topics[0].partitions} == {ErrorCode.NONE}
        assert persister.questions == [PARTITIONS_PER_QUESTION, PARTITIONS_PER_QUESTION, 1]

    play(scenario, GroupNode(persister=persister))

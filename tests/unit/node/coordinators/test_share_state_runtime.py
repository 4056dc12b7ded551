"""The share coordinator of a node: acknowledged states survive a restart, and the log is pruned."""

import asyncio

import pytest

from ottla.groupcoord.share_state.share_state_commands import PruneRecords, SnapshotColdPartitions
from ottla.groupcoord.share_state.share_state_words import (
    InitializeState,
    ReadState,
    StateRead,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.partition import Partition
from tests.unit.groupcoord.share_state.share_state_world import KEY, batch, key_of, topic_id
from tests.unit.node.coordinators.group_node import too_few_replicas
from tests.unit.node.coordinators.share_state_node import ShareStateNode, play

FOLLOWED = (1, 2)


def test_a_state_survives_a_restart_of_its_node() -> None:
    first = play(lambda node: node.begin())

    async def read_again(node: ShareStateNode) -> None:
        node.host(leader_epoch=1)
        node.coordinators.refresh()
        loading = await node.read()
        assert loading.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert loading.message.startswith("Unable to read share group state: ")
        await node.loaded()
        found = await node.read()

        assert isinstance(found, StateRead) and found.batches == (batch(0, 0, 2),)

    second = play(read_again, ShareStateNode(first.disk))
    assert second.states.used_bytes == 0, "closed shards take nothing"


def test_the_topic_is_created_by_the_first_request() -> None:
    async def scenario(node: ShareStateNode) -> None:
        assert node.coordinators.known_coordinator_of(KEY.coordinator_key) == -1
        found = await asyncio.gather(
            *(node.coordinators.coordinator_of(KEY.coordinator_key) for _ in range(5))
        )
        assert found == [1] * 5

    assert play(scenario).created == 1


def test_an_answer_is_given_when_the_followers_have_its_record() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.coordinators.coordinator_of(KEY.coordinator_key)
        written = node.submit(InitializeState(KEY, 0, 0))
        read = node.submit(ReadState(KEY, -1))
        await asyncio.sleep(0.01)
        assert not written.done() and not read.done(), "a read must not show what may be lost"

        node.partition.follower_fetched(2, node.partition.log.log_end_offset)

        assert (await written).error is ErrorCode.NONE and (await read).error is ErrorCode.NONE

    play(scenario, ShareStateNode(replicas=FOLLOWED))


def test_a_failed_append_leaves_the_state_as_it_was() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.begin()
        with pytest.MonkeyPatch.context() as patch:

            def fail(*_: object, **__: object) -> None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

            patch.setattr(Partition, "append_as_leader", fail)
            refused = await node.ask(WriteState(KEY, 0, 0, 5, 0, (batch(5, 9),)))
        await node.loaded()
        found = await node.read()

        assert refused.error is ErrorCode.NOT_COORDINATOR
        assert isinstance(found, StateRead) and found.batches == (batch(0, 0, 2),)
        assert (await node.ask(WriteState(KEY, 0, 0, 5, 0, (batch(5, 9),)))).error is ErrorCode.NONE

    play(scenario)


def test_too_few_replicas_change_nothing() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.begin()
        with too_few_replicas():
            refused = await node.ask(WriteState(KEY, 0, 0, 5, 0, ()))

        assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        found = await node.read()
        assert isinstance(found, StateRead) and found.start_offset == 0

    play(scenario)


def test_another_node_becomes_the_coordinator() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.begin()
        node.host(leader_epoch=1, leader=2)
        node.coordinators.refresh()

        assert (await node.read()).error is ErrorCode.NOT_COORDINATOR
        assert node.coordinators.known_coordinator_of(KEY.coordinator_key) == 2

    play(scenario)


def test_states_of_deleted_topics_are_dropped_also_after_a_time_without_a_leader() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.begin()
        await node.ask(InitializeState(key_of(topic=2), 0, 0))
        node.coordinators.forget_topics([topic_id(2)])
        await asyncio.sleep(0)  # ends the turn, which appends
        assert states_of(node) == [KEY]

    first = play(scenario)

    async def without_the_other(node: ShareStateNode) -> None:
        node.host(leader_epoch=1)
        node.coordinators.refresh()
        await node.loaded()
        assert not states_of(node)

    play(without_the_other, ShareStateNode(first.disk, topics=(2,)))


def states_of(node: ShareStateNode) -> list[object]:
    return [
        key
        for shard in node.coordinators.shards.values()
        if shard.coordinator
        for key in shard.coordinator.shard.states
    ]


def test_the_log_is_pruned_up_to_the_new_snapshots() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.begin()
        shard = node.coordinators.shards[node.coordinators.partition_for(KEY.coordinator_key)]
        node.clock.advance(300_000)
        shard.handle(SnapshotColdPartitions())
        shard.handle(PruneRecords())
        assert node.partition.log.log_start_offset == 0
        while node.partition.log.log_start_offset == 0:
            await asyncio.sleep(0.001)

        assert node.partition.log.log_start_offset == 2

    first = play(scenario)

    async def read_again(node: ShareStateNode) -> None:
        node.host(leader_epoch=1)
        node.coordinators.refresh()
        await node.loaded()
        found = await node.read()
        assert isinstance(found, StateRead) and found.batches == (batch(0, 0, 2),)

    play(read_again, ShareStateNode(first.disk))


def test_the_log_is_pruned_only_after_the_newer_snapshots_are_committed() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.coordinators.coordinator_of(KEY.coordinator_key)
        shard = node.coordinators.shards[node.coordinators.partition_for(KEY.coordinator_key)]
        for epoch in range(2):
            node.submit(InitializeState(KEY, epoch, 0))
        shard.handle(PruneRecords())
        await asyncio.sleep(0.01)
        assert node.partition.log.log_start_offset == 0, "the snapshot is not committed"
        node.partition.follower_fetched(2, node.partition.log.log_end_offset)
        while node.partition.log.log_start_offset == 0:
            await asyncio.sleep(0.001)

        assert node.partition.log.log_start_offset == 1

    play(scenario, ShareStateNode(replicas=FOLLOWED))


def test_writes_are_counted_when_they_are_answered_without_rejected_ones() -> None:
    async def scenario(node: ShareStateNode) -> None:
        await node.begin()
        counters = node.coordinators.counters
        after_one = counters.writes, sum(counters.write_times.counts)
        again = await node.ask(WriteState(KEY, 0, 0, -1, 1, (batch(0, 0, 2),)))
        both = [WriteState(KEY, 0, 0, -1, 1, (batch(1, 1, 2),)), WriteState(key_of(9), 0, 0, -1, 1, ())]
        answers = node.coordinators.ask_each(both, list)
        while not isinstance(answers, list):
            answers = answers.answer(await answers.future)  # type: ignore[union-attr]

        assert after_one == (1, 1)
        assert again.error is ErrorCode.NONE
        assert [one.error is ErrorCode.NONE for one in answers] == [True, False]
        assert (counters.writes, sum(counters.write_times.counts)) == (3, 3)

    play(scenario)

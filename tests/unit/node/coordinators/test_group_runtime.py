"""The group coordinator on real logs in memory, from `ask` to the record, and back after a restart."""

import asyncio
import errno
import itertools
from dataclasses import replace
from typing import Any, cast

import pytest

from ottla.groupcoord import coordinator
from ottla.groupcoord.admin_commands import DescribeGroups, ListGroups
from ottla.groupcoord.admin_results import DescribeGroupsResult, ListGroupsResult
from ottla.groupcoord.classic.member_commands import Heartbeat, JoinGroup, Protocol, SyncGroup
from ottla.groupcoord.classic.member_results import HeartbeatResult, JoinGroupResult, SyncGroupResult
from ottla.groupcoord.consumer.consumer_commands import TopicsChanged
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetFetch, OffsetToCommit
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult, OffsetFetchResult
from ottla.logstore.compression import Compression
from ottla.logstore.disk import FileSlice
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import build_batch
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import coordinator_runtime, group_runtime
from ottla.node.coordinators.group_runtime import Make
from ottla.node.coordinators.group_topics import ImageTopics
from ottla.node.coordinators.key_partition import partition_for
from ottla.node.net.answers import BuiltInThread, Delayed
from ottla.node.net.peer_client import SOFTWARE_NAME
from tests.unit.node.coordinators.group_node import GroupNode, play


def join(group_id: str, member_id: str = "") -> Make:
    return lambda token: JoinGroup(
        token=token,
        group_id=group_id,
        member_id=member_id,
        client_id="c",
        protocol_type="consumer",
        protocols=[Protocol("range", b"m")],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id_required=False,
    )


def commit(group_id: str, offset: int = 42) -> Make:
    return lambda token: OffsetCommit(
        token=token,
        group_id=group_id,
        generation_id=-1,
        member_id="",
        offsets=[OffsetToCommit("t", 0, offset)],
    )


def commit_all(group_id: str, *topics: tuple[str, bytes]) -> Make:
    offsets = [OffsetToCommit(name, 0, 1, topic_id=topic_id) for name, topic_id in topics]
    return lambda token: OffsetCommit(
        token=token, group_id=group_id, generation_id=-1, member_id="", offsets=offsets
    )


def fetch(group_id: str) -> Make:
    return lambda token: OffsetFetch(token=token, group_id=group_id, topics=None)


async def stable_group(node: GroupNode, group_id: str) -> str:
    joined = await node.ask(group_id, join(group_id))
    assert isinstance(joined, JoinGroupResult) and joined.error is ErrorCode.NONE, joined
    member_id = joined.member_id
    synced = await node.ask(
        group_id,
        lambda token: SyncGroup(
            token=token,
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=member_id,
            assignments=[(member_id, b"mine")],
        ),
    )
    assert isinstance(synced, SyncGroupResult) and synced.assignment == b"mine"
    return member_id


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("my-group", 12),
        ("日本語", 43),
        ("\U0001f600group", 32),
        ("console-consumer-12345", 6),
        ("x" * 300, 14),
    ],
)
def test_the_partition_of_a_group_is_the_one_that_java_computes(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition


def test_the_hash_without_an_absolute_value_counts_as_zero() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_the_offsets_topic_is_created_once_by_the_first_request() -> None:
    async def scenario(node: GroupNode) -> None:
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(node.groups.coordinator_of(f"g{n}")) for n in range(10)]
        assert [each.result() for each in found] == [1] * 10
        assert node.created == 1
        assert isinstance(await node.ask("g", commit("g")), OffsetCommitResult)

    play(scenario)


def test_there_is_no_coordinator_before_the_offsets_topic() -> None:
    async def scenario(node: GroupNode) -> None:
        answer = await node.ask("g", commit("g"))
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR

    play(scenario)


@pytest.mark.parametrize("codec", list(Compression))
def test_records_of_groups_are_compressed_by_offsets_topic_compression_codec(codec: Compression) -> None:
    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        assert isinstance(await node.ask("g", commit("g", 7)), OffsetCommitResult)
        partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
        assert partition is not None
        content = partition.log.active_segment.slice(0, partition.log.active_segment.size_bytes).read()
        assert [header.compression for _, header in iterate_headers(content)] == [codec]

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        await node.loaded()
        fetched = await node.ask("g", fetch("g"))
        assert isinstance(fetched, OffsetFetchResult)
        assert [each.offset for each in fetched.topics[0][1]] == [7]

    node = play(before, GroupNode(compression=codec))
    play(after, GroupNode(node.disk))


def test_group_ids_of_older_logs_that_exceed_the_limit_are_kept() -> None:
    group_id = "g" * 30_000  # no request may have it, but logs of older versions do

    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await stable_group(node, group_id)
        assert isinstance(
            await node.ask(f"{group_id}-other", commit(f"{group_id}-other", 7)), OffsetCommitResult
        )

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        await node.loaded()
        fetched = await node.ask(f"{group_id}-other", fetch(f"{group_id}-other"))
        assert isinstance(fetched, OffsetFetchResult)
        assert [each.offset for each in fetched.topics[0][1]] == [7]
        described = await node.ask(group_id, lambda token: DescribeGroups(token=token, group_ids=[group_id]))
        assert described.groups[0].state == "Stable"

    first = play(before)
    play(after, GroupNode(first.disk))


def test_groups_and_offsets_come_back_after_a_restart() -> None:
    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await stable_group(node, "g")
        for offset in range(50):
            for n in range(20):
                await node.ask(f"h{n}", commit(f"h{n}", offset))

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        answer = await node.ask("g", fetch("g"))
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await node.loaded()
        for n in range(20):
            fetched = await node.ask(f"h{n}", fetch(f"h{n}"))
            assert isinstance(fetched, OffsetFetchResult)
            assert [each.offset for each in fetched.topics[0][1]] == [49]
        described = await node.ask("g", lambda token: DescribeGroups(token=token, group_ids=["g"]))
        assert isinstance(described, DescribeGroupsResult)
        group = described.groups[0]
        assert (group.state, group.protocol_name) == ("Stable", "range")
        assert group.members[0].assignment == b"mine"
        heartbeat = await node.ask(
            "g",
            lambda token: Heartbeat(
                token=token, group_id="g", generation_id=1, member_id=group.members[0].member_id
            ),
        )
        assert heartbeat.error is ErrorCode.NONE

    first = play(before)
    play(after, GroupNode(first.disk))


def test_another_leader_takes_over_the_groups() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        member_id = await stable_group(node, "g")
        await node.ask("g", join("g", member_id))  # the only member, so it gets generation 2 at once
        node.host(leader_epoch=1, leader=2)

        answer = await node.ask("g", commit("g"))

        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR
        assert node.groups.shards == {}

    play(scenario)


def test_waiting_joins_are_answered_when_the_node_is_no_longer_coordinator() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        member_id = await stable_group(node, "g")
        waiting = node.groups.ask("g", join("g"), lambda answer: answer)
        assert isinstance(waiting, Delayed) and member_id

        node.host(leader_epoch=1, leader=2)
        node.groups.refresh()

        answer = await waiting.future
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR

    play(scenario)


def test_an_append_that_fails_drops_the_state_and_loads_it_again() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await node.ask("g", commit("g", 1))
        partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
        assert partition is not None
        plain = partition.log.config
        partition.log.update_config(LogConfig(cleanup_policy=("compact",), max_message_bytes=10))

        answer = await node.ask("g", commit("g", 2))
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.UNKNOWN_SERVER_ERROR
        partition.log.update_config(plain)
        await node.loaded()

        fetched = await node.ask("g", fetch("g"))
        assert isinstance(fetched, OffsetFetchResult) and fetched.topics[0][1][0].offset == 1

    play(scenario)


def test_a_join_does_not_drop_an_assignment_that_is_being_replicated() -> None:
    """The record of the generation will be committed. Apache Kafka drops the waiting syncs here."""

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
        assert partition is not None
        joined = await node.ask("g", join("g"))
        assert isinstance(joined, JoinGroupResult)
        member_id = joined.member_id

        def sync(token: int) -> SyncGroup:
            return SyncGroup(
                token=token,
                group_id="g",
                generation_id=1,
                member_id=member_id,
                assignments=[(member_id, b"mine")],
            )

        def heartbeat(token: int) -> Heartbeat:
            return Heartbeat(token=token, group_id="g", generation_id=1, member_id=member_id)

        syncing = node.groups.ask("g", sync, lambda answer: answer)
        joining = node.groups.ask("g", join("g"), lambda answer: answer)
        beating = node.groups.ask("g", heartbeat, lambda answer: answer)
        assert isinstance(syncing, Delayed) and isinstance(joining, Delayed)
        assert isinstance(beating, HeartbeatResult) and beating.error is ErrorCode.REBALANCE_IN_PROGRESS
        await asyncio.sleep(0)  # ends the turn, which appends
        assert not cast(Any, syncing.future).done()

        partition.follower_fetched(2, partition.log.log_end_offset)

        synced = await syncing.future
        assert isinstance(synced, SyncGroupResult) and synced.assignment == b"mine"
        assert not cast(Any, joining.future).done()

    play(scenario, GroupNode(replicas=(1, 2)))


def test_a_commit_is_answered_when_the_replicas_have_it() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
        assert partition is not None
        committing = node.groups.ask("g", commit("g"), lambda answer: answer)
        reading = node.groups.ask("g", fetch("g"), lambda answer: answer)
        assert isinstance(committing, Delayed) and isinstance(reading, Delayed)

        await asyncio.sleep(0.01)
        assert not cast(Any, committing.future).done()
        partition.follower_fetched(2, 1)

        assert isinstance(await committing.future, OffsetCommitResult)
        assert isinstance(await reading.future, OffsetFetchResult)

    play(scenario, GroupNode(replicas=(1, 2)))


def test_a_commit_that_is_not_replicated_in_time_is_not_acknowledged() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        answer = await node.ask("g", commit("g"))
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(scenario, GroupNode(replicas=(1, 2)))


def test_a_new_coordinator_shows_the_loaded_state_when_the_replicas_have_it() -> None:
    """It is of an earlier leader epoch and may be lost; an offset that was shown must not go back."""

    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        node.groups.ask("g", commit("g", 7), lambda answer: answer)
        await asyncio.sleep(0)  # ends the turn, which appends

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        await node.loaded()
        partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
        assert partition is not None

        reading = node.groups.ask("g", fetch("g"), lambda answer: answer)

        assert isinstance(reading, Delayed)
        partition.follower_fetched(2, 1)
        fetched = await reading.future
        assert isinstance(fetched, OffsetFetchResult) and fetched.topics[0][1][0].offset == 7

    first = play(before, GroupNode(replicas=(1, 2)))
    play(after, GroupNode(first.disk, replicas=(1, 2)))


def test_a_partition_that_cannot_be_read_is_loaded_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await node.ask("g", commit("g", 7))

    async def after(node: GroupNode) -> None:
        monkeypatch.setattr(coordinator_runtime, "RELOAD_DELAY_MS", 1)
        with monkeypatch.context() as broken:
            broken.setattr(FileSlice, "read", _fails)
            node.host(leader_epoch=1)
            node.groups.refresh()
            await asyncio.sleep(0.01)
            answer = await node.ask("g", fetch("g"))
            assert isinstance(answer, KafkaError)

        while isinstance(fetched := await node.ask("g", fetch("g")), KafkaError):
            await asyncio.sleep(0.001)
        assert fetched.topics[0][1][0].offset == 7

    first = play(before)
    play(after, GroupNode(first.disk))


def _fails(_: FileSlice) -> bytes:
    raise OSError(errno.EIO, "the disk does not answer")


def test_all_shards_are_asked_for_their_groups() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        for n in range(10):
            await node.ask(f"g{n}", commit(f"g{n}"))
        answers = node.groups.ask_all_shards(lambda token: ListGroups(token=token), lambda answers: answers)
        listed = [group for answer in answers for group in cast(ListGroupsResult, answer).groups]
        assert sorted(group.group_id for group in listed) == [f"g{n}" for n in range(10)]

    play(scenario)


def test_a_client_that_disconnects_while_it_waits_does_no_harm() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await stable_group(node, "g")
        waiting = node.groups.ask("g", join("g"), lambda answer: answer)
        assert isinstance(waiting, Delayed)
        cast(Any, waiting.future).cancel()

        node.groups.close()

    play(scenario)


def test_unreadable_records_are_left_out() -> None:
    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await node.ask("g", commit("g", 7))
        partition = node.replicas.find(TopicPartition(OFFSETS_TOPIC, node.groups.partition_for("g")))
        assert partition is not None
        for key in (b"", b"\0", b"\0\1\0\0", b"\0\7later kinds"):
            batch = build_batch([(key, b"\0\0junk", 0, ())])
            partition.append_as_leader(batch, required_acks=-1, now_ms=0, produce_version=13)

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        await node.loaded()
        fetched = await node.ask("g", fetch("g"))
        assert isinstance(fetched, OffsetFetchResult) and fetched.topics[0][1][0].offset == 7

    first = play(before)
    play(after, GroupNode(first.disk))


OLD_ID, NEW_ID = b"o" * 16, b"n" * 16


def test_a_new_leader_opens_its_shards_and_drops_the_offsets_of_deleted_topics() -> None:
    async def scenario(node: GroupNode) -> None:
        node.host(leader_epoch=0)
        node.groups.refresh()
        assert isinstance(await node.ask("g", commit("g")), OffsetCommitResult)

        node.groups.forget_topics(["t"])

        fetched = await node.ask("g", fetch("g"))
        assert isinstance(fetched, OffsetFetchResult) and fetched.topics == []

    play(scenario)


def test_very_many_groups_drop_a_deleted_topic_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_runtime, "GROUPS_FORGOTTEN_PER_TURN", 3)
    forgotten: list[tuple[int, bool]] = []

    def counted(shard: Any, command: Any) -> Any:
        forgotten.append((len(command.group_ids), command.is_late))
        return forget(shard, command)

    forget = coordinator.forget_topics
    monkeypatch.setattr(coordinator, "forget_topics", counted)

    async def scenario(node: GroupNode) -> None:
        node.host(leader_epoch=0)
        node.groups.refresh()
        groups = [f"g{number}" for number in range(10)]
        for group in groups:
            assert isinstance(await node.ask(group, commit_all(group, ("t", OLD_ID))), OffsetCommitResult)

        node.groups.forget_topics(["t"])
        assert sum(count for count, _ in forgotten) == 3 and not any(is_late for _, is_late in forgotten)
        # The topic is created again before all groups have dropped the old one, and one of them has read it.
        shards = [one.coordinator.shard for one in node.groups.shards.values() if one.coordinator is not None]
        reader = next(group for group in groups if any(one.offsets.has_any(group) for one in shards))
        node.add_topic("t", NEW_ID)
        node.groups.change_topics(
            TopicsChanged(topics=ImageTopics(node.image), has_new_topics=True, changed=frozenset(("t",)))
        )
        assert isinstance(await node.ask(reader, commit_all(reader, ("t", NEW_ID))), OffsetCommitResult)
        for _ in range(20):
            await asyncio.sleep(0)

        assert sum(count for count, _ in forgotten) == 10 and max(count for count, _ in forgotten) <= 3
        assert [is_late for _, is_late in forgotten] == sorted(is_late for _, is_late in forgotten)
        assert [group for group in groups if (await node.ask(group, fetch(group))).topics] == [reader]

    play(scenario)


def test_offsets_of_topics_deleted_without_a_coordinator_are_dropped_after_the_load() -> None:
    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await node.ask(
            "g", commit_all("g", ("t", bytes(16)), ("u", bytes(16)), ("v", b"v" * 16), ("w", b"w" * 16))
        )

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.add_topic("v", b"n" * 16)  # deleted, and created again
        node.add_topic("w", b"w" * 16)
        node.groups.refresh()
        await node.loaded()

        fetched = await node.ask("g", fetch("g"))

        assert [topic for topic, _ in fetched.topics] == ["t", "w"]

    first = play(before)
    play(after, GroupNode(first.disk))


def test_offsets_of_a_topic_deleted_during_a_load_are_dropped() -> None:
    async def before(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        await node.ask("g", commit("g", 7))

    async def after(node: GroupNode) -> None:
        node.host(leader_epoch=1)
        node.groups.refresh()
        node.groups.forget_topics(["t"])
        await node.loaded()

        fetched = await node.ask("g", fetch("g"))

        assert isinstance(fetched, OffsetFetchResult) and fetched.topics == []

    first = play(before)
    play(after, GroupNode(first.disk))


def test_a_bug_in_the_core_causes_a_reload_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        member_id = await stable_group(node, "g")
        waiting = node.groups.ask("g", join("g"), lambda answer: answer)
        assert isinstance(waiting, Delayed) and member_id

        with monkeypatch.context() as broken, pytest.raises(AssertionError):
            broken.setattr(Coordinator, "handle", lambda *_: (_ for _ in ()).throw(AssertionError("a bug")))
            await node.ask("g", commit("g"))
        await node.loaded()

        answer = await waiting.future
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR
        heartbeat = Heartbeat(token=0, group_id="g", generation_id=1, member_id=member_id)
        answer = await node.ask("g", lambda token: replace(heartbeat, token=token))
        assert answer.error is ErrorCode.NONE

    play(scenario)


# ---- heartbeats that wait ----------------------------------------------------------------------------------


def holding_node(hold_ms: int = 10_000) -> GroupNode:
    return GroupNode(heartbeat_hold_ms=hold_ms)


async def held_heartbeat(node: GroupNode, group_id: str, member_id: str) -> Delayed:
    """Return a heartbeat that waits: the coordinator knows the member's interval from two before it."""

    def make(token: int) -> Heartbeat:
        hold_ms = node.groups.hold_ms("some-client")
        assert hold_ms == 10_000
        return Heartbeat(
            token=token, group_id=group_id, generation_id=1, member_id=member_id, hold_ms=hold_ms
        )

    for _ in range(2):
        answer = node.groups.ask_to_wait(group_id, member_id, make, lambda answer: answer)
        node.clock.advance(200)
    assert isinstance(answer, Delayed) and isinstance(answer.future, asyncio.Future)
    assert not answer.future.done()
    return answer


def test_a_heartbeat_waits_until_its_connection_needs_the_answer() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        held = await held_heartbeat(node, "g", await stable_group(node, "g"))

        assert held.release is not None
        held.release()

        assert await held.future == HeartbeatResult()
        held.release()  # it may come too late

    play(scenario, holding_node())


def test_a_heartbeat_waits_until_the_group_rebalances() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        held = await held_heartbeat(node, "g", await stable_group(node, "g"))

        node.groups.ask("g", join("g"), lambda answer: answer)

        assert await held.future == HeartbeatResult(error=ErrorCode.REBALANCE_IN_PROGRESS)

    play(scenario, holding_node())


def test_a_heartbeat_does_not_wait_for_ever() -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        held = await held_heartbeat(node, "g", await stable_group(node, "g"))

        assert await held.future == HeartbeatResult()  # by its timer, after 0.18 s

    play(scenario, holding_node())


@pytest.mark.parametrize("moves", [True, False])
def test_waiting_heartbeats_are_answered_when_the_coordinator_moves_or_stops(moves: bool) -> None:
    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        held = await held_heartbeat(node, "g", await stable_group(node, "g"))

        if moves:
            node.host(leader_epoch=1, leader=2)
            node.groups.refresh()
        else:
            node.groups.close()

        answer = await held.future
        assert isinstance(answer, KafkaError) and answer.code is ErrorCode.NOT_COORDINATOR
        assert held.release is not None
        held.release()

    play(scenario, holding_node())


def test_heartbeats_of_unidentified_clients_never_wait_and_none_if_the_setting_is_off() -> None:
    async def scenario(node: GroupNode) -> None:
        assert node.groups.hold_ms("") == 0
        assert node.groups.hold_ms(SOFTWARE_NAME) == 0, "ottla consume awaits it between two fetches"

    async def off(node: GroupNode) -> None:
        assert node.groups.hold_ms("some-client") == 0

    play(scenario, holding_node())
    play(off, holding_node(0))


def test_the_number_of_waiting_heartbeats_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_runtime, "MAX_HELD_HEARTBEATS", 1)

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        held = await held_heartbeat(node, "g", await stable_group(node, "g"))
        assert node.groups.hold_ms("some-client") == 0

        assert held.release is not None
        held.release()
        await held.future
        await asyncio.sleep(0)

        assert node.groups.hold_ms("some-client") == 10_000

    play(scenario, holding_node())


# ---- very many ---------------------------------------------------------------------------------------------


def test_very_many_answers_are_given_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_runtime, "MAX_ANSWERS_PER_TURN", 2)

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        delayed = [node.groups.ask("g", commit("g", offset), lambda answer: answer) for offset in range(5)]
        done: list[int] = []

        for _ in range(10):
            await asyncio.sleep(0)
            done.append(sum(each.future.done() for each in delayed))

        assert done[-1] == 5
        assert max(after - before for before, after in itertools.pairwise([0, *done])) <= 2

    play(scenario)


def test_answers_that_wait_for_a_turn_are_given_when_the_node_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_runtime, "MAX_ANSWERS_PER_TURN", 2)

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        delayed = [node.groups.ask("g", commit("g", offset), lambda answer: answer) for offset in range(5)]

        node.groups.close()

        assert all(each.future.done() for each in delayed)

    play(scenario)


def test_very_many_groups_are_described_in_turns_and_built_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator_runtime, "MAX_COMMANDS_PER_TURN", 2)
    monkeypatch.setattr(group_runtime, "MAX_GROUPS_PER_TURN", 2)

    async def scenario(node: GroupNode) -> None:
        await node.groups.coordinator_of("g")
        ids = [f"g{number}" for number in range(5)]
        for group_id in ids:
            await node.ask(group_id, commit(group_id))
        requests = [
            (one, lambda token, one=one: DescribeGroups(token=token, group_ids=(one,))) for one in ids
        ]

        described = await node.groups.ask_each(requests, list, builds_in_thread=True)  # type: ignore[arg-type]
        listed = await node.groups.ask_all_shards(
            lambda token: ListGroups(token=token, states=frozenset(), types=frozenset()), list
        )

        assert isinstance(described, BuiltInThread) and isinstance(listed, BuiltInThread)
        assert [one.groups[0].group_id for one in described.make()] == ids
        assert sorted(group.group_id for one in listed.make() for group in one.groups) == ids

    play(scenario)

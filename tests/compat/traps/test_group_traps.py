"""Traps 12 and 21 to 26: the classic group protocol as clients see it."""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.wire_client import WireClient, eventually, only

Connect = Callable[..., WireClient]
PROTOCOL = {"name": "range", "metadata": b"\0\0"}


@pytest.fixture
def group(client: WireClient) -> str:
    name = f"group-{uuid4().hex[:10]}"
    found = eventually(
        lambda: client.call("find_coordinator", 2, key=name, key_type=0), lambda found: found.error_code == 0
    )
    assert found.error_code == 0
    eventually(lambda: client.call("heartbeat", 3, group_id=name, generation_id=1, member_id="x"), loaded)
    return name


def loaded(answer: Any) -> bool:
    return bool(answer.error_code not in (14, 15, 16))


def request(group: str, member_id: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [PROTOCOL],
        **fields,
    }


def join(client: WireClient, group: str, version: int = 7, **fields: Any) -> Any:
    """Join, with the second request that version 4 and later take, and return the last response."""
    first = client.call("join_group", version, **request(group, **fields))
    if first.error_code == 79:
        return client.call(
            "join_group", version, **request(group, **{**fields, "member_id": first.member_id})
        )
    return first


def sync(client: WireClient, group: str, joined: Any, **assignments: bytes) -> Any:
    given = [{"member_id": joined.member_id, "assignment": value} for value in assignments.values()]
    return client.call(
        "sync_group",
        5,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=given,
    )


def join_and_sync(client: WireClient, group: str) -> Any:
    """Let one member join and sync, and return the response to its join."""
    joined = join(client, group)
    assert joined.error_code == 0
    assert sync(client, group, joined, mine=b"mine").error_code == 0
    return joined


def heartbeat(client: WireClient, group: str, joined: Any) -> int:
    return int(
        client.call(
            "heartbeat", 3, group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
        ).error_code
    )


def commit(
    client: WireClient, group: str, topic: str, joined: Any = None, version: int = 8, **fields: Any
) -> int:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "", **fields}
    answer = client.call(
        "offset_commit",
        version,
        group_id=group,
        generation_id_or_member_epoch=joined.generation_id if joined else -1,
        member_id=joined.member_id if joined else "",
        topics=[{"name": topic, "partitions": [partition]}],
    )
    return int(only(only(answer.topics).partitions).error_code)


def test_trap_12_a_coordinator_that_is_not_ready_answers_14_15_or_16_and_is_ready_soon(
    client: WireClient,
) -> None:
    name = f"group-{uuid4().hex[:8]}"
    seen: list[int] = []

    def ask() -> Any:
        answer = client.call("find_coordinator", 4, key_type=0, coordinator_keys=[name])
        seen.append(only(answer.coordinators).error_code)
        return only(answer.coordinators)

    found = eventually(ask, lambda answer: answer.error_code == 0)

    assert set(seen) <= {0, 14, 15}
    assert (found.error_code, found.key) == (0, name)


def test_trap_21_version_4_returns_a_member_id_and_requires_it(client: WireClient, group: str) -> None:
    first = client.call("join_group", 4, **request(group))
    second = client.call("join_group", 4, **request(group, first.member_id))

    assert first.error_code == 79
    assert first.member_id.startswith("trap-")
    assert len(first.member_id) == len("trap-") + 36
    assert (second.error_code, second.member_id, second.generation_id) == (0, first.member_id, 1)
    assert second.leader == first.member_id


def test_trap_21_a_member_id_is_given_once(client: WireClient, group: str) -> None:
    given = []
    for _ in range(2):
        joined = join_and_sync(client, group)
        given.append(joined.member_id)
        left = client.call("leave_group", 3, group_id=group, members=[{"member_id": joined.member_id}])
        assert only(left.members).error_code == 0

    again = client.call("join_group", 7, **request(group, given[0]))

    assert len(set(given)) == 2
    assert again.error_code == 25


def test_trap_21_version_3_joins_directly(client: WireClient, group: str) -> None:
    answer = client.call("join_group", 3, **request(group))

    assert (answer.error_code, answer.generation_id) == (0, 1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"member_id": "nobody"}, 25),
        ({"session_timeout_ms": 5999}, 26),
        ({"session_timeout_ms": 1_800_001}, 26),
        ({"group_id": ""}, 24),
        ({"protocols": []}, 23),
        ({"protocol_type": ""}, 23),
    ],
)
def test_trap_21_invalid_joins_are_rejected(
    client: WireClient, group: str, fields: dict[str, Any], error: int
) -> None:
    assert client.call("join_group", 7, **{**request(group), **fields}).error_code == error


def test_trap_21_other_protocols_than_the_groups_are_inconsistent(
    client: WireClient, connect: Connect, group: str
) -> None:
    join_and_sync(client, group)

    other = connect().call("join_group", 3, **request(group, protocols=[{"name": "sticky", "metadata": b""}]))
    other_type = connect().call("join_group", 3, **request(group, protocol_type="connect"))

    assert (other.error_code, other_type.error_code) == (23, 23)


def test_trap_21_a_leader_that_joins_again_rebalances(client: WireClient, group: str) -> None:
    joined = join_and_sync(client, group)

    again = client.call("join_group", 7, **request(group, joined.member_id))

    assert (again.error_code, again.generation_id) == (0, 2)


def test_trap_21_a_group_of_two_has_one_leader_who_knows_both(
    client: WireClient, connect: Connect, group: str
) -> None:
    first = join_and_sync(client, group)
    other = connect()
    waiting_id = other.call("join_group", 7, **request(group)).member_id
    waiting = other.send("join_group", 7, **request(group, waiting_id))
    assert eventually(lambda: heartbeat(client, group, first), lambda error: error == 27) == 27

    leader = client.call("join_group", 7, **request(group, first.member_id))
    follower = other.receive("join_group", 7, waiting)

    assert leader.generation_id == follower.generation_id == 2
    assert leader.leader == follower.leader == first.member_id
    assert sorted(member.member_id for member in leader.members) == sorted([first.member_id, waiting_id])
    assert not follower.members


def test_trap_22_a_rebalance_is_reported_to_heartbeats_first_and_to_commits_later(
    client: WireClient, connect: Connect, group: str, topic: str
) -> None:
    first = join_and_sync(client, group)
    assert heartbeat(client, group, first) == 0
    other = connect()
    new_id = other.call("join_group", 7, **request(group)).member_id
    waiting = other.send("join_group", 7, **request(group, new_id))

    preparing = eventually(lambda: heartbeat(client, group, first), lambda error: error == 27)
    commit_preparing = commit(client, group, topic, first)
    joined = client.call("join_group", 7, **request(group, first.member_id))
    other.receive("join_group", 7, waiting)
    completing = heartbeat(client, group, joined)
    commit_completing = commit(client, group, topic, joined)

    assert (preparing, commit_preparing) == (27, 0)
    assert (completing, commit_completing) == (0, 27)


def test_trap_22_wrong_generations_members_and_groups_are_rejected(client: WireClient, group: str) -> None:
    joined = join_and_sync(client, group)

    def send_heartbeat(generation: int, member: str, name: str = group) -> int:
        fields = {"group_id": name, "generation_id": generation, "member_id": member}
        return int(client.call("heartbeat", 3, **fields).error_code)

    assert send_heartbeat(joined.generation_id + 1, joined.member_id) == 22
    assert send_heartbeat(joined.generation_id, "nobody") == 25
    assert send_heartbeat(1, "nobody", f"{group}-unknown") == 25


def test_trap_23_a_follower_gets_empty_bytes_when_the_leader_gives_it_nothing(
    client: WireClient, connect: Connect, group: str
) -> None:
    first = join_and_sync(client, group)
    other = connect()
    new_id = other.call("join_group", 7, **request(group)).member_id
    waiting = other.send("join_group", 7, **request(group, new_id))
    assert eventually(lambda: heartbeat(client, group, first), lambda error: error == 27) == 27
    leader = client.call("join_group", 7, **request(group, first.member_id))
    follower = other.receive("join_group", 7, waiting)
    pending = other.send(
        "sync_group",
        3,
        group_id=group,
        generation_id=follower.generation_id,
        member_id=follower.member_id,
        assignments=[],
    )

    mine = sync(client, group, leader, mine=b"everything")
    theirs = other.receive("sync_group", 3, pending)

    assert (mine.error_code, bytes(mine.assignment)) == (0, b"everything")
    assert (theirs.error_code, bytes(theirs.assignment)) == (0, b"")


def test_trap_23_undecodable_subscriptions_are_passed_on(client: WireClient, group: str) -> None:
    odd = [{"name": "range", "metadata": b"\xff\xff\xff"}]

    joined = join(client, group, protocols=odd)

    assert joined.error_code == 0
    assert bytes(only(joined.members).metadata) == b"\xff\xff\xff"


def test_trap_24_commits_from_outside_need_an_empty_group(client: WireClient, group: str, topic: str) -> None:
    outside = commit(client, group, topic)
    joined = join_and_sync(client, group)
    outsider = commit(client, group, topic)
    member = commit(client, group, topic, joined)

    assert (outside, outsider, member) == (0, 25, 0)


def test_trap_24_unknown_partitions_and_long_metadata_are_rejected(
    client: WireClient, group: str, topic: str
) -> None:
    assert commit(client, group, "no-such-topic-at-all") == 3
    assert commit(client, group, topic, partition_index=9) == 3
    assert commit(client, group, topic, committed_metadata="x" * 4097) == 12
    assert commit(client, group, topic, committed_metadata="x" * 4096) == 0
    assert commit(client, group, topic, committed_offset=-5) == 0


def test_trap_24_an_unknown_group_has_no_offsets_and_no_error(
    client: WireClient, group: str, topic: str
) -> None:
    name = f"{group}-unknown"
    wanted = [{"name": topic, "partition_indexes": [0]}]
    single = client.call("offset_fetch", 7, group_id=name, topics=wanted)
    many = only(client.call("offset_fetch", 8, groups=[{"group_id": name, "topics": wanted}]).groups)

    assert single.error_code == many.error_code == 0
    for found in (only(only(single.topics).partitions), only(only(many.topics).partitions)):
        assert (found.committed_offset, found.error_code, found.committed_leader_epoch) == (-1, 0, -1)


def test_trap_24_committed_offsets_come_back(client: WireClient, group: str, topic: str) -> None:
    assert (
        commit(client, group, topic, committed_offset=42, committed_metadata="note", committed_leader_epoch=0)
        == 0
    )

    for version in range(2, 8):
        answer = client.call("offset_fetch", version, group_id=group, topics=None)
        found = only(only(answer.topics).partitions)
        assert (answer.error_code, found.committed_offset, found.metadata) == (0, 42, "note"), version


def test_trap_18_a_commit_comes_back_with_its_own_epoch_or_none(
    client: WireClient, group: str, topic: str
) -> None:
    wanted = [{"name": topic, "partition_indexes": [0]}]

    for epoch in (7, -1):
        assert commit(client, group, topic, committed_leader_epoch=epoch) == 0
        answer = client.call("offset_fetch", 7, group_id=group, topics=wanted)
        assert only(only(answer.topics).partitions).committed_leader_epoch == epoch


def test_trap_25_only_empty_groups_are_deleted_and_an_unknown_group_is_dead(
    client: WireClient, group: str, topic: str
) -> None:
    unknown = f"{group}-unknown"

    def delete(name: str) -> int:
        return int(only(client.call("delete_groups", 2, groups_names=[name]).results).error_code)

    joined = join_and_sync(client, group)
    assert delete(group) == 68
    assert delete(unknown) == 69
    described = only(client.call("describe_groups", 5, groups=[group]).groups)
    dead = only(client.call("describe_groups", 5, groups=[unknown]).groups)
    not_found = only(client.call("describe_groups", 6, groups=[unknown]).groups)
    assert (described.group_state, described.protocol_type) == ("Stable", "consumer")
    assert only(described.members).member_id == joined.member_id
    assert (dead.error_code, dead.group_state) == (0, "Dead")
    assert not_found.error_code == 69

    left = client.call("leave_group", 3, group_id=group, members=[{"member_id": joined.member_id}])
    assert (left.error_code, only(left.members).error_code) == (0, 0)
    assert eventually(lambda: delete(group), lambda error: error == 0) == 0


def test_trap_25_listed_groups_show_state_and_type(client: WireClient, group: str) -> None:
    join_and_sync(client, group)

    def listed(**filters: Any) -> dict[str, Any]:
        return {one.group_id: one for one in client.call("list_groups", 5, **filters).groups}

    assert (listed()[group].group_state, listed()[group].group_type) == ("Stable", "classic")
    assert group in listed(states_filter=["Stable"])
    assert group not in listed(states_filter=["Empty"])
    assert group not in listed(types_filter=["consumer"])


def test_trap_26_a_static_member_keeps_its_place_and_fences_its_double(
    client: WireClient, connect: Connect, group: str
) -> None:
    first = client.call("join_group", 7, **request(group, group_instance_id="instance-1"))
    assert first.error_code == 0, "static members join in one step"
    assert sync(client, group, first, mine=b"mine").error_code == 0
    other = connect()

    again = other.call("join_group", 7, **request(group, group_instance_id="instance-1"))
    fenced = client.call(
        "heartbeat",
        3,
        group_id=group,
        generation_id=first.generation_id,
        member_id=first.member_id,
        group_instance_id="instance-1",
    )

    assert (again.error_code, again.generation_id) == (0, first.generation_id), "no rebalance"
    assert again.member_id != first.member_id
    assert fenced.error_code == 82


def test_trap_26_a_member_that_falls_silent_is_removed_after_its_session(
    client: WireClient, group: str
) -> None:
    joined = join(client, group, session_timeout_ms=6000)
    assert sync(client, group, joined, mine=b"").error_code == 0
    began = time.monotonic()

    state = eventually(
        lambda: only(client.call("describe_groups", 5, groups=[group]).groups).group_state,
        lambda found: found == "Empty",
        seconds=60,
    )

    assert state == "Empty"
    assert time.monotonic() - began > 5


def test_trap_26_offsets_of_single_topics_are_deleted(client: WireClient, group: str, topic: str) -> None:
    assert commit(client, group, topic) == 0
    wanted = [{"name": topic, "partitions": [{"partition_index": 0}]}]

    answer = client.call("offset_delete", 0, group_id=group, topics=wanted)

    assert (answer.error_code, only(only(answer.topics).partitions).error_code) == (0, 0)
    found = client.call("offset_fetch", 7, group_id=group, topics=[{"name": topic, "partition_indexes": [0]}])
    assert only(only(found.topics).partitions).committed_offset == -1


def test_trap_38_duplicate_groups_and_partitions_do_not_harm(
    client: WireClient, group: str, topic: str
) -> None:
    assert commit(client, group, topic) == 0
    wanted = [{"name": topic, "partition_indexes": [0, 0]}]

    answer = client.call("offset_fetch", 7, group_id=group, topics=wanted)

    assert answer.error_code == 0
    assert {one.committed_offset for one in only(answer.topics).partitions} == {5}


def heartbeat_of_consumer(client: WireClient, group: str, member_id: str, epoch: int, **fields: Any) -> Any:
    """Send ConsumerGroupHeartbeat, in version 1 unless `version` is given."""
    version = fields.pop("version", 1)
    request = {"group_id": group, "member_id": member_id, "member_epoch": epoch, **fields}
    return client.call("consumer_group_heartbeat", version, **request)


def joining(topic: str) -> dict[str, Any]:
    return {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": [topic], "topic_partitions": []}


def test_trap_27_members_of_consumer_groups_have_epochs_and_null_means_unchanged(
    client: WireClient, group: str, topic: str
) -> None:
    """KIP-848: a joining member brings its id since version 1; responses have the heartbeat interval."""

    def send_heartbeat(member_id: str, epoch: int, **fields: Any) -> Any:
        return heartbeat_of_consumer(client, group, member_id, epoch, **fields)

    assert send_heartbeat("", 0, **joining(topic)).error_code == 42
    named = send_heartbeat("", 0, version=0, **joining(topic))
    epoch = named.member_epoch
    assert (named.error_code, epoch) == (0, 2) and named.heartbeat_interval_ms > 0  # group epochs begin at 1
    assert named.member_id and [list(one.partitions) for one in named.assignment.topic_partitions] == [[0]]

    assert send_heartbeat(named.member_id, epoch).assignment is None
    assert send_heartbeat(named.member_id, epoch, **joining(topic)).assignment is not None
    assert send_heartbeat(named.member_id, epoch + 4).error_code == 110
    assert send_heartbeat("nobody", epoch).error_code == 25
    left = send_heartbeat(named.member_id, -1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert send_heartbeat(named.member_id, -1).error_code == 25


def test_trap_27_a_static_member_that_leaves_for_a_while_keeps_its_place(
    client: WireClient, group: str, topic: str
) -> None:
    def send_heartbeat(member_id: str, epoch: int, **fields: Any) -> Any:
        return heartbeat_of_consumer(client, group, member_id, epoch, instance_id="i", **fields)

    first = send_heartbeat("before", 0, **joining(topic))
    double = send_heartbeat("double", 0, **joining(topic))
    away = send_heartbeat("before", -2)
    after = send_heartbeat("after", 0, **joining(topic))

    assert (first.error_code, double.error_code) == (0, 111), "UNRELEASED_INSTANCE_ID"
    assert (away.error_code, away.member_epoch) == (0, -2)
    assert (after.error_code, after.member_epoch) == (0, first.member_epoch), "no rebalance"
    assert [list(one.partitions) for one in after.assignment.topic_partitions] == [[0]]
    assert send_heartbeat("before", first.member_epoch).error_code == 82, "FENCED_INSTANCE_ID"


def test_trap_27_a_classic_member_joins_a_consumer_group(
    client: WireClient, connect: Connect, group: str, topic: str
) -> None:
    assert heartbeat_of_consumer(client, group, "modern", 0, **joining(topic)).error_code == 0
    reads = b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + b"\xff\xff\xff\xff"
    classic, fields = connect(), request(group, protocols=[{"name": "range", "metadata": reads}])

    first = classic.call("join_group", 7, **fields)
    second = classic.call("join_group", 7, **{**fields, "member_id": first.member_id})

    assert (first.error_code, second.error_code) == (79, 0)
    assert (second.member_id, second.protocol_name) == (first.member_id, "range")

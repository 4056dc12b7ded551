"""Groups that change their protocol while they have members, both ways (KIP-848), by Kafka 4.3.1's rules."""

import pytest

from ottla.groupcoord.admin_commands import DescribeConsumerGroups, DescribeGroups, ListGroups
from ottla.groupcoord.admin_results import DescribeGroupsResult, ListGroupsResult
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import JoinGroup, MemberIdentity, Protocol, SyncGroup
from ottla.groupcoord.classic.member_results import JoinGroupResult
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_results import DescribeConsumerGroupsResult
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from ottla.groupcoord.effects import Refuse, Reply, TimerKey
from ottla.groupcoord.group_records import GroupMetadataRecord
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit
from ottla.groupcoord.offsets.offset_results import OffsetCommitResult
from ottla.groupcoord.timeline import Cause
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.consumer.consumer_world import Client, ConsumerWorld
from tests.unit.groupcoord.consumer.migration_world import (
    REBALANCE_MS,
    SESSION_MS,
    ClassicClient,
    assigned,
    assignment,
    classic_group,
    subscription,
)
from tests.unit.groupcoord.topic_ids import partitions_in, topic_id


def world_of(
    policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL, interval_ms: int = 0, **settings: int
) -> ConsumerWorld:
    config = CoordinatorConfig(
        group_consumer_assignment_interval_ms=interval_ms,
        group_consumer_migration_policy=policy,
        **settings,  # type: ignore[arg-type]
    )
    return ConsumerWorld(config)


def member(world: ConsumerWorld, member_id: str) -> ConsumerMember:
    return world.group().members[member_id]


def settle(*clients: Client | ClassicClient, rounds: int = 8) -> None:
    """Let all clients act in turn until they have nothing left to do."""
    for _ in range(rounds):
        for client in clients:
            client.step() if isinstance(client, ClassicClient) else client.heartbeat()


def check_shares(world: ConsumerWorld, *clients: Client | ClassicClient) -> None:
    """Assert that every partition of "a" is owned once."""
    owned = sorted(number for client in clients for number in client.owned.get("a", ()))
    assert owned == list(range(world.topics["a"]))


# ---- upgrades ----------------------------------------------------------------------------------------------


def test_a_heartbeat_turns_an_empty_classic_group_into_a_consumer_group_that_keeps_its_offsets() -> None:
    world = world_of(MigrationPolicy.DISABLED)
    anna = ClassicClient(world, "anna")
    classic_group(world, anna)
    commit(world, anna.member_id, anna.generation)
    anna.leave()
    length = len(world.groups.log)

    world.join("m1", "a")

    assert world.written(length) == "2t 5 3 7 6 8"
    assert world.groups.coordinator.shard.offsets.get("g", "a", 0) is not None
    assert world.groups.timers.keys() >= {("session", "g", "m1")}


def test_an_empty_classic_group_has_nothing_to_rebalance() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna")
    classic_group(world, anna)
    anna.leave()

    assert world.join("m1").member_epoch == 1, "it reads nothing, like the first member of a new group"


def test_a_classic_group_with_members_is_upgraded_by_a_heartbeat() -> None:
    world = world_of()
    anna, bert = ClassicClient(world, "anna"), ClassicClient(world, "bert")
    classic_group(world, anna, bert)
    owned = {client.member_id: client.owned["a"] for client in (anna, bert)}
    length = len(world.groups.log)

    answer = world.join("m1", "a")

    assert world.written(length) == "2t 5 5 3 7 7 6 8 8 5 3 7 7 6 8"
    group = world.group()
    assert (group.group_epoch, group.assignment_epoch, answer.member_epoch) == (2, 2, 2)
    assert partitions_in(answer) == {}, "the others have not given up anything yet"
    for client in (anna, bert):
        known = member(world, client.member_id)
        assert (known.member_epoch, known.previous_member_epoch, known.state) == (1, 1, MemberState.STABLE)
        assert known.assigned == {topic_id("a"): dict.fromkeys(owned[client.member_id], 1)}
        assert known.classic is not None and known.classic.session_timeout_ms == SESSION_MS
        assert (known.client_id, known.rebalance_timeout_ms) == (client.name, REBALANCE_MS)
        assert known.topic_names == {"a"}


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_classic_members_and_others_share_the_partitions(is_cooperative: bool) -> None:
    world = world_of()
    anna = ClassicClient(world, "anna", is_cooperative=is_cooperative)
    bert = ClassicClient(world, "bert", is_cooperative=is_cooperative)
    classic_group(world, anna, bert)
    carl = Client(world, "m1", "a")

    carl.join()
    settle(anna, bert, carl)

    check_shares(world, anna, bert, carl)
    assert all(client.owned["a"] for client in (anna, bert, carl))
    assert world.group().state.value == "Stable"


def join_as(world: ConsumerWorld, metadata: bytes, given: bytes, protocol_type: str = "consumer") -> str:
    """Make a stable classic group of one member; return its member id."""
    token = world.groups.join(protocols=[("range", metadata)], protocol_type=protocol_type)
    world.groups.advance(3_001)
    member_id = world.groups.joined(token).member_id
    world.groups.sync(member_id, 1, [(member_id, given)])
    assert world.groups.state() is GroupState.STABLE
    return member_id


@pytest.mark.parametrize(
    ("settings", "metadata", "given", "protocol_type", "reason"),
    [
        (
            {"policy": MigrationPolicy.DISABLED},
            subscription("a"),
            b"",
            "consumer",
            "online upgrade is disabled.",
        ),
        (
            {"policy": MigrationPolicy.DOWNGRADE},
            subscription("a"),
            b"",
            "consumer",
            "online upgrade is disabled.",
        ),
        (
            {},
            b"worker",
            b"",
            "connect",
            "the group does not use the consumer embedded protocol.",
        ),
        (
            {"group_consumer_max_size": 0},
            subscription("a"),
            b"",
            "consumer",
            "the group size exceeds the consumer group maximum size.",
        ),
        ({}, b"", b"", "consumer", "the embedded consumer protocol is malformed."),
        ({}, b"\xff\xff", b"", "consumer", "the embedded consumer protocol is malformed."),
        ({}, subscription("a")[:-3], b"", "consumer", "the embedded consumer protocol is malformed."),
        ({}, subscription("a"), b"\0\1\0\0", "consumer", "the embedded consumer protocol is malformed."),
        (
            {},
            subscription("a"),
            b"\0\1\0\0\0\0\0\0\0\1x",
            "consumer",
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
            "default assignor before re-attempting the upgrade.",
        ),
    ],
)
def test_a_group_that_cannot_be_upgraded_stays_as_it_was(
    settings: dict[str, object], metadata: bytes, given: bytes, protocol_type: str, reason: str
) -> None:
    world = world_of(**settings)  # type: ignore[arg-type]
    member_id = join_as(world, metadata, given, protocol_type)
    length = len(world.groups.log)

    refused = world.heartbeat("m1", 0, names=["a"], owned={}, rebalance_ms=1)

    assert isinstance(refused, Refuse)
    assert (refused.error, refused.detail) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group g to consumer group because {reason}",
    )
    assert len(world.groups.log) == length
    assert world.groups.heartbeat(member_id, 1) is ErrorCode.NONE


@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_a_classic_group_has_no_members_of_the_consumer_protocol(epoch: int) -> None:
    world = world_of()
    classic_group(world, ClassicClient(world, "anna"))

    refused = world.heartbeat("m1", epoch, instance="one")

    assert isinstance(refused, Refuse)
    assert (refused.error, refused.detail) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a consumer group.",
    )


def test_a_full_group_is_not_upgraded_for_a_new_member() -> None:
    world = world_of(group_consumer_max_size=1)
    anna = ClassicClient(world, "anna")
    classic_group(world, anna)

    assert world.refused("m1", 0, names=["a"], owned={}, rebalance_ms=1) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.groups.state() is GroupState.STABLE and anna.heartbeat() is ErrorCode.NONE


def test_members_that_wait_for_others_to_join_have_to_join_again() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna")
    classic_group(world, anna)
    bert = world.groups.join(protocols=[("range", subscription("a"))])
    assert bert in world.groups.waiting()

    world.join("m1", "a")

    answer = world.groups.joined(bert)
    assert (answer.error, answer.member_id) == (ErrorCode.REBALANCE_IN_PROGRESS, "c-u2")
    assert set(world.group().members) == {anna.member_id, "c-u2", "m1"}
    assert world.groups.timers.keys() >= {("session", "g", "c-u2")}
    assert member(world, "c-u2").assigned == {}


def test_members_that_wait_for_the_leader_have_to_join_again_and_have_no_partitions() -> None:
    world = world_of()
    tokens = [world.groups.join(protocols=[("range", subscription("a"))]) for _ in range(2)]
    world.groups.advance(6_001)
    leader, follower = (world.groups.joined(token).member_id for token in tokens)
    waiting = world.groups.sync(follower, 1)
    assert world.groups.state() is GroupState.COMPLETING_REBALANCE

    answer = world.join("m1", "a")

    assert world.groups.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert partitions_in(answer) == {"a": [3]}, "no member owns the partitions of its target"
    assert world.groups.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_that_never_chose_a_protocol_is_upgraded_too() -> None:
    world = world_of()
    waiting = world.groups.join(protocols=[("range", subscription("a")), ("roundrobin", b"")])
    pending = world.groups.join(member_id_required=True)

    world.join("m1", "a")

    assert world.groups.joined(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.groups.joined(pending).member_id == "c-u2"
    assert set(world.group().members) == {"c-u1", "m1"}, (
        "the client that was only given an id is not a member yet"
    )
    token = world.groups.join("c-u2", protocols=[("range", subscription("a"))], member_id_required=True)
    assert not world.groups.joined(token).error


def test_a_member_subscribes_to_the_topics_in_its_metadata_under_the_chosen_protocol() -> None:
    world = world_of()
    offered = [("other", subscription("b")), ("range", subscription("a", rack="r1"))]
    first = world.groups.join(protocols=[("range", subscription("a"))])
    world.groups.join(protocols=offered)
    world.groups.advance(6_001)
    assert world.groups.joined(first).protocol_name == "range"

    world.join("m1", "a")

    assert (member(world, "c-u2").topic_names, member(world, "c-u2").rack_id) == ({"a"}, "r1")


def test_a_partition_that_was_assigned_to_two_members_belongs_to_the_first() -> None:
    world = world_of()
    tokens = [world.groups.join(protocols=[("range", subscription("a"))]) for _ in range(2)]
    world.groups.advance(6_001)
    first, second = (world.groups.joined(token).member_id for token in tokens)
    world.groups.sync(second, 1)
    world.groups.sync(
        first,
        1,
        [(first, assignment(a=[0, 1], gone=[0])), (second, assignment(a=[1, 2]))],
    )

    world.join("m1", "a")

    assert member(world, first).assigned == {topic_id("a"): {0: 1, 1: 1}}
    assert member(world, second).assigned == {topic_id("a"): {2: 1}}


def test_a_cooperative_member_keeps_what_it_has_not_given_up_yet() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna", is_cooperative=True)
    classic_group(world, anna)
    bert = ClassicClient(world, "bert", is_cooperative=True)
    while bert.join_token is None or bert.join_token in world.groups.answers:
        bert.step()
    anna.step()  # it learns of the other, and joins with all its partitions
    anna.step()  # it leads, and assigns half of them to no member for now
    assert anna.sync_token in world.groups.answers and anna.owned == {"a": [0, 1, 2, 3]}

    answer = world.join("m1", "a")

    assert member(world, anna.member_id).assigned == {topic_id("a"): dict.fromkeys(range(4), 2)}
    assert partitions_in(answer) == {}, "anna reads them until it is told to give them up"


def test_partitions_that_the_leader_did_not_know_of_are_assigned() -> None:
    """A static member that changes its protocol changes nothing else; the group rebalances nevertheless."""
    world = world_of()
    anna = ClassicClient(world, "anna", instance="one")
    classic_group(world, anna)
    world.set_topics({"a": 5, "b": 2})

    answer = world.join("m1", "a", instance="one")

    assert partitions_in(answer) == {"a": [0, 1, 2, 3, 4]}


def test_a_group_that_was_rebalancing_rebalances_again_whatever_member_joins() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna", instance="one")
    bert = ClassicClient(world, "bert")
    classic_group(world, anna, bert)
    world.groups.join(protocols=[("range", subscription("a"))])
    epoch = anna.generation

    world.join("m1", "a", instance="one")

    assert world.groups.state() is GroupState.DEAD
    assert (world.group().group_epoch, world.group().assignment_epoch) == (epoch + 1, epoch + 1)


def test_a_static_classic_member_comes_back_with_the_consumer_protocol() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna", instance="one")
    bert = ClassicClient(world, "bert", instance="two")
    classic_group(world, anna, bert)
    length = len(world.groups.log)

    answer = world.join("m1", "a", instance="one")

    assert world.written(length) == "2t 5 5 3 7 7 6 8 8 8t 7t 5t 5 7 8 5 8"
    assert (answer.member_epoch, partitions_in(answer)) == (1, anna.owned)
    assert set(world.group().members) == {"m1", bert.member_id}
    assert anna.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    assert bert.heartbeat() is ErrorCode.NONE, "nothing changed for it"


# ---- classic members in a consumer group -------------------------------------------------------------------


def mixed(**settings: int) -> tuple[ConsumerWorld, ClassicClient, Client]:
    """Return a consumer group of a classic member and one of the consumer protocol, at rest."""
    world = world_of(**settings)
    consumer = Client(world, "m1", "a")
    consumer.join()
    classic = ClassicClient(world, "anna")
    settle(classic, consumer)
    check_shares(world, classic, consumer)
    return world, classic, consumer


def test_a_new_member_gets_its_id_and_nothing_is_kept_of_it() -> None:
    world, _, _ = mixed()
    length, timers = len(world.groups.log), set(world.groups.timers)

    token = world.groups.join(protocols=[("range", subscription("a"))], member_id_required=True)

    answer = world.groups.joined(token)
    assert (answer.error, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "u2")
    assert (len(world.groups.log), set(world.groups.timers)) == (length, timers)


def test_a_classic_member_joins_in_one_step_and_there_is_no_leader() -> None:
    world = world_of()
    world.join("m1", "a")
    length = len(world.groups.log)

    token = world.groups.join(
        protocols=[("sticky", subscription("a", rack="r1")), ("range", subscription("a"))],
        session_ms=SESSION_MS,
        client_id="anna",
    )

    assert world.written(length) == "5 3 7 7 6 8"
    assert world.groups.joined(token) == JoinGroupResult(
        generation_id=3, protocol_type="consumer", protocol_name="sticky", leader="", member_id="u1"
    )
    joined = member(world, "u1")
    assert (joined.rack_id, joined.client_id, joined.state) == (
        "r1",
        "anna",
        MemberState.UNRELEASED_PARTITIONS,
    )
    assert joined.classic is not None
    assert [one.name for one in joined.classic.protocols] == ["sticky", "range"]
    timers = {key.purpose: at - world.groups.now_ms for key, (at, _, _) in world.groups.timers.items()}
    assert (timers["session"], timers["member-sync"]) == (SESSION_MS, REBALANCE_MS)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocols": [("other", subscription("a"))]}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"session_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": [("range", b"")]}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"protocols": [("range", b"\xff\xff")]}, ErrorCode.UNKNOWN_SERVER_ERROR),
        ({"member_id": "nobody", "instance": "one"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_malformed_and_unknown_joins_are_rejected(fields: dict[str, object], error: ErrorCode) -> None:
    world, _, _ = mixed()
    length = len(world.groups.log)

    token = world.groups.join(**{"protocols": [("range", subscription("a"))], **fields})  # type: ignore[arg-type]

    assert world.groups.answers[token].error is error  # type: ignore[union-attr]
    assert len(world.groups.log) == length


def test_a_client_that_claims_partitions_without_being_a_member_is_rejected() -> None:
    world, anna, _ = mixed()
    claiming = [("range", subscription("a", owned={"a": [0]}))]
    length = len(world.groups.log)

    refused = world.groups.join("somebody", protocols=claiming)

    answer = world.groups.joined(refused)
    assert (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "somebody")
    assert len(world.groups.log) == length
    assert not world.groups.joined(world.groups.join(anna.member_id, protocols=claiming)).error


def test_a_full_group_takes_no_other_member() -> None:
    world, anna, _ = mixed(group_consumer_max_size=2)

    refused = world.groups.join(protocols=[("range", subscription("a"))])
    again = world.groups.join(anna.member_id, protocols=[("range", subscription("a"))])

    assert world.groups.joined(refused).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.groups.joined(again).error


def test_policy_disabled_lets_classic_members_into_empty_groups_only() -> None:
    world = world_of(MigrationPolicy.DISABLED)
    world.join("m1", "a")
    refused = world.groups.join(protocols=[("range", subscription("a"))])
    world.heartbeat("m1", -1)
    length = len(world.groups.log)

    accepted = ClassicClient(world, "anna")
    classic_group(world, accepted)

    assert world.groups.joined(refused).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.written(length) == "6t 4t 3t 2"
    assert accepted.generation == 1


def test_an_empty_consumer_group_stays_as_it_is_when_a_join_is_rejected() -> None:
    world = world_of()
    world.join("m1", "a")
    world.heartbeat("m1", -1)
    length = len(world.groups.log)

    for token, error in [
        (world.groups.join(session_ms=1), ErrorCode.INVALID_SESSION_TIMEOUT),
        (world.groups.join("somebody"), ErrorCode.UNKNOWN_MEMBER_ID),
    ]:
        assert world.groups.joined(token).error is error

    assert len(world.groups.log) == length and world.group().is_empty


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"generation_id": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 9}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "m1"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance": "one"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "roundrobin"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_with_wrong_identity_or_protocol_is_rejected(
    fields: dict[str, object], error: ErrorCode
) -> None:
    world, anna, _ = mixed()
    request: dict[str, object] = {"member_id": anna.member_id, "generation_id": anna.generation}

    token = world.groups.sync(**{**request, **fields})  # type: ignore[arg-type]

    assert world.groups.answers[token].error is error  # type: ignore[union-attr]


def test_a_sync_returns_the_partitions_and_the_protocol_of_the_request() -> None:
    world, anna, _ = mixed()

    synced = world.groups.synced(world.groups.sync(anna.member_id, anna.generation))
    named = world.groups.synced(
        world.groups.sync(anna.member_id, anna.generation, protocol_type="consumer", protocol_name="range")
    )

    assert assigned(synced.assignment) == anna.owned and synced.assignment[:2] == b"\0\3"
    assert (synced.protocol_type, synced.protocol_name) == (None, None)
    assert (named.protocol_type, named.protocol_name) == ("consumer", "range")


def test_an_old_member_is_assigned_in_its_own_version() -> None:
    world = world_of()
    world.join("m1", "a")
    metadata = subscription("a", version=0)
    joined = world.groups.joined(world.groups.join(protocols=[("range", metadata)]))

    synced = world.groups.synced(world.groups.sync(joined.member_id, joined.generation_id))

    assert synced.assignment == b"\0\0\0\0\0\0\xff\xff\xff\xff"


def test_members_learn_of_a_new_target_when_they_heartbeat_or_sync() -> None:
    world, anna, _ = mixed()
    assert anna.heartbeat() is ErrorCode.NONE

    world.join("m2", "a")

    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    synced = world.groups.sync(anna.member_id, anna.generation)
    assert world.groups.synced(synced).error is ErrorCode.REBALANCE_IN_PROGRESS
    refused = [
        world.groups.heartbeat(anna.member_id, anna.generation + 1),
        world.groups.heartbeat("m1", anna.generation),
        world.groups.heartbeat("nobody", anna.generation),
        world.groups.heartbeat(anna.member_id, anna.generation, instance="one"),
    ]
    assert refused == [ErrorCode.ILLEGAL_GENERATION, *[ErrorCode.UNKNOWN_MEMBER_ID] * 3]


def test_a_cooperative_member_that_has_to_revoke_syncs_and_joins_once_more() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna", is_cooperative=True)
    classic_group(world, anna)
    world.join("m1", "a")
    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS

    anna.join()
    anna.step()  # it has joined, and asks for its assignment

    revoking = member(world, anna.member_id)
    assert (revoking.state, revoking.member_epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert ("rebalance", "g", anna.member_id) not in world.groups.timers
    anna.step()  # it has its assignment, gives up the rest, and joins again
    assert member(world, anna.member_id).state is MemberState.STABLE
    assert partitions_in(world.stay("m1", 2, owned={})) == {"a": [2, 3]}


def test_a_member_that_waits_for_partitions_rebalances_when_they_are_free() -> None:
    world = world_of()
    consumer = Client(world, "m1", "a")
    consumer.join()
    anna = ClassicClient(world, "anna")
    for _ in range(4):
        anna.step()
    assert member(world, anna.member_id).state is MemberState.UNRELEASED_PARTITIONS
    assert anna.heartbeat() is ErrorCode.NONE, "the other member still owns them"

    consumer.heartbeat()

    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(anna)
    assert anna.owned == {"a": [2, 3]}


def test_a_target_that_the_assignment_interval_puts_off_is_not_announced_yet() -> None:
    world = world_of(interval_ms=1_000)
    world.join("m1", "a")

    anna = ClassicClient(world, "anna")
    for _ in range(3):
        anna.step()

    assert world.group().state.value == "Assigning"
    assert (anna.generation, anna.owned) == (2, {})
    assert anna.heartbeat() is ErrorCode.NONE
    world.groups.advance(1_001)
    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_gives_up_topics_that_it_no_longer_reads_at_once() -> None:
    world = world_of(interval_ms=1_000)
    world.join("m1", "a")
    anna = ClassicClient(world, "anna", "a", "b")
    settle(anna)
    world.groups.advance(1_001)
    settle(anna)
    assert anna.owned["b"] == [0, 1]
    world.join("m2", "a")

    world.groups.join(anna.member_id, protocols=[("range", subscription("a"))])

    assert world.group().state.value == "Assigning", "the new target is deferred"
    assert topic_id("b") not in member(world, anna.member_id).held


def test_an_expression_is_removed_when_its_member_comes_back_as_a_classic_one() -> None:
    world = world_of()
    world.join("m1", "a")
    world.join("m2", regex="b.*", instance="one")
    assert list(world.group().regexes) == ["b.*"]
    length = len(world.groups.log)

    token = world.groups.join(instance="one", protocols=[("range", subscription("b"))])

    assert not world.groups.joined(token).error
    assert world.written(length).startswith("8t 7t 5t 5 7 8 5 16t 3 ")
    assert not world.group().regexes and world.group().is_subscribed_to("b")


def test_answers_with_owned_partitions_wait_until_these_are_committed() -> None:
    world, anna, _ = mixed()
    joined = world.groups.handle(
        JoinGroup(
            token=world.groups.token(),
            group_id="g",
            member_id=anna.member_id,
            protocol_type="consumer",
            protocols=[Protocol("range", subscription("a"))],
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )
    )
    synced = world.groups.handle(
        SyncGroup(
            token=world.groups.token(),
            group_id="g",
            generation_id=anna.generation,
            member_id=anna.member_id,
        )
    )

    replies = [effect for effect in (*joined, *synced) if isinstance(effect, Reply)]
    assert [reply.shows_state for reply in replies] == [True, True]


# ---- time --------------------------------------------------------------------------------------------------


def test_a_member_that_is_silent_is_removed() -> None:
    world, anna, consumer = mixed()
    for _ in range(3):
        world.groups.advance(SESSION_MS - 1)
        assert anna.heartbeat() is ErrorCode.NONE
        consumer.heartbeat()

    world.groups.advance(SESSION_MS)

    assert set(world.group().members) == {"m1"}


def test_a_member_that_does_not_join_again_in_time_is_removed() -> None:
    world, anna, consumer = mixed()
    world.join("m2", "a")
    left_ms = REBALANCE_MS
    while left_ms > 0:
        assert (
            anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        )  # its time to join runs from the first one on
        consumer.heartbeat()
        world.groups.advance(min(left_ms, 5_000))
        left_ms -= 5_000

    assert anna.member_id not in world.group().members
    assert anna.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_time_for_a_join_runs_from_the_first_request_for_it() -> None:
    world, anna, _ = mixed()
    world.join("m2", "a")

    refused = world.groups.sync(anna.member_id, anna.generation)

    assert world.groups.synced(refused).error is ErrorCode.REBALANCE_IN_PROGRESS
    due_ms, _, _ = world.groups.timers[TimerKey("member-join", "g", anna.member_id)]
    assert due_ms == world.groups.now_ms + REBALANCE_MS
    world.groups.advance(1_000)
    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.groups.timers[TimerKey("member-join", "g", anna.member_id)][0] == due_ms, (
        "a later heartbeat does not move it"
    )


def test_a_member_that_does_not_sync_in_time_is_removed() -> None:
    world = world_of()
    consumer = Client(world, "m1", "a")
    consumer.join()
    joined = world.groups.joined(world.groups.join(protocols=[("range", subscription("a"))]))
    for _ in range(REBALANCE_MS // 5_000):
        assert joined.member_id in world.group().members
        world.groups.heartbeat(joined.member_id, joined.generation_id)
        world.groups.advance(5_000)
        consumer.heartbeat()

    assert set(world.group().members) == {"m1"}


def test_after_a_restart_each_member_has_its_session_timeout() -> None:
    world, anna, consumer = mixed()

    world.restart()

    timers = {key.member_id: at - world.groups.now_ms for key, (at, _, _) in world.groups.timers.items()}
    assert (timers[anna.member_id], timers["m1"]) == (SESSION_MS, 45_000)
    settle(anna, consumer, rounds=1)
    check_shares(world, anna, consumer)


# ---- static members, and members that leave ----------------------------------------------------------------


def test_a_static_classic_member_comes_back_under_another_id() -> None:
    world = world_of()
    consumer = Client(world, "m1", "a")
    consumer.join()
    anna = ClassicClient(world, "anna", instance="one")
    settle(anna, consumer)
    old, epoch = anna.member_id, world.group().group_epoch
    again = ClassicClient(world, "anna", instance="one")
    length = len(world.groups.log)

    again.settle()

    assert world.written(length) == "8t 7t 5t 5 7 8 8"
    assert (again.owned, world.group().group_epoch) == (anna.owned, epoch)
    assert old != again.member_id and old not in world.group().members
    assert world.groups.heartbeat(old, epoch, instance="one") is ErrorCode.FENCED_INSTANCE_ID
    token = world.groups.join(old, instance="one", protocols=[("range", subscription("a"))])
    assert world.groups.answers[token].error is ErrorCode.FENCED_INSTANCE_ID  # type: ignore[union-attr]


def test_members_leave_in_a_batch_and_the_group_changes_once() -> None:
    world, anna, _ = mixed()
    static = Client(world, "m2", "a", instance="two")
    static.join()
    world.join("m3", "a")
    epoch, length = world.group().group_epoch, len(world.groups.log)

    left = world.groups.leave(
        MemberIdentity(anna.member_id),
        MemberIdentity("nobody"),
        MemberIdentity("", "two"),
        MemberIdentity("m3", "two"),
        MemberIdentity("", "nobody"),
        MemberIdentity(anna.member_id),
    )

    unknown, fenced, none = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE
    assert left == [none, unknown, none, fenced, unknown, none]
    assert set(world.group().members) == {"m1", "m3"}
    assert (world.written(length), world.group().group_epoch) == ("8t 7t 5t 8t 7t 5t 3", epoch + 1)


def test_a_batch_of_unknown_members_changes_nothing() -> None:
    world, _, _ = mixed()
    length = len(world.groups.log)

    assert world.groups.leave("nobody", "somebody") == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert len(world.groups.log) == length


# ---- offsets and descriptions ------------------------------------------------------------------------------


def commit(world: ConsumerWorld, member_id: str, epoch: int, partition: int = 0) -> ErrorCode:
    command = OffsetCommit(
        token=world.groups.token(),
        group_id="g",
        generation_id=epoch,
        member_id=member_id,
        offsets=[OffsetToCommit("a", partition, 5, topic_id=topic_id("a"))],
        unknown_group_is_illegal_generation=True,
    )
    answer = world.groups.ask(command)
    if isinstance(answer, Refuse):
        return answer.error
    assert isinstance(answer, OffsetCommitResult)
    return answer.errors[0]


def test_a_classic_members_generation_is_its_epoch_when_it_commits() -> None:
    world, anna, _ = mixed()
    (owned, *_), (lost,) = anna.owned["a"], [0]

    assert commit(world, anna.member_id, anna.generation, lost) is ErrorCode.NONE
    assert commit(world, anna.member_id, anna.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(world, "nobody", anna.generation) is ErrorCode.UNKNOWN_MEMBER_ID
    anna_epoch = member(world, anna.member_id).assigned[topic_id("a")][owned]
    assert commit(world, anna.member_id, anna_epoch - 1, owned) is ErrorCode.ILLEGAL_GENERATION


def test_a_commit_of_the_old_generation_counts_for_what_the_member_still_has() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna", is_cooperative=True)
    classic_group(world, anna)
    Client(world, "m1", "a").join()
    generation = anna.generation
    for _ in range(3):
        anna.step()
    settle(anna)
    (kept, *_) = anna.owned["a"]
    given = next(number for number in range(4) if number not in anna.owned["a"])

    assert commit(world, anna.member_id, generation, kept) is ErrorCode.NONE
    assert commit(world, anna.member_id, generation, given) is ErrorCode.ILLEGAL_GENERATION


def test_descriptions_name_the_kind_of_group_and_the_members_protocols() -> None:
    world, anna, _ = mixed()
    groups = world.groups

    def described() -> tuple[str, str, list[tuple[str, bool]]]:
        listed = groups.ask(ListGroups(token=groups.token()))
        assert isinstance(listed, ListGroupsResult)
        consumers = groups.ask(DescribeConsumerGroups(token=groups.token(), group_ids=["g"]))
        assert isinstance(consumers, DescribeConsumerGroupsResult)
        classic = groups.ask(DescribeGroups(token=groups.token(), group_ids=["g"]))
        assert isinstance(classic, DescribeGroupsResult)
        kinds = [
            (one.member.member_id, one.member.classic is not None) for one in consumers.groups[0].members
        ]
        return listed.groups[0].group_type, classic.groups[0].detail, kinds

    assert described() == (
        "consumer",
        "Group g is not a classic group.",
        [("m1", False), (anna.member_id, True)],
    )

    world.heartbeat("m1", -1)

    assert described() == ("classic", "", [])


# ---- downgrades --------------------------------------------------------------------------------------------


def test_a_group_without_members_of_the_consumer_protocol_is_a_classic_group_that_rebalances() -> None:
    world, anna, _ = mixed()
    commit(world, anna.member_id, anna.generation)
    epoch, length = world.group().group_epoch, len(world.groups.log)

    world.heartbeat("m1", -1)

    assert world.written(length) == "8t 8t 7t 7t 6t 5t 5t 4t 3t 2"
    record = world.groups.log[-1]
    assert isinstance(record, GroupMetadataRecord) and record.value is not None
    (kept,) = record.value.members
    assert (record.value.generation, record.value.protocol, record.value.leader) == (
        epoch,
        "range",
        anna.member_id,
    )
    assert assigned(kept.assignment) == {"a": [2, 3]} and kept.assignment[:2] == b"\0\3"
    assert world.groups.state() is GroupState.PREPARING_REBALANCE
    assert anna.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    settle(anna)
    assert (world.groups.state(), anna.generation, len(anna.owned["a"])) == (GroupState.STABLE, epoch + 1, 4)
    assert world.groups.coordinator.shard.offsets.get("g", "a", 0) is not None


@pytest.mark.parametrize("way", ["session", "revocation", "leave group"])
def test_the_group_is_downgraded_however_the_last_consumer_member_leaves(way: str) -> None:
    world = world_of()
    consumer = Client(world, "m1", "a", rebalance_ms=5_000)
    consumer.join()
    anna = ClassicClient(world, "anna")
    anna.settle(4)
    match way:
        case "session":
            settle(anna, consumer)
            for _ in range(10):
                anna.heartbeat()
                world.groups.advance(SESSION_MS // 2)
        case "revocation":
            world.stay("m1", consumer.epoch, owned=consumer.owned)  # it has to give up half, and does not
            world.groups.advance(5_001)
        case _:
            settle(anna, consumer)
            assert world.groups.leave("m1") == [ErrorCode.NONE]

    assert world.groups.state() is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("policy", "max_size"), [(MigrationPolicy.UPGRADE, 10), (MigrationPolicy.BIDIRECTIONAL, 1)]
)
def test_a_group_that_may_not_be_a_classic_one_stays_a_consumer_group(
    policy: MigrationPolicy, max_size: int
) -> None:
    world = world_of(policy, group_max_size=max_size)
    consumer = Client(world, "m1", "a")
    consumer.join()
    anna, bert = ClassicClient(world, "anna"), ClassicClient(world, "bert")
    settle(anna, bert, consumer)

    world.heartbeat("m1", -1)
    world.groups.advance(1)  # no consumer member is left whose heartbeat would make a target
    settle(anna, bert)

    assert set(world.group().members) == {anna.member_id, bert.member_id}
    check_shares(world, anna, bert)
    anna.leave()
    is_classic_now = policy.allows_downgrade and max_size == 1
    assert (world.groups.state() is not GroupState.DEAD) == is_classic_now, (
        "the next member that leaves may downgrade it"
    )


def test_a_group_that_loses_all_its_members_stays_a_consumer_group() -> None:
    world, anna, _ = mixed()
    length = len(world.groups.log)

    world.groups.leave(MemberIdentity(anna.member_id), MemberIdentity("m1"))

    assert world.written(length) == "8t 7t 5t 8t 7t 5t 3"
    assert world.group().is_empty


def test_a_static_member_that_comes_back_as_a_classic_one_just_takes_its_place() -> None:
    world = world_of()
    bert = ClassicClient(world, "bert", protocols=["range", "sticky"])
    consumer = Client(world, "m1", "a", instance="one")
    consumer.join()
    settle(bert, consumer)
    world.heartbeat("m1", -2, instance="one")
    again = ClassicClient(world, "anna", instance="one")
    epoch, length = world.group().group_epoch, len(world.groups.log)

    again.step()

    assert world.written(length) == "8t 7t 5t 5 7 8 5 8 8t 8t 7t 7t 6t 5t 5t 4t 3t 2"
    assert world.groups.state() is GroupState.STABLE
    assert bert.heartbeat() is ErrorCode.NONE
    again.settle()
    assert (again.generation, again.owned) == (epoch, consumer.owned)
    group = world.groups.coordinator.shard.classic_group("g")
    assert group is not None and group.select_protocol() == "range"
    assert [one.name for one in group.members[bert.member_id].protocols] == ["range", "sticky"]


def test_a_static_member_that_comes_back_with_other_topics_makes_the_classic_group_rebalance() -> None:
    world = world_of()
    bert = ClassicClient(world, "bert")
    consumer = Client(world, "m1", "a", instance="one")
    consumer.join()
    settle(bert, consumer)
    again = ClassicClient(world, "anna", "a", "b", instance="one")

    again.step()

    assert world.groups.state() is GroupState.PREPARING_REBALANCE
    settle(again, bert)
    check_shares(world, bert, again)
    assert again.owned["b"] == [0, 1]


def test_a_static_member_that_comes_back_while_others_wait_for_partitions_starts_a_rebalance() -> None:
    world = world_of()
    consumer = Client(world, "m1", "a", instance="one")
    consumer.join()
    bert = ClassicClient(world, "bert")
    bert.settle(4)  # it waits for partitions of the other
    again = ClassicClient(world, "anna", instance="one")

    again.step()

    assert world.groups.state() is GroupState.PREPARING_REBALANCE, (
        "otherwise two members would own the same partitions"
    )
    settle(again, bert)
    check_shares(world, bert, again)


def test_a_lone_static_member_changes_its_protocol_to_and_fro() -> None:
    world = world_of()
    for turn in range(3):
        consumer = Client(world, f"m{turn}", "a", instance="one")
        consumer.join()
        assert consumer.owned == {"a": [0, 1, 2, 3]}
        classic = ClassicClient(world, "anna", instance="one")
        classic.settle()
        assert classic.owned == consumer.owned
        assert world.groups.state() is GroupState.STABLE


def test_a_downgrade_that_does_not_fit_into_one_batch_does_not_happen() -> None:
    world = world_of(max_batch_bytes=8_000)
    consumer = Client(world, "m1", "a")
    consumer.join()
    topics = ["a", *(f"{number}".zfill(50) for number in range(20))]
    members = [ClassicClient(world, f"c{number}", *topics) for number in range(7)]
    settle(*members, consumer)

    world.heartbeat("m1", -1)

    assert len(world.group().members) == 7


def test_a_static_member_whose_group_would_not_fit_into_one_batch_does_not_change_its_protocol() -> None:
    world = world_of(max_batch_bytes=8_000)
    topics = ["a", *(f"{number}".zfill(50) for number in range(20))]
    consumer = Client(world, "m1", "a", instance="one")
    consumer.join()
    members = [ClassicClient(world, f"c{number}", *topics) for number in range(7)]
    settle(*members, consumer)
    length = len(world.groups.log)

    joined = world.groups.join(
        "", instance="one", protocols=[("range", subscription(*topics))], member_id_required=True
    )

    answer = world.groups.answers[joined]
    assert isinstance(answer, Refuse) and answer.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(world.groups.log) == length
    assert len(world.group().members) == 8


# ---- both directions, and the log --------------------------------------------------------------------------


def test_a_group_is_upgraded_and_downgraded_again_and_again() -> None:
    world = world_of()
    anna, bert = ClassicClient(world, "anna"), ClassicClient(world, "bert")
    classic_group(world, anna, bert)
    commit(world, anna.member_id, anna.generation)
    for turn in range(3):
        consumer = Client(world, f"m{turn}", "a")
        consumer.join()
        settle(anna, bert, consumer)
        check_shares(world, anna, bert, consumer)
        world.heartbeat(consumer.member_id, -1)
        settle(anna, bert)
        check_shares(world, anna, bert)
        assert world.groups.state() is GroupState.STABLE
    world.restart()
    settle(anna, bert, rounds=1)
    check_shares(world, anna, bert)
    assert world.groups.coordinator.shard.offsets.get("g", "a", 0) is not None


def test_the_timeline_goes_on_in_the_other_kind_of_group() -> None:
    world = world_of()
    anna = ClassicClient(world, "anna")
    classic_group(world, anna)

    world.join("m1", "a", client_id="new")
    world.heartbeat("m1", -1, client_id="new")
    settle(anna)

    group = world.groups.coordinator.shard.classic_group("g")
    assert group is not None
    causes = [(event.cause, event.client_id) for one in group.timeline.last() for event in one.events]
    assert causes[0] == (Cause.MEMBER_JOINED, "anna")
    assert (Cause.UPGRADED, "new") in causes and (Cause.DOWNGRADED, "new") in causes


def test_the_timeline_has_the_events_of_classic_members_in_a_consumer_group() -> None:
    world, anna, consumer = mixed()
    static = ClassicClient(world, "bert", "a", instance="one")
    settle(static, consumer, anna)
    anna.topics = ("a", "b")
    more = [("range", subscription(*anna.topics))]
    world.groups.join(anna.member_id, protocols=more, client_id="anna", reason="more to do")
    settle(static, consumer, anna)
    static = ClassicClient(world, "bert", "b", instance="one")
    settle(static, consumer, anna)
    world.groups.leave(MemberIdentity("", "one"))
    settle(consumer, anna)
    world.groups.leave(MemberIdentity(anna.member_id, reason="the end of work"))

    events = [
        (one.cause, one.client_id, one.reason)
        for each in world.group().timeline.last()
        for one in each.events
    ]

    assert events[1:] == [
        (Cause.MEMBER_JOINED, "anna", ""),
        (Cause.MEMBER_JOINED, "bert", ""),
        (Cause.SUBSCRIPTION_CHANGED, "anna", "more to do"),
        (Cause.STATIC_REPLACED, "bert", ""),
        (Cause.MEMBER_REMOVED, "bert", ""),
        (Cause.MEMBER_LEFT, "anna", "the end of work"),
    ]


@pytest.mark.parametrize(
    ("phase", "cause"), [("join", Cause.REBALANCE_TIMED_OUT), ("sync", Cause.SYNC_TIMED_OUT)]
)
def test_the_timeline_names_the_members_that_were_too_slow(phase: str, cause: Cause) -> None:
    world, anna, consumer = mixed()
    consumer.world.join("m2", "a")
    if phase == "sync":
        anna.join()
        anna.generation = world.groups.joined(anna.join_token or 0).generation_id
    for _ in range(REBALANCE_MS // 5_000 + 1):
        anna.heartbeat()
        world.stay("m2", world.group().members["m2"].member_epoch)
        world.groups.advance(5_000)
        consumer.heartbeat()

    events = [one for each in world.group().timeline.last() for one in each.events]
    assert (cause, anna.member_id) in [(one.cause, one.member_id) for one in events]

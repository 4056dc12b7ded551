"""A member as loaded from its records."""

from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    CurrentTopicPartitions,
)
from ottla.groupcoord.consumer.member_state import MemberState

TOPIC = bytes(range(16))


def test_partitions_from_before_4_3_are_owned_since_the_epoch_of_their_member() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=5,
        previous_member_epoch=4,
        assigned_partitions=[
            CurrentTopicPartitions(topic_id=TOPIC, partitions=[1, 2], assignment_epochs=None)
        ],
    )

    member = ConsumerMember(member_id="m").with_current_assignment(value)

    assert member.assigned == {TOPIC: {1: 5, 2: 5}}


def test_a_state_of_a_newer_coordinator_is_unknown() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=5, previous_member_epoch=4, state=9)

    assert ConsumerMember(member_id="m").with_current_assignment(value).state is MemberState.UNKNOWN


def test_a_member_is_loaded_from_its_records_as_it_was() -> None:
    member = ConsumerMember(
        member_id="m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=5,
        server_assignor="range",
        topic_names=frozenset({"a", "b"}),
        topic_regex="x.*",
        member_epoch=4,
        previous_member_epoch=3,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned={TOPIC: {0: 2}},
        pending_revocation={TOPIC: {1: 3}},
    )
    metadata, current = member.metadata_record("g").value, member.current_assignment_record("g").value
    assert metadata is not None and current is not None

    again = ConsumerMember(member_id="m").with_metadata(metadata).with_current_assignment(current)

    assert again == member

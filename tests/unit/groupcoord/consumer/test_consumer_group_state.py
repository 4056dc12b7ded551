"""The state of a consumer group, from its facts: the whole table, as in Kafka's ConsumerGroup."""

from itertools import product

import pytest

from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_group_state import STATES, ConsumerGroupState, Facts
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.member_state import MemberState

REVOKING = MemberState.UNREVOKED_PARTITIONS


def group(group_epoch: int, assignment_epoch: int, *members: tuple[int, MemberState]) -> ConsumerGroup:
    made = ConsumerGroup("g", {})
    made.group_epoch, made.assignment_epoch = group_epoch, assignment_epoch
    for number, (epoch, state) in enumerate(members):
        made._put_member(ConsumerMember(member_id=f"m{number}", member_epoch=epoch, state=state))
    return made


def test_every_chain_of_facts_is_one_state() -> None:
    chains = {
        facts for facts in map(Facts._make, product((False, True), repeat=3)) if facts == _chained(facts)
    }

    assert STATES.keys() == chains and set(STATES.values()) == set(ConsumerGroupState)


def _chained(facts: Facts) -> Facts:
    has_target = facts.has_members and facts.has_newest_target
    return Facts(facts.has_members, has_target, has_target and facts.is_reconciled)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (group(3, 3), ConsumerGroupState.EMPTY),
        (group(4, 3), ConsumerGroupState.EMPTY),
        (group(4, 3, (3, MemberState.STABLE)), ConsumerGroupState.ASSIGNING),
        (group(4, 3, (3, REVOKING)), ConsumerGroupState.ASSIGNING),
        (group(4, 4, (3, MemberState.STABLE)), ConsumerGroupState.RECONCILING),
        (group(4, 4, (4, REVOKING)), ConsumerGroupState.RECONCILING),
        (group(4, 4, (4, MemberState.STABLE), (3, MemberState.STABLE)), ConsumerGroupState.RECONCILING),
        (group(4, 4, (4, MemberState.STABLE), (4, MemberState.STABLE)), ConsumerGroupState.STABLE),
    ],
)
def test_a_group_is_in_the_state_of_its_facts(found: ConsumerGroup, state: ConsumerGroupState) -> None:
    assert found.state is state
    assert found.is_settled == (state in (ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE))

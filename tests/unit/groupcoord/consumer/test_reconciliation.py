"""One step of a member towards its target: Kafka's table of cases, and random walks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from ottla.groupcoord.assignment import Assignment, TopicPartitions, without_epochs
from ottla.groupcoord.consumer.consumer_member import ConsumerMember
from ottla.groupcoord.consumer.member_state import MOVES, MemberState, member_state_of
from ottla.groupcoord.consumer.reconciliation import NO_OWNER, reconcile
from ottla.logstore.words.errors import ErrorCode, KafkaError

A, B = b"A" * 16, b"B" * 16
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def test_the_table_of_moves_leads_to_every_state_except_unknown() -> None:
    known = {STABLE, UNREVOKED, UNRELEASED}

    assert {state: set(moves) for state, moves in MOVES.items()} == dict.fromkeys(MemberState, known)
    assert [member_state_of(number) for number in (0, 1, 2, 127, 9)] == [*MemberState, UNKNOWN]


def member(
    state: MemberState,
    epoch: int,
    assigned: Mapping[bytes, Mapping[int, int]],
    revoking: Mapping[bytes, Mapping[int, int]] | None = None,
) -> ConsumerMember:
    return ConsumerMember(
        member_id="m",
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        state=state,
        assigned=assigned,
        pending_revocation=revoking or {},
    )


class Case(NamedTuple):
    before: ConsumerMember
    after: ConsumerMember  # its previous epoch is compared separately
    target: Assignment
    target_epoch: int = 11
    owned: Sequence[TopicPartitions] | None = None
    others: Mapping[bytes, Sequence[int]] = {}  # owned by other members
    subscribed: frozenset[bytes] = frozenset({A, B})
    changed: bool = False


def assigned_to(*topics: tuple[bytes, list[int]]) -> list[TopicPartitions]:
    return [TopicPartitions(*topic) for topic in topics]


TARGET_23 = {A: frozenset({2, 3})}
HAS_12 = {A: {1: 10, 2: 10}}
CASES = {
    "stable at the target: nothing": Case(
        member(STABLE, 10, HAS_12), member(STABLE, 10, HAS_12), {A: frozenset({1, 2})}, target_epoch=10
    ),
    "stable, the target has the same for a newer epoch": Case(
        member(STABLE, 10, HAS_12), member(STABLE, 11, HAS_12), {A: frozenset({1, 2})}
    ),
    "stable, the target has more: new ones are of its epoch": Case(
        member(STABLE, 10, {A: {2: 10}}), member(STABLE, 11, {A: {2: 10, 3: 11}}), TARGET_23
    ),
    "stable, the target has less: revoke in the old epoch": Case(
        member(STABLE, 10, HAS_12), member(UNREVOKED, 10, {A: {2: 10}}, {A: {1: 10}}), TARGET_23
    ),
    "stable, the partitions to revoke are reported as revoked already": Case(
        member(STABLE, 10, HAS_12),
        member(STABLE, 11, {A: {2: 10, 3: 11}}),
        TARGET_23,
        owned=assigned_to((A, [2])),
    ),
    "stable, other members still own the new ones": Case(
        member(STABLE, 10, {A: {2: 10}}), member(UNRELEASED, 11, {A: {2: 10}}), TARGET_23, others={A: [3]}
    ),
    "stable, some of the new ones are free": Case(
        member(STABLE, 10, {}),
        member(UNRELEASED, 11, {A: {2: 11}}),
        TARGET_23,
        others={A: [3]},
    ),
    "stable, a topic that is no longer subscribed": Case(
        member(STABLE, 10, {A: {1: 10}, B: {1: 10}}),
        member(UNREVOKED, 10, {A: {1: 10}}, {B: {1: 10}}),
        {A: frozenset({1}), B: frozenset({1})},
        target_epoch=10,
        subscribed=frozenset({A}),
        changed=True,
    ),
    "stable, a topic that is no longer subscribed is reported as revoked": Case(
        member(STABLE, 10, {A: {1: 10}, B: {1: 10}}),
        member(STABLE, 10, {A: {1: 10}}),
        {A: frozenset({1}), B: frozenset({1})},
        target_epoch=10,
        owned=assigned_to((A, [1])),
        subscribed=frozenset({A}),
        changed=True,
    ),
    "stable, subscription changed but all that it has is subscribed": Case(
        member(STABLE, 10, HAS_12),
        member(STABLE, 10, HAS_12),
        {A: frozenset({1, 2})},
        target_epoch=10,
        changed=True,
    ),
    "stable, a newer target of topics that are not subscribed is empty": Case(
        member(STABLE, 10, {A: {1: 10}}),
        member(UNREVOKED, 10, {}, {A: {1: 10}}),
        {A: frozenset({1}), B: frozenset({1})},
        subscribed=frozenset(),
    ),
    "unrevoked, it does not report what it owns": Case(
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {1: 10}}),
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {1: 10}}),
        TARGET_23,
    ),
    "unrevoked, it still owns one of them": Case(
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {0: 10, 1: 10}}),
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {0: 10, 1: 10}}),
        TARGET_23,
        owned=assigned_to((A, [1, 2])),
    ),
    "unrevoked, all are gone": Case(
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {0: 10, 1: 10}}),
        member(STABLE, 11, {A: {2: 10, 3: 11}}),
        TARGET_23,
        owned=assigned_to((A, [2])),
    ),
    "unrevoked, all are gone, the newest target takes more": Case(
        member(UNREVOKED, 10, {A: {2: 10, 4: 9}}, {A: {1: 10}}),
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {4: 9}}),
        TARGET_23,
        target_epoch=12,
        owned=assigned_to((A, [2, 4])),
    ),
    "unrevoked, all are gone, the newest target gives one back": Case(
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {1: 10}}),
        member(STABLE, 12, {A: {1: 12, 2: 10}}),
        {A: frozenset({1, 2})},
        target_epoch=12,
        owned=assigned_to((A, [2])),
        others={},
    ),
    "unrevoked, and the subscription changes": Case(
        member(UNREVOKED, 10, {A: {2: 10}, B: {5: 8}}, {A: {1: 10}}),
        member(UNREVOKED, 10, {A: {2: 10}}, {A: {1: 10}, B: {5: 8}}),
        TARGET_23,
        owned=assigned_to((A, [1, 2]), (B, [5])),
        subscribed=frozenset({A}),
        changed=True,
    ),
    "unreleased, others still own the rest": Case(
        member(UNRELEASED, 11, {A: {2: 10}}),
        member(UNRELEASED, 11, {A: {2: 10}}),
        TARGET_23,
        others={A: [3]},
    ),
    "unreleased, one of two is free now": Case(
        member(UNRELEASED, 11, {A: {2: 10}}),
        member(UNRELEASED, 11, {A: {2: 10, 3: 11}}),
        {A: frozenset({2, 3, 4})},
        others={A: [4]},
    ),
    "unreleased, all are free now": Case(
        member(UNRELEASED, 11, {A: {2: 10}}), member(STABLE, 11, {A: {2: 10, 3: 11}}), TARGET_23
    ),
    "unreleased, a newer target takes some": Case(
        member(UNRELEASED, 11, HAS_12),
        member(UNREVOKED, 11, {A: {2: 10}}, {A: {1: 10}}),
        TARGET_23,
        target_epoch=12,
        others={A: [3]},
    ),
    "unknown state, it owns nothing": Case(
        member(UNKNOWN, 10, {}), member(STABLE, 11, {A: {2: 11, 3: 11}}), TARGET_23, owned=[]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_step_towards_the_target(name: str) -> None:
    case = CASES[name]

    def owner_epoch(topic_id: bytes, partition: int) -> int:
        revoking = case.before.pending_revocation.get(topic_id, {})
        return 9 if partition in case.others.get(topic_id, ()) or partition in revoking else NO_OWNER

    after = reconcile(
        case.before,
        target_epoch=case.target_epoch,
        target=case.target,
        subscribed_ids=case.subscribed,
        owner_epoch=owner_epoch,
        owned=case.owned,
        subscription_changed=case.changed,
    )

    assert replace(after, previous_member_epoch=0) == replace(case.after, previous_member_epoch=0)
    if after != case.before:
        assert after.previous_member_epoch == case.before.member_epoch
    else:
        assert after.previous_member_epoch in (case.before.previous_member_epoch, after.member_epoch)


@pytest.mark.parametrize("owned", [None, assigned_to((A, [1]))])
def test_a_member_in_an_unknown_state_is_fenced_until_it_owns_nothing(
    owned: list[TopicPartitions] | None,
) -> None:
    with pytest.raises(KafkaError) as raised:
        reconcile(
            member(UNKNOWN, 10, HAS_12),
            target_epoch=11,
            target=TARGET_23,
            subscribed_ids=frozenset({A}),
            owner_epoch=lambda topic_id, partition: NO_OWNER,
            owned=owned,
            subscription_changed=False,
        )

    assert raised.value.code is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("seed", range(20))
def test_members_that_report_come_to_their_targets_and_no_partition_has_two_owners(seed: int) -> None:
    random = Random(seed)
    members = {name: ConsumerMember(member_id=name) for name in "abcd"}
    reported: dict[str, set[int]] = {name: set() for name in members}
    targets: dict[str, Assignment] = {}
    epoch = 0

    def owner_epoch(topic_id: bytes, partition: int) -> int:
        for one in members.values():
            if partition in one.assigned.get(topic_id, ()) or partition in one.pending_revocation.get(A, ()):
                return max(one.member_epoch, 0)
        return NO_OWNER

    def heartbeat(name: str) -> None:
        before = members[name]
        members[name] = reconcile(
            before,
            target_epoch=epoch,
            target=targets[name],
            subscribed_ids=frozenset({A}),
            owner_epoch=owner_epoch,
            owned=assigned_to((A, sorted(reported[name]))) if random.random() < 0.7 else None,
            subscription_changed=False,
        )
        assert before.member_epoch <= members[name].member_epoch <= epoch
        held = [
            partition
            for one in members.values()
            for partition in (*one.assigned.get(A, ()), *one.pending_revocation.get(A, ()))
        ]
        assert len(held) == len(set(held))
        if random.random() < 0.8:  # the answer may be lost
            reported[name] = set(members[name].assigned.get(A, ()))

    for _ in range(30):
        epoch += 1
        owners = [random.choice("abcd") for _ in range(6)]
        for name in members:
            wanted = frozenset(partition for partition, owner in enumerate(owners) if owner == name)
            targets[name] = {A: wanted} if wanted else {}
        for _ in range(random.randint(0, 12)):
            heartbeat(random.choice("abcd"))
    for _ in range(60):
        for name in members:
            heartbeat(name)

    assert all(one.is_reconciled_to(epoch) for one in members.values())
    assert {name: without_epochs(one.assigned) for name, one in members.items()} == targets


def test_a_member_that_subscribes_to_nothing_is_written_again_as_in_kafka() -> None:
    """It has no partition to lose: only its previous epoch changes."""
    before = member(STABLE, 11, {})

    def after(subscribed: frozenset[bytes]) -> ConsumerMember:
        return reconcile(
            before,
            target_epoch=11,
            target={},
            subscribed_ids=subscribed,
            owner_epoch=lambda *_: NO_OWNER,
            owned=None,
            subscription_changed=True,
        )

    assert after(frozenset()) == replace(before, previous_member_epoch=11)
    assert after(frozenset({A})) is before

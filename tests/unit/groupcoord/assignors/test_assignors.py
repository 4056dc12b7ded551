"""The server-side assignors: `range` must give fixed assignments, `uniform` must keep its promises."""

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.assignors.assignor_spec import GroupSpec, MemberSpec
from ottla.groupcoord.assignors.range_assignor import assign_range
from ottla.groupcoord.assignors.uniform_assignor import assign_uniform

A, B, C = (letter * 16 for letter in (b"A", b"B", b"C"))


def group(
    subscriptions: Mapping[str, set[bytes]],
    partitions: Mapping[bytes, int],
    assigned: Mapping[str, Assignment] | None = None,
    instances: Mapping[str, str] | None = None,
) -> GroupSpec:
    members = [
        MemberSpec(
            member_id,
            (instances or {}).get(member_id),
            frozenset(topics),
            (assigned or {}).get(member_id, {}),
        )
        for member_id, topics in subscriptions.items()
    ]
    return GroupSpec(members, len({member.topic_ids for member in members}) <= 1, partitions)


def shown(assigned: Mapping[str, Assignment]) -> dict[str, dict[str, list[int]]]:
    return {
        member_id: {topic_id[:1].decode(): sorted(numbers) for topic_id, numbers in sorted(topics.items())}
        for member_id, topics in sorted(assigned.items())
    }


def test_range_gives_each_subscriber_consecutive_partitions_of_each_topic() -> None:
    spec = group({"m2": {A, B}, "m1": {A, B}}, {A: 3, B: 2})

    assert shown(assign_range(spec)) == {"m1": {"A": [0, 1], "B": [0]}, "m2": {"A": [2], "B": [1]}}


def test_range_divides_each_topic_among_its_own_subscribers() -> None:
    spec = group({"a": {A, C}, "b": {A, B, C}, "c": {B, C}}, {A: 3, B: 3, C: 3})

    assert shown(assign_range(spec)) == {
        "a": {"A": [0, 1], "C": [0]},
        "b": {"A": [2], "B": [0, 1], "C": [1]},
        "c": {"B": [2], "C": [2]},
    }


def test_range_takes_static_members_first_by_their_instance() -> None:
    spec = group({"a": {A}, "b": {A}, "c": {A}}, {A: 4}, instances={"c": "i1", "b": "i2"})

    assert shown(assign_range(spec)) == {"a": {"A": [3]}, "b": {"A": [2]}, "c": {"A": [0, 1]}}


def test_range_gives_nothing_to_members_beyond_the_number_of_partitions() -> None:
    assert shown(assign_range(group({"a": {A}, "b": {A}}, {A: 1}))) == {"a": {"A": [0]}, "b": {}}


def test_uniform_gives_a_new_member_the_partitions_beyond_the_share_of_the_others() -> None:
    before = {"a": {A: frozenset({0, 1, 2})}, "b": {A: frozenset({3, 4, 5})}}

    after = assign_uniform(group({"a": {A}, "b": {A}, "c": {A}}, {A: 6}, before))

    assert shown(after) == {"a": {"A": [0, 1]}, "b": {"A": [3, 4]}, "c": {"A": [2, 5]}}


def test_uniform_lets_the_member_with_more_keep_the_odd_partition() -> None:
    before = {"a": {A: frozenset({0})}, "b": {A: frozenset({1, 2})}}

    assert assign_uniform(group({"a": {A}, "b": {A}}, {A: 3}, before)) == before


def test_uniform_takes_back_topics_without_subscribers_and_partitions_that_do_not_exist() -> None:
    before = {"a": {A: frozenset({0, 7}), B: frozenset({0})}}

    assert shown(assign_uniform(group({"a": {A}}, {A: 2, B: 1}, before))) == {"a": {"A": [0, 1]}}
    assert shown(assign_uniform(group({"a": {A}, "b": set()}, {A: 2}, before))) == {
        "a": {"A": [0, 1]},
        "b": {},
    }


def test_uniform_gives_one_partition_to_one_member_even_if_two_had_it() -> None:
    before = {"a": {A: frozenset({0})}, "b": {A: frozenset({0})}}

    assert shown(assign_uniform(group({"a": {A}, "b": {A}}, {A: 2}, before))) == {
        "a": {"A": [0]},
        "b": {"A": [1]},
    }


def test_uniform_without_members_or_partitions_is_empty() -> None:
    assert assign_uniform(group({}, {})) == {}
    assert assign_uniform(group({"a": set()}, {})) == {"a": {}}


def test_uniform_balances_members_with_heterogeneous_subscriptions() -> None:
    spec = group({"a": {A}, "b": {A, B}}, {A: 4, B: 2})

    after = assign_uniform(spec)

    assert _sizes(after) == {"a": 3, "b": 3}


@pytest.mark.parametrize("seed", range(150))
def test_every_partition_goes_to_one_subscriber_balanced_and_then_stays(seed: int) -> None:
    random = Random(seed)
    partitions = {bytes([number]) * 16: random.randint(1, 12) for number in range(random.randint(1, 5))}
    is_heterogeneous = bool(seed % 2)
    topics = sorted(partitions)
    subscriptions = {
        f"m{number}": set(random.sample(topics, random.randint(1, len(topics))))
        if is_heterogeneous
        else set(topics)
        for number in range(random.randint(1, 6))
    }
    assign = random.choice([assign_range, assign_uniform])
    assigned: Mapping[str, Assignment] = {}
    for _ in range(4):
        spec = group(subscriptions, partitions, assigned)

        assigned = assign(spec)

        check_assignment(spec, assigned)
        if assign is assign_uniform:
            check_balance(spec, assigned)
            again = assign_uniform(group(subscriptions, partitions, assigned))
            assert again == assigned
        change = random.choice(["join", "leave", "grow", "subscribe"])
        if change == "join":
            subscriptions[f"n{len(subscriptions)}"] = (
                set(topics) if not is_heterogeneous else {random.choice(topics)}
            )
        elif change == "leave" and len(subscriptions) > 1:
            gone = random.choice(sorted(subscriptions))
            del subscriptions[gone]
        elif change == "grow":
            partitions[random.choice(topics)] += 3
        elif is_heterogeneous:
            subscriptions[random.choice(sorted(subscriptions))] = {random.choice(topics)}


def _sizes(assigned: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, topics.values())) for member_id, topics in assigned.items()}


def check_assignment(spec: GroupSpec, assigned: Mapping[str, Assignment]) -> None:
    """Assert that each partition of a subscribed topic is assigned once, and to a subscriber."""
    given = Counter(
        (topic_id, partition)
        for topics in assigned.values()
        for topic_id, numbers in topics.items()
        for partition in numbers
    )
    subscribed = {topic_id for member in spec.members for topic_id in member.topic_ids}
    assert given == Counter(
        (topic_id, partition) for topic_id in subscribed for partition in range(spec.partitions[topic_id])
    )
    assert assigned.keys() == {member.member_id for member in spec.members}
    for member in spec.members:
        assert assigned[member.member_id].keys() <= member.topic_ids
        assert all(assigned[member.member_id].values())


def check_balance(spec: GroupSpec, assigned: Mapping[str, Assignment]) -> None:
    """Assert that no move of a partition to another subscriber would make the two more equal."""
    sizes = _sizes(assigned)
    for member in spec.members:
        for topic_id in assigned[member.member_id]:
            fewest = min(sizes[one.member_id] for one in spec.members if topic_id in one.topic_ids)
            assert sizes[member.member_id] - fewest <= 1

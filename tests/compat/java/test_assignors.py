"""Kafka's assignors as the reference for ours: `range` to the partition, `uniform` by balance and moves.

If partitions cannot be divided evenly, Kafka's `uniform` gives the odd ones to members in the order of a Java
hash map, so it is not compared partition by partition (groupcoord/DESIGN.md D18).
"""

from collections.abc import Mapping
from random import Random
from typing import TypeAlias

import pytest

from ottla.groupcoord.assignors.all_assignors import ASSIGNORS
from ottla.groupcoord.assignors.assignor_spec import GroupSpec, MemberSpec
from tests.compat.java.conftest import AskJava

GROUPS = 1_000  # of either kind

pytestmark = [pytest.mark.java, pytest.mark.slow]
Shares: TypeAlias = Mapping[str, set[tuple[int, int]]]  # member -> topic number, partition


@pytest.fixture(scope="module")
def groups() -> list[GroupSpec]:
    random = Random(848)
    return [random_group(random, is_homogeneous=number < GROUPS) for number in range(2 * GROUPS)]


def test_range_is_kafkas_to_the_partition(ask_java: AskJava, groups: list[GroupSpec]) -> None:
    expected = theirs(ask_java, groups, "range")

    for spec, shares in zip(groups, expected, strict=True):
        assert ours(spec, "range") == shares, question(spec, "range")


def test_uniform_balances_as_well_as_kafkas_and_moves_as_little(
    ask_java: AskJava, groups: list[GroupSpec]
) -> None:
    """If subscriptions differ, both assignors are greedy, so either is sometimes worse than the other."""
    expected = theirs(ask_java, groups, "uniform")
    made = [ours(spec, "uniform") for spec in groups]

    for spec, mine, shares in zip(groups[:GROUPS], made, expected, strict=False):
        assert (spread(mine), moves(spec, mine)) == (spread(shares), moves(spec, shares)), spec
    mixed = list(zip(groups[GROUPS:], made[GROUPS:], expected[GROUPS:], strict=True))
    assert sum(imbalance(mine) > imbalance(shares) for _, mine, shares in mixed) < GROUPS * 0.02
    assert sum(imbalance(mine) for _, mine, _ in mixed) <= sum(imbalance(one) for *_, one in mixed) * 1.001
    assert sum(moves(spec, mine) for spec, mine, _ in mixed) <= 1.01 * sum(
        moves(spec, one) for spec, _, one in mixed
    )


def random_group(random: Random, *, is_homogeneous: bool) -> GroupSpec:
    """Return members with a target of an earlier time, when there were other members and topics."""
    partitions = {topic_id(number): random.randint(1, 8) for number in range(random.randint(1, 4))}
    ids = sorted(partitions)
    alike = frozenset(random.sample(ids, random.randint(1, len(ids))))
    names = [f"m{number:02}" for number in range(random.randint(1, 8))]
    topics = {
        name: alike if is_homogeneous else frozenset(random.sample(ids, random.randint(1, len(ids))))
        for name in names
    }
    had: dict[str, dict[bytes, set[int]]] = {name: {} for name in names}
    for each, count in partitions.items():
        for partition in range(count):
            owner = random.choice([*names, None, None])
            if owner is not None and each in topics[owner]:
                had[owner].setdefault(each, set()).add(partition)
    if random.random() < 0.5:  # or one that was balanced before the last members joined
        before = [MemberSpec(name, None, topics[name], {}) for name in names[: -(len(names) // 3) or None]]
        known = ASSIGNORS["uniform"](GroupSpec(before, is_homogeneous, _read(before, partitions)))
        had = {name: {one: set(numbers) for one, numbers in known.get(name, {}).items()} for name in names}
    members = [
        MemberSpec(
            name,
            f"i{random.randint(0, 99):02}-{name}" if random.random() < 0.3 else None,
            topics[name],
            {one: frozenset(numbers) for one, numbers in had[name].items()},
        )
        for name in names
    ]
    return GroupSpec(members, is_homogeneous, _read(members, partitions))


def _read(members: list[MemberSpec], partitions: Mapping[bytes, int]) -> dict[bytes, int]:
    read = {each for member in members for each in member.topic_ids}
    return {each: count for each, count in partitions.items() if each in read}


def topic_id(number: int) -> bytes:
    return (100 + number).to_bytes(16)


def ours(spec: GroupSpec, assignor: str) -> Shares:
    found = ASSIGNORS[assignor](spec)
    return {
        member.member_id: {
            (int.from_bytes(each) - 100, number)
            for each, numbers in found.get(member.member_id, {}).items()
            for number in numbers
        }
        for member in spec.members
    }


def theirs(ask_java: AskJava, specs: list[GroupSpec], assignor: str) -> list[Shares]:
    content = "".join(question(spec, assignor) for spec in specs).encode()
    text = ask_java("AssignorReference", questions=content).decode()
    return [
        {name: places(text) for name, text in (line.split(" ") for line in answer.split("\n"))}
        for answer in text.split("\n\n")[:-1]
    ]


def question(spec: GroupSpec, assignor: str) -> str:
    number = {each: int.from_bytes(each) - 100 for each in spec.partitions}
    lines = [f"topic {number[each]} {count}" for each, count in spec.partitions.items()]
    for member in spec.members:
        read = ",".join(str(number[each]) for each in sorted(member.topic_ids))
        had = ",".join(
            f"{int.from_bytes(each) - 100}:{one}"
            for each, numbers in sorted(member.assigned.items())
            for one in sorted(numbers)
        )
        lines.append(f"member {member.member_id} {member.instance_id or '-'} {read} {had or '-'}")
    kind = "HOMOGENEOUS" if spec.is_homogeneous else "HETEROGENEOUS"
    return "\n".join([*lines, f"assign {assignor} {kind}"]) + "\n"


def places(text: str) -> set[tuple[int, int]]:
    if text == "-":
        return set()
    return {(int(topic), int(number)) for topic, number in (one.split(":") for one in text.split(","))}


def spread(shares: Shares) -> int:
    sizes = [len(share) for share in shares.values()]
    return max(sizes) - min(sizes)


def imbalance(shares: Shares) -> int:
    """Return a number that grows with each partition that a member has more than another."""
    return sum(len(share) ** 2 for share in shares.values())


def moves(spec: GroupSpec, shares: Shares) -> int:
    """Return the number of partitions that members have now and did not have before."""
    had = {
        (member.member_id, int.from_bytes(each) - 100, number)
        for member in spec.members
        for each, numbers in member.assigned.items()
        for number in numbers
    }
    return sum((name, *place) not in had for name, share in shares.items() for place in share)

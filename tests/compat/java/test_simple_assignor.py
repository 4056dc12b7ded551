"""Kafka's own assignor of share groups as the reference for ours, to the partition."""

from random import Random

import pytest

from ottla.groupcoord.assignors.simple_assignor import ShareGroupSpec, ShareMemberSpec, assign_simple
from tests.compat.java.conftest import AskJava

GROUPS = 1_500  # of either kind

pytestmark = [pytest.mark.java, pytest.mark.slow]


def test_simple_is_kafkas_to_the_partition(ask_java: AskJava) -> None:
    random = Random(932)
    groups = [random_group(random, is_homogeneous=number < GROUPS) for number in range(2 * GROUPS)]
    content = "".join(question(spec) for spec in groups).encode()

    output = ask_java("AssignorReference", questions=content).decode()

    expected = [dict(line.split(" ") for line in one.split("\n") if line) for one in answers(output)]
    assert len(expected) == len(groups)
    # Kafka's assignor fails if it runs out of members; ours continues.
    assert sum("fails" in theirs for theirs in expected) < GROUPS // 4
    for spec, theirs in zip(groups, expected, strict=True):
        assert "fails" in theirs or ours(spec) == {
            name: share for name, share in theirs.items() if share != "-"
        }, question(spec)


def random_group(random: Random, *, is_homogeneous: bool) -> ShareGroupSpec:
    """Return members with targets of an earlier time.

    Sometimes there are more members than any partition needs, new members, and partitions that may not be
    assigned. An assigned partition stays assignable, since partitions are only withdrawn from groups without
    members.
    """
    topics = {
        topic_id(number): random.randint(1, random.choice([4, 40])) for number in range(random.randint(1, 4))
    }
    ids = random.sample(sorted(topics), len(topics))
    alike = random.sample(ids, random.randint(1, len(ids)))
    names = random.sample([f"member-{number}" for number in range(200)], random.choice([1, 2, 3, 7, 30]))
    partitions = {
        each: [number for number in range(count) if random.random() < random.choice([0.5, 1.0, 1.0])]
        for each, count in topics.items()
    }
    members = []
    for name in names:
        subscribed = alike if is_homogeneous else random.sample(ids, random.randint(0, len(ids)))
        had = random.sample(ids, random.randint(0, len(ids))) if random.random() < 0.7 else []
        assigned = {
            each: frozenset(random.sample(partitions[each], random.randint(1, len(partitions[each]))))
            for each in had
            if partitions[each]
        }
        members.append(ShareMemberSpec(name, tuple(subscribed), assigned))
    before = ShareGroupSpec(members, is_homogeneous, partitions)
    if random.random() < 0.6:  # or a target that the assignor made for some of them
        known = assign_simple(before._replace(members=members[: -(-len(members) // 2)]))
        members = [one._replace(assigned=known.get(one.member_id, {})) for one in members]
    return ShareGroupSpec(members, is_homogeneous, partitions)


def topic_id(number: int) -> bytes:
    return (100 + number).to_bytes(16)


def ours(spec: ShareGroupSpec) -> dict[str, str]:
    found = assign_simple(spec)
    return {name: places(one) for name, one in found.items() if one}


def places(assigned: dict[bytes, frozenset[int]]) -> str:  # in the order of the texts of the reference
    return ",".join(
        sorted(
            f"{int.from_bytes(each) - 100}:{number}"
            for each, numbers in assigned.items()
            for number in numbers
        )
    )


def question(spec: ShareGroupSpec) -> str:
    number = {each: int.from_bytes(each) - 100 for each in spec.partitions}
    lines = [f"topic {number[each]} 100" for each in spec.partitions]
    may = ",".join(f"{number[each]}:{one}" for each, numbers in spec.partitions.items() for one in numbers)
    lines.append(f"assignable {may or '-'}")
    for member in spec.members:
        read = ",".join(str(number[each]) for each in member.topic_ids)
        had = ",".join(
            f"{number[each]}:{one}" for each, numbers in member.assigned.items() for one in sorted(numbers)
        )
        lines.append(f"member {member.member_id} - {read or '-'} {had or '-'}")
    kind = "HOMOGENEOUS" if spec.is_homogeneous else "HETEROGENEOUS"
    return "\n".join([*lines, f"assign simple {kind}"]) + "\n"


def answers(output: str) -> list[str]:
    """Return the answer for each group, which ends with an empty line."""
    found: list[str] = [""]
    for line in output.split("\n")[:-1]:
        if line:
            found[-1] += line + "\n"
        else:
            found.append("")
    return found[:-1]

"""The assignor `simple`; tests/compat/java compares it with Apache Kafka's own class."""

import pytest

from ottla.groupcoord.assignors.simple_assignor import ShareGroupSpec, ShareMemberSpec, assign_simple
from ottla.groupcoord.java_hash_order import JavaHashMap, hash_of_int, hash_of_string, hash_of_uuid


def topic_id(number: int) -> bytes:
    return (100 + number).to_bytes(16)


def group(
    members: dict[str, tuple[str, str]], partitions: dict[int, int], *, is_homogeneous: bool
) -> ShareGroupSpec:
    """Return a group by member: the topics that it reads, as "0 1", and its partitions, as "0:0 1:1"."""
    specs = []
    for name, (reads, had) in members.items():
        assigned: dict[bytes, frozenset[int]] = {}
        for place in had.split():
            topic, number = map(int, place.split(":"))
            assigned[topic_id(topic)] = assigned.get(topic_id(topic), frozenset()) | {number}
        specs.append(ShareMemberSpec(name, [topic_id(int(one)) for one in reads.split()], assigned))
    return ShareGroupSpec(
        specs, is_homogeneous, {topic_id(topic): range(count) for topic, count in partitions.items()}
    )


def shares(spec: ShareGroupSpec) -> dict[str, str]:
    return {
        name: " ".join(
            f"{int.from_bytes(topic) - 100}:{number}"
            for topic, numbers in sorted(assigned.items())
            for number in sorted(numbers)
        )
        for name, assigned in sorted(assign_simple(spec).items())
    }


def test_partitions_are_assigned_in_the_order_of_javas_hash_maps() -> None:
    spec = group({"member-28": ("0 1", ""), "member-185": ("0 1", "")}, {0: 1, 1: 2}, is_homogeneous=True)

    assert shares(spec) == {"member-185": "1:1", "member-28": "0:0 1:0"}


def test_more_members_than_partitions_share_them() -> None:
    members = {f"m{number}": ("0", "") for number in range(5)}

    found = shares(group(members, {0: 2}, is_homogeneous=True))

    assert sorted(len(one.split()) for one in found.values()) == [1, 1, 1, 1, 2]


def test_members_keep_what_they_have_when_others_come() -> None:
    members = {"a": ("0", "0:0 0:1 0:2 0:3"), "b": ("0", "")}

    found = shares(group(members, {0: 4}, is_homogeneous=True))

    assert len(found["a"].split()) == len(found["b"].split()) == 2
    assert not {*found["a"].split()} & {*found["b"].split()}


def test_each_topic_is_shared_by_its_own_subscribers() -> None:
    members = {"a": ("0", ""), "b": ("0 1", ""), "c": ("1", "0:0")}

    found = shares(group(members, {0: 2, 1: 1}, is_homogeneous=False))

    assert found["c"] == "1:0" and "1:0" in found["b"].split()
    assert {*found["a"].split(), *found["b"].split()} >= {"0:0", "0:1"}


def test_a_member_that_reads_nothing_gets_nothing() -> None:
    for is_homogeneous in (True, False):
        assert shares(group({"a": ("", "0:0")}, {0: 1}, is_homogeneous=is_homogeneous)) == {"a": ""}


# ---- the order of Java's hash maps -------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("hello", 99162322), ("\U0001f600", 1772899)])
def test_strings_have_javas_hash(text: str, expected: int) -> None:
    assert hash_of_string(text) == expected


@pytest.mark.parametrize(
    ("most", "least", "expected"), [(0, 100, 100), (1 << 32, 0, 1), (3 << 32 | 5, 6 << 32 | 9, 5 ^ 12)]
)
def test_ids_have_the_hash_of_kafkas_uuid(most: int, least: int, expected: int) -> None:
    assert hash_of_uuid(most.to_bytes(8) + least.to_bytes(8)) == expected


def test_a_bucket_is_iterated_in_the_order_in_which_its_keys_were_put() -> None:
    put: JavaHashMap[int, None] = JavaHashMap(hash_of_int)
    computed: JavaHashMap[int, None] = JavaHashMap(hash_of_int)
    for key in (16, 0, 5, 32):
        put[key] = None
        computed.compute_if_absent(key, lambda: None)

    assert put.ordered() == [16, 0, 32, 5]
    assert computed.ordered() == [32, 0, 16, 5]


def test_a_table_grows_beyond_three_quarters() -> None:
    table: JavaHashMap[int, None] = JavaHashMap(hash_of_int)
    for key in (16, *range(11)):
        table[key] = None
    assert table.ordered()[:2] == [16, 0]

    table[11] = None

    assert table.ordered() == [*range(12), 16]

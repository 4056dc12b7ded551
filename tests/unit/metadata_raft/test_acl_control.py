"""Access control entries are created and deleted as in KIP-801."""

from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import acl_control
from ottla.metadata_raft.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from ottla.metadata_raft.cluster_features import SECURITY_VERSION
from ottla.metadata_raft.commands import AclFilterFields, CreateAcls, DeleteAcls, NewAcl
from ottla.metadata_raft.records import FeatureLevelRecord
from tests.unit.metadata_raft.metadata_world import MetadataWorld

INVALID = ErrorCode.INVALID_REQUEST


@pytest.fixture
def world() -> MetadataWorld:
    made = MetadataWorld(brokers=0)
    made.append([FeatureLevelRecord(name=SECURITY_VERSION, feature_level=1)])
    return made


def acl(world: MetadataWorld, **changes: Any) -> NewAcl:
    fields = {
        "id": world.uuid(),
        "resource_type": ResourceType.TOPIC,
        "resource_name": "t",
        "pattern_type": PatternType.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.READ,
        "permission_type": AclPermissionType.ALLOW,
    }
    return NewAcl(**{**fields, **changes})


def matching(**changes: Any) -> AclFilterFields:
    fields = {"resource_type": 1, "pattern_type": 1, "operation": 1, "permission_type": 1}
    return AclFilterFields(**{**fields, **changes})


def create(world: MetadataWorld, *new: NewAcl) -> list[tuple[int, str | None]]:
    reply = world.submit(CreateAcls(creations=new))
    return [(one.error_code, one.error_message) for one in reply.results]


def delete(world: MetadataWorld, *filters: AclFilterFields) -> list[list[str] | tuple[int, str]]:
    """Return the resource names that each filter removed, or its error."""
    reply = world.submit(DeleteAcls(filters=filters))
    return [
        (one.error_code, one.error_message)
        if one.error_code
        else [entry.resource_name for entry in one.matching]
        for one in reply.results
    ]


def test_entries_are_created_once(world: MetadataWorld) -> None:
    first = create(world, acl(world), acl(world), acl(world, host="h"))
    again = create(world, acl(world))

    assert first == [(0, None)] * 3 and again == [(0, None)]
    assert sorted(entry.host for entry in world.image.acls.by_id.values()) == ["*", "h"]


REFUSED = [
    (
        {"resource_type": ResourceType.CLUSTER},
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    ({"resource_name": ""}, "Invalid empty resource name"),
    ({"resource_type": ResourceType.UNKNOWN}, "Invalid resourceType UNKNOWN"),
    ({"resource_type": ResourceType.ANY}, "Invalid resourceType ANY"),
    ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
    ({"pattern_type": PatternType.UNKNOWN}, "Invalid patternType UNKNOWN"),
    ({"pattern_type": PatternType.ANY}, "Invalid patternType ANY"),
    ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
    ({"operation": AclOperation.UNKNOWN}, "Invalid operation UNKNOWN"),
    ({"operation": AclOperation.ANY}, "Invalid operation ANY"),
    ({"operation": -1}, "Invalid operation UNKNOWN"),
    ({"permission_type": AclPermissionType.UNKNOWN}, "Invalid permissionType UNKNOWN"),
    ({"permission_type": AclPermissionType.ANY}, "Invalid permissionType ANY"),
    (
        {"principal": "alice"},
        "Could not parse principal from `alice` (no colon is present separating the principal type from the "
        "principal name)",
    ),
    (
        {"resource_name": "n" * 1_001},
        "The resource name of an ACL has 1001 characters; at most 1000 are allowed.",
    ),
]


@pytest.mark.parametrize(
    ("changes", "reason"), REFUSED, ids=[str(sorted(case[0])[0]) + case[1][-20:] for case in REFUSED]
)
def test_an_invalid_entry_is_rejected_and_the_others_are_created(
    world: MetadataWorld, changes: dict[str, Any], reason: str
) -> None:
    assert create(world, acl(world, **changes), acl(world)) == [(INVALID, reason), (0, None)]
    assert [entry.resource_name for entry in world.image.acls.by_id.values()] == ["t"]


def test_each_filter_returns_the_entries_that_it_removed(world: MetadataWorld) -> None:
    create(
        world, acl(world), acl(world, resource_name="u"), acl(world, resource_name="v", principal="User:b")
    )

    deleted = delete(
        world,
        matching(resource_type=ResourceType.TOPIC, resource_name="t"),
        matching(principal="User:alice"),
        matching(host="nowhere"),
    )

    assert deleted == [["t"], ["t", "u"], []]
    assert [entry.resource_name for entry in world.image.acls.by_id.values()] == ["v"]


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("resource_type", "Unknown patternFilter."),
        ("pattern_type", "Unknown patternFilter."),
        ("operation", "Unknown entryFilter."),
        ("permission_type", "Unknown entryFilter."),
    ],
)
@pytest.mark.parametrize("number", [0, 99, -1])
def test_a_filter_with_an_unknown_number_is_rejected_and_the_others_are_carried_out(
    world: MetadataWorld, field: str, reason: str, number: int
) -> None:
    create(world, acl(world))

    assert delete(world, matching(**{field: number}), matching()) == [(INVALID, reason), ["t"]]
    assert not world.image.acls


def test_filters_that_match_too_much_remove_nothing(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(world, *(acl(world, resource_name=f"t{number}") for number in range(5)))
    monkeypatch.setattr(acl_control, "MAX_RECORDS_PER_COMMAND", 4)

    with pytest.raises(KafkaError, match="Cannot remove more than 4 acls") as refused:
        delete(world, matching(resource_name="t1"), matching())
    assert refused.value.code is INVALID and len(world.image.acls) == 5

    monkeypatch.undo()
    monkeypatch.setattr(acl_control, "MAX_ACL_COMPARISONS_PER_COMMAND", 9)
    named = matching(resource_type=ResourceType.TOPIC, resource_name="nobody")
    with pytest.raises(KafkaError, match="send them one by one"):
        delete(world, matching(host="nowhere"), matching(host="nowhere"))
    assert delete(world, matching(host="nowhere"), *[named] * 3) == [[]] * 4


def test_filters_that_look_up_too_many_prefixes_remove_nothing(
    world: MetadataWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(
        world,
        *(acl(world, resource_name="t" * size, pattern_type=PatternType.PREFIXED) for size in (1, 2, 3)),
    )
    monkeypatch.setattr(acl_control, "MAX_ACL_PATTERNS_PER_COMMAND", 10)
    alike = matching(resource_type=ResourceType.TOPIC, resource_name="x", pattern_type=PatternType.MATCH)
    prefixes = matching(resource_type=ResourceType.TOPIC, resource_name="ttt", pattern_type=PatternType.MATCH)

    with pytest.raises(KafkaError, match="match too many prefixed ACLs") as refused:
        delete(world, alike, alike, prefixes)

    assert refused.value.code is INVALID
    assert delete(world, alike, alike) == [[], []]
    monkeypatch.setattr(acl_control, "MAX_ACL_PATTERNS_PER_COMMAND", 1)
    assert delete(world, prefixes) == [["t", "tt", "ttt"]], "a single one is carried out"


def test_the_number_of_entries_is_limited(world: MetadataWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_control, "MAX_ACLS", 2)

    codes = [code for code, _ in create(world, *(acl(world, host=host) for host in ("a", "b", "a", "c")))]

    assert codes == [0, 0, 0, ErrorCode.POLICY_VIOLATION]


def test_an_id_is_used_once(world: MetadataWorld) -> None:
    taken = acl(world)
    create(world, taken)

    assert [code for code, _ in create(world, acl(world, id=taken.id, host="h"), acl(world, host="i"))] == [
        INVALID,
        0,
    ]


def test_nothing_is_written_before_all_nodes_can_read_it() -> None:
    world = MetadataWorld(brokers=0)

    for command in (CreateAcls(creations=[acl(world)]), DeleteAcls(filters=[matching()])):
        with pytest.raises(KafkaError, match=f"only when the feature {SECURITY_VERSION} is 1") as refused:
            world.submit(command)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION

"""ottla.metadata_raft.acl: access control entries and their filters."""

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    check_lengths,
    host_in_entries,
    operation_bits,
)

ENTRY = AccessControlEntry(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:ann",
    "10.0.0.1",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)
PREFIX = ENTRY._replace(resource_name="ord", pattern_type=PatternType.PREFIXED)
EVERY = ENTRY._replace(resource_name="*")


@pytest.mark.parametrize(
    "selected",
    [
        AclFilter(),
        AclFilter(resource_type=ResourceType.TOPIC),
        AclFilter(resource_name="orders"),
        AclFilter(principal="User:ann"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=AclOperation.READ),
        AclFilter(permission_type=AclPermissionType.ALLOW),
        AclFilter(*ENTRY),
    ],
)
def test_fields_that_a_filter_omits_match_everything(selected: AclFilter) -> None:
    assert selected.matches(ENTRY)


@pytest.mark.parametrize(
    "selected",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(resource_name="order"),
        AclFilter(pattern_type=PatternType.PREFIXED),
        AclFilter(principal="User:*"),
        AclFilter(host="*"),
        AclFilter(operation=AclOperation.ALL),
        AclFilter(permission_type=AclPermissionType.DENY),
    ],
)
def test_each_field_of_a_filter_is_compared_as_it_is_written(selected: AclFilter) -> None:
    assert not selected.matches(ENTRY)


def test_a_filter_of_any_pattern_type_selects_equal_names() -> None:
    selected = AclFilter(resource_name="ord")

    assert selected.matches(PREFIX)
    assert not selected.matches(ENTRY)
    assert not selected.matches(EVERY)


def test_a_filter_with_match_selects_all_patterns_that_match_the_name() -> None:
    selected = AclFilter(resource_name="orders", pattern_type=PatternType.MATCH)

    assert [one for one in (ENTRY, PREFIX, EVERY) if selected.matches(one)] == [ENTRY, PREFIX, EVERY]
    assert not selected.matches(ENTRY._replace(resource_name="orders-2"))
    assert not selected.matches(PREFIX._replace(resource_name="orders-2"))


def test_a_filter_with_match_and_without_a_name_selects_all() -> None:
    assert AclFilter(pattern_type=PatternType.MATCH).matches(PREFIX)


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY._replace(resource_name="n" * 1_001),
        ENTRY._replace(principal="p" * 2_001),
        ENTRY._replace(host="h" * 256),
        AclFilter(principal="p" * 2_001),
    ],
)
def test_too_long_texts_are_rejected_in_entries_and_in_filters(entry: AccessControlEntry | AclFilter) -> None:
    with pytest.raises(KafkaError, match="at most") as refused:
        check_lengths(entry)

    assert refused.value.code is ErrorCode.INVALID_REQUEST
    check_lengths(ENTRY)
    check_lengths(AclFilter())


@pytest.mark.parametrize(
    ("resource_type", "bits"),
    [
        (ResourceType.TOPIC, 0b110111111000),
        (ResourceType.GROUP, 0b110101001000),
        (ResourceType.CLUSTER, 0b1111110100000),
        (ResourceType.TRANSACTIONAL_ID, 0b1000000100010000),
    ],
)
def test_the_bits_of_all_operations_are_those_of_kafka(resource_type: ResourceType, bits: int) -> None:
    assert operation_bits(resource_type) == bits


def test_an_entry_is_written_as_in_kafkas_audit_log() -> None:
    later = ENTRY._replace(resource_type=99)

    assert str(ENTRY) == (
        "StandardAcl[resourceType=TOPIC, resourceName=orders, patternType=LITERAL, principal=User:ann, "
        "host=10.0.0.1, operation=READ, permissionType=ALLOW]"
    )
    assert str(later).startswith("StandardAcl[resourceType=UNKNOWN, ")


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::8:800:200c:417a", "2001:db8:0:0:8:800:200c:417a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("", ""),
    ],
)
def test_an_address_is_written_as_hosts_of_entries_are(address: str, host: str) -> None:
    assert host_in_entries(address) == host

"""Requests about ACLs: filters, errors by entry, and many entries at once."""

import asyncio

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import (
    AccessControlEntry,
    AclFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from ottla.node.client import acl_admin
from ottla.node.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from ottla.node.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ottla.node.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tests.unit.node.client.scripted_cluster import ScriptedCluster, only_request

OK = AclCreationResult()


def entry(name: str = "orders", operation: AclOperation = AclOperation.READ) -> AccessControlEntry:
    return AccessControlEntry(
        ResourceType.TOPIC,
        name,
        PatternType.LITERAL,
        "User:anna",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def test_entries_of_many_resources_come_as_one_sorted_list() -> None:
    acls = [
        AclDescription(principal="User:anna", host="*", operation=operation, permission_type=3)
        for operation in (AclOperation.WRITE, AclOperation.READ)
    ]
    cluster = ScriptedCluster(
        DescribeAclsResponse(
            resources=[
                DescribeAclsResource(resource_type=2, resource_name=name, acls=acls)
                for name in ("orders", "bills")
            ]
        )
    )
    selected = AclFilter(resource_type=ResourceType.TOPIC, pattern_type=PatternType.MATCH, principal="User:a")

    found = asyncio.run(acl_admin.list_acls(cluster.client(), selected))

    assert found == [
        entry(name, operation)
        for name in ("bills", "orders")
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    sent = only_request(cluster)
    assert (sent.resource_type_filter, sent.resource_name_filter, sent.pattern_type_filter) == (2, None, 2)
    assert (sent.principal_filter, sent.host_filter, sent.operation, sent.permission_type) == (
        "User:a",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def test_the_error_of_a_cluster_without_an_authorizer_is_raised() -> None:
    answer = DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer.")

    with pytest.raises(KafkaError) as raised:
        asyncio.run(acl_admin.list_acls(ScriptedCluster(answer).client()))

    assert raised.value.code is ErrorCode.SECURITY_DISABLED


def test_rejected_entries_are_returned_and_the_others_are_created() -> None:
    bad = AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="no")
    cluster = ScriptedCluster(CreateAclsResponse(results=[OK, bad]))

    refused = asyncio.run(acl_admin.create_acls(cluster.client(), [entry("a"), entry("b"), entry("a")]))

    assert list(refused) == [entry("b")] and refused[entry("b")].code is ErrorCode.INVALID_REQUEST
    assert "topic 'b'" in refused[entry("b")].detail
    assert [one.resource_name for one in only_request(cluster).creations] == ["a", "b"]


def test_many_entries_are_sent_in_parts() -> None:
    entries = [entry(f"t{number}") for number in range(acl_admin.AT_ONCE + 1)]
    cluster = ScriptedCluster(
        CreateAclsResponse(results=[OK] * acl_admin.AT_ONCE), CreateAclsResponse(results=[OK])
    )

    assert asyncio.run(acl_admin.create_acls(cluster.client(), entries)) == {}
    assert [len(one.creations) for one in cluster.requests] == [acl_admin.AT_ONCE, 1]


def test_a_change_is_sent_again_to_a_new_controller() -> None:
    moved = AclCreationResult(error_code=ErrorCode.NOT_CONTROLLER)
    cluster = ScriptedCluster(CreateAclsResponse(results=[moved]), CreateAclsResponse(results=[OK]))

    assert asyncio.run(acl_admin.create_acls(cluster.client(), [entry()])) == {}
    assert len(cluster.requests) == 2


def test_a_response_with_too_few_results_is_an_error() -> None:
    with pytest.raises(KafkaError, match="0 answers about 1 ACLs"):
        asyncio.run(
            acl_admin.create_acls(ScriptedCluster(CreateAclsResponse(results=[])).client(), [entry()])
        )


def test_each_filter_returns_the_entries_it_removed_or_its_error() -> None:
    gone = DeleteAclsMatchingAcl(**entry()._asdict())
    kept = DeleteAclsMatchingAcl(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, **entry("kept")._asdict())
    cluster = ScriptedCluster(
        DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(matching_acls=[gone]),
                DeleteAclsFilterResult(matching_acls=[gone, kept]),
                DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message="no"),
            ]
        )
    )
    filters = [acl_admin.exact_filter(entry()), AclFilter(), AclFilter(principal="User:b")]

    exact, partly, none = asyncio.run(acl_admin.delete_acls(cluster.client(), filters))

    assert (exact.entries, exact.error) == ([entry()], None)
    assert partly.entries == [entry()] and partly.error is not None and "'kept'" in partly.error.detail
    assert none.error is not None and none.error.code is ErrorCode.INVALID_REQUEST
    assert [one.principal_filter for one in only_request(cluster).filters] == ["User:anna", None, "User:b"]


def test_an_exact_filter_selects_its_entry_alone() -> None:
    selected = acl_admin.exact_filter(entry())

    assert selected.matches(entry())
    assert not selected.matches(entry("orders2")) and not selected.matches(
        entry(operation=AclOperation.WRITE)
    )

"""`ottla acl`: the ACLs that are created and deleted, the output, and partial failures."""

import asyncio
import json

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AccessControlEntry
from ottla.node.cli import acl_commands as commands
from ottla.node.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from ottla.node.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from ottla.node.wire.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from tests.unit.node.client.scripted_cluster import ScriptedCluster

READ = AccessControlEntry(2, "orders", 3, "User:anna", "*", 3, 3)
WRITE = READ._replace(operation=4)


def existing(*entries: AccessControlEntry) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                pattern_type=one.pattern_type,
                acls=[
                    AclDescription(
                        principal=one.principal,
                        host=one.host,
                        operation=one.operation,
                        permission_type=one.permission_type,
                    )
                ],
            )
            for one in entries
        ]
    )


def created(*codes: int) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message="no" if code else None) for code in codes]
    )


def create(cluster: ScriptedCluster, *, dry_run: bool = False, as_json: bool = False) -> int:
    return asyncio.run(commands.create(cluster.client(), [READ, WRITE], dry_run=dry_run, as_json=as_json))


def test_existing_entries_are_not_created_again(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ScriptedCluster(existing(READ), created(0))

    assert create(cluster) == 0

    assert [one.operation for one in cluster.requests[1].creations] == [WRITE.operation]
    assert capsys.readouterr().out.splitlines() == [
        "created 1 ACL; 1 already existed",
        "principal  permission  operation  resource  name    pattern  host",
        "User:anna  allow       write      topic     orders  literal  *",
    ]


def test_a_dry_run_creates_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = ScriptedCluster(existing())

    assert create(cluster, dry_run=True) == 0

    assert len(cluster.requests) == 1
    assert capsys.readouterr().out.startswith("would create 2 ACLs\n")


def test_rejected_entries_are_printed_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert create(ScriptedCluster(existing(), created(0, ErrorCode.POLICY_VIOLATION))) == 1
    out, err = capsys.readouterr()
    assert out.startswith("created 1 ACL\n")
    assert err.startswith("ottla: allow User:anna write on topic orders from *: ")

    assert create(ScriptedCluster(existing(), created(0, ErrorCode.POLICY_VIOLATION)), as_json=True) == 1
    assert [one["changed"] for one in json.loads(capsys.readouterr().out)] == [True, False]


def test_if_all_are_rejected_only_the_error_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code = ErrorCode.POLICY_VIOLATION

    with pytest.raises(KafkaError) as raised:
        create(ScriptedCluster(existing(), created(code, code)))

    assert raised.value.code is code and not capsys.readouterr().out


def test_if_acls_may_not_be_listed_the_error_names_the_right_to_create_them() -> None:
    refusal = DescribeAclsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None)

    with pytest.raises(KafkaError, match="needs ALTER permission on the cluster"):
        create(ScriptedCluster(refusal))


def test_exactly_the_entries_that_were_shown_are_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    gone = [
        DeleteAclsFilterResult(matching_acls=[DeleteAclsMatchingAcl(**one._asdict())])
        for one in (READ, WRITE)
    ]
    cluster = ScriptedCluster(DeleteAclsResponse(filter_results=gone))

    assert asyncio.run(commands.delete(cluster.client(), [READ, WRITE], as_json=False)) == 0

    assert capsys.readouterr().out == "deleted 2 ACLs\n"
    [request] = cluster.requests
    assert [(one.resource_name_filter, one.operation, one.host_filter) for one in request.filters] == [
        ("orders", 3, "*"),
        ("orders", 4, "*"),
    ]


def test_a_partly_rejected_deletion_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    results = [DeleteAclsFilterResult(), DeleteAclsFilterResult(error_code=ErrorCode.POLICY_VIOLATION)]
    cluster = ScriptedCluster(DeleteAclsResponse(filter_results=results))

    assert asyncio.run(commands.delete(cluster.client(), [READ, WRITE], as_json=False)) == 1

    out, err = capsys.readouterr()
    assert out == "deleted 1 ACL\n" and "User:anna write on topic orders" in err


def test_names_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    commands.show([READ._replace(resource_name="\x1b[2J")], as_json=False)
    commands.show([], as_json=False)

    out = capsys.readouterr().out
    assert "\x1b" not in out and out.endswith("no ACL is selected; `ottla acl list` shows all\n")

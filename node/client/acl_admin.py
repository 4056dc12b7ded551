"""Access control entries (ACLs): list, create and delete them."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AccessControlEntry, AclFilter, AclOperation, ResourceType, word
from ottla.node.client.cluster_client import Client
from ottla.node.client.cluster_right import check_right, error_of
from ottla.node.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.node.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.node.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

# Entries or filters per request: the controller accepts some thousands at once.
AT_ONCE: Final = 1_000
EVERYTHING: Final = AclFilter()

T = TypeVar("T")


class DeletedAcls(NamedTuple):
    """The entries that a filter removed, or the error that kept it from removing any."""

    entries: Sequence[AccessControlEntry] = ()
    error: KafkaError | None = None


def exact_filter(entry: AccessControlEntry) -> AclFilter:
    """Return the filter that selects one entry and no other."""
    return AclFilter(*entry)


async def list_acls(client: Client, selected: AclFilter = EVERYTHING) -> list[AccessControlEntry]:
    """Return the entries that a filter selects, sorted."""
    request = DescribeAclsRequest(
        resource_type_filter=selected.resource_type,
        resource_name_filter=selected.resource_name,
        pattern_type_filter=selected.pattern_type,
        principal_filter=selected.principal,
        host_filter=selected.host,
        operation=selected.operation,
        permission_type=selected.permission_type,
    )

    async def attempt() -> DescribeAclsResponse:
        # The controller has every acknowledged change; other nodes apply it a moment later.
        connection = await client.controller()
        response = await connection.request(request, DescribeAclsResponse, timeout_s=client.remaining_s)
        check_right(response.error_code, response.error_message, "the list of ACLs", AclOperation.DESCRIBE)
        return response

    response = await client.retry(attempt)
    return sorted(
        AccessControlEntry(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for resource in response.resources
        for one in resource.acls
    )


async def create_acls(
    client: Client, entries: Sequence[AccessControlEntry]
) -> dict[AccessControlEntry, KafkaError]:
    """Create entries; return those that were rejected, with their errors. An existing entry is a success."""
    refused: dict[AccessControlEntry, KafkaError] = {}
    for some in _in_parts(list(dict.fromkeys(entries))):
        refused |= await _create(client, some)
    return refused


async def _create(
    client: Client, entries: Sequence[AccessControlEntry]
) -> dict[AccessControlEntry, KafkaError]:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                resource_pattern_type=one.pattern_type,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission_type,
            )
            for one in entries
        ]
    )

    async def attempt() -> CreateAclsResponse:
        connection = await client.controller()
        response = await connection.request(request, CreateAclsResponse, timeout_s=client.remaining_s)
        _check_number(len(response.results), len(entries))
        for one in response.results:
            if one.error_code == ErrorCode.NOT_CONTROLLER:
                check_right(one.error_code, one.error_message, "the new ACLs", AclOperation.ALTER)
        return response

    response = await client.retry(attempt)
    errors = (
        error_of(one.error_code, one.error_message, f"the ACL of {subject(entry)}", AclOperation.ALTER)
        for entry, one in zip(entries, response.results, strict=True)
    )
    return {entry: error for entry, error in zip(entries, errors, strict=True) if error is not None}


async def delete_acls(client: Client, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
    """Delete the entries that each filter selects; an entry that two filters select is returned for both."""
    deleted: list[DeletedAcls] = []
    for some in _in_parts(filters):
        deleted += await _delete(client, some)
    return deleted


async def _delete(client: Client, filters: Sequence[AclFilter]) -> list[DeletedAcls]:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.resource_name,
                pattern_type_filter=one.pattern_type,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission_type,
            )
            for one in filters
        ]
    )

    async def attempt() -> DeleteAclsResponse:
        connection = await client.controller()
        response = await connection.request(request, DeleteAclsResponse, timeout_s=client.remaining_s)
        _check_number(len(response.filter_results), len(filters))
        for one in response.filter_results:
            if one.error_code == ErrorCode.NOT_CONTROLLER:
                check_right(one.error_code, one.error_message, "the ACLs", AclOperation.ALTER)
        return response

    response = await client.retry(attempt)
    return [_deleted(one) for one in response.filter_results]


def _deleted(result: DeleteAclsFilterResult) -> DeletedAcls:
    error = error_of(result.error_code, result.error_message, "the ACLs", AclOperation.ALTER)
    entries = []
    for one in result.matching_acls:
        entry = AccessControlEntry(
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        of_entry = error_of(
            one.error_code, one.error_message, f"the ACL of {subject(entry)}", AclOperation.ALTER
        )
        error = error or of_entry
        if of_entry is None:
            entries.append(entry)
    return DeletedAcls(sorted(entries), error)


def subject(entry: AccessControlEntry) -> str:
    """Return the resource of an entry as text: `topic orders`."""
    kind = word(ResourceType, entry.resource_type).lower().replace("_", " ")
    return f"{kind} {entry.resource_name}"


def _check_number(answers: int, requested: int) -> None:
    if answers != requested:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the server returned {answers} answers about {requested} ACLs or filters",
        )


def _in_parts(entries: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(entries), AT_ONCE):
        yield entries[begin : begin + AT_ONCE]

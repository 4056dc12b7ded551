"""Limits and filters of requests about ACLs, and their rejection if there is no authorizer."""

from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_decode import FieldLimit
from ottla.metadata_raft.acl import MAX_PRINCIPAL_CHARACTERS
from ottla.metadata_raft.commands import AclFilterFields
from ottla.node.services import Services

# Names of resources and hosts have the limit of other ids; the subject of a certificate may be longer.
PRINCIPAL: Final = FieldLimit(4 * MAX_PRINCIPAL_CHARACTERS, ErrorCode.INVALID_REQUEST)


class FilterOfRequest(Protocol):
    """A filter of DescribeAcls and DeleteAcls."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def filter_fields(given: FilterOfRequest) -> AclFilterFields:
    """Return the filter as the controller's commands have it."""
    return AclFilterFields(
        resource_type=given.resource_type_filter,
        resource_name=given.resource_name_filter,
        pattern_type=given.pattern_type_filter,
        principal=given.principal_filter,
        host=given.host_filter,
        operation=given.operation,
        permission_type=given.permission_type,
    )


def check_authorizer(services: Services, reason: str) -> None:
    """Raise SECURITY_DISABLED if there is no authorizer: ACLs would protect nothing."""
    if not services.has_authorizer:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, reason)

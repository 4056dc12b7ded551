"""What the requests about ACLs share: limits, filters, and the refusal where there is no authorizer."""

from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_decode import FieldLimit
from ottla.metadata_raft.acl import MAX_HOST_CHARACTERS, MAX_NAME_CHARACTERS, MAX_PRINCIPAL_CHARACTERS
from ottla.metadata_raft.commands import AclFilterFields
from ottla.node.services import Services

_BYTES_OF_A_CHARACTER: Final = 4  # in UTF-8, at most
ACL_NAME: Final = FieldLimit(_BYTES_OF_A_CHARACTER * MAX_NAME_CHARACTERS, ErrorCode.INVALID_REQUEST)
PRINCIPAL: Final = FieldLimit(_BYTES_OF_A_CHARACTER * MAX_PRINCIPAL_CHARACTERS, ErrorCode.INVALID_REQUEST)
HOST: Final = FieldLimit(_BYTES_OF_A_CHARACTER * MAX_HOST_CHARACTERS, ErrorCode.INVALID_REQUEST)


class FilterOfRequest(Protocol):
    """A filter as DescribeAcls and DeleteAcls have it."""

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


def filter_fields(asked: FilterOfRequest) -> AclFilterFields:
    """Return the filter in the words of commands."""
    return AclFilterFields(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission_type=asked.permission_type,
    )


def check_authorizer(services: Services, reason: str) -> None:
    """Raise SECURITY_DISABLED where no client is refused by ACLs, which would protect nothing."""
    if not services.has_authorizer:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, reason)

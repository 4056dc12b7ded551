"""DeleteAcls (key 31): remove the access rules that match filters."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DeleteAclsFilter:
    resource_type_filter: int = schema.int8()
    resource_name_filter: str | None = schema.string(nullable_since=0)
    pattern_type_filter: int = schema.int8(default=3)
    principal_filter: str | None = schema.string(nullable_since=0)
    host_filter: str | None = schema.string(nullable_since=0)
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@message(api_key=31, versions=(1, 3), flexible_since=2)
class DeleteAclsRequest:
    filters: Sequence[DeleteAclsFilter] = schema.array(DeleteAclsFilter)


@struct
class DeleteAclsMatchingAcl:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    pattern_type: int = schema.int8(default=3)
    principal: str = schema.string()
    host: str = schema.string()
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@struct
class DeleteAclsFilterResult:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = schema.array(DeleteAclsMatchingAcl)


@message(api_key=31, versions=(1, 3), flexible_since=2)
class DeleteAclsResponse:
    throttle_time_ms: int = schema.int32()
    filter_results: Sequence[DeleteAclsFilterResult] = schema.array(DeleteAclsFilterResult)

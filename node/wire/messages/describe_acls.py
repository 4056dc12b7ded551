"""DescribeAcls (key 29): the access rules that match a filter."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=29, versions=(1, 3), flexible_since=2)
class DescribeAclsRequest:
    resource_type_filter: int = schema.int8()
    resource_name_filter: str | None = schema.string(nullable_since=0)
    pattern_type_filter: int = schema.int8(default=3)
    principal_filter: str | None = schema.string(nullable_since=0)
    host_filter: str | None = schema.string(nullable_since=0)
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@struct
class AclDescription:
    principal: str = schema.string()
    host: str = schema.string()
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@struct
class DescribeAclsResource:
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    pattern_type: int = schema.int8(default=3)
    acls: Sequence[AclDescription] = schema.array(AclDescription)


@message(api_key=29, versions=(1, 3), flexible_since=2)
class DescribeAclsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    resources: Sequence[DescribeAclsResource] = schema.array(DescribeAclsResource)

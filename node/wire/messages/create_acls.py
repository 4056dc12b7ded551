"""CreateAcls (key 30): new access rules."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AclCreation:
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    resource_pattern_type: int = schema.int8(default=3)
    principal: str = schema.string()
    host: str = schema.string()
    operation: int = schema.int8()
    permission_type: int = schema.int8()


@message(api_key=30, versions=(1, 3), flexible_since=2)
class CreateAclsRequest:
    creations: Sequence[AclCreation] = schema.array(AclCreation)


@struct
class AclCreationResult:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)


@message(api_key=30, versions=(1, 3), flexible_since=2)
class CreateAclsResponse:
    throttle_time_ms: int = schema.int32()
    results: Sequence[AclCreationResult] = schema.array(AclCreationResult)

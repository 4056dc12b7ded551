"""AlterConfigs (key 33): replace the whole set of a resource's settings; superseded by key 44."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AlterableConfig:
    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)


@struct
class AlterConfigsResource:
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    configs: Sequence[AlterableConfig] = schema.array(AlterableConfig)


@message(api_key=33, versions=(0, 2), flexible_since=2)
class AlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = schema.array(AlterConfigsResource)
    validate_only: bool = schema.boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    resource_type: int = schema.int8()
    resource_name: str = schema.string()


@message(api_key=33, versions=(0, 2), flexible_since=2)
class AlterConfigsResponse:
    throttle_time_ms: int = schema.int32()
    responses: Sequence[AlterConfigsResourceResponse] = schema.array(AlterConfigsResourceResponse)

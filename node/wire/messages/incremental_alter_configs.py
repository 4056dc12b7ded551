"""IncrementalAlterConfigs (key 44): set, delete, append or subtract single settings (KIP-339)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class AlterableConfig:
    name: str = schema.string()
    config_operation: int = schema.int8()
    value: str | None = schema.string(nullable_since=0)


@struct
class AlterConfigsResource:
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    configs: Sequence[AlterableConfig] = schema.array(AlterableConfig)


@message(api_key=44, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = schema.array(AlterConfigsResource)
    validate_only: bool = schema.boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    resource_type: int = schema.int8()
    resource_name: str = schema.string()


@message(api_key=44, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = schema.int32()
    responses: Sequence[AlterConfigsResourceResponse] = schema.array(AlterConfigsResourceResponse)

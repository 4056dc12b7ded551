"""ListConfigResources (key 74): the resources that have settings of their own (KIP-714, KIP-1142)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@message(api_key=74, versions=(0, 1), flexible_since=0)
class ListConfigResourcesRequest:
    resource_types: Sequence[int] = schema.array(schema.int8, since=1)


@struct
class ConfigResource:
    resource_name: str = schema.string()
    resource_type: int = schema.int8(since=1, default=16)


@message(api_key=74, versions=(0, 1), flexible_since=0)
class ListConfigResourcesResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    config_resources: Sequence[ConfigResource] = schema.array(ConfigResource)

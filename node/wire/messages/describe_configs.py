"""DescribeConfigs (key 32): the settings of topics, brokers and groups, with their sources.

Synonyms since 1 (KIP-226), types and documentation since 3.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DescribeConfigsResource:
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    configuration_keys: Sequence[str] | None = schema.array(schema.string, nullable_since=0)


@message(api_key=32, versions=(1, 4), flexible_since=4)
class DescribeConfigsRequest:
    resources: Sequence[DescribeConfigsResource] = schema.array(DescribeConfigsResource)
    include_synonyms: bool = schema.boolean()
    include_documentation: bool = schema.boolean(since=3)


@struct
class DescribeConfigsSynonym:
    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)
    source: int = schema.int8()


@struct
class DescribeConfigsResourceResult:
    name: str = schema.string()
    value: str | None = schema.string(nullable_since=0)
    read_only: bool = schema.boolean()
    config_source: int = schema.int8(default=-1)
    is_sensitive: bool = schema.boolean()
    synonyms: Sequence[DescribeConfigsSynonym] = schema.array(DescribeConfigsSynonym)
    config_type: int = schema.int8(since=3)
    documentation: str | None = schema.string(since=3, nullable_since=3)


@struct
class DescribeConfigsResult:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    resource_type: int = schema.int8()
    resource_name: str = schema.string()
    configs: Sequence[DescribeConfigsResourceResult] = schema.array(DescribeConfigsResourceResult)


@message(api_key=32, versions=(1, 4), flexible_since=4)
class DescribeConfigsResponse:
    throttle_time_ms: int = schema.int32()
    results: Sequence[DescribeConfigsResult] = schema.array(DescribeConfigsResult)

"""DescribeClientQuotas (key 48): the quotas that match a filter (KIP-546)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class ComponentData:
    entity_type: str = schema.string()
    match_type: int = schema.int8()
    match: str | None = schema.string(nullable_since=0)


@message(api_key=48, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasRequest:
    components: Sequence[ComponentData] = schema.array(ComponentData)
    strict: bool = schema.boolean()


@struct
class EntityData:
    entity_type: str = schema.string()
    entity_name: str | None = schema.string(nullable_since=0)


@struct
class ValueData:
    key: str = schema.string()
    value: float = schema.float64()


@struct
class EntryData:
    entity: Sequence[EntityData] = schema.array(EntityData)
    values: Sequence[ValueData] = schema.array(ValueData)


@message(api_key=48, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    entries: Sequence[EntryData] | None = schema.array(EntryData, nullable_since=0)

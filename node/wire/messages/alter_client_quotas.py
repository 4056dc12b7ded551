"""AlterClientQuotas (key 49): set or remove quotas (KIP-546)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class EntityData:
    entity_type: str = schema.string()
    entity_name: str | None = schema.string(nullable_since=0)


@struct
class OpData:
    key: str = schema.string()
    value: float = schema.float64()
    remove: bool = schema.boolean()


@struct
class EntryDataRequest:
    entity: Sequence[EntityData] = schema.array(EntityData)
    ops: Sequence[OpData] = schema.array(OpData)


@message(api_key=49, versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest:
    entries: Sequence[EntryDataRequest] = schema.array(EntryDataRequest)
    validate_only: bool = schema.boolean()


@struct
class EntryDataResponse:
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0)
    entity: Sequence[EntityData] = schema.array(EntityData)


@message(api_key=49, versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse:
    throttle_time_ms: int = schema.int32()
    entries: Sequence[EntryDataResponse] = schema.array(EntryDataResponse)

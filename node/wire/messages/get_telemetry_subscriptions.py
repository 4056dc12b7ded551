"""GetTelemetrySubscriptions (key 71): the metrics that a client has to push, and the interval (KIP-714)."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=71, versions=(0, 0), flexible_since=0)
class GetTelemetrySubscriptionsRequest:
    client_instance_id: bytes = schema.uuid()


@message(api_key=71, versions=(0, 0), flexible_since=0)
class GetTelemetrySubscriptionsResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()
    client_instance_id: bytes = schema.uuid()
    subscription_id: int = schema.int32()
    accepted_compression_types: Sequence[int] = schema.array(schema.int8)
    push_interval_ms: int = schema.int32()
    telemetry_max_bytes: int = schema.int32()
    delta_temporality: bool = schema.boolean()
    requested_metrics: Sequence[str] = schema.array(schema.string)

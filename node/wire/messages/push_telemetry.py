"""PushTelemetry (key 72): metrics of a client, as OpenTelemetry's MetricsData v1 (KIP-714)."""

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message


@message(api_key=72, versions=(0, 0), flexible_since=0)
class PushTelemetryRequest:
    client_instance_id: bytes = schema.uuid()
    subscription_id: int = schema.int32()
    terminating: bool = schema.boolean()
    compression_type: int = schema.int8()
    metrics: bytes = schema.bytes_()


@message(api_key=72, versions=(0, 0), flexible_since=0)
class PushTelemetryResponse:
    throttle_time_ms: int = schema.int32()
    error_code: int = schema.int16()

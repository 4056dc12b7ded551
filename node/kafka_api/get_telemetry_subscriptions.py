"""GetTelemetrySubscriptions: the metrics that a client should push, and the interval (KIP-714)."""

from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.node.client_metrics.client_instances import ACCEPTED_COMPRESSIONS
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.node.wire.request_limits import SEVERAL, RequestLimits

API: Final = ApiDescription(versions=(0, 0), asks=NOTHING, limits=RequestLimits(SEVERAL))


def handle(
    services: Services, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    try:
        instance = services.client_metrics.get_subscriptions(
            request.client_instance_id, context.connection, context.client_id, services.clock.now_ms()
        )
    except KafkaError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance.instance_id,
        subscription_id=instance.wanted.subscription_id,
        accepted_compression_types=ACCEPTED_COMPRESSIONS,
        push_interval_ms=instance.wanted.interval_ms,
        telemetry_max_bytes=services.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=instance.wanted.metrics,
    )

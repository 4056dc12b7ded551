"""PushTelemetry: takes the metrics of a client, which scrapes of this node then include (KIP-714).

They are decompressed and parsed in a thread that clients share fairly: a megabyte of them takes a while.
"""

from typing import Final

from ottla.logstore.compression import Compression, decompress
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client_metrics.otlp_reader import read_metrics
from ottla.node.client_metrics.pushed_series import SeriesPoint, series_points
from ottla.node.kafka_api.api_description import NOTHING, ApiDescription
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.node.wire.request_limits import METRICS, SEVERAL, RequestLimits
from ottla.node.work.fair_pool import Pause
from ottla.node.work.turns import take_turns

API: Final = ApiDescription(
    versions=(0, 0),
    asks=NOTHING,
    limits=RequestLimits(SEVERAL, {"metrics": METRICS}),
)


async def handle(
    services: Services, context: RequestContext, request: PushTelemetryRequest
) -> PushTelemetryResponse:
    code = ErrorCode.NONE
    try:
        await _push(services, context, request)
    except KafkaError as error:
        code = error.code
    services.client_metrics.note_result(request.client_instance_id, code)
    return PushTelemetryResponse(error_code=code)


async def _push(services: Services, context: RequestContext, request: PushTelemetryRequest) -> None:
    """Accept one push, or raise the error of its response."""
    max_bytes = services.config.telemetry_max_bytes
    services.client_metrics.check_push(
        request.client_instance_id,
        context.connection,
        context.client_id,
        services.clock.now_ms(),
        subscription_id=request.subscription_id,
        is_terminating=request.terminating,
        compression=request.compression_type,
        size_bytes=len(request.metrics),
        max_bytes=max_bytes,
    )
    if not request.metrics:
        return
    compression = Compression(request.compression_type)

    def read(pause: Pause) -> tuple[list[SeriesPoint], int]:
        pushed = read_metrics(memoryview(_opened(compression, request.metrics, max_bytes)), pause)
        return series_points(pushed.points), pushed.left_out

    # A client may disconnect as soon as it has sent its last metrics.
    points, left_out = await services.batch_pool.submit(context.connection, read, outlives_client=True)
    await take_turns(services.client_metrics.keep(request.client_instance_id, points, left_out))


def _opened(compression: Compression, data: bytes, max_bytes: int) -> bytes | bytearray | memoryview:
    """Return the decompressed metrics; raise TELEMETRY_TOO_LARGE or INVALID_RECORD."""
    try:
        return decompress(compression, data, max_bytes=max_bytes)
    except KafkaError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            raise KafkaError(
                ErrorCode.TELEMETRY_TOO_LARGE,
                f"The decompressed metrics are larger than telemetry.max.bytes, {max_bytes}.",
            ) from None
        raise KafkaError(ErrorCode.INVALID_RECORD, error.detail) from None

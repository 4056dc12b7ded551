"""Charges the results of handlers to their clients, and puts the throttle time into each response.

One function handles every kind of result, so that no response escapes the quotas.
"""

from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.logstore.words.schema import Buffer, schema_of
from ottla.logstore.words.schema import replace as replace_field
from ottla.logstore.words.schema_compiler import Encoder, decoder, encoder
from ottla.node.counters.request_counters import RequestCounters
from ottla.node.kafka_api.request_charge import RequestCharge
from ottla.node.net.answers import BuiltInThread, Delayed, EncodedBody, Result
from ottla.node.work.turns import SerialExecutor

Response: TypeAlias = Any  # of the API at hand

_THROTTLE_TIME: Final = "throttle_time_ms"
_INT32_BYTES: Final = 4


class Written(NamedTuple):
    """The parts needed to write a response of one version of an API."""

    response_class: type[Response]
    version: int
    encode: Encoder[Response]
    has_error_code: bool
    counters: RequestCounters
    executor: SerialExecutor


def charged(result: Result[Response], charge: RequestCharge, written: Written) -> Result[Response]:
    """Return a result that is charged when it is complete, and whose response has the throttle time."""
    if result is None:
        charge.decide(is_answered=False)
        return None
    if type(result) is written.response_class:
        body = charge.meter.run(lambda: _encoded(result, charge.decide(), written))
        charge.settle()
        return body
    if type(result) is EncodedBody:
        return with_throttle_time_in_body(result, charge.decide(), written.response_class, written.version)
    if type(result) is Delayed:
        build, future = result.answer, result.future
        return result._replace(
            future=charge.steps(future) if isinstance(future, Coroutine) else future,
            answer=lambda outcome: charged(charge.run(partial(build, outcome)), charge, written),
        )
    if type(result) is BuiltInThread:
        return charge.steps(_built(result, charge, written))
    assert isinstance(result, Awaitable), f"a handler returned {type(result).__name__}"
    return charge.steps(_awaited(result, charge, written))


async def _awaited(
    work: Awaitable[Result[Response]], charge: RequestCharge, written: Written
) -> Result[Response]:
    try:
        result = await work
    except Exception:
        charge.decide()
        raise
    return charged(result, charge, written)


async def _built(result: BuiltInThread[Response], charge: RequestCharge, written: Written) -> EncodedBody:
    executor = written.executor
    try:
        response = await executor.run(result.make)
    except Exception:
        charge.decide()
        raise
    throttle_ms = charge.decide()
    body = EncodedBody(await executor.run(lambda: _write(with_throttle_time(response, throttle_ms), written)))
    charge.settle()
    return body


def _encoded(response: Response, throttle_ms: int, written: Written) -> EncodedBody:
    if written.has_error_code and response.error_code:
        written.counters.count_error(response.error_code)
    return EncodedBody(_write(with_throttle_time(response, throttle_ms), written))


def _write(response: Response, written: Written) -> list[Buffer]:
    return written.encode(response, bytearray())


def with_throttle_time(response: Response, throttle_ms: int) -> Response:
    """Return the response with the throttle time, if it has a field for that."""
    if not throttle_ms or not any(field.name == _THROTTLE_TIME for field in schema_of(type(response)).fields):
        return response
    return replace_field(response, throttle_time_ms=throttle_ms)


def with_throttle_time_in_body(
    body: EncodedBody, throttle_ms: int, response_class: type[Response], version: int
) -> EncodedBody:
    """Return an encoded response with the throttle time, if it has a field for that.

    The original may be shared and stays as it is.
    """
    fields = schema_of(response_class).plain_fields(version)
    if not throttle_ms or not any(field.name == _THROTTLE_TIME for field in fields):
        return body
    if fields[0].name == _THROTTLE_TIME:
        first, *rest = body.buffers
        return EncodedBody(
            [throttle_ms.to_bytes(_INT32_BYTES, "big"), memoryview(first)[_INT32_BYTES:], *rest]
        )
    # ApiVersions has the field after its list.
    response, _ = decoder(response_class, version)(b"".join(body.buffers), 0)
    return EncodedBody(
        encoder(response_class, version)(with_throttle_time(response, throttle_ms), bytearray())
    )

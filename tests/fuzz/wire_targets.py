"""Fuzz targets for frames: requests of clients, responses of hostile nodes, and streams of frames."""

import random
import struct
from functools import cache
from typing import Any, Final

from ottla.groupcoord.classic.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    subscribed_topics,
    version_of,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.schema_compiler import encode
from ottla.logstore.words.schema_decode import MAX_ELEMENTS, FieldTooLong, TooManyElements
from ottla.node.client_metrics.otlp_reader import read_metrics
from ottla.node.client_metrics.pushed_series import PushedSeries, SeriesPoint, bytes_of, series_points
from ottla.node.kafka_api import refusals
from ottla.node.kafka_api.dispatch import SMALL_REQUEST_ELEMENTS
from ottla.node.kafka_api.request_decoders import cutting_decoder, limited_decoder
from ottla.node.kafka_api.served_apis import describe, is_served
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.framing import FrameSplitter
from ottla.node.wire.headers import CLIENT_ID, decode_client_id, peek_api
from ottla.node.wire.peer_api import PeerApi, api_of
from tests import otlp
from tests.fuzz.target import Target
from tests.golden import captured
from tests.property.random_messages import random_message

_MAX_CAPTURED_BYTES: Final = 1_500
_KIND: Final = struct.Struct(">hh")  # api key and version, which a response does not contain
_MAX_FRAME_BYTES: Final = 1 << 20


def _all_apis() -> list[ApiKey | PeerApi]:
    found: list[ApiKey | PeerApi] = []
    for api in (*ApiKey, *PeerApi):
        try:
            codec.request_class(api)
        except KafkaError:
            continue
        found.append(api)
    return found


def _versions(cls: type[Any]) -> range:
    return range(schema_of(cls).min_version, schema_of(cls).max_version + 1)


@cache
def request_corpus() -> list[bytes]:
    """Return two random requests of each version of each API, and captured ones."""
    frames: list[bytes] = []
    chance = random.Random("requests")
    for api in _all_apis():
        for version in _versions(codec.request_class(api)):
            for _ in range(2):
                message = random_message(codec.request_class(api), version, chance)
                frames.append(b"".join(codec.encode_request(api, version, 7, "fuzz", message))[4:])
    for name in captured.APIS:
        for one in captured.longest_of_each_version(name, _MAX_CAPTURED_BYTES):
            frames.append(one.request)
    return frames


def read_request(frame: bytes) -> None:
    """Read a request as `dispatch` does, and then reject it as `dispatch` does."""
    view = memoryview(frame)
    api_key, version = peek_api(view)
    codec.request_class(api_key)
    api = api_of(api_key)
    if not is_served(api):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the API is not served")
    header_version = codec.request_header_version(api_key, version)
    try:
        _, position = decode_client_id(view, 8, header_version=header_version, limit=CLIENT_ID)
        decode = limited_decoder(api, version)
        try:
            request, _ = decode(view, position, SMALL_REQUEST_ELEMENTS)
        except TooManyElements:
            is_peer = isinstance(api, PeerApi)
            request, _ = decode(view, position, MAX_ELEMENTS if is_peer else describe(api).limits.elements)
    except FieldTooLong:
        _reject(api, version, view)
        return
    _reject(api, version, view)
    written = encode(request, version)
    again = codec.decode_request(api_key, version, written, 0)
    assert encode(again, version) == written, "the decoded request is encoded differently"


def _reject(api: ApiKey | PeerApi, version: int, view: memoryview) -> None:
    """Reject a request of any content, if the response of this version has a field for the error."""
    error = KafkaError(ErrorCode.INVALID_REQUEST, "refused")
    if refusals.has_error_at_top(api, version):
        response = refusals.error_at_top(api, version, error)
    elif describe(api).echoes:
        header_version = codec.request_header_version(api, version)
        _, position = decode_client_id(view, 8, header_version=header_version)
        cutting_decoder(api, version, 100)(view, position, MAX_ELEMENTS)
        response = refusals.error_by_element(api, version, view, position, error)
    else:
        return
    codec.encode_response(api, version, 7, response)


@cache
def response_corpus() -> list[bytes]:
    """Return a response of each version of each API, after its api key and version."""
    responses: dict[tuple[int, int], bytes] = {}
    chance = random.Random("responses")
    for api in _all_apis():
        for version in _versions(codec.response_class(api)):
            message = random_message(codec.response_class(api), version, chance)
            responses[api, version] = b"".join(codec.encode_response(api, version, 7, message))[4:]
    for name in captured.APIS:
        for one in captured.longest_of_each_version(name, _MAX_CAPTURED_BYTES):
            responses[one.api_key, one.version] = one.response
    return [_KIND.pack(*kind) + response for kind, response in responses.items()]


def _read_response(content: bytes) -> None:
    if len(content) >= _KIND.size:
        api_key, version = _KIND.unpack_from(content)
        codec.decode_response(api_key, version, memoryview(content)[_KIND.size :])


def _split_frames(content: bytes) -> None:
    """Receive a stream in pieces of the sizes in the first four bytes."""
    sizes, stream = content[:4] or b"\x01", content[4:]
    splitter = FrameSplitter(_MAX_FRAME_BYTES)
    position = turn = seen = 0
    while position < len(stream):
        room = splitter.room()
        assert len(room), "there is no room for the next bytes"
        size = min(len(room), 1 + sizes[turn % len(sizes)], len(stream) - position)
        room[:size] = stream[position : position + size]
        seen += sum(len(frame) + 4 for frame in splitter.received(size))
        position, turn = position + size, turn + 1
    assert seen <= len(stream)


def _stream_corpus() -> list[bytes]:
    frames = [len(one).to_bytes(4) + one for one in request_corpus()[::40]]
    return [b"\x03\xff\x00\x10" + b"".join(frames[start : start + 3]) for start in range(0, len(frames), 3)]


def _read_protocol(content: bytes) -> None:
    """Read the bytes as a member's subscription, and as its assignment."""
    for read in (decode_subscription, decode_assignment, subscribed_topics, version_of):
        try:
            read(content)
        except KafkaError:
            pass


def _protocol_corpus() -> list[bytes]:
    found = [encode_assignment(version, [("t", [0, 1, 2]), ("other", [7])]) for version in range(2)]
    for name in ("join_group", "sync_group", "describe_groups"):
        for one in captured.exchanges(name):
            found += _bytes_fields(
                codec.decode_request(one.api_key, one.version, one.request, _body_position(one.request))
            )
    return sorted(set(found))[:60]


def _read_metrics(content: bytes) -> None:
    """Read metrics that a client pushes, and keep them as a node does."""
    pushed = read_metrics(content)
    series = PushedSeries()
    for one in series_points(pushed.points):
        series.put(one, max_series=100, max_bytes=100_000)
    assert len(series) <= 100 and series.used_bytes <= 100_000
    assert series.used_bytes >= sum(bytes_of(SeriesPoint(*one, False)) for one in series.snapshot())
    for _ in range(4):
        series.end_push()
    assert (len(series), series.used_bytes) == (0, 0)


def _metrics_corpus() -> list[bytes]:
    numbers = [otlp.point(1.5, attributes={"topic": "t", "n": 1, "b": True, "d": 0.5}), otlp.point(-2)]
    buckets = otlp.buckets([0.5, 1.0], [1, 2, 3], 4.5, attributes={"node_id": "1"})
    of_each = [
        otlp.gauge("org.apache.kafka.producer.connection.count", *numbers),
        otlp.total("org.apache.kafka.producer.record.send.total", *numbers),
        otlp.total("open", *numbers, temporality=otlp.CUMULATIVE, is_monotonic=False),
        otlp.histogram("latency", buckets),
        otlp.summary("quantiles", otlp.double_field(5, 1.0)),
    ]
    return [otlp.metrics_data(one, resource={"group_id": "g"}) for one in of_each] + [
        otlp.metrics_data(*of_each)
    ]


def _body_position(frame: bytes) -> int:
    return codec.decode_request_header(frame)[1]


def _bytes_fields(value: Any) -> list[bytes]:
    """Return all bytes fields of a message and of the structures in it."""
    if isinstance(value, bytes | memoryview):
        return [bytes(value)]
    if isinstance(value, list | tuple):
        return [found for one in value for found in _bytes_fields(one)]
    if hasattr(type(value), "__schema__"):
        return [
            found
            for field in schema_of(type(value)).fields
            for found in _bytes_fields(getattr(value, field.name))
        ]
    return []


TARGETS: Final = (
    Target(
        name="requests",
        reads="requests of clients and peers: header and body of every version of every API",
        corpus=request_corpus,
        run=read_request,
    ),
    Target(
        name="responses",
        reads="responses of a hostile node: every version of every API",
        corpus=response_corpus,
        run=_read_response,
    ),
    Target(
        name="client-metrics",
        reads="OpenTelemetry metrics that clients push",
        corpus=_metrics_corpus,
        run=_read_metrics,
    ),
    Target(
        name="frames",
        reads="a stream of frames, received in pieces",
        corpus=_stream_corpus,
        run=_split_frames,
    ),
    Target(
        name="member-metadata",
        reads="subscriptions and assignments of members of classic groups",
        corpus=_protocol_corpus,
        run=_read_protocol,
    ),
)

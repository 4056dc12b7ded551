"""Encodes and decodes whole frames: header and body of a request or a response.

Clients (the command line, pipelines, nodes that connect to others) write requests and read responses with it.
The functions of the node's side are for tools and tests: a node serves requests with the decoders and
encoders of `kafka_api/routes`. Frames are read without their length prefix and written with it. Message
modules are imported when their API is first used.
"""

import struct
from importlib import import_module
from typing import Any

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, schema_of
from ottla.logstore.words.schema_compiler import Decoder, Encoder, decoder, encoder
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.headers import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    peek_api,
)
from ottla.node.wire.headers import decode_request_header as decode_header
from ottla.node.wire.peer_api import api_of

_LENGTH = struct.Struct(">i")
_LENGTH_AND_CORRELATION_ID = struct.Struct(">ii")
_NO_LENGTH_YET = bytes(_LENGTH.size)

_classes: dict[int, tuple[type[Any], type[Any], int]] = {}  # request, response, first flexible version
_NEVER_FLEXIBLE = 2**15
# By API and version, since every request needs them; only existing versions are added.
_request_decoders: dict[tuple[int, int], Decoder[Any]] = {}
_response_encoders: dict[tuple[int, int], tuple[Encoder[Any], int]] = {}  # and the bytes before the body
# The counterparts for a client, with the version of the header.
_request_encoders: dict[tuple[int, int], tuple[Encoder[Any], int]] = {}
_response_decoders: dict[tuple[int, int], tuple[Decoder[Any], int]] = {}


def _classes_of(api_key: int) -> tuple[type[Any], type[Any], int]:
    known = _classes.get(api_key)
    if known is None:
        known = _classes[api_key] = _import_classes(api_key)
    return known


def _import_classes(api_key: int) -> tuple[type[Any], type[Any], int]:
    unknown = KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"no API has the key {api_key}")
    try:
        api = api_of(api_key)
    except ValueError:
        raise unknown from None
    name = f"ottla.node.wire.messages.{api.name.lower()}"
    try:
        module = import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        raise unknown from None
    request: type[Any] = getattr(module, f"{api.api_name}Request")
    response: type[Any] = getattr(module, f"{api.api_name}Response")
    flexible_since = schema_of(request).flexible_since
    return request, response, _NEVER_FLEXIBLE if flexible_since is None else flexible_since


def request_class(api_key: int) -> type[Any]:
    """Return the class of an API's requests; KafkaError(UNSUPPORTED_VERSION) if there is none."""
    return _classes_of(api_key)[0]


def response_class(api_key: int) -> type[Any]:
    """Return the class of an API's responses; KafkaError(UNSUPPORTED_VERSION) if there is none."""
    return _classes_of(api_key)[1]


def request_header_version(api_key: int, api_version: int) -> int:
    """Return 2 for flexible versions (KIP-482), unknown later ones included, and 1 for others.

    KafkaError(UNSUPPORTED_VERSION) for an unknown API, as in all functions of this module.
    """
    return 2 if api_version >= _classes_of(api_key)[2] else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Return 1 for flexible versions and 0 for others; always 0 for ApiVersions (KIP-511)."""
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if api_version >= _classes_of(api_key)[2] else 0


# ---- the node's side ----------------------------------------------------------------------------


def decode_request_header(frame: Buffer, position: int = 0) -> tuple[RequestHeader, int]:
    """Return the header of a request and the position of its body.

    KafkaError(UNSUPPORTED_VERSION) for an unknown API, INVALID_REQUEST for malformed bytes.
    """
    api_key, api_version = peek_api(frame, position)
    return decode_header(frame, position, header_version=request_header_version(api_key, api_version))


def decode_request(api_key: int, api_version: int, frame: Buffer, position: int) -> Any:
    """Return the body of a request. Bytes after it are ignored: librdkafka sends some (trap 1)."""
    decode = _request_decoders.get((api_key, api_version))
    if decode is None:
        decode = decoder(_classes_of(api_key)[0], api_version)
        _request_decoders[api_key, api_version] = decode
    return decode(frame, position)[0]


def encode_response(api_key: int, api_version: int, correlation_id: int, response: object) -> list[Buffer]:
    """Return the frame of a response with its length: one buffer, or several to avoid copying records."""
    known = _response_encoders.get((api_key, api_version))
    if known is None:
        encode = encoder(_classes_of(api_key)[1], api_version)
        known = encode, _LENGTH_AND_CORRELATION_ID.size + response_header_version(api_key, api_version)
        _response_encoders[api_key, api_version] = known
    encode, head_bytes = known
    writer = bytearray(head_bytes)
    buffers = encode(response, writer)
    length = len(writer) if len(buffers) == 1 else sum(map(len, buffers))
    _LENGTH_AND_CORRELATION_ID.pack_into(writer, 0, length - _LENGTH.size, correlation_id)
    return buffers


# ---- the client's side --------------------------------------------------------------------------


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: object
) -> list[Buffer]:
    """Return the frame of a request with its length: one buffer, or several to avoid copying records."""
    known = _request_encoders.get((api_key, api_version))
    if known is None:
        known = encoder(request_class(api_key), api_version), request_header_version(api_key, api_version)
        _request_encoders[api_key, api_version] = known
    encode, header_version = known
    header = RequestHeader(api_key, api_version, correlation_id, client_id)
    writer = bytearray(_NO_LENGTH_YET)
    writer += encode_request_header(header, header_version=header_version)
    buffers = encode(request, writer)
    length = len(writer) if len(buffers) == 1 else sum(map(len, buffers))
    _LENGTH.pack_into(writer, 0, length - _LENGTH.size)
    return buffers


def decode_response(api_key: int, api_version: int, frame: Buffer, position: int = 0) -> tuple[int, Any]:
    """Return the correlation id and the body of a response; KafkaError(INVALID_REQUEST) if malformed."""
    known = _response_decoders.get((api_key, api_version))
    if known is None:
        known = decoder(response_class(api_key), api_version), response_header_version(api_key, api_version)
        _response_decoders[api_key, api_version] = known
    decode, header_version = known
    correlation_id, position = decode_response_header(frame, position, header_version=header_version)
    value, _ = decode(frame, position)
    return correlation_id, value

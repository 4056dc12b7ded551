"""The headers before every body: versions 1 and 2 of the request header, 0 and 1 of the response header.

`codec` decides which version applies. `client_id` is never compact, not even in the flexible version 2, so
that an older broker can read the header of an ApiVersions request of any version. The tagged fields of both
headers are empty today; fields that a peer puts there are skipped.
"""

import struct
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.logstore.words.schema_decode import FieldLimit, malformed, read_uvarint, too_long

_REQUEST = struct.Struct(">hhih")  # api key, api version, correlation id, length of the client id
_START = struct.Struct(">hhi")  # all but the last of these
_LENGTH = struct.Struct(">h")
_RESPONSE = struct.Struct(">i")  # correlation id
_NO_LENGTH = -1
# No tags are known. A frame of 100 MiB could have fifty million, each of which takes a microsecond to skip.
MAX_HEADER_TAGS = 1_000
# The client id becomes part of member ids, logs and metrics.
CLIENT_ID = FieldLimit(1_024, ErrorCode.INVALID_REQUEST)
NO_LIMIT = FieldLimit(2**15, ErrorCode.INVALID_REQUEST)


class RequestHeader(NamedTuple):
    """The header of a request; `client_id` is None if the client sent none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def peek_api(frame: Buffer, position: int = 0) -> tuple[int, int]:
    """Return the api key and version of a request, which decide how its header continues.

    KafkaError(INVALID_REQUEST) if it ends before them.
    """
    if len(frame) - position < 4:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "malformed request header: it ends too early")
    api_key, api_version = struct.unpack_from(">hh", frame, position)
    return api_key, api_version


def decode_request_header(
    frame: Buffer, position: int = 0, *, header_version: int
) -> tuple[RequestHeader, int]:
    """Return a request's header and the position of its body; KafkaError(INVALID_REQUEST) if malformed."""
    try:
        api_key, api_version, correlation_id = _START.unpack_from(frame, position)
    except struct.error as fault:
        raise malformed("request header", None, fault) from None
    client_id, position = decode_client_id(frame, position + _START.size, header_version=header_version)
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def decode_client_id(
    frame: Buffer, position: int, *, header_version: int, limit: FieldLimit = NO_LIMIT
) -> tuple[str | None, int]:
    """Return the client id, which follows the correlation id, and the position of the body.

    FieldTooLong if the client id is beyond the limit, KafkaError(INVALID_REQUEST) if the header is malformed.
    """
    try:
        (length,) = _LENGTH.unpack_from(frame, position)
        position += _LENGTH.size
        client_id = None
        if length >= 0:
            if length > limit.max_bytes:
                raise too_long("client_id", length, limit)
            stop = position + length
            client_id = str(frame[position:stop], "utf-8")
            position = stop
        if header_version >= 2:
            position = _skip_tags(frame, position)
    except (struct.error, IndexError, ValueError) as fault:
        raise malformed("request header", None, fault) from None
    if position > len(frame):
        raise malformed("request header", None, None)
    return client_id, position


def encode_request_header(header: RequestHeader, *, header_version: int) -> bytearray:
    """Return the encoded header, to which a body can be appended."""
    text = b"" if header.client_id is None else header.client_id.encode()
    length = _NO_LENGTH if header.client_id is None else len(text)
    encoded = bytearray(_REQUEST.pack(header.api_key, header.api_version, header.correlation_id, length))
    encoded += text
    if header_version >= 2:
        encoded.append(0)
    return encoded


def decode_response_header(frame: Buffer, position: int = 0, *, header_version: int) -> tuple[int, int]:
    """Return the correlation id of a response and the position of its body."""
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame, position)
        position += _RESPONSE.size
        if header_version >= 1:
            position = _skip_tags(frame, position)
    except (struct.error, IndexError, ValueError) as fault:
        raise malformed("response header", None, fault) from None
    if position > len(frame):
        raise malformed("response header", None, None)
    return correlation_id, position


def _skip_tags(frame: Buffer, position: int) -> int:
    if not frame[position]:
        return position + 1
    count, position = read_uvarint(frame, position)
    if count > MAX_HEADER_TAGS:
        raise ValueError(f"{count} tags are too many")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
    return position

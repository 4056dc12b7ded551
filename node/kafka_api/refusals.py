"""The response to a request that is rejected as a whole before it is handled.

Most responses have an error code at the top. Otherwise the elements of the request are repeated, each with
the code, as Apache Kafka's `getErrorResponse` does: the `echoes` in the description of the API.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, Field, schema_of
from ottla.logstore.words.schema_compiler import decoder
from ottla.node.kafka_api.api_description import Echo
from ottla.node.kafka_api.request_decoders import cutting_decoder
from ottla.node.kafka_api.served_apis import describe
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi

A = TypeVar("A")

# If the request is larger, its response repeats only the beginnings of its names; if it has more elements,
# there is no response. A rejected request must not be echoed by the megabyte. Up to `ELEMENTS_AT_ONCE`
# elements are repeated on the loop, more of them off it.
MAX_REPEATED_BYTES: Final = 65_536
BEGINNING_BYTES: Final = 64
MAX_REPEATED_ELEMENTS: Final = 65_536
ELEMENTS_AT_ONCE: Final = 4_096


_CODES: Final = ("error_code", "partition_error_code")
_UNKNOWN: Final = ("node_id", "port", "base_offset")  # in elements: -1 beside an error
_ABSENT: Final = ("protocol_name", "entries")  # at the top: null beside an error, if the version allows null
# Their elements get the error of the whole request, too.
_NAMES_ELEMENTS_TOO: Final = (
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
)


def with_denials(
    answers: Iterable[A], is_allowed: Iterable[bool], denial: KafkaError
) -> Iterator[A | KafkaError]:
    """Yield the next answer for each element that the client may use, and the denial for the others."""
    left = iter(answers)
    return (next(left) if one else denial for one in is_allowed)


def has_error_at_top(api: ApiKey | PeerApi, version: int) -> bool:
    """Return True if the error code at the top of the response suffices, so that no elements are repeated."""
    fields = schema_of(codec.response_class(api)).plain_fields(version)
    # Metadata has one since 13, but clients look at its topics.
    if api is ApiKey.METADATA or api in _NAMES_ELEMENTS_TOO:
        return False
    return any(field.name == "error_code" for field in fields)


def error_at_top(api: ApiKey | PeerApi, version: int, error: KafkaError) -> Any:
    """Return the response with the error at its top only."""
    cls = codec.response_class(api)
    fields = schema_of(cls).plain_fields(version)
    absent = {field.name: None for field in fields if field.name in _ABSENT and field.is_nullable(version)}
    return cls(**_error_fields(fields, error), **absent)


def error_by_element(
    api: ApiKey | PeerApi,
    version: int,
    frame: Buffer,
    position: int,
    error: KafkaError,
    max_elements: int = MAX_REPEATED_ELEMENTS,
) -> Any:
    """Return the response that repeats each element of the request at `position`.

    Raises KafkaError if the request cannot be read.
    """
    if len(frame) <= MAX_REPEATED_BYTES:
        decode = decoder(codec.request_class(api), version)
    else:
        decode = cutting_decoder(api, version, BEGINNING_BYTES)
    request, _ = decode(frame, position, max_elements)
    if api is ApiKey.PRODUCE and not request.acks:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "with acks=0 it has no response for the error")
    cls = codec.response_class(api)
    fields = {field.name: field for field in schema_of(cls).plain_fields(version)}
    made = _error_fields(fields.values(), error)
    # Old versions report an error in a log directory without a name, but a missing right by an empty list.
    if api is ApiKey.DESCRIBE_LOG_DIRS and error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        made["results"] = [_element(fields["results"], {}, version, error)]
    for echo in describe(api).echoes:
        target = fields.get(echo.target)
        if target is not None and (elements := _repeated(echo, target, request, version, error)):
            made[echo.target] = [*made.get(echo.target, ()), *elements]
    return cls(**made)


def _repeated(echo: Echo, target: Field, parent: Any, version: int, error: KafkaError) -> list[Any]:
    sources: list[Any] = [parent]
    for name in echo.source.split("."):
        sources = [one for source in sources for one in getattr(source, name) or ()]
    assert target.of is not None
    inner_fields = {field.name: field for field in schema_of(target.of).plain_fields(version)}
    elements = []
    for source in sources:
        named = {}
        for name in echo.names:
            from_, _, to = name.partition(">")
            to = to or from_
            if to in inner_fields:
                value = getattr(source, from_) if hasattr(type(source), "__schema__") else source
                # A request may leave out a field that its response requires: the name of a topic that has an
                # id.
                if value is not None or inner_fields[to].is_nullable(version):
                    named[to] = value
        if echo.inner is not None:
            into = inner_fields[echo.inner.target]
            named[echo.inner.target] = _repeated(echo.inner, into, source, version, error)
        elements.append(_element(target, named, version, error))
    return elements


def _element(target: Field, named: dict[str, Any], version: int, error: KafkaError) -> Any:
    assert target.of is not None
    fields = schema_of(target.of).plain_fields(version)
    unknown = {field.name: -1 for field in fields if field.name in _UNKNOWN}
    return target.of(**{**_error_fields(fields, error), **unknown, **named})


def _error_fields(fields: Iterable[Field], error: KafkaError) -> dict[str, Any]:
    there = {field.name for field in fields}
    made: dict[str, Any] = {name: int(error.code) for name in _CODES if name in there}
    if "error_message" in there:
        made["error_message"] = error.detail
    return made

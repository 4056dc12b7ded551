"""The answer to a request that is refused as a whole before it is read: its code, where the response has one.

Most responses have a place for it at the top. In the others the request's elements are named again, each with
the code, as Apache Kafka's `getErrorResponse` does: one table of what stands where.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.logstore.errors import ErrorCode, KafkaError
from ottla.logstore.schema import Buffer, Field, schema_of
from ottla.logstore.schema_compiler import decoder
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.peer_api import PeerApi
from ottla.node.wire.request_limits import cutting_decoder

# A larger request is answered with the beginnings of its names, and not at all if it has more elements: what
# is refused must not be repeated by the megabyte. So few are named at once, more beside the loop.
MAX_REPEATED_BYTES: Final = 65_536
BEGINNING_BYTES: Final = 64
MAX_REPEATED_ELEMENTS: Final = 65_536
ELEMENTS_AT_ONCE: Final = 4_096


class Echo(NamedTuple):
    """Elements of the request's array `source` (behind a dot: arrays in it) in the response's `target`.

    `names` are the fields that they share, or `SOURCE>TARGET`. Of an array of plain values, the name of the
    field that becomes the value.
    """

    source: str
    target: str
    names: tuple[str, ...] = ()
    inner: "Echo | None" = None


_PARTITIONS: Final = Echo("partitions", "partitions", ("partition_index",))
_INDEXES: Final = Echo("partition_indexes", "partitions", ("partition_index",))
_COMMITTED: Final = (Echo("topics", "topics", ("name", "topic_id"), _PARTITIONS),)
_RESOURCES: Final = ("resource_type", "resource_name")
_ADDED: Final = Echo("partitions", "results_by_partition", ("partition_index",))

# Of each API some versions of which have no error at the top. Of arrays that a version lacks, nothing.
ECHOES: Final[Mapping[ApiKey | PeerApi, Sequence[Echo]]] = {
    ApiKey.PRODUCE: (
        Echo(
            "topic_data",
            "responses",
            ("name", "topic_id"),
            Echo("partition_data", "partition_responses", ("index",)),
        ),
    ),
    ApiKey.FETCH: (
        Echo(
            "topics",
            "responses",
            ("topic",),
            Echo("partitions", "partitions", ("partition>partition_index",)),
        ),
    ),
    ApiKey.LIST_OFFSETS: (Echo("topics", "topics", ("name",), _PARTITIONS),),
    ApiKey.METADATA: (Echo("topics", "topics", ("name", "topic_id")),),
    ApiKey.OFFSET_COMMIT: _COMMITTED,
    ApiKey.OFFSET_FETCH: (
        Echo("topics", "topics", ("name",), _INDEXES),
        Echo("groups", "groups", ("group_id",)),
    ),
    ApiKey.FIND_COORDINATOR: (Echo("coordinator_keys", "coordinators", ("key",)),),
    ApiKey.DESCRIBE_GROUPS: (Echo("groups", "groups", ("group_id",)),),
    ApiKey.CREATE_TOPICS: (Echo("topics", "topics", ("name",)),),
    ApiKey.DELETE_TOPICS: (
        Echo("topic_names", "responses", ("name",)),
        Echo("topics", "responses", ("name", "topic_id")),
    ),
    ApiKey.DELETE_RECORDS: (Echo("topics", "topics", ("name",), _PARTITIONS),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Echo("topics", "topics", ("topic",), Echo("partitions", "partitions", ("partition",))),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        Echo("v3_and_below_topics", "results_by_topic_v3_and_below", ("name",), _ADDED),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        Echo("markers", "markers", ("producer_id",), Echo("topics", "topics", ("name",), _INDEXES)),
    ),
    ApiKey.TXN_OFFSET_COMMIT: _COMMITTED,
    ApiKey.DESCRIBE_CONFIGS: (Echo("resources", "results", _RESOURCES),),
    ApiKey.ALTER_CONFIGS: (Echo("resources", "responses", _RESOURCES),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (Echo("resources", "responses", _RESOURCES),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (Echo("dirs.topics", "results", ("name>topic_name",), _PARTITIONS),),
    ApiKey.DESCRIBE_LOG_DIRS: (),
    ApiKey.CREATE_PARTITIONS: (Echo("topics", "results", ("name",)),),
    ApiKey.DELETE_GROUPS: (Echo("groups_names", "results", ("group_id",)),),
    ApiKey.ELECT_LEADERS: (
        Echo(
            "topic_partitions",
            "replica_election_results",
            ("topic",),
            Echo("partitions", "partition_result", ("partition_id",)),
        ),
    ),
    ApiKey.DESCRIBE_PRODUCERS: (Echo("topics", "topics", ("name",), _INDEXES),),
    ApiKey.DESCRIBE_TRANSACTIONS: (Echo("transactional_ids", "transaction_states", ("transactional_id",)),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (Echo("group_ids", "groups", ("group_id",)),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (Echo("topics", "topics", ("name",)),),
}
_CODES: Final = ("error_code", "partition_error_code")


def has_top(api: ApiKey | PeerApi, version: int) -> bool:
    """Return whether the response has an error code of its own, so that no element need be named."""
    fields = schema_of(codec.response_class(api)).plain_fields(version)
    # Metadata has one since 13, but clients look at its topics.
    return any(field.name == "error_code" for field in fields) and api is not ApiKey.METADATA


def at_top(api: ApiKey | PeerApi, version: int, error: KafkaError) -> Any:
    """The response with the error at its top alone."""
    cls = codec.response_class(api)
    return cls(**_error_fields(schema_of(cls).plain_fields(version), error))


def by_element(
    api: ApiKey | PeerApi,
    version: int,
    frame: Buffer,
    position: int,
    error: KafkaError,
    max_elements: int = MAX_REPEATED_ELEMENTS,
) -> Any:
    """The response that names each element of the request at `position`; KafkaError if it cannot be read."""
    if len(frame) <= MAX_REPEATED_BYTES:
        decode = decoder(codec.request_class(api), version)
    else:
        decode = cutting_decoder(api, version, BEGINNING_BYTES)
    request, _ = decode(frame, position, max_elements)
    if api is ApiKey.PRODUCE and not request.acks:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "it is not acknowledged, and nobody waits for an answer")
    cls = codec.response_class(api)
    fields = {field.name: field for field in schema_of(cls).plain_fields(version)}
    made = _error_fields(fields.values(), error)
    if api is ApiKey.DESCRIBE_LOG_DIRS:  # old versions say it of a directory without a name
        made["results"] = [_element(fields["results"], {}, version, error)]
    for echo in ECHOES[api]:
        target = fields.get(echo.target)
        if target is not None and (elements := _repeated(echo, target, request, version, error)):
            made[echo.target] = elements
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
                # A request may leave out what its response cannot: the name of a topic that has an id.
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
    unknown = {field.name: -1 for field in fields if field.name in ("node_id", "port")}
    return target.of(**{**_error_fields(fields, error), **unknown, **named})


def _error_fields(fields: Iterable[Field], error: KafkaError) -> dict[str, Any]:
    there = {field.name for field in fields}
    made: dict[str, Any] = {name: int(error.code) for name in _CODES if name in there}
    if "error_message" in there:
        made["error_message"] = error.detail
    return made

"""DescribeConfigs: the settings of topics, of this broker, of all brokers, of groups.

Synonyms on request (KIP-226), types and, on request, documentation since 3. A broker returns only its own
settings: clients send such a request to the broker that it names.
"""

import struct
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import Buffer, schema_of
from ottla.logstore.words.schema_compiler import encode
from ottla.logstore.words.schema_encode import uvarint
from ottla.logstore.words.topic_partition import check_topic_name
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.image import EVERY_BROKER
from ottla.metadata_raft.records import ConfigResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.config_entries import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    cluster_entries,
    group_entries,
    logger_entries,
    topic_entries,
)
from ottla.node.kafka_api.config_resources import check_resource
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import EncodedBody, Result
from ottla.node.services import Services
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ottla.node.wire.request_limits import MANY, NAME, RequestLimits
from ottla.node.work.turns import Steps, take_turns

API: Final = ApiDescription(
    versions=(1, 4),
    asks=Asks(
        by_handler=(
            (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
            (AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP),
            (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
        )
    ),
    limits=RequestLimits(MANY, {"resources.resource_name": NAME, "resources.configuration_keys": NAME}),
    echoes=(Echo("resources", "results", ("resource_type", "resource_name")),),
    changes_nothing=True,
)

# Each takes some 20 kB in the response; admin tools request the topics of a page.
MAX_RESOURCES: Final = 2_000
# A broker's settings take 1.5 ms of the loop, and a turn checks its CPU time after more steps than this. A
# request for one resource yields, too: a connection may send 64 of them in one turn.
RESOURCES_PER_TURN: Final = 2
# A connection sends a thousand buffers at a time, and handling a small buffer costs more than copying its
# bytes.
SMALL_BYTES: Final = 4_096
JOINED_BYTES: Final = 65_536
_TOO_MANY: Final = KafkaError(
    ErrorCode.INVALID_REQUEST, f"A request may name at most {MAX_RESOURCES} resources."
)


def handle(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> Result[DescribeConfigsResponse]:
    return take_turns(_answer(services, context, request), RESOURCES_PER_TURN)


def _answer(
    services: Services, context: RequestContext, request: DescribeConfigsRequest
) -> Steps[EncodedBody]:
    """Yield between resources; return the encoded response.

    Apache Kafka answers a resource as often as it is named; here that takes the memory of one answer.
    """
    version = context.api_version
    known: dict[tuple[int, str, frozenset[str]], bytes] = {}
    body = _Pieces()
    for resource in request.resources[:MAX_RESOURCES]:
        key = (resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ()))
        piece = known.get(key)
        if piece is None:
            result = _describe(services, context.access, request, resource)
            piece = known[key] = _encoded(version, result)
            yield
        body.add(piece)
    for resource in request.resources[MAX_RESOURCES:]:
        body.add(_encoded(version, _refused(resource, _TOO_MANY)))
        yield
    count = len(request.resources)
    return EncodedBody([_head(version, count), *body.finish(), bytes(_tail_bytes(version))])


class _Pieces:
    """Encoded results as buffers: small ones are joined, a large one may occur many times."""

    def __init__(self) -> None:
        self._pieces: list[Buffer] = []
        self._small = bytearray()

    def add(self, piece: bytes) -> None:
        if len(piece) > SMALL_BYTES:
            self._flush_small()
            self._pieces.append(piece)
            return
        self._small += piece
        if len(self._small) > JOINED_BYTES:
            self._flush_small()

    def finish(self) -> list[Buffer]:
        self._flush_small()
        return self._pieces

    def _flush_small(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()


def _encoded(version: int, result: DescribeConfigsResult) -> bytes:
    """Return one result as it is encoded in the array of a response."""
    body = encode(DescribeConfigsResponse(results=[result]), version)
    return body[len(_head(version, 1)) : len(body) - _tail_bytes(version)]


def _head(version: int, count: int) -> bytes:
    """Return the bytes before the results: a throttle time of 0 and their count."""
    if schema_of(DescribeConfigsResponse).is_flexible(version):
        return bytes(4) + uvarint(count + 1)
    return struct.pack(">ii", 0, count)


def _tail_bytes(version: int) -> int:
    """Return the size of the empty tag section after the results."""
    return 1 if schema_of(DescribeConfigsResponse).is_flexible(version) else 0


def _describe(
    services: Services,
    access: Access,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
) -> DescribeConfigsResult:
    try:
        check_resource(access, AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name)
        entries = _entries_of(services, resource)
    except KafkaError as error:
        return _refused(resource, error)
    # An empty list of keys means all of them, as null does.
    keys = set(resource.configuration_keys or ())
    return DescribeConfigsResult(
        # Apache Kafka sends an empty text on success, not null.
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_result(request, entry) for entry in entries if not keys or entry.key.name in keys],
    )


def _refused(resource: DescribeConfigsResource, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.detail,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _entries_of(services: Services, resource: DescribeConfigsResource) -> Sequence[ConfigEntry]:
    name = resource.resource_name
    image, config = services.metadata.image, services.config
    match resource.resource_type:
        case ConfigResourceType.TOPIC:
            check_topic_name(name)
            if name not in image.topics.by_name:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return topic_entries(config, image.configs.topic(name))
        case ConfigResourceType.BROKER if name == EVERY_BROKER:
            return cluster_entries(config)
        case ConfigResourceType.BROKER:
            if _broker_id_of(name) != config.node_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {config.node_id} or empty string, but received {name}",
                )
            return broker_entries(config)
        case ConfigResourceType.BROKER_LOGGER:
            if name == EVERY_BROKER:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            if _broker_id_of(name) != config.node_id:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Unexpected broker id, expected {config.node_id} but received {name}",
                )
            return logger_entries()
        case ConfigResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(config, image.configs.group(name))
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
                )
            return client_metrics_entries(image.configs.of(ConfigResourceType.CLIENT_METRICS, name))
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {resource.resource_type}.")


def _broker_id_of(name: str) -> int:
    if not (name.isascii() and name.lstrip("-").isdigit() and len(name) <= 11):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name[:100]}")
    return int(name)


def _result(request: DescribeConfigsRequest, entry: ConfigEntry) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.key.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in entry.synonyms
        ]
        if request.include_synonyms
        else (),
        config_type=entry.key.type,
        documentation=entry.key.documentation if request.include_documentation else None,
    )

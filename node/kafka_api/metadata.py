"""Metadata: brokers, topics, partitions and leaders, at addresses that the client can reach.

Version 0 requests all topics with an empty list, later versions with null. Since 4 a client may forbid the
creation of missing topics; since 8 it may request its allowed operations; since 12 it may request topics by
id, and then all topics of the request are looked up by id. A topic that the request creates is answered with
UNKNOWN_TOPIC_OR_PARTITION, as by Apache Kafka: the client retries, and then it exists.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import replace
from ottla.logstore.words.schema_compiler import encoder
from ottla.logstore.words.topic_partition import ZERO_UUID, check_topic_name, uuid_to_text
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import ClientIdentity
from ottla.metadata_raft.commands import MutationPayer
from ottla.metadata_raft.image import INTERNAL_TOPICS, MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.records import NO_LEADER
from ottla.node.authorization.access import Access
from ottla.node.kafka_api import authorized_operations
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.authorized_operations import NOT_REQUESTED
from ottla.node.kafka_api.leader_hints import advertised_controller
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.metadata.suspected_brokers import MOST_LOOKED_FOR
from ottla.node.metadata.topic_creation import auto_created
from ottla.node.net.answers import EncodedBody
from ottla.node.services import Services
from ottla.node.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.node.wire.request_limits import MANY_TOPICS, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, take_turns

API: Final = ApiDescription(
    versions=(0, 13),
    asks=Asks(
        by_handler=(
            (AclOperation.DESCRIBE, ResourceType.TOPIC),
            (AclOperation.CREATE, ResourceType.CLUSTER),
            (AclOperation.CREATE, ResourceType.TOPIC),
            (AclOperation.DESCRIBE, ResourceType.CLUSTER),
        )
    ),
    limits=RequestLimits(MANY_TOPICS, {"topics.name": TOPIC}),
    echoes=(Echo("topics", "topics", ("name", "topic_id")),),
)

TOPIC_ID_SINCE = 12
LISTENER_NOT_FOUND_SINCE = 6
# A client requests the topics that it works with; the largest clusters have some 10,000 topics.
MAX_REQUESTED_TOPICS = 30_000
# The most topics that one request may create: a misspelt subscription must not fill the cluster.
MAX_AUTO_CREATED_TOPICS = 100
# One command creates so few of them: it is applied and published in one turn of the loop.
CREATED_AT_ONCE = 10
# Encoding these takes some 10 ms of the loop; a larger response is encoded in a thread.
MAX_PARTITIONS_AT_ONCE = 4_096
# Encoded responses with more topics are not cached, except the one for all topics.
MAX_CACHED_NAMES = 16


class View(NamedTuple):
    """The metadata, and the brokers that are up and that the client can reach; computed once per response."""

    image: MetadataImage
    version: int
    up: frozenset[int]
    reachable: frozenset[int]


def _view(services: Services, context: RequestContext) -> View:
    image = services.metadata.image
    gone = services.metadata.suspects.gone() if services.metadata.suspects else ()
    up = frozenset(
        one.broker_id for one in image.brokers.values() if not one.fenced and one.broker_id not in gone
    )
    reachable = frozenset(
        broker_id for broker_id in up if services.endpoint_of(broker_id, context.connection) is not None
    )
    return View(image, context.api_version, up, reachable)


async def handle(
    services: Services, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | EncodedBody:
    version = context.api_version
    requested = request.topics
    is_all = requested is None or (version == 0 and not requested)
    problem = None if is_all else _problem_of(request, version)
    if problem is not None:
        return _refused(services, request, problem)
    topic_ids = {topic.topic_id for topic in requested or () if topic.topic_id != ZERO_UUID}
    names = [topic.name for topic in requested or () if topic.name is not None]
    suspects = services.metadata.suspects
    if len(services.metadata.image.brokers) > 1:
        await suspects.probe_leaders(partial(_leaders, services, is_all, names, topic_ids))
    if suspects:
        await suspects.wait_while(partial(_is_led_by, services, is_all, names, topic_ids))
    # A response without the leaders that are gone must not be cached.
    is_kept = not topic_ids and not suspects
    cache_key = _cache_key(context, request, is_all, names) if is_kept else None
    answers = services.metadata.encoded_answers
    if cache_key is not None and (encoded := answers.get(cache_key)) is not None:
        return EncodedBody(encoded)
    view = _view(services, context)
    image = view.image
    topics: list[MetadataResponseTopic] = []
    is_complete = True
    if is_all:
        topics = await take_turns(_topics(view, context.access, image.topics.by_name.values()))
    elif topic_ids:
        topics = await take_turns(_topics_by_id(view, context.access, sorted(topic_ids)))
    else:
        hidden = {} if context.access.is_open else await take_turns(_hidden(context.access, names))
        missing = [
            name for name in dict.fromkeys(names) if name not in image.topics.by_name and name not in hidden
        ]
        errors = await _create_missing(services, context, request, missing)
        errors |= dict.fromkeys(hidden, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        is_complete = not missing
        topics = await take_turns(_topics_by_name(view, list(dict.fromkeys(names)), errors))
    if request.include_topic_authorized_operations:
        topics = await take_turns(_with_operations(context.access, topics))
    response = _response(services, context, request, image, topics)
    if cache_key is not None and is_complete and image is services.metadata.image and not suspects:
        encode = partial(encoder(MetadataResponse, version), response, bytearray())
        is_large = is_all and image.topics.partition_count > MAX_PARTITIONS_AT_ONCE
        body = await services.in_thread(encode) if is_large else encode()
        if image is services.metadata.image:
            answers.put(cache_key, body)
        return EncodedBody(body)
    return response


def _is_led_by(
    services: Services,
    is_all: bool,
    names: Sequence[str],
    topic_ids: Iterable[bytes],
    brokers: Collection[int],
) -> bool:
    """Return True if one of these brokers (or NO_LEADER) leads a requested partition."""
    if is_all and services.metadata.image.topics.partition_count > MAX_PARTITIONS_AT_ONCE:
        return True  # checking takes longer than waiting
    return any(
        partition.leader in brokers
        for topic in _requested(services, is_all, names, topic_ids)
        for partition in topic.partitions
    )


def _leaders(
    services: Services, is_all: bool, names: Sequence[str], topic_ids: Iterable[bytes]
) -> Collection[int]:
    """Return the leaders of the requested partitions, at most `MOST_LOOKED_FOR` of them."""
    leaders: set[int] = set()
    partitions = (
        partition
        for topic in _requested(services, is_all, names, topic_ids)
        for partition in topic.partitions
    )
    for partition in islice(partitions, MAX_PARTITIONS_AT_ONCE):
        leaders.add(partition.leader)
        if len(leaders) == MOST_LOOKED_FOR:
            break
    return leaders - {NO_LEADER}


def _requested(
    services: Services, is_all: bool, names: Sequence[str], topic_ids: Iterable[bytes]
) -> Iterator[TopicImage]:
    """Yield the requested topics that exist."""
    topics = services.metadata.image.topics
    if is_all:
        yield from topics.by_name.values()
    else:
        found = (*map(topics.by_name.get, names), *map(topics.by_id.get, topic_ids))
        yield from (topic for topic in found if topic is not None)


def _problem_of(request: MetadataRequest, version: int) -> str | None:
    topics = request.topics or ()
    if len(topics) > MAX_REQUESTED_TOPICS:
        return f"A request may name at most {MAX_REQUESTED_TOPICS} topics."
    for topic in topics:
        if version < TOPIC_ID_SINCE and topic.name is None:
            return f"Topic name can not be null for version {version}"
        if version < TOPIC_ID_SINCE and topic.topic_id != ZERO_UUID:
            return f"Topic IDs are not supported in requests for version {version}"
        if topic.name is None and topic.topic_id == ZERO_UUID:
            return "A topic in the request has neither a name nor an id."
    return None


def _refused(services: Services, request: MetadataRequest, problem: str) -> MetadataResponse:
    """Return the response with INVALID_REQUEST: at every topic, and at the top since 13."""
    return MetadataResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        cluster_id=uuid_to_text(services.metadata.image.cluster_id),
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in (request.topics or ())[:MAX_REQUESTED_TOPICS]
        ],
    )


def _cache_key(
    context: RequestContext, request: MetadataRequest, is_all: bool, names: Sequence[str]
) -> tuple[object, ...] | None:
    """Return everything but the metadata that a response depends on; None if it is not worth caching."""
    if not is_all and not 0 < len(names) <= MAX_CACHED_NAMES:
        return None
    if not context.access.is_open:
        return None  # clients with different rights get different responses
    connection = context.connection
    return (
        context.api_version,
        connection.listener_name,
        connection.local_host,
        connection.local_port,
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
        None if is_all else tuple(names),
    )


async def _create_missing(
    services: Services, context: RequestContext, request: MetadataRequest, names: Sequence[str]
) -> dict[str, ErrorCode]:
    """Return the error of each topic that does not exist, after creating those that may be created."""
    access = context.access
    errors: dict[str, ErrorCode] = {}
    await take_turns(_check_names(names, errors))
    wanted = [name for name, error in errors.items() if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    if wanted and request.allow_auto_topic_creation and services.config.auto_create_topics_enable:
        may_create_all = access.allows_of_cluster(AclOperation.CREATE, log_if_denied=False)
        denied = [
            name
            for name in wanted
            if not may_create_all and not access.allows(AclOperation.CREATE, ResourceType.TOPIC, name)
        ]
        errors |= dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        wanted = [name for name in wanted if errors[name] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        payer = context.mutation_payer(strict_since=0)
        await _create(services, context.client, payer, wanted[:MAX_AUTO_CREATED_TOPICS])
    return errors


def _hidden(access: Access, names: Sequence[str]) -> Steps[dict[str, None]]:
    """Return the topics, existing or not, that the client may not see."""
    hidden: dict[str, None] = {}
    for name in names:
        if not access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            hidden[name] = None
        yield
    return hidden


def _check_names(names: Sequence[str], errors: dict[str, ErrorCode]) -> Steps[None]:
    for name in names:
        try:
            check_topic_name(name)
            errors[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except KafkaError as error:
            errors[name] = error.code
        yield


async def _create(
    services: Services, client: ClientIdentity | None, payer: MutationPayer, names: Sequence[str]
) -> None:
    """Ask the controller to create these topics.

    They are unknown in this response whether or not that succeeds, as in Apache Kafka.
    """
    for first in range(0, len(names), CREATED_AT_ONCE):
        some = names[first : first + CREATED_AT_ONCE]
        command = auto_created(some, services.metadata.image, services.config, services.unique, payer)
        # If the quorum has no leader at the moment, or a quota is exceeded, the client retries.
        with suppress(KafkaError):
            await services.metadata.submit(command, client=client)


def _response(
    services: Services,
    context: RequestContext,
    request: MetadataRequest,
    image: MetadataImage,
    topics: Sequence[MetadataResponseTopic],
) -> MetadataResponse:
    brokers = []
    failed = services.metadata.suspects.failed() if services.metadata.suspects else ()
    for one in image.brokers.values():
        if one.broker_id in failed:
            endpoint = one.listeners.get(context.connection.listener_name)
        else:
            endpoint = None if one.fenced else services.endpoint_of(one.broker_id, context.connection)
        if endpoint is not None:
            brokers.append(
                MetadataResponseBroker(
                    node_id=one.broker_id, host=endpoint.host, port=endpoint.port, rack=one.rack
                )
            )
    return MetadataResponse(
        brokers=brokers,
        cluster_id=uuid_to_text(image.cluster_id),
        controller_id=advertised_controller(services, [one.node_id for one in brokers]),
        topics=topics,
        cluster_authorized_operations=(
            _cluster_operations(context.access)
            if request.include_cluster_authorized_operations
            else NOT_REQUESTED
        ),
    )


def _cluster_operations(access: Access) -> int:
    """Return the operations that the client may do on the cluster; 0 if it may not describe it."""
    may_describe = access.allows_of_cluster(AclOperation.DESCRIBE, log_if_denied=False)
    return authorized_operations.of_cluster(access) if may_describe else 0


def _with_operations(
    access: Access, topics: Sequence[MetadataResponseTopic]
) -> Steps[list[MetadataResponseTopic]]:
    found = []
    for topic in topics:
        # The operations on a topic without a name are unknown, and those on a hidden topic are not shown.
        if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            operations = authorized_operations.of_topic(access, topic.name)
            topic = replace(topic, topic_authorized_operations=operations)
        found.append(topic)
        yield
    return found


def _unknown(name: str, error: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _topics(view: View, access: Access, topics: Iterable[TopicImage]) -> Steps[list[MetadataResponseTopic]]:
    answers = []
    for topic in topics:
        if access.is_open or access.allows(
            AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, log_if_denied=False
        ):
            answers.append(topic_response(view, topic))
        yield
    return answers


def _topics_by_id(
    view: View, access: Access, topic_ids: Sequence[bytes]
) -> Steps[list[MetadataResponseTopic]]:
    answers = []
    for topic_id in topic_ids:
        answers.append(_topic_by_id(view, access, topic_id))
        yield
    return answers


def _topics_by_name(
    view: View, names: Sequence[str], errors: Mapping[str, ErrorCode]
) -> Steps[list[MetadataResponseTopic]]:
    by_name = view.image.topics.by_name
    answers = []
    for name in names:
        error = errors.get(name)
        answers.append(topic_response(view, by_name[name]) if error is None else _unknown(name, error))
        yield
    return answers


def _topic_by_id(view: View, access: Access, topic_id: bytes) -> MetadataResponseTopic:
    topic = view.image.topics.by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    if not access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name):
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=refused, name=None, topic_id=topic_id)
    return topic_response(view, topic)


def topic_response(view: View, topic: TopicImage) -> MetadataResponseTopic:
    """Return the part of a response for one topic."""
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(view, partition) for partition in topic.partitions],
    )


def _partition(view: View, partition: PartitionImage) -> MetadataResponsePartition:
    offline = view.image.offline_replicas(partition)
    leader, error = partition.leader, ErrorCode.NONE
    replicas: Sequence[int] = partition.replicas
    isr: Sequence[int] = partition.isr
    if not partition.has_leader or leader not in view.up:
        leader, error = -1, ErrorCode.LEADER_NOT_AVAILABLE
    elif leader not in view.reachable:
        leader = -1
        error = (
            ErrorCode.LISTENER_NOT_FOUND
            if view.version >= LISTENER_NOT_FOUND_SINCE
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
    elif view.version == 0 and not view.up.issuperset(replicas):
        # Clients of that time could not handle a replica that is not among the brokers.
        replicas = [replica for replica in replicas if replica in view.up]
        isr = [replica for replica in isr if replica in view.up]
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.partition,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )

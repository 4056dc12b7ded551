"""OffsetFetch: the committed offsets of groups.

Version 1 has no field for an error of the whole group, so every partition gets it (KAFKA-19246); since 2 null
topics mean all; since 7 `require_stable` (KIP-447); since 8 several groups (KIP-709); since 9 members of
consumer groups send their id and epoch; since 10 topics have ids instead of names. With a tagged field of
Ottla, the response includes the lag of the groups.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Final, TypeAlias

from ottla.groupcoord.offsets.offset_commands import OffsetFetch
from ottla.groupcoord.offsets.offset_fetch import NO_OFFSET
from ottla.groupcoord.offsets.offset_results import FetchedOffset, OffsetFetchResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import replace
from ottla.logstore.words.schema_compiler import encoder
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.image import MetadataImage
from ottla.node.authorization.access import GROUP_DENIED, Access
from ottla.node.coordinators.group_lag import GroupOffset, PartitionLag
from ottla.node.coordinators.group_runtime import Make
from ottla.node.kafka_api.answered_once import whole_groups_once
from ottla.node.kafka_api.api_description import PARTITION_INDEXES, ApiDescription, Asks, Echo
from ottla.node.kafka_api.refusals import with_denials
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import EncodedBody, Result
from ottla.node.services import Services
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.node.wire.request_limits import GROUP, MANY_PARTITIONS, MEMBER, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, in_turns, listed, take_turns

API: Final = ApiDescription(
    versions=(1, 10),
    asks=Asks(
        by_handler=((AclOperation.DESCRIBE, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TOPIC))
    ),
    limits=RequestLimits(
        MANY_PARTITIONS,
        {
            "group_id": GROUP,
            "topics.name": TOPIC,
            "groups.group_id": GROUP,
            "groups.member_id": MEMBER,
            "groups.topics.name": TOPIC,
        },
    ),
    old_ids=("group_id", "groups.group_id"),
    echoes=(
        Echo("topics", "topics", ("name",), PARTITION_INDEXES),
        Echo("groups", "groups", ("group_id",)),
    ),
    changes_nothing=True,
)

Answer: TypeAlias = OffsetFetchResult | KafkaError  # of the coordinator, for one group
Lags: TypeAlias = Mapping[GroupOffset, PartitionLag]

FIRST_GROUP_ERROR_VERSION = 2
FIRST_SEVERAL_GROUPS_VERSION = 8
FIRST_TOPIC_ID_VERSION = 10
MAX_ENCODED_AT_ONCE = 1_000  # partitions with their lag: some 2 ms


def handle(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Result[OffsetFetchResponse]:
    if context.api_version < FIRST_SEVERAL_GROUPS_VERSION:
        context.access.check(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_id)
        return _handle_one_group(services, context, request)
    request = replace(request, groups=whole_groups_once(request.groups))
    group_ids = [group.group_id for group in request.groups]
    allowed = context.access.allows_each(AclOperation.DESCRIBE, ResourceType.GROUP, group_ids)
    if context.is_large:
        return _fetch_large(services, context, request, allowed)
    may_describe = list(allowed)
    commands = list(_commands(services, context, request, may_describe))
    return _fetch(services, context, request, may_describe, commands)


async def _fetch_large(
    services: Services,
    context: RequestContext,
    request: OffsetFetchRequest,
    allowed: Iterable[bool],
) -> Result[OffsetFetchResponse]:
    may_describe = await listed(allowed, is_large=True)
    commands = await listed(_commands(services, context, request, may_describe), is_large=True)
    return _fetch(services, context, request, may_describe, commands)


def _commands(
    services: Services, context: RequestContext, request: OffsetFetchRequest, may_describe: Sequence[bool]
) -> Iterator[tuple[str, Make]]:
    image, stable = services.metadata.image, request.require_stable
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION
    for group in compress(request.groups, may_describe):
        topics = _name_topics(image, context.access, group, by_id=by_id)
        yield group.group_id, _make(image, group, topics, by_id=by_id, require_stable=stable)


def _fetch(
    services: Services,
    context: RequestContext,
    request: OffsetFetchRequest,
    may_describe: Sequence[bool],
    commands: Sequence[tuple[str, Make]],
) -> Result[OffsetFetchResponse]:
    """Fetch from the groups that the client may describe, and answer for all in the order of the request."""
    image, access = services.metadata.image, context.access
    by_id = context.api_version >= FIRST_TOPIC_ID_VERSION

    def steps(answers: Sequence[Answer], lags: Lags | None = None) -> Steps[OffsetFetchResponse]:
        groups = []
        of_all = with_denials(answers, may_describe, GROUP_DENIED)
        for group, answer in zip(request.groups, of_all, strict=True):
            yield
            groups.append((yield from _build_group(image, access, group, answer, by_id=by_id, lags=lags)))
        return OffsetFetchResponse(groups=groups)

    async def with_lag(answers: Sequence[Answer]) -> OffsetFetchResponse | EncodedBody:
        lags = await services.group_lag.measure(_group_offsets(answers))
        response = await take_turns(steps(answers, lags))
        if len(lags) <= MAX_ENCODED_AT_ONCE:
            return response
        encode = encoder(OffsetFetchResponse, context.api_version)
        return EncodedBody(await services.in_thread(partial(encode, response, bytearray())))

    def build(answers: Sequence[Answer]) -> Result[OffsetFetchResponse]:
        return in_turns(steps(answers), is_large=context.is_large)

    return services.groups.ask_each(commands, with_lag if request.include_lag else build)


def _group_offsets(answers: Sequence[Answer]) -> Iterator[GroupOffset]:
    for answer in answers:
        if not isinstance(answer, KafkaError):
            for name, partitions in answer.topics:
                for one in partitions:
                    yield _group_offset(name, one)


def _group_offset(topic: str, fetched: FetchedOffset) -> GroupOffset:
    return GroupOffset(
        TopicPartition(topic, fetched.partition), None if fetched.offset == NO_OFFSET else fetched.offset
    )


def _handle_one_group(
    services: Services, context: RequestContext, request: OffsetFetchRequest
) -> Result[OffsetFetchResponse]:
    access = context.access
    topics: list[tuple[str, Sequence[int]]] | None = None
    hidden: list[tuple[str, Sequence[int]]] = []
    if request.topics is not None:
        topics = []
        for topic in request.topics:
            where = topics if _may_describe(access, topic.name) else hidden
            where.append((topic.name, topic.partition_indexes))

    def build(answer: OffsetFetchResult | KafkaError) -> OffsetFetchResponse:
        error = ErrorCode.NONE
        if isinstance(answer, KafkaError):
            error = _code_for_client(answer)
            failed = topics if topics is not None and context.api_version < FIRST_GROUP_ERROR_VERSION else ()
            answer = OffsetFetchResult(
                topics=[
                    (name, [_no_offset(each, error) for each in partitions]) for name, partitions in failed
                ]
            )
        refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        shown = [one for one in answer.topics if topics is not None or _may_see(access, one[0])]
        shown += [(name, [_no_offset(each, refused) for each in partitions]) for name, partitions in hidden]
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=each.partition,
                            committed_offset=each.offset,
                            committed_leader_epoch=each.leader_epoch,
                            metadata=each.metadata,
                            error_code=each.error,
                        )
                        for each in partitions
                    ],
                )
                for name, partitions in shown
            ],
            error_code=error,
        )

    def make(token: int) -> OffsetFetch:
        return OffsetFetch(
            token=token, group_id=request.group_id, topics=topics, require_stable=request.require_stable
        )

    return services.groups.ask(request.group_id, make, build)


def _code_for_client(error: KafkaError) -> ErrorCode:
    """Return the code for the client.

    Consumers before 3.9 do not expect COORDINATOR_NOT_AVAILABLE here; NOT_COORDINATOR makes them look it up
    again.
    """
    if error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
        return ErrorCode.NOT_COORDINATOR
    return error.code


def _make(
    image: MetadataImage,
    group: OffsetFetchRequestGroup,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    *,
    by_id: bool,
    require_stable: bool,
) -> Make:
    ids = {name: image.topics.by_name[name].topic_id for name, _ in topics or ()} if by_id else {}
    return lambda token: OffsetFetch(
        token=token,
        group_id=group.group_id,
        topics=topics,
        require_stable=require_stable,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topic_ids=ids,
    )


def _name_topics(
    image: MetadataImage, access: Access, group: OffsetFetchRequestGroup, *, by_id: bool
) -> list[tuple[str, Sequence[int]]] | None:
    """Return the requested topics by name, except those that are unknown or hidden from the client."""
    if group.topics is None:
        return None
    known = image.topics.by_id
    named = (
        (known[topic.topic_id].name if by_id else topic.name, topic.partition_indexes)
        for topic in group.topics
        if not by_id or topic.topic_id in known
    )
    return [one for one in named if _may_describe(access, one[0])]


def _may_describe(access: Access, topic: str) -> bool:
    return access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)


def _may_see(access: Access, topic: str) -> bool:
    """Return True if a client that requests all topics gets this one."""
    return access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic, log_if_denied=False)


def _build_group(
    image: MetadataImage,
    access: Access,
    group: OffsetFetchRequestGroup,
    answer: Answer,
    *,
    by_id: bool,
    lags: Lags | None,
) -> Steps[OffsetFetchResponseGroup]:
    if isinstance(answer, KafkaError):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=_code_for_client(answer))
    topics: list[OffsetFetchResponseTopics] = []
    for name, partitions in answer.topics:
        topic = image.topics.by_name.get(name)
        if by_id and topic is None:
            continue  # all topics were requested, and this one was deleted: its id is unknown
        if group.topics is None and not _may_see(access, name):
            continue
        topic_id = topic.topic_id if topic is not None else bytes(16)
        topics.append((yield from _build_topic(name, topic_id, partitions, lags)))
    for requested in group.topics or ():
        known = image.topics.by_id.get(requested.topic_id) if by_id else None
        if by_id and known is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not _may_describe(access, requested.name if known is None else known.name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            continue
        nothing = [_no_offset(each, error) for each in requested.partition_indexes]
        topics.append((yield from _build_topic(requested.name, requested.topic_id, nothing, None)))
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, has_lag=lags is not None)


def _build_topic(
    name: str, topic_id: bytes, partitions: Sequence[FetchedOffset], lags: Lags | None
) -> Steps[OffsetFetchResponseTopics]:
    built = []
    for each in partitions:
        yield
        built.append(_build_partition(each, lags.get(_group_offset(name, each)) if lags else None))
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=built)


def _build_partition(each: FetchedOffset, lag: PartitionLag | None) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=each.partition,
        committed_offset=each.offset,
        committed_leader_epoch=each.leader_epoch,
        metadata=each.metadata,
        error_code=each.error,
        log_end_offset=-1 if lag is None else lag.log_end_offset,
        lag_ms=-1 if lag is None or lag.lag_ms is None else lag.lag_ms,
    )


def _no_offset(partition: int, error: ErrorCode) -> FetchedOffset:
    return FetchedOffset(partition, NO_OFFSET, -1, "", error)

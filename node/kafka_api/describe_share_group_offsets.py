"""DescribeShareGroupOffsets (KIP-932): the start offsets of share groups, and since 1 their lag.

The share coordinators know the start offsets, the leaders of the partitions the log end offsets
(`group_lag`). If the request names no topics, all share-partitions of the group are returned; partitions
without state have the start offset -1. With a tagged field of Ottla, the response includes the records that
the leaders have in flight (`share_views`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.groupcoord.request_token import Token
from ottla.groupcoord.share.share_commands import ListSharePartitions
from ottla.groupcoord.share.share_results import ListSharePartitionsResult
from ottla.groupcoord.share_state.share_state_words import (
    NOT_GIVEN,
    ReadStateSummary,
    SharePartitionKey,
    StateSummary,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import ZERO_UUID, replace
from ottla.logstore.words.schema_compiler import encoder
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.coordinators.group_lag import GroupOffset
from ottla.node.kafka_api.alter_share_group_offsets import DENIED_TEXT
from ottla.node.kafka_api.answered_once import whole_groups_once
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed, EncodedBody
from ottla.node.services import Services
from ottla.node.share.share_views import Views, in_flight_state
from ottla.node.share.window_view import WindowView
from ottla.node.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.node.wire.request_limits import GROUP, MANY, TOPIC, RequestLimits
from ottla.node.work.turns import Steps, listed, take_turns

API: Final = ApiDescription(
    versions=(0, 1),
    asks=Asks(
        by_handler=((AclOperation.DESCRIBE, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TOPIC))
    ),
    limits=RequestLimits(MANY, {"groups.group_id": GROUP, "groups.topics.topic_name": TOPIC}),
    echoes=(Echo("groups", "groups", ("group_id",)),),
    changes_nothing=True,
)

NO_START: Final = -1
MAX_ENCODED_AT_ONCE: Final = 100  # partitions with their records in flight: some 20 us each


class _Topic(NamedTuple):
    """The requested partitions of a topic."""

    name: str
    topic_id: bytes
    partitions: Sequence[int]


class _Group(NamedTuple):
    """A requested group: its existing topics that the client may see, and the answers for the others."""

    group_id: str
    topics: list[_Topic]
    left: list[DescribeShareGroupOffsetsResponseTopic]

    def share_partitions(self) -> Iterator[SharePartitionKey]:
        """Yield the requested share-partitions."""
        for topic in self.topics:
            for partition in topic.partitions:
                yield SharePartitionKey(self.group_id, topic.topic_id, partition)


async def handle(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | EncodedBody:
    access = context.access
    request = replace(request, groups=whole_groups_once(request.groups))
    if not services.serves_share_groups:
        refusal = KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        return DescribeShareGroupOffsetsResponse(
            groups=[_refused(group.group_id, refusal) for group in request.groups]
        )
    allowed = await listed(
        access.allows_each(
            AclOperation.DESCRIBE, ResourceType.GROUP, [group.group_id for group in request.groups]
        ),
        is_large=context.is_large,
    )
    found: list[_Group | DescribeShareGroupOffsetsResponseGroup] = []
    for group, is_allowed in zip(request.groups, allowed, strict=True):
        found.append(
            await _partitions_of(services, access, group)
            if is_allowed
            else _refused(group.group_id, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        )
    readable = [group for group in found if isinstance(group, _Group)]
    summaries = {one.key: one for one in await _read(services, readable)}
    # In parallel, so that leaders that do not answer are waited for once, not twice.
    looking = None
    if request.include_in_flight and readable:
        looking = services.share_views.begin(key for group in readable for key in group.share_partitions())
    ends = await _ends(services, readable, summaries)
    views: Views = {} if looking is None else await looking
    response = DescribeShareGroupOffsetsResponse(
        groups=[
            group
            if isinstance(group, DescribeShareGroupOffsetsResponseGroup)
            else await take_turns(_answer(group, summaries, ends, views))
            for group in found
        ]
    )
    if len(views) <= MAX_ENCODED_AT_ONCE:
        return response
    encode = encoder(DescribeShareGroupOffsetsResponse, context.api_version)
    return EncodedBody(await services.in_thread(partial(encode, response, bytearray())))


async def _partitions_of(
    services: Services, access: Access, group: DescribeShareGroupOffsetsRequestGroup
) -> _Group | DescribeShareGroupOffsetsResponseGroup:
    """Return the partitions of a group that a request names, or all of the group's if it names no topics."""
    left: list[DescribeShareGroupOffsetsResponseTopic] = []
    if group.topics is not None:
        topics = await take_turns(_existing(services, access, group, left))
        return _Group(group.group_id, topics, left)
    known = await _known_partitions(services, group.group_id)
    if isinstance(known, KafkaError):
        return _refused(group.group_id, known)
    return _Group(group.group_id, await take_turns(_visible(access, known)), left)


def _refused(group_id: str, error: KafkaError) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, error_code=error.code, error_message=error.detail or None
    )


# ---- requested partitions ----------------------------------------------------------------------------------


async def _known_partitions(services: Services, group_id: str) -> ListSharePartitionsResult | KafkaError:
    """Return all share-partitions of the group from its coordinator, which is this node."""

    def make(token: Token) -> ListSharePartitions:
        return ListSharePartitions(token=token, group_id=group_id)

    def build(answer: ListSharePartitionsResult | KafkaError) -> ListSharePartitionsResult | KafkaError:
        return answer

    answer = services.groups.ask(group_id, make, build)
    return build(await answer.future) if isinstance(answer, Delayed) else answer


def _visible(access: Access, known: ListSharePartitionsResult) -> Steps[list[_Topic]]:
    topics = []
    for topic_id, name, partitions in known.topics:
        yield
        if access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            topics.append(_Topic(name, topic_id, partitions))
    return topics


def _existing(
    services: Services,
    access: Access,
    group: DescribeShareGroupOffsetsRequestGroup,
    left: list[DescribeShareGroupOffsetsResponseTopic],
) -> Steps[list[_Topic]]:
    """Return the topics that exist and that the client may see; answers for the others go to `left`."""
    by_name = services.metadata.image.topics.by_name
    topics: dict[str, _Topic] = {}
    denied: list[DescribeShareGroupOffsetsResponseTopic] = []
    for requested in group.topics or ():
        yield
        topic = by_name.get(requested.topic_name)
        if not access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, requested.topic_name):
            denied.append(_without_start(requested.topic_name, requested.partitions, is_denied=True))
        elif topic is None:
            left.append(_without_start(requested.topic_name, requested.partitions))
        else:
            partitions = list(dict.fromkeys(requested.partitions))
            topics[requested.topic_name] = _Topic(requested.topic_name, topic.topic_id, partitions)
    left += denied
    return list(topics.values())


def _without_start(
    name: str, partitions: Sequence[int], *, is_denied: bool = False
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=ZERO_UUID,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=partition,
                start_offset=NO_START,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else ErrorCode.NONE,
                error_message=DENIED_TEXT if is_denied else None,
            )
            for partition in partitions
        ],
    )


# ---- their offsets -----------------------------------------------------------------------------------------


async def _read(services: Services, groups: Sequence[_Group]) -> list[StateSummary]:
    """Read the start offsets of all groups from the share coordinators at once."""
    requests = [ReadStateSummary(key) for group in groups for key in group.share_partitions()]
    return await services.groups.persister_jobs.read_summary(requests) if requests else []


def _has_lag(summary: StateSummary | None) -> bool:
    return (
        summary is not None
        and summary.error is ErrorCode.NONE
        and summary.start_offset != NO_START
        and summary.delivery_complete_count != NOT_GIVEN
    )


async def _ends(
    services: Services, groups: Sequence[_Group], summaries: Mapping[SharePartitionKey, StateSummary]
) -> dict[TopicPartition, int]:
    """Return the log end offsets of the partitions that have a lag."""
    places = [
        GroupOffset(TopicPartition(topic.name, partition), None)
        for group in groups
        for topic in group.topics
        for partition in topic.partitions
        if _has_lag(summaries.get(SharePartitionKey(group.group_id, topic.topic_id, partition)))
    ]
    if not places:
        return {}
    lags = await services.group_lag.measure(places)
    return {place.partition: lag.log_end_offset for place, lag in lags.items()}


def _answer(
    group: _Group,
    summaries: Mapping[SharePartitionKey, StateSummary],
    ends: Mapping[TopicPartition, int],
    views: Views,
) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    topics = []
    for name, topic_id, partitions in group.topics:
        results = []
        for partition in partitions:
            yield
            key = SharePartitionKey(group.group_id, topic_id, partition)
            end = ends.get(TopicPartition(name, partition))
            results.append(_partition(partition, summaries.get(key), end, views.get(key)))
        topics.append(
            DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=results)
        )
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=[*topics, *group.left])


def _partition(
    partition: int, summary: StateSummary | None, end: int | None, view: WindowView | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """Return the answer for a partition; one whose state cannot be read has no start offset, as in Kafka."""
    if summary is None or summary.error is not ErrorCode.NONE:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=partition, start_offset=NO_START)
    in_flight = None if view is None else in_flight_state(view)
    if not _has_lag(summary):
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=partition,
            start_offset=summary.start_offset,
            leader_epoch=summary.leader_epoch,
            in_flight=in_flight,
        )
    if end is None:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=partition,
            error_code=ErrorCode.REQUEST_TIMED_OUT,
            error_message="The request timed out.",
        )
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=partition,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=end - summary.start_offset - summary.delivery_complete_count,
        in_flight=in_flight,
    )

"""ShareFetch: a member of a share group acquires records, and acknowledges earlier ones (KIP-932).

Versions 1 and 2; since 2 a member may limit the number of records strictly (KIP-1206), and renew its locks
with a request that fetches nothing (KIP-1222).
"""

from collections.abc import Awaitable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.fetch_answer import MAX_ANSWER_BYTES
from ottla.node.kafka_api.leader_hints import WRONG_LEADER, leader_hint
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.share_acknowledgements import (
    FIRST_VERSION_WITH_RENEW,
    acknowledge,
    count_failures,
    is_member_id,
)
from ottla.node.net.answers import Delayed, Result
from ottla.node.services import Services
from ottla.node.share.share_fetch import PartitionResult, ShareFetch, ShareFetchParams
from ottla.node.share.share_partition_manager import (
    AcknowledgeResult,
    Answers,
    await_results,
    results_if_done,
)
from ottla.node.share.share_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    CachedPartition,
    SessionKey,
    ShareSession,
    TopicIdPartition,
    next_epoch,
)
from ottla.node.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.node.wire.request_limits import GROUP, NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(1, 2),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP), (AclOperation.READ, ResourceType.TOPIC))),
    limits=RequestLimits(SEVERAL, {"group_id": GROUP, "member_id": NAME}),
)

# The partitions from which one fetch acquires, or for which it waits: some 30 us each.
MAX_LOOKED_AT: Final = 1_024
RECORD_LIMIT: Final = 1  # the acquire mode in which no more records are acquired than requested


class _Request(NamedTuple):
    """An accepted request; `session` is None if the request ends its session, and fetches nothing."""

    services: Services
    context: RequestContext
    request: ShareFetchRequest
    key: SessionKey
    session: ShareSession | None

    @property
    def is_incremental(self) -> bool:
        """True if the response has only changes."""
        return self.session is not None and self.request.share_session_epoch != INITIAL_EPOCH

    @property
    def is_renewal(self) -> bool:
        """True if the request renews locks and fetches nothing."""
        return self.context.api_version >= FIRST_VERSION_WITH_RENEW and self.request.is_renew_ack


def handle(
    services: Services, context: RequestContext, request: ShareFetchRequest
) -> Result[ShareFetchResponse]:
    group, member = request.group_id, request.member_id
    if not services.serves_share_groups:
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if group is None:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not context.access.allows(AclOperation.READ, ResourceType.GROUP, group):
        return ShareFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    is_renewal = context.api_version >= FIRST_VERSION_WITH_RENEW and request.is_renew_ack
    fetches = any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms))
    if member is None or not is_member_id(member) or (is_renewal and fetches):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    key = SessionKey(group, member)
    try:
        session = _enter_session(services, context, request, key)
    except KafkaError as error:
        refusal = ShareFetchResponse(error_code=error.code)
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return refusal
        return Delayed(services.shares.pause(request.max_wait_ms), lambda _: refusal)
    parts = _Request(services, context, request, key, session)
    answers: Answers = {}
    if _has_acknowledgements(request):
        answers = acknowledge(services, context, key, request.topics, is_renew=request.is_renew_ack)
    fetched = _fetch(parts)
    done = results_if_done(answers)
    if isinstance(fetched, ShareFetch) and done is not None:
        return _respond(parts, fetched, done)
    return _respond_later(parts, fetched, answers)


async def _respond_later(
    parts: _Request, fetched: ShareFetch | Awaitable[ShareFetch], answers: Answers
) -> ShareFetchResponse:
    fetch = fetched if isinstance(fetched, ShareFetch) else await fetched
    return _respond(parts, fetch, await await_results(answers))


# ---- sessions ----------------------------------------------------------------------------------------------


def _enter_session(
    services: Services, context: RequestContext, request: ShareFetchRequest, key: SessionKey
) -> ShareSession | None:
    """Return the session of the request, or None if the request ends it."""
    shares, epoch = services.shares, request.share_session_epoch
    if epoch == FINAL_EPOCH:
        shares.sessions.check(key, epoch)
        return None
    named = _named(services, request)
    if epoch == INITIAL_EPOCH:
        if _has_acknowledgements(request):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return shares.begin_session(key, named, context.connection.number)
    forgotten = (
        TopicIdPartition(topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    )
    return shares.sessions.update(key, epoch, named, forgotten)


def _named(services: Services, request: ShareFetchRequest) -> Iterator[tuple[TopicIdPartition, str | None]]:
    """Yield the partitions that a request names, with the names of their topics."""
    by_id = services.metadata.image.topics.by_id
    for topic in request.topics:
        known = by_id.get(topic.topic_id)
        for one in topic.partitions:
            yield (
                TopicIdPartition(topic.topic_id, one.partition_index),
                None if known is None else known.name,
            )


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(one.acknowledgement_batches for topic in request.topics for one in topic.partitions)


# ---- fetching ----------------------------------------------------------------------------------------------


def _fetch(parts: _Request) -> ShareFetch | Awaitable[ShareFetch]:
    """Fetch from the partitions of the session, in rotated order."""
    services, context, request, session = parts.services, parts.context, parts.request, parts.session
    access, charge = context.access, context.charge

    def refusal_of(topic: str) -> ErrorCode:
        if not access.allows(AclOperation.READ, ResourceType.GROUP, parts.key.group):
            return ErrorCode.GROUP_AUTHORIZATION_FAILED
        if not access.allows(AclOperation.READ, ResourceType.TOPIC, topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    refused: dict[TopicIdPartition, PartitionResult] = {}
    wanted: dict[TopicIdPartition, str] = {}
    if session is not None and not parts.is_renewal:
        by_id = services.metadata.image.topics.by_id
        for topic_id_partition, cached in _rotated(session.partitions, request.share_session_epoch).items():
            known = by_id.get(topic_id_partition.topic_id)
            topic = cached.topic = cached.topic if known is None else known.name
            if topic is None:
                refused[topic_id_partition] = PartitionResult(error=ErrorCode.UNKNOWN_TOPIC_ID)
            elif refusal := refusal_of(topic):
                refused[topic_id_partition] = PartitionResult(error=refusal, topic=topic)
            elif known is None or not 0 <= topic_id_partition.partition < len(known.partitions):
                refused[topic_id_partition] = PartitionResult(
                    error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic=topic
                )
            else:
                wanted[topic_id_partition] = topic
    max_bytes, min_bytes = _bounds(parts)
    params = ShareFetchParams(
        key=parts.key,
        session=session,
        connection=context.connection,
        max_bytes=max_bytes,
        min_bytes=min_bytes,
        max_wait_ms=request.max_wait_ms,
        max_records=request.max_records,
        batch_size=request.batch_size,
        is_strict=request.share_acquire_mode == RECORD_LIMIT,
        charge_quota=(lambda size: False)
        if charge is None
        else (lambda size: charge.count_fetched(size) > 0),
        refusal_of=(lambda topic: ErrorCode.NONE) if access.is_open else refusal_of,
    )
    return services.shares.fetch(params, wanted, refused)


def _bounds(parts: _Request) -> tuple[int, int]:
    """Return the maximum and the minimum size of the response, in bytes."""
    services, request, charge = parts.services, parts.request, parts.context.charge
    if request.max_bytes <= 0:
        return 0, 0
    if services.unsent.is_scarce:
        return 1, 1  # a single batch
    max_bytes = min(request.max_bytes, services.config.fetch_max_bytes, MAX_ANSWER_BYTES)
    most = None if charge is None else charge.most_fetched_bytes()
    if most is not None:
        max_bytes = min(max_bytes, most)
    return max_bytes, min(request.min_bytes, max_bytes)


def _rotated(
    wanted: Mapping[TopicIdPartition, CachedPartition], epoch: int
) -> Mapping[TopicIdPartition, CachedPartition]:
    """Return the partitions, starting with another one in each epoch, so that all have a turn as the first.

    If there are very many, some of them are returned, and the next ones in the next epoch.
    """
    if len(wanted) < 2 or epoch < 1:
        return wanted if len(wanted) <= MAX_LOOKED_AT else dict(islice(wanted.items(), MAX_LOOKED_AT))
    partitions = list(wanted)
    begin = epoch * (1 if len(partitions) <= MAX_LOOKED_AT else MAX_LOOKED_AT) % len(partitions)
    rotated = (*partitions[begin:], *partitions[:begin])
    return {one: wanted[one] for one in rotated[:MAX_LOOKED_AT]}


# ---- answering ---------------------------------------------------------------------------------------------


def _respond(
    parts: _Request, fetch: ShareFetch, answers: dict[TopicIdPartition, AcknowledgeResult]
) -> ShareFetchResponse:
    services, session = parts.services, parts.session
    count_failures(services, answers)
    error = ErrorCode.NONE
    topics: dict[bytes, dict[int, PartitionData]] = {}
    endpoints: dict[int, NodeEndpoint] = {}
    if (
        parts.is_incremental
        and session is not None
        and session.epoch != next_epoch(parts.request.share_session_epoch)
    ):
        error = ErrorCode.INVALID_SHARE_SESSION_EPOCH
    elif not fetch.is_throttled:
        for topic_id_partition, one in fetch.results.items():
            must_send = True
            if parts.is_incremental and session is not None:
                must_send = session.note_sent(
                    topic_id_partition,
                    is_failed=one.error is not ErrorCode.NONE,
                    has_records=len(one.records) > 0,
                )
            if must_send:
                data = _partition_data(parts, topic_id_partition, one, endpoints)
                topics.setdefault(topic_id_partition.topic_id, {})[topic_id_partition.partition] = data
    for topic_id_partition, refusal in answers.items():
        partitions = topics.setdefault(topic_id_partition.topic_id, {})
        data = partitions.setdefault(
            topic_id_partition.partition,
            PartitionData(partition_index=topic_id_partition.partition, records=b""),
        )
        # The response may be changed until it is sent.
        data.acknowledge_error_code = refusal.error  # type: ignore[misc]
        data.acknowledge_error_message = refusal.message  # type: ignore[misc]
    if parts.request.share_session_epoch == FINAL_EPOCH:
        services.shares.end_session(parts.key)
    return ShareFetchResponse(
        error_code=error,
        acquisition_lock_timeout_ms=services.shares.record_lock_duration_ms(parts.key.group),
        responses=[
            ShareFetchableTopicResponse(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=list(endpoints.values()),
    )


def _partition_data(
    parts: _Request,
    topic_id_partition: TopicIdPartition,
    outcome: PartitionResult,
    endpoints: dict[int, NodeEndpoint],
) -> PartitionData:
    services, context = parts.services, parts.context
    if outcome.error is ErrorCode.NONE:
        return PartitionData(
            partition_index=topic_id_partition.partition,
            records=outcome.records,  # type: ignore[arg-type]  # ours until it is sent
            acquired_records=[
                AcquiredRecords(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    delivery_count=each.delivery_count,
                )
                for each in outcome.acquired
            ],
        )
    if context.counters is not None:
        context.counters.count_error(outcome.error)
    hint = None
    if outcome.error in WRONG_LEADER:
        hint = leader_hint(services, context.connection, outcome.topic, topic_id_partition.partition)
    if hint is None:
        return PartitionData(
            partition_index=topic_id_partition.partition, error_code=outcome.error, records=b""
        )
    endpoints[hint.leader_id] = NodeEndpoint(
        node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack
    )
    return PartitionData(
        partition_index=topic_id_partition.partition,
        error_code=outcome.error,
        records=b"",
        current_leader=LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch),
    )

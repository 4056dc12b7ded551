"""ShareAcknowledge: a member accepts, releases or rejects its acquired records, or renews locks (KIP-932).

Versions 1 and 2; since 2 members may renew their locks (KIP-1222), and get the duration of these.
"""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.leader_hints import WRONG_LEADER, leader_hint
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.share_acknowledgements import acknowledge, count_failures, is_member_id
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.share.share_partition_manager import (
    AcknowledgeResult,
    Answers,
    await_results,
    results_if_done,
)
from ottla.node.share.share_sessions import FINAL_EPOCH, SessionKey, TopicIdPartition
from ottla.node.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.node.wire.request_limits import GROUP, NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(1, 2),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP), (AclOperation.READ, ResourceType.TOPIC))),
    limits=RequestLimits(SEVERAL, {"group_id": GROUP, "member_id": NAME}),
)


def handle(
    services: Services, context: RequestContext, request: ShareAcknowledgeRequest
) -> Result[ShareAcknowledgeResponse]:
    group, member = request.group_id, request.member_id
    if not services.serves_share_groups:
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if group is None:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not context.access.allows(AclOperation.READ, ResourceType.GROUP, group):
        return ShareAcknowledgeResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if member is None or not is_member_id(member):
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    key = SessionKey(group, member)
    try:
        services.shares.sessions.advance(key, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    answers = acknowledge(services, context, key, request.topics, is_renew=request.is_renew_ack)
    is_final = request.share_session_epoch == FINAL_EPOCH
    done = results_if_done(answers)
    if done is None:
        return _respond_later(services, context, key, answers, is_final=is_final)
    return _respond(services, context, key, done, is_final=is_final)


async def _respond_later(
    services: Services, context: RequestContext, key: SessionKey, answers: Answers, *, is_final: bool
) -> ShareAcknowledgeResponse:
    return _respond(services, context, key, await await_results(answers), is_final=is_final)


def _respond(
    services: Services,
    context: RequestContext,
    key: SessionKey,
    answers: Mapping[TopicIdPartition, AcknowledgeResult],
    *,
    is_final: bool,
) -> ShareAcknowledgeResponse:
    count_failures(services, answers)
    endpoints: dict[int, NodeEndpoint] = {}
    topics: dict[bytes, list[PartitionData]] = {}
    for topic_id_partition, refusal in answers.items():
        data = PartitionData(
            partition_index=topic_id_partition.partition,
            error_code=refusal.error,
            error_message=refusal.message,
        )
        if refusal.error is not ErrorCode.NONE and context.counters is not None:
            context.counters.count_error(refusal.error)
        if refusal.error in WRONG_LEADER:
            data = _with_leader(services, context, topic_id_partition, data, endpoints)
        topics.setdefault(topic_id_partition.topic_id, []).append(data)
    if is_final:
        services.shares.end_session(key)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=services.shares.record_lock_duration_ms(key.group),
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=list(endpoints.values()),
    )


def _with_leader(
    services: Services,
    context: RequestContext,
    topic_id_partition: TopicIdPartition,
    data: PartitionData,
    endpoints: dict[int, NodeEndpoint],
) -> PartitionData:
    """Return the answer for a partition with its current leader, if that can be reached."""
    topic = services.metadata.image.topics.by_id.get(topic_id_partition.topic_id)
    hint = None
    if topic is not None:
        hint = leader_hint(services, context.connection, topic.name, topic_id_partition.partition)
    if hint is None:
        return data
    endpoints[hint.leader_id] = NodeEndpoint(
        node_id=hint.leader_id, host=hint.host, port=hint.port, rack=hint.rack
    )
    return PartitionData(
        partition_index=data.partition_index,
        error_code=data.error_code,
        error_message=data.error_message,
        current_leader=LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch),
    )

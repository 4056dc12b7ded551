"""ShareGroupHeartbeat (KIP-932): a member of a share group joins, stays or leaves."""

from typing import Final

from ottla.groupcoord.share.share_commands import ShareGroupHeartbeat
from ottla.groupcoord.share.share_results import ShareGroupHeartbeatResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.describe_right import after_topic_checks
from ottla.node.kafka_api.join_group import client_host
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.node.wire.request_limits import GROUP, NAME, SEVERAL, TOPIC, RequestLimits

API: Final = ApiDescription(
    versions=(1, 1),
    asks=Asks(
        by_handler=((AclOperation.READ, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TOPIC))
    ),
    limits=RequestLimits(
        SEVERAL,
        {"group_id": GROUP, "member_id": NAME, "rack_id": NAME, "subscribed_topic_names": TOPIC},
    ),
)


def handle(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Result[ShareGroupHeartbeatResponse]:
    if not services.serves_share_groups:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    return after_topic_checks(
        context, request.subscribed_topic_names, lambda: _beat(services, context, request)
    )


def _beat(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest
) -> Result[ShareGroupHeartbeatResponse]:
    def make(token: int) -> ShareGroupHeartbeat:
        return ShareGroupHeartbeat(
            token=token,
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            rack_id=request.rack_id,
            subscribed_topic_names=request.subscribed_topic_names,
            client_id=context.client_id or "",
            client_host=client_host(context),
        )

    return services.groups.ask(request.group_id, make, _build, keeps_nothing=True)


def _build(answer: ShareGroupHeartbeatResult | KafkaError) -> ShareGroupHeartbeatResponse:
    if isinstance(answer, KafkaError):
        return ShareGroupHeartbeatResponse(error_code=answer.code, error_message=answer.detail or None)
    assignment = None
    if answer.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in answer.assignment
            ]
        )
    return ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=assignment,
    )

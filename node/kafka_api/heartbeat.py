"""Heartbeat: renews the session of a member; REBALANCE_IN_PROGRESS makes it join again.

Static members since 3.
"""

from typing import Final

from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.classic.member_results import HeartbeatResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.node.wire.request_limits import MEMBER_OF_GROUP, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 4),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP),)),
    limits=RequestLimits(SEVERAL, MEMBER_OF_GROUP),
)


def handle(
    services: Services, context: RequestContext, request: HeartbeatRequest
) -> Result[HeartbeatResponse]:
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    hold_ms = services.groups.hold_ms(context.connection.software_name)

    def make(token: int) -> Heartbeat:
        return Heartbeat(
            token=token,
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            hold_ms=hold_ms,
        )

    if hold_ms:
        return services.groups.ask_to_wait(request.group_id, request.member_id, make, _build)
    return services.groups.ask(request.group_id, make, _build)


def _build(answer: HeartbeatResult | KafkaError) -> HeartbeatResponse:
    if isinstance(answer, KafkaError):
        # While the group is loading, no member is late: sessions start when it is loaded.
        is_loading = answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else answer.code)
    return HeartbeatResponse(error_code=answer.error)

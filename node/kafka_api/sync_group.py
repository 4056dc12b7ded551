"""SyncGroup: the leader sends the assignments, and every member gets its own.

Since 3 members may be static (KIP-345); since 5 protocol type and name are checked (KIP-559).
"""

from typing import Final

from ottla.groupcoord.classic.member_commands import SyncGroup
from ottla.groupcoord.classic.member_results import SyncGroupResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.node.wire.request_limits import MANY, MEMBER, MEMBER_OF_GROUP, NAME, PAYLOAD, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP),)),
    limits=RequestLimits(
        MANY,
        {
            **MEMBER_OF_GROUP,
            "protocol_type": NAME,
            "protocol_name": NAME,
            "assignments.member_id": MEMBER,
            "assignments.assignment": PAYLOAD,
        },
    ),
)


def handle(
    services: Services, context: RequestContext, request: SyncGroupRequest
) -> Result[SyncGroupResponse]:
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)

    def make(token: int) -> SyncGroup:
        return SyncGroup(
            token=token,
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments=[(each.member_id, each.assignment) for each in request.assignments],
        )

    return services.groups.ask(request.group_id, make, _build, keeps_nothing=True)


def _build(answer: SyncGroupResult | KafkaError) -> SyncGroupResponse:
    if isinstance(answer, KafkaError):
        return SyncGroupResponse(error_code=answer.code)
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )

"""LeaveGroup: members leave a group.

Up to 2 the request and its error are one member's; since 3 it has several members (KIP-345).
"""

from typing import Final

from ottla.groupcoord.classic.member_commands import LeaveGroup, MemberIdentity
from ottla.groupcoord.classic.member_results import LeaveGroupResult
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ottla.node.wire.request_limits import GROUP, MANY_LEAVING, MEMBER, NAME, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP),)),
    limits=RequestLimits(
        MANY_LEAVING,
        {
            "group_id": GROUP,
            "member_id": MEMBER,
            "members.member_id": MEMBER,
            "members.group_instance_id": NAME,
            "members.reason": NAME,
        },
    ),
)

FIRST_BATCH_VERSION = 3


def handle(
    services: Services, context: RequestContext, request: LeaveGroupRequest
) -> Result[LeaveGroupResponse]:
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    is_batch = context.api_version >= FIRST_BATCH_VERSION
    if is_batch:
        members = [
            MemberIdentity(each.member_id, each.group_instance_id, each.reason) for each in request.members
        ]
    else:
        members = [MemberIdentity(request.member_id)]

    def make(token: int) -> LeaveGroup:
        return LeaveGroup(token=token, group_id=request.group_id, members=members)

    def build(answer: LeaveGroupResult | KafkaError) -> LeaveGroupResponse:
        if isinstance(answer, KafkaError):
            return LeaveGroupResponse(error_code=answer.code)
        if not is_batch:
            return LeaveGroupResponse(error_code=answer.members[0].error)
        return LeaveGroupResponse(
            members=[
                MemberResponse(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=each.error
                )
                for each in answer.members
            ]
        )

    return services.groups.ask(request.group_id, make, build)

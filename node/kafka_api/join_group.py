"""JoinGroup: become or stay a member of a group; the response waits until the whole group has joined.

Since 1 the rebalance timeout is separate from the session timeout; since 4 a new member gets its id first
(KIP-394); since 5 members may be static (KIP-345); since 7 the protocol may be null if there is none
(KIP-559); since 9 a leader may be asked to skip the assignment (KIP-814).
"""

from typing import Final

from ottla.groupcoord.classic.member_commands import JoinGroup, Protocol
from ottla.groupcoord.classic.member_results import JoinGroupResult
from ottla.logstore.words.errors import KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.node.wire.request_limits import MEMBER_OF_GROUP, NAME, PAYLOAD, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 9),
    asks=Asks(by_handler=((AclOperation.READ, ResourceType.GROUP),)),
    limits=RequestLimits(
        SEVERAL,
        {
            **MEMBER_OF_GROUP,
            "protocol_type": NAME,
            "protocols.name": NAME,
            "protocols.metadata": PAYLOAD,
            "reason": NAME,
        },
    ),
)


def handle(
    services: Services, context: RequestContext, request: JoinGroupRequest
) -> Result[JoinGroupResponse]:
    context.access.check(AclOperation.READ, ResourceType.GROUP, request.group_id)
    version = context.api_version

    def make(token: int) -> JoinGroup:
        return JoinGroup(
            token=token,
            group_id=request.group_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            client_id=context.client_id or "",
            client_host=client_host(context),
            protocol_type=request.protocol_type,
            protocols=[Protocol(each.name, each.metadata) for each in request.protocols],
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=max(
                request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms, 0
            ),
            reason=request.reason,
            member_id_required=version >= 4,
            can_skip_assignment=version >= 9,
            may_describe=context.access.topic_filter(),
        )

    def build(answer: JoinGroupResult | KafkaError) -> JoinGroupResponse:
        if isinstance(answer, KafkaError):
            answer = JoinGroupResult(error=answer.code)
        return JoinGroupResponse(
            error_code=answer.error,
            generation_id=answer.generation_id,
            protocol_type=answer.protocol_type,
            protocol_name="" if answer.protocol_name is None and version < 7 else answer.protocol_name,
            leader=answer.leader,
            skip_assignment=answer.skip_assignment,
            member_id=answer.member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    metadata=member.metadata,
                )
                for member in answer.members
            ],
        )

    return services.groups.ask(request.group_id, make, build, keeps_nothing=True)


def client_host(context: RequestContext) -> str:
    """Return the client's address as groups show it, with the leading slash that Java writes."""
    return f"/{context.connection.client_host}"

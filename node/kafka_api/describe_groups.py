"""DescribeGroups: classic groups and their members.

Since 3 the client's allowed operations (KIP-430); since 4 instance ids; since 6 an unknown group is
GROUP_ID_NOT_FOUND with a message (KIP-1043), before that a group in state Dead without an error. With a
tagged field of Ottla, the response includes the last rebalances of the groups.
"""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from ottla.groupcoord.admin_commands import DescribeGroups
from ottla.groupcoord.admin_results import DescribeGroupsResult, GroupDescription
from ottla.groupcoord.timeline import Rebalance
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import replace
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import GROUP_DENIED
from ottla.node.coordinators.group_runtime import Make
from ottla.node.kafka_api import authorized_operations
from ottla.node.kafka_api.answered_once import names_once
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.refusals import with_denials
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    GroupRebalance,
    RebalanceEvent,
)
from ottla.node.wire.request_limits import GROUP, MANY, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(0, 6),
    asks=Asks(by_handler=((AclOperation.DESCRIBE, ResourceType.GROUP),)),
    limits=RequestLimits(MANY, {"groups": GROUP}),
    old_ids=("groups",),
    echoes=(Echo("groups", "groups", ("group_id",)),),
    changes_nothing=True,
)

FIRST_NOT_FOUND_VERSION = 6
FIRST_AUTHORIZED_OPERATIONS_VERSION = 3


def handle(
    services: Services, context: RequestContext, request: DescribeGroupsRequest
) -> Result[DescribeGroupsResponse]:
    request = replace(request, groups=names_once(request.groups))
    allowed = context.access.allows_each(AclOperation.DESCRIBE, ResourceType.GROUP, request.groups)
    if context.is_large:
        return _describe_many(services, context, request, allowed)
    return _describe(services, context, request, list(allowed))


async def _describe_many(
    services: Services, context: RequestContext, request: DescribeGroupsRequest, allowed: Iterable[bool]
) -> Result[DescribeGroupsResponse]:
    return _describe(services, context, request, await listed(allowed, is_large=True))


def _describe(
    services: Services, context: RequestContext, request: DescribeGroupsRequest, may_describe: list[bool]
) -> Result[DescribeGroupsResponse]:
    version = context.api_version
    wants_operations = (
        request.include_authorized_operations and version >= FIRST_AUTHORIZED_OPERATIONS_VERSION
    )

    access = context.access

    def build(answers: Sequence[DescribeGroupsResult | KafkaError]) -> DescribeGroupsResponse:
        of_all = with_denials(answers, may_describe, GROUP_DENIED)
        return DescribeGroupsResponse(
            groups=[
                _build_group(
                    group_id,
                    answer,
                    version=version,
                    operations=authorized_operations.of_group(access, group_id)
                    if wants_operations
                    else authorized_operations.NOT_REQUESTED,
                    wants_timeline=request.include_timeline,
                )
                for group_id, answer in zip(request.groups, of_all, strict=True)
            ]
        )

    commands = [(group_id, _make(group_id)) for group_id in compress(request.groups, may_describe)]
    return services.groups.ask_each(commands, build, builds_in_thread=True, is_large=context.is_large)


def _make(group_id: str) -> Make:
    return lambda token: DescribeGroups(token=token, group_ids=(group_id,))


def _build_group(
    group_id: str,
    answer: DescribeGroupsResult | KafkaError,
    *,
    version: int,
    operations: int,
    wants_timeline: bool,
) -> DescribedGroup:
    if isinstance(answer, KafkaError):
        return DescribedGroup(group_id=group_id, error_code=answer.code)
    group: GroupDescription = answer.groups[0]
    error, message = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if version >= FIRST_NOT_FOUND_VERSION:
            message = group.detail
        else:
            error = ErrorCode.NONE
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=(
            operations if error is ErrorCode.NONE else authorized_operations.NOT_REQUESTED
        ),
        rebalances=[build_rebalance(each) for each in group.rebalances] if wants_timeline else None,
    )


def build_rebalance(rebalance: Rebalance) -> GroupRebalance:
    """Return an entry of a group's timeline; for a consumer group the generations are epochs."""
    return GroupRebalance(
        began_ms=rebalance.began_ms,
        ended_ms=_or_unknown(rebalance.ended_ms),
        generation_before=rebalance.generation_before,
        generation_after=_or_unknown(rebalance.generation_after),
        member_count=_or_unknown(rebalance.members),
        events=[
            RebalanceEvent(
                cause=event.cause.value,
                timestamp_ms=event.at_ms,
                member_id=event.member_id,
                client_id=event.client_id,
                reason=event.reason,
            )
            for event in rebalance.events
        ],
        events_left_out=rebalance.events_left_out,
    )


def _or_unknown(number: int | None) -> int:
    return -1 if number is None else number

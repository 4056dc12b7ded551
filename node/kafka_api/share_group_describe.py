"""ShareGroupDescribe (KIP-932): share groups and their members, with their assignments."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from ottla.groupcoord.share.share_commands import DescribeShareGroups
from ottla.groupcoord.share.share_results import (
    DescribeShareGroupsResult,
    ShareGroupDescription,
    ShareMemberDescription,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import replace
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import GROUP_DENIED, Access
from ottla.node.coordinators.group_runtime import Make
from ottla.node.kafka_api import authorized_operations
from ottla.node.kafka_api.answered_once import names_once
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.consumer_group_describe import HAS_HIDDEN_TOPICS
from ottla.node.kafka_api.refusals import with_denials
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from ottla.node.wire.request_limits import GROUP, MANY, RequestLimits
from ottla.node.work.turns import listed

API: Final = ApiDescription(
    versions=(1, 1),
    asks=Asks(
        by_handler=((AclOperation.DESCRIBE, ResourceType.GROUP), (AclOperation.DESCRIBE, ResourceType.TOPIC))
    ),
    limits=RequestLimits(MANY, {"group_ids": GROUP}),
    old_ids=("group_ids",),
    echoes=(Echo("group_ids", "groups", ("group_id",)),),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: ShareGroupDescribeRequest
) -> Result[ShareGroupDescribeResponse]:
    if not services.serves_share_groups:
        refused = ErrorCode.UNSUPPORTED_VERSION
        return ShareGroupDescribeResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=refused) for group_id in request.group_ids]
        )
    request = replace(request, group_ids=names_once(request.group_ids))
    allowed = context.access.allows_each(AclOperation.DESCRIBE, ResourceType.GROUP, request.group_ids)
    if context.is_large:
        return _describe_many(services, context.access, request, allowed)
    return _describe(services, context.access, request, list(allowed), is_large=False)


async def _describe_many(
    services: Services, access: Access, request: ShareGroupDescribeRequest, allowed: Iterable[bool]
) -> Result[ShareGroupDescribeResponse]:
    may_describe = await listed(allowed, is_large=True)
    return _describe(services, access, request, may_describe, is_large=True)


def _describe(
    services: Services,
    access: Access,
    request: ShareGroupDescribeRequest,
    may_describe: list[bool],
    *,
    is_large: bool,
) -> Result[ShareGroupDescribeResponse]:
    def build(answers: Sequence[DescribeShareGroupsResult | KafkaError]) -> ShareGroupDescribeResponse:
        of_all = with_denials(answers, may_describe, GROUP_DENIED)
        return ShareGroupDescribeResponse(
            groups=[
                _build_group(group_id, answer, access, wants_operations=request.include_authorized_operations)
                for group_id, answer in zip(request.group_ids, of_all, strict=True)
            ]
        )

    commands = [(group_id, _make(group_id)) for group_id in compress(request.group_ids, may_describe)]
    return services.groups.ask_each(commands, build, builds_in_thread=True, is_large=is_large)


def _make(group_id: str) -> Make:
    return lambda token: DescribeShareGroups(token=token, group_ids=(group_id,))


def _build_group(
    group_id: str, answer: DescribeShareGroupsResult | KafkaError, access: Access, *, wants_operations: bool
) -> DescribedGroup:
    if isinstance(answer, KafkaError):
        return DescribedGroup(group_id=group_id, error_code=answer.code)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    group: ShareGroupDescription = answer.groups[0]
    if group.error is not ErrorCode.NONE:
        return DescribedGroup(group_id=group_id, error_code=group.error, error_message=group.detail)
    if not access.is_open and not all(
        access.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, each.topic)
        for member in group.members
        for each in member.assigned
    ):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message=HAS_HIDDEN_TOPICS,
        )
    operations = authorized_operations.NOT_REQUESTED
    if wants_operations:
        operations = authorized_operations.of_group(access, group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_build_member(each) for each in group.members],
        authorized_operations=operations,
    )


def _build_member(described: ShareMemberDescription) -> Member:
    member = described.member
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=each.topic_id, topic_name=each.topic, partitions=each.partitions)
                for each in described.assigned
            ]
        ),
    )

"""DeleteGroups: deletes empty groups and their offsets; each group succeeds or fails on its own.

Since 3 the response has messages.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import GROUP_DENIED, Access
from ottla.node.coordinators.group_runtime import Make
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ottla.node.wire.request_limits import GROUP, MANY, RequestLimits
from ottla.node.work.turns import Steps, in_turns

API: Final = ApiDescription(
    versions=(0, 3),
    asks=Asks(by_handler=((AclOperation.DELETE, ResourceType.GROUP),)),
    limits=RequestLimits(MANY, {"groups_names": GROUP}),
    old_ids=("groups_names",),
    echoes=(Echo("groups_names", "results", ("group_id",)),),
)

_MESSAGES = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
}


def handle(
    services: Services, context: RequestContext, request: DeleteGroupsRequest
) -> Result[DeleteGroupsResponse]:
    is_large = context.is_large
    return in_turns(_ask(services, context.access, request, is_large=is_large), is_large=is_large)


def _ask(
    services: Services, access: Access, request: DeleteGroupsRequest, *, is_large: bool
) -> Steps[Result[DeleteGroupsResponse]]:
    makes: dict[str, Make] = {}  # the response has each group once
    denied: dict[str, None] = {}
    for group_id in request.groups_names:
        if access.allows(AclOperation.DELETE, ResourceType.GROUP, group_id):
            makes.setdefault(group_id, _make(group_id))
        else:
            denied[group_id] = None
        yield
    group_ids = list(makes)

    def build(answers: Sequence[DeleteGroupsResult | KafkaError]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[
                _build_group(group_id, answer)
                for group_id, answer in chain(
                    zip(group_ids, answers, strict=True),
                    ((group_id, GROUP_DENIED) for group_id in denied),
                )
            ]
        )

    return services.groups.ask_each(list(makes.items()), build, builds_in_thread=True, is_large=is_large)


def _make(group_id: str) -> Make:
    return lambda token: DeleteGroups(token=token, group_ids=(group_id,))


def _build_group(group_id: str, answer: DeleteGroupsResult | KafkaError) -> DeletableGroupResult:
    error = answer.code if isinstance(answer, KafkaError) else answer.errors[0][1]
    return DeletableGroupResult(group_id=group_id, error_code=error, error_message=_MESSAGES.get(error))

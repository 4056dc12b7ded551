"""ListGroups: the groups that this node coordinates.

Filters by state since 4 (KIP-518), by type since 5 (KIP-848).
"""

from collections.abc import Sequence
from typing import Final

from ottla.groupcoord.admin_commands import ListGroups
from ottla.groupcoord.admin_results import ListGroupsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits

API: Final = ApiDescription(
    versions=(0, 5),
    asks=Asks(
        by_handler=(
            (AclOperation.DESCRIBE, ResourceType.CLUSTER),
            (AclOperation.DESCRIBE, ResourceType.GROUP),
        )
    ),
    limits=RequestLimits(SEVERAL, {"states_filter": NAME, "types_filter": NAME}),
    changes_nothing=True,
)


def handle(
    services: Services, context: RequestContext, request: ListGroupsRequest
) -> Result[ListGroupsResponse]:
    states = frozenset(each.strip().lower() for each in request.states_filter)
    types = frozenset(each.strip().lower() for each in request.types_filter)
    return services.groups.ask_all_shards(
        lambda token: ListGroups(token=token, states=states, types=types),
        lambda answers: _build(answers, context.access),
    )


def _build(answers: Sequence[ListGroupsResult | KafkaError], access: Access) -> ListGroupsResponse:
    sees_all = access.allows_of_cluster(AclOperation.DESCRIBE, log_if_denied=False)
    error = ErrorCode.NONE
    groups: list[ListedGroup] = []
    for answer in answers:
        if isinstance(answer, KafkaError):
            # Another node lists the groups of a shard that has just moved; a shard that is loading makes the
            # list incomplete.
            if answer.code is not ErrorCode.NOT_COORDINATOR:
                error = answer.code
            continue
        groups += [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in answer.groups
            if sees_all
            or access.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id, log_if_denied=False)
        ]
    if error is not ErrorCode.NONE:
        return ListGroupsResponse(error_code=error)
    return ListGroupsResponse(groups=groups)

"""FindCoordinator: the node that coordinates a group, a transactional id or a share-partition.

Key types since 1; several keys in one request since 4 (KIP-699); keys of share-partitions, which only nodes
request, since 6 (KIP-932): GROUP:TOPIC ID:PARTITION. The topic that a coordinator writes to is created when
the first key is requested, and the response waits for it.
"""

from typing import Final, NamedTuple, Protocol

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.authorization.access import REFUSALS
from ottla.node.coordinators.share_state_messages import key_of_text
from ottla.node.kafka_api.api_description import ApiDescription, Asks, Echo
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Result
from ottla.node.services import Services
from ottla.node.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.node.wire.request_limits import MANY, NAME, RequestLimits
from ottla.node.work.turns import Turn

API: Final = ApiDescription(
    versions=(0, 6),
    asks=Asks(
        by_handler=(
            (AclOperation.DESCRIBE, ResourceType.GROUP),
            (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        )
    ),
    limits=RequestLimits(MANY, {"key": NAME, "coordinator_keys": NAME}),
    old_ids=("key", "coordinator_keys"),
    echoes=(Echo("coordinator_keys", "coordinators", ("key",)),),
)

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2
FIRST_BATCH_VERSION = 4
FIRST_SHARE_VERSION = 6
KEYS_PER_TURN = 64  # some 4 ms with keys of a kilobyte; a turn that takes longer ends earlier
MAX_KEYS = 10_000  # each costs a lookup; admin tools request the groups that they list

_RESOURCE_TYPES: Final = {GROUP_KEY: ResourceType.GROUP, TRANSACTION_KEY: ResourceType.TRANSACTIONAL_ID}
_MESSAGES = {
    ErrorCode.NONE: "NONE",  # Kafka's text in versions 1 to 3
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized to access this group.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorized to use this transactional id.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.INVALID_REQUEST: "This cluster does not support coordinators of this type.",
}


class _Coordinators(Protocol):
    """All coordinators of one type."""

    async def coordinator_of(self, key: str, /) -> int: ...
    def known_coordinator_of(self, key: str, /) -> int: ...


class Found(NamedTuple):
    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


async def handle(
    services: Services, context: RequestContext, request: FindCoordinatorRequest
) -> Result[FindCoordinatorResponse]:
    if context.api_version < FIRST_BATCH_VERSION:
        found = await _find(services, context, request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=found.error,
            error_message=_MESSAGES[found.error],
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )
    if len(request.coordinator_keys) > MAX_KEYS:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=-1, port=-1, error_code=ErrorCode.INVALID_REQUEST)
                for key in request.coordinator_keys
            ]
        )
    coordinators = []
    turn = Turn(KEYS_PER_TURN)
    for key in request.coordinator_keys:
        await turn.step()
        found = await _find(services, context, request.key_type, key)
        coordinators.append(
            Coordinator(
                key=key,
                node_id=found.node_id,
                host=found.host,
                port=found.port,
                error_code=found.error,
                error_message="" if found.error is ErrorCode.NONE else _MESSAGES[found.error],
            )
        )
    return FindCoordinatorResponse(coordinators=coordinators)


async def _find(services: Services, context: RequestContext, key_type: int, key: str) -> Found:
    if key_type == SHARE_KEY:
        return await _find_share_coordinator(services, context, key)
    resource_type = _RESOURCE_TYPES.get(key_type)
    if resource_type is None:
        return Found(ErrorCode.INVALID_REQUEST)
    if not context.access.allows(AclOperation.DESCRIBE, resource_type, key):
        return Found(REFUSALS[resource_type])
    return await _locate(services, context, services.groups if key_type == GROUP_KEY else services.txns, key)


async def _find_share_coordinator(services: Services, context: RequestContext, key: str) -> Found:
    if context.api_version < FIRST_SHARE_VERSION:
        return Found(ErrorCode.INVALID_REQUEST)
    if not context.access.allows_of_cluster(AclOperation.CLUSTER_ACTION):
        return Found(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    share_partition = key_of_text(key)
    if share_partition is None:
        return Found(ErrorCode.INVALID_REQUEST)
    return await _locate(services, context, services.share_states, share_partition.coordinator_key)


async def _locate(
    services: Services, context: RequestContext, coordinators: _Coordinators, key: str
) -> Found:
    """Return the address of a coordinator; if it seems to be down, wait for the next one."""
    node_id, suspects = await coordinators.coordinator_of(key), services.metadata.suspects
    if suspects:
        await suspects.wait_while(lambda brokers: coordinators.known_coordinator_of(key) in brokers)
        node_id = coordinators.known_coordinator_of(key)
        if node_id in suspects.gone():
            node_id = -1
    endpoint = services.endpoint_of(node_id, context.connection) if node_id >= 0 else None
    if endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Found(ErrorCode.NONE, node_id, endpoint.host, endpoint.port)

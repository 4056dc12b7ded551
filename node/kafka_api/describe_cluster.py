"""DescribeCluster: the brokers of the cluster (KIP-700).

Since 2 fenced brokers are included on request. A node that is only a controller returns the controllers
instead (KIP-919), to clients that may alter the cluster.

With tagged fields of Ottla, the response includes the counters of this node, so that any node can show the
throughput of all nodes; and the leader of the metadata quorum, or the time since which this node has no
contact to a leader, so that its data are old.
"""

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import CLUSTER_NAME, AclOperation, ResourceType
from ottla.node.authorization.access import Access
from ottla.node.counters.history import Kind, packed
from ottla.node.counters.node_counts import NodeCounts, read_counts
from ottla.node.kafka_api import authorized_operations
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.leader_hints import advertised_controller
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_cluster import (
    CountedMeter,
    CountedRequests,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    KeptHistory,
)
from ottla.node.wire.request_limits import NAME, SEVERAL, RequestLimits
from ottla.node.work.turns import Steps, one_turn_at_once

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(by_handler=((AclOperation.DESCRIBE, ResourceType.CLUSTER),)),
    limits=RequestLimits(SEVERAL, {"history_name": NAME}),
    changes_nothing=True,
)

BROKERS, CONTROLLERS = 1, 2  # endpoint types
UNKNOWN_LEADER = -2
# The resource that a client must be allowed to describe to read a history, by kind.
_HISTORIES: Final[Mapping[int, ResourceType]] = {
    Kind.NODE: ResourceType.CLUSTER,
    Kind.TOPIC: ResourceType.TOPIC,
    Kind.GROUP: ResourceType.GROUP,
}


def handle(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse | Coroutine[Any, Any, DescribeClusterResponse]:
    if not request.include_counts or not context.access.allows_of_cluster(
        AclOperation.DESCRIBE, log_if_denied=False
    ):
        return _describe(services, context, request, None)
    return one_turn_at_once(_with_counts(services, context, request))


def _with_counts(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> Steps[DescribeClusterResponse]:
    counts: NodeCounts = yield from read_counts(
        services.replica_manager.counters.values(), services.request_counters.by_version.values()
    )
    return _describe(services, context, request, counts)


def _describe(
    services: Services, context: RequestContext, request: DescribeClusterRequest, counts: NodeCounts | None
) -> DescribeClusterResponse:
    image, since_ms = services.metadata.image, services.cut_off_since_ms
    own_type = BROKERS if services.config.is_broker else CONTROLLERS
    problem = _problem_with(request.endpoint_type, own_type)
    if (
        problem is None
        and own_type == CONTROLLERS
        and not context.access.allows_of_cluster(AclOperation.ALTER)
    ):
        problem = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if problem is not None:
        return DescribeClusterResponse(
            error_code=problem.code, error_message=problem.detail, endpoint_type=own_type
        )
    brokers = _brokers(services, context, request) if own_type == BROKERS else _controllers(services)
    reachable = [one.broker_id for one in brokers if not one.is_fenced]
    return DescribeClusterResponse(
        endpoint_type=own_type,
        cluster_id=uuid_to_text(image.cluster_id),
        controller_id=_advertised_controller(services, own_type, reachable),
        brokers=brokers,
        cluster_authorized_operations=(
            authorized_operations.of_cluster(context.access)
            if request.include_cluster_authorized_operations
            else authorized_operations.NOT_REQUESTED
        ),
        meters=[] if counts is None else [_meter(*one) for one in counts.meters.items()],
        requests=[] if counts is None else [_requests(api, counts) for api in counts.requests],
        quorum_leader_id=services.quorum_leader_id if request.include_contact else UNKNOWN_LEADER,
        cut_off_since_ms=-1 if since_ms is None or not request.include_contact else since_ms,
        history=_history(services, context.access, request),
    )


def _advertised_controller(services: Services, own_type: int, reachable: Sequence[int]) -> int:
    leader_id = services.quorum_leader_id
    if own_type == CONTROLLERS and leader_id in reachable:
        return leader_id  # a controller learns this from its own voter
    return advertised_controller(services, reachable)


def _problem_with(requested_type: int, own_type: int) -> KafkaError | None:
    """Return the error of a request for another endpoint type than that of this node, or None."""
    if requested_type == own_type:
        return None
    names = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}
    if requested_type not in names:
        return KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {requested_type}")
    return KafkaError(
        ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        f"The request was sent to an endpoint of type {names[own_type]}, but we wanted an endpoint of type "
        f"{names[requested_type]}",
    )


def _controllers(services: Services) -> list[DescribeClusterBroker]:
    """Return the voters that serve Kafka's protocol on the listener for voters, which brokers do not."""
    image, quorum, own_id = services.metadata.image, services.quorum, services.config.node_id
    found = []
    for voter in image.voters:
        endpoint = quorum.endpoint_of(voter.voter_id)
        for point in list(voter.endpoints.values())[:1]:
            if voter.voter_id == own_id or (endpoint is not None and endpoint.port == point.port):
                found.append(
                    DescribeClusterBroker(broker_id=voter.voter_id, host=point.host, port=point.port)
                )
    return found


def _brokers(
    services: Services, context: RequestContext, request: DescribeClusterRequest
) -> list[DescribeClusterBroker]:
    image, brokers = services.metadata.image, []
    for one in image.brokers.values():
        endpoint = services.endpoint_of(one.broker_id, context.connection)
        if one.fenced and request.include_fenced_brokers:
            endpoint = one.listeners.get(context.connection.listener_name)
        if endpoint is not None and (request.include_fenced_brokers or not one.fenced):
            brokers.append(
                DescribeClusterBroker(
                    broker_id=one.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=one.rack,
                    is_fenced=one.fenced,
                )
            )
    return brokers


def _history(services: Services, access: Access, request: DescribeClusterRequest) -> KeptHistory:
    """Return the requested history; an empty one if the client may not describe the resource."""
    resource_type = _HISTORIES.get(request.history_kind)
    if resource_type is None or not services.history.has_begun:
        return KeptHistory()
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else request.history_name
    if not access.allows(AclOperation.DESCRIBE, resource_type, name, log_if_denied=False):
        return KeptHistory()
    samples = services.history.read(Kind(request.history_kind), request.history_name)
    return KeptHistory(
        end_ms=samples.end_ms,
        interval_ms=samples.interval_ms,
        columns=samples.columns,
        values=packed(samples.values),
    )


def _meter(name: str, count: int) -> CountedMeter:
    return CountedMeter(name=name, count=count)


def _requests(api: str, counts: NodeCounts) -> CountedRequests:
    return CountedRequests(api=api, count=counts.requests[api], latencies=counts.latencies.get(api, ()))

"""DescribeCluster: the brokers of the cluster (KIP-700). Since 2 also those that are fenced, if asked.

Who asks by Ottla's own tags is told what this node has counted: so any node can show what goes through all;
and who leads the metadata quorum, or since when this node has no contact to a leader, so that what it shows
is old.
"""

from collections.abc import Coroutine
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import uuid_to_text
from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.node.counters.node_counts import NodeCounts, read_counts
from ottla.node.kafka_api import authorized_operations
from ottla.node.kafka_api.api_description import ApiDescription, Asks
from ottla.node.kafka_api.leader_hints import controller_to_name
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.services import Services
from ottla.node.wire.messages.describe_cluster import (
    CountedMeter,
    CountedRequests,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.node.wire.request_limits import SEVERAL, RequestLimits
from ottla.node.work.turns import Steps, one_turn_at_once

API: Final = ApiDescription(
    versions=(0, 2),
    asks=Asks(by_handler=((AclOperation.DESCRIBE, ResourceType.CLUSTER),)),
    limits=RequestLimits(SEVERAL),
    changes_nothing=True,
)

BROKERS, CONTROLLERS = 1, 2  # endpoint types
NOT_TOLD = -2


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
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of"
            " type CONTROLLER",
            endpoint_type=BROKERS,
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
            endpoint_type=BROKERS,
        )
    brokers = []
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
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=uuid_to_text(image.cluster_id),
        controller_id=controller_to_name(
            services,
            [one.broker_id for one in brokers if not image.brokers[one.broker_id].fenced],
        ),
        brokers=brokers,
        cluster_authorized_operations=(
            authorized_operations.of_cluster(context.access)
            if request.include_cluster_authorized_operations
            else authorized_operations.NOT_ASKED
        ),
        meters=[] if counts is None else [_meter(*one) for one in counts.meters.items()],
        requests=[] if counts is None else [_requests(api, counts) for api in counts.requests],
        quorum_leader_id=services.quorum_leader_id if request.include_contact else NOT_TOLD,
        cut_off_since_ms=-1 if since_ms is None or not request.include_contact else since_ms,
    )


def _meter(name: str, count: int) -> CountedMeter:
    return CountedMeter(name=name, count=count)


def _requests(api: str, counts: NodeCounts) -> CountedRequests:
    return CountedRequests(api=api, count=counts.requests[api], latencies=counts.latencies.get(api, ()))

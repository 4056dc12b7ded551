"""DescribeCluster: the brokers of the cluster (KIP-700). Since 2 also those that are fenced, if asked."""

from typing import TYPE_CHECKING

from logstore.errors import ErrorCode
from logstore.topic_partition import uuid_to_text
from node.kafka_api.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
from node.kafka_api.leader_hints import controller_to_name
from node.kafka_api.request_context import RequestContext
from node.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from node.broker import Broker

BROKERS, CONTROLLERS = 1, 2  # endpoint types


def handle(
    broker: "Broker", context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    image = broker.metadata.image
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
        endpoint = broker.endpoint_of(one.broker_id, context.connection)
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
            broker,
            [one.broker_id for one in brokers if not image.brokers[one.broker_id].fenced],
        ),
        brokers=brokers,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )

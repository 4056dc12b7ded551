"""The brokers of the cluster, and the replicas on each."""

from collections.abc import Sequence
from typing import Final

from ottla.node.client.cluster_admin import describe_cluster
from ottla.node.client.topic_admin import describe_topics
from ottla.node.rest_api.replicas import REPLICAS, replica_data
from ottla.node.rest_api.resource import (
    RELATED,
    Data,
    collection,
    collection_schema,
    related,
    resource,
    resource_name,
    resource_schema,
    url,
)
from ottla.node.rest_api.rest_error import not_found
from ottla.node.rest_api.route import INT32, STRING, Answer, Response, RestContext, RestRequest, Route
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker

TAG: Final = "Broker (v3)"
PATH: Final = "/v3/clusters/{cluster_id}/brokers"
_BROKER: Final = resource_schema(
    "BrokerData",
    "KafkaBroker",
    {
        "cluster_id": STRING,
        "broker_id": INT32,
        "host": {"type": ["string", "null"]},
        "port": {"type": ["integer", "null"]},
        "rack": {"type": ["string", "null"]},
        "configs": RELATED,
        "partition_replicas": RELATED,
    },
    optional=["host", "port", "rack"],
)
_BROKERS: Final = collection_schema("BrokerDataList", "KafkaBrokerList", _BROKER)


async def alive_brokers(context: RestContext) -> Sequence[DescribeClusterBroker]:
    """Return the brokers that are not fenced, by id, as Java's admin client sees them."""
    described = await describe_cluster(context.client)
    alive = [one for one in described.brokers if not one.is_fenced]
    return sorted(alive, key=lambda one: one.broker_id)


async def broker_or_404(context: RestContext, request: RestRequest) -> DescribeClusterBroker:
    """Return the broker of the path; RestError 404 if there is none."""
    for broker in await alive_brokers(context):
        if broker.broker_id == request.path["broker_id"]:
            return broker
    raise not_found(f"Broker {request.path['broker_id']} cannot be found.")


def _data(context: RestContext, request: RestRequest, broker: DescribeClusterBroker) -> Data:
    cluster_id, broker_id = context.cluster_id, broker.broker_id
    here = url(request.base_url, "clusters", cluster_id, "brokers", broker_id)
    return resource(
        "KafkaBroker",
        here,
        resource_name(kafka=cluster_id, broker=broker_id),
        cluster_id=cluster_id,
        broker_id=broker_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=related(f"{here}/configs"),
        partition_replicas=related(f"{here}/partition-replicas"),
    )


async def list_brokers(context: RestContext, request: RestRequest) -> Answer:
    here = url(request.base_url, "clusters", context.cluster_id, "brokers")
    data = [_data(context, request, broker) for broker in await alive_brokers(context)]
    return Answer(body=collection("KafkaBrokerList", here, data))


async def get_broker(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_data(context, request, await broker_or_404(context, request)))


async def list_partition_replicas(context: RestContext, request: RestRequest) -> Answer:
    broker_id = (await broker_or_404(context, request)).broker_id
    data = [
        replica_data(context, request, topic.name or "", partition, broker_id)
        for topic in await describe_topics(context.client, None)
        for partition in sorted(topic.partitions, key=lambda one: one.partition_index)
        if broker_id in partition.replica_nodes
    ]
    here = url(request.base_url, "clusters", context.cluster_id, "brokers", broker_id, "partition-replicas")
    return Answer(body=collection("KafkaReplicaList", here, data))


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=list_brokers,
        operation_id="listKafkaBrokers",
        summary="List the brokers of the cluster that are not fenced.",
        tag=TAG,
        responses={200: Response(description="The brokers.", schema=_BROKERS)},
    ),
    Route(
        method="GET",
        path=PATH + "/{broker_id}",
        handler=get_broker,
        operation_id="getKafkaBroker",
        summary="One broker.",
        tag=TAG,
        responses={200: Response(description="The broker.", schema=_BROKER)},
    ),
    Route(
        method="GET",
        path=PATH + "/{broker_id}/partition-replicas",
        handler=list_partition_replicas,
        operation_id="listKafkaPartitionReplicasOfBroker",
        summary="List the replicas on a broker.",
        tag=TAG,
        responses={200: Response(description="The replicas.", schema=REPLICAS)},
    ),
)

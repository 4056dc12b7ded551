"""Replicas: the copies of a partition, and their brokers."""

from typing import Final

from ottla.node.client.topic_admin import describe_topics
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
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT32,
    STRING,
    Answer,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.wire.messages.metadata import MetadataResponsePartition

TAG: Final = "Replica (v3)"
PATH: Final = "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/replicas"
_REPLICA: Final = resource_schema(
    "ReplicaData",
    "KafkaReplica",
    {
        "cluster_id": STRING,
        "topic_name": STRING,
        "partition_id": INT32,
        "broker_id": INT32,
        "is_leader": BOOLEAN,
        "is_in_sync": BOOLEAN,
        "broker": RELATED,
    },
)
REPLICAS: Final = collection_schema("ReplicaDataList", "KafkaReplicaList", _REPLICA)


async def partition_or_404(context: RestContext, request: RestRequest) -> MetadataResponsePartition:
    """Return the partition of the path; RestError 404 if there is none."""
    [topic] = await describe_topics(context.client, [request.path["topic_name"]])
    for partition in topic.partitions:
        if partition.partition_index == request.path["partition_id"]:
            return partition
    raise not_found(f"Topic {topic.name} has no partition {request.path['partition_id']}.")


def replica_data(
    context: RestContext,
    request: RestRequest,
    topic: str,
    partition: MetadataResponsePartition,
    broker_id: int,
) -> Data:
    """Return one replica of a partition as a resource."""
    base, cluster_id, partition_id = request.base_url, context.cluster_id, partition.partition_index
    place = ("clusters", cluster_id, "topics", topic, "partitions", partition_id, "replicas", broker_id)
    name = resource_name(kafka=cluster_id, topic=topic, partition=partition_id, replica=broker_id)
    return resource(
        "KafkaReplica",
        url(base, *place),
        name,
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=partition_id,
        broker_id=broker_id,
        is_leader=broker_id == partition.leader_id,
        is_in_sync=broker_id in partition.isr_nodes,
        broker=related(url(base, "clusters", cluster_id, "brokers", broker_id)),
    )


async def list_replicas(context: RestContext, request: RestRequest) -> Answer:
    partition = await partition_or_404(context, request)
    topic, cluster_id = request.path["topic_name"], context.cluster_id
    place = ("clusters", cluster_id, "topics", topic, "partitions", partition.partition_index, "replicas")
    data = [replica_data(context, request, topic, partition, one) for one in partition.replica_nodes]
    return Answer(body=collection("KafkaReplicaList", url(request.base_url, *place), data))


async def get_replica(context: RestContext, request: RestRequest) -> Answer:
    partition = await partition_or_404(context, request)
    topic, broker_id = request.path["topic_name"], request.path["broker_id"]
    if broker_id not in partition.replica_nodes:
        raise not_found(f"Broker {broker_id} has no replica of {topic}-{partition.partition_index}.")
    return Answer(body=replica_data(context, request, topic, partition, broker_id))


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=list_replicas,
        operation_id="listKafkaReplicas",
        summary="List the replicas of a partition.",
        tag=TAG,
        responses={
            200: Response(description="The replicas, with the preferred leader first.", schema=REPLICAS)
        },
    ),
    Route(
        method="GET",
        path=PATH + "/{broker_id}",
        handler=get_replica,
        operation_id="getKafkaReplica",
        summary="One replica of a partition.",
        tag=TAG,
        responses={200: Response(description="The replica.", schema=_REPLICA)},
    ),
)

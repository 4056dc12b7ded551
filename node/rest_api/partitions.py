"""Partitions of a topic, and the first and last offset of each."""

from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.topic_admin import EARLIEST, LATEST, describe_topics, list_offsets
from ottla.node.rest_api.replicas import partition_or_404
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
from ottla.node.rest_api.rest_error import PARTITION_NOT_FOUND, RestError, bad_request
from ottla.node.rest_api.route import (
    INT32,
    INT64,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.wire.messages.metadata import MetadataResponsePartition

TAG: Final = "Partition (v3)"
PATH: Final = "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions"
EARLIEST_AND_LATEST: Final = "earliest_and_latest"
_OWNER: Final = {"cluster_id": STRING, "topic_name": STRING, "partition_id": INT32}
_PARTITION: Final = resource_schema(
    "PartitionData",
    "KafkaPartition",
    {**_OWNER, "leader": RELATED, "replicas": RELATED, "reassignment": RELATED},
    optional=["leader"],
)
_PARTITIONS: Final = collection_schema("PartitionDataList", "KafkaPartitionList", _PARTITION)
_OFFSETS: Final = resource_schema(
    "PartitionWithOffsetsData",
    "KafkaPartitionWithOffsets",
    {**_OWNER, "earliest_offset": INT64, "latest_offset": INT64},
)


def _data(context: RestContext, request: RestRequest, partition: MetadataResponsePartition) -> Data:
    cluster_id, topic, partition_id = (
        context.cluster_id,
        request.path["topic_name"],
        partition.partition_index,
    )
    here = url(request.base_url, "clusters", cluster_id, "topics", topic, "partitions", partition_id)
    name = resource_name(kafka=cluster_id, topic=topic, partition=partition_id)
    owner = {"cluster_id": cluster_id, "topic_name": topic, "partition_id": partition_id}
    data = resource("KafkaPartition", here, name, **owner)
    if partition.leader_id >= 0:
        data["leader"] = related(f"{here}/replicas/{partition.leader_id}")
    data["replicas"] = related(f"{here}/replicas")
    data["reassignment"] = related(f"{here}/reassignment")
    return data


async def list_partitions(context: RestContext, request: RestRequest) -> Answer:
    topic = request.path["topic_name"]
    [described] = await describe_topics(context.client, [topic])
    partitions = sorted(described.partitions, key=lambda one: one.partition_index)
    here = url(request.base_url, "clusters", context.cluster_id, "topics", topic, "partitions")
    data = [_data(context, request, one) for one in partitions]
    return Answer(body=collection("KafkaPartitionList", here, data))


async def get_partition(context: RestContext, request: RestRequest) -> Answer:
    return Answer(body=_data(context, request, await partition_or_404(context, request)))


async def get_partition_offsets(context: RestContext, request: RestRequest) -> Answer:
    offset_type = request.query.get("offset_type", EARLIEST_AND_LATEST)
    if offset_type != EARLIEST_AND_LATEST:
        raise bad_request(f"offset_type:{offset_type[:100]} is invalid")
    cluster_id, topic, partition_id = (
        context.cluster_id,
        request.path["topic_name"],
        request.path["partition_id"],
    )
    [described] = await describe_topics(context.client, [topic])
    if partition_id not in {one.partition_index for one in described.partitions}:
        raise RestError(404, PARTITION_NOT_FOUND, "Partition not found.")
    place = TopicPartition(topic, partition_id)
    first = await list_offsets(context.client, {place: EARLIEST})
    last = await list_offsets(context.client, {place: LATEST})
    owner: dict[str, Any] = {"cluster_id": cluster_id, "topic_name": topic, "partition_id": partition_id}
    here = url(
        request.base_url, "clusters", cluster_id, "topics", topic, "partitions", partition_id, "offset"
    )
    name = resource_name(kafka=cluster_id, topic=topic, partition=partition_id)
    data = resource(
        "KafkaPartitionWithOffsets",
        here,
        f"{name}/offset_type={offset_type}",
        **owner,
        earliest_offset=first[place].offset,
        latest_offset=last[place].offset,
    )
    return Answer(body=data)


ROUTES: Final = (
    Route(
        method="GET",
        path=PATH,
        handler=list_partitions,
        operation_id="listKafkaPartitions",
        summary="List the partitions of a topic.",
        tag=TAG,
        responses={200: Response(description="The partitions.", schema=_PARTITIONS)},
    ),
    Route(
        method="GET",
        path=PATH + "/{partition_id}",
        handler=get_partition,
        operation_id="getKafkaPartition",
        summary="One partition of a topic.",
        tag=TAG,
        responses={200: Response(description="The partition.", schema=_PARTITION)},
    ),
    Route(
        method="GET",
        path=PATH + "/{partition_id}/offset",
        handler=get_partition_offsets,
        operation_id="listKafkaPartitionOffsets",
        summary="The first offset of a partition, and the offset after its last committed record.",
        tag=TAG,
        query=(
            QueryParameter(
                name="offset_type",
                schema={"type": "string", "default": EARLIEST_AND_LATEST},
                description=f"{EARLIEST_AND_LATEST} is the only value.",
            ),
        ),
        responses={200: Response(description="Both offsets.", schema=_OFFSETS)},
    ),
)

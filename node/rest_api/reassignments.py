"""Reassignments under way: partitions with replicas that are being added and removed."""

from collections.abc import Mapping
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_admin import list_moves
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
from ottla.node.rest_api.route import INT32, STRING, Answer, Response, RestContext, RestRequest, Route
from ottla.node.wire.messages.list_partition_reassignments import OngoingPartitionReassignment

TAG: Final = "Partition (v3)"
ALL_PATH: Final = "/v3/clusters/{cluster_id}/topics/-/partitions/-/reassignment"
TOPIC_PATH: Final = "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/-/reassignment"
PATH: Final = "/v3/clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/reassignment"
_BROKERS: Final = {"type": "array", "items": INT32}
_REASSIGNMENT: Final = resource_schema(
    "ReassignmentData",
    "KafkaReassignment",
    {
        "cluster_id": STRING,
        "topic_name": STRING,
        "partition_id": INT32,
        "adding_replicas": _BROKERS,
        "removing_replicas": _BROKERS,
        "replicas": RELATED,
    },
)
_REASSIGNMENTS: Final = collection_schema("ReassignmentDataList", "KafkaReassignmentList", _REASSIGNMENT)


def _data(
    context: RestContext,
    request: RestRequest,
    partition: TopicPartition,
    move: OngoingPartitionReassignment,
) -> Data:
    cluster_id, topic, partition_id = context.cluster_id, partition.topic, partition.partition
    place = url(request.base_url, "clusters", cluster_id, "topics", topic, "partitions", partition_id)
    name = resource_name(kafka=cluster_id, topic=topic, partition=partition_id)
    return resource(
        "KafkaReassignment",
        f"{place}/reassignment",
        f"{name}/reassignment",
        cluster_id=cluster_id,
        topic_name=topic,
        partition_id=partition_id,
        adding_replicas=list(move.adding_replicas),
        removing_replicas=list(move.removing_replicas),
        replicas=related(f"{place}/replicas"),
    )


def _list(
    context: RestContext,
    request: RestRequest,
    topic: str,
    moves: Mapping[TopicPartition, OngoingPartitionReassignment],
) -> Answer:
    data = [_data(context, request, partition, move) for partition, move in sorted(moves.items())]
    here = url(
        request.base_url, "clusters", context.cluster_id, "topics", topic, "partitions", "-", "reassignment"
    )
    return Answer(body=collection("KafkaReassignmentList", here, data))


async def list_reassignments(context: RestContext, request: RestRequest) -> Answer:
    return _list(context, request, "-", await list_moves(context.client))


async def list_reassignments_of_topic(context: RestContext, request: RestRequest) -> Answer:
    topic = request.path["topic_name"]
    await describe_topics(context.client, [topic])  # raises for a topic that does not exist
    moves = await list_moves(context.client)
    return _list(
        context, request, topic, {place: move for place, move in moves.items() if place.topic == topic}
    )


async def get_reassignment(context: RestContext, request: RestRequest) -> Answer:
    place = TopicPartition(request.path["topic_name"], request.path["partition_id"])
    move = (await list_moves(context.client)).get(place)
    if move is None:
        raise not_found(f"No reassignment of {place} is in progress.")
    return Answer(body=_data(context, request, place, move))


ROUTES: Final = (
    Route(
        method="GET",
        path=ALL_PATH,
        handler=list_reassignments,
        operation_id="listKafkaReassignments",
        summary="List all partition reassignments under way.",
        tag=TAG,
        responses={200: Response(description="The reassignments.", schema=_REASSIGNMENTS)},
    ),
    Route(
        method="GET",
        path=TOPIC_PATH,
        handler=list_reassignments_of_topic,
        operation_id="listKafkaReassignmentsOfTopic",
        summary="List the reassignments of a topic that are under way.",
        tag=TAG,
        responses={200: Response(description="The reassignments.", schema=_REASSIGNMENTS)},
    ),
    Route(
        method="GET",
        path=PATH,
        handler=get_reassignment,
        operation_id="getKafkaReassignment",
        summary="The reassignment of a partition, if one is under way.",
        tag=TAG,
        responses={200: Response(description="The reassignment.", schema=_REASSIGNMENT)},
    ),
)

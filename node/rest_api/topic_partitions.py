"""The partitions of a topic in one answer: leaders, replicas, offsets and sizes.

In Confluent's API it takes several requests for each partition, and there are no sizes.
"""

from typing import Any, Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_lag, topic_admin
from ottla.node.client.log_dirs import BrokerLogDirs, describe_log_dirs
from ottla.node.rest_api.route import INT32, INTEGER, NAME, Answer, Response, RestContext, RestRequest, Route
from ottla.node.wire.messages.metadata import MetadataResponsePartition

TAG: Final = "Operations (v1)"
_OR_NULL: Final = {"type": ["integer", "null"]}
_NODES: Final = {"type": "array", "items": INT32}
_NODES_OR_NULL: Final = {"type": ["array", "null"], "items": INT32}
_PARTITION: Final = {
    "type": "object",
    "properties": {
        "partition": INT32,
        "leader": {**_OR_NULL, "description": "null if the partition has no leader."},
        "leader_epoch": INTEGER,
        "replicas": _NODES,
        "isr": _NODES,
        "offline_replicas": _NODES,
        "eligible_leader_replicas": {
            **_NODES_OR_NULL,
            "description": "Replicas out of sync that have all acknowledged records and may lead (KIP-966).",
        },
        "last_known_elr": {
            **_NODES_OR_NULL,
            "description": "The last leader of a partition that has lost all of these and its ISR.",
        },
        "log_start_offset": {**_OR_NULL, "description": "null if the leader did not answer."},
        "log_end_offset": {
            **_OR_NULL,
            "description": "The high watermark; null if the leader did not answer.",
        },
        "size_bytes": {
            **_OR_NULL,
            "description": "The size of the leader's log; null if the leader did not answer.",
        },
    },
    "required": [
        "partition",
        "leader",
        "replicas",
        "isr",
        "eligible_leader_replicas",
        "last_known_elr",
        "log_start_offset",
        "log_end_offset",
        "size_bytes",
    ],
}
_PARTITIONS: Final = {
    "title": "TopicPartitions",
    "type": "object",
    "properties": {
        "topic": NAME,
        "partitions": {"type": "array", "items": _PARTITION},
    },
    "required": ["topic", "partitions"],
}


async def list_topic_partitions(context: RestContext, request: RestRequest) -> Answer:
    name = request.path["topic_name"]
    [topic] = await topic_admin.describe_topics(context.client, [name])
    places = [TopicPartition(name, one.partition_index) for one in topic.partitions if one.leader_id >= 0]
    starts = await group_lag.log_offsets(context.client, places, topic_admin.EARLIEST)
    ends = await group_lag.log_offsets(context.client, places, topic_admin.LATEST)
    eligible = await topic_admin.eligible_replicas(context.client, [name])
    leaders = sorted({one.leader_id for one in topic.partitions if one.leader_id >= 0})
    sizes = replica_sizes(await describe_log_dirs(context.client, broker_ids=leaders, partitions=places))

    def shown(one: MetadataResponsePartition) -> dict[str, Any]:
        place = TopicPartition(name, one.partition_index)
        elr = eligible.get(place)
        return {
            "partition": one.partition_index,
            "leader": one.leader_id if one.leader_id >= 0 else None,
            "leader_epoch": one.leader_epoch,
            "replicas": list(one.replica_nodes),
            "isr": list(one.isr_nodes),
            "offline_replicas": list(one.offline_replicas),
            "eligible_leader_replicas": None if elr is None else list(elr.eligible),
            "last_known_elr": None if elr is None else list(elr.last_known),
            "log_start_offset": starts.get(place),
            "log_end_offset": ends.get(place),
            "size_bytes": sizes.get((one.leader_id, place)),
        }

    partitions = sorted(topic.partitions, key=lambda one: one.partition_index)
    return Answer(body={"topic": name, "partitions": [shown(one) for one in partitions]})


def replica_sizes(brokers: list[BrokerLogDirs]) -> dict[tuple[int, TopicPartition], int]:
    """Return the size of each replica by its broker."""
    return {
        (broker.broker_id, replica.partition): replica.size_bytes
        for broker in brokers
        for log_dir in broker.log_dirs
        for replica in log_dir.replicas
        if not replica.is_future
    }


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/topics/{topic_name}/partitions",
        handler=list_topic_partitions,
        operation_id="listTopicPartitions",
        summary="List the partitions of a topic with their leaders, replicas, offsets and sizes.",
        tag=TAG,
        responses={200: Response(description="All partitions, ordered by number.", schema=_PARTITIONS)},
    ),
)

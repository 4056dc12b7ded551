"""Topics with what a person looks for: size, retention, groups that read them and producers that write them.

In Confluent's API each partition and setting of a topic is a request, and readers and producers are missing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client import group_lag, topic_admin
from ottla.node.client.cluster_admin import may_describe
from ottla.node.client.config_admin import describe_resources
from ottla.node.client.group_admin import ListedGroup, list_groups
from ottla.node.client.group_lag import GroupLag
from ottla.node.client.log_dirs import describe_log_dirs
from ottla.node.client.txn_admin import find_producers
from ottla.node.client.txn_as_json import producers_as_json
from ottla.node.rest_api.operation_words import (
    MAX_LISTED,
    MISSING,
    MISSING_DESCRIPTION,
    NULL_INT64,
    NULL_STRING,
    PARTITION,
    TOPIC,
    listed,
    missing_brokers,
    place,
    record,
)
from ottla.node.rest_api.route import (
    BOOLEAN,
    INT64,
    STRING,
    Answer,
    QueryParameter,
    Response,
    RestContext,
    RestRequest,
    Route,
)
from ottla.node.rest_api.topic_partitions import replica_sizes
from ottla.node.rest_api.transactions import PRODUCER
from ottla.node.wire.messages.metadata import MetadataResponseTopic
from ottla.node.work.turns import listed as in_turns

TAG: Final = "Operations: topics"
# The leaders of all partitions of each are asked for offsets and sizes.
MAX_DETAILED: Final = 1_000
DEFAULT_DETAILED: Final = 100
MAX_PARTITIONS: Final = 20_000  # of those topics together; further topics are listed without details
# All committed offsets of each are returned: ten groups in a request to their coordinator.
MAX_GROUPS: Final = 1_000
DEFAULT_GROUPS: Final = 200
SHOWN_CONFIGS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
_DIGITS: Final = re.compile(r"(\d+)", re.ASCII)

_TOPIC: Final = record(
    {
        "topic": STRING,
        "is_internal": BOOLEAN,
        "partitions": INT64,
        "replicas": INT64,
        "leaderless": INT64,
        "under_replicated": INT64,
        "records": {
            **NULL_INT64,
            "description": "Offsets from the first to the last of each partition; markers and gaps of "
            "compaction count too. null if a leader did not answer, or it was not requested.",
        },
        "written": {
            **NULL_INT64,
            "description": "The sum of the ends of all partitions, which grows with each record; "
            "null like records.",
        },
        "size_bytes": {**NULL_INT64, "description": "The size of the leaders' logs; null like records."},
        "configs": {
            "type": "object",
            "additionalProperties": NULL_STRING,
            "description": f"Of {', '.join(SHOWN_CONFIGS)}, those that are requested and may be seen.",
        },
    },
    title="ListedTopic",
)
_TOPICS: Final = record({"topics": listed(_TOPIC)}, title="ListedTopics")
_GROUP: Final = record(
    {"group_id": STRING, "type": STRING, "state": STRING, "lag": NULL_INT64, "lag_ms": NULL_INT64},
    title="GroupOfTopic",
)
_GROUPS: Final = record(
    {
        "topics": listed(record({"topic": STRING, "groups": listed(_GROUP)}, title="TopicGroups")),
        "groups_left_out": INT64,
        "missing": MISSING,
    },
    title="GroupsByTopic",
)
_PRODUCERS: Final = record(
    {"producers": listed(PRODUCER), "count": INT64, "unavailable": listed(PARTITION)},
    title="ProducersOfTopic",
)


async def list_topics(context: RestContext, request: RestRequest) -> Answer:
    topics = await topic_admin.describe_topics(context.client, None, with_operations=True)
    topics.sort(key=lambda one: natural_sort_key(one.name or ""))
    wanted = request.query.get("search", "").lower()
    found = (one for one in topics if wanted in (one.name or "").lower())
    chosen = within_partitions(islice(found, request.query.get("detailed", DEFAULT_DETAILED)))
    leaders = {
        TopicPartition(one.name or "", part.partition_index): part.leader_id
        for one in chosen
        for part in one.partitions
        if part.leader_id >= 0
    }
    starts = await group_lag.log_offsets(context.client, leaders, topic_admin.EARLIEST)
    ends = await group_lag.log_offsets(context.client, leaders, topic_admin.LATEST)
    sizes = await _sizes(context, leaders)
    lengths = {one: ends[one] - starts[one] for one in leaders if one in starts and one in ends}
    led = {one: sizes[leader, one] for one, leader in leaders.items() if (leader, one) in sizes}
    configs = await _configs(context, chosen)
    detailed = {one.name for one in chosen}

    def shown(topic: MetadataResponseTopic) -> dict[str, object]:
        name = topic.name or ""
        parts = [TopicPartition(name, one.partition_index) for one in topic.partitions]
        is_detailed = name in detailed
        return {
            "topic": name,
            "is_internal": topic.is_internal,
            "partitions": len(parts),
            "replicas": max((len(one.replica_nodes) for one in topic.partitions), default=0),
            "leaderless": sum(one.leader_id < 0 for one in topic.partitions),
            "under_replicated": sum(len(one.isr_nodes) < len(one.replica_nodes) for one in topic.partitions),
            "records": _sum(lengths, parts) if is_detailed else None,
            "written": _sum(ends, parts) if is_detailed else None,
            "size_bytes": _sum(led, parts) if is_detailed else None,
            "configs": configs.get(name, {}),
        }

    return Answer(body={"topics": await in_turns((shown(one) for one in topics), is_large=True)})


def within_partitions(
    topics: Iterable[MetadataResponseTopic], most: int = MAX_PARTITIONS
) -> list[MetadataResponseTopic]:
    """Return the first topics that together have at most this many partitions."""
    chosen: list[MetadataResponseTopic] = []
    for one in topics:
        most -= len(one.partitions)
        if most < 0:
            break
        chosen.append(one)
    return chosen


def natural_sort_key(name: str) -> list[str | int]:
    """Return a sort key that puts topic-2 before topic-10."""
    return [int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))]


def _sum(known: Mapping[TopicPartition, int], parts: Sequence[TopicPartition]) -> int | None:
    """Return the sum over all partitions; None if one is missing, rather than too small a sum."""
    return sum(known[one] for one in parts) if all(one in known for one in parts) else None


async def _sizes(
    context: RestContext, leaders: Mapping[TopicPartition, int]
) -> dict[tuple[int, TopicPartition], int]:
    """Return the size of each replica by its broker.

    If the caller may not see log directories, nothing is asked: each refusal would be a line of the audit
    log.
    """
    if not leaders or not await may_describe(context.client):
        return {}
    brokers = sorted({*leaders.values()})
    return replica_sizes(await describe_log_dirs(context.client, broker_ids=brokers, partitions=[*leaders]))


async def _configs(
    context: RestContext, topics: Sequence[MetadataResponseTopic]
) -> dict[str, dict[str, str | None]]:
    """Return the settings of the topics that the caller may see; refusals would fill the audit log."""
    resources = [
        topic_admin.config_of_topic(one.name)
        for one in topics
        if one.name is not None and topic_admin.shows_configs(one)
    ]
    found = await describe_resources(context.client, resources, may_be_gone=True)
    return {
        resource.name: {one.name: one.value for one in settings if one.name in SHOWN_CONFIGS}
        for resource, settings in found.items()
    }


async def list_topic_groups(context: RestContext, request: RestRequest) -> Answer:
    answers = await list_groups(context.client, states=[], types=[])
    most = request.query.get("detailed", DEFAULT_GROUPS)
    groups = answers.groups[:most]
    lags = await group_lag.by_topic(context.client, groups)
    topics: dict[str, list[object]] = {}
    for one in groups:
        for topic, lag in lags.get(one.group_id, {}).items():
            if request.query.get("topic", topic) == topic:
                topics.setdefault(topic, []).append(_group_as_json(one, lag))
    return Answer(
        body={
            "topics": [
                {"topic": topic, "groups": topics[topic]} for topic in sorted(topics, key=natural_sort_key)
            ],
            "groups_left_out": len(answers.groups) - len(groups),
            "missing": missing_brokers(answers.problems),
        }
    )


def _group_as_json(group: ListedGroup, lag: GroupLag) -> object:
    return {
        "group_id": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "lag": lag.records,
        "lag_ms": lag.age_ms,
    }


async def list_topic_producers(context: RestContext, request: RestRequest) -> Answer:
    name = request.path["topic_name"]
    [topic] = await topic_admin.describe_topics(context.client, [name])
    parts = [TopicPartition(name, one.partition_index) for one in topic.partitions]
    answers = await find_producers(context.client, parts)
    newest = producers_as_json(answers.found)
    newest.sort(key=lambda one: one["last_record_ms"] or 0, reverse=True)
    return Answer(
        body={
            "producers": newest[:MAX_LISTED],
            "count": len(newest),
            "unavailable": [place(one) for one in sorted(answers.problems)],
        }
    )


ROUTES: Final = (
    Route(
        method="GET",
        path="/v1/topics",
        handler=list_topics,
        operation_id="listTopics",
        summary="All topics, topic-2 before topic-10; for the first of them, or those that match the search, "
        "with records, size and retention.",
        tag=TAG,
        query=(
            QueryParameter(
                name="search",
                description="Return details of topics whose name contains this text, ignoring case.",
            ),
            QueryParameter(
                name="detailed",
                schema={"type": "integer", "minimum": 0, "maximum": MAX_DETAILED},
                description=f"Return details of at most this many topics (default {DEFAULT_DETAILED}), "
                f"with at most {MAX_PARTITIONS} partitions together.",
            ),
        ),
        responses={200: Response(description="By name.", schema=_TOPICS)},
    ),
    Route(
        method="GET",
        path="/v1/topic-groups",
        handler=list_topic_groups,
        operation_id="listTopicGroups",
        summary="The groups that read each topic, by their committed offsets, with their lag in it.",
        description="The lag in records is the sum over the topic's partitions; the lag in time is the "
        "largest of them." + MISSING_DESCRIPTION,
        tag=TAG,
        query=(
            QueryParameter(name="topic", schema=TOPIC, description="Return groups of this topic only."),
            QueryParameter(
                name="detailed",
                schema={"type": "integer", "minimum": 1, "maximum": MAX_GROUPS},
                description="Ask at most this many groups for their offsets, ordered by id (default "
                f"{DEFAULT_GROUPS}); `groups_left_out` is the number of others.",
            ),
        ),
        responses={200: Response(description="By topic.", schema=_GROUPS)},
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic_name}/producers",
        handler=list_topic_producers,
        operation_id="listTopicProducers",
        summary="The producers in the state of a topic's logs, most recent first.",
        description="Idempotent and transactional producers, for producer.id.expiration.ms after their "
        f"last record; at most {MAX_LISTED} of `count`. Logs have no state of others. `unavailable` are "
        "partitions whose leader did not answer.",
        tag=TAG,
        responses={200: Response(description="The producers.", schema=_PRODUCERS)},
    ),
)

"""Topics, their settings and their offsets."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.acl import AclOperation
from ottla.node.client.ask_leaders import Answers, ask_leaders
from ottla.node.client.cluster_client import Client, check, only
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.node.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.node.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.node.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.node.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.node.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.node.wire.messages.metadata import MetadataResponseTopic

SEEN_WITHIN_S: Final = 2.0  # metadata reach all running nodes within milliseconds
SEEN_PAUSE_S: Final = 0.005
LATEST: Final = -1
EARLIEST: Final = -2
CLIENT_METRICS: Final = 16
BROKER: Final = 4  # a type of resource; the defaults of all brokers have an empty name
SET, DELETE = 0, 1  # operations of IncrementalAlterConfigs
OPERATIONS_UNKNOWN: Final = -(2**31)  # of the authorized operations
# The source of a setting's value, as DescribeConfigs numbers it.
SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "logger",
    7: "subscription",
    8: "group",
}


class ConfigResource(NamedTuple):
    """A resource with settings: a topic, a group, a broker, or a subscription to client metrics."""

    kind: int
    noun: str  # also the source of settings that were set for this resource
    name: str

    def __str__(self) -> str:
        return f"{self.noun} {self.name}"


def config_of_topic(name: str) -> ConfigResource:
    return ConfigResource(2, "topic", name)


def config_of_group(name: str) -> ConfigResource:
    return ConfigResource(32, "group", name)


def config_of_subscription(name: str) -> ConfigResource:
    return ConfigResource(CLIENT_METRICS, "subscription", name)


class OffsetAndTimestamp(NamedTuple):
    """The result of an offset look-up; offset -1 for none."""

    offset: int
    timestamp: int


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int,
    replicas: int,
    configs: Mapping[str, str | None],
    only_check: bool,
    assignments: Mapping[int, Sequence[int]] | None = None,
) -> CreatableTopicResult:
    """Create a topic (-1: the cluster's default) and return the result.

    `assignments` are the brokers of each partition; then partitions and replicas are both -1.
    """
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )

    async def attempt() -> CreatableTopicResult:
        connection = await client.controller()
        request = CreateTopicsRequest(
            topics=[topic], timeout_ms=client.remaining_ms, validate_only=only_check
        )
        response = await connection.request(request, CreateTopicsResponse, timeout_s=client.remaining_s)
        made = only(response.topics, f"topic {name}")
        check(made.error_code, made.error_message, f"topic {name}")
        return made

    return await client.retry(attempt)


async def delete_topic(client: Client, name: str) -> None:
    async def attempt() -> None:
        connection = await client.controller()
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=client.remaining_ms
        )
        response = await connection.request(request, DeleteTopicsResponse, timeout_s=client.remaining_s)
        deleted = only(response.responses, f"topic {name}")
        check(deleted.error_code, deleted.error_message, f"topic {name}")

    await client.retry(attempt)


async def add_partitions(client: Client, name: str, count: int, *, only_check: bool) -> None:
    """Increase the partitions of a topic to `count`."""
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)

    async def attempt() -> None:
        connection = await client.controller()
        request = CreatePartitionsRequest(
            topics=[topic], timeout_ms=client.remaining_ms, validate_only=only_check
        )
        response = await connection.request(request, CreatePartitionsResponse, timeout_s=client.remaining_s)
        grown = only(response.results, f"topic {name}")
        check(grown.error_code, grown.error_message, f"topic {name}")

    await client.retry(attempt)


async def until_seen(client: Client, name: str, *, is_there: bool) -> None:
    """Wait until the node of this client has applied the creation or deletion of a topic.

    It gives up after SEEN_WITHIN_S: a node that is far behind is not waited for.
    """
    client = client.until(client.deadline.within(SEEN_WITHIN_S))
    pause_s = SEEN_PAUSE_S
    while not client.deadline.is_over:
        [topic] = (await client.refresh([name])).topics
        if (topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) is is_there:
            return
        await asyncio.sleep(pause_s)
        pause_s *= 2


async def describe_topics(
    client: Client, names: Sequence[str] | None, *, with_operations: bool = False
) -> list[MetadataResponseTopic]:
    """Return the metadata of these topics (None: all), sorted by name; a missing topic is an error."""
    response = await client.refresh(names, with_operations=with_operations)
    for topic in response.topics:
        if topic.error_code not in (0, ErrorCode.LEADER_NOT_AVAILABLE):
            check(topic.error_code, None, f"topic {topic.name}")
    return sorted(response.topics, key=lambda topic: topic.name or "")


class EligibleReplicas(NamedTuple):
    """The eligible leader replicas of a partition, and its last leader if all are lost (KIP-966)."""

    eligible: Sequence[int]
    last_known: Sequence[int]


async def eligible_replicas(client: Client, names: Sequence[str]) -> dict[TopicPartition, EligibleReplicas]:
    """Return the eligible leader replicas of these topics; nothing if the server does not return them."""
    connection = await client.any_node()
    if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in connection.versions or not names:
        return {}
    found: dict[TopicPartition, EligibleReplicas] = {}
    topics = [TopicRequest(name=name) for name in sorted(names)]
    cursor: Cursor | None = None
    while True:
        response = await connection.request(
            DescribeTopicPartitionsRequest(topics=topics, cursor=cursor),
            DescribeTopicPartitionsResponse,
            timeout_s=client.remaining_s,
        )
        for topic in response.topics:
            for one in topic.partitions:
                found[TopicPartition(topic.name or "", one.partition_index)] = EligibleReplicas(
                    one.eligible_leader_replicas or (), one.last_known_elr or ()
                )
        if response.next_cursor is None or response.next_cursor == cursor:
            return found
        cursor = response.next_cursor


async def describe_configs(
    client: Client, resource: ConfigResource, *, with_documentation: bool = False
) -> list[DescribeConfigsResourceResult]:
    wanted = DescribeConfigsResource(
        resource_type=resource.kind, resource_name=resource.name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[wanted], include_documentation=with_documentation)
    connection = await client.any_node()
    response = await connection.request(request, DescribeConfigsResponse, timeout_s=client.remaining_s)
    described = only(response.results, str(resource))
    check(described.error_code, described.error_message, str(resource))
    return sorted(described.configs, key=lambda config: config.name)


async def max_batch_bytes(client: Client, name: str, most: int) -> int:
    """Return the maximum size of a batch for a topic: `most`, or less if the topic's limit is lower.

    A client that may not see the settings does not request them, since the denial would be in the audit log.
    """
    try:
        if not await _may_describe_configs(client, name):
            return most
        configs = await describe_configs(client, config_of_topic(name))
    except KafkaError:
        return most
    found = next((one.value for one in configs if one.name == "max.message.bytes"), None)
    return most if found is None or not found.isdigit() else min(most, int(found))


async def _may_describe_configs(client: Client, name: str) -> bool:
    """Return True if this client may see the settings of a topic, or if the server does not say."""
    response = await client.refresh([name], with_operations=True)
    return shows_configs(only(response.topics, f"topic {name}"))


def shows_configs(topic: MetadataResponseTopic) -> bool:
    """Return True if metadata with operations allow the client to see the topic's settings."""
    allowed = topic.topic_authorized_operations
    return allowed == OPERATIONS_UNKNOWN or bool(allowed >> AclOperation.DESCRIBE_CONFIGS & 1)


async def alter_configs(
    client: Client,
    resource: ConfigResource,
    *,
    settings: Mapping[str, str],
    resets: Sequence[str],
    only_check: bool,
) -> None:
    """Set some settings and reset others to their defaults; all or nothing."""
    changes = [AlterableConfig(name=key, config_operation=SET, value=text) for key, text in settings.items()]
    changes += [AlterableConfig(name=key, config_operation=DELETE, value=None) for key in resets]
    wanted = AlterConfigsResource(resource_type=resource.kind, resource_name=resource.name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[wanted], validate_only=only_check)
    # The settings of one broker are validated by that broker, as in Apache Kafka.
    is_of_broker = resource.kind == BROKER and resource.name != ""
    connection = await (client.node(int(resource.name)) if is_of_broker else client.controller())
    response = await connection.request(
        request, IncrementalAlterConfigsResponse, timeout_s=client.remaining_s
    )
    altered = only(response.responses, str(resource))
    check(altered.error_code, altered.error_message, str(resource))


async def list_subscriptions(client: Client) -> list[str]:
    """Return the names of all subscriptions to client metrics."""
    request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS])
    connection = await client.any_node()
    response = await connection.request(request, ListConfigResourcesResponse, timeout_s=client.remaining_s)
    check(response.error_code, None, "subscriptions to client metrics")
    return sorted(one.resource_name for one in response.config_resources)


async def list_offsets(
    client: Client, partitions: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return the offset of each partition at a timestamp in ms, or at LATEST or EARLIEST."""
    return (await find_offsets(client, partitions, isolation_level=isolation_level)).all()


async def find_offsets(
    client: Client, partitions: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> Answers[OffsetAndTimestamp]:
    """Return the offsets as `list_offsets` does, and the errors of partitions that have no answer."""

    async def ask(
        leader: int, mine: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        wanted = {one: partitions[one] for one in mine}
        answers = await list_offsets_of(client, leader, wanted, isolation_level=isolation_level)
        return {one: _offset_of(one, answer) for one, answer in answers.items()}

    return await ask_leaders(client, partitions, ask)


def _offset_of(
    partition: TopicPartition, answer: ListOffsetsPartitionResponse
) -> OffsetAndTimestamp | KafkaError:
    try:
        check(answer.error_code, None, str(partition))
    except KafkaError as error:
        return error
    return OffsetAndTimestamp(answer.offset, answer.timestamp)


async def list_offsets_of(
    client: Client, leader: int, partitions: Mapping[TopicPartition, int], *, isolation_level: int = 0
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    """Return a node's response for these partitions and timestamps; its errors are left to the caller."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for (name, number), timestamp in partitions.items():
        wanted = ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        by_topic.setdefault(name, []).append(wanted)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=wanted) for name, wanted in by_topic.items()],
        timeout_ms=client.remaining_ms,
    )
    connection = await client.node(leader)
    response = await connection.request(request, ListOffsetsResponse, timeout_s=client.remaining_s)
    return {
        TopicPartition(topic.name, answer.partition_index): answer
        for topic in response.topics
        for answer in topic.partitions
    }

"""The log directories of brokers: the space on their disks, and the replicas in them."""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.cluster_admin import describe_cluster
from ottla.node.client.cluster_client import Client, check
from ottla.node.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


class ReplicaSize(NamedTuple):
    """A replica in a directory; `is_future` marks a copy that will replace it in another directory."""

    partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirView(NamedTuple):
    """A directory; its sizes are None if its disk is offline, or if an old server does not return them."""

    path: str
    error: KafkaError | None
    total_bytes: int | None
    usable_bytes: int | None
    replicas: Sequence[ReplicaSize]


class BrokerLogDirs(NamedTuple):
    """The directories of a broker; `error` if it did not answer."""

    broker_id: int
    error: KafkaError | None
    log_dirs: Sequence[LogDirView]


async def describe_log_dirs(
    client: Client,
    *,
    broker_ids: Sequence[int] | None = None,
    partitions: Sequence[TopicPartition] | None = None,
) -> list[BrokerLogDirs]:
    """Return the directories of these brokers (None: all registered), with these partitions (None: all).

    A broker that does not answer has an error instead of directories; the others are returned all the same.
    """
    brokers = (await describe_cluster(client)).brokers
    known = {one.broker_id: one for one in brokers}
    found: list[BrokerLogDirs] = []
    requested = sorted(known if broker_ids is None else set(broker_ids))
    for place, broker_id in enumerate(requested):
        # A broker that does not answer leaves the others their share of the time.
        mine = client.until(client.deadline.share(len(requested) - place))
        try:
            found.append(BrokerLogDirs(broker_id, None, await _describe(mine, broker_id, partitions)))
        except KafkaError as error:
            found.append(BrokerLogDirs(broker_id, error, ()))
    return found


async def _describe(
    client: Client, broker_id: int, partitions: Sequence[TopicPartition] | None
) -> list[LogDirView]:
    topics: dict[str, list[int]] = {}
    for name, number in partitions or ():
        topics.setdefault(name, []).append(number)
    wanted = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics.items()]
    connection = await client.node(broker_id)
    response = await connection.request(
        DescribeLogDirsRequest(topics=None if partitions is None else wanted),
        DescribeLogDirsResponse,
        timeout_s=client.remaining_s,
    )
    check(response.error_code, None, f"the log directories of broker {broker_id}")
    return [_view_of(one) for one in response.results]


def _view_of(result: DescribeLogDirsResult) -> LogDirView:
    error: KafkaError | None = None
    try:
        check(result.error_code, None, f"the log directory {result.log_dir}")
    except KafkaError as problem:
        error = problem
    replicas = [
        ReplicaSize(
            TopicPartition(topic.name, one.partition_index),
            one.partition_size,
            one.offset_lag,
            one.is_future_key,
        )
        for topic in result.topics
        for one in topic.partitions
    ]
    return LogDirView(
        result.log_dir,
        error,
        result.total_bytes if result.total_bytes >= 0 else None,
        result.usable_bytes if result.usable_bytes >= 0 else None,
        sorted(replicas),
    )

"""Commits and fetches the offsets of a group without joining it.

Lag tools then show the progress of a Spark query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.metadata import ATTEMPTS_BEFORE_UNKNOWN, Cluster, CoordinatorType, TopicGone

# From version 10 on topics are named by id; a group stores offsets by name, also of topics that are deleted.
LAST_VERSION_WITH_TOPIC_NAMES: Final = 9
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The next offset to read, with the metadata and leader epoch committed beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    timeout_ms: int | None = None,
) -> None:
    """Commit offsets of a group without members.

    Raises UNKNOWN_MEMBER_ID if the group has members, and TopicGone if its coordinator keeps answering that a
    topic does not exist. `timeout_ms` is the time for all attempts; without it, `default.api.timeout.ms`.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, one in offsets.items():
        topics.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                committed_metadata=one.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=name, partitions=those) for name, those in topics.items()],
    )

    attempts = 0

    def attempt(connection: BrokerConnection) -> None:
        nonlocal attempts
        response: OffsetCommitResponse = connection.request(request, most=LAST_VERSION_WITH_TOPIC_NAMES)
        answers = [
            (topic.name, one.partition_index, one.error_code)
            for topic in response.topics
            for one in topic.partitions
        ]
        unknown = [
            (name, index) for name, index, code in answers if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]
        if unknown:
            attempts += 1  # only attempts with this answer count
            if attempts == ATTEMPTS_BEFORE_UNKNOWN:
                raise TopicGone(*unknown[0])
        for name, index, code in answers:
            check(code, f"committing {name}-{index} of group {group_id}")

    if offsets:
        cluster.retry_with_coordinator(CoordinatorType.GROUP, group_id, attempt, timeout_ms=timeout_ms)


def committed_offsets(
    cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """Return the offsets that the group has committed for these partitions, or for all; others are absent.

    It waits for transactions that are about to commit offsets of these partitions (`require_stable`). As with
    Kafka, a request for all offsets omits partitions whose only offsets belong to an open transaction.
    """
    partitions_by_topic = None if partitions is None else _by_topic(partitions)

    def attempt(connection: BrokerConnection) -> dict[TopicPartition, CommittedOffset]:
        response: OffsetFetchResponse = connection.request(
            _fetch_request(group_id, partitions_by_topic), most=LAST_VERSION_WITH_TOPIC_NAMES
        )
        return _read(response, group_id)

    return (
        {} if partitions == [] else cluster.retry_with_coordinator(CoordinatorType.GROUP, group_id, attempt)
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    partitions_by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        partitions_by_topic.setdefault(partition.topic, []).append(partition.partition)
    return partitions_by_topic


def _fetch_request(
    group_id: str, partitions_by_topic: Mapping[str, Sequence[int]] | None
) -> OffsetFetchRequest:
    # Both shapes at once: the version decides which one is sent.
    old: list[OffsetFetchRequestTopic] | None = None
    new: list[OffsetFetchRequestTopics] | None = None
    if partitions_by_topic is not None:
        topics = partitions_by_topic.items()
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics]
        new = [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=new)
    return OffsetFetchRequest(group_id=group_id, topics=old, groups=[group], require_stable=True)


def _read(response: OffsetFetchResponse, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    check(response.error_code, f"offsets of group {group_id}")
    topics: list[OffsetFetchResponseTopic | OffsetFetchResponseTopics] = [*response.topics]
    for group in response.groups:
        if group.group_id != group_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the answer is about group {group.group_id[:80]}")
        check(group.error_code, f"offsets of group {group_id}")
        topics += group.topics
    found = {}
    for topic in topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            check(one.error_code, f"the offset of {partition} of group {group_id}")
            if one.committed_offset != NO_OFFSET:
                found[partition] = CommittedOffset(
                    offset=one.committed_offset,
                    metadata=one.metadata or "",
                    leader_epoch=one.committed_leader_epoch,
                )
    return found

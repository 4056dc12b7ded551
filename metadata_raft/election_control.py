"""Elects preferred leaders, and leaders uncleanly where allowed, on request or when due.

ElectLeaders is KIP-183 and KIP-460. Due elections are those of `auto.leader.rebalance.enable` and, for
leaderless partitions, of `unclean.leader.election.enable`.
"""

from collections.abc import Iterator
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    ElectionType,
    ElectLeaders,
    ElectLeadersReply,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.metadata_raft.controller_config import MAX_RECORDS_PER_COMMAND, ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.leader_election import LeaderElection
from ottla.metadata_raft.partition_change import change_partition
from ottla.metadata_raft.partition_control import allows_unclean_election, leader_acceptor
from ottla.metadata_raft.records import MetadataRecord, PartitionChangeRecord

MAX_ELECTIONS_AT_ONCE: Final = 1_000  # of those that are due; Kafka's number

_ELECTIONS = {ElectionType.PREFERRED: LeaderElection.PREFERRED, ElectionType.UNCLEAN: LeaderElection.UNCLEAN}


def elect_leaders(image: MetadataImage, command: ElectLeaders) -> Decision:
    """Decide ElectLeaders; INVALID_REQUEST for an unknown type, POLICY_VIOLATION beyond 10,000 elections."""
    try:
        kind = ElectionType(command.election_type)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown election type {command.election_type}"
        ) from None
    records: list[MetadataRecord] = []
    results = []
    if command.topic_partitions is None:
        for topic in image.topics.by_name.values():
            outcomes = [
                _elect(image, topic, topic.name, index, kind, records)
                for index in range(len(topic.partitions))
            ]
            # For a request of all partitions, the reply has only those that needed an election.
            needed = [one for one in outcomes if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
            results.append(ReplicaElectionResult(topic=topic.name, partition_result=needed))
    else:
        seen: set[tuple[str, int]] = set()
        for wanted in command.topic_partitions:
            known = image.topics.by_name.get(wanted.topic)
            outcomes = []
            for index in wanted.partitions:
                if (wanted.topic, index) in seen:
                    outcomes.append(
                        _refused(index, ErrorCode.INVALID_REQUEST, "The partition is named twice.")
                    )
                    continue
                seen.add((wanted.topic, index))
                outcomes.append(_elect(image, known, wanted.topic, index, kind, records))
            results.append(ReplicaElectionResult(topic=wanted.topic, partition_result=outcomes))
    return Decision(records=records, reply=ElectLeadersReply(replica_election_results=results))


def preferred_elections(image: MetadataImage, topic: TopicImage) -> Iterator[PartitionChangeRecord]:
    """Yield elections of the preferred replicas of a topic that could lead and do not."""
    for partition in topic.partitions:
        if partition.leader == partition.replicas[0]:
            continue
        change = _change(image, topic, partition, LeaderElection.PREFERRED)
        if change is not None:
            yield change


def unclean_elections(
    image: MetadataImage, topic: TopicImage, config: ControllerConfig
) -> Iterator[PartitionChangeRecord]:
    """Yield elections of leaders outside the ISR for leaderless partitions, if the topic allows it."""
    leaderless = [partition for partition in topic.partitions if not partition.has_leader]
    if leaderless and allows_unclean_election(image, topic.name, config):
        for partition in leaderless:
            change = _change(image, topic, partition, LeaderElection.UNCLEAN)
            if change is not None:
                yield change


def _elect(
    image: MetadataImage,
    topic: TopicImage | None,
    name: str,
    index: int,
    kind: ElectionType,
    records: list[MetadataRecord],
) -> PartitionResult:
    if topic is None:
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < len(topic.partitions):
        return _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    partition = topic.partitions[index]
    has_preferred_leader = partition.leader == partition.replicas[0]
    if has_preferred_leader if kind is ElectionType.PREFERRED else partition.has_leader:
        return _refused(
            index, ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    change = _change(image, topic, partition, _ELECTIONS[kind])
    if change is None and kind is ElectionType.PREFERRED:
        return _refused(
            index, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        )
    if change is None:
        return _refused(
            index,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "Eligible topic partition leaders are not available.",
        )
    if len(records) >= MAX_RECORDS_PER_COMMAND:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may elect at most {MAX_RECORDS_PER_COMMAND} leaders: send several requests.",
        )
    records.append(change)
    return PartitionResult(partition_id=index)


def _change(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, election: LeaderElection
) -> PartitionChangeRecord | None:
    return change_partition(
        image,
        topic.topic_id,
        partition,
        is_acceptable=leader_acceptor(image, partition),
        election=election,
    )


def _refused(index: int, error: ErrorCode, message: str) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=error, error_message=message)

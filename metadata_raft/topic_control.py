"""Creates and deletes topics, and adds partitions. Each topic of a command succeeds or fails by itself."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, check_topic_name
from ottla.metadata_raft.commands import (
    USE_DEFAULT,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    NamedResult,
    NewPartitions,
    NewTopic,
    NewTopicConfig,
    TopicCreation,
    TopicDeletion,
)
from ottla.metadata_raft.configuration_control import checked_topic_configs
from ottla.metadata_raft.controller_config import MAX_PARTITIONS, MAX_RECORDS_PER_COMMAND, ControllerConfig
from ottla.metadata_raft.decision import Decision
from ottla.metadata_raft.image import METADATA_TOPIC, MetadataImage, TopicImage, normalized_name
from ottla.metadata_raft.leader_spread import LeaderSpread
from ottla.metadata_raft.mutation_charge import MutationCharge, free_of_charge
from ottla.metadata_raft.partition_control import (
    NO_LOADS,
    NewReplicas,
    check_manual_assignment,
    new_partition,
    new_replicas,
)
from ottla.metadata_raft.records import (
    ConfigRecord,
    ConfigResourceType,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.metadata_raft.replica_placement import place_replicas


class _Room(NamedTuple):
    """Numbers of records that a command may still have, and of partitions that the cluster may still get."""

    records: int
    partitions: int

    @classmethod
    def after(cls, image: MetadataImage, *, records_count: int, partitions_count: int) -> "_Room":
        """Return what is left after the records of a command so far, some of which are new partitions."""
        return cls(
            MAX_RECORDS_PER_COMMAND - records_count,
            MAX_PARTITIONS - image.topics.partition_count - partitions_count,
        )

    def check(self, partitions_count: int) -> None:
        """Raise POLICY_VIOLATION if there is no room for so many partitions."""
        if partitions_count > self.records:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"One request may create at most {MAX_RECORDS_PER_COMMAND} partitions, "
                "counting topics and configs: send several requests.",
            )
        if partitions_count > self.partitions:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"The cluster may have {MAX_PARTITIONS} partitions, of which {max(self.partitions, 0)} are "
                f"left: {partitions_count} are too many.",
            )


# ---- create ------------------------------------------------------------------------------------------------


def create_topics(
    image: MetadataImage,
    command: CreateTopics,
    config: ControllerConfig,
    charge: MutationCharge | None = None,
    loads: Mapping[int, int] = NO_LOADS,
) -> Decision:
    """Decide new topics; POLICY_VIOLATION for the whole command if it needs more records than allowed.

    That is also the error if the cluster would have too many partitions. By default no quota is charged.
    Leaders are spread by the `loads` of brokers, in bytes per second.
    """
    charge = charge or free_of_charge()
    spread = LeaderSpread(image, loads)
    times = Counter(topic.name for topic in command.topics)
    records: list[MetadataRecord] = []
    partitions_count = 0
    results: dict[str, TopicCreation] = {}
    for topic in command.topics:
        if topic.name in results:
            continue
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_new_name(image, topic.name)
            configs = checked_topic_configs(topic.configs, config)
            room = _Room.after(
                image, records_count=len(records) + 1 + len(configs), partitions_count=partitions_count
            )
            partitions = _new_partitions_of(image, topic, config, room, spread)
            charge.take(topic.name, len(partitions))
            spread.add(partition.leader for partition in partitions)
            partitions_count += len(partitions)
        except KafkaError as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                raise
            results[topic.name] = TopicCreation(
                name=topic.name, error_code=error.code, error_message=error.detail
            )
            continue
        records.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        records.extend(
            ConfigRecord(
                resource_type=ConfigResourceType.TOPIC, resource_name=topic.name, name=name, value=value
            )
            for name, value in sorted(configs.items())
        )
        records.extend(partitions)
        results[topic.name] = TopicCreation(
            name=topic.name,
            topic_id=topic.topic_id,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=[NewTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
    if command.validate_only:
        records = []
    reply = CreateTopicsReply(topics=list(results.values()), throttle_time_ms=charge.throttle_ms)
    return Decision(records=records, reply=reply)


def _check_new_name(image: MetadataImage, name: str) -> None:
    """Reject a name that a new topic may not have.

    As in Apache Kafka, names within one request are not checked for collisions with each other: a mirror of a
    cluster with both topics creates both.
    """
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        )
    check_topic_name(name)
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    others = image.topics.by_collision_name.get(normalized_name(name) or "")
    if others:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {min(others)}"
        )


def _new_partitions_of(
    image: MetadataImage, topic: NewTopic, config: ControllerConfig, room: _Room, spread: LeaderSpread
) -> list[PartitionRecord]:
    if topic.assignments:
        manual = _manual_assignments(image, topic, room)
        return _partition_records(image, topic.topic_id, 0, manual, is_manual=True)
    count, replication_factor = topic.num_partitions, topic.replication_factor
    if replication_factor != USE_DEFAULT and replication_factor < 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count != USE_DEFAULT and count < 1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    if count == USE_DEFAULT:
        count = config.num_partitions
    if replication_factor == USE_DEFAULT:
        replication_factor = config.default_replication_factor
    room.check(count)
    assignments = place_replicas(
        list(image.brokers.values()),
        first_partition=0,
        count=count,
        replication_factor=replication_factor,
        seed=_seed(topic.topic_id),
        spread=spread,
    )
    return _partition_records(image, topic.topic_id, 0, assignments, is_manual=False)


def _manual_assignments(image: MetadataImage, topic: NewTopic, room: _Room) -> Sequence[Sequence[int]]:
    if topic.replication_factor != USE_DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != USE_DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    room.check(len(topic.assignments))
    by_partition: dict[int, Sequence[int]] = {}
    replication_factor: int | None = None
    for assignment in topic.assignments:
        partition, replicas = assignment.partition_index, assignment.broker_ids
        if partition in by_partition:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        check_manual_assignment(image, replicas, replication_factor)
        replication_factor = len(replicas)
        by_partition[partition] = replicas
    if sorted(by_partition) != list(range(len(by_partition))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [by_partition[index] for index in range(len(by_partition))]


def _partition_records(
    image: MetadataImage,
    topic_id: bytes,
    first: int,
    assignments: Sequence[Sequence[int]],
    *,
    is_manual: bool,
) -> list[PartitionRecord]:
    records = []
    known: dict[tuple[int, ...], NewReplicas | None] = {}  # 10,000 partitions have few different ones
    for partition, replicas in enumerate(assignments, first):
        places = tuple(replicas)
        if places not in known:
            known[places] = new_replicas(image, places)
        placed = known[places]
        if placed is None and is_manual:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition"
                f" {partition} are fenced or in controlled shutdown.",
            )
        if placed is None:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {len(replicas)} time(s): All brokers are currently fenced"
                " or in controlled shutdown.",
            )
        records.append(new_partition(topic_id, partition, placed))
    return records


def _seed(topic_id: bytes) -> int:
    """Return the seed of the placement, from the topic's random id, so that a decision can be repeated."""
    return int.from_bytes(topic_id[:4], "big")


# ---- delete ------------------------------------------------------------------------------------------------


def delete_topics(
    image: MetadataImage,
    command: DeleteTopics,
    config: ControllerConfig,
    charge: MutationCharge | None = None,
) -> Decision:
    """Decide deletions of topics; a topic that is named twice, by name or id or both, is not deleted.

    TOPIC_DELETION_DISABLED without `delete.topic.enable`, POLICY_VIOLATION for more topics than allowed. By
    default no quota is charged.
    """
    charge = charge or free_of_charge()
    if not config.delete_topic_enable:
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    references = [(topic.name, topic.topic_id) for topic in command.topics]
    times = Counter(references)
    found: list[tuple[str | None, TopicImage]] = []
    results: list[TopicDeletion] = []
    for name, topic_id in dict.fromkeys(references):
        try:
            if times[name, topic_id] > 1:
                what = "name" if topic_id == ZERO_UUID else "id"
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")
            found.append((name, _resolve(image, name, topic_id)))
        except KafkaError as error:
            results.append(_deletion(name, topic_id, error.code, error.detail))
    records: list[MetadataRecord] = []
    named = Counter(topic.topic_id for _, topic in found)
    for name, topic in found:
        if named[topic.topic_id] > 1:
            problem = "The provided topic name maps to an ID that was already supplied."
            results.append(_deletion(name, topic.topic_id, ErrorCode.INVALID_REQUEST, problem))
            continue
        try:
            charge.take(topic.topic_id, len(topic.partitions))
        except KafkaError as error:
            results.append(_deletion(topic.name, topic.topic_id, error.code, error.detail))
            continue
        records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        results.append(_deletion(topic.name, topic.topic_id, ErrorCode.NONE, None))
    if len(records) > MAX_RECORDS_PER_COMMAND:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may delete at most {MAX_RECORDS_PER_COMMAND} topics: send several requests.",
        )
    reply = DeleteTopicsReply(topics=results, throttle_time_ms=charge.throttle_ms)
    return Decision(records=records, reply=reply)


def _deletion(name: str | None, topic_id: bytes, error: ErrorCode, message: str | None) -> TopicDeletion:
    return TopicDeletion(name=name, topic_id=topic_id, error_code=error, error_message=message)


def _resolve(image: MetadataImage, name: str | None, topic_id: bytes) -> TopicImage:
    if name is None and topic_id == ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_UUID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if name is not None:
        topic = image.topics.by_name.get(name)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
        return topic
    topic = image.topics.by_id.get(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return topic


# ---- add partitions ----------------------------------------------------------------------------------------


def create_partitions(
    image: MetadataImage,
    command: CreatePartitions,
    charge: MutationCharge | None = None,
    loads: Mapping[int, int] = NO_LOADS,
) -> Decision:
    """Decide new partitions; POLICY_VIOLATION for the whole command if it needs more records than allowed.

    That is also the error if the cluster would have too many partitions. By default no quota is charged.
    Leaders are spread by the `loads` of brokers, in bytes per second.
    """
    charge = charge or free_of_charge()
    spread = LeaderSpread(image, loads)
    times = Counter(topic.name for topic in command.topics)
    records: list[MetadataRecord] = []
    results: dict[str, NamedResult] = {}
    for topic in command.topics:
        if topic.name in results:
            continue
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            room = _Room.after(image, records_count=len(records), partitions_count=len(records))
            grown = _grow(image, topic, room, spread)
            charge.take(topic.name, len(grown))
            spread.add(partition.leader for partition in grown)
            records.extend(grown)
            results[topic.name] = NamedResult(name=topic.name)
        except KafkaError as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                raise
            results[topic.name] = NamedResult(
                name=topic.name, error_code=error.code, error_message=error.detail
            )
    if command.validate_only:
        records = []
    reply = CreatePartitionsReply(topics=list(results.values()), throttle_time_ms=charge.throttle_ms)
    return Decision(records=records, reply=reply)


def _grow(
    image: MetadataImage, topic: NewPartitions, room: _Room, spread: LeaderSpread
) -> list[PartitionRecord]:
    known = image.topics.by_name.get(topic.name)
    if known is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    first = len(known.partitions)
    if topic.count == first:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {first} partition(s).")
    if topic.count < first:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {first} partition(s); {topic.count} would not be an"
            " increase.",
        )
    additional = topic.count - first
    if topic.assignments is not None and len(topic.assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(topic.assignments)}"
            " assignment(s) were specified.",
        )
    room.check(additional)
    replication_factor = len(known.partitions[0].replicas)
    if topic.assignments is not None:
        manual = [assignment.broker_ids for assignment in topic.assignments]
        for replicas in manual:
            check_manual_assignment(image, replicas, replication_factor)
        return _partition_records(image, known.topic_id, first, manual, is_manual=True)
    assignments = place_replicas(
        list(image.brokers.values()),
        first_partition=first,
        count=additional,
        replication_factor=replication_factor,
        seed=_seed(known.topic_id),
        spread=spread,
        of_topic=Counter(partition.leader for partition in known.partitions),
    )
    return _partition_records(image, known.topic_id, first, assignments, is_manual=False)

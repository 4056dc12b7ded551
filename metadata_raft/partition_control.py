"""Decides the first state of partitions, manual assignments, and leaders when a broker starts or fails."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import replace
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.eligible_replicas import min_in_sync_replicas
from ottla.metadata_raft.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.metadata_raft.leader_election import LeaderElection, could_lead
from ottla.metadata_raft.leader_spread import LeaderSpread
from ottla.metadata_raft.partition_change import change_partition, default_directory, is_up
from ottla.metadata_raft.records import LAST_RESERVED_DIRECTORY, PartitionChangeRecord, PartitionRecord

NO_BROKER: Final = -1
NO_LOADS: Final[Mapping[int, int]] = MappingProxyType({})
UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
MAX_REPLICAS: Final = 2**15 - 1  # the largest replication factor that a request can have


class NewReplicas(NamedTuple):
    """The replicas of a new partition, those in sync (the first one leads), and their directories."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[bytes, ...]


def new_replicas(image: MetadataImage, replicas: Sequence[int]) -> NewReplicas | None:
    """Return a new partition's replicas, of which the active ones are in sync; None if none is active."""
    isr = tuple(replica for replica in replicas if image.brokers[replica].is_active)
    if not isr:
        return None
    directories = tuple(default_directory(image.brokers.get(replica)) for replica in replicas)
    return NewReplicas(tuple(replicas), isr, directories)


def new_partition(topic_id: bytes, partition: int, placed: NewReplicas) -> PartitionRecord:
    """Return the record of a new partition on these replicas."""
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=placed.replicas,
        isr=placed.isr,
        leader=placed.isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=placed.directories,
    )


def check_manual_assignment(
    image: MetadataImage, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """Raise INVALID_REPLICA_ASSIGNMENT unless `replicas` are one or more distinct registered brokers.

    There must be as many as `replication_factor`, if it is given.
    """
    problem = None
    unknown = next((replica for replica in sorted(replicas) if replica not in image.brokers), None)
    twice = next((replica for replica in sorted(replicas) if replicas.count(replica) > 1), None)
    if not replicas:
        problem = "has a partition with an empty list of replicas."
    elif unknown is not None:
        problem = f"names broker {unknown}, which is not registered."
    elif twice is not None:
        problem = f"names broker {twice} more than once for a partition."
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = f"has {len(replicas)} replica(s) for one partition and {replication_factor} for another."
    if problem:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {problem}")


def leader_acceptor(
    image: MetadataImage,
    partition: PartitionImage,
    *,
    without: int = NO_BROKER,
    with_broker: int = NO_BROKER,
    absent: Set[int] = frozenset(),
) -> Callable[[int], bool]:
    """Return a function that is true for brokers that may lead: active ones with their replica online.

    `without` is a broker that is about to be fenced, `with_broker` one that is about to be unfenced. A broker
    in `absent` may go on leading, but may not become leader.
    """
    brokers = image.brokers

    def is_acceptable(broker_id: int) -> bool:
        broker = brokers.get(broker_id)
        return (
            broker is not None
            and broker_id != without
            and (broker_id not in absent or broker_id == partition.leader)
            and (broker_id == with_broker or broker.is_active)
            and (broker_id not in partition.replicas or broker.has_online_dir(partition.directory(broker_id)))
        )

    return is_acceptable


def allows_unclean_election(image: MetadataImage, topic: str, config: ControllerConfig) -> bool:
    """Return `unclean.leader.election.enable` of a topic, by default the setting of this broker."""
    text = image.configs.topic(topic).get(UNCLEAN_ELECTION)
    if text is not None:
        return text.strip().lower() == "true"
    return bool(config.broker_values.get(UNCLEAN_ELECTION, False))


def default_election(image: MetadataImage, topic: str, config: ControllerConfig) -> LeaderElection:
    """Return the kind of an election that no command requested: UNCLEAN if a topic allows it, else ONLINE."""
    return LeaderElection.UNCLEAN if allows_unclean_election(image, topic, config) else LeaderElection.ONLINE


def leaders_after_fence(
    image: MetadataImage,
    broker_id: int,
    config: ControllerConfig,
    absent: Set[int] = frozenset(),
    *,
    must_leave: bool = False,
    doubts_last: bool = False,
    loads: Mapping[int, int] = NO_LOADS,
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that remove a failed or stopping broker from every ISR and elect other leaders.

    Leaders are spread evenly among the candidates, by the `loads` of brokers in bytes per second.
    If no other replica in sync is up, or all of them are `absent`, the ISR stays as it is without a new
    leader: all its members have every acknowledged record, so the first one that is heard of again may lead.
    With `doubts_last` this applies also if only one other is not `absent`: it may have just lost its power,
    too. In a topic that allows it, an unclean election may then elect a replica outside the ISR.
    With eligible leader replicas, a broker leaves the ISR also if no other member is up; it becomes eligible
    if fewer than `min.insync.replicas` remain. If others are up but may not lead yet, the ISR stays as it is.
    A broker that `must_leave`, because it was unregistered or may have lost unsynced data, never becomes
    eligible. It stays in an ISR only as its last member, and only without eligible leader replicas.
    """
    # Thousands of partitions have few different states. By state: its change, and the candidates to lead.
    known: dict[tuple[object, ...], tuple[PartitionChangeRecord | None, list[int]]] = {}
    spread = LeaderSpread(image, loads, leaving=broker_id)
    for topic in image.topics.by_name.values():
        of_topic: tuple[LeaderElection, int] | None = None
        for partition in topic.partitions:
            if broker_id not in partition.isr and not (
                must_leave and broker_id in partition.eligible_leader_replicas
            ):
                continue
            if of_topic is None:
                of_topic = _election_and_min_isr(image, topic, config)
            election, min_isr = of_topic
            alike = (election, min_isr, *_state_of(partition))
            if alike not in known:
                change = _leave(
                    image,
                    topic.topic_id,
                    partition,
                    broker_id,
                    election,
                    absent=absent,
                    must_leave=must_leave,
                    doubts_last=doubts_last,
                )
                is_acceptable = leader_acceptor(image, partition, without=broker_id, absent=absent)
                known[alike] = change, _electable(partition, change, is_acceptable)
            change, candidates = known[alike]
            if change is not None:
                leader = spread.choose(candidates) if candidates else change.leader
                yield replace(
                    change, partition_id=partition.partition, topic_id=topic.topic_id, leader=leader
                )


def _election_and_min_isr(
    image: MetadataImage, topic: TopicImage, config: ControllerConfig
) -> tuple[LeaderElection, int]:
    """Return the kind of elections in a topic, and its min.insync.replicas (0 if none can be eligible)."""
    return default_election(image, topic.name, config), min_in_sync_replicas(image, topic.name, MAX_REPLICAS)


def _electable(
    partition: PartitionImage, change: PartitionChangeRecord | None, is_acceptable: Callable[[int], bool]
) -> list[int]:
    """Return the candidates for the new leader of a change; empty if there is no new leader."""
    if change is None or change.leader < 0:
        return []
    is_moving = partition.adding_replicas or partition.removing_replicas
    if is_moving or change.leader not in partition.isr:  # was outside the ISR: eligible, or unclean
        return [change.leader]
    return could_lead(partition.replicas, partition.isr, is_acceptable)


def _state_of(partition: PartitionImage) -> tuple[object, ...]:
    """Return the fields that determine a change of a partition: all but its index and its epochs."""
    return (*partition[1:4], *partition[6:])


def leaders_after_offline_log_dirs(
    image: MetadataImage,
    broker_id: int,
    log_dirs: Set[bytes],
    config: ControllerConfig,
    loads: Mapping[int, int] = NO_LOADS,
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes of `leaders_after_fence` for replicas in failed directories of a live broker."""
    spread = LeaderSpread(image, loads, leaving=broker_id)
    for topic, partition in partitions_of(image, broker_id):
        if broker_id in partition.isr and partition.directory(broker_id) in log_dirs:
            election = default_election(image, topic.name, config)
            change = _leave(image, topic.topic_id, partition, broker_id, election)
            acceptor = leader_acceptor(image, partition, without=broker_id)
            candidates = _electable(partition, change, acceptor)
            if change is not None:
                yield replace(change, leader=spread.choose(candidates)) if candidates else change


def changes_after_directory_assignment(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    broker_id: int,
    directory: bytes,
    config: ControllerConfig,
) -> Iterator[PartitionChangeRecord]:
    """Yield the change that records the log directory of a broker's replica, with a new leader if needed.

    Nothing if the directory is known already, or if the broker has no such replica.
    """
    if broker_id not in partition.replicas or partition.directory(broker_id) == directory:
        return
    directories = tuple(
        directory if replica == broker_id else other
        for replica, other in zip(partition.replicas, partition.directories, strict=True)
    )
    # One record for both, so that a replica that left the ISR is never seen in an online directory.
    assigned = partition._replace(directories=directories)
    election = default_election(image, topic.name, config)
    broker = image.brokers[broker_id]
    if not broker.has_online_dir(directory):
        change = _leave(image, topic.topic_id, assigned, broker_id, election)
    elif _has_lost_log(broker, partition):
        change = _leave(image, topic.topic_id, assigned, broker_id, election, must_leave=True, may_empty=True)
    else:
        change = change_partition(
            image,
            topic.topic_id,
            assigned,
            is_acceptable=leader_acceptor(image, assigned),
            election=election,
        )
    if change is None:
        change = PartitionChangeRecord(partition_id=partition.partition, topic_id=topic.topic_id)
    # The change may have completed a reassignment, and then has the directories of the remaining replicas.
    yield change if change.directories is not None else replace(change, directories=directories)


def _has_lost_log(broker: BrokerImage, partition: PartitionImage) -> bool:
    """Return True if a replica was in a directory that its broker lost, so that its new log is empty.

    It must not lead as a replica in sync: the others would truncate their logs. If there are no other
    replicas, there is nothing to protect.
    """
    directory = partition.directory(broker.broker_id)
    return (
        len(partition.replicas) > 1
        and directory > LAST_RESERVED_DIRECTORY
        and not broker.has_online_dir(directory)
    )


def leaders_after_unfence(
    image: MetadataImage, broker_id: int, config: ControllerConfig, absent: Set[int] = frozenset()
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that elect leaders in a broker's partitions that have none.

    The broker is being unfenced, or its `Session.heard_since_ms` begins with this heartbeat. Other brokers in
    `absent` are not elected: they must be heard of first. In partitions that the broker leads, replicas that
    failed before its heartbeat leave the ISR.
    """
    known: dict[tuple[object, ...], PartitionChangeRecord | None] = {}
    for topic, partition in partitions_of(image, broker_id):
        if partition.leader == broker_id:
            alive = tuple(one for one in partition.isr if one == broker_id or is_up(image, one))
            if len(alive) < len(partition.isr):
                change = change_partition(
                    image,
                    topic.topic_id,
                    partition,
                    is_acceptable=leader_acceptor(image, partition, with_broker=broker_id),
                    isr=alive,
                )
                if change is not None:
                    yield change
        elif not partition.has_leader:
            election, min_isr = _election_and_min_isr(image, topic, config)
            alike = (election, min_isr, *_state_of(partition))
            if alike not in known:
                known[alike] = change_partition(
                    image,
                    topic.topic_id,
                    partition,
                    is_acceptable=leader_acceptor(
                        image, partition, with_broker=broker_id, absent=absent - {broker_id}
                    ),
                    election=election,
                )
            change = known[alike]
            if change is not None:
                yield replace(change, partition_id=partition.partition, topic_id=topic.topic_id)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Return True if a broker leads a partition."""
    return any(
        partition.leader == broker_id
        for topic in image.topics.by_name.values()
        for partition in topic.partitions
    )


def partitions_of(image: MetadataImage, broker_id: int) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """Yield the partitions with a replica on a broker. There is no index: a scan of 100,000 takes 10 ms."""
    for topic in image.topics.by_name.values():
        for partition in topic.partitions:
            if broker_id in partition.replicas:
                yield topic, partition


def _leave(
    image: MetadataImage,
    topic_id: bytes,
    partition: PartitionImage,
    broker_id: int,
    election: LeaderElection,
    *,
    absent: Set[int] = frozenset(),
    must_leave: bool = False,
    may_empty: bool = False,
    doubts_last: bool = False,
) -> PartitionChangeRecord | None:
    """Return the change that takes a broker out of the ISR and elects another leader if needed.

    If too few of the other members certainly live, the ISR stays, without a new leader. None if nothing
    changes.
    """
    eligible = partition.eligible_leader_replicas
    may_lead_later = broker_id in (*eligible, *partition.last_known_elr)
    if broker_id not in partition.isr and not (must_leave and may_lead_later):
        return None
    isr = [replica for replica in partition.isr if replica != broker_id]
    up = [replica for replica in isr if is_up(image, replica)]
    alive = [replica for replica in up if replica not in absent]
    doubted = 1 if doubts_last else 0
    if not must_leave and len(alive) <= doubted and (up or not image.has_eligible_leader_replicas):
        isr = list(partition.isr)
        absent = {*absent, *alive}
    if doubts_last:
        absent = {*absent, *eligible}
    return change_partition(
        image,
        topic_id,
        partition,
        is_acceptable=leader_acceptor(image, partition, without=broker_id, absent=absent),
        election=election,
        isr=isr,
        may_empty_isr=may_empty,
        lost={broker_id} if must_leave else frozenset(),
    )

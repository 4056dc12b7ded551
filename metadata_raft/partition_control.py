"""Partitions: their first state, manual assignments, and leaders when a broker comes up or falls."""

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
MAX_REPLICAS: Final = 2**15 - 1  # as many as a request can ask for


class NewReplicas(NamedTuple):
    """The replicas of a new partition: those in sync, of which the first leads, and where they lie."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    directories: tuple[bytes, ...]


def new_replicas(image: MetadataImage, replicas: Sequence[int]) -> NewReplicas | None:
    """Return what is known of a new partition's replicas: all that are up are in sync; None if none is."""
    isr = tuple(replica for replica in replicas if image.brokers[replica].is_active)
    if not isr:
        return None
    directories = tuple(default_directory(image.brokers.get(replica)) for replica in replicas)
    return NewReplicas(tuple(replicas), isr, directories)


def new_partition(topic_id: bytes, partition: int, placed: NewReplicas) -> PartitionRecord:
    """Return the first state of a partition on these replicas."""
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
    """INVALID_REPLICA_ASSIGNMENT unless `replicas` are distinct registered brokers, as many as elsewhere."""
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
    """Who may lead: active brokers whose replica is in an online directory.

    One that is about to be fenced is left out, one that is about to be unfenced taken in. One that is absent
    may go on leading, but does not begin.
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
    """`unclean.leader.election.enable` of a topic, or of the brokers below it."""
    text = image.configs.topic(topic).get(UNCLEAN_ELECTION)
    if text is not None:
        return text.strip().lower() == "true"
    return bool(config.broker_values.get(UNCLEAN_ELECTION, False))


def online_election(image: MetadataImage, topic: str, config: ControllerConfig) -> LeaderElection:
    """How leaders of a topic are elected when nobody asks for them."""
    return LeaderElection.UNCLEAN if allows_unclean_election(image, topic, config) else LeaderElection.ONLINE


def leaders_after_fence(
    image: MetadataImage,
    broker_id: int,
    config: ControllerConfig,
    absent: Set[int] = frozenset(),
    *,
    for_good: bool = False,
    doubts_last: bool = False,
    loads: Mapping[int, int] = NO_LOADS,
) -> Iterator[PartitionChangeRecord]:
    """Take a broker that falls or shuts down out of every ISR and elect others.

    Leadership stays even among those that could lead, by the `loads` of brokers in bytes a second.
    Where nobody in sync is left that is up, or all the others are `absent`, the ISR stays as it is and nobody
    leads: all of them have every acknowledged record, so whoever is heard again first may lead. With
    `doubts_last` that holds too where one other alone is not `absent`: it may have lost its power just now.
    One that goes `for_good`, or comes back as another process, stays only where it is the last.
    With eligible leader replicas nobody stays in sync who is down: the last ones become eligible, unless they
    go for good.
    """
    # Of thousands few differ: their change, and who could lead.
    known: dict[tuple[object, ...], tuple[PartitionChangeRecord | None, list[int]]] = {}
    spread = LeaderSpread(image, loads, leaving=broker_id)
    for topic in image.topics.by_name.values():
        ways: tuple[LeaderElection, int] | None = None
        for partition in topic.partitions:
            if broker_id not in partition.isr and not (
                for_good and broker_id in partition.eligible_leader_replicas
            ):
                continue
            if ways is None:
                ways = _ways_of(image, topic, config)
            alike = (*ways, *_state_of(partition))
            if alike not in known:
                change = _leave(
                    image,
                    topic.topic_id,
                    partition,
                    broker_id,
                    ways[0],
                    absent=absent,
                    must_leave=for_good,
                    doubts_last=doubts_last,
                )
                is_acceptable = leader_acceptor(image, partition, without=broker_id, absent=absent)
                known[alike] = change, _who_could_lead(partition, change, is_acceptable)
            change, candidates = known[alike]
            if change is not None:
                leader = spread.choose(candidates) if candidates else change.leader
                yield replace(
                    change, partition_id=partition.partition, topic_id=topic.topic_id, leader=leader
                )


def _ways_of(image: MetadataImage, topic: TopicImage, config: ControllerConfig) -> tuple[LeaderElection, int]:
    """Return what the settings of a topic say of its elections: how, and how many must be in sync."""
    return online_election(image, topic.name, config), min_in_sync_replicas(image, topic.name, MAX_REPLICAS)


def _who_could_lead(
    partition: PartitionImage, change: PartitionChangeRecord | None, is_acceptable: Callable[[int], bool]
) -> list[int]:
    """Return the replicas of which any may be the new leader of a change; none where there is no choice."""
    if change is None or change.leader < 0:
        return []
    is_moving = partition.adding_replicas or partition.removing_replicas
    if is_moving or change.leader not in partition.isr:  # elected uncleanly
        return [change.leader]
    return could_lead(partition.replicas, partition.isr, is_acceptable)


def _state_of(partition: PartitionImage) -> tuple[object, ...]:
    """Return all that a change of a partition goes by: not its number, nor how often it has changed."""
    return (*partition[1:4], *partition[6:])


def leaders_after_offline_log_dirs(
    image: MetadataImage,
    broker_id: int,
    log_dirs: Set[bytes],
    config: ControllerConfig,
    loads: Mapping[int, int] = NO_LOADS,
) -> Iterator[PartitionChangeRecord]:
    """Do what `leaders_after_fence` does for the replicas in these directories of a broker that is up."""
    spread = LeaderSpread(image, loads, leaving=broker_id)
    for topic, partition in partitions_of(image, broker_id):
        if broker_id in partition.isr and partition.directory(broker_id) in log_dirs:
            election = online_election(image, topic.name, config)
            change = _leave(image, topic.topic_id, partition, broker_id, election)
            acceptor = leader_acceptor(image, partition, without=broker_id)
            candidates = _who_could_lead(partition, change, acceptor)
            if change is not None:
                yield replace(change, leader=spread.choose(candidates)) if candidates else change


def leaders_after_assignment(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    broker_id: int,
    directory: bytes,
    config: ControllerConfig,
) -> Iterator[PartitionChangeRecord]:
    """A broker says where its replica lies: that alone if it is there already, nothing if it has none."""
    if broker_id not in partition.replicas or partition.directory(broker_id) == directory:
        return
    directories = tuple(
        directory if replica == broker_id else other
        for replica, other in zip(partition.replicas, partition.directories, strict=True)
    )
    # One record for both, so that one that left the ISR is never seen in an online directory.
    assigned = partition._replace(directories=directories)
    election = online_election(image, topic.name, config)
    broker = image.brokers[broker_id]
    if not broker.has_online_dir(directory):
        change = _leave(image, topic.topic_id, assigned, broker_id, election)
    elif _begins_anew(broker, partition):
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
    # The change may have ended a reassignment, and then it names the directories of those that stay.
    yield change if change.directories is not None else replace(change, directories=directories)


def _begins_anew(broker: BrokerImage, partition: PartitionImage) -> bool:
    """Whether a replica lay in a directory that its broker has no more, so that the present one is empty.

    It must not lead as if it were in sync: the others would cut off what they have. Where there are no others
    nothing is left to be saved.
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
    """Elect a broker that comes up, or is heard of for the first time, wherever it may lead and nobody does.

    Nobody who is `absent` begins to lead because of it.
    Where it leads already, those that fell when it was not sure to live leave the ISR.
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
            ways = _ways_of(image, topic, config)
            alike = (*ways, *_state_of(partition))
            if alike not in known:
                known[alike] = change_partition(
                    image,
                    topic.topic_id,
                    partition,
                    is_acceptable=leader_acceptor(
                        image, partition, with_broker=broker_id, absent=absent - {broker_id}
                    ),
                    election=ways[0],
                )
            change = known[alike]
            if change is not None:
                yield replace(change, partition_id=partition.partition, topic_id=topic.topic_id)


def leads_any(image: MetadataImage, broker_id: int) -> bool:
    """Whether a broker leads a partition."""
    return any(
        partition.leader == broker_id
        for topic in image.topics.by_name.values()
        for partition in topic.partitions
    )


def partitions_of(image: MetadataImage, broker_id: int) -> Iterator[tuple[TopicImage, PartitionImage]]:
    """All partitions of which a broker has a replica. Looking at 100,000 costs some 10 ms, so no index."""
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
    eligible = partition.eligible_leader_replicas
    may_lead_later = broker_id in (*eligible, *partition.last_known_elr)
    if broker_id not in partition.isr and not (must_leave and may_lead_later):
        return None
    isr = [replica for replica in partition.isr if replica != broker_id]
    up = [replica for replica in isr if is_up(image, replica)]
    alive = [replica for replica in up if replica not in absent]
    if not must_leave and len(alive) <= doubts_last and (up or not image.has_eligible_leader_replicas):
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

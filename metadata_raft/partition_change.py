"""Builds the record that changes a partition to a target state.

Every change of a partition goes through `change_partition`: it completes a reassignment whose new replicas
are all in sync, elects a leader if the old one cannot stay, and increases the leader epoch if replicas are
removed (as in Apache Kafka's PartitionChangeBuilder; KIP-455, KIP-704). With the feature
`eligible.leader.replicas.version` it also keeps the eligible replicas outside the ISR, and the last leader
(KIP-966).
"""

from collections.abc import Callable, Sequence, Set
from typing import Any, Final, NamedTuple

from ottla.metadata_raft.eligible_replicas import eligible_beside, min_in_sync_replicas
from ottla.metadata_raft.image import BrokerImage, MetadataImage, PartitionImage
from ottla.metadata_raft.leader_election import LeaderElection, elect_leader
from ottla.metadata_raft.records import NO_LEADER, UNASSIGNED_DIRECTORY, PartitionChangeRecord

RECOVERED: Final = 0
RECOVERING: Final = 1  # the leader was elected uncleanly, and has not reported yet that it recovered its log


class Reassignment(NamedTuple):
    """The replicas of a partition; without a reassignment, `adding` and `removing` are empty."""

    replicas: Sequence[int]
    adding: Sequence[int] = ()
    removing: Sequence[int] = ()


def change_partition(
    image: MetadataImage,
    topic_id: bytes,
    partition: PartitionImage,
    *,
    is_acceptable: Callable[[int], bool],
    election: LeaderElection = LeaderElection.ONLINE,
    isr: Sequence[int] | None = None,
    reassignment: Reassignment | None = None,
    leader_recovery_state: int | None = None,
    may_empty_isr: bool = False,
    lost: Set[int] = frozenset(),
) -> PartitionChangeRecord | None:
    """Return the record that changes `partition` to the given state; None if it has that state.

    `is_acceptable` is true for brokers that could lead. An empty `isr` is written only with `may_empty_isr`
    or with the feature of eligible leader replicas. Otherwise the last replica in sync is the only one that
    certainly has every acknowledged record, so it stays in the ISR, and the partition has no leader. Replicas
    in `lost` may lack acknowledged records, so they do not become eligible; with `may_empty_isr` their logs
    are empty, so they are not kept as last known leader either.
    """
    isr = partition.isr if isr is None else tuple(isr)
    target = reassignment or Reassignment(
        partition.replicas, partition.adding_replicas, partition.removing_replicas
    )
    if target.adding or target.removing:
        isr, target = complete_reassignment(isr, target)
    # 0 without the feature of eligible leader replicas.
    min_isr = min_in_sync_replicas(image, image.topics.by_id[topic_id].name, len(target.replicas))
    elected = elect_leader(
        partition,
        replicas=target.replicas,
        isr=isr,
        eligible=eligible_beside(isr, partition, replicas=target.replicas, min_isr=min_isr, lost=lost),
        last_known=partition.last_known_elr if min_isr else (),
        election=election,
        is_acceptable=is_acceptable,
    )
    changes: dict[str, Any] = {}
    if elected.leader != partition.leader or elected.is_unclean:
        changes["leader"] = elected.leader
    if elected.is_unclean:
        isr = (elected.leader,)
        leader_recovery_state = RECOVERING
    elif not isr and elected.leader != NO_LEADER:
        isr = (elected.leader,)  # it was eligible
    elif elected.leader not in (partition.leader, NO_LEADER):
        # Replicas that failed together with the last leader are not in sync with the new one.
        isr = tuple(replica for replica in isr if replica == elected.leader or is_up(image, replica))
    if target.replicas != partition.replicas:
        changes |= _changes_of_replicas(image, partition, target)
    if (isr or may_empty_isr or min_isr) and isr != partition.isr:
        changes["isr"] = isr
    eligible: tuple[int, ...] = ()
    if not elected.is_unclean:
        eligible = eligible_beside(isr, partition, replicas=target.replicas, min_isr=min_isr, lost=lost)
    if eligible != partition.eligible_leader_replicas:
        changes["eligible_leader_replicas"] = eligible
    last_known = _last_known_leader(partition, elected.leader) if min_isr else ()
    if may_empty_isr and not lost.isdisjoint(last_known):
        last_known = ()
    if last_known != partition.last_known_elr:
        changes["last_known_elr"] = last_known
    if tuple(target.adding) != partition.adding_replicas:
        changes["adding_replicas"] = tuple(target.adding)
    if tuple(target.removing) != partition.removing_replicas:
        changes["removing_replicas"] = tuple(target.removing)
    if leader_recovery_state not in (None, partition.leader_recovery_state):
        changes["leader_recovery_state"] = leader_recovery_state
    if not changes:
        return None
    if "replicas" in changes and not set(partition.replicas) <= set(target.replicas):
        # Fetches of a removed replica must not count any more, so a new leader epoch begins.
        changes.setdefault("leader", partition.leader)
    return PartitionChangeRecord(partition_id=partition.partition, topic_id=topic_id, **changes)


def _last_known_leader(partition: PartitionImage, leader: int) -> tuple[int, ...]:
    if leader != NO_LEADER:
        return ()
    return (partition.leader,) if partition.has_leader else partition.last_known_elr


def is_up(image: MetadataImage, broker_id: int) -> bool:
    """Return True if a broker is registered, not fenced and not in controlled shutdown."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


def complete_reassignment(isr: Sequence[int], target: Reassignment) -> tuple[tuple[int, ...], Reassignment]:
    """Return the ISR and the replicas of a reassignment.

    If all its target replicas are in sync, it is complete and the removed ones are left out (KIP-455).
    """
    replicas = tuple(replica for replica in target.replicas if replica not in target.removing)
    remaining = tuple(replica for replica in isr if replica not in target.removing)
    if replicas and remaining and set(replicas) <= set(remaining):
        return remaining, Reassignment(replicas)
    return tuple(isr), target


def default_directory(broker: BrokerImage | None) -> bytes:
    """Return the directory of a new replica: the broker's only one, or unassigned (KIP-858)."""
    if broker is None or len(broker.log_dirs) != 1:
        return UNASSIGNED_DIRECTORY
    return broker.log_dirs[0]


def _changes_of_replicas(
    image: MetadataImage, partition: PartitionImage, target: Reassignment
) -> dict[str, Any]:
    known = dict(zip(partition.replicas, partition.directories, strict=True))
    directories = tuple(
        known[replica] if replica in known else default_directory(image.brokers.get(replica))
        for replica in target.replicas
    )
    changes: dict[str, Any] = {"replicas": tuple(target.replicas)}
    if directories != partition.directories:
        changes["directories"] = directories
    return changes

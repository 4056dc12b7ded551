"""Chooses the leader of a partition among its replicas. Pure.

A leader comes from the ISR, in the order of the replicas, so the preferred one wins if it can; a current
leader that may stay does. If the ISR is empty, the eligible replicas replace it (KIP-966). If there are none
of them either, the last known leader is elected, which probably has most of the records. Any other replica is
elected only in an unclean election, which loses the records that this replica lacks.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.records import NO_LEADER


class LeaderElection(Enum):
    """The kind of an election."""

    PREFERRED = "preferred"  # the first replica if it can lead, else as ONLINE
    ONLINE = "online"  # a replica in the ISR
    UNCLEAN = "unclean"  # any live replica if the ISR has none


class Elected(NamedTuple):
    """The elected leader, or NO_LEADER; `is_unclean` if it may lack acknowledged records."""

    leader: int
    is_unclean: bool = False


def could_lead(
    replicas: Sequence[int], isr: Sequence[int], is_acceptable: Callable[[int], bool]
) -> list[int]:
    """Return the replicas in sync that could lead, most preferred first."""
    return [replica for replica in replicas if replica in isr and is_acceptable(replica)]


def elect_leader(
    partition: PartitionImage,
    *,
    replicas: Sequence[int],
    isr: Sequence[int],
    eligible: Sequence[int],
    last_known: Sequence[int],
    election: LeaderElection,
    is_acceptable: Callable[[int], bool],
) -> Elected:
    """Return the leader of `partition` given its future `replicas`, `isr` and `eligible` replicas.

    `is_acceptable` is true for replicas that are up; `last_known` has the last leader of a leaderless
    partition.
    """
    if not isr:
        isr = eligible
    if election is LeaderElection.PREFERRED and replicas[0] in isr and is_acceptable(replicas[0]):
        return Elected(replicas[0])
    if partition.leader in isr and is_acceptable(partition.leader):
        return Elected(partition.leader)
    if in_sync := could_lead(replicas, isr, is_acceptable):
        return Elected(in_sync[0])
    # Kafka's controllers may have recorded several: then it is unknown which of them led last.
    if not isr and len(last_known) == 1 and last_known[0] in replicas and is_acceptable(last_known[0]):
        return Elected(last_known[0], is_unclean=True)
    if election is LeaderElection.UNCLEAN:
        for replica in replicas:
            if is_acceptable(replica):
                return Elected(replica, is_unclean=True)
    return Elected(NO_LEADER)

"""Who leads a partition: a pure choice among its replicas.

A leader comes from the ISR, in the order of the replicas, so that the preferred one wins where it can; one
that leads and still may stays. Where nobody is in sync, eligible replicas stand in (KIP-966). Where there are
none of these either, the last known leader has the most of what is left. Anybody else is chosen only in an
unclean election, which loses what the others did not have.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.metadata_raft.image import PartitionImage
from ottla.metadata_raft.records import NO_LEADER


class LeaderElection(Enum):
    """What an election may do."""

    PREFERRED = "preferred"  # the first replica if it can lead, else as ONLINE
    ONLINE = "online"  # somebody from the ISR
    UNCLEAN = "unclean"  # if nobody in the ISR lives, anybody who does


class Elected(NamedTuple):
    """The leader, NO_LEADER if nobody can; `is_unclean` if it was not in sync."""

    leader: int
    is_unclean: bool = False


def could_lead(
    replicas: Sequence[int], isr: Sequence[int], is_acceptable: Callable[[int], bool]
) -> list[int]:
    """Return the replicas in sync of which any may lead, the most preferred first."""
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
    """Return the leader of `partition` among its coming `replicas`, `isr` and `eligible` replicas.

    Acceptable are those that are up; `last_known` has the last leader of a partition that has none.
    """
    if not isr:
        isr = eligible
    if election is LeaderElection.PREFERRED and replicas[0] in isr and is_acceptable(replicas[0]):
        return Elected(replicas[0])
    if partition.leader in isr and is_acceptable(partition.leader):
        return Elected(partition.leader)
    if in_sync := could_lead(replicas, isr, is_acceptable):
        return Elected(in_sync[0])
    # Kafka's own controllers may have noted several: then none of them is known to have led last.
    if not isr and len(last_known) == 1 and last_known[0] in replicas and is_acceptable(last_known[0]):
        return Elected(last_known[0], is_unclean=True)
    if election is LeaderElection.UNCLEAN:
        for replica in replicas:
            if is_acceptable(replica):
                return Elected(replica, is_unclean=True)
    return Elected(NO_LEADER)

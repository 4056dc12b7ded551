"""A DeleteRecords request that waits until all live replicas have deleted too, or its time is over.

Only then can no election bring the records back. Each replica reports its log start offset with its fetches.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.delayed_operation import DelayedOperation, Kind


class Deletion(NamedTuple):
    """The result for one partition, and the lowest log start offset among its live replicas.

    The offset is -1 if this node does not lead the partition.
    """

    code: ErrorCode
    low_watermark: int


class DeletablePartition(Protocol):
    """A partition, by the members that a delayed deletion needs."""

    delayed_deletes: "dict[DelayedDelete, None]"

    def low_watermark(self) -> int:
        """Return the offset below which no live replica has records; it is called while `is_leader`."""
        ...

    is_leader: bool


DelayedDelete: TypeAlias = DelayedOperation[DeletablePartition, int, Deletion]


def _result(partition: DeletablePartition, goal: int) -> Deletion | None:
    if not partition.is_leader:
        return Deletion(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    low_watermark = partition.low_watermark()
    return Deletion(ErrorCode.NONE, low_watermark) if low_watermark >= goal else None


def _late(partition: DeletablePartition) -> Deletion:
    low_watermark = partition.low_watermark() if partition.is_leader else -1
    return Deletion(ErrorCode.REQUEST_TIMED_OUT, low_watermark)


# Waits until the low watermark of each partition has reached an offset.
DELETES: Final = Kind[DeletablePartition, int, Deletion](
    waiting=lambda partition: partition.delayed_deletes, result=_result, late=_late, both=max
)

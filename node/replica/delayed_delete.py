"""A DeleteRecords, at rest until all living replicas have deleted too (or its time is over).

Only then is it sure that no election brings the records back: the log start of each replica is what it tells
with its fetches.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.delayed_operation import DelayedOperation, Kind


class Deletion(NamedTuple):
    """How a partition's part of it ended, and where the log starts on all living replicas."""

    code: ErrorCode
    low_watermark: int


class DeletablePartition(Protocol):
    """What a delayed deletion needs of a partition."""

    delayed_deletes: "dict[DelayedDelete, None]"

    def low_watermark(self) -> int:
        """Below it no living replica has anything; NOT_LEADER_OR_FOLLOWER as -1 with `is_leader` false."""
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


# The low watermark of each partition is to come to an offset.
DELETES: Final = Kind[DeletablePartition, int, Deletion](
    waiting=lambda partition: partition.delayed_deletes, result=_result, late=_late, both=max
)

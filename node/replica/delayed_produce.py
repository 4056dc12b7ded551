"""A produce that waits until its records are as safe as it requires, or its time is over.

With acks=all, all in-sync replicas must have them; with acks=1, a flush that `flush.messages` requires must
have ended. Each partition of the request waits separately. A partition that loses its leadership meanwhile
fails alone.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.delayed_operation import DelayedOperation, Kind


class ReplicatedPartition(Protocol):
    """A partition, by the members that a delayed produce needs."""

    delayed_produces: "dict[DelayedProduce, None]"  # in the order of their arrival

    def acknowledgement_of(self, required: "RequiredOffset") -> ErrorCode | None:
        """Return NONE once all before that offset is safe, or a permanent error; None while waiting."""
        ...


class RequiredOffset(NamedTuple):
    """The offset and leader epoch of an append. In another epoch that offset is another record's."""

    required_offset: int  # the offset after its last record
    leader_epoch: int
    needs_all: bool = True  # acks=all: every replica in sync must have it


def later_of(first: RequiredOffset | None, last: RequiredOffset) -> RequiredOffset:
    """Combine two appends of a request to a partition; both must have happened in the first one's epoch."""
    if first is None:
        return last
    return first._replace(required_offset=max(first.required_offset, last.required_offset))


DelayedProduce: TypeAlias = DelayedOperation[ReplicatedPartition, RequiredOffset, ErrorCode]

# Waits until the required offset of each partition is safe; a late one is answered with REQUEST_TIMED_OUT.
PRODUCES: Final = Kind[ReplicatedPartition, RequiredOffset, ErrorCode](
    waiting=lambda partition: partition.delayed_produces,
    result=lambda partition, required: partition.acknowledgement_of(required),
    late=lambda _: ErrorCode.REQUEST_TIMED_OUT,
    both=later_of,
)

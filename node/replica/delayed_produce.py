"""A produce at rest until its records are as safe as it asks for (or its time is over).

With acks=all that is when all in-sync replicas have them; with acks=1 when a flush has ended that
`flush.messages` asks for. Each partition that was appended to waits on its own. One that loses its leadership
meanwhile fails alone.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from ottla.logstore.words.errors import ErrorCode
from ottla.node.replica.delayed_operation import DelayedOperation, Kind


class ReplicatedPartition(Protocol):
    """What a delayed produce needs of a partition."""

    delayed_produces: "dict[DelayedProduce, None]"  # in the order in which they came

    def acknowledgement_of(self, required: "RequiredOffset") -> ErrorCode | None:
        """NONE once what is before that offset is safe, an error that will not go away, None: wait."""
        ...


class RequiredOffset(NamedTuple):
    """Where an append ended, and in which reign: in another one that offset is another record's."""

    required_offset: int  # the one behind its last record
    leader_epoch: int
    needs_all: bool = True  # acks=all: every replica in sync must have it


def later_of(first: RequiredOffset | None, last: RequiredOffset) -> RequiredOffset:
    """Where a request ends that wrote to a partition twice; both must have been in the first one's reign."""
    if first is None:
        return last
    return first._replace(required_offset=max(first.required_offset, last.required_offset))


DelayedProduce: TypeAlias = DelayedOperation[ReplicatedPartition, RequiredOffset, ErrorCode]

# Offsets that are to be safe, by partition; one that is late is answered with REQUEST_TIMED_OUT.
PRODUCES: Final = Kind[ReplicatedPartition, RequiredOffset, ErrorCode](
    waiting=lambda partition: partition.delayed_produces,
    result=lambda partition, required: partition.acknowledgement_of(required),
    late=lambda _: ErrorCode.REQUEST_TIMED_OUT,
    both=later_of,
)

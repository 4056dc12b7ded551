"""DescribeSharePartitions (key 30006, ours): a coordinator asks leaders for in-flight records."""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct


@struct
class DescribeSharePartitionsTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class DescribeSharePartitionsGroup:
    group_id: str = schema.string()
    topics: Sequence[DescribeSharePartitionsTopic] = schema.array(DescribeSharePartitionsTopic)


@message(api_key=30_006, versions=(0, 0), flexible_since=0)
class DescribeSharePartitionsRequest:
    max_ranges: int = schema.int16(default=10)  # of each list of a partition
    groups: Sequence[DescribeSharePartitionsGroup] = schema.array(DescribeSharePartitionsGroup)


@struct
class InFlightRange:
    """Adjacent records in the same state."""

    first_offset: int = schema.int64()
    last_offset: int = schema.int64()
    delivery_count: int = schema.int16()
    state: int = schema.int8()  # as in `share/record_state`
    member_id: str | None = schema.string(nullable_since=0, default=None)
    lock_left_ms: int = schema.int64()


@struct
class InFlightState:
    """The in-flight records of a share-partition, in numbers."""

    start_offset: int = schema.int64()
    end_offset: int = schema.int64()
    acquired: int = schema.int64()
    available: int = schema.int64()
    acknowledged: int = schema.int64()
    archived: int = schema.int64()
    delayed: int = schema.int64()
    backing_off: int = schema.int64()
    delivery_count_limit: int = schema.int32()
    stalled_ms: int = schema.int64()  # the time for which `oldest` has not changed
    # The oldest records that are not done; None while nothing is in flight.
    oldest: InFlightRange | None = schema.struct_(InFlightRange, nullable_since=0, default=None)
    most_delivered: Sequence[InFlightRange] = schema.array(InFlightRange)
    next_locks: Sequence[InFlightRange] = schema.array(InFlightRange)
    letter_failure: int = schema.int16(tag=0)  # the error of the last attempt to write its dead letters
    letter_failure_ms: int = schema.int64(tag=1, default=-1)  # the time since; not sent by earlier versions
    letters_go_on: bool = schema.boolean(tag=2)  # whether further attempts follow, and none was lost so far


@struct
class DescribedSharePartition:
    """A share-partition that this node leads and that members read; others are left out."""

    partition_index: int = schema.int32()
    in_flight: InFlightState = schema.struct_(InFlightState)


@struct
class DescribedShareTopic:
    topic_id: bytes = schema.uuid()
    partitions: Sequence[DescribedSharePartition] = schema.array(DescribedSharePartition)


@struct
class DescribedShareGroup:
    group_id: str = schema.string()
    topics: Sequence[DescribedShareTopic] = schema.array(DescribedShareTopic)


@message(api_key=30_006, versions=(0, 0), flexible_since=0)
class DescribeSharePartitionsResponse:
    error_code: int = schema.int16()
    groups: Sequence[DescribedShareGroup] = schema.array(DescribedShareGroup)

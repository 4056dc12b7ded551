"""DescribeShareGroupOffsets (key 90): the offsets at which share groups start to read (KIP-932).

Tags from 10000 on are Ottla's own, answered only to clients that send one; others skip them.
"""

from collections.abc import Sequence

from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct
from ottla.node.wire.messages.describe_share_partitions import InFlightState


@struct
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = schema.string()
    partitions: Sequence[int] = schema.array(schema.int32)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = schema.string()
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = schema.array(
        DescribeShareGroupOffsetsRequestTopic, nullable_since=0
    )


@message(api_key=90, versions=(0, 1), flexible_since=0)
class DescribeShareGroupOffsetsRequest:
    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = schema.array(
        DescribeShareGroupOffsetsRequestGroup
    )
    include_in_flight: bool = schema.boolean(tag=10_000)


@struct
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = schema.int32()
    start_offset: int = schema.int64()
    leader_epoch: int = schema.int32()
    lag: int = schema.int64(since=1, default=-1)
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)
    # As its leader reports it; None while no member reads the partition, or if the client did not request it.
    in_flight: InFlightState | None = schema.struct_(
        InFlightState, tag=10_000, nullable_since=0, default=None
    )


@struct
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = schema.string()
    topic_id: bytes = schema.uuid()
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = schema.array(
        DescribeShareGroupOffsetsResponsePartition
    )


@struct
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = schema.string()
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = schema.array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = schema.int16()
    error_message: str | None = schema.string(nullable_since=0, default=None)


@message(api_key=90, versions=(0, 1), flexible_since=0)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = schema.int32()
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = schema.array(
        DescribeShareGroupOffsetsResponseGroup
    )

"""The ranges between two offsets of a stream, including partitions that were added between them."""

from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.source.data_loss import LossPolicy, losses_at_beginnings, losses_between, new_partitions
from ottla.pipeline.source.log_ends import beginnings
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.source.source_options import SourceOptions
from ottla.pipeline.source.splits import divide


def plan_micro_batch(
    cluster: Cluster, options: SourceOptions, start: SourceOffsets, end: SourceOffsets, policy: LossPolicy
) -> list[OffsetRange]:
    """Return the splits from `start` to `end`; DataLossError. Partitions not in `start` begin with their log.

    A partition that ends before it begins is left out: its log was cut, and the query continues from `end`.
    """
    policy.report(losses_between(start, end))
    begin = begin_offsets(cluster, start, end, policy)
    ranges = [
        OffsetRange(
            partition=partition,
            topic_id=end.topic_id(partition.topic),
            start=begin.offsets[partition],
            end=end.offsets[partition],
        )
        for partition in sorted(end.offsets)
    ]
    return divide(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )


def begin_offsets(
    cluster: Cluster, start: SourceOffsets, end: SourceOffsets, policy: LossPolicy
) -> SourceOffsets:
    """Return the beginning of each partition of `end`: that of `start`, or the log start.

    Raises TopicGone, and DataLossError if a new partition has lost its first records.
    """
    firsts = beginnings(cluster, new_partitions(start, end))
    policy.report(losses_at_beginnings(firsts, start))
    offsets = {partition: firsts.get(partition, start.offsets.get(partition, 0)) for partition in end.offsets}
    return SourceOffsets(offsets=offsets, topic_ids=end.topic_ids)


def is_before(end: SourceOffsets, start: SourceOffsets) -> bool:
    """Return True if no partition of `end` is beyond `start`."""
    return not new_partitions(start, end) and all(
        offset <= start.offsets[partition] for partition, offset in end.offsets.items()
    )

"""The ranges of a batch, all fixed before its first task: what is written meanwhile is for the next one."""

from logstore.topic_partition import TopicPartition
from pipeline.client.metadata import Cluster
from pipeline.client.offset_range import OffsetRange
from pipeline.source.data_loss import LossPolicy
from pipeline.source.log_ends import edge_offsets, resolve
from pipeline.source.range_limits import AtOffsets, Edge, RangeLimit
from pipeline.source.source_offsets import SourceOffsets
from pipeline.source.source_options import SourceOptions
from pipeline.source.splits import divide
from pipeline.source.subscription import Subscribed, find_subscribed
from pipeline.words import OptionError


def plan_batch(cluster: Cluster, options: SourceOptions, policy: LossPolicy) -> list[OffsetRange]:
    """Splits of what the options name; OptionError, DataLossError for offsets that the logs do not have."""
    subscribed = find_subscribed(cluster, options.subscription)
    subscribed.check()
    start = resolve(cluster, subscribed, options.start, options.start_name, options)
    end = resolve(cluster, subscribed, options.end, options.end_name, options)
    for partition in subscribed.partitions:
        if end.offsets[partition] < start.offsets[partition] and _is_said(options, partition):
            raise OptionError(
                options.end_name,
                f"comes to offset {end.offsets[partition]} of {partition}, before {options.start_name},"
                f" which comes to {start.offsets[partition]}",
            )
    ranges = _within_logs(cluster, subscribed, options, start, end, policy)
    return divide(
        ranges,
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    )


def _is_said(options: SourceOptions, partition: TopicPartition) -> bool:
    """Whether both are the user's: a log that ends before an offset is a loss, no contradiction."""
    return _says(options.start, partition) and _says(options.end, partition)


def _says(limit: RangeLimit, partition: TopicPartition) -> bool:
    if isinstance(limit, AtOffsets):
        return limit.offsets.offsets[partition] >= 0
    return not isinstance(limit, Edge)


def _within_logs(
    cluster: Cluster,
    subscribed: Subscribed,
    options: SourceOptions,
    start: SourceOffsets,
    end: SourceOffsets,
    policy: LossPolicy,
) -> list[OffsetRange]:
    """The ranges, cut to what the logs have. Offsets that come from logs are not asked twice."""
    firsts, lasts = start.offsets, end.offsets
    if isinstance(options.start, AtOffsets) or isinstance(options.end, AtOffsets):
        firsts = edge_offsets(cluster, subscribed, Edge.EARLIEST).offsets
        lasts = edge_offsets(cluster, subscribed, Edge.LATEST).offsets
    losses = []
    ranges = []
    for partition in subscribed.partitions:
        first, last = firsts[partition], max(lasts[partition], firsts[partition])
        begin, until = start.offsets[partition], end.offsets[partition]
        if isinstance(options.start, AtOffsets) and not first <= begin <= last:
            losses.append(f"{partition} has offsets {first} to {last}, and {options.start_name} says {begin}")
        if isinstance(options.end, AtOffsets) and until > last:
            losses.append(f"{partition} has offsets {first} to {last}, and {options.end_name} says {until}")
        begin, until = min(max(begin, first), last), min(until, last)
        topic_id = subscribed.topic_ids[partition.topic]
        ranges.append(OffsetRange(partition=partition, topic_id=topic_id, start=begin, end=max(begin, until)))
    policy.judge(losses)
    return ranges

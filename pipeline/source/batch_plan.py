"""The plan of a batch read: the partition of each task, and its range at the time when the task runs.

Spark plans a frame once and uses the plan for each of its actions, so a plan has no ends: each task asks for
its own when it runs, and partitions that were added since the plan are read as well. Records that `where`
leaves out are not fetched, as far as their offsets are known, and neither are partitions without any others.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.list_offsets import list_offsets
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.offset_range import OffsetRange
from ottla.pipeline.source.data_loss import LossPolicy
from ottla.pipeline.source.integer_ranges import MOST
from ottla.pipeline.source.log_ends import check_names_partitions, edge_offsets, resolve
from ottla.pipeline.source.range_limits import AtOffsets, Edge, RangeLimit, restrict_limit
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.source.source_options import Assigned, SourceOptions, Topics
from ottla.pipeline.source.splits import divide
from ottla.pipeline.source.subscription import Subscribed, find_subscribed
from ottla.pipeline.words import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of one partition. An absent bound is where the options begin or end when the task runs."""

    partition: TopicPartition
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartitions:
    """All partitions of the subscription that were added after the plan."""

    planned: frozenset[TopicPartition]


def plan_batch(
    cluster: Cluster, options: SourceOptions, policy: LossPolicy
) -> list[tuple[Piece | NewPartitions, ...]]:
    """Return the parts that each task reads.

    Raises OptionError, TopicGone, and DataLossError for offsets that the logs lack.
    """
    subscribed = find_subscribed(cluster, options.subscription)
    subscribed.check()
    for limit, name in ((options.start, options.start_name), (options.end, options.end_name)):
        check_names_partitions(limit, subscribed, name)
    wanted = {one for one in subscribed.partitions if options.where.keeps(one)}
    cuts: dict[TopicPartition, list[int]] = {partition: [] for partition in sorted(wanted)}
    for split in divide(
        _wanted_spans(cluster, options, _ranges(cluster, *_narrowed(options, subscribed, wanted), policy)),
        min_partitions=options.min_partitions,
        max_records_per_partition=options.max_records_per_partition,
    ):
        cuts[split.partition].append(split.start)
    tasks: list[tuple[Piece | NewPartitions, ...]] = [
        (Piece(partition=partition, start=start, end=end),)
        for partition, starts in cuts.items()
        for start, end in pairwise([None, *starts[1:], None])
        if options.where.offsets.within(start or 0, MOST if end is None else end)
    ]
    tasks = tasks or [()]  # Given a plan without tasks, Spark makes a task of its own.
    if isinstance(options.subscription, Assigned):
        return tasks
    # The last task looks for new partitions, since a task more would cost each action some milliseconds, and
    # there is mostly nothing new.
    new_partitions = NewPartitions(planned=frozenset(subscribed.partitions))
    *others, last = tasks
    return [*others, (*last, new_partitions)]


def bind(
    cluster: Cluster, options: SourceOptions, part: Piece | NewPartitions, policy: LossPolicy
) -> list[OffsetRange]:
    """Return the ranges of a part as the logs are now; raises the errors of `plan_batch`."""
    match part:
        case NewPartitions(planned=planned):
            subscribed = find_subscribed(cluster, options.subscription)
            subscribed.check()
            wanted = set(subscribed.partitions) - planned
        case Piece(partition=partition):
            # Not by its pattern, for which the cluster would list all of its topics.
            subscribed = find_subscribed(cluster, Assigned(partitions=frozenset([partition])))
            wanted = set(subscribed.partitions)
            if isinstance(options.subscription, Topics):
                replace(subscribed, option="subscribe").check()
            elif isinstance(options.subscription, Assigned):
                subscribed.check()
    wanted = {one for one in wanted if options.where.keeps(one)}
    if not wanted:
        return []
    ranges = _ranges(cluster, *_narrowed(options, subscribed, wanted), policy)
    if isinstance(part, Piece):
        ranges = [_cut(one, part) for one in ranges]
    return [
        replace(one, start=start, end=end)
        for one in _since(cluster, ranges, options.where.earliest_ms)
        for start, end in options.where.offsets.within(one.start, one.end)
    ]


def _narrowed(
    options: SourceOptions, subscribed: Subscribed, wanted: set[TopicPartition]
) -> tuple[SourceOptions, Subscribed]:
    """Return both as if only the wanted partitions were subscribed to."""
    return (
        replace(
            options, start=restrict_limit(options.start, wanted), end=restrict_limit(options.end, wanted)
        ),
        replace(subscribed, partitions=tuple(sorted(wanted))),
    )


def _wanted_spans(cluster: Cluster, options: SourceOptions, ranges: list[OffsetRange]) -> list[OffsetRange]:
    """Return each range from its first wanted offset to its last, so that tasks become of similar size."""
    if options.where.offsets.is_all and options.where.earliest_ms is None:
        return ranges
    if options.min_partitions is None and options.max_records_per_partition is None:
        return ranges  # one task each, whatever their sizes
    spans = []
    for one in _since(cluster, ranges, options.where.earliest_ms):
        if wanted := options.where.offsets.within(one.start, one.end):
            spans.append(replace(one, start=wanted[0][0], end=wanted[-1][1]))
    return spans


def _since(cluster: Cluster, ranges: list[OffsetRange], earliest_ms: int | None) -> list[OffsetRange]:
    """Return the ranges without the offsets before their first records at or after a time.

    The ends of the ranges are older than this request. So if a log has no such record now, none of its
    records in the range is one, whatever is written meanwhile.
    """
    not_empty = [one for one in ranges if one.start < one.end]
    if earliest_ms is None or not not_empty:
        return ranges
    found = list_offsets(cluster, {one.partition: earliest_ms for one in not_empty})
    return [
        replace(one, start=min(max(one.start, found.get(one.partition, one.end)), one.end))
        for one in not_empty
    ]


def _cut(found: OffsetRange, piece: Piece) -> OffsetRange:
    """Return the part of a range that is in the piece. The plan fixed the bounds, so pieces never overlap."""
    start = found.start if piece.start is None else max(found.start, piece.start)
    end = found.end if piece.end is None else min(found.end, piece.end)
    return replace(found, start=start, end=max(start, end))


def _ranges(
    cluster: Cluster, options: SourceOptions, subscribed: Subscribed, policy: LossPolicy
) -> list[OffsetRange]:
    """Return the ranges that the options name in these partitions, within what the logs have now."""
    start = resolve(cluster, subscribed, options.start, options.start_name, options)
    end = resolve(cluster, subscribed, options.end, options.end_name, options)
    for partition in subscribed.partitions:
        if end.offsets[partition] < start.offsets[partition] and _are_both_ends_given(options, partition):
            raise OptionError(
                options.end_name,
                f"ends at offset {end.offsets[partition]} of {partition}, before "
                f"{options.start_name}, which begins at {start.offsets[partition]}",
            )
    return _within_logs(cluster, subscribed, options, start, end, policy)


def _are_both_ends_given(options: SourceOptions, partition: TopicPartition) -> bool:
    """Return True if the user gave both ends: then an end before the start is a contradiction, not a loss."""
    return _is_given(options.start, partition) and _is_given(options.end, partition)


def _is_given(limit: RangeLimit, partition: TopicPartition) -> bool:
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
    """Return the ranges cut to what the logs have.

    Offsets that came from the logs are not asked for again.
    """
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
            losses.append(f"{partition} has offsets {first} to {last}, but {options.start_name} is {begin}")
        if isinstance(options.end, AtOffsets) and until > last:
            losses.append(f"{partition} has offsets {first} to {last}, but {options.end_name} is {until}")
        begin, until = min(max(begin, first), last), min(until, last)
        topic_id = subscribed.topic_ids[partition.topic]
        ranges.append(OffsetRange(partition=partition, topic_id=topic_id, start=begin, end=max(begin, until)))
    policy.report(losses)
    return ranges

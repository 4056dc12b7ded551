"""The steps of a load: from the end of the last one, to the ends given in the options.

Pure except for requests about logs. All ends are decided before the first step, so a load of topics that go
on growing comes to an end.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.lake.manifest import Offsets
from ottla.pipeline.source.admission import rate_limit
from ottla.pipeline.source.data_loss import LossPolicy, is_replaced, losses_between
from ottla.pipeline.source.log_ends import edge_offsets, resolve
from ottla.pipeline.source.range_limits import Edge
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.source.source_options import SourceOptions
from ottla.pipeline.source.subscription import find_subscribed


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The limits of a run, and all that was loaded before it."""

    start: SourceOffsets
    end: SourceOffsets
    progress: SourceOffsets


def plan_load(
    cluster: Cluster, options: SourceOptions, progress: SourceOffsets, policy: LossPolicy
) -> LoadPlan:
    """Return the plan of a run, for what the options name and is not loaded yet; OptionError, DataLossError.

    Records that were loaded are never loaded again, whatever `startingOffsets` says.
    """
    subscribed = find_subscribed(cluster, options.subscription)
    subscribed.check()
    there = SourceOffsets(offsets={}, topic_ids=subscribed.topic_ids)
    loaded = {one: progress.offsets[one] for one in subscribed.partitions if one in progress.offsets}
    latest = edge_offsets(cluster, subscribed, Edge.LATEST)
    policy.report(losses_between(SourceOffsets(offsets=loaded, topic_ids=progress.topic_ids), latest))
    # Nothing is loaded of a topic that was created again.
    known = {one: at for one, at in loaded.items() if not is_replaced(one.topic, progress, there)}
    first = resolve(cluster, subscribed, options.start, options.start_name, options, known=known)
    last = resolve(cluster, subscribed, options.end, options.end_name, options)
    start = {one: known[one] if one in known else first.offsets[one] for one in subscribed.partitions}
    end = {one: max(start[one], last.offsets[one]) for one in subscribed.partitions}
    return LoadPlan(
        start=SourceOffsets(offsets=start, topic_ids=subscribed.topic_ids),
        end=SourceOffsets(offsets=end, topic_ids=subscribed.topic_ids),
        progress=_without_replaced(progress, there),
    )


def steps(plan: LoadPlan, max_offsets: int) -> Iterator[Offsets]:
    """Yield the ranges of each batch: a share of every partition that is not done."""
    at, progress = dict(plan.start.offsets), plan.progress
    while left := {one: end for one, end in plan.end.offsets.items() if end > at[one]}:
        begun = {one: at[one] for one in left}
        limited = rate_limit(begun, left, max_offsets)
        until = {one: end for one, end in limited.items() if end > begun[one]}
        at |= until
        progress = _moved(progress, until, plan.end.topic_ids)
        yield Offsets(
            start=_with_ids({one: begun[one] for one in until}, plan.start.topic_ids),
            end=_with_ids(until, plan.end.topic_ids),
            progress=progress,
        )


def _with_ids(offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, bytes]) -> SourceOffsets:
    """Return offsets with the ids of their topics."""
    topics = {partition.topic for partition in offsets}
    return SourceOffsets(
        offsets=offsets, topic_ids={topic: one for topic, one in topic_ids.items() if topic in topics}
    )


def _moved(
    progress: SourceOffsets, until: Mapping[TopicPartition, int], topic_ids: Mapping[str, bytes]
) -> SourceOffsets:
    read = _with_ids(until, topic_ids)
    return SourceOffsets(
        offsets={**progress.offsets, **read.offsets}, topic_ids={**progress.topic_ids, **read.topic_ids}
    )


def _without_replaced(progress: SourceOffsets, there: SourceOffsets) -> SourceOffsets:
    kept = {
        one: offset for one, offset in progress.offsets.items() if not is_replaced(one.topic, progress, there)
    }
    return _with_ids(kept, progress.topic_ids)

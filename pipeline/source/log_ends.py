"""The offsets at which a source begins and ends: edges of logs, offsets of times, offsets of options."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.pipeline.client.list_offsets import list_offsets
from ottla.pipeline.client.metadata import Cluster, TopicGone
from ottla.pipeline.source.data_loss import losses_between
from ottla.pipeline.source.range_limits import AtOffsets, AtTimestamp, AtTimestamps, Edge, RangeLimit
from ottla.pipeline.source.source_offsets import EARLIEST, LATEST, SourceOffsets
from ottla.pipeline.source.source_options import SourceOptions
from ottla.pipeline.source.subscription import Subscribed, find_subscribed
from ottla.pipeline.words import OptionError

_MARKERS: Final = {Edge.EARLIEST: EARLIEST, Edge.LATEST: LATEST}


def edge_offsets(cluster: Cluster, subscribed: Subscribed, edge: Edge) -> SourceOffsets:
    """Return the first offsets, or the last ones (stable if `isolation.level` says so); TopicGone."""
    wanted = dict.fromkeys(subscribed.partitions, _MARKERS[edge])
    return SourceOffsets(offsets=list_offsets(cluster, wanted), topic_ids=subscribed.topic_ids)


def beginnings(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the first offsets of these partitions; TopicGone."""
    return list_offsets(cluster, dict.fromkeys(partitions, EARLIEST)) if partitions else {}


def ends_after(
    cluster: Cluster, options: SourceOptions, read: SourceOffsets, pause: Callable[[int], None]
) -> tuple[SourceOffsets, list[str]]:
    """Return the ends of the logs now, and the reasons why a query at `read` cannot continue to them.

    An apparent loss is checked again at other nodes, so that there are up to `fetchOffset.numRetries` checks
    in all: a node that was down or cut off has old metadata, which must not stop a query or let it begin
    again. Raises TopicGone if topics disappear during the last check.
    """
    gone: TopicGone | None = None
    ends, losses = read, []
    for attempt in range(options.fetch_offset_retries):
        if attempt:
            cluster.connections.pass_over()
            pause(options.fetch_offset_interval_ms)
        subscribed = find_subscribed(cluster, options.subscription)
        try:
            ends, gone = edge_offsets(cluster, subscribed, Edge.LATEST), None
        except TopicGone as error:  # deleted between the two requests
            gone = error
            continue
        losses = losses_between(read, ends)
        reported = {f"topic {partition.topic}" for partition in read.offsets} | {
            f"partition {partition}" for partition in read.offsets
        }
        losses += [f"{missing} does not exist" for missing in subscribed.missing if missing not in reported]
        if not losses:
            break
    if gone is not None:
        raise gone
    # A pattern may match no topic for a while. A checkpoint without partitions would forget how far each was
    # read, and the query would read all of them again (SPARK-41375).
    return (ends if ends.offsets else read), losses


def resolve(
    cluster: Cluster,
    subscribed: Subscribed,
    limit: RangeLimit,
    name: str,
    options: SourceOptions,
    *,
    known: Collection[TopicPartition] = (),
) -> SourceOffsets:
    """Return the offsets that option `name` means; OptionError if it does not fit the partitions, TopicGone.

    If the option gives times, none is looked up for `known` partitions, and the result lacks them: they may
    have no record so late any more.
    """
    match limit:
        case Edge():
            return edge_offsets(cluster, subscribed, limit)
        case AtOffsets(offsets=given):
            check_names_partitions(limit, subscribed, name)
            _check_ids(options.as_known(given), subscribed, name)
            return _resolve_markers(cluster, _with_edges(limit, subscribed), subscribed)
        case AtTimestamp(timestamp_ms=timestamp_ms):
            moments: Mapping[TopicPartition, int] = dict.fromkeys(subscribed.partitions, timestamp_ms)
        case AtTimestamps(timestamps_ms=moments):
            check_names_partitions(limit, subscribed, name)
    moments = {partition: moment for partition, moment in moments.items() if partition not in known}
    found = list_offsets(cluster, moments)
    for partition, moment in moments.items():
        if partition not in found:
            if name.startswith("starting") and not options.latest_if_no_match:
                raise OptionError(
                    name,
                    f"{partition} has no record at or after {moment}; with "
                    "startingOffsetsByTimestampStrategy=latest the query begins at "
                    "its end",
                )
            found[partition] = LATEST
    return _resolve_markers(cluster, found, subscribed)


def check_names_partitions(limit: RangeLimit, subscribed: Subscribed, name: str) -> None:
    """Reject a limit that names other partitions than exactly those that are read; OptionError."""
    match limit:
        case AtOffsets(edges=edges):
            topics = {one.topic for one in subscribed.partitions}
            if unread := sorted(edges.keys() - topics):
                raise OptionError(name, f"names topic {unread[0]}, which this query does not read")
            _check_partitions(_with_edges(limit, subscribed), subscribed, name)
        case AtTimestamps(timestamps_ms=moments):
            _check_partitions(moments, subscribed, name)
        case Edge() | AtTimestamp():
            pass


def _with_edges(limit: AtOffsets, subscribed: Subscribed) -> dict[TopicPartition, int]:
    """Return the offset of each partition, also if the limit names its topic as a whole."""
    edges = limit.edges
    of_edges = {one: edges[one.topic] for one in subscribed.partitions if one.topic in edges}
    return {**limit.offsets.offsets, **of_edges}


def _resolve_markers(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], subscribed: Subscribed
) -> SourceOffsets:
    markers = {partition: offset for partition, offset in offsets.items() if offset < 0}
    resolved = {**offsets, **(list_offsets(cluster, markers) if markers else {})}
    return SourceOffsets(offsets=resolved, topic_ids=subscribed.topic_ids)


def _check_partitions(given: Mapping[TopicPartition, int], subscribed: Subscribed, name: str) -> None:
    if unnamed := sorted(set(subscribed.partitions) - given.keys()):
        raise OptionError(
            name,
            f"does not name {unnamed[0]}; name all partitions, with -1 for latest and -2 for earliest",
        )
    if unknown := sorted(given.keys() - set(subscribed.partitions)):
        raise OptionError(name, f"names {unknown[0]}, which this query does not read")


def _check_ids(given: SourceOffsets, subscribed: Subscribed, name: str) -> None:
    for topic, topic_id in given.topic_ids.items():
        if (
            ZERO_UUID not in (topic_id, found := subscribed.topic_ids.get(topic, ZERO_UUID))
            and topic_id != found
        ):
            raise OptionError(name, f"is of a topic {topic} that was deleted and created again")

"""Which offsets to commit for a group in the target, from what it has committed in the source."""

from collections.abc import Mapping

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.mirror.offset_map import OffsetMap

Offsets = Mapping[TopicPartition, CommittedOffset]


def plan_commits(
    in_source: Offsets,
    in_target: Offsets,
    forward: OffsetMap,
    *,
    backward: OffsetMap | None,
    log_starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, CommittedOffset]:
    """What to commit, all by the target's names of partitions; only what goes forward there.

    `log_starts` has the partitions that the target has. Where nothing is known an offset becomes the log's
    start: nothing is left out, and a group without an offset might begin at the end. `backward` is the map of
    a mirror that goes the other way into the same topics: then rows of the target's own lie between, and the
    group has those alone that had come back to the source.
    """
    found: dict[TopicPartition, CommittedOffset] = {}
    for partition, committed in in_source.items():
        log_start = log_starts.get(partition)
        if log_start is None:
            continue
        offset = forward.translate(partition, committed.offset)
        if offset is not None and backward is not None:
            offset = min(offset, backward.translate_back(partition, committed.offset))
        # An offset below the log's start would be reset by each consumer as it pleases.
        offset = max(offset or 0, log_start)
        there = in_target.get(partition)
        if there is None or there.offset < offset:
            found[partition] = CommittedOffset(offset=offset, metadata=committed.metadata)
    return found

"""The offsets to commit for a group in the target, from those that it has committed in the source."""

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
    """Return the offsets to commit, by the target's names of partitions; only those that move forward.

    `log_starts` has the partitions that exist in the target. An offset without a known translation becomes
    the log start, so that no row is left out, while a group without an offset might begin at the end.
    `backward` is the map of a mirror in the other direction between the same topics: then rows of the
    target's own lie in between, and the group has read only those of them that had been copied to the source.
    """
    found: dict[TopicPartition, CommittedOffset] = {}
    for partition, committed in in_source.items():
        log_start = log_starts.get(partition)
        if log_start is None:
            continue
        offset = forward.translate(partition, committed.offset)
        if offset is not None and backward is not None:
            offset = min(offset, backward.translate_back(partition, committed.offset))
        # Each consumer would reset an offset below the log start in its own way.
        offset = max(offset or 0, log_start)
        there = in_target.get(partition)
        if there is None or there.offset < offset:
            found[partition] = CommittedOffset(offset=offset, metadata=committed.metadata)
    return found

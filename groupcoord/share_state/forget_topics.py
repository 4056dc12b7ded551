"""Removes states of deleted topics by tombstones, a slice at a time."""

from collections.abc import Iterable, Iterator
from itertools import islice

from ottla.groupcoord.share_state.share_state_commands import ForgetMore
from ottla.groupcoord.share_state.share_state_config import BATCH_OVERHEAD_BYTES, SLICE_STATES
from ottla.groupcoord.share_state.share_state_effects import Append, Effect, StartTimer, TimerKey
from ottla.groupcoord.share_state.share_state_records import SnapshotRecord, record_size_bytes
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey

FORGET_KEY = TimerKey("forget")


def forget_topics(shard: ShareStateShard, topic_ids: Iterable[bytes]) -> list[Effect]:
    """Remove a slice of the states of these topics and of those that earlier calls have left.

    A timer brings the next slice.
    """
    # A topic may have lost its last state in another way.
    wanted = [*shard.forgotten, *sorted(topic_ids)]
    shard.forgotten = {topic_id: None for topic_id in wanted if topic_id in shard.by_topic}
    tombstones: list[SnapshotRecord] = []
    room_bytes = shard.config.max_batch_bytes - BATCH_OVERHEAD_BYTES
    for key in islice(_forgotten(shard), SLICE_STATES):
        room_bytes -= record_size_bytes(key, 0)
        if tombstones and room_bytes < 0:
            break  # all of a slice is one batch of the log
        tombstones.append(SnapshotRecord(key, None))
    if len(tombstones) == sum(len(shard.by_topic[topic_id]) for topic_id in shard.forgotten):
        shard.forgotten.clear()
    effects: list[Effect] = [Append(tombstones)] if tombstones else []
    if shard.forgotten:
        effects.append(StartTimer(FORGET_KEY, 0, ForgetMore()))
    return effects


def _forgotten(shard: ShareStateShard) -> Iterator[SharePartitionKey]:
    for topic_id in shard.forgotten:
        yield from shard.by_topic[topic_id]


def topics_gone(shard: ShareStateShard) -> frozenset[bytes]:
    """Return the topics that have states here but no longer exist."""
    return frozenset(topic_id for topic_id in shard.by_topic if not shard.partitions_of(topic_id))

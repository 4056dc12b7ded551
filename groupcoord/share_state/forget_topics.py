"""States of topics that were deleted are removed by tombstones, a slice at a time."""

from collections.abc import Iterable
from itertools import islice

from ottla.groupcoord.share_state.share_state_commands import ForgetMore
from ottla.groupcoord.share_state.share_state_config import SLICE_STATES
from ottla.groupcoord.share_state.share_state_effects import Append, Effect, StartTimer, TimerKey
from ottla.groupcoord.share_state.share_state_records import SnapshotRecord
from ottla.groupcoord.share_state.share_state_shard import Shard

FORGET_KEY = TimerKey("forget")


def forget_topics(shard: Shard, topic_ids: Iterable[bytes]) -> list[Effect]:
    """Remove the states of these topics, and of those of which some are left."""
    for topic_id in sorted(topic_ids):
        if topic_id in shard.by_topic:
            shard.forgotten[topic_id] = None
    tombstones: list[SnapshotRecord] = []
    while shard.forgotten and len(tombstones) < SLICE_STATES:
        topic_id = next(iter(shard.forgotten))
        keys = shard.by_topic.get(topic_id, {})
        room = SLICE_STATES - len(tombstones)
        tombstones += [SnapshotRecord(key, None) for key in islice(keys, room)]
        if len(keys) <= room:
            del shard.forgotten[topic_id]
    effects: list[Effect] = [Append(tombstones)] if tombstones else []
    if shard.forgotten:
        effects.append(StartTimer(FORGET_KEY, 0, ForgetMore()))
    return effects


def topics_gone(shard: Shard) -> frozenset[bytes]:
    """Return the topics of which there are states, and which are gone."""
    return frozenset(topic_id for topic_id in shard.by_topic if not shard.partitions_of(topic_id))

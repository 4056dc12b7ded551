"""Fills a shard from a scanned log, in any thread: no other code sees the shard yet."""

from collections.abc import Callable

from ottla.groupcoord.log_scan import PAUSE_RECORDS
from ottla.groupcoord.offsets.offset_commands import StaleOffset
from ottla.groupcoord.offsets.offset_log_scan import ScannedLog
from ottla.groupcoord.offsets.offset_values import topic_id_in
from ottla.groupcoord.record_codec import decode_record
from ottla.groupcoord.shard import GroupShard
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema import ZERO_UUID


def load_shard(
    scanned: ScannedLog, shard: GroupShard, *, pause: Callable[[], None] = lambda: None
) -> GroupShard:
    """Return the empty `shard`, filled; an unreadable record is left out and added to `scanned.unreadable`.

    Groups come first, in the order of the log, then offsets, which make a group where there is none. `pause`
    is called as in `LogScan`.
    """
    for count, (key, value) in enumerate(scanned.others, 1):
        try:
            record = decode_record(key, value)
        except KafkaError as error:
            scanned.unreadable.add(error.detail)
            continue
        if record is not None:
            shard.replay(record)
        if count % PAUSE_RECORDS == 0:
            pause()
    shard.offsets, shard.pending = scanned.offsets, scanned.pending
    shard.count_offsets()
    for group_id in (*shard.offsets.groups(), *shard.pending.groups()):
        shard.keep_group_of_offsets(group_id)
    return shard


def stale_offsets(
    shard: GroupShard, topic_id_of: Callable[[str], bytes | None], *, pause: Callable[[], None] = lambda: None
) -> list[StaleOffset]:
    """Return the offsets of topics that are gone, or whose name belongs to another topic now.

    Such offsets are removed when their topic is deleted, but the coordinator of that time may have failed
    first (D24). `topic_id_of` gives the id of an existing topic.
    """
    stale = []
    seen = 0
    for group_id in shard.offsets.groups():
        for topic, partitions in shard.offsets.topics_of(group_id).items():
            topic_id = topic_id_of(topic)
            stale += [
                StaleOffset(group_id, topic, partition, value)
                for partition, value in partitions.items()
                if topic_id is None or topic_id_in(value) not in (ZERO_UUID, topic_id)
            ]
            seen += len(partitions)
            if seen >= PAUSE_RECORDS:
                seen = 0
                pause()
    return stale

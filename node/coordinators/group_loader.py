"""Loads a shard of the group coordinator."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.groupcoord.log_scan import Unreadable
from ottla.groupcoord.offsets.offset_commands import StaleOffset
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan
from ottla.groupcoord.shard import Shard
from ottla.groupcoord.shard_load import load_shard, stale_offsets
from ottla.node.coordinators.shard_loader import Pause, ShardLoader
from ottla.node.replica.partition import Partition


class LoadedShard(NamedTuple):
    """A shard as its log has it."""

    shard: Shard
    unreadable: Unreadable
    stale: list[StaleOffset]  # to be removed


async def load_group_shard(
    loader: ShardLoader,
    partition: Partition,
    *,
    make_shard: Callable[[], Shard],
    topic_id_of: Callable[[str], bytes | None],
    is_closed: Callable[[], bool],
) -> LoadedShard:
    """The shard as the partition's log has it now. `make_shard` and `topic_id_of` are called in a thread.

    KafkaError if the log cannot be read; LoadEndedError soon after `is_closed` is true.
    """

    def make(scan: OffsetLogScan, pause: Pause) -> LoadedShard:
        scanned = scan.finish()
        shard = load_shard(scanned, make_shard(), pause=pause)
        return LoadedShard(shard, scanned.unreadable, stale_offsets(shard, topic_id_of, pause=pause))

    return await loader.load(partition, new_scan=OffsetLogScan, make=make, is_closed=is_closed)

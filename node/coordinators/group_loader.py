"""Loads a shard of the group coordinator."""

from collections.abc import Callable

from ottla.groupcoord.commands import Command
from ottla.groupcoord.coordinator import Coordinator
from ottla.groupcoord.offsets.offset_commands import ForgetOffsets
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.shard_load import load_shard, stale_offsets
from ottla.node.coordinators.coordinator_shard import Loaded
from ottla.node.coordinators.shard_loader import Pause, ShardLoader
from ottla.node.replica.partition import Partition


async def load_group_shard(
    loader: ShardLoader,
    partition: Partition,
    is_closed: Callable[[], bool],
    *,
    make_shard: Callable[[], GroupShard],
    topic_id_of: Callable[[str], bytes | None],
) -> Loaded[Coordinator, Command]:
    """Load a shard from the partition's log. `make_shard` and `topic_id_of` are called in a thread.

    Raises KafkaError if the log cannot be read, and LoadEndedError soon after `is_closed` is true.
    """

    def make(scan: OffsetLogScan, pause: Pause) -> Loaded[Coordinator, Command]:
        scanned = scan.finish()
        shard = load_shard(scanned, make_shard(), pause=pause)
        stale = stale_offsets(shard, topic_id_of, pause=pause)
        return Loaded(Coordinator(shard), scanned.unreadable, [ForgetOffsets(offsets=stale)] if stale else [])

    return await loader.load(partition, new_scan=OffsetLogScan, make=make, is_closed=is_closed)

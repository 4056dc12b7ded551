"""New snapshots of share-partitions that are seldom written, so that old ones do not keep the whole log.

A round looks at all share-partitions, a slice at a time. It is skipped if the last snapshot of each was made
by such a round: no share-partition has had enough updates since then for a snapshot of its own, so the log
has not grown much.
"""

from collections import deque
from dataclasses import replace

from ottla.groupcoord.share_state.share_state_commands import SnapshotColdPartitions
from ottla.groupcoord.share_state.share_state_config import BATCH_OVERHEAD_BYTES, SLICE_STATES
from ottla.groupcoord.share_state.share_state_effects import Append, Effect, StartTimer, TimerKey
from ottla.groupcoord.share_state.share_state_records import (
    ShareStateRecord,
    SnapshotRecord,
    record_size_bytes,
)
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard, fits_in_log

COLD_KEY = TimerKey("cold")


def snapshot_cold_partitions(
    shard: ShareStateShard, command: SnapshotColdPartitions, now_ms: int
) -> list[Effect]:
    """Write snapshots of the next slice; a round begins each interval."""
    interval_ms = shard.config.share_coordinator_cold_partition_snapshot_interval_ms
    states = shard.states
    if not command.is_begun:
        shard.cold = deque()
        if shard.warm:
            shard.cold.extend(states)
    records: list[ShareStateRecord] = []
    room_bytes = shard.config.max_batch_bytes - BATCH_OVERHEAD_BYTES
    for _ in range(min(len(shard.cold), SLICE_STATES)):
        key = shard.cold[0]
        known = states.get(key)
        # A record that the log no longer takes was written when the log took larger ones.
        is_cold = (
            known is not None
            and now_ms - known.current.write_time_ms >= interval_ms
            and fits_in_log(shard.config, key, len(known.current.batches), len(known.current.dead_letters))
        )
        if known is not None and is_cold:
            room_bytes -= record_size_bytes(key, len(known.current.batches), len(known.current.dead_letters))
            if room_bytes < 0:
                break  # all of a slice is one batch of the log
            epoch = known.current.next_snapshot_epoch
            state = replace(known.current, snapshot_epoch=epoch, write_time_ms=now_ms)
            records.append(SnapshotRecord(key, state))
        shard.cold.popleft()
    effects: list[Effect] = [Append(records)] if records else []
    is_begun = bool(shard.cold)
    again = SnapshotColdPartitions(is_begun=is_begun)
    return [*effects, StartTimer(COLD_KEY, 0 if is_begun else interval_ms, again)]

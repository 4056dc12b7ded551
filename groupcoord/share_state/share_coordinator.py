"""One shard of the share coordinator: the share-partitions of one partition of `__share_group_state`.

    coordinator = ShareCoordinator(shard)           # a shard loaded from the log, or an empty one
    effects = coordinator.start(now_ms)             # timers
    effects = coordinator.handle(command, now_ms)   # for each command
    effects = coordinator.stop(error)               # the last call

`handle` decides and replays its own `Append`s at once: the state runs ahead of the log by the records that
the caller is about to append. If an append fails, the caller drops the coordinator and loads another one from
the log.
"""

from ottla.groupcoord.share_state.cold_snapshots import COLD_KEY, snapshot_cold_partitions
from ottla.groupcoord.share_state.forget_topics import forget_topics
from ottla.groupcoord.share_state.share_state_commands import (
    Command,
    ForgetMore,
    ForgetTopics,
    PruneRecords,
    SnapshotColdPartitions,
    StateCommand,
    StateSummaryCommand,
)
from ottla.groupcoord.share_state.share_state_effects import Append, Effect, PruneLog, StartTimer, TimerKey
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.share_state.write_state import answer_request
from ottla.logstore.words.errors import ErrorCode

PRUNE_KEY = TimerKey("prune")


class ShareCoordinator:
    """The coordinator of one shard: commands in, effects out. Not thread-safe: one owner calls it."""

    def __init__(self, shard: ShareStateShard) -> None:
        self.shard = shard

    def start(self, now_ms: int) -> list[Effect]:
        """Return the timers to start before the first command."""
        config = self.shard.config
        return [
            StartTimer(PRUNE_KEY, config.share_coordinator_state_topic_prune_interval_ms, PruneRecords()),
            StartTimer(
                COLD_KEY,
                config.share_coordinator_cold_partition_snapshot_interval_ms,
                SnapshotColdPartitions(),
            ),
        ]

    def handle(self, command: Command, now_ms: int) -> list[Effect]:
        """Decide a command."""
        effects = self._decide(command, now_ms)
        for effect in effects:
            if type(effect) is Append:
                for record in effect.records:
                    self.shard.replay(record)
        return effects

    def stop(self, error: ErrorCode) -> list[Effect]:
        """Return the effects after the last command: none, since no request waits here."""
        return []

    def check_invariants(self) -> None:
        """Assert what must hold between any two commands; tests call it after each."""
        self.shard.check_invariants()

    def _decide(self, command: Command, now_ms: int) -> list[Effect]:
        shard = self.shard
        match command:
            case (
                StateCommand(token=token, request=request) | StateSummaryCommand(token=token, request=request)
            ):
                return answer_request(shard, token, request, now_ms)
            case PruneRecords():
                return _prune(shard)
            case SnapshotColdPartitions():
                return snapshot_cold_partitions(shard, command, now_ms)
            case ForgetTopics(topic_ids=topic_ids):
                return forget_topics(shard, topic_ids)
            case ForgetMore():
                return forget_topics(shard, ())


def _prune(shard: ShareStateShard) -> list[Effect]:
    again = StartTimer(
        PRUNE_KEY, shard.config.share_coordinator_state_topic_prune_interval_ms, PruneRecords()
    )
    offset = shard.redundant.start_offset
    if offset is None or offset <= shard.pruned_offset:
        return [again]
    shard.pruned_offset = offset
    return [PruneLog(offset), again]

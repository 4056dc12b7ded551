"""The parts of a shard that only the share coordinator has: it prunes its log, and drops deleted topics."""

import logging
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeAlias, get_args

from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.share_state.forget_topics import topics_gone
from ottla.groupcoord.share_state.share_coordinator import ShareCoordinator
from ottla.groupcoord.share_state.share_state_commands import Command, ForgetTopics, ReadOnlyCommand
from ottla.groupcoord.share_state.share_state_effects import (
    Append,
    Effect,
    PruneLog,
    Refuse,
    Reply,
    StartTimer,
)
from ottla.groupcoord.share_state.share_state_records import ShareStateRecord, encode_record
from ottla.groupcoord.share_state.share_state_scan import ShareStateScan
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.share_state.share_state_words import StateAnswer
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.coordinators.coordinator_log import Row
from ottla.node.coordinators.coordinator_shard import CoordinatorShard, Loaded, ShardParts
from ottla.node.coordinators.shard_loader import Pause, ShardLoader
from ottla.node.replica.partition import Partition

_READ_ONLY = frozenset(get_args(ReadOnlyCommand))
MOVED = "The coordinator of this share-partition has moved."

ShareCoordinatorShard: TypeAlias = CoordinatorShard[ShareCoordinator, Command, StateAnswer]

log = logging.getLogger(__name__)


def share_state_parts(
    *,
    new_shard: Callable[[], ShareStateShard],
    states: NodeBytes,
    max_batch_bytes: int,
) -> ShardParts[ShareCoordinator, Command, StateAnswer]:
    """Return the parts of a shard of share-partitions.

    `new_shard` makes an empty shard; `states` counts the bytes of all shards of the node.
    """
    own = _ShareStateParts(new_shard, states)
    return ShardParts(
        new_core=lambda: ShareCoordinator(new_shard()),
        load=own.load,
        rows=_rows,
        max_batch_bytes=max_batch_bytes,
        moved=MOVED,
        read_only=_READ_ONLY,
        keep_as=_keep_as,
        merged=_merged,
        carry_out=_carry_out,
        started=own.started,
        stopped=own.stopped,
    )


class _ShareStateParts:
    """The parts of one shard that have state of their own."""

    def __init__(self, new_shard: Callable[[], ShareStateShard], states: NodeBytes) -> None:
        self._new_shard = new_shard
        self._states = states
        self._counted: ShareStateShard | None = None

    async def load(
        self, loader: ShardLoader, partition: Partition, is_closed: Callable[[], bool]
    ) -> Loaded[ShareCoordinator, Command]:
        """Load the shard from the partition's log."""

        def new_scan(pause: Pause) -> ShareStateScan:
            return ShareStateScan(self._new_shard(), pause)

        def make(scan: ShareStateScan, _: Pause) -> Loaded[ShareCoordinator, Command]:
            shard, unreadable = scan.finish()
            # The coordinator at the time when these topics were deleted failed before it could drop them.
            gone = topics_gone(shard)
            commands = [ForgetTopics(topic_ids=gone)] if gone else []
            return Loaded(ShareCoordinator(shard), unreadable, commands)

        return await loader.load(partition, new_scan=new_scan, make=make, is_closed=is_closed)

    def started(self, shard: ShareCoordinatorShard, core: ShareCoordinator) -> None:
        log_ = shard.partition.log
        core.shard.next_offset, core.shard.pruned_offset = log_.log_end_offset, log_.log_start_offset
        core.shard.bytes.attach(self._states)
        self._counted = core.shard

    def stopped(self, _: ShareCoordinatorShard, __: KafkaError) -> None:
        if self._counted is not None:
            self._counted.bytes.detach()
            self._counted = None


def _carry_out(shard: ShareCoordinatorShard, effect: Effect) -> None:
    """Carry out an effect that only the share coordinator has."""
    match effect:
        case PruneLog(offset):
            shard.log.when_committed(partial(_prune, shard, offset))
        case Append() | Reply() | Refuse() | StartTimer():
            raise AssertionError(f"{effect} must be handled by the runtime")


def _prune(shard: ShareCoordinatorShard, offset: int, error: KafkaError | None) -> None:
    if error is not None or shard.is_closed:
        return
    try:
        shard.partition.delete_records_before(offset)
    except KafkaError as refused:
        # The next pruning goes to a later offset; until then the log is longer than it needs to be.
        if refused.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            log.warning("%s could not be pruned: %s", shard.partition.topic_partition, refused)


def _keep_as(command: Command) -> Hashable:
    assert isinstance(command, ForgetTopics), f"{command} comes from another node or a timer"
    return ForgetTopics


def _merged(earlier: Command, later: Command) -> Command:
    assert isinstance(earlier, ForgetTopics) and isinstance(later, ForgetTopics)
    return ForgetTopics(topic_ids=earlier.topic_ids | later.topic_ids)


def _rows(_: ShareCoordinator, records: Sequence[ShareStateRecord]) -> list[Row]:
    return [encode_record(record) for record in records]

"""The states of the share-partitions of one partition of `__share_group_state`.

All of it except the lists of pending work changes in `replay` only. The coordinator is the only writer of its
partition, so it knows the offset of each record before it is appended: the next one. If another program has
written there, the coordinator takes offsets to be lower than they are, and prunes too little (D61).
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise

from ottla.groupcoord.shard_bytes import ShardBytes
from ottla.groupcoord.share_state.redundant_offsets import RedundantOffsets
from ottla.groupcoord.share_state.share_state import ShareState, begun_by, updated
from ottla.groupcoord.share_state.share_state_config import (
    BATCH_BYTES,
    BATCH_OVERHEAD_BYTES,
    MAX_STATES_PER_SHARD,
    STATE_BYTES,
    ShareCoordinatorConfig,
)
from ottla.groupcoord.share_state.share_state_records import (
    ShareStateRecord,
    SnapshotRecord,
    UpdateRecord,
    record_size_bytes,
)
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.words.errors import ErrorCode, KafkaError

UNKNOWN_INCARNATION = 0


class KnownState:
    """A share-partition: its state, its highest epochs, and its updates.

    `updates` counts the updates since a snapshot that came because there were enough of them. Other snapshots
    do not set it back.
    """

    __slots__ = ("current", "leader_epoch", "state_epoch", "updates")

    def __init__(self, state: ShareState) -> None:
        self.current = state
        self.leader_epoch = state.leader_epoch
        self.state_epoch = state.state_epoch
        self.updates = 0

    def snapshot(self, state: ShareState, updates_per_snapshot: int) -> None:
        self.current = state
        self.leader_epoch = max(self.leader_epoch, state.leader_epoch)
        self.state_epoch = max(self.state_epoch, state.state_epoch)
        if self.updates >= updates_per_snapshot:
            self.updates = 0


class ShareStateShard:
    """The state of one coordinator."""

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        *,
        partitions_of: Callable[[bytes], int],
    ) -> None:
        """`partitions_of` returns the number of partitions of the topic with an id, 0 if there is none."""
        self.config = config
        self.partitions_of = partitions_of
        # The offset of the next record, and the one up to which the log was cut last. The appending code sets
        # both at first.
        self.next_offset = 0
        self.pruned_offset = 0
        self.states: dict[SharePartitionKey, KnownState] = {}
        # Derived.
        self.by_topic: dict[bytes, dict[SharePartitionKey, None]] = {}
        self.redundant = RedundantOffsets()
        self.bytes = ShardBytes()
        self.warm = 0  # states whose last snapshot a request made
        # Soft.
        self.cold: deque[SharePartitionKey] = deque()  # to be looked at in this round
        self.forgotten: dict[bytes, None] = {}  # topics that are gone, of which states are left
        self._incarnations: dict[
            SharePartitionKey, int
        ] = {}  # of states that were initialized since this was loaded
        self._last_incarnation = UNKNOWN_INCARNATION

    def replay(self, record: ShareStateRecord) -> None:
        """Apply a record to the state: the one place where durable state changes."""
        offset, self.next_offset = self.next_offset, self.next_offset + 1
        key = record.key
        match record:
            case SnapshotRecord(_, state):
                if state is None:
                    self._remove(key)
                else:
                    self._put(key, state)
                self.redundant.note_snapshot(key, offset, is_tombstone=state is None)
            case UpdateRecord(_, update):
                known = self.states.get(key)
                if known is None:
                    self._put(key, begun_by(update))
                    return
                before = _changing_bytes(known.current)
                known.current = updated(known.current, update)
                known.leader_epoch = max(known.leader_epoch, update.leader_epoch)
                known.updates += 1
                self.bytes.add(_changing_bytes(known.current) - before)

    def _put(self, key: SharePartitionKey, state: ShareState) -> None:
        known = self.states.get(key)
        self.warm += state.is_warm - (known is not None and known.current.is_warm)
        if known is None:
            self.states[key] = KnownState(state)
            self.by_topic.setdefault(key.topic_id, {})[key] = None
            self.bytes.add(state_bytes(key, 0) + _changing_bytes(state))
        else:
            self.bytes.add(_changing_bytes(state) - _changing_bytes(known.current))
            known.snapshot(state, self.config.share_coordinator_snapshot_update_records_per_snapshot)

    def _remove(self, key: SharePartitionKey) -> None:
        known = self.states.pop(key, None)
        self._incarnations.pop(key, None)
        if known is None:
            return
        self.warm -= known.current.is_warm
        self.bytes.add(-state_bytes(key, 0) - _changing_bytes(known.current))
        of_topic = self.by_topic[key.topic_id]
        del of_topic[key]
        if not of_topic:
            del self.by_topic[key.topic_id]

    def begin_incarnation(self, key: SharePartitionKey, now_ms: int) -> None:
        """Fence all leaders that have read the state of a share-partition so far, or have begun to."""
        # The time, so that no other coordinator of this shard has had it.
        self._last_incarnation = self._incarnations[key] = max(self._last_incarnation + 1, now_ms)

    def incarnation_of(self, key: SharePartitionKey) -> int:
        """Return the incarnation of a state; unknown if it was not initialized since this was loaded."""
        return self._incarnations.get(key, UNKNOWN_INCARNATION)

    def check_room(self, key: SharePartitionKey, more_batches: int) -> None:
        """Raise COORDINATOR_NOT_AVAILABLE if there is no room for a new share-partition, or for more batches.

        New ones leave an eighth to the present ones.
        """
        is_new = key not in self.states
        more_bytes = state_bytes(key, 0) if is_new else BATCH_BYTES * more_batches
        if is_new and len(self.states) >= MAX_STATES_PER_SHARD:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "This partition of __share_group_state has too many share-partitions: delete share groups "
                "that are not used.",
            )
        if more_bytes > 0 and not self.bytes.fits(more_bytes, eighths=7 if is_new else 8):
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "The states of share-partitions use all the memory that the broker reserves for them: raise "
                "its ottla.memory.max.bytes, or delete share groups that are not used.",
            )

    def check_invariants(self) -> None:
        """Assert what must hold between any two commands; tests call it after each."""
        expected = 0
        for key, known in self.states.items():
            batches = known.current.batches
            expected += state_bytes(key, 0) + _changing_bytes(known.current)
            assert all(one.first_offset <= one.last_offset for one in batches), known.current
            for one, next_ in pairwise(batches):
                assert one.last_offset < next_.first_offset, known.current
            if known.current.start_offset >= 0 and batches:
                assert batches[0].first_offset >= known.current.start_offset, known.current
            assert known.leader_epoch >= known.current.leader_epoch, known.current
            assert known.state_epoch >= known.current.state_epoch, known.current
            assert key in self.by_topic[key.topic_id]
        assert self.bytes.total == expected
        assert self.warm == sum(known.current.is_warm for known in self.states.values())
        assert sum(map(len, self.by_topic.values())) == len(self.states)
        assert len(self.redundant) <= len(self.states)
        assert self._incarnations.keys() <= self.states.keys()
        start_offset = self.redundant.start_offset
        assert start_offset is None or start_offset < self.next_offset


def fits_in_log(
    config: ShareCoordinatorConfig, key: SharePartitionKey, batches: int, dead_letters_bytes: int = 0
) -> bool:
    """Return True if the log takes a record of this many batches and bytes."""
    size_bytes = BATCH_OVERHEAD_BYTES + record_size_bytes(key, batches, dead_letters_bytes)
    return size_bytes <= config.max_batch_bytes


def _changing_bytes(state: ShareState) -> int:
    """Return the memory of a state beyond that of every share-partition."""
    return BATCH_BYTES * len(state.batches) + len(state.dead_letters)


def state_bytes(key: SharePartitionKey, batches: int) -> int:
    """Return the memory that a share-partition takes."""
    return STATE_BYTES + len(key.group) + BATCH_BYTES * batches

"""The state of a share-partition: its last snapshot with the updates since then."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.groupcoord.share_state.combine_batches import Batches, combine_batches, is_in_order
from ottla.groupcoord.share_state.share_state_words import NOT_GIVEN, newer_note

_MAX_EPOCH: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """Kafka's ShareGroupOffset. The times are those of its snapshot, not of the updates.

    `create_time_ms` is of the last snapshot that a request made, `write_time_ms` of the last snapshot: they
    differ if the coordinator itself has written a snapshot since then.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_time_ms: int
    write_time_ms: int
    batches: Batches = ()
    dead_letters: bytes = b""  # of the leader, which alone knows their meaning

    @property
    def next_snapshot_epoch(self) -> int:
        """Return the epoch of the snapshot after this one; 0 follows the largest."""
        return (self.snapshot_epoch + 1) & _MAX_EPOCH

    @property
    def is_warm(self) -> bool:
        """True if a request made the last snapshot, not the coordinator itself."""
        return self.create_time_ms == self.write_time_ms


class Update(NamedTuple):
    """Changes of a state since its snapshot of this epoch."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Batches
    dead_letters: bytes | None = None


def updated(state: ShareState, update: Update) -> ShareState:
    """Return the state after an update; -1 as start offset or leader epoch leaves the present one."""
    start_offset = state.start_offset if update.start_offset == NOT_GIVEN else update.start_offset
    return ShareState(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch if update.leader_epoch == NOT_GIVEN else update.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        create_time_ms=state.create_time_ms,
        write_time_ms=state.write_time_ms,
        batches=combine_batches(state.batches, update.batches, start_offset),
        dead_letters=newer_note(state.dead_letters, update.dead_letters),
    )


def begun_by(update: Update) -> ShareState:
    """Return the state of an update without a snapshot before it, which no coordinator writes."""
    return ShareState(
        snapshot_epoch=update.snapshot_epoch,
        state_epoch=0,
        leader_epoch=update.leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        create_time_ms=0,
        write_time_ms=0,
        batches=in_order(update.batches, update.start_offset),
        dead_letters=update.dead_letters or b"",
    )


def in_order(batches: Batches, start_offset: int = NOT_GIVEN) -> Batches:
    """Return batches in order, from the start offset on; another program may have written them otherwise."""
    known = batches if is_in_order(batches) else ()
    return combine_batches(known, () if known else batches, start_offset)

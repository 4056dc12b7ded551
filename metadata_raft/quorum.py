"""The protocol between the metadata and its quorum: a replicated log of batches with one leader at a time.

The leader appends batches. On every member the quorum passes each batch to its listener once it is committed,
in the order of offsets. All calls are made on the owner's event loop, and none of them blocks.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import Voter


class ReplicaStatus(NamedTuple):
    """The progress of one member, as the leader knows it; -1 is unknown."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int  # when it last sent a message, by the wall clock
    last_caught_up_ms: int  # when its log last ended where the leader's did
    # Its disk was restored to an earlier state: it may not vote until it has everything it had acknowledged.
    is_disk_old: bool = False
    # Its directory is a copy: it may not vote until a leader knows what it may have acknowledged.
    is_disk_copied: bool = False


class QuorumStatus(NamedTuple):
    """The quorum as one member sees it; only the leader knows the replicas' progress."""

    leader_id: int
    epoch: int
    high_watermark: int  # the offset after the last committed record
    voters: Sequence[ReplicaStatus]
    observers: Sequence[ReplicaStatus]
    # (node id, directory id) of nodes with the id of a voter, but with another disk.
    returned: Sequence[tuple[int, bytes]] = ()
    # A leader must append an entry: a voter with a copied directory waits until the others confirm one.
    wants_entry: bool = False


class QuorumListener(Protocol):
    """The consumer of committed batches: the metadata runtime of a node."""

    @property
    def committed_image(self) -> MetadataImage:
        """The image of everything that was passed to it so far."""

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        """Handle a committed batch, which follows the previous one without a gap and results in `image`.

        The quorum's own entries, such as the first one of a term, are passed as batches of NoOpRecords.
        """

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Handle a snapshot: `image` is any number of batches ahead, which are not passed one by one."""

    def handle_leadership(self, epoch: int) -> None:
        """Begin to lead in `epoch`; everything committed before has been passed to the listener."""

    def handle_resignation(self, detail: str) -> None:
        """Stop leading; batches that were appended but not committed may or may not be in the log."""

    def handle_leader_change(self) -> None:
        """Handle a change of the known leader, which may now be unknown."""

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        """Handle a new or a lost connection to another member."""


class Quorum(Protocol):
    """One member of the quorum."""

    @property
    def is_leader(self) -> bool:
        """True while batches may be appended: from `handle_leadership` to `handle_resignation`."""

    @property
    def leader_id(self) -> int:
        """The leader's node id, -1 if it is unknown."""

    @property
    def epoch(self) -> int:
        """The epoch in which this member appends, or the latest one that it knows."""

    @property
    def hears_all(self) -> bool:
        """True if this member receives everything that is committed: it may vote, and it follows a leader."""

    def attach(self, listener: QuorumListener) -> None:
        """Set the listener, before any other call; a member that already leads notifies it at once."""

    def append(self, batch: MetadataBatch) -> None:
        """Append a batch; NOT_CONTROLLER unless this member leads in its epoch."""

    async def catch_up(self, voter: Voter, timeout_seconds: float) -> None:
        """Replicate the log to a node until it has caught up, so that it can become a voter.

        REQUEST_TIMED_OUT if that takes too long, NOT_CONTROLLER if this member stops leading.
        """

    def hand_over(self) -> None:
        """Hand leadership to another voter with the whole log, if there is one; the listener is notified."""

    def status(self) -> QuorumStatus: ...

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Return the address of a voter's broker for other nodes, if the voter has sent it; else None."""

    async def run(self) -> None:
        """Run until `close`; an error is fatal to the node."""

    def close(self) -> None:
        """Finish appended batches and let `run` return."""

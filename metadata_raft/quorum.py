"""What the metadata asks of a quorum: an ordered, durable log of batches with one leader at a time.

The leader appends batches; the quorum tells its listener of each batch once it can no longer be lost, in the
order of their offsets, on every member. Calls come and go on the owner's event loop, none of them blocks.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import Voter


class ReplicaStatus(NamedTuple):
    """How far one member has the log, as the leader knows it; -1 for what it does not know."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int  # when it was last heard of, by the wall clock
    last_caught_up_ms: int  # when it last had all that the leader had
    # Its disk went back to an earlier copy: it has no vote until it has all that it had acknowledged.
    is_disk_old: bool = False
    # Its directory is a copy: it has no vote until a leader knows what it may have promised.
    is_disk_copied: bool = False


class QuorumStatus(NamedTuple):
    """The quorum as one member sees it; only the leader knows the replicas' progress."""

    leader_id: int
    epoch: int
    high_watermark: int  # the offset behind the last committed record
    voters: Sequence[ReplicaStatus]
    observers: Sequence[ReplicaStatus]
    # (node id, directory id) of nodes that are there under the name of a voter, with another disk than its.
    returned: Sequence[tuple[int, bytes]] = ()
    # Of a leader: a voter's copied directory waits for the others to confirm an entry that is not there yet.
    wants_entry: bool = False


class QuorumListener(Protocol):
    """Who acts on committed batches: the metadata runtime of a node."""

    @property
    def committed_image(self) -> MetadataImage:
        """The image of all that it was told so far."""

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        """`batch` can no longer be lost; it follows the one before without a gap and makes `image`.

        The quorum's own entries, such as the beginning of a reign, are told as batches of NoOpRecords.
        """

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """A jump: `image` lies any number of batches ahead, none of which is told by itself."""

    def handle_leadership(self, epoch: int) -> None:
        """This member leads in `epoch`, and all that was committed before has been told."""

    def handle_resignation(self, detail: str) -> None:
        """This member no longer leads: what it appended without a commit may or may not be in the log."""

    def handle_leader_change(self) -> None:
        """Another member is known to lead than before, or nobody is."""

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        """Another member can be talked to, or cannot any more."""


class Quorum(Protocol):
    """One member of the quorum."""

    @property
    def is_leader(self) -> bool:
        """Whether batches may be appended: from `handle_leadership` to `handle_resignation`."""

    @property
    def leader_id(self) -> int:
        """The node that leads, -1 if nobody is known to."""

    @property
    def epoch(self) -> int:
        """The reign in which this member appends, or which it knows."""

    @property
    def hears_all(self) -> bool:
        """Whether all that is committed comes to this member: it has a vote, and a leader to follow."""

    def attach(self, listener: QuorumListener) -> None:
        """Name the listener, before anything else; one that already leads tells it so at once."""

    def append(self, batch: MetadataBatch) -> None:
        """Begin to commit; NOT_CONTROLLER unless this member leads in the epoch of `batch`."""

    async def teach(self, voter: Voter, timeout_seconds: float) -> None:
        """Give a node the log until it has all of it, that it may be made a voter.

        REQUEST_TIMED_OUT if it has not by then, NOT_CONTROLLER if this member stops to lead.
        """

    def hand_over(self) -> None:
        """Let another voter lead, if one has the whole log; the listener is told when it does."""

    def status(self) -> QuorumStatus: ...

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Where other nodes reach the broker of a voter, as it told the quorum; None if it has not."""

    async def run(self) -> None:
        """Do the work until `close`; an error is fatal to the node."""

    def close(self) -> None:
        """Finish what was appended and let `run` return."""

"""What the metadata asks of a quorum: an ordered, durable log of batches with one leader at a time.

The leader appends batches; the quorum tells its listener of each batch once it can no longer be lost, in the
order of their offsets, on every member. Calls come and go on the owner's event loop, none of them blocks.
"""

from typing import Protocol

from metadata_raft.image import MetadataImage
from metadata_raft.record_codec import MetadataBatch


class QuorumListener(Protocol):
    """Who acts on committed batches: the metadata runtime of a node."""

    @property
    def committed_image(self) -> MetadataImage:
        """The image of all batches that `handle_commit` was told; snapshots are made of it."""

    def handle_commit(self, batch: MetadataBatch) -> None:
        """`batch` is durable; it follows the one before without a gap."""

    def handle_resignation(self, detail: str) -> None:
        """This member no longer leads: what it appended without a commit may or may not be in the log."""


class Quorum(Protocol):
    """One member of the quorum."""

    @property
    def is_leader(self) -> bool: ...

    @property
    def leader_id(self) -> int:
        """The node that leads, -1 if nobody is known to."""

    @property
    def epoch(self) -> int:
        """The reign in which this member appends."""

    def attach(self, listener: QuorumListener) -> None:
        """Name the listener, before the first append."""

    def append(self, batch: MetadataBatch) -> None:
        """Begin to commit; NOT_CONTROLLER unless this member leads in the epoch of `batch`."""

    async def run(self) -> None:
        """Do the work until `close`; an error is fatal to the node."""

    def close(self) -> None:
        """Finish what was appended and let `run` return."""

"""The quorum of a node that may be a voter: it votes while it has a vote, and fetches the metadata while not.

A node may get or lose a vote while it runs, so it has both a voter and an observer. Whichever is ahead passes
its commits on to the listener. Both see the same commits in the same order, so neither contradicts the other.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import Final

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.image_changes import changes_between
from ottla.metadata_raft.quorum import QuorumListener, QuorumStatus
from ottla.metadata_raft.quorum_raft import RaftQuorum
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import Voter
from ottla.node.metadata.metadata_observer import MetadataObserver
from ottla.node.work.pause import until_next, wait_at_most

# How often this node checks that its voter knows a leader; a change of the voters wakes it at once.
LOOK_S: Final = 0.5
LEADERLESS_S: Final = 5.0  # an election takes one or two
FIRST_LEADER_S: Final = 5.0  # more for the other voters to start


class MemberQuorum:
    """A RaftQuorum and, while it has no vote, a MetadataObserver beside it. Used on the node's loop only."""

    def __init__(
        self,
        node_id: int,
        raft: RaftQuorum,
        observer: MetadataObserver,
        *,
        voters: Callable[[MetadataImage], Mapping[int, Endpoint]],
        is_configured: bool,
    ) -> None:
        """`voters(image)` returns the addresses at which the voters serve brokers.

        `is_configured` is True if the settings make this node a voter, which counts until the log has voters.
        """
        self._node_id = node_id
        self._raft = raft
        self._observer = observer
        self._voters_of = voters
        self._is_configured = is_configured
        self._image = observer.image
        self._listener: QuorumListener | None = None
        self._is_closed = False
        self._wakes = asyncio.Event()  # set when `run` must check again
        self._fetching: asyncio.Task[None] | None = None
        self._led_at = math.inf  # when the voter of this node last knew a leader

    @property
    def voter(self) -> RaftQuorum:
        """The voter of this node, also while it has no vote."""
        return self._raft

    # ---- the quorum, as the node uses it -----------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self._raft.is_leader

    @property
    def leader_id(self) -> int:
        is_fetched = not self._has_vote() or self._raft.leader_id < 0
        return self._observer.leader_id if is_fetched and self._fetching else self._raft.leader_id

    @property
    def epoch(self) -> int:
        return max(self._raft.epoch, self._observer.epoch)

    @property
    def hears_all(self) -> bool:
        return self._has_vote() and self._raft.hears_all

    def attach(self, listener: QuorumListener) -> None:
        self._listener, self._image = listener, listener.committed_image
        self._raft.attach(self)
        self._observer.attach(self)

    def append(self, batch: MetadataBatch) -> None:
        self._raft.append(batch)

    def status(self) -> QuorumStatus:
        return self._raft.status() if self._has_vote() else self._observer.status()

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        return self._raft.endpoint_of(node_id) or self._observer.endpoint_of(node_id)

    async def catch_up(self, voter: Voter, timeout_seconds: float) -> None:
        await self._raft.catch_up(voter, timeout_seconds)

    def hand_over(self) -> None:
        self._raft.hand_over()

    def close(self) -> None:
        self._is_closed = True
        self._wakes.set()
        self._raft.close()

    async def run(self) -> None:
        """Run the voter until `close`, and fetch the metadata while this node has no vote."""
        async with asyncio.TaskGroup() as tasks:
            self._led_at = asyncio.get_running_loop().time() + FIRST_LEADER_S
            voting = tasks.create_task(self._raft.run())
            voting.add_done_callback(lambda _: self._wakes.set())
            while not (self._is_closed or voting.done()):
                if not self._needs_to_fetch():
                    self._stop_fetching()
                elif self._fetching is None and (voters := self._voters_of(self._image)):
                    self._observer.go_on_from(self._image, voters)
                    self._fetching = tasks.create_task(self._observer.run())
                await wait_at_most(self._wakes, until_next(LOOK_S))
            self._stop_fetching()

    def _stop_fetching(self) -> None:
        fetching, self._fetching = self._fetching, None
        if fetching is not None:
            fetching.cancel()

    def _needs_to_fetch(self) -> bool:
        """Return True without a vote, or if the voter has known no leader for `LEADERLESS_S`.

        A voter that was removed may not have received the commit that removed it.
        """
        now = asyncio.get_running_loop().time()
        if self._raft.leader_id >= 0:
            self._led_at = now
        return not self._has_vote() or now - self._led_at > LEADERLESS_S

    def _has_vote(self) -> bool:
        voters = self._image.voters
        return any(one.voter_id == self._node_id for one in voters) if voters else self._is_configured

    # ---- the listener of both ----------------------------------------------------------------------------

    @property
    def committed_image(self) -> MetadataImage:
        return self._image

    def handle_commit(self, batch: MetadataBatch, image: MetadataImage, changes: MetadataChanges) -> None:
        """Pass a commit on to the listener, unless it came from the other one before."""
        assert self._listener is not None
        if image.version <= self._image.version:
            return
        before = self._take_image(image)
        if batch.base_offset == before.version + 1:
            self._listener.handle_commit(batch, image, changes)
        else:
            self._listener.handle_snapshot(image, changes_between(before, image))

    def handle_snapshot(self, image: MetadataImage, changes: MetadataChanges) -> None:
        """Pass a snapshot on to the listener, with the changes since the last image, if it is newer."""
        assert self._listener is not None
        if image.version > self._image.version:
            before = self._take_image(image)
            self._listener.handle_snapshot(image, changes_between(before, image))

    def _take_image(self, image: MetadataImage) -> MetadataImage:
        """Set the image, and return the previous one."""
        before, self._image = self._image, image
        if before.voters is not image.voters:
            self._wakes.set()
        return before

    def handle_leader_change(self) -> None:
        assert self._listener is not None
        self._wakes.set()
        self._listener.handle_leader_change()

    def handle_leadership(self, epoch: int) -> None:
        assert self._listener is not None
        self._listener.handle_leadership(epoch)

    def handle_resignation(self, detail: str) -> None:
        assert self._listener is not None
        self._listener.handle_resignation(detail)

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        assert self._listener is not None
        self._listener.handle_peer_link(node_id, is_up=is_up)

"""The replicated quorum for a node: appends batches and reports commits, with the voter on its own thread.

The node's loop and the voter's loop communicate only by scheduling calls on each other, many at a time;
neither waits for the other. In a simulation both are the same loop.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.latency import LatencyHistogram
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.quorum import QuorumListener, QuorumStatus
from ottla.metadata_raft.raft_core import CoreSettings, RaftCore, SnapshotRule
from ottla.metadata_raft.raft_entry import encode_entry, surely_fits
from ottla.metadata_raft.raft_journal import RaftJournal
from ottla.metadata_raft.raft_link import AcceptedLink, LinkSettings
from ottla.metadata_raft.raft_node import LEADER_FALLBACK_SECONDS
from ottla.metadata_raft.raft_snapshots import PAUSE_SECONDS, RESTORE, SnapshotStore
from ottla.metadata_raft.raft_thread import LoopThread
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import Voter, VoterSet

# Batches that the voter's loop has not taken yet; beyond this number clients get a retriable error.
MAX_WAITING_BATCHES: Final = 10_000
CATCH_UP_POLL_SECONDS: Final = 0.05


class LoadedMetadata(NamedTuple):
    """The content of the metadata directory at the start of a node."""

    image: MetadataImage  # of the last snapshot; later commits are known once there is a leader
    is_empty: bool  # True if there was neither snapshot nor log
    cut_bytes: int  # of entries that were being written when the node ended
    damage: str | None = None  # of the log, which was truncated there, or of the snapshot


def load_voter(
    store: SnapshotStore, journal: RaftJournal, empty: MetadataImage
) -> tuple[MetadataImage, str | None]:
    """Load snapshot and log of a voter; return the image, and the damage that the leader must repair, if any.

    KAFKA_STORAGE_ERROR if no other voter can repair the damage.
    """
    damage: str | None = None
    try:
        image = store.load(empty)
    except KafkaError as error:
        if not journal.begin_again(*store.last_end()):
            raise
        store.set_aside()
        image, damage = store.load(empty), error.detail.removesuffix(RESTORE)
    journal.load(store.start)
    return image, damage or journal.damage


class RaftQuorum:
    """A voter. Call `load`, `attach`, `run`, on the node's loop, except for `load`, which blocks."""

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        *,
        voter: Voter,
        configured: VoterSet,
        chance: Random,
        unique: Callable[[int], bytes],
        now_ms: Callable[[], int],
        links: LinkSettings | None = None,
        snapshots: SnapshotRule = SnapshotRule(),
        threaded: bool = True,
        # Not uvloop: only asyncio resumes accepting connections after it ran out of file descriptors.
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.SelectorEventLoop,
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._voter = voter
        self._configured = configured
        self._chance = chance
        self._unique = unique
        self._now_ms = now_ms
        self._links = links
        self._snapshots = snapshots
        self._threaded = threaded
        self._loop_factory = loop_factory
        self._status = QuorumStatus(-1, 0, 0, (), ())
        self._reported_at = 0.0  # the time of the voter's last report
        self._leading_epoch = 0
        self._is_closed = False
        self._waiting: deque[tuple[MetadataBatch, bytes | None]] = deque()
        # Reports of the voter that wait for the node's loop, and the leader and epoch of the last one.
        self._reports: deque[tuple[Sequence[Callable[[QuorumListener], None]], QuorumStatus]] = deque()
        self._reported_leader = (-1, 0)
        self._is_scheduled = False
        self._has_failed = False  # True once the listener has raised
        self._listener: QuorumListener | None = None
        self._core: RaftCore | None = None
        self._settings: CoreSettings | None = None
        self._call_core: Callable[..., object] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- start -----------------------------------------------------------------------------------------

    def load(self, empty: MetadataImage) -> LoadedMetadata:
        """Read the content of the directory. Blocks.

        KAFKA_STORAGE_ERROR, with file and position, if it is damaged and no other voter can repair that;
        else the damage is in the result. OSError from the disk.
        """
        self._disk.make_directory(self._directory, is_private=True)
        # Older releases created it readable for all users, but the metadata now has credentials.
        self._disk.close_to_others(self._directory)
        self._disk.sync_directory(self._directory.parent)
        store = SnapshotStore(
            self._directory, self._disk, pause_seconds=PAUSE_SECONDS if self._threaded else 0
        )
        journal = RaftJournal(self._directory, self._disk, configured=self._configured)
        image, damage = load_voter(store, journal, empty)
        self._settings = CoreSettings(
            voter=self._voter,
            configured=self._configured,
            journal=journal,
            store=store,
            image=image,
            empty=empty,
            links=self._links,
            snapshots=self._snapshots,
            chance=self._chance,
            unique=self._unique,
            now_ms=self._now_ms,
        )
        is_empty = journal.last.end_offset == 0 and damage is None
        return LoadedMetadata(image, is_empty, journal.cut_bytes, damage)

    def attach(self, listener: QuorumListener) -> None:
        self._listener = listener

    async def run(self) -> None:
        """Vote, lead or follow until `close`; an error is fatal to the node."""
        assert self._settings is not None and self._listener is not None
        self._loop = asyncio.get_running_loop()
        core = self._core = RaftCore(self._settings, self)
        try:
            if self._threaded:
                thread = LoopThread(core.run, self._loop_factory)
                self._call_core = thread.call
                await thread.run()
            else:
                self._call_core = self._loop.call_soon
                await core.run()
        finally:
            self._handle_reports()
            if self._leading_epoch:
                self._leading_epoch = 0
                self._listener.handle_resignation("The metadata quorum has stopped on this node.")

    def close(self) -> None:
        self._is_closed = True
        if self._core is not None and self._call_core is not None:
            self._flush()
            self._call_core(self._core.close)

    # ---- calls of the node -----------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self._may_append and not self._hangs

    @property
    def _may_append(self) -> bool:
        return self._leading_epoch > 0 and not self._is_closed

    @property
    def _hangs(self) -> bool:
        """True if the voter has been silent, as in a hanging sync, so long that others may have a leader.

        The voter cannot report that itself, and a node that continued to lead would not consider itself
        fenced.
        """
        is_alone = len(self._status.voters) < 2
        # In a simulation both are the same loop, with another clock.
        is_silent = time.monotonic() - self._reported_at > LEADER_FALLBACK_SECONDS
        return self._threaded and not is_alone and is_silent

    @property
    def leader_id(self) -> int:
        return self._status.leader_id

    @property
    def epoch(self) -> int:
        return self._leading_epoch or self._status.epoch

    @property
    def hears_all(self) -> bool:
        return self.leader_id >= 0

    def status(self) -> QuorumStatus:
        return self._status

    @property
    def voted_id(self) -> int:
        """The node that this voter voted for in its current term, -1 if none."""
        assert self._settings is not None
        return self._settings.journal.state.voted_id

    @property
    def sync_times(self) -> LatencyHistogram:
        """The durations of syncs of entries, terms and votes."""
        assert self._settings is not None
        return self._settings.journal.sync_times

    def unlinked(self) -> Mapping[int, str]:
        """Return a text with address and reason for each voter without a link, by node id."""
        return {} if self._core is None else self._core.unlinked()

    def waits_for(self) -> str | None:
        """Return a sentence with the voters that this one waits for; None if it needs no others."""
        return None if self._core is None else self._core.waits_for()

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        return None if self._core is None else self._core.endpoint_of(node_id)

    def append(self, batch: MetadataBatch) -> None:
        if not self._may_append or batch.epoch != self._leading_epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")
        if len(self._waiting) >= MAX_WAITING_BATCHES:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many metadata changes are in progress: try again."
            )
        # A batch that is too large is rejected here, so that the caller gets the error. One of very many
        # records that surely fits is encoded by the voter: that takes 50 ms, which would block this loop.
        self._waiting.append((batch, None if surely_fits(batch) else encode_entry(batch, 0)))
        if len(self._waiting) == 1:
            assert self._loop is not None
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._waiting and self._core is not None and self._call_core is not None:
            batches, self._waiting = list(self._waiting), deque()
            self._call_core(self._core.append, batches)

    def take_link(self, link: AcceptedLink) -> None:
        """Take over a link that the node accepted; it is closed if the voter does not run."""
        core, call = self._core, self._call_core
        if core is None or call is None or not call(core.take_link, link):
            link.sock.close()

    async def catch_up(self, voter: Voter, timeout_seconds: float) -> None:
        """Replicate the log to a node until it has caught up, so that it can become a voter.

        REQUEST_TIMED_OUT if that takes too long, NOT_CONTROLLER if this member stops leading.
        """
        assert self._loop is not None and self._core is not None and self._call_core is not None
        deadline = self._loop.time() + timeout_seconds
        self._call_core(self._core.catch_up, voter)
        while self.is_leader:
            status = self._status
            for one in (*status.observers, *status.voters):
                is_it = (one.node_id, one.directory_id) == (voter.node_id, voter.directory_id)
                if is_it and one.log_end_offset >= status.high_watermark > 0:
                    return
            if self._loop.time() > deadline:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"Node {voter.node_id} has not caught up with the metadata log: "
                    "check that it is running, and that the directory id is its own.",
                )
            await asyncio.sleep(CATCH_UP_POLL_SECONDS)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum any more.")

    def hand_over(self) -> None:
        """Hand leadership to another voter with the whole log, if there is one."""
        if self._core is not None and self._call_core is not None:
            self._call_core(self._core.hand_over)

    # ---- calls of the voter, on its own loop -----------------------------------------------------------

    def report(self, events: Sequence[Callable[[QuorumListener], None]], status: QuorumStatus) -> None:
        """Pass events to the node's loop; called in each cycle, so that the node knows that the voter runs.

        A status that differs only in the voters' progress replaces the last one without waking that loop.
        """
        self._reported_at = time.monotonic()
        leader = (status.leader_id, status.epoch)
        if not events and leader == self._reported_leader and not self._reports:
            self._status = status
            return
        self._reported_leader = leader
        self._reports.append((events, status))
        if not self._is_scheduled and self._loop is not None:
            self._is_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._handle_reports)
            except RuntimeError:  # The node is gone; what is committed stays committed.
                return

    # ---- on the node's loop ----------------------------------------------------------------------------

    def _handle_reports(self) -> None:
        self._is_scheduled = False
        assert self._listener is not None
        listener = _Leading(self, self._listener)
        while self._reports and not self._has_failed:
            known_id = self.leader_id
            events, self._status = self._reports[0]
            try:
                for event in events:
                    event(listener)
                if self.leader_id != known_id:
                    listener.handle_leader_change()
                self._reports.popleft()
            except Exception as error:
                # Earlier events have been handled and must not be repeated; none may follow the failed one.
                self._has_failed = True
                if self._core is not None and self._call_core is not None:
                    self._call_core(self._core.fail, error)

    def set_leading(self, epoch: int) -> None:
        """Begin to accept batches in this epoch, or with 0 stop accepting them."""
        self._leading_epoch = epoch
        if not epoch:
            self._waiting.clear()


class _Leading:
    """The listener, wrapped so that this quorum's leadership is set before each call about it."""

    def __init__(self, quorum: RaftQuorum, listener: QuorumListener) -> None:
        self._quorum = quorum
        self._listener = listener
        self.handle_commit = listener.handle_commit
        self.handle_snapshot = listener.handle_snapshot
        self.handle_leader_change = listener.handle_leader_change

    @property
    def committed_image(self) -> MetadataImage:
        return self._listener.committed_image

    def handle_leadership(self, epoch: int) -> None:
        self._quorum.set_leading(epoch)
        self._listener.handle_leadership(epoch)

    def handle_resignation(self, detail: str) -> None:
        self._quorum.set_leading(0)
        self._listener.handle_resignation(detail)

    def handle_peer_link(self, node_id: int, *, is_up: bool) -> None:
        self._listener.handle_peer_link(node_id, is_up=is_up)

"""A voter on its own event loop: runs cycles for messages and batches, and makes images of commits.

Events for the node are prepared here, with images and changes, and passed to it together once per cycle. A
batch whose records contradict the image is skipped, by every voter alike. A batch with records that this
release does not know stops the process, because skipping it would lose a change of the metadata.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import is_not
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.delta import MetadataChanges, MetadataDelta, replay_batch
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.image_changes import changes_between
from ottla.metadata_raft.quorum import QuorumListener, QuorumStatus, ReplicaStatus
from ottla.metadata_raft.raft_entry import open_entry
from ottla.metadata_raft.raft_guard import Links
from ottla.metadata_raft.raft_journal import JournalEntry, RaftJournal
from ottla.metadata_raft.raft_link import AcceptedLink, LinkSettings, RaftLinks
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_node import use_clock
from ottla.metadata_raft.raft_snapshots import SnapshotStore, StoredSnapshot
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import Voter, VoterSet

# The delay of a timer after the due time, since the engine acts only after that time.
TICK_DELAY_SECONDS: Final = 0.000_1
AGAIN_SECONDS: Final = 0.02  # before something due that could not be done is tried again
# The age at which a cycle makes a new status, of a leader with all voters' progress, and of a follower, which
# only has its own. A voter is not woken for it before twice that age: a heartbeat comes before.
STATUS_SECONDS: Final = 0.25
FOLLOWER_STATUS_SECONDS: Final = 1.0
# A voter with more committed batches to apply makes one image of them: each image copies what it changes.
MAX_SINGLE_IMAGES: Final = 64
CLOSE_SECONDS: Final = 1.0  # the time to commit appended batches when the node stops

log = logging.getLogger(__name__)


class SnapshotRule(NamedTuple):
    """The limits that trigger a snapshot: bytes of records, and time if anything changed (0: never)."""

    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    max_snapshot_interval_ms: int = 3_600_000


class CoreSettings(NamedTuple):
    """The identity of this voter, its settings, and the content of its disk."""

    voter: Voter
    configured: VoterSet
    journal: RaftJournal
    store: SnapshotStore
    image: MetadataImage
    empty: MetadataImage
    links: LinkSettings | None  # None: a lone voter without a listener
    snapshots: SnapshotRule
    chance: Random
    unique: Callable[[int], bytes]
    now_ms: Callable[[], int]


class NodeSide(Protocol):
    """The node's side of the voter."""

    def report(self, events: Sequence[Callable[[QuorumListener], None]], status: QuorumStatus) -> None: ...


class _NoLinks:
    """The links of a lone voter: none."""

    def send(self, node_id: int, frame: bytes) -> None:
        return

    def has_room(self, node_id: int) -> bool:
        return False


class RaftCore:
    """A voter and its links. All methods are called on its own loop."""

    def __init__(self, settings: CoreSettings, node: NodeSide) -> None:
        self._settings = settings
        self._node = node
        self._image = settings.image
        self._applied_index = settings.store.start.raft_index
        self._snapshot_ms = settings.image.timestamp_ms
        self._own: dict[int, MetadataBatch] = {}  # index -> batch appended by this leader, not decoded again
        self._events: list[Callable[[QuorumListener], None]] = []
        self._is_scheduled = False
        self._ticks_at = inf  # the time for which the timer is set
        self._is_closing = self._is_started = False
        self._status: QuorumStatus | None = None
        self._status_at = 0.0
        self._status_members: Sequence[object] = (None, None)
        self._loop: asyncio.AbstractEventLoop
        self._ended: asyncio.Future[None]
        self._next_tick: asyncio.TimerHandle
        self.links: RaftLinks | None = None
        self.member: RaftMember

    # ---- start and stop --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the voter until `close`; any error is fatal to the node."""
        settings = self._settings
        self._loop = asyncio.get_running_loop()
        # The library has one clock for the whole process, and a simulation may have set another one.
        use_clock(self._loop.time)
        self._ended = self._loop.create_future()
        links: Links = _NoLinks()
        if settings.links is not None:
            links = self.links = RaftLinks(
                settings.links,
                chance=settings.chance,
                unique=settings.unique,
                on_frame=lambda peer, frame: self._guarded(self.member.guard.receive, peer, frame),
                on_link=lambda peer, is_up: self._guarded(self._link_changed, peer, is_up),
            )
            await self._listen(self.links, settings.links.listen)
        self.member = RaftMember(
            settings.voter,
            settings.journal,
            settings.store,
            self,
            configured=settings.configured,
            links=links,
            work=self._work,
            chance=settings.chance,
            now_ms=settings.now_ms,
            empty=settings.empty,
        )
        async with asyncio.TaskGroup() as tasks:
            children = []
            if self.links is not None:
                self.handle_voters(self.member.voters)
                children.append(tasks.create_task(self.links.run()))
            self._is_started = True
            self._next_tick = self._loop.call_later(0, self._wake)
            if self._is_closing:
                self._end()
            try:
                await self._ended
            finally:
                self._next_tick.cancel()
                for child in children:
                    child.cancel()

    def close(self) -> None:
        """Hand over leadership, and end when appended batches are committed, or after CLOSE_SECONDS."""
        self._is_closing = True
        if self._is_started:
            self.member.engine.hand_over()
            self._loop.call_later(CLOSE_SECONDS, self._end)
            self._wake()

    def take_link(self, link: AcceptedLink) -> None:
        """Take over a link that the node's loop accepted."""
        if self.links is None:
            link.sock.close()
        else:
            self.links.take(link)

    @staticmethod
    async def _listen(links: RaftLinks, address: tuple[str, int]) -> None:
        try:
            await links.listen()
        except OSError as error:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The controller listener cannot be opened at {address[0]}:{address[1]}: {error.strerror}.",
            ) from None

    def fail(self, error: BaseException) -> None:
        """Stop the voter, because the node could not handle an event."""
        self._end(error)

    def _end(self, error: BaseException | None = None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)

    def _guarded(self, action: Callable[..., object], *arguments: object) -> None:
        """Call a function for a link and schedule a cycle.

        A KafkaError, for a malformed message, is raised to the link; any other error ends the voter.
        """
        try:
            action(*arguments)
        except KafkaError:
            raise
        except Exception as error:
            self._end(error)
        self._wake()

    def _due_at(self) -> float:
        """Return the time at which the next cycle is due if nothing arrives before."""
        status_at = self._status_at + 2 * self._status_seconds
        if self.links is None and self.member.engine.is_leading:
            return status_at  # a lone voter sends no heartbeats
        return min(status_at, self.member.due_at)

    def _tick(self) -> None:
        # The cycle runs in the timer's own turn: each further turn would take the GIL from the node's thread.
        self._ticks_at = inf
        if not self._is_scheduled and self._due_at() < self._loop.time():
            self._cycle()
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        """Set the timer for the next due time; an earlier timer is kept, and set again by `_tick`."""
        ticks_at, now = self._due_at() + TICK_DELAY_SECONDS, self._loop.time()
        if ticks_at <= now:
            ticks_at = now + AGAIN_SECONDS
        if ticks_at < self._ticks_at:
            self._next_tick.cancel()
            self._ticks_at = ticks_at
            self._next_tick = self._loop.call_at(ticks_at, self._tick)

    def _wake(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._cycle)

    def _cycle(self) -> None:
        self._is_scheduled = False
        if self._ended.done():
            return
        try:
            if self.member.cycle():
                self._wake()
            self._make_snapshot_if_due()
            self._report()
            self._set_timer()
        except Exception as error:
            self._end(error)
            return
        engine = self.member.engine
        waits = engine.is_leading and self.member.may_commit and not self.member.has_committed_all
        if self._is_closing and not waits:
            self._end()

    # ---- calls of the node -----------------------------------------------------------------------------

    def append(self, batches: Sequence[tuple[MetadataBatch, bytes | None]]) -> None:
        """Append the batches that the node decided as leader, encoding those that the node did not encode.

        Batches that come after the end of leadership are dropped: the resignation has failed them already.
        """
        try:
            for batch, encoded in batches:
                self.member.propose(batch, encoded)
                self._own[self.member.journal.last.raft_index] = batch
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                # The node relies on the append: its next decisions would not follow the log.
                log.error(
                    "A change of the metadata does not follow its log, so this "
                    "node gives up leadership of the quorum: %s",
                    error,
                )
                self.member.engine.adopt_term(self.member.engine.term + 1)
        except Exception as error:
            self._end(error)
        self._wake()

    def catch_up(self, voter: Voter) -> None:
        """Replicate the log to a node, so that it can become a voter."""
        self.member.add_learner(voter)
        if self.links is not None:
            self.handle_voters(self.member.voters.with_voter(voter))
        self._wake()

    def hand_over(self) -> None:
        """Hand leadership to another voter with the whole log, if there is one."""
        self.member.engine.hand_over()
        self._wake()

    # ---- calls of the member ---------------------------------------------------------------------------

    def handle_entries(self, entries: Sequence[JournalEntry]) -> None:
        assert entries[0].raft_index == self._applied_index + 1, "an entry is missing"
        batches = [self._open(entry) for entry in entries]
        self._applied_index = entries[-1].raft_index
        if len(batches) > MAX_SINGLE_IMAGES and not self.member.has_announced:
            self._apply_together(batches)
        else:
            for batch in batches:
                self._apply(batch)

    def _open(self, entry: JournalEntry) -> MetadataBatch:
        own = self._own.pop(entry.raft_index, None)
        return own if own is not None and own.epoch == entry.term else open_entry(entry.batch)

    def _apply(self, batch: MetadataBatch) -> None:
        assert batch.base_offset == self._image.version + 1, "offsets and entries diverge"
        self._image, changes = apply_batch(self._image, batch)
        image = self._image
        self._events.append(lambda listener: listener.handle_commit(batch, image, changes))

    def _apply_together(self, batches: Sequence[MetadataBatch]) -> None:
        before, delta = self._image, MetadataDelta(self._image)
        try:
            for batch in batches:
                for record in batch.records:
                    delta.replay(record)
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                raise
            for batch in batches:
                self._image, _ = apply_batch(self._image, batch)
            self._jump(changes_between(before, self._image))
            return
        last = batches[-1]
        self._image = delta.apply(version=last.last_offset, epoch=last.epoch, timestamp_ms=last.timestamp_ms)
        self._jump(delta.changes())

    def _jump(self, changes: MetadataChanges) -> None:
        image = self._image
        self._events.append(lambda listener: listener.handle_snapshot(image, changes))

    def handle_installed(self, snapshot: StoredSnapshot) -> None:
        before, self._image = self._image, snapshot.image
        self._applied_index = snapshot.start.raft_index
        self._jump(changes_between(before, self._image))

    def handle_leadership(self, term: int) -> None:
        log.info("This node leads the metadata quorum in epoch %d.", term)
        self._events.append(lambda listener: listener.handle_leadership(term))

    def handle_resignation(self) -> None:
        self._own.clear()
        detail = "This node does not lead the metadata quorum any more."
        self._events.append(lambda listener: listener.handle_resignation(detail))

    def handle_voters(self, voters: VoterSet) -> None:
        if self.links is not None:
            # The addresses in the settings take precedence; those in the log may be older.
            here = self._settings.configured.by_id
            self.links.dial(
                VoterSet.of(
                    one._replace(host=known.host, port=known.port)
                    if (known := here.get(one.node_id))
                    else one
                    for one in voters
                )
            )

    def _link_changed(self, peer: Any, is_up: bool) -> None:
        self.member.link_is_up(peer, is_up=is_up)
        self._events.append(lambda listener: listener.handle_peer_link(peer.node_id, is_up=is_up))

    # ---- snapshots -------------------------------------------------------------------------------------

    def _make_snapshot_if_due(self) -> None:
        member, rule, now_ms = self.member, self._settings.snapshots, self._settings.now_ms()
        if self._snapshot_ms < 0:
            self._snapshot_ms = now_ms
        has_changed = self._applied_index > member.store.start.raft_index
        if member.is_working or not has_changed:
            return
        is_old = 0 < rule.max_snapshot_interval_ms <= now_ms - self._snapshot_ms
        if is_old or member.journal.bytes_since_start >= rule.max_record_bytes_between_snapshots:
            self._snapshot_ms = now_ms
            member.make_snapshot(self._image, self._applied_index)

    def _work(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def finished(work: "asyncio.Future[Any]") -> None:
            if work.cancelled() or self._ended.done():
                return
            error = work.exception()
            try:
                done(error if error is not None else work.result())
            except Exception as failure:
                self._end(failure)
            self._wake()

        self._loop.run_in_executor(None, job).add_done_callback(finished)

    # ---- events for the node ---------------------------------------------------------------------------

    def _report(self) -> None:
        events, status = self._events, self._current_status()
        self._events = []
        self._node.report(events, status)

    def _current_status(self) -> QuorumStatus:
        """Return the status, the same object if nothing changed; others' progress is updated periodically.

        The own row changes with the high watermark, which is never beyond the own log end offset.
        """
        engine, members = self.member.engine, (self.member.voters, self.member.learners)
        status, end_offset = self._status, self._image.version + 1
        is_stale = self._is_status_old or any(map(is_not, members, self._status_members))
        # A candidate becomes the leader of the same term, and its status has no other voter's progress.
        leadership = engine.term, engine.leader_id
        if is_stale or status is None or (status.epoch, status.leader_id) != leadership:
            self._status, self._status_members = self._make_status(), members
            self._status_at = self._loop.time()
        elif status.high_watermark != end_offset:
            own = self._own_replica()
            self._status = status._replace(
                high_watermark=end_offset,
                voters=[own if row.node_id == own.node_id else row for row in status.voters],
                observers=[own if row.node_id == own.node_id else row for row in status.observers],
            )
        assert self._status is not None
        return self._status

    @property
    def _is_status_old(self) -> bool:
        return self._loop.time() - self._status_at >= self._status_seconds

    @property
    def _status_seconds(self) -> float:
        return STATUS_SECONDS if self.member.engine.is_leading else FOLLOWER_STATUS_SECONDS

    def _make_status(self) -> QuorumStatus:
        member, own = self.member, self._own_replica()
        found = {own.node_id: own}
        if member.engine.is_leading:
            for one in member.progress():
                matched = member.journal.at(one.match_index)
                found[one.node_id] = ReplicaStatus(
                    one.node_id,
                    member.directory_of(one.node_id),
                    -1 if matched is None else matched.end_offset,
                    self._wall_ms(one.last_response),
                    self._wall_ms(one.caught_up_at),
                    member.replication.has_forgotten(one.node_id),
                    member.replication.is_copied(one.node_id),
                )
        voters = [
            found.get(voter.node_id, ReplicaStatus(voter.node_id, voter.directory_id, -1, -1, -1))
            for voter in member.voters
        ]
        observers = [status for node_id, status in sorted(found.items()) if node_id not in member.voters]
        return QuorumStatus(
            member.engine.leader_id,
            member.engine.term,
            self._image.version + 1,
            voters,
            observers,
            member.returned,
            member.wants_entry,
        )

    def _own_replica(self) -> ReplicaStatus:
        own, now_ms = self._settings.voter, self._settings.now_ms()
        return ReplicaStatus(
            own.node_id,
            own.directory_id,
            self.member.journal.last.end_offset,
            now_ms,
            now_ms,
            self.member.journal.lost_promise is not None,
            self.member.journal.is_copied,
        )

    def _wall_ms(self, at: float | None) -> int:
        if at is None:
            return -1
        return self._settings.now_ms() - int((self.member.engine.now() - at) * 1000)

    def unlinked(self) -> Mapping[int, str]:
        """Return `RaftLinks.unlinked()`; a voter without links has none."""
        return {} if self.links is None else self.links.unlinked()

    def waits_for(self) -> str | None:
        """Return which voters are missing, by their links or their votes; None if no voter is."""
        return None if self.links is None else self.links.waits_for() or self.member.election.waits_for()

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """Return the address of a voter's broker for other brokers; None if it is unknown."""
        return None if self.links is None else self.links.endpoints.get(node_id)


def apply_batch(image: MetadataImage, batch: MetadataBatch) -> tuple[MetadataImage, MetadataChanges]:
    """Return the image after a committed batch; one that contradicts the image changes only the offset."""
    try:
        return replay_batch(image, batch)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            raise
        log.error("The metadata batch at offset %d was skipped: %s", batch.base_offset, error)
        delta = MetadataDelta(image)
        after = delta.apply(version=batch.last_offset, epoch=batch.epoch, timestamp_ms=batch.timestamp_ms)
        return after, delta.changes()

"""One voter of the quorum: journal, snapshots, engine and the parts around it, driven by `cycle`.

It has no thread, no socket and no clock of its own: links pass frames to it, `cycle` is called when something
has arrived or is due, and blocking work is passed to `work`. So a simulation can run a whole quorum in one
process, with the same code as in a cluster.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.metadata_version import LOWEST_METADATA_VERSION
from ottla.metadata_raft.raft_election import Election
from ottla.metadata_raft.raft_entry import encode_entry, encode_leader_change, voters_of, with_index
from ottla.metadata_raft.raft_follower import Follower
from ottla.metadata_raft.raft_guard import Guard, Links, Peer
from ottla.metadata_raft.raft_journal import JournalEntry, RaftJournal
from ottla.metadata_raft.raft_messages import SnapshotChunk
from ottla.metadata_raft.raft_node import RaftEngine
from ottla.metadata_raft.raft_promises import Promises
from ottla.metadata_raft.raft_replication import Replication, ReplicationLimits
from ottla.metadata_raft.raft_snapshots import SnapshotStore, StoredSnapshot
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import NoOpRecord
from ottla.metadata_raft.voters import Voter, VoterSet, record_of_voters

# Runs the first function where it may block, then calls the second one on the loop with the result or error.
Work = Callable[[Callable[[], Any], Callable[[Any], None]], None]

MAX_LEARNERS: Final = 16
# The shortest interval of messages that only tell followers the commit index; other messages carry it, too.
COMMIT_NOTICE_SECONDS: Final = 0.005
_COPY_ID_BITS: Final = 62  # positive in an int64, and different at each start

log = logging.getLogger(__name__)


class MemberListener(Protocol):
    """The consumer of committed entries; called within `cycle`, in order."""

    def handle_entries(self, entries: Sequence[JournalEntry]) -> None: ...

    def handle_installed(self, snapshot: StoredSnapshot) -> None: ...

    def handle_leadership(self, term: int) -> None: ...

    def handle_resignation(self) -> None: ...

    def handle_voters(self, voters: VoterSet) -> None: ...


class MemberStatus(NamedTuple):
    """The progress of a peer, as the leader knows it; times in the engine's seconds."""

    node_id: int
    match_index: int
    last_response: float | None
    caught_up_at: float | None


class RaftMember:
    """One voter. All calls are made on one loop, except for the functions that `work` runs."""

    def __init__(
        self,
        voter: Voter,
        journal: RaftJournal,
        store: SnapshotStore,
        listener: MemberListener,
        *,
        configured: VoterSet,
        links: Links,
        work: Work,
        chance: Random,
        now_ms: Callable[[], int],
        empty: MetadataImage,
        limits: ReplicationLimits = ReplicationLimits(),
    ) -> None:
        self.voter = voter
        self.journal = journal
        self.store = store
        self._listener = listener
        # Used until the log has a set of voters. A log from before the quorum was written by this node alone.
        if journal.is_older_than_quorum:
            configured = VoterSet.of([voter])
        self._configured = configured.with_voter(voter) if voter.node_id in configured else configured
        self._work = work
        self._now_ms = now_ms
        self._empty = empty
        self._peers: dict[int, bytes] = {}  # node id -> directory id of all nodes that had a link to this one
        self._linked: set[int] = set()  # the nodes that have a link
        self._learners: dict[int, Voter] = {}
        self._known_disks: dict[int, bytes] = {}  # node id -> directory id that its known progress is of
        self._applied: list[JournalEntry] = []
        self._announced_term = 0  # the term that the listener was notified to lead in, else 0
        self._began_empty = journal.last.raft_index == 0
        self._stands_aside = False  # set for a lone voter that met another quorum of its cluster
        self._ready_index = 0  # the last entry that this leader appends before it may accept batches
        self._noticed_at = 0.0  # the time of the last message that only carried the commit index
        self.notice_at: float | None = None  # when the next one is due, in the engine's seconds
        self.is_working = False  # True while a snapshot is being stored
        self.guard = Guard(links, self)
        start = store.start.raft_index
        self.engine = RaftEngine(voter.node_id, journal, self, applied_index=start, chance=chance)
        if journal.is_copied and self.is_lone:
            log.info(
                "The data directory of this node is a copy: it was moved or "
                "restored. The node is the only voter, so it continues with it."
            )
            journal.own_directory()
        copy_id = 1 + chance.getrandbits(_COPY_ID_BITS) if journal.is_copied else 0
        self.promises = Promises(voter, self.engine, journal, copy_id=copy_id, post=self.guard.post)
        self.replication = Replication(
            self.engine,
            journal,
            store,
            post=self.guard.post,
            has_room=links.has_room,
            directory_of=self.directory_of,
            voter_sets=self._voter_sets,
            promises=self.promises,
            limits=limits,
        )
        self.follower = Follower(
            self.engine, journal, self, copy_id=lambda: self.promises.copy_id, post=self.guard.post
        )
        self.election = Election(
            voter,
            self.engine,
            journal,
            self.follower,
            voters=lambda: self.voters,
            promises=self.promises,
            note_copy=self.replication.note_copy,
            post=self.guard.post,
        )
        self.guard.engine, self.guard.election = self.engine, self.election
        self.guard.follower, self.guard.replication = self.follower, self.replication
        self.guard.promises = self.promises
        self._known_voters = self.voters
        self._set_peers()
        if [one.node_id for one in self.voters] == [voter.node_id]:
            self.engine.stand_for_election()
        else:
            self.engine.wait_briefly()
        journal.sync()

    # ---- membership ------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voters: the latest set in the log, committed or not (Raft dissertation, 4.1)."""
        return self.journal.voters or self._configured

    def _voter_sets(self) -> Sequence[VoterSet]:
        """Return the committed set of voters, and the latest one if it differs."""
        committed = self.journal.voters_at(self.engine.commit_index)
        return [self.voters] if committed in (None, self.voters) else [committed, self.voters]

    def counts(self, peer: Peer) -> bool:
        """Return True if the answers of a peer count: it is a voter or a learner with this directory."""
        if peer.node_id in self.voters:
            return self.voters.has(*peer)
        learner = self._learners.get(peer.node_id)
        return learner is not None and learner.directory_id == peer.directory_id

    @property
    def is_lone(self) -> bool:
        """True if this voter is the only one."""
        return [(one.node_id, one.directory_id) for one in self.voters] == [self.voter[:2]]

    def handle_other_quorum(self, peer: Peer, term: int) -> None:
        """Resign as a lone voter, which begins all terms itself, if a node of the cluster is in a later term.

        Only a voter does so whose log began in this process: it began with an empty disk although a quorum
        exists.
        """
        if self._began_empty and not self._stands_aside:
            self._stands_aside = True
            self.engine.follow()
            log.error(
                "This node began with empty metadata, but node %d is in epoch %d: "
                "this node has lost its disk, and gives up leadership. Name all "
                "voters in its controller.quorum.voters, and start it with empty "
                "directories.",
                peer.node_id,
                term,
            )

    def _set_peers(self) -> None:
        others = [voter.node_id for voter in self.voters if voter.node_id != self.voter.node_id]
        disks = {**{one.node_id: one.directory_id for one in self._learners.values()}, **self._disks()}
        for node_id, directory_id in self._known_disks.items():
            if disks.get(node_id) not in (directory_id, None) and directory_id != ZERO_UUID:
                # Entries on the previous disk of this node are not on the new one.
                self.engine.forget_progress(node_id)
                self.replication.forget(node_id)
        self._known_disks.update(disks)
        self.engine.set_peers(others, [one for one in self._learners if one not in others])

    def _disks(self) -> dict[int, bytes]:
        return {voter.node_id: voter.directory_id for voter in self.voters}

    def _look_at_voters(self) -> None:
        """Apply a changed set of voters: one counts as soon as it is in the log, until it is truncated."""
        if self.voters is not self._known_voters:
            self._known_voters = self.voters
            self._began_empty &= self.is_lone
            self._learners = {
                node_id: one for node_id, one in self._learners.items() if node_id not in self.voters
            }
            self._update_learners()
            self._set_peers()
            self._listener.handle_voters(self.voters)

    def link_is_up(self, peer: Peer, *, is_up: bool) -> None:
        """Note that a link to a peer was opened or closed."""
        if is_up:
            self._peers[peer.node_id] = peer.directory_id
            self._linked.add(peer.node_id)
            self.replication.probe(peer.node_id)
            if self.engine.is_leading:
                # A voter with a restored disk must not vote before it is reminded of what it acknowledged.
                self.engine.send_soon()
        else:
            self._linked.discard(peer.node_id)
            if peer.node_id == self.engine.leader_id:
                self.election.handle_lost_leader()
        self.engine.set_connected(peer.node_id, is_up)
        self._update_learners()

    def _update_learners(self) -> None:
        """Make every linked node that is not a voter a learner, if this member leads."""
        observers = {
            node_id: Voter(node_id, self._peers[node_id], "", 0)
            for node_id in sorted(self._linked)
            if node_id not in self.voters
        }
        requested = {node_id: one for node_id, one in self._learners.items() if one.host}
        learners = dict([*observers.items(), *requested.items()][:MAX_LEARNERS])
        if self.engine.is_leading and learners != self._learners:
            self._learners = learners
            self._set_peers()

    def add_learner(self, voter: Voter) -> None:
        """Replicate the log to a node without counting its acknowledgements, until it becomes a voter."""
        if voter.node_id in self.voters or not self.engine.is_leading:
            return
        self._learners = {**self._learners, voter.node_id: voter}
        self._set_peers()
        self.engine.send_soon()

    @property
    def learners(self) -> Mapping[int, Voter]:
        """The learners of this leader by node id; another object after each change."""
        return self._learners

    @property
    def has_committed_all(self) -> bool:
        """True if every entry of the log is committed."""
        return self.journal.last.raft_index <= self.engine.commit_index

    @property
    def may_commit(self) -> bool:
        """True if there are links to a majority of the voters."""
        linked = sum(one.node_id in self._linked or one.node_id == self.voter.node_id for one in self.voters)
        return linked > len(self.voters) // 2

    @property
    def has_announced(self) -> bool:
        """True if the listener was notified that this member leads."""
        return self._announced_term > 0

    @property
    def returned(self) -> list[tuple[int, bytes]]:
        """The (node id, directory id) of linked nodes with the id of a voter but another directory."""
        linked = [(node_id, self._peers[node_id]) for node_id in sorted(self._linked)]
        return [one for one in linked if one[0] in self.voters and not self.voters.has(*one)]

    def directory_of(self, node_id: int) -> bytes:
        """Return the directory id of a voter or learner, zeros if it is unknown."""
        known = self._learners.get(node_id) or self.voters.by_id.get(node_id)
        return bytes(16) if known is None else known.directory_id

    def has_caught_up(self, node_id: int) -> bool:
        """Return True if a peer has all committed entries."""
        return self.engine.is_leading and self.engine.match_of(node_id) >= self.engine.commit_index > 0

    # ---- appends of the leader -------------------------------------------------------------------------

    def propose(self, batch: MetadataBatch, encoded: bytes | None = None) -> None:
        """Append a batch (`encoded` is its entry, with any index); NOT_CONTROLLER unless this member leads.

        A set of voters may change one voter, after the previous change and an entry of this term are
        committed (Raft dissertation, 4.1, and its correction of 2015): INVALID_REQUEST otherwise.
        """
        engine, last = self.engine, self.journal.last
        if not engine.is_leading or batch.epoch != engine.term or self._announced_term != engine.term:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")
        assert batch.base_offset == last.end_offset, "a batch does not follow the log"
        index = last.raft_index + 1
        entry = encode_entry(batch, index) if encoded is None else with_index(encoded, index)
        voters = voters_of(entry)
        if voters is not None:
            self._check_change(voters)
        engine.queue(entry)
        engine.send_soon()
        self._look_at_voters()

    def _check_change(self, voters: VoterSet) -> None:
        changed = {one.node_id for one in set(self.voters) ^ set(voters)}
        if self.journal.voters_index > self.engine.commit_index:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Another change of the voters is in progress: try again when it is complete.",
            )
        # A voter that only changes its disk would be added and removed at once; majorities might not overlap.
        keeps_disks = all(
            one.directory_id == old.directory_id
            for one in voters
            if (old := self.voters.by_id.get(one.node_id))
        )
        is_one = len(changed) == 1 and keeps_disks and self.voter.node_id in voters
        if not is_one or not voters.is_settled:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Voters can only be added or removed one at a time.")

    # ---- calls of the engine ---------------------------------------------------------------------------

    def send_from_engine(self, node_id: int, message: dict[str, Any]) -> None:
        self.guard.post_from_engine(node_id, message)

    def leader_change_entry(self, raft_index: int, term: int) -> bytes:
        return encode_leader_change(
            leader_id=self.voter.node_id,
            voters=self.voters,
            index=raft_index,
            term=term,
            base_offset=self.journal.last.end_offset,
            timestamp_ms=self._now_ms(),
        )

    def begin_leading(self) -> None:
        # A learner's entries of an earlier term may be truncated since, and the engine resets only voters.
        self._forget_learners()
        self.replication.begin_leading()

    def _forget_learners(self) -> None:
        self._learners = {}
        self._set_peers()

    def handle_leading(self) -> None:
        if self.journal.voters is None:
            self._append_first_voters()
        self._ready_index = self.journal.last.raft_index
        self._update_learners()

    def _append_first_voters(self) -> None:
        """Append the voters of the settings with their directory ids, which all of them have sent."""
        settled = VoterSet.of(
            voter._replace(directory_id=self._peers.get(voter.node_id, voter.directory_id))
            for voter in self.voters
        )
        assert settled.is_settled, "a leader was chosen before every voter was known"
        last, term = self.journal.last, self.engine.term
        index, records = last.raft_index + 1, [record_of_voters(settled)]
        batch = MetadataBatch(last.end_offset, term, self._now_ms(), records, LOWEST_METADATA_VERSION)
        entry = encode_entry(batch, index)
        self.journal.append(entry, index, term)
        self._look_at_voters()

    @property
    def wants_entry(self) -> bool:
        """True if the listener should propose a batch now, such as a NoOpRecord."""
        return self._announced_term > 0 and self.engine.is_leading and self.replication.wants_entry

    def _append_wanted(self) -> None:
        """Append a NoOpRecord if replication waits for an entry and the listener cannot propose one yet."""
        if self.engine.is_leading and not self._announced_term and self.replication.wants_entry:
            last = self.journal.last
            batch = MetadataBatch(
                last.end_offset, self.engine.term, self._now_ms(), [NoOpRecord()], LOWEST_METADATA_VERSION
            )
            self.engine.queue(encode_entry(batch, last.raft_index + 1))
            self._ready_index = self.journal.last.raft_index
            self.engine.send_soon()

    def replicate(self) -> None:
        peers = {voter.node_id for voter in self.voters} | set(self._learners)
        for node_id in sorted(peers - {self.voter.node_id}):
            self.replication.replicate_to(node_id)

    def apply(self, entry: JournalEntry) -> None:
        self._applied.append(entry)

    # ---- snapshots -------------------------------------------------------------------------------------

    def make_snapshot(self, image: MetadataImage, raft_index: int) -> None:
        """Begin to store a snapshot of `image`, whose last committed entry is `raft_index`."""
        assert not self.is_working
        self.is_working = True
        self.journal.begin_segment()

        def finish(stored: Any) -> None:
            self.is_working = False
            if isinstance(stored, OSError):
                # Nothing is lost: the segments stay, and the next snapshot may succeed.
                log.error("A snapshot of the metadata could not be written: %s", stored)
            elif isinstance(stored, BaseException):
                raise stored
            else:
                self._take_snapshot(stored)

        self._work(lambda: self.store.write(image, index=raft_index), finish)

    def _take_snapshot(self, stored: StoredSnapshot) -> None:
        if stored.start.raft_index >= self.store.start.raft_index:
            self.store.latest = stored
            self.journal.forget_until(stored.start)

    def install(self, content: bytes, chunk: SnapshotChunk, done: Callable[[bool], None]) -> None:
        """Store and apply a complete snapshot from the leader."""
        if self.is_working:
            done(False)
            return
        self.is_working = True

        def finish(stored: Any) -> None:
            self.is_working = False
            if isinstance(stored, KafkaError | OSError):
                log.error("A snapshot of the metadata from the leader was rejected: %s", stored)
                done(False)
            elif isinstance(stored, BaseException):
                raise stored
            else:
                self._install(stored)
                done(True)

        self._work(
            lambda: self.store.install(
                content, end_offset=chunk.end_offset, term=chunk.last_term, empty=self._empty
            ),
            finish,
        )

    def _install(self, stored: StoredSnapshot) -> None:
        start = stored.start
        if start.raft_index <= self.engine.commit_index:
            self._take_snapshot(stored)
            return
        self.store.latest = stored
        if self.journal.term_at(start.raft_index) == start.term:
            self.journal.forget_until(start)
        else:
            self.journal.restart(start)
        self.engine.commit_index = self.engine.applied_index = start.raft_index
        self._applied.clear()
        self._look_at_voters()
        self._listener.handle_installed(stored)

    # ---- the cycle -------------------------------------------------------------------------------------

    @property
    def due_at(self) -> float:
        """The time of the next cycle that is due even if nothing arrives."""
        due_at = self.engine.due_at
        return due_at if self.notice_at is None else min(due_at, self.notice_at)

    def cycle(self) -> bool:
        """Do what is due; return True if another cycle should follow at once.

        An error of the disk is raised and is fatal: it is unknown what a failed sync wrote.
        """
        engine = self.engine
        commit_index, sends = engine.commit_index, engine.sends
        if self._is_notice_due:
            engine.send_soon()
        if self._stands_aside:
            engine.postpone_election()
        self._append_wanted()
        self.election.before_tick()
        if len(self.voters) == 1:
            # For a lone voter only its own sync makes entries durable, so it comes before they count.
            self._sync()
        engine.tick()
        self._look_at_voters()
        if self.journal.is_state_dirty:
            # A lone voter wins at once. If it sent entries of a term that it loses with its power, the same
            # term would get other entries later.
            self._sync()
        self.guard.flush_early()
        self._sync()
        self.promises.look()
        self.guard.flush()
        self._announce()
        self._plan_notice(has_sent=engine.sends != sends, has_moved=engine.commit_index != commit_index)
        is_alone = engine.is_leading and len(self.voters) == 1
        return self._is_notice_due or (is_alone and self.journal.last.raft_index > engine.commit_index)

    def _sync(self) -> None:
        if self.journal.is_dirty:
            began_s = time.monotonic()
            self.journal.sync()
            self.journal.sync_times.observe(time.monotonic() - began_s)

    def _plan_notice(self, *, has_sent: bool, has_moved: bool) -> None:
        """Schedule a message with the commit index to followers, because their commands wait for it."""
        if has_sent or not self.engine.is_leading:
            self.notice_at = None
        elif has_moved and self.notice_at is None:
            self._noticed_at = max(self.engine.now(), self._noticed_at + COMMIT_NOTICE_SECONDS)
            self.notice_at = self._noticed_at

    @property
    def _is_notice_due(self) -> bool:
        return self.notice_at is not None and self.notice_at <= self.engine.now()

    def _announce(self) -> None:
        engine = self.engine
        if self._announced_term and (not engine.is_leading or engine.term != self._announced_term):
            self._announced_term = 0
            if not engine.is_leading:
                self._forget_learners()
            self._listener.handle_resignation()
        if self._applied:
            entries, self._applied = self._applied, []
            self._listener.handle_entries(entries)
        if engine.is_leading and not self._announced_term and engine.applied_index >= self._ready_index:
            self._announced_term = engine.term
            self._listener.handle_leadership(engine.term)

    def progress(self) -> list[MemberStatus]:
        """Return the progress of all peers, including learners."""
        self.replication.note_heartbeats()
        peers = {voter.node_id for voter in self.voters} | set(self._learners)
        return [
            MemberStatus(
                node_id,
                self.engine.match_of(node_id),
                self.engine.last_response(node_id),
                self.replication.caught_up_at(node_id),
            )
            for node_id in sorted(peers - {self.voter.node_id})
        ]

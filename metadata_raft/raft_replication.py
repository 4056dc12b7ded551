"""The leader's side of replication: sends entries and snapshots to peers, and tracks their progress.

A peer is first probed with empty messages until it agrees on an entry. Then entries are sent without waiting
for answers, up to a limit. Progress only grows within a term, so a late or repeated answer changes nothing. A
peer that needs entries below the start of the log is sent a snapshot, one chunk per answer.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.metadata_raft.raft_journal import RaftJournal
from ottla.metadata_raft.raft_messages import (
    AppendedEntry,
    AppendEntries,
    AppendReply,
    PromiseForgotten,
    PromiseReminder,
    RaftMessage,
    SnapshotChunk,
    SnapshotReply,
)
from ottla.metadata_raft.raft_node import RaftEngine
from ottla.metadata_raft.raft_promises import Promises
from ottla.metadata_raft.raft_snapshots import SnapshotStore, StoredSnapshot
from ottla.metadata_raft.voters import VoterSet

CHUNK_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class ReplicationLimits(NamedTuple):
    """The limits of what is sent at once; tests use small ones, so that little data takes many messages."""

    message_bytes: int = 1 << 20  # of entries in one message, unless a single entry is larger
    message_entries: int = 5_000
    messages_at_once: int = 16  # for one peer in one tick, so that the others get their heartbeats
    entries_ahead: int = 20_000  # sent and not yet answered
    chunk_bytes: int = 1 << 18


@dataclass(slots=True)
class _Transfer:
    """A snapshot that is being sent to one peer."""

    snapshot: StoredSnapshot
    position: int
    sent_at: float


@dataclass(slots=True)
class _Progress:
    """The progress of a peer beside its match and next index; each term as a leader starts without any."""

    is_probing: bool = True
    transfer: _Transfer | None = None
    caught_up_at: float | None = None
    acknowledged: int = 0  # the last entry that it acknowledged without a copied directory
    copy_id: int = 0  # set while its directory is a copy and its promises are not known yet
    copy_index: int = 0  # the last entry that it acknowledged during that time
    proof_index: int = 0  # the entry whose acknowledgements prove that the others follow this leader
    regains_at: int = 0  # the index at which a voter with a restored disk may vote again; 0 for others


class Replication:
    """The replication to all peers.

    `post(node_id, message)` queues a message; `has_room(node_id)` is true if the link accepts more.
    """

    def __init__(
        self,
        engine: RaftEngine,
        journal: RaftJournal,
        store: SnapshotStore,
        *,
        post: Callable[[int, RaftMessage], None],
        has_room: Callable[[int], bool],
        directory_of: Callable[[int], bytes],
        voter_sets: Callable[[], Sequence[VoterSet]],
        promises: Promises,
        limits: ReplicationLimits,
    ) -> None:
        self._voter_sets = voter_sets  # the committed set, and the latest one
        self._promises = promises
        self._own_proof_index = 0  # set while this leader's own directory is a copy
        self._limits = limits
        self._engine = engine
        self._journal = journal
        self._store = store
        self._post = post
        self._has_room = has_room
        self._directory_of = directory_of
        self._progress: dict[int, _Progress] = {}

    def begin_leading(self) -> None:
        """Forget the progress of an earlier term."""
        self._progress.clear()
        # The first entry of this term comes next. With a copied directory of its own, this leader counts no
        # acknowledgement until that entry proves that the others follow it.
        self._own_proof_index = self._journal.last.raft_index + 1 if self._promises.copy_id else 0

    def probe(self, node_id: int) -> None:
        """Probe a peer over its new link, as messages over the last one may be lost."""
        if node_id in self._progress:
            self._progress[node_id].is_probing = True

    def forget(self, node_id: int) -> None:
        """Forget the progress of a peer."""
        self._progress.pop(node_id, None)

    def caught_up_at(self, node_id: int) -> float | None:
        """Return the time at which a peer last had the whole log, in the engine's seconds."""
        progress = self._progress.get(node_id)
        return None if progress is None else progress.caught_up_at

    # ---- sending ---------------------------------------------------------------------------------------

    def replicate_to(self, node_id: int) -> None:
        """Send the entries or the snapshot that a peer lacks, or a heartbeat."""
        engine, progress = self._engine, self._progress.setdefault(node_id, _Progress())
        if not self._has_room(node_id):
            return
        if engine.next_of(node_id) <= self._journal.first.raft_index:
            self._send_snapshot(node_id, progress)
            return
        progress.transfer = None
        for _ in range(self._limits.messages_at_once):
            known = max(engine.match_of(node_id), progress.acknowledged, progress.copy_index)
            ahead = engine.next_of(node_id) - 1 - known
            is_empty = progress.is_probing or ahead >= self._limits.entries_ahead
            if not self._send_entries(node_id, is_empty=is_empty) or not self._has_room(node_id):
                break

    def _send_entries(self, node_id: int, *, is_empty: bool) -> bool:
        """Send one message; return True if the peer lacks further entries."""
        engine, journal = self._engine, self._journal
        next_index = engine.next_of(node_id)
        previous = journal.at(next_index - 1)
        assert previous is not None, "the next entry of a peer lies outside the log"
        max_count = 0 if is_empty else self._limits.message_entries
        entries = journal.slice(next_index, max_count=max_count, max_bytes=self._limits.message_bytes)
        self._post(
            node_id,
            AppendEntries(
                term=engine.term,
                commit_index=engine.commit_index,
                previous_index=previous.raft_index,
                previous_term=previous.term,
                entries=[AppendedEntry(batch=entry.batch) for entry in entries],
            ),
        )
        if not entries:
            return False
        engine.set_next(node_id, entries[-1].raft_index + 1)
        return entries[-1].raft_index < journal.last.raft_index

    def _send_snapshot(self, node_id: int, progress: _Progress) -> None:
        engine, latest = self._engine, self._store.latest
        assert latest is not None, "entries were removed without a snapshot of them"
        transfer, now = progress.transfer, engine.now()
        if transfer is None:
            transfer = progress.transfer = _Transfer(latest, 0, -CHUNK_RETRY_SECONDS)
        if now - transfer.sent_at >= CHUNK_RETRY_SECONDS:
            self._send_chunk(node_id, transfer)
        else:
            # A heartbeat only: the peer cannot have that entry.
            first = self._journal.first
            self._post(
                node_id,
                AppendEntries(
                    term=engine.term,
                    commit_index=0,
                    previous_index=first.raft_index,
                    previous_term=first.term,
                ),
            )

    def _send_chunk(self, node_id: int, transfer: _Transfer) -> None:
        snapshot = transfer.snapshot
        transfer.sent_at = self._engine.now()
        self._post(
            node_id,
            SnapshotChunk(
                term=self._engine.term,
                last_index=snapshot.start.raft_index,
                last_term=snapshot.start.term,
                end_offset=snapshot.start.end_offset,
                total_bytes=snapshot.size_bytes,
                position=transfer.position,
                chunk=self._store.read_chunk(snapshot, transfer.position, self._limits.chunk_bytes),
            ),
        )

    # ---- answers ---------------------------------------------------------------------------------------

    def handle_reply(self, node_id: int, reply: AppendReply) -> None:
        """Handle an answer of this term to an AppendEntries."""
        engine, progress = self._engine, self._progress.setdefault(node_id, _Progress())
        engine.note_response(node_id)
        self._hear_of_copy(node_id, progress, reply.copy_id)
        # A copied directory may lack entries that the voter acknowledged, so sending may begin below them.
        next_index, match = engine.next_of(node_id), 0 if reply.copy_id else engine.match_of(node_id)
        last_index = self._journal.last.raft_index
        if reply.success:
            if not match < reply.next_index <= last_index + 1:
                if progress.is_probing and next_index <= match:
                    # A late answer from before it could vote again set the next index too low.
                    engine.set_next(node_id, match + 1)
                return
            self._count(node_id, progress, reply.next_index - 1, reply.copy_id)
            if progress.is_probing or next_index < reply.next_index:
                # Otherwise it must not decrease, as later entries have been sent.
                engine.set_next(node_id, reply.next_index)
            progress.is_probing = False
            self._note_caught_up(node_id, progress)
            if engine.next_of(node_id) <= last_index:
                engine.send_soon()
            return
        if reply.next_index <= match:
            # The answer is late, or names the first entry of a conflicting term, or the peer's disk was
            # restored: only the peer can know.
            self._remind(node_id, match)
        if progress.transfer is not None:
            self._leave_transfer(node_id, progress, reply)
        elif not progress.is_probing or reply.previous_index == next_index - 1:
            # A second answer about the same conflict finds that another index is being probed already.
            progress.is_probing = True
            engine.set_next(node_id, max(match + 1, min(reply.next_index, next_index - 1), 1))
            engine.send_soon()

    # ---- copied directories ----------------------------------------------------------------------------

    def note_copy(self, node_id: int, copy_id: int, proof_index: int) -> None:
        """Record that a voter reported its copied directory before the entry `proof_index` was appended."""
        progress = self._progress.setdefault(node_id, _Progress())
        progress.copy_id, progress.proof_index, progress.copy_index = copy_id, proof_index, 0

    def _hear_of_copy(self, node_id: int, progress: _Progress, copy_id: int) -> None:
        if copy_id and copy_id != progress.copy_id:
            log.info(
                "The data directory of voter %d is a copy: it cannot vote until a "
                "majority of the other voters has confirmed this leader, and it has "
                "all the metadata up to then.",
                node_id,
            )
            self.note_copy(node_id, copy_id, self._journal.last.raft_index + 1)

    def _count(self, node_id: int, progress: _Progress, raft_index: int, copy_id: int) -> None:
        """Record an acknowledgement; the engine counts it only if the voter knows its promises."""
        if copy_id:
            progress.copy_index = max(progress.copy_index, raft_index)
        else:
            progress.copy_id = 0
            progress.acknowledged = max(progress.acknowledged, raft_index)
            if not self._own_proof_index:
                self._engine.set_match(node_id, max(self._engine.match_of(node_id), raft_index))
        self._settle_copies()

    def _settle_copies(self) -> None:
        """Send voters with copied directories the end of what they may have promised, once it is proven."""
        if self._own_proof_index and self._is_proven(self._engine.node_id, self._own_proof_index):
            self._own_proof_index = 0
            self._promises.own_directory()
            for node_id, progress in self._progress.items():
                known = max(self._engine.match_of(node_id), progress.acknowledged)
                self._engine.set_match(node_id, known)
        for node_id, progress in self._progress.items():
            if progress.copy_id and self._is_proven(node_id, progress.proof_index):
                self._remind(node_id, 0, progress.copy_id)

    def _is_proven(self, node_id: int, raft_index: int) -> bool:
        """Return True if a later term with this voter's vote is impossible.

        The entry was appended after that voter had reported that it does not know its promises. If a majority
        without the voter has the entry, any majority that the voter could have been part of includes one of
        them, which follows this leader and elects no candidate without the entry. If all others have it, none
        of them was in a later term.
        """
        return all(self._is_proven_among(voters, node_id, raft_index) for voters in self._voter_sets())

    def _is_proven_among(self, voters: VoterSet, node_id: int, raft_index: int) -> bool:
        own_id, nothing = self._engine.node_id, _Progress()
        others = [one.node_id for one in voters if one.node_id not in (node_id, own_id)]
        known = [self._progress.get(one, nothing) for one in others]
        if all(max(one.acknowledged, one.copy_index) >= raft_index for one in known):
            return True
        sure = sum(one.acknowledged >= raft_index for one in known)
        is_own_sure = own_id in voters and own_id != node_id and not self._own_proof_index
        return sure + is_own_sure > len(voters) // 2

    @property
    def wants_entry(self) -> bool:
        """True if a voter waits until the others confirm an entry that is not appended yet."""
        last_index = self._journal.last.raft_index
        return any(one.copy_id and one.proof_index > last_index for one in self._progress.values())

    def is_copied(self, node_id: int) -> bool:
        """Return True if a peer may not vote because its directory is a copy."""
        progress = self._progress.get(node_id)
        return progress is not None and progress.copy_id > 0

    # ---- restored disks --------------------------------------------------------------------------------

    def _remind(self, node_id: int, match: int, copy_id: int = 0) -> None:
        last, entry_term = self._journal.last, self._journal.term_at(match)
        self._post(
            node_id,
            PromiseReminder(
                term=self._engine.term,
                directory_id=self._directory_of(node_id),
                raft_index=match,
                entry_term=-1 if entry_term is None else entry_term,
                end_index=last.raft_index,
                end_offset=last.end_offset,
                of_copy_id=copy_id,
            ),
        )

    def handle_forgotten(self, node_id: int, reply: PromiseForgotten) -> None:
        """Send entries again from the end of the log of a voter whose disk was restored."""
        engine, progress = self._engine, self._progress.setdefault(node_id, _Progress())
        engine.note_response(node_id)
        if reply.directory_id != self._directory_of(node_id):
            return
        if not progress.regains_at and not progress.copy_id:
            log.warning(
                "The disk of voter %d was restored to an earlier state: its metadata "
                "log ends before what it had acknowledged. It cannot vote until it "
                "has all of that again.",
                node_id,
            )
        last_index = self._journal.last.raft_index
        progress.regains_at = max(1, min(reply.promised_index, last_index))
        progress.transfer, progress.is_probing = None, True
        progress.copy_id = progress.acknowledged = 0
        engine.set_match(node_id, 0)
        engine.set_next(node_id, max(1, min(reply.next_index, engine.next_of(node_id), last_index + 1)))
        engine.send_soon()

    def has_forgotten(self, node_id: int) -> bool:
        """Return True if the disk of a peer was restored and the peer has not caught up since."""
        progress = self._progress.get(node_id)
        if progress is None or not progress.regains_at:
            return False
        if self._engine.match_of(node_id) >= progress.regains_at:
            progress.regains_at = 0
        return progress.regains_at > 0

    def _leave_transfer(self, node_id: int, progress: _Progress, reply: AppendReply) -> None:
        """Stop sending the snapshot if the peer has later entries, which another leader sent to it."""
        if reply.next_index > self._journal.first.raft_index + 1:
            progress.transfer, progress.is_probing = None, True
            self._engine.set_next(node_id, min(reply.next_index, self._journal.last.raft_index + 1))

    def handle_snapshot_reply(self, node_id: int, reply: SnapshotReply) -> None:
        """Handle an answer of this term to a chunk."""
        engine, progress = self._engine, self._progress.setdefault(node_id, _Progress())
        engine.note_response(node_id)
        self._hear_of_copy(node_id, progress, reply.copy_id)
        transfer = progress.transfer
        if transfer is None or reply.last_index != transfer.snapshot.start.raft_index:
            return
        if reply.is_installed:
            progress.transfer, progress.is_probing = None, True
            self._count(node_id, progress, reply.last_index, reply.copy_id)
            engine.set_next(node_id, reply.last_index + 1)
            engine.send_soon()
        elif reply.position != transfer.position or reply.wanted_position == transfer.position:
            # A repeated answer must not send two chunks; if no other answer comes, the chunk is sent again.
            return
        elif 0 <= reply.wanted_position < transfer.snapshot.size_bytes:
            transfer.position = reply.wanted_position
            self._send_chunk(node_id, transfer)

    def note_heartbeats(self) -> None:
        """Renew the caught-up time of peers with the whole log."""
        for node_id, progress in self._progress.items():
            self._note_caught_up(node_id, progress)

    def _note_caught_up(self, node_id: int, progress: _Progress) -> None:
        if self._engine.match_of(node_id) >= self._journal.last.raft_index:
            progress.caught_up_at = self._engine.now()

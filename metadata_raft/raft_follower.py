"""The follower's side of replication: takes entries and snapshots from the leader (Raft, figures 2 and 13).

Only conflicting entries are truncated, never below the commit index. The commit index never moves past the
entries that the current message proved to be the leader's. A snapshot is installed only if it is ahead of the
commit index, and only as a whole.
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.raft_entry import check_sequence
from ottla.metadata_raft.raft_journal import RaftJournal
from ottla.metadata_raft.raft_messages import (
    AppendEntries,
    AppendReply,
    RaftMessage,
    SnapshotChunk,
    SnapshotReply,
    TermHint,
)
from ottla.metadata_raft.raft_node import RaftEngine
from ottla.metadata_raft.raft_snapshots import SnapshotReceiver

NEVER: Final = float("-inf")


class SnapshotInstaller(Protocol):
    """A store of complete snapshots that works outside the loop."""

    def install(self, content: bytes, chunk: SnapshotChunk, done: Callable[[bool], None]) -> None:
        """Call `done(True)` once the snapshot is stored and applied, or `done(False)` if it was rejected."""


class Follower:
    """The follower's role of a voter; `post(node_id, message)` queues a message for after the next sync."""

    def __init__(
        self,
        engine: RaftEngine,
        journal: RaftJournal,
        installer: SnapshotInstaller,
        *,
        copy_id: Callable[[], int],
        post: Callable[[int, RaftMessage], None],
    ) -> None:
        self._copy_id = copy_id
        self._engine = engine
        self._journal = journal
        self._installer = installer
        self._post = post
        self._receiver = SnapshotReceiver()
        self._installing_index = 0  # the last index of the snapshot that is being stored
        self.heard_at = NEVER  # the time of a leader's last message, in the engine's seconds

    def handle_append(self, node_id: int, request: AppendEntries) -> None:
        """Append entries from the leader; CORRUPT_MESSAGE if they are not valid."""
        if not self._follow(node_id, request.term):
            return
        journal, commit_index = self._journal, self._engine.commit_index
        batches = [entry.batch for entry in request.entries]
        headers = check_sequence(
            batches, after_index=request.previous_index, after_term=request.previous_term
        )
        if headers and headers[-1].term > request.term:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A metadata batch has an epoch that has not begun.")
        previous_index, previous_term = request.previous_index, request.previous_term
        skipped = min(max(0, journal.first.raft_index - previous_index), len(batches))
        if previous_index < journal.first.raft_index:
            # Entries below are committed and in a snapshot, so they are the same.
            previous_index, previous_term = journal.first.raft_index, journal.first.term
        if previous_index > journal.last.raft_index:
            self._reply(node_id, request, next_index=journal.last.raft_index + 1, success=False)
            return
        if journal.term_at(previous_index) != previous_term:
            self._reply(node_id, request, next_index=self._conflict_start(previous_index), success=False)
            return
        for batch, header in zip(batches[skipped:], headers[skipped:], strict=True):
            known_term = journal.term_at(header.raft_index)
            if known_term == header.term:
                continue
            if known_term is not None:
                if header.raft_index <= commit_index:
                    problem = f"A leader contradicts a committed entry: {header.raft_index}."
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, problem)
                journal.truncate_from(header.raft_index)
            if header.base_offset != journal.last.end_offset:
                problem = f"Offset {header.base_offset} does not follow offset {journal.last.end_offset - 1}."
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, problem)
            journal.append(batch, header.raft_index, header.term)
        proven_index = max(previous_index, headers[-1].raft_index if headers else 0)
        self._engine.commit_index = max(commit_index, min(request.commit_index, proven_index))
        self._reply(node_id, request, next_index=proven_index + 1, success=True)

    def _conflict_start(self, raft_index: int) -> int:
        """Return the first entry of the term at `raft_index`; the leader has no entry of that term here."""
        journal, term = self._journal, self._journal.term_at(raft_index)
        lowest = max(self._engine.commit_index, journal.first.raft_index) + 1
        while raft_index > lowest and journal.term_at(raft_index - 1) == term:
            raft_index -= 1
        return max(raft_index, lowest)

    def _reply(self, node_id: int, request: AppendEntries, *, next_index: int, success: bool) -> None:
        self._post(
            node_id,
            AppendReply(
                term=self._engine.term,
                previous_index=request.previous_index,
                success=success,
                next_index=next_index,
                copy_id=self._copy_id(),
            ),
        )

    def _follow(self, node_id: int, term: int) -> bool:
        """Follow the peer if it leads; else answer with the term and return False."""
        engine = self._engine
        if term < engine.term:
            # Without an answer it would keep its old term for ever, as it gets no requests for votes.
            self._post(node_id, TermHint(term=engine.term))
            return False
        if term > engine.term:
            engine.adopt_term(term)
            engine.is_handed_leadership = False
        if engine.is_leading:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"Another node claims to lead in epoch {term}.")
        engine.leader_id = node_id
        engine.follow()
        if not engine.is_handed_leadership:
            engine.postpone_election()
        self.heard_at = engine.now()
        return True

    def handle_chunk(self, node_id: int, chunk: SnapshotChunk) -> None:
        """Add a chunk of a snapshot, and install the snapshot once it is complete."""
        if chunk.last_term > chunk.term:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "A snapshot has an epoch that has not begun.")
        if not self._follow(node_id, chunk.term):
            return
        if chunk.last_index <= self._engine.commit_index:
            self._receiver.forget()
            self._reply_chunk(node_id, chunk, is_installed=True)
            return
        if chunk.last_index == self._installing_index:
            return
        content = self._receiver.take(
            (chunk.last_term, chunk.last_index, chunk.end_offset),
            position=chunk.position,
            total_bytes=chunk.total_bytes,
            chunk=chunk.chunk,
        )
        if content is None:
            self._reply_chunk(node_id, chunk, is_installed=False)
            return

        self._installing_index = chunk.last_index

        def done(is_installed: bool) -> None:
            self._installing_index = 0
            if self._engine.term == chunk.term:
                self._reply_chunk(node_id, chunk, is_installed=is_installed)

        self._installer.install(content, chunk, done)

    def _reply_chunk(self, node_id: int, chunk: SnapshotChunk, *, is_installed: bool) -> None:
        self._post(
            node_id,
            SnapshotReply(
                term=self._engine.term,
                last_index=chunk.last_index,
                position=chunk.position,
                wanted_position=self._receiver.wanted,
                is_installed=is_installed,
                copy_id=self._copy_id(),
            ),
        )

"""The gate of one voter: which message is heard, and when one leaves.

Heard is only who has shown who it is, in messages of our own kinds, well-formed. Answers count only in the
term in which they were asked for, and only from a voter with the very disk that the log names, or from one
that is being made a voter. Entries leave at once, beside this node's own sync; everything that promises
something, a vote or an acknowledgement, leaves after it.
"""

import logging
from collections import Counter
from typing import Any, Final, NamedTuple, Protocol

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.raft_election import Election
from ottla.metadata_raft.raft_follower import Follower
from ottla.metadata_raft.raft_messages import (
    AppendEntries,
    AppendReply,
    PreVote,
    PreVoteGranted,
    PromiseForgotten,
    PromiseReminder,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotReply,
    TermHint,
    TimeoutNow,
    VoteGranted,
    decode_message,
    encode_message,
)
from ottla.metadata_raft.raft_node import RaftEngine
from ottla.metadata_raft.raft_promises import Promises
from ottla.metadata_raft.raft_replication import Replication

log = logging.getLogger(__name__)

# By how much peers may raise the term of this voter: at once, and a second. A term needs an election, and an
# election a tenth of a second, so that a voter may have been away for twenty days of nothing but elections.
TERM_RISE_BURST: Final = 2**24
TERM_RISE_PER_S: Final = 100

# Sent without waiting for the sync: they promise nothing that is not on disk already.
_EARLY: Final = (AppendEntries, SnapshotChunk)
# Asked or granted for a term that has not begun.
_PROMISES: Final = (PreVote, PreVoteGranted)


class Peer(NamedTuple):
    """Another node as its link proved it."""

    node_id: int
    directory_id: bytes


class Links(Protocol):
    """The connections to other voters."""

    def send(self, node_id: int, frame: bytes) -> None:
        """Hand a frame to the link, if there is one; nothing says whether it arrives."""

    def has_room(self, node_id: int) -> bool:
        """Whether there is a link and it is not clogged."""


class Membership(Protocol):
    """Who counts, now."""

    def counts(self, peer: Peer) -> bool: ...

    @property
    def is_lone(self) -> bool:
        """Whether nobody else votes."""

    def meet_another_quorum(self, peer: Peer, term: int) -> None:
        """A node of this cluster is in a term that the lone voter has not begun."""


class _TermAllowance:
    """How far peers may raise the term: one that is mad could use all of them up in an instant."""

    def __init__(self) -> None:
        self._left = TERM_RISE_BURST
        self._counted_at = 0.0

    def left(self, now: float) -> int:
        """At this moment, in the engine's seconds."""
        grown = int((now - self._counted_at) * TERM_RISE_PER_S)
        if grown > 0:
            self._left, self._counted_at = min(self._left + grown, TERM_RISE_BURST), now
        return self._left

    def use(self, rise: int) -> None:
        """So much of it is gone."""
        self._left -= rise


class Guard:
    """Queues what leaves, judges what arrives."""

    def __init__(self, links: Links, membership: Membership) -> None:
        self._links = links
        self._membership = membership
        self._waiting: list[tuple[int, RaftMessage]] = []
        self._allowance = _TermAllowance()
        self._led: tuple[int, Peer | None] = (0, None)  # the last term that had a leader, and who it was
        self.refused: Counter[str] = Counter()  # why messages were not heard
        self.engine: RaftEngine
        self.election: Election
        self.follower: Follower
        self.replication: Replication
        self.promises: Promises

    # ---- outbound --------------------------------------------------------------------------------------

    def post(self, node_id: int, message: RaftMessage) -> None:
        """Queue one message."""
        self._waiting.append((node_id, message))

    def post_from_engine(self, node_id: int, message: dict[str, Any]) -> None:
        """Translate one of the engine's own messages; those that we replace never leave."""
        match message["type"]:
            case "request_vote":
                self.post(
                    node_id,
                    RequestVote(
                        term=message["term"],
                        last_index=message["last_log_index"],
                        last_term=message["last_log_term"],
                        copy_id=self.promises.copy_id,
                    ),
                )
            case "response_vote":
                self.post(
                    node_id,
                    VoteGranted(
                        term=message["term"],
                        copy_id=self.promises.copy_id,
                        candidate_copy_id=self.election.answered_copy_id,
                    ),
                )
            case "timeout_now":
                self.post(node_id, TimeoutNow(term=message["term"]))
            case kind:
                self.refused[f"engine {kind}"] += 1

    def flush_early(self) -> None:
        """Send the entries, while this node syncs its own."""
        early = [pair for pair in self._waiting if isinstance(pair[1], _EARLY)]
        self._waiting = [pair for pair in self._waiting if not isinstance(pair[1], _EARLY)]
        self._send(early)

    def flush(self) -> None:
        """Send the rest: everything that it promises is on disk."""
        waiting, self._waiting = self._waiting, []
        self._send(waiting)

    def _send(self, messages: list[tuple[int, RaftMessage]]) -> None:
        for node_id, message in messages:
            self._links.send(node_id, encode_message(message))

    # ---- inbound ---------------------------------------------------------------------------------------

    def receive(self, peer: Peer, frame: bytes) -> None:
        """Hear one message; CORRUPT_MESSAGE if no voter would send it, and its link should end."""
        message, term = decode_message(frame), self.engine.term
        if not 0 <= message.term <= term + self._allowance.left(self.engine.now()):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A message has the epoch {message.term}, which cannot have begun: the "
                f"epoch of this node is {term}.",
            )
        if message.term > term and self._membership.is_lone and not isinstance(message, _PROMISES):
            self._membership.meet_another_quorum(peer, message.term)
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Node {peer.node_id} is in epoch {message.term}, but this node is the "
                f"only voter, and is in epoch {term}.",
            )
        try:
            self._hear(peer, message)
        finally:
            self._allowance.use(self.engine.term - term)

    def _hear(self, peer: Peer, message: RaftMessage) -> None:
        match message:
            case PreVote():
                self.election.handle_pre_vote(peer.node_id, message)
            case RequestVote():
                self.election.handle_request_vote(peer.node_id, message)
            case TermHint():
                self.election.handle_term_hint(message)
            case AppendEntries():
                self._note_leader(peer, message.term)
                self.follower.handle_append(peer.node_id, message)
            case SnapshotChunk():
                self._note_leader(peer, message.term)
                self.follower.handle_chunk(peer.node_id, message)
            case TimeoutNow():
                self._hear_timeout_now(peer, message)
            case PromiseReminder():
                self.promises.handle_reminder(peer.node_id, message)
            case PreVoteGranted() | VoteGranted() | AppendReply() | SnapshotReply() | PromiseForgotten():
                self._hear_reply(peer, message)

    def _note_leader(self, peer: Peer, term: int) -> None:
        """A term has one leader: another disk under its name has begun another log."""
        known_term, leader = self._led
        if term == known_term and peer != leader:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"Two nodes claim to lead in epoch {term}: {leader} and {peer}."
            )
        if term > known_term and term >= self.engine.term:
            self._led = term, peer

    def _hear_timeout_now(self, peer: Peer, message: TimeoutNow) -> None:
        if message.term == self.engine.term and peer.node_id == self.engine.leader_id:
            self.engine.receive(peer.node_id, {"type": "timeout_now", "term": message.term})
        else:
            self.refused["not the leader"] += 1

    def _hear_reply(
        self,
        peer: Peer,
        message: PreVoteGranted | VoteGranted | AppendReply | SnapshotReply | PromiseForgotten,
    ) -> None:
        if not self._membership.counts(peer):
            self.refused["not a voter"] += 1
            return
        match message:
            case PreVoteGranted():
                self.election.handle_pre_vote_granted(peer.node_id, message)
                return
            case VoteGranted():
                self.election.handle_vote(peer.node_id, message)
                return
            case AppendReply() | SnapshotReply() | PromiseForgotten():
                pass
        if message.term > self.engine.term:
            self.engine.adopt_term(message.term)
        elif message.term < self.engine.term or not self.engine.is_leading:
            self.refused["another term"] += 1
        elif isinstance(message, AppendReply):
            self.replication.handle_reply(peer.node_id, message)
        elif isinstance(message, PromiseForgotten):
            self.replication.handle_forgotten(peer.node_id, message)
        else:
            self.replication.handle_snapshot_reply(peer.node_id, message)

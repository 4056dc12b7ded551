"""Checks the messages that a voter receives, and orders those that it sends.

Only well-formed messages from authenticated peers are handled. Answers count only in the term of their
request, and only from a voter with the directory that the log names, or from a node that is becoming a voter.
Entries are sent at once, in parallel to this node's own sync; promises, which are votes and acknowledgements,
after it.
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

# The limit by which peers may raise the term of this voter: at once, and per second. A term takes an
# election, and an election a tenth of a second, so a voter may have been away for twenty days of continuous
# elections.
TERM_RISE_BURST: Final = 2**24
TERM_RISE_PER_S: Final = 100

# Sent before the sync, because they promise nothing that is not on disk already.
_EARLY: Final = (AppendEntries, SnapshotChunk)
# Messages about a term that has not begun.
_ABOUT_NEXT_TERM: Final = (PreVote, PreVoteGranted)


class Peer(NamedTuple):
    """Another node, as authenticated by its link."""

    node_id: int
    directory_id: bytes


class Links(Protocol):
    """The connections to other voters."""

    def send(self, node_id: int, frame: bytes) -> None:
        """Send a frame over the link, if there is one; it may not arrive."""

    def has_room(self, node_id: int) -> bool:
        """Return True if there is a link and its buffer is not full."""


class Membership(Protocol):
    """The current voters and learners."""

    def counts(self, peer: Peer) -> bool: ...

    @property
    def is_lone(self) -> bool:
        """True if this node is the only voter."""

    def handle_other_quorum(self, peer: Peer, term: int) -> None:
        """Handle a message from a node of this cluster in a term that the lone voter has not begun."""


class _TermAllowance:
    """The limit by which peers may raise the term: a faulty one could use up all terms at once."""

    def __init__(self) -> None:
        self._left = TERM_RISE_BURST
        self._counted_at = 0.0

    def left(self, now: float) -> int:
        """Return the allowance at this time, in the engine's seconds."""
        grown = int((now - self._counted_at) * TERM_RISE_PER_S)
        if grown > 0:
            self._left, self._counted_at = min(self._left + grown, TERM_RISE_BURST), now
        return self._left

    def use(self, rise: int) -> None:
        """Subtract a rise of the term."""
        self._left -= rise


class Guard:
    """The inbound checks and the outbound queue of one voter."""

    def __init__(self, links: Links, membership: Membership) -> None:
        self._links = links
        self._membership = membership
        self._waiting: list[tuple[int, RaftMessage]] = []
        self._allowance = _TermAllowance()
        self._led: tuple[int, Peer | None] = (0, None)  # the last term with a known leader, and that leader
        self.refused: Counter[str] = Counter()  # rejected messages by reason
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
        """Translate one of the engine's own messages; messages with a replacement are not sent."""
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
        """Send entries before this node syncs its own."""
        early = [pair for pair in self._waiting if isinstance(pair[1], _EARLY)]
        self._waiting = [pair for pair in self._waiting if not isinstance(pair[1], _EARLY)]
        self._send(early)

    def flush(self) -> None:
        """Send the other messages, after everything that they promise was synced."""
        waiting, self._waiting = self._waiting, []
        self._send(waiting)

    def _send(self, messages: list[tuple[int, RaftMessage]]) -> None:
        for node_id, message in messages:
            self._links.send(node_id, encode_message(message))

    # ---- inbound ---------------------------------------------------------------------------------------

    def receive(self, peer: Peer, frame: bytes) -> None:
        """Handle a message; CORRUPT_MESSAGE, for which its link is closed, if no voter would send it."""
        message, term = decode_message(frame), self.engine.term
        if not 0 <= message.term <= term + self._allowance.left(self.engine.now()):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A message has the epoch {message.term}, which cannot have begun: the "
                f"epoch of this node is {term}.",
            )
        if message.term > term and self._membership.is_lone and not isinstance(message, _ABOUT_NEXT_TERM):
            self._membership.handle_other_quorum(peer, message.term)
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
        """Check that a term has one leader: the same node with another disk would have another log."""
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

"""Elections beside the engine's: PreVote, and whose vote counts.

Before a voter begins a term it asks whether it would win (Raft dissertation, 9.6). Nobody grants it who hears
from a leader, so a voter that was cut off comes back without deposing anybody. Votes count once a voter, and
only from the very disk that the log names: one that was lost has forgotten what it promised.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from metadata_raft.quorum_state import MAX_TERM
from metadata_raft.raft_follower import NEVER, Follower
from metadata_raft.raft_journal import RaftJournal
from metadata_raft.raft_messages import (
    PreVote,
    PreVoteGranted,
    RaftMessage,
    RequestVote,
    TermHint,
    VoteGranted,
)
from metadata_raft.raft_node import MIN_ELECTION_SECONDS, RaftEngine
from metadata_raft.raft_promises import Promises
from metadata_raft.voters import Voter, VoterSet

log = logging.getLogger(__name__)

COURTESY_SECONDS: Final = 0.15  # in which a voter whom another one asked lets it try


class _Round(NamedTuple):
    term: int
    granted: set[int]
    began_at: float = NEVER


class Election:
    """`own` is this voter, `voters()` are those that count now; `post(node_id, message)` queues a message."""

    def __init__(
        self,
        own: Voter,
        engine: RaftEngine,
        journal: RaftJournal,
        follower: Follower,
        *,
        voters: Callable[[], VoterSet],
        promises: Promises,
        post: Callable[[int, RaftMessage], None],
    ) -> None:
        self._own = own
        self._engine = engine
        self._journal = journal
        self._follower = follower
        self._voters = voters
        self._promises = promises
        self._post = post
        self._round: _Round | None = None
        self._votes = _Round(0, set())

    def before_tick(self) -> None:
        """Let the engine stand for election only after a PreVote, or when the leader asked it to."""
        engine = self._engine
        engine.may_stand = (
            not engine.is_leading
            and engine.election_deadline < engine.now()
            and self._may_stand(self._voters())
        )

    def _may_stand(self, voters: VoterSet) -> bool:
        """Now that the deadline has passed; asks the others if that is due."""
        engine = self._engine
        if not voters.has(self._own.node_id, self._own.directory_id):
            # A disk that came after the one which the log names does not know what that one promised.
            engine.postpone_election()
            return False
        if not self._promises.is_kept:
            # Others may lack what this voter acknowledged, and it cannot give it to them.
            engine.is_handed_leadership = False
            engine.postpone_election()
            return False
        if engine.term >= MAX_TERM:
            log.error("The terms of the metadata quorum are used up: this node stands for election no more.")
            engine.postpone_election()
            return False
        if engine.is_handed_leadership or len(voters) == 1:
            return True
        if self._round is not None and self._has_won(self._round):
            self._round = None
            return True
        self._begin_round(voters)
        return False

    def _begin_round(self, voters: VoterSet) -> None:
        engine, last = self._engine, self._journal.last
        # Where no majority is left no election ever ends, and who was silent for so long leads nobody.
        engine.forget_leader()
        self._round = _Round(engine.term + 1, {engine.node_id}, engine.now())
        if self._follower.heard_at == NEVER:
            engine.wait_briefly()
        else:
            engine.postpone_election()
        for voter in voters:
            if voter.node_id != engine.node_id:
                self._post(
                    voter.node_id,
                    PreVote(term=engine.term + 1, last_index=last.raft_index, last_term=last.term),
                )

    def _has_won(self, asked: _Round) -> bool:
        """A majority; of a new quorum everybody, because an empty disk may be one that was lost."""
        voters = self._voters()
        needed = len(voters) // 2 + 1 if voters.is_settled else len(voters)
        # What was promised before a leader was heard does not depose that leader.
        is_current = asked.term == self._engine.term + 1 and asked.began_at > self._follower.heard_at
        return is_current and len(asked.granted & set(voters.by_id)) >= needed

    def handle_lost_leader(self) -> None:
        """The link to the leader broke: most likely it is dead, and others that lost it too will say so."""
        self._follower.heard_at = NEVER
        self._engine.wait_briefly()

    # ---- messages --------------------------------------------------------------------------------------

    def handle_pre_vote(self, node_id: int, request: PreVote) -> None:
        """Say whether this voter would vote for the peer."""
        engine = self._engine
        if request.term < engine.term:
            self._post(node_id, TermHint(term=engine.term))
            return
        has_leader = engine.is_leading or engine.now() - self._follower.heard_at < MIN_ELECTION_SECONDS
        is_up_to_date = (request.last_term, request.last_index) >= self._promises.end
        if is_up_to_date and not has_leader:
            self._post(node_id, PreVoteGranted(term=request.term))
            # Two that stand at once may split the votes and lose a whole timeout.
            engine.election_deadline = max(engine.election_deadline, engine.now() + COURTESY_SECONDS)

    def handle_pre_vote_granted(self, node_id: int, reply: PreVoteGranted) -> None:
        """Count it; with enough of them the election begins with the next tick."""
        asked = self._round
        if asked is None or reply.term != asked.term:
            return
        asked.granted.add(node_id)
        if self._has_won(asked):
            self._engine.stand_for_election()

    def handle_request_vote(self, node_id: int, request: RequestVote) -> None:
        """Vote, or be silent; the engine decides, but for a peer that lacks what this disk has lost."""
        if (request.last_term, request.last_index) < self._promises.end and not self._promises.is_kept:
            return
        self._engine.receive(
            node_id,
            {
                "type": "request_vote",
                "term": request.term,
                "last_log_index": request.last_index,
                "last_log_term": request.last_term,
            },
        )

    def handle_vote(self, node_id: int, reply: VoteGranted) -> None:
        """Count a vote once; a learner has none."""
        engine = self._engine
        if reply.term != engine.term or node_id not in self._voters():
            return
        if self._votes.term != reply.term:
            self._votes = _Round(reply.term, set())
        if node_id not in self._votes.granted:
            self._votes.granted.add(node_id)
            engine.receive(node_id, {"type": "response_vote", "term": reply.term})

    def handle_term_hint(self, hint: TermHint) -> None:
        """Somebody knows a higher term."""
        if hint.term > self._engine.term:
            self._engine.adopt_term(hint.term)

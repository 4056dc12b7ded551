"""The parts of elections that the engine lacks: PreVote, and the rule which votes count.

Before a voter begins a term, it asks whether it would win (Raft dissertation, 9.6). A voter that hears from a
leader does not grant that, so a voter that was disconnected comes back without deposing a leader. Each voter
has one vote, and only with the directory that the log names: a new disk does not know the promises made with
the lost one.

A voter whose directory is a copy may not know its promises either. Its vote says so, and counts only if all
voters choose the same candidate, which then has everything that any voter has. Such a voter may stand itself
under this rule, in a term that is new to all voters, and counts only votes that were granted to its current
start.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.metadata_raft.quorum_state import MAX_TERM
from ottla.metadata_raft.raft_follower import NEVER, Follower
from ottla.metadata_raft.raft_journal import RaftJournal
from ottla.metadata_raft.raft_messages import (
    PreVote,
    PreVoteGranted,
    RaftMessage,
    RequestVote,
    TermHint,
    VoteGranted,
)
from ottla.metadata_raft.raft_node import MIN_ELECTION_SECONDS, RaftEngine
from ottla.metadata_raft.raft_promises import Promises
from ottla.metadata_raft.voters import Voter, VoterSet

log = logging.getLogger(__name__)

BLOCKED_ELECTION_SECONDS: Final = 2.0  # before the log says why a majority does not elect a leader
GRANTED_PREVOTE_SECONDS: Final = (
    0.15  # the time for which a voter that granted a PreVote does not stand itself
)


class _Round(NamedTuple):
    term: int
    granted: dict[int, int]  # node id -> copy id of its answer, 0 if the voter knows its promises
    began_at: float = NEVER


class Election:
    """The elections of one voter, `own`.

    `voters()` returns the current voters; `post(node_id, message)` queues a message.
    """

    def __init__(
        self,
        own: Voter,
        engine: RaftEngine,
        journal: RaftJournal,
        follower: Follower,
        *,
        voters: Callable[[], VoterSet],
        promises: Promises,
        note_copy: Callable[[int, int, int], None],
        post: Callable[[int, RaftMessage], None],
    ) -> None:
        self._note_copy = note_copy  # (node id, copy id, first entry appended after the copy was reported)
        self._own = own
        self._engine = engine
        self._journal = journal
        self._follower = follower
        self._voters = voters
        self._promises = promises
        self._post = post
        self._round: _Round | None = None
        self._votes = _Round(0, {})
        self._hindrance: str | None = None  # the reason why the votes of a majority were not sufficient
        self._blocked_at = NEVER  # the time since which it has been so
        self._is_logged = False
        self.answered_copy_id = 0  # of the candidate whose request is being handled

    def before_tick(self) -> None:
        """Let the engine stand for election only after a PreVote, or when the leader asked it to."""
        engine = self._engine
        engine.may_stand = (
            not engine.is_leading
            and engine.election_deadline < engine.now()
            and self._may_stand(self._voters())
        )

    def _may_stand(self, voters: VoterSet) -> bool:
        """Return True if this voter may stand now, after its deadline; else begin a PreVote if it is due."""
        engine = self._engine
        if not voters.has(self._own.node_id, self._own.directory_id):
            # A disk other than the one that the log names does not know the promises of that one.
            engine.postpone_election()
            return False
        if not self._promises.is_kept:
            # Other voters may lack entries that this one acknowledged and lost itself.
            engine.is_handed_leadership = False
            engine.postpone_election()
            return False
        if self._promises.copy_id:
            engine.is_handed_leadership = False
        if engine.term >= MAX_TERM:
            log.error(
                "The metadata quorum has used the largest possible epoch: this "
                "node does not stand for election any more."
            )
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
        # A leader that was silent for this long leads no majority, and without a majority no election ends.
        if self._round is not None and engine.leader_id < 0:
            self._note_hindrance(self._round.granted)
        engine.forget_leader()
        self._round = _Round(engine.term + 1, {}, engine.now())
        if self._follower.heard_at == NEVER:
            engine.wait_briefly()
        else:
            engine.postpone_election()
        for voter in voters:
            if voter.node_id != engine.node_id:
                self._post(
                    voter.node_id,
                    PreVote(
                        term=engine.term + 1,
                        last_index=last.raft_index,
                        last_term=last.term,
                        copy_id=self._promises.copy_id,
                    ),
                )

    def _has_won(self, asked: _Round) -> bool:
        """Return True if a majority granted it; in a new quorum all, as an empty disk may be a lost one."""
        # Answers from before a leader was heard must not depose that leader.
        is_current = asked.term == self._engine.term + 1 and asked.began_at > self._follower.heard_at
        return is_current and self._is_enough(asked.granted, needs_all=not self._voters().is_settled)

    def _is_enough(self, granted: Mapping[int, int], *, needs_all: bool) -> bool:
        """Return True if these and this voter are all voters, or a majority that knows its promises."""
        voters = self._voters()
        known = {**granted, self._engine.node_id: self._promises.copy_id}
        if all(one.node_id in known for one in voters):
            return True
        sure = sum(known.get(one.node_id) == 0 for one in voters)
        return not needs_all and not self._promises.copy_id and sure > len(voters) // 2

    def handle_lost_leader(self) -> None:
        """Stand for election soon, because the link to the leader was lost and it is probably dead.

        The voters wait in the order of their ids, so that one is elected before the next one stands.
        """
        self._follower.heard_at = NEVER
        others = sorted(one.node_id for one in self._voters() if one.node_id != self._engine.leader_id)
        own = self._own.node_id
        self._engine.wait_briefly(others.index(own) if own in others else len(others))

    def _note_hindrance(self, granted: Mapping[int, int]) -> None:
        """After a round that was not won, log once why a majority of the voters does not elect a leader."""
        known = {**granted, self._engine.node_id: self._promises.copy_id}
        copied = [one.node_id for one in self._voters() if known.get(one.node_id)]
        missing = [one.node_id for one in self._voters() if one.node_id not in known]
        before, self._hindrance = self._hindrance, None
        if not copied or not missing or 2 * len(missing) >= len(self._voters()):
            return
        self._hindrance = (
            f"The data directories of these voters are copies: {_listed(copied)}. "
            "Their votes do not count while other voters are missing: "
            f"{_listed(missing)}. Start the missing voters; if they are lost, see "
            "`ottla quorum trust-copy --help`."
        )
        if self._hindrance != before:
            self._blocked_at, self._is_logged = self._engine.now(), False
        # Voters that start at the same time are not connected for a moment.
        if not self._is_logged and self._engine.now() - self._blocked_at >= BLOCKED_ELECTION_SECONDS:
            self._is_logged = True
            log.warning("No leader can be elected. %s", self._hindrance)

    def waits_for(self) -> str | None:
        """Return which votes are missing if a majority is present but not sufficient; else None."""
        return None if self._engine.leader_id >= 0 else self._hindrance

    # ---- messages --------------------------------------------------------------------------------------

    def handle_pre_vote(self, node_id: int, request: PreVote) -> None:
        """Answer the peer if this voter would vote for it."""
        engine = self._engine
        if request.term < engine.term + _is_copy(request):
            self._post(node_id, TermHint(term=engine.term))
            return
        has_leader = engine.is_leading or engine.now() - self._follower.heard_at < MIN_ELECTION_SECONDS
        is_up_to_date = (request.last_term, request.last_index) >= self._promises.end
        if is_up_to_date and not has_leader:
            self._post(
                node_id,
                PreVoteGranted(
                    term=request.term, copy_id=self._promises.copy_id, candidate_copy_id=request.copy_id
                ),
            )
            # Two candidates at once may split the votes and lose a whole timeout.
            engine.election_deadline = max(engine.election_deadline, engine.now() + GRANTED_PREVOTE_SECONDS)

    def handle_pre_vote_granted(self, node_id: int, reply: PreVoteGranted) -> None:
        """Count a granted PreVote; with a majority, the election begins in the next tick."""
        asked = self._round
        if asked is None or reply.term != asked.term or reply.candidate_copy_id != self._promises.copy_id:
            return
        asked.granted[node_id] = reply.copy_id
        if self._has_won(asked):
            self._engine.stand_for_election()

    def handle_request_vote(self, node_id: int, request: RequestVote) -> None:
        """Let the engine decide on a vote, unless the peer lacks entries that this voter acknowledged."""
        if (request.last_term, request.last_index) < self._promises.end and not self._promises.is_kept:
            return
        if request.term < self._engine.term + _is_copy(request):
            return  # A copy may have led this term, and have lost its entries.
        self.answered_copy_id = request.copy_id
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
        """Count a vote once; learners have none."""
        engine = self._engine
        if reply.term != engine.term or node_id not in self._voters():
            return
        if reply.candidate_copy_id != self._promises.copy_id or engine.is_leading:
            return
        if self._votes.term != reply.term:
            self._votes = _Round(reply.term, {})
        # A vote by a voter that knew its promises stays valid, even if its disk was restored since.
        self._votes.granted[node_id] = min(reply.copy_id, self._votes.granted.get(node_id, reply.copy_id))
        if self._is_enough(self._votes.granted, needs_all=False):
            for _ in self._votes.granted:
                engine.receive(node_id, {"type": "response_vote", "term": reply.term})
            self._note_copies()

    def _note_copies(self) -> None:
        """Note that votes with a copied directory were given before the first entry of this term."""
        first = self._journal.last.raft_index
        for node_id, copy_id in self._votes.granted.items():
            if copy_id and self._engine.is_leading:
                self._note_copy(node_id, copy_id, first)

    def handle_term_hint(self, hint: TermHint) -> None:
        """Adopt the higher term of another voter."""
        if hint.term > self._engine.term:
            self._engine.adopt_term(hint.term)


def _listed(node_ids: Iterable[int]) -> str:
    """Return ids as text, separated by commas."""
    return ", ".join(map(str, node_ids))


def _is_copy(request: PreVote | RequestVote) -> bool:
    """Return True if the candidate has a copied directory, so that its term must be new to all voters."""
    return request.copy_id != 0

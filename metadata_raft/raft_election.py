"""Elections beside the engine's: PreVote, and whose vote counts.

Before a voter begins a term it asks whether it would win (Raft dissertation, 9.6). Nobody grants it who hears
from a leader, so a voter that was cut off comes back without deposing anybody. Votes count once a voter, and
only from the very disk that the log names: one that was lost has forgotten what it promised.

A voter whose directory is a copy may have forgotten as much. Its vote says so, and counts only where all
voters choose the same one: that one has whatever survived anywhere. It may stand itself under this rule, in a
term that is new to all of them, and counts only what was granted to this very start of it.
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

HINDRANCE_SECONDS: Final = 2.0  # after which the log says why a majority elects nobody
COURTESY_SECONDS: Final = 0.15  # in which a voter whom another one asked lets it try


class _Round(NamedTuple):
    term: int
    granted: dict[
        int, int
    ]  # by whom, and the copy id that came with it: 0 from those who know what they promised
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
        note_copy: Callable[[int, int, int], None],
        post: Callable[[int, RaftMessage], None],
    ) -> None:
        self._note_copy = note_copy  # (node id, copy id, first entry that was appended after it was told)
        self._own = own
        self._engine = engine
        self._journal = journal
        self._follower = follower
        self._voters = voters
        self._promises = promises
        self._post = post
        self._round: _Round | None = None
        self._votes = _Round(0, {})
        self._hindrance: str | None = None  # why the last votes were not enough though they were a majority
        self._hindered_at = NEVER  # since when it has been so
        self._has_said = False
        self.answered_copy_id = 0  # of the candidate whose request is being judged

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
        # Where no majority is left no election ever ends, and who was silent for so long leads nobody.
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
        """A majority; of a new quorum everybody, because an empty disk may be one that was lost."""
        # What was promised before a leader was heard does not depose that leader.
        is_current = asked.term == self._engine.term + 1 and asked.began_at > self._follower.heard_at
        return is_current and self._is_enough(asked.granted, needs_all=not self._voters().is_settled)

    def _is_enough(self, granted: Mapping[int, int], *, needs_all: bool) -> bool:
        """Return whether these and this voter are all voters, or a majority that knows what it promised."""
        voters = self._voters()
        known = {**granted, self._engine.node_id: self._promises.copy_id}
        if all(one.node_id in known for one in voters):
            return True
        sure = sum(known.get(one.node_id) == 0 for one in voters)
        return not needs_all and not self._promises.copy_id and sure > len(voters) // 2

    def handle_lost_leader(self) -> None:
        """The link to the leader broke: most likely it is dead, and others that lost it too will say so.

        They ask for votes one after the other, by their ids, so that one is elected before the next asks.
        """
        self._follower.heard_at = NEVER
        others = sorted(one.node_id for one in self._voters() if one.node_id != self._engine.leader_id)
        own = self._own.node_id
        self._engine.wait_briefly(others.index(own) if own in others else len(others))

    def _note_hindrance(self, granted: Mapping[int, int]) -> None:
        """After a round that was not won: say once why a majority of the voters elects nobody."""
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
            self._hindered_at, self._has_said = self._engine.now(), False
        # Voters that start together miss each other for a moment.
        if not self._has_said and self._engine.now() - self._hindered_at >= HINDRANCE_SECONDS:
            self._has_said = True
            log.warning("No leader can be elected. %s", self._hindrance)

    def waits_for(self) -> str | None:
        """Return whose votes are missing where a majority is there and does not count; None otherwise."""
        return None if self._engine.leader_id >= 0 else self._hindrance

    # ---- messages --------------------------------------------------------------------------------------

    def handle_pre_vote(self, node_id: int, request: PreVote) -> None:
        """Say whether this voter would vote for the peer."""
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
            # Two that stand at once may split the votes and lose a whole timeout.
            engine.election_deadline = max(engine.election_deadline, engine.now() + COURTESY_SECONDS)

    def handle_pre_vote_granted(self, node_id: int, reply: PreVoteGranted) -> None:
        """Count it; with enough of them the election begins with the next tick."""
        asked = self._round
        if asked is None or reply.term != asked.term or reply.candidate_copy_id != self._promises.copy_id:
            return
        asked.granted[node_id] = reply.copy_id
        if self._has_won(asked):
            self._engine.stand_for_election()

    def handle_request_vote(self, node_id: int, request: RequestVote) -> None:
        """Vote, or be silent; the engine decides, but for a peer that lacks what this disk has lost."""
        if (request.last_term, request.last_index) < self._promises.end and not self._promises.is_kept:
            return
        if request.term < self._engine.term + _is_copy(request):
            return  # It may have led this very term, and have forgotten what it said then.
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
        """Count a vote once; a learner has none."""
        engine = self._engine
        if reply.term != engine.term or node_id not in self._voters():
            return
        if reply.candidate_copy_id != self._promises.copy_id or engine.is_leading:
            return
        if self._votes.term != reply.term:
            self._votes = _Round(reply.term, {})
        # One that knew what it promised did promise it, whatever became of its disk since.
        self._votes.granted[node_id] = min(reply.copy_id, self._votes.granted.get(node_id, reply.copy_id))
        if self._is_enough(self._votes.granted, needs_all=False):
            for _ in self._votes.granted:
                engine.receive(node_id, {"type": "response_vote", "term": reply.term})
            self._tell_copies()

    def _tell_copies(self) -> None:
        """Note that those who voted with a copied directory did so before the first entry of this reign."""
        first = self._journal.last.raft_index
        for node_id, copy_id in self._votes.granted.items():
            if copy_id and self._engine.is_leading:
                self._note_copy(node_id, copy_id, first)

    def handle_term_hint(self, hint: TermHint) -> None:
        """Somebody knows a higher term."""
        if hint.term > self._engine.term:
            self._engine.adopt_term(hint.term)


def _listed(node_ids: Iterable[int]) -> str:
    """Return ids as they are read."""
    return ", ".join(map(str, node_ids))


def _is_copy(request: PreVote | RequestVote) -> bool:
    """Return whether the candidate stands with a copied directory: then in a term that is new to all."""
    return request.copy_id != 0

"""Mutants: voters with one protection removed, which the checks of the quorum must detect."""

from typing import Any

from ottla.metadata_raft.quorum_state import QuorumState
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_messages import AppendEntries, AppendReply, PreVoteGranted, VoteGranted


def acks_before_it_syncs(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that sends votes and acknowledgements before the sync."""
    member = RaftMember(*args, **kwargs)
    tick = member.engine.tick

    def tick_and_flush() -> None:
        tick()
        member.guard.flush()

    member.engine.tick = tick_and_flush  # type: ignore[method-assign]
    return member


def forgets_its_vote(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that writes its term and vote only once."""
    member = RaftMember(*args, **kwargs)
    journal, write = member.journal, member.journal.set_state

    def set_state(state: QuorumState) -> None:
        if journal.state.term == 0:
            write(state)
        journal._state = state

    journal.set_state = set_state  # type: ignore[method-assign]
    return member


def commits_unverified_entries(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that commits up to the end of its own log, as stock pysyncobj does (S1)."""
    member = RaftMember(*args, **kwargs)
    handle_append = member.follower.handle_append

    def handle(node_id: int, request: AppendEntries) -> None:
        handle_append(node_id, request)
        if request.term == member.engine.term:
            commit_index = min(request.commit_index, member.journal.last.raft_index)
            member.engine.commit_index = max(member.engine.commit_index, commit_index)

    member.follower.handle_append = handle  # type: ignore[method-assign]
    return member


def truncates_matching_entries(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that truncates entries without a conflict, as stock pysyncobj does (S3)."""
    member = RaftMember(*args, **kwargs)
    handle_append, journal = member.follower.handle_append, member.journal

    def handle(node_id: int, request: AppendEntries) -> None:
        previous = request.previous_index
        is_known = journal.term_at(previous) == request.previous_term and request.term >= member.engine.term
        if is_known and journal.first.raft_index <= previous < journal.last.raft_index:
            journal.truncate_from(previous + 1)
        handle_append(node_id, request)

    member.follower.handle_append = handle  # type: ignore[method-assign]
    return member


def counts_old_acks(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that counts acknowledgements of an earlier term, as stock pysyncobj does (S2)."""
    member = RaftMember(*args, **kwargs)
    guard = member.guard
    handle_reply = guard._hear_reply

    def receive(peer: Any, message: Any) -> None:
        if isinstance(message, AppendReply) and guard.engine.is_leading and message.term < guard.engine.term:
            guard.replication.handle_reply(peer.node_id, message)
        else:
            handle_reply(peer, message)

    guard._hear_reply = receive  # type: ignore[method-assign]
    return member


def elects_without_pre_vote(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter without PreVote (M1, M2)."""
    member = RaftMember(*args, **kwargs)
    member.election._may_stand = lambda voters: True  # type: ignore[method-assign]
    return member


def counts_any_disk(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that votes with an empty disk under its old id (M3)."""
    member = RaftMember(*args, **kwargs)
    member.counts = lambda peer: peer.node_id in member.voters  # type: ignore[method-assign]
    member.election._has_won = lambda ballot: len(ballot.granted) + 1 > len(member.voters) // 2  # type: ignore[method-assign]
    return member


def commits_old_terms_by_count(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that commits entries of any term that a majority has (Raft paper, 5.4.2 and figure 8)."""
    member = RaftMember(*args, **kwargs)
    engine, tick = member.engine, member.engine.tick

    def count_and_tick() -> None:
        if engine.is_leading:
            others = [one.node_id for one in member.voters if one.node_id != engine.node_id]
            match_indexes = sorted(
                [member.journal.last.raft_index, *map(engine.match_of, others)], reverse=True
            )
            engine.commit_index = max(engine.commit_index, match_indexes[len(match_indexes) // 2])
        tick()

    engine.tick = count_and_tick  # type: ignore[method-assign]
    return member


def votes_with_a_rolled_back_disk(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that votes before it has again what it had acknowledged."""
    member = RaftMember(*args, **kwargs)
    member.journal.lose_promise(None)
    member.election._promises = _KeptPromises(member)  # type: ignore[assignment]
    return member


def accepts_a_copied_directory(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that does not check whether its directory is a copy."""
    journal = args[1]
    journal.own_directory()
    return RaftMember(*args, **kwargs)


def reminds_without_proof(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a leader that reminds a voter with a copied directory without a proof from the others."""
    member = RaftMember(*args, **kwargs)
    member.replication._is_proven = lambda *_: True  # type: ignore[method-assign]
    return member


def accepts_older_proofs(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a leader that accepts older acknowledgements as the proof that there is no other leader."""
    member = RaftMember(*args, **kwargs)
    note_copy = member.replication.note_copy
    member.replication.note_copy = (  # type: ignore[method-assign]
        lambda node_id, copy_id, proof_index: note_copy(node_id, copy_id, proof_index - 1)
    )
    return member


def counts_votes_of_copies(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a voter that counts votes of copied directories like others, although they may be second votes."""
    member = RaftMember(*args, **kwargs)
    election, handle_vote = member.election, member.election.handle_vote
    handle_pre_vote = member.election.handle_pre_vote_granted
    election.handle_vote = lambda node_id, vote: handle_vote(  # type: ignore[method-assign]
        node_id, VoteGranted(term=vote.term, candidate_copy_id=vote.candidate_copy_id)
    )
    election.handle_pre_vote_granted = lambda node_id, vote: handle_pre_vote(  # type: ignore[method-assign]
        node_id, PreVoteGranted(term=vote.term, candidate_copy_id=vote.candidate_copy_id)
    )
    return member


def counts_acks_of_copies(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a leader that counts acknowledgements of copies, which may have promised to follow another."""
    member = RaftMember(*args, **kwargs)
    replication, count = member.replication, member.replication._count

    def count_all(node_id: int, progress: Any, raft_index: int, copy_id: int) -> None:
        count(node_id, progress, raft_index, copy_id)
        member.engine.set_match(node_id, max(member.engine.match_of(node_id), raft_index))

    replication._count = count_all  # type: ignore[method-assign]
    return member


def counts_older_votes(*args: Any, **kwargs: Any) -> RaftMember:
    """Make a candidate with a copied directory that counts votes granted to the log that it had before."""
    member = RaftMember(*args, **kwargs)
    election, promises = member.election, member.promises
    handle_vote, handle_pre_vote = election.handle_vote, election.handle_pre_vote_granted
    election.handle_vote = lambda node_id, vote: handle_vote(  # type: ignore[method-assign]
        node_id, VoteGranted(term=vote.term, copy_id=vote.copy_id, candidate_copy_id=promises.copy_id)
    )
    election.handle_pre_vote_granted = lambda node_id, vote: handle_pre_vote(  # type: ignore[method-assign]
        node_id, PreVoteGranted(term=vote.term, copy_id=vote.copy_id, candidate_copy_id=promises.copy_id)
    )
    return member


class _KeptPromises:
    is_kept = True
    copy_id = 0

    def __init__(self, member: RaftMember) -> None:
        self._journal = member.journal

    @property
    def end(self) -> tuple[int, int]:
        return self._journal.last.term, self._journal.last.raft_index

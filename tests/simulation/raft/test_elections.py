"""Elections that must not happen, and terms that cannot have begun."""

from collections.abc import Callable

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft import raft_node
from ottla.metadata_raft.quorum_state import MAX_TERM, QuorumState, read_quorum_state, write_quorum_state
from ottla.metadata_raft.raft_guard import TERM_RISE_BURST, Peer
from ottla.metadata_raft.raft_messages import (
    AppendEntries,
    AppendReply,
    PreVote,
    PreVoteGranted,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotReply,
    TermHint,
    TimeoutNow,
    VoteGranted,
    encode_message,
)
from tests.simulation.raft.world import DIRECTORY, Node, World


def deliver(target: Node, source: Node, message: RaftMessage) -> None:
    target.member.guard.receive(Peer(source.node_id, source.directory_id), encode_message(message))


def test_a_pre_vote_from_before_the_leader_was_heard_again_elects_no_leader() -> None:
    world = World(3)
    leader = world.leader()
    term = leader.leading_term
    voter, other = world.others(leader)
    world.network.isolate(voter.node_id)
    world.run(3)
    last = voter.member.journal.last
    heartbeat = AppendEntries(
        term=term, commit_index=0, previous_index=last.raft_index, previous_term=last.term
    )

    deliver(voter, leader, heartbeat)
    deliver(voter, other, PreVoteGranted(term=term + 1))
    world.network.rejoin(voter.node_id)
    world.run(3)

    assert world.leaders == [leader] and leader.leading_term == term


def test_a_voter_without_a_majority_forgets_the_leader_that_is_gone() -> None:
    """Otherwise it would report the last leader for ever after the others died."""
    world = World(3)
    leader = world.leader()
    other, survivor = world.others(leader)
    term = survivor.member.engine.term
    assert survivor.member.engine.leader_id == leader.node_id

    world.crash(leader)
    world.crash(other)
    world.run(3)

    assert survivor.member.engine.leader_id == -1
    assert survivor.member.engine.term == term, "a round that is not won changes nothing else"


def test_a_deadline_that_passes_between_two_readings_of_the_clock_elects_no_leader() -> None:
    world = World(3)
    voter, _, missing = world.nodes.values()
    world.crash(missing)
    raft_node.use_clock(lambda: running_clock(world))

    for _ in range(200):
        voter.member.engine.election_deadline = world.now + CLOCK_STEP_SECONDS * 1.5
        voter.member.cycle()

    assert voter.member.engine.term == 0, (
        "it stood for election, and not every voter of a new quorum was heard"
    )


CLOCK_STEP_SECONDS = 1e-6


def running_clock(world: World) -> float:
    """Return the time of a clock that is later at each reading, as on a real machine."""
    world.now += CLOCK_STEP_SECONDS
    return world.now


# ---- terms -------------------------------------------------------------------------------------------------

AHEAD = 2**40  # of any log here
MESSAGES: tuple[Callable[[int], RaftMessage], ...] = (
    lambda term: PreVote(term=term, last_index=AHEAD, last_term=term),
    lambda term: PreVoteGranted(term=term),
    lambda term: RequestVote(term=term, last_index=AHEAD, last_term=term),
    lambda term: VoteGranted(term=term),
    lambda term: TermHint(term=term),
    lambda term: TimeoutNow(term=term),
    lambda term: AppendEntries(term=term, commit_index=AHEAD, previous_index=1, previous_term=1),
    lambda term: AppendReply(term=term, previous_index=1, success=True, next_index=2),
    lambda term: SnapshotReply(term=term, last_index=1, position=0, wanted_position=0, is_installed=True),
    lambda term: SnapshotChunk(
        term=term, last_index=AHEAD, last_term=1, end_offset=9, total_bytes=9, position=0, chunk=b"x"
    ),
)


def rejects(target: Node, source: Node, message: RaftMessage) -> bool:
    """Return True if the target rejects the message, so that the link would be closed."""
    try:
        deliver(target, source, message)
    except KafkaError as rejection:
        assert rejection.code is ErrorCode.CORRUPT_MESSAGE
        return True
    return False


@pytest.mark.parametrize("make", MESSAGES, ids=lambda make: type(make(1)).__name__)
def test_a_term_that_cannot_have_begun_is_rejected(make: Callable[[int], RaftMessage]) -> None:
    """The highest term of a message (int32) would be the last one, and no leader could be elected again."""
    world = World(3)
    leader = world.leader()
    term = leader.leading_term
    other, third = world.others(leader)

    assert all(rejects(target, other, make(MAX_TERM)) for target in (leader, third))

    world.run(5)
    leader.propose("x")
    world.run(1)
    assert leader.leading_term == term and world.history.acknowledged == {"x"}


def test_a_voter_that_was_away_for_a_million_elections_is_accepted() -> None:
    world = World(3)
    leader = world.leader()
    late = world.others(leader)[0]
    world.network.isolate(late.node_id)
    world.run(2)
    for node in world.nodes.values():
        if node is not late:
            node.member.engine.adopt_term(1_000_000)
    world.leader()

    world.network.rejoin(late.node_id)
    world.run(3)

    assert late.member.engine.term == world.leader().leading_term > 1_000_000


def test_ever_rising_terms_are_rejected_before_they_run_out() -> None:
    """Even with a faulty peer, or one that gets its own messages back, terms last for years of elections."""
    world = World(3)
    leader = world.leader()
    faulty = world.others(leader)[0]
    rest = world.others(faulty)

    for _ in range(1_000):
        world.step()
        for node in rest:
            rejects(node, faulty, TermHint(term=node.member.engine.term + TERM_RISE_BURST // 4))
    world.crash(faulty)

    assert world.leader().leading_term < 2 * TERM_RISE_BURST < MAX_TERM // 10


def test_a_voter_in_the_last_term_keeps_running_without_an_election() -> None:
    world = World(3)
    late = world.others(world.leader())[0]
    world.network.isolate(late.node_id)
    late.member.engine.adopt_term(MAX_TERM)

    world.run(10)

    assert late.is_up and late.member.engine.term == MAX_TERM
    world.leader().propose("x")
    world.run(1)
    assert world.history.acknowledged == {"x"}


def test_a_snapshot_of_a_term_that_has_not_begun_is_rejected() -> None:
    world = World(3)
    leader = world.leader()
    follower = world.others(leader)[0]
    chunk = SnapshotChunk(
        term=leader.leading_term,
        last_index=AHEAD,
        last_term=leader.leading_term + 1,
        end_offset=9,
        total_bytes=9,
        position=0,
        chunk=b"x",
    )

    assert rejects(follower, leader, chunk)


def test_a_file_with_a_term_that_no_message_can_have_is_damaged() -> None:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    write_quorum_state(disk, DIRECTORY, QuorumState(MAX_TERM + 1, 1))

    with pytest.raises(KafkaError, match="quorum-state is damaged"):
        read_quorum_state(disk, DIRECTORY)

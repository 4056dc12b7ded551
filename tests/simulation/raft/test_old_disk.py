"""A voter whose disk was restored to an earlier state may not vote until it has all that it acknowledged."""

import json
import logging
from collections.abc import Callable

import pytest

from ottla.metadata_raft.quorum_state import QUORUM_STATE, LostPromise, read_quorum_state
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_messages import (
    PreVote,
    PreVoteGranted,
    RaftMessage,
    RequestVote,
    TermHint,
    TimeoutNow,
    VoteGranted,
    decode_message,
    encode_message,
)
from ottla.metadata_raft.raft_node import HEARTBEAT_SECONDS
from tests.simulation.raft import mutants
from tests.simulation.raft.world import DIRECTORY, Node, World


def restore_old_disk(world: World, node: Node, *, names: int = 5) -> None:
    """Copy a follower's disk, let the quorum continue, and leave the follower down with the copy."""
    world.crash(node)
    copy = node.copy_disk()
    world.start(node)
    world.run(1)
    leader = world.leader()
    for number in range(names):
        leader.propose(f"later{number}")
    world.run(1)
    assert f"later{names - 1}" in world.settings(node)
    world.crash(node)
    node.restore(copy, is_rollback=True)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_voter_with_a_restored_disk_catches_up_and_may_vote_again(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(size)
    leader = world.leader()
    old = world.others(leader)[0]
    restore_old_disk(world, old)

    world.start(old)

    world.run(2)
    assert world.has_settled() and old.journal.lost_promise is None
    assert "The disk of this voter was restored to an earlier state" in caplog.text
    assert f"The disk of voter {old.node_id} was restored to an earlier state" in caplog.text
    assert "This voter can vote again" in caplog.text
    assert not leader.member.replication.has_forgotten(old.node_id)
    assert world.settings(old) == world.settings(leader)
    world.crash(leader)
    if size > 2:
        assert world.run(10, until=lambda: bool(world.leaders))


def test_a_voter_with_a_restored_disk_gets_a_snapshot_if_the_log_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3, kept_entries=1)
    leader = world.leader()
    old = world.others(leader)[0]
    restore_old_disk(world, old, names=30)
    world.make_snapshot(leader)
    world.run(1)

    world.start(old)

    assert world.run(20, until=lambda: old.installed)
    world.run(1)
    assert old.journal.lost_promise is None and "This voter can vote again" in caplog.text
    assert world.settings(old) == world.settings(leader)


def lost_entry(make_member: Callable[..., RaftMember]) -> list[str]:
    """Commit with one follower only, restore its disk, stop the leader; return what is lost."""
    world = World(3, make_member=make_member)
    leader = world.leader()
    old, other = world.others(leader)
    world.run(1)
    copy = old.copy_disk()
    world.network.isolate(other.node_id)
    leader.propose("committed by two")
    world.run(1)
    assert "committed by two" in world.history.acknowledged
    world.crash(old)
    old.restore(copy, is_rollback=True)
    leader.member.replication.handle_forgotten = lambda *_: None  # type: ignore[method-assign]
    world.start(old)
    world.run(0.5, until=lambda: old.journal.lost_promise is not None)
    world.crash(leader)
    world.network.rejoin(other.node_id)
    try:
        world.run(10, until=lambda: bool(world.leaders))
        for node in world.leaders:
            world.run(1)
            return sorted(world.history.acknowledged - world.settings(node))
    except AssertionError as broken:
        return [str(broken)]
    assert old.journal.lost_promise is not None and not world.leaders
    world.start(leader)
    assert world.run(20, until=world.has_settled)
    return sorted(world.history.acknowledged - world.settings(old))


def test_a_voter_with_a_restored_disk_elects_no_candidate_that_lacks_what_it_acknowledged() -> None:
    assert not lost_entry(RaftMember)


def test_a_voter_that_votes_with_an_old_disk_loses_committed_entries() -> None:
    assert lost_entry(mutants.votes_with_a_rolled_back_disk)


def test_a_voter_remembers_over_another_restart_that_its_disk_was_restored() -> None:
    world = World(3)
    leader = world.leader()
    old = world.others(leader)[0]
    restore_old_disk(world, old)
    resend = leader.member.replication.handle_forgotten
    leader.member.replication.handle_forgotten = lambda *_: None  # type: ignore[method-assign]
    world.start(old)
    assert world.run(5, until=lambda: old.journal.lost_promise is not None)
    lost = old.journal.lost_promise

    world.crash(old)
    leader.member.replication.handle_forgotten = resend  # type: ignore[method-assign]

    state = read_quorum_state(old.disk, DIRECTORY)
    assert state is not None and isinstance(state.lost, LostPromise) and state.lost == lost
    world.start(old)
    world.run(2)
    assert world.has_settled() and old.journal.lost_promise is None


def test_all_voters_that_are_restored_from_one_backup_start() -> None:
    world = World(3)
    leader = world.leader()
    leader.propose("kept")
    world.run(1)
    copies = {node.node_id: node.copy_disk() for node in world.nodes.values()}
    leader.propose("gone")
    world.run(1)
    for node in world.nodes.values():
        world.crash(node)
        node.restore(copies[node.node_id])
    world.history.applied.clear()
    world.history.leaders.clear()

    for node in world.nodes.values():
        world.start(node)

    assert world.settings(world.leader()) == {"kept"}
    assert all(node.journal.lost_promise is None for node in world.nodes.values())


def test_two_of_three_voters_that_are_restored_start() -> None:
    world = World(3)
    leader = world.leader()
    copies = {node.node_id: node.copy_disk() for node in world.others(leader)}
    leader.propose("kept by one")
    world.run(1)
    for node in world.others(leader):
        world.crash(node)
        node.restore(copies[node.node_id])

    for node in world.others(leader):
        world.start(node)

    assert world.run(20, until=lambda: world.leaders and world.has_settled())
    assert world.run(2, until=lambda: all(one.journal.lost_promise is None for one in world.nodes.values()))
    assert "kept by one" in world.settings(world.leaders[0])


# ---- directories that are copies -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_voter_whose_directory_was_moved_may_vote_again_by_itself(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = World(size)
    leader = world.leader()
    moved = world.others(leader)[0] if size > 1 else leader
    leader.propose("kept")
    world.run(1)
    world.crash(moved)
    moved.restore(moved.copy_disk())

    world.start(moved)

    assert world.run(10, until=lambda: world.leaders and moved.has_recovered)
    world.run(1)
    if size == 1:
        assert "is a copy: it was moved or restored. The node is the only voter" in caplog.text
    else:
        assert "The data directory of this voter is a copy" in caplog.text
        assert "This voter can vote again" in caplog.text
    assert world.has_settled() and world.settings(moved) == {"kept"}
    world.crash(moved)
    caplog.clear()
    world.start(moved)
    assert world.run(10, until=lambda: world.leaders) and "is a copy" not in caplog.text


def lost_with_a_lagging_voter(make_member: Callable[..., RaftMember]) -> list[str]:
    """Commit with one follower only, restore its files while there is no leader; return what is lost."""
    world = World(3, make_member=make_member)
    leader = world.leader()
    copied, other = world.others(leader)
    world.run(1)
    copy = copied.copy_disk()
    world.crash(other)
    leader.propose("committed by two")
    world.run(1)
    assert "committed by two" in world.history.acknowledged
    world.crash(copied)
    world.crash(leader)
    copied.restore(copy)
    for node in (copied, other):
        world.start(node)
    try:
        if world.run(20, until=lambda: bool(world.leaders)):
            world.run(1)
            return sorted(world.history.acknowledged - world.settings(world.leaders[0]))
    except AssertionError as broken:
        return [str(broken)]
    assert copied.journal.is_copied
    world.crash(copied)
    world.start(copied)
    assert copied.journal.is_copied, "another start does not tell what was promised"
    world.start(leader)
    assert world.run(20, until=lambda: world.leaders and copied.has_recovered and world.has_settled())
    return sorted(world.history.acknowledged - world.settings(copied))


def test_a_copy_and_a_lagging_voter_elect_no_candidate_without_committed_entries() -> None:
    assert not lost_with_a_lagging_voter(RaftMember)


@pytest.mark.parametrize("mutant", [mutants.accepts_a_copied_directory, mutants.counts_votes_of_copies])
def test_a_copy_whose_vote_counts_loses_committed_entries(mutant: Callable[..., RaftMember]) -> None:
    assert lost_with_a_lagging_voter(mutant)


def committed_by_two_leaders(make_member: Callable[..., RaftMember]) -> str:
    """Let a voter elect another leader, and restore its files while the first leads; return what breaks."""
    world = World(3, make_member=make_member)
    first = world.leader()
    first.propose("known to all")
    world.run(1)
    copies = {node.node_id: node.copy_disk() for node in world.nodes.values()}
    world.network.isolate(first.node_id)
    copied, second = world.others(first)
    assert world.run(0.7, until=lambda: second.leading_term or copied.leading_term)
    if copied.leading_term:
        copied, second = second, copied
    try:
        second.propose("of the second")
        assert world.run(0.3, until=lambda: "of the second" in world.history.acknowledged)
        assert first.leading_term, "it has not noticed yet"
        world.crash(copied)
        copied.restore(copies[copied.node_id])
        world.network.isolate(second.node_id)
        world.network.heal(first.node_id, copied.node_id)
        world.network.heal(copied.node_id, first.node_id)
        world.start(copied)
        world.run(0.3)
        for number in range(20):
            first.propose(f"of the first {number}")
            world.run(0.1)
        for node in world.nodes.values():
            world.network.rejoin(node.node_id)
        assert world.run(20, until=lambda: world.leaders and world.has_settled() and copied.has_recovered)
    except AssertionError as broken:
        return str(broken)
    assert world.history.acknowledged <= world.settings(copied)
    return ""


def test_a_leader_that_was_replaced_cannot_commit_with_a_copy() -> None:
    assert committed_by_two_leaders(RaftMember) == ""


@pytest.mark.parametrize(
    "mutant",
    [
        mutants.reminds_without_proof,
        mutants.accepts_older_proofs,
        mutants.counts_acks_of_copies,
        mutants.accepts_a_copied_directory,
    ],
)
def test_two_leaders_commit_if_a_copy_follows_without_proof(mutant: Callable[..., RaftMember]) -> None:
    assert "state-machine-safety" in committed_by_two_leaders(mutant)


def elected_by_an_old_vote(make_member: Callable[..., RaftMember]) -> str:
    """Deliver a vote that a voter gave before its files were restored; return what breaks."""
    world = World(5, make_member=make_member)
    first = world.leader()
    copied, late, near, far = world.others(first)
    network = world.network
    first.propose("known to all")
    world.run(1)
    copy = copied.copy_disk()
    # The leader hands over to another node, whose messages it does not receive. Only one voter receives them,
    # and its vote is delayed for long; so is the request to another voter.
    for node in (first, near):
        network.cut(late.node_id, node.node_id)
    network.held |= {(copied.node_id, late.node_id), (late.node_id, far.node_id)}
    first.member.guard.post(late.node_id, TimeoutNow(term=first.member.engine.term))
    assert world.run(0.5, until=lambda: copied.journal.state.voted_id == late.node_id)
    network.held |= {(late.node_id, copied.node_id), (far.node_id, late.node_id)}
    for node in (first, near):
        network.cut(node.node_id, late.node_id)
    on_its_way = list(network.queue)
    world.crash(copied)
    network.queue = on_its_way
    copied.restore(copy)
    world.start(copied)
    try:
        assert world.run(1, until=lambda: copied.has_recovered) and first.leading_term
        network.cut(first.node_id, far.node_id)
        network.cut(far.node_id, first.node_id)
        first.propose("by three")
        assert world.run(0.5, until=lambda: "by three" in world.history.acknowledged)
        network.held.clear()
        world.run(0.5)
        for node in world.nodes.values():
            network.rejoin(node.node_id)
        assert world.run(20, until=lambda: world.leaders and world.has_settled())
    except AssertionError as broken:
        return str(broken)
    assert world.history.acknowledged <= world.settings(copied)
    return ""


def test_an_old_vote_elects_no_leader_once_the_voter_may_vote_again() -> None:
    assert elected_by_an_old_vote(RaftMember) == ""


@pytest.mark.parametrize("mutant", [mutants.reminds_without_proof, mutants.accepts_older_proofs])
def test_an_old_vote_undoes_a_commit_if_no_new_entry_is_the_proof(
    mutant: Callable[..., RaftMember],
) -> None:
    assert "A leader contradicts a committed entry" in elected_by_an_old_vote(mutant)


def test_a_leader_sends_a_heartbeat_as_soon_as_a_link_is_open() -> None:
    """A heartbeat interval later, a voter whose volume was rolled back could have elected another leader."""
    world = World(3)
    leader = world.leader()
    voter = world.others(leader)[0]

    for _ in range(5):
        world.crash(voter)
        world.run(HEARTBEAT_SECONDS / 4)
        world.start(voter)

        assert world.run(HEARTBEAT_SECONDS / 3, until=lambda: voter.member.engine.leader_id == leader.node_id)


def elected_for_a_lost_log(make_member: Callable[..., RaftMember]) -> str:
    """Delay a request for a vote until the candidate has lost its log; return what breaks."""
    world = World(3, make_member=make_member)
    copied = world.leader()
    knows, lags = world.others(copied)
    network = world.network
    world.run(1)
    copy = copied.copy_disk()
    network.isolate(lags.node_id)
    copied.propose("committed by two")
    world.run(0.5)
    assert "committed by two" in world.history.acknowledged
    term = copied.member.engine.term
    world.crash(copied)
    network.rejoin(lags.node_id)
    network.isolate(knows.node_id)
    network.heal(copied.node_id, knows.node_id)
    network.held.add((copied.node_id, knows.node_id))
    world.start(copied)
    assert world.run(5, until=lambda: copied.member.engine.term > term)
    vote_requests = sorted(one for one in network.queue if one[3] == knows.node_id)
    assert len(vote_requests) == 2, "a PreVote and a RequestVote"
    world.crash(copied)
    network.queue = []
    copied.restore(copy)
    network.heal(knows.node_id, copied.node_id)
    world.start(copied)
    try:
        election = copied.member.election
        assert world.run(
            5, until=lambda: election._round is not None and lags.node_id in election._round.granted
        )
        for late in vote_requests:
            network.held.clear()
            network.queue = [late]
            world.deliver()
            network.held.add((copied.node_id, knows.node_id))
            world.run(0.5)
        network.held.clear()
        for node in world.nodes.values():
            network.rejoin(node.node_id)
        assert world.run(20, until=lambda: world.leaders and world.has_settled() and copied.has_recovered)
    except AssertionError as broken:
        return str(broken)
    assert world.history.acknowledged <= world.settings(copied)
    return ""


def test_a_copy_is_not_elected_for_the_log_that_it_had() -> None:
    assert elected_for_a_lost_log(RaftMember) == ""


def test_a_copy_that_counts_votes_for_the_log_that_it_had_undoes_a_commit() -> None:
    broken = elected_for_a_lost_log(mutants.counts_older_votes)

    assert "A leader contradicts a committed entry" in broken


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_cluster_whose_files_all_come_from_one_backup_starts(size: int) -> None:
    world = World(size)
    world.leader().propose("kept")
    world.run(1)
    copies = {node.node_id: node.copy_disk() for node in world.nodes.values()}
    world.leader().propose("gone")
    world.run(1)
    for node in world.nodes.values():
        world.crash(node)
        node.restore(copies[node.node_id])
    world.history.applied.clear()
    world.history.leaders.clear()

    for node in world.nodes.values():
        world.start(node)

    assert world.run(20, until=lambda: all(node.has_recovered for node in world.nodes.values()))
    world.leader().propose("new")
    world.run(1)
    assert world.settings(world.leader()) == {"kept", "new"} and world.has_settled()


def test_the_newest_of_several_restored_logs_wins() -> None:
    world = World(3)
    leader = world.leader()
    copies = {node.node_id: node.copy_disk() for node in world.others(leader)}
    leader.propose("kept by one")
    world.run(1)
    for node in world.others(leader):
        world.crash(node)
        node.restore(copies[node.node_id])

    for node in world.others(leader):
        world.start(node)

    assert world.run(
        20, until=lambda: world.leaders and all(one.has_recovered for one in world.nodes.values())
    )
    world.run(1)
    assert world.settings(world.leaders[0]) == {"kept by one"} and world.has_settled()


def test_voters_that_cannot_elect_because_of_a_copy_name_the_missing_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3)
    leader = world.leader()
    copied, other = world.others(leader)
    world.run(1)
    world.crash(copied)
    copied.restore(copied.copy_disk())
    world.crash(leader)

    world.start(copied)
    world.run(10)

    missed = (
        f"The data directories of these voters are copies: {copied.node_id}. Their votes do not count while"
        f" other voters are missing: {leader.node_id}. Start the missing voters; if they are lost, see"
        " `ottla quorum trust-copy --help`."
    )
    assert not world.leaders
    assert {node.member.election.waits_for() for node in (copied, other)} == {missed}
    assert 1 <= caplog.text.count(missed) <= 2, "each of the two logs it once at most"
    world.start(leader)
    assert world.run(20, until=lambda: world.leaders and copied.has_recovered)
    world.run(3)
    assert [node.member.election.waits_for() for node in world.nodes.values()] == [None] * 3


def test_voters_whose_directories_are_all_copies_elect_a_leader_in_a_new_term() -> None:
    world = World(3)
    world.leader()
    world.run(1)
    for node in world.nodes.values():
        world.crash(node)
        node.restore(node.copy_disk())
    known = max(node.journal.state.term for node in world.nodes.values())

    for node in world.nodes.values():
        world.start(node)

    assert world.run(20, until=lambda: world.leaders)
    assert world.leaders[0].member.engine.term > known


@pytest.mark.parametrize(("copy_id", "answer"), [(0, PreVoteGranted), (5, TermHint)])
def test_a_copy_gets_a_pre_vote_only_for_a_term_that_is_new_to_the_voter(
    copy_id: int, answer: type[RaftMessage]
) -> None:
    """The copy may have led the present term of the voter, and lost the entries of that term."""
    world = World(3)
    voter, candidate = world.others(world.leader())
    world.network.isolate(voter.node_id)
    world.run(3)  # it has no leader any more
    last, sent = voter.member.journal.last, list[type[RaftMessage]]()
    request = PreVote(
        term=voter.member.engine.term, last_index=last.raft_index, last_term=last.term, copy_id=copy_id
    )
    voter.send = lambda _, frame: sent.append(type(decode_message(frame)))  # type: ignore[method-assign]

    voter.member.guard.receive(Peer(candidate.node_id, candidate.directory_id), encode_message(request))
    voter.member.guard.flush()

    assert sent == [answer]


def test_a_copy_gets_no_vote_in_a_term_that_the_voter_knows() -> None:
    """The copy may have been given another vote of that term before its files were restored."""
    world = World(3)
    voter, candidate = world.others(world.leader())
    world.network.isolate(voter.node_id)
    voter.member.engine.adopt_term(voter.member.engine.term + 1)  # in which it has not voted
    voter.member.cycle()
    last, sent = voter.member.journal.last, list[type[RaftMessage]]()
    voter.send = lambda _, frame: sent.append(type(decode_message(frame)))  # type: ignore[method-assign]

    for copy_id in (5, 0):
        request = RequestVote(
            term=voter.member.engine.term, last_index=last.raft_index, last_term=last.term, copy_id=copy_id
        )
        voter.member.guard.receive(Peer(candidate.node_id, candidate.directory_id), encode_message(request))
        voter.member.cycle()
        assert sent == ([] if copy_id else [VoteGranted])


def test_a_directory_of_an_earlier_version_counts_as_an_original_and_gets_an_identity() -> None:
    world = World(3)
    leader = world.leader()
    old = world.others(leader)[0]
    world.crash(old)
    path = DIRECTORY / QUORUM_STATE
    values = json.loads(old.disk.read_file(path))
    del values["fileIdentity"]
    old.disk.write_file(path, json.dumps(values).encode(), sync=True)
    old.restore(old.copy_disk())

    world.start(old)

    assert old.has_recovered
    assert "fileIdentity" in json.loads(old.disk.read_file(path))


@pytest.mark.parametrize("place", [0.3, 0.5, 0.8])
def test_a_voter_with_a_flipped_bit_in_its_log_gets_the_lost_entries_again(place: float) -> None:
    world = World(3)
    leader = world.leader()
    old = world.others(leader)[0]
    for number in range(12):
        leader.propose(f"name{number}")
        world.run(0.5)
    world.crash(old)
    (path,) = [path for path in old.disk.files if path.suffix == ".log"]
    flipped = old.disk.files[path].content
    flipped[int(len(flipped) * place)] ^= 4

    world.start(old)

    assert old.journal.damage is not None
    assert world.run(10, until=lambda: old.journal.lost_promise is None)
    world.run(1)
    assert world.has_settled()
    assert world.settings(old) == world.settings(leader)
    world.crash(leader)
    assert world.run(10, until=lambda: bool(world.leaders)), "it has its vote"


def test_a_voter_that_lost_an_entry_to_a_flipped_bit_votes_for_no_candidate_without_it() -> None:
    """The entry is committed only by it and the leader; then the bit flips, and the leader dies."""
    world = World(3)
    leader = world.leader()
    old, other = world.others(leader)
    world.run(1)
    world.network.isolate(other.node_id)
    for number in range(4):
        leader.propose(f"committed by two {number}")
        world.run(0.5)
    assert "committed by two 3" in world.history.acknowledged
    world.crash(old)
    world.crash(leader)
    (path,) = [path for path in old.disk.files if path.suffix == ".log"]
    flipped = old.disk.files[path].content
    flipped[int(len(flipped) * 0.6)] ^= 4
    world.start(old)
    assert old.journal.damage is not None
    world.network.rejoin(other.node_id)

    world.run(10)

    assert not world.leaders, "the other one lacks it, and does not get the vote"
    world.start(leader)
    assert world.run(20, until=world.has_settled)
    assert world.history.acknowledged <= world.settings(old)


@pytest.mark.parametrize("names_behind", [0, 5])
def test_a_voter_whose_snapshot_is_damaged_gets_the_snapshot_of_the_leader(names_behind: int) -> None:
    world = World(3, kept_entries=1)
    leader = world.leader()
    old = world.others(leader)[0]
    for number in range(30):
        leader.propose(f"name{number}", 20)
    world.run(1)
    for node in (old, leader):
        world.make_snapshot(node)
    world.run(1)
    for number in range(names_behind):
        leader.propose(f"later{number}")
    world.run(1)
    world.crash(old)
    (path,) = [path for path in old.disk.files if path.suffix == ".checkpoint"]
    flipped = old.disk.files[path].content
    flipped[len(flipped) // 2] ^= 4

    world.start(old)

    assert old.journal.lost_promise is not None and old.journal.last.end_offset == 0
    assert world.run(20, until=lambda: bool(old.installed))
    world.run(2)
    assert world.has_settled()
    assert world.settings(old) == world.settings(leader)
    world.crash(leader)
    if not names_behind:
        # Only the name of the snapshot shows how much it had acknowledged: a new term ends the wait.
        world.start(leader)
    assert world.run(20, until=lambda: bool(world.leaders))
    world.run(2)
    assert old.journal.lost_promise is None


def test_a_crash_while_a_damaged_snapshot_is_set_aside_loses_no_promise() -> None:
    for step in range(1, 30):
        world = World(3, kept_entries=1)
        leader = world.leader()
        old = world.others(leader)[0]
        for number in range(8):
            leader.propose(f"name{number}", 20)
        world.run(1)
        world.make_snapshot(old)
        world.run(1)
        leader.propose("later")
        world.run(1)
        last = old.journal.last
        world.crash(old)
        (path,) = [path for path in old.disk.files if path.suffix == ".checkpoint"]
        old.disk.files[path].content[len(old.disk.files[path].content) // 2] ^= 4
        old.disk.steps, old.disk.fail_at, old.disk.stays_broken = 0, step, True
        try:
            world.start(old)
            assert step > 3
            return
        except OSError:
            old.disk.fail_at = None
        world.start(old)
        lost = old.journal.lost_promise
        assert lost is not None and lost[:2] >= (last.term, last.raft_index), step
    pytest.fail("to set the snapshot aside takes more steps than were tried")

"""A voter whose disk went back to an earlier copy has no vote until it has all that it acknowledged."""

from collections.abc import Callable

import pytest

from metadata_raft.quorum_state import LostPromise, read_quorum_state
from metadata_raft.raft_member import RaftMember
from tests.simulation.raft import mutants
from tests.simulation.raft.world import DIRECTORY, Node, World


def put_back(world: World, node: Node, *, names: int = 5) -> None:
    """Copy a follower's disk, let the quorum go on, and start the follower with the copy."""
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
    node.put_back(copy, is_rollback=True)


def followers(world: World, leader: Node) -> list[Node]:
    return [node for node in world.nodes.values() if node is not leader]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_voter_whose_disk_went_back_serves_again_and_has_its_vote_back(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(size)
    leader = world.leader()
    old = followers(world, leader)[0]
    put_back(world, old)

    world.start(old)

    world.run(2)
    assert world.has_settled() and old.journal.lost_promise is None
    assert "The disk of this voter went back to an earlier copy" in caplog.text
    assert f"The disk of voter {old.node_id} went back to an earlier copy" in caplog.text
    assert "This voter has its vote back" in caplog.text
    assert not leader.member.replication.has_forgotten(old.node_id)
    assert world.settings(old) == world.settings(leader)
    world.crash(leader)
    if size > 2:
        assert world.run(10, until=lambda: bool(world.leaders))


def test_a_voter_whose_disk_went_back_is_sent_a_snapshot_if_the_log_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(3, kept_entries=1)
    leader = world.leader()
    old = followers(world, leader)[0]
    put_back(world, old, names=30)
    world.make_snapshot(leader)
    world.run(1)

    world.start(old)

    assert world.run(20, until=lambda: old.installed)
    world.run(1)
    assert old.journal.lost_promise is None and "This voter has its vote back" in caplog.text
    assert world.settings(old) == world.settings(leader)


def lost_entry(make_member: Callable[..., RaftMember]) -> list[str]:
    """Commit with one follower alone, put its disk back, lose the leader; what is lost of it then."""
    world = World(3, make_member=make_member)
    leader = world.leader()
    old, other = followers(world, leader)
    world.run(1)
    copy = old.copy_disk()
    world.network.isolate(other.node_id)
    leader.propose("committed by two")
    world.run(1)
    assert "committed by two" in world.history.acked
    world.crash(old)
    old.put_back(copy, is_rollback=True)
    leader.member.replication.handle_forgotten = lambda *_: None  # type: ignore[method-assign]
    world.start(old)
    world.run(0.5, until=lambda: old.journal.lost_promise is not None)
    world.crash(leader)
    world.network.rejoin(other.node_id)
    try:
        world.run(10, until=lambda: bool(world.leaders))
        for node in world.leaders:
            world.run(1)
            return sorted(world.history.acked - world.settings(node))
    except AssertionError as broken:
        return [str(broken)]
    assert old.journal.lost_promise is not None and not world.leaders
    world.start(leader)
    assert world.run(20, until=world.has_settled)
    return sorted(world.history.acked - world.settings(old))


def test_it_votes_for_nobody_who_lacks_what_it_acknowledged() -> None:
    assert not lost_entry(RaftMember)


def test_a_voter_that_votes_with_an_old_disk_loses_what_was_committed() -> None:
    assert lost_entry(mutants.votes_with_a_disk_that_went_back)


def test_it_is_still_without_a_vote_after_another_restart() -> None:
    world = World(3)
    leader = world.leader()
    old = followers(world, leader)[0]
    put_back(world, old)
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


def test_all_voters_that_are_put_back_to_one_backup_start() -> None:
    world = World(3)
    leader = world.leader()
    leader.propose("kept")
    world.run(1)
    copies = {node.node_id: node.copy_disk() for node in world.nodes.values()}
    leader.propose("gone")
    world.run(1)
    for node in world.nodes.values():
        world.crash(node)
        node.put_back(copies[node.node_id])
    world.history.applied.clear()
    world.history.leaders.clear()

    for node in world.nodes.values():
        world.start(node)

    assert world.settings(world.leader()) == {"kept"}
    assert all(node.journal.lost_promise is None for node in world.nodes.values())


def test_two_of_three_voters_that_are_put_back_start() -> None:
    world = World(3)
    leader = world.leader()
    put_back_copies = {node.node_id: node.copy_disk() for node in followers(world, leader)}
    leader.propose("kept by one")
    world.run(1)
    for node in followers(world, leader):
        world.crash(node)
        node.put_back(put_back_copies[node.node_id])

    for node in followers(world, leader):
        world.start(node)

    assert world.run(20, until=lambda: world.leaders and world.has_settled())
    assert world.run(2, until=lambda: all(one.journal.lost_promise is None for one in world.nodes.values()))
    assert "kept by one" in world.settings(world.leaders[0])

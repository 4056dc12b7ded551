"""Elections that nobody needs, and terms that nobody can have begun."""

from metadata_raft.raft_guard import Peer
from metadata_raft.raft_messages import AppendEntries, PreVoteGranted, RaftMessage, encode_message
from tests.simulation.raft.world import Node, World


def tell(target: Node, source: Node, message: RaftMessage) -> None:
    target.member.guard.receive(Peer(source.node_id, source.directory_id), encode_message(message))


def test_a_vote_that_was_promised_before_the_leader_was_heard_again_elects_nobody() -> None:
    world = World(3)
    leader = world.leader()
    term = leader.leading_term
    voter, other = (node for node in world.nodes.values() if node is not leader)
    world.network.isolate(voter.node_id)
    world.run(3)
    last = voter.member.journal.last
    heartbeat = AppendEntries(
        term=term, commit_index=0, previous_index=last.raft_index, previous_term=last.term
    )

    tell(voter, leader, heartbeat)
    tell(voter, other, PreVoteGranted(term=term + 1))
    world.network.rejoin(voter.node_id)
    world.run(3)

    assert world.leaders == [leader] and leader.leading_term == term

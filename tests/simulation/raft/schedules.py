"""Schedules that random faults hardly find: every step is given, and the world checks the applied entries.

Each takes the function that makes its voters, so that a mutant can run it, too, and raises AssertionError if
applied entries are contradicted or a term has two leaders.
"""

from collections.abc import Callable, Collection

from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_member import RaftMember
from ottla.metadata_raft.raft_messages import AppendEntries, TermHint, decode_message, encode_message
from ottla.metadata_raft.raft_replication import ReplicationLimits
from tests.simulation.raft.world import Node, World

ONE_AT_A_TIME = ReplicationLimits(message_entries=1, messages_at_once=1)
SHORT = 0.001
RESIGNED = 1.0  # seconds after which an isolated leader has resigned


def figure_8(seed: int, make_member: Callable[..., RaftMember] = RaftMember) -> None:
    """Raft paper, figure 8: an entry of an old term is on a majority, and is still replaced by another.

    (a) S1 leads and has replicated its entry only to S2; (b) S5 is elected by S3 and S4 and appends another
    entry at the same index; (c) S1 leads again and replicates its old entry to S3: three of five have it, but
    no entry of S1's new term; (d) S5 is elected by S2, S3 and S4, and replaces it.
    """
    world = World(5, seed, make_member=make_member, limits=ONE_AT_A_TIME)
    s1 = world.leader()
    s2, s3, s4, s5 = world.others(s1)
    world.run(1)
    index = s1.member.journal.last.raft_index + 1

    _connect_only(world, (s1, s2))  # (a)
    s1.propose("old")
    assert world.run(0.5, until=lambda: s2.member.journal.last.raft_index == index)
    _connect_only(world, ())
    world.run(RESIGNED)

    _elect(world, s5, (s3, s4))  # (b)
    _connect_only(world, ())
    world.run(RESIGNED)
    assert s5.member.journal.last.raft_index == index > s3.member.journal.last.raft_index

    _drop_new_entries(s1)  # (c)
    _elect(world, s1, (s2, s3))
    assert world.run(0.5, until=lambda: s1.member.engine.match_of(s3.node_id) == index)
    world.run(0.1)
    old = s1.member.journal.at(index)
    assert old == s2.member.journal.last == s3.member.journal.last
    assert s1.member.engine.is_leading and s1.member.engine.match_of(s2.node_id) == index
    _connect_only(world, ())
    world.run(RESIGNED)

    _elect(world, s5, (s2, s3, s4))  # (d)
    assert world.run(1, until=lambda: s5.leading_term)
    assert s2.member.journal.at(index) != old
    _connect_only(world, world.nodes.values())
    assert world.run(10, until=world.has_settled)
    assert not world.history.acknowledged


def a_voter_is_asked_again_after_a_crash(
    seed: int, make_member: Callable[..., RaftMember] = RaftMember
) -> None:
    """A voter elects a leader, loses its power, and is asked for a vote by another candidate of that term."""
    world = World(3, seed, make_member=make_member)
    former = world.leader()
    voter, first = world.others(former)
    world.run(1)
    _connect_only(world, ())
    world.run(RESIGNED)

    _elect(world, first, (voter,))
    _connect_only(world, ())
    world.crash(voter)
    world.start(voter)
    _ask_for_votes(world, former, (voter,))
    world.run(0.2)
    assert former.member.engine.term == first.member.engine.term
    _connect_only(world, (first, voter))
    world.run(0.5)

    _connect_only(world, world.nodes.values())
    assert world.run(10, until=lambda: len(world.leaders) == 1 and world.has_settled())


# ---- steps -------------------------------------------------------------------------------------------------


def _connect_only(world: World, nodes: Collection[Node]) -> None:
    """Connect these nodes with each other, and no others."""
    for one in world.nodes.values():
        for other in world.nodes.values():
            if one is not other:
                is_open = one in nodes and other in nodes
                (world.network.heal if is_open else world.network.cut)(one.node_id, other.node_id)


def _ask_for_votes(world: World, candidate: Node, voters: Collection[Node]) -> None:
    """Let a candidate ask only these voters for votes, without PreVote, as if its leader had handed over."""
    _connect_only(world, (candidate, *voters))
    for voter in voters:
        voter.member.engine.postpone_election()
    candidate.member.engine.is_handed_leadership = True
    candidate.member.engine.stand_for_election()


def _elect(world: World, candidate: Node, voters: Collection[Node]) -> None:
    """Let a candidate be elected in a term that is new to these voters, before it sends its first entry."""
    for voter in voters:
        hint = encode_message(TermHint(term=voter.member.engine.term))
        candidate.member.guard.receive(Peer(voter.node_id, voter.directory_id), hint)
    _ask_for_votes(world, candidate, voters)
    for _ in range(100):
        world.step(SHORT)
        if candidate.member.engine.is_leading:
            return
    raise AssertionError("no leader was elected")


def _drop_new_entries(node: Node) -> None:
    """Drop entries that a node sends of its own term from now on, but not older ones."""
    send = node.send

    def send_old(node_id: int, frame: bytes) -> None:
        message = decode_message(frame)
        is_new = (
            isinstance(message, AppendEntries)
            and message.entries
            and message.previous_index >= node.member.journal.last.raft_index - 1
        )
        if not is_new:
            send(node_id, frame)

    node.send = send_old  # type: ignore[method-assign]

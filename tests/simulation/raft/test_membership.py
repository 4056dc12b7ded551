"""Changes of voters: one at a time, each with the whole log, none with a disk that lost its promises."""

from collections.abc import Callable
from functools import partial

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.quorum_state import read_quorum_state
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_messages import decode_message
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.voters import VoterSet, record_of_voters
from tests.simulation.raft.fuzz import LIMITS
from tests.simulation.raft.world import DIRECTORY, Node, World


def change(leader: Node, voters: VoterSet) -> None:
    """Let the leader append this set of voters."""
    end_offset = leader.member.journal.last.end_offset
    records = [record_of_voters(voters)]
    leader.member.propose(MetadataBatch(end_offset, leader.leading_term, 1_000, records))


def add(world: World, node: Node) -> None:
    """Let `node` catch up, and make it a voter."""
    leader = world.leader()
    assert world.run(10, until=lambda: leader.member.has_caught_up(node.node_id))
    change(leader, leader.member.voters.with_voter(node.voter))
    assert world.run(5, until=lambda: leader.member.has_committed_all)


def remove(world: World, node: Node) -> None:
    leader = world.leader()
    change(leader, leader.member.voters.without(node.node_id))
    assert world.run(5, until=lambda: leader.member.has_committed_all)


def voter_ids(world: World) -> list[int]:
    return sorted(world.leader().member.voters.by_id)


def test_a_quorum_grows_from_one_to_five_and_shrinks_again() -> None:
    world = World(1, spares=4)
    for number, node in enumerate(list(world.nodes.values())[1:]):
        world.leader().propose(f"n{number}")
        add(world, node)
    assert voter_ids(world) == [1, 2, 3, 4, 5]

    for node in (world.nodes[2], world.nodes[4]):
        if node is world.leader():
            node.member.engine.hand_over()
            world.run(2)
        world.leader().propose(f"without {node.node_id}")
        remove(world, node)
    for node in world.nodes.values():
        world.crash(node)
    for node in world.nodes.values():
        world.start(node)
    world.leader().propose("after a restart of all")
    world.run(2)

    assert voter_ids(world) == [1, 3, 5]
    assert world.history.acknowledged == world.settings(world.leader())
    assert len(world.history.acknowledged) == 7


def test_a_new_voter_has_the_log_before_it_may_vote() -> None:
    """A node with an empty log that counted at once would prevent all commits."""
    world = World(3, spares=1)
    leader = world.leader()
    spare = world.nodes[4]
    leader.propose("x")
    world.run(1)

    assert leader.member.has_caught_up(4) and world.settings(spare) == {"x"}
    assert 4 not in leader.member.voters and 4 not in spare.member.voters
    world.network.isolate(4)
    leader.propose("y")
    world.run(1)
    assert "y" in world.history.acknowledged and not leader.member.has_caught_up(4)


def test_a_node_without_a_vote_neither_elects_nor_is_elected() -> None:
    world = World(3, spares=1)
    leader = world.leader()
    other = next(node for node in world.nodes.values() if node.node_id < 4 and node is not leader)
    world.run(1)
    for node in (leader, next(one for one in world.nodes.values() if one not in (leader, other))):
        world.crash(node)

    world.run(20)

    # One voter of three and a node without a vote: no majority.
    assert not any(node.leading_term for node in (other, world.nodes[4]))


def test_a_second_change_is_rejected_until_the_first_is_committed() -> None:
    world = World(3, spares=2)
    leader = world.leader()
    world.run(1)
    change(leader, leader.member.voters.with_voter(world.nodes[4].voter))

    with pytest.raises(KafkaError) as rejection:
        change(leader, leader.member.voters.with_voter(world.nodes[5].voter))

    assert rejection.value.code is ErrorCode.INVALID_REQUEST
    assert 5 not in leader.member.voters


@pytest.mark.parametrize("what", ["two at once", "another disk", "itself"])
def test_a_set_whose_majorities_may_not_overlap_the_last_one_is_rejected(what: str) -> None:
    world = World(3, spares=2)
    leader = world.leader()
    voters = leader.member.voters
    others = [one for one in voters if one.node_id != leader.node_id]
    sets = {
        "two at once": voters.with_voter(world.nodes[4].voter).without(others[0].node_id),
        "another disk": voters.with_voter(others[0]._replace(directory_id=b"another disk 16!")),
        "itself": voters.without(leader.node_id),
    }

    with pytest.raises(KafkaError):
        change(leader, sets[what])


def test_a_change_that_was_never_committed_is_undone_with_its_entry() -> None:
    world = World(3, spares=1)
    old = world.leader()
    world.run(1)
    world.network.isolate(old.node_id)
    change(old, old.member.voters.with_voter(world.nodes[4].voter))
    assert 4 in old.member.voters
    world.run(8)

    world.network.rejoin(old.node_id)
    world.run(5)

    assert 4 not in old.member.voters and voter_ids(world) == [1, 2, 3]


def test_a_voter_that_lost_its_disk_votes_again_only_as_a_new_one() -> None:
    world = World(3)
    leader = world.leader()
    lost = world.others(leader)[0]
    for number in range(5):
        leader.propose(f"n{number}")
    world.run(1)
    world.crash(lost)
    lost.wipe()
    world.start(lost)
    world.run(5)
    # With its old id it gets no entries and is not counted.
    assert world.settings(lost) == set() and leader.member.guard.refused["not a voter"]

    remove(world, lost)
    add(world, lost)
    leader.propose("after")
    world.run(2)

    assert world.settings(lost) == world.history.acknowledged
    assert leader.member.voters.has(lost.node_id, lost.directory_id)
    world.crash(world.others(leader, lost)[0])
    leader.propose("with its vote")
    world.run(2)
    assert "with its vote" in world.history.acknowledged


def test_a_voter_with_another_disk_gets_no_entries_and_does_not_count() -> None:
    """Its id is that of a voter, so it cannot be a learner before the lost voter is removed."""
    world = World(3)
    leader = world.leader()
    lost, other = world.others(leader)
    world.network.isolate(other.node_id)
    world.crash(lost)
    lost.wipe()
    world.start(lost)

    leader.member.add_learner(lost.voter)
    leader.propose("x")
    world.run(5)

    assert lost.member.journal.last.raft_index == 0
    assert not world.history.acknowledged and not leader.leading_term


def test_a_new_quorum_forms_when_all_of_its_voters_are_there() -> None:
    """An empty disk may be a lost one, so the first election needs all voters."""
    world = World(3)
    for node in world.nodes.values():
        world.crash(node)
        node.wipe()
    for node_id in (1, 2):
        world.start(world.nodes[node_id])
    world.run(20)
    assert not world.leaders

    world.start(world.nodes[3])

    assert world.leader().member.voters.is_settled
    world.crash(world.nodes[3])
    world.run(5)
    assert world.leader()


def test_a_removed_node_does_not_disturb_the_others() -> None:
    world = World(3)
    leader = world.leader()
    gone = world.others(leader)[0]
    term = leader.leading_term

    remove(world, gone)
    world.run(30)

    assert world.leaders == [leader] and leader.leading_term == term


def test_a_lone_voter_sends_no_term_that_is_not_on_its_disk() -> None:
    """It wins at once; a term that it lost with its power would begin again, with other entries."""
    world = World(1, spares=1)
    lone, spare = world.nodes[1], world.nodes[2]
    world.leader()
    lone.propose("x")
    assert world.run(5, until=lambda: "x" in world.settings(spare))
    terms: list[tuple[int, int]] = []
    send = lone.send

    def send_and_check(node_id: int, frame: bytes) -> None:
        on_disk = read_quorum_state(lone.disk, DIRECTORY)
        assert on_disk is not None
        terms.append((decode_message(frame).term, on_disk.term))
        send(node_id, frame)

    lone.send = send_and_check  # type: ignore[method-assign]

    world.run(3)  # so that it stands again in the cycle in which it steps down
    lone.member.engine.adopt_term(lone.member.engine.term + 1)
    world.leader().propose("y")
    assert world.run(5, until=lambda: "y" in world.settings(spare))

    assert terms and all(sent <= on_disk for sent, on_disk in terms)


def test_a_disk_that_the_log_does_not_name_elects_neither_itself_nor_others() -> None:
    """It has a copy of the log, but does not know the promises of the previous disk."""
    world = World(3, limits=LIMITS._replace(message_entries=1, messages_at_once=1))
    leader = world.leader()
    lost, other = world.others(leader)
    for number in range(5):
        leader.propose(f"n{number}")
    world.run(1)
    world.crash(lost)
    lost.wipe()
    world.start(lost)
    world.run(1)
    for node in (leader, lost):
        world.network.cut(node.node_id, other.node_id)
        world.network.cut(other.node_id, node.node_id)
    change(leader, leader.member.voters.without(lost.node_id))  # which does not reach the others
    removal = leader.member.journal.last.raft_index

    world.run(0.7, until=lambda: lost.member.journal.last.raft_index == removal - 1)
    assert lost.member.voters.is_settled and lost.node_id in lost.member.voters
    world.crash(leader)
    world.network.rejoin(other.node_id)
    world.run(20)

    assert not world.leaders


def test_a_leader_forgets_the_progress_of_learners_of_an_earlier_term() -> None:
    """After two terms without a commit, the leader's log is shorter than the learner's was."""
    world = World(3, spares=1)
    network, old, spare = world.network, world.leader(), world.nodes[4]
    world.run(1)
    network.isolate(old.node_id)
    others = world.others(old, spare)
    assert world.run(10, until=lambda: any(node.member.engine.is_leading for node in others))
    cut_off = next(node for node in others if node.member.engine.is_leading)
    third = next(node for node in others if node is not cut_off)
    for _ in range(3):
        assert world.run(10, until=lambda: cut_off.member.engine.is_leading)
        network.cut(cut_off.node_id, third.node_id)
        network.cut(third.node_id, cut_off.node_id)
        world.run(2)
        assert not cut_off.leading_term and spare.member.journal.last == cut_off.member.journal.last
        network.heal(cut_off.node_id, third.node_id)
        network.heal(third.node_id, cut_off.node_id)
    network.isolate(cut_off.node_id)
    network.heal(old.node_id, third.node_id)
    network.heal(third.node_id, old.node_id)
    second = world.leader_among((old, third))
    network.rejoin(cut_off.node_id)
    world.run(2)

    network.isolate(second.node_id)
    cut_off.member.engine.is_handed_leadership = True
    cut_off.member.engine.stand_for_election()

    assert world.run(2, until=lambda: cut_off.leading_term)
    assert world.run(2, until=lambda: spare.image.version == cut_off.image.version)


def grown(world: World) -> tuple[Node, Node, Node]:
    """Grow the lone voter, which leads, to three voters; return them."""
    first, second, third = world.nodes.values()
    world.leader()
    add(world, second)
    add(world, third)
    first.propose("x")
    world.run(1)
    return first, second, third


def test_a_lone_voter_that_lost_its_disk_resigns_if_the_others_have_continued() -> None:
    """Its settings name only itself, so with an empty disk it starts a new quorum in the same cluster."""
    world = World(1, spares=2)
    first, second, third = grown(world)
    world.crash(first)
    first.wipe()
    leader = world.leader_among((second, third))
    term = leader.leading_term

    start_separate_quorum(world, first)
    leader.propose("y")
    allow_rejections(world)
    world.run(5)

    assert leader.leading_term == term and world.leaders == [leader]
    assert {"x", "y"} <= world.settings(leader) == world.settings(second) == world.settings(third)
    assert first.member.engine.term < term and not first.leading_term


def test_no_voter_takes_entries_of_a_leader_that_lost_its_disk_within_its_term() -> None:
    """The leader loses its disk and starts again so fast that the others have not noticed its end."""
    world = World(1, spares=2)
    first, second, third = grown(world)
    world.crash(first)
    first.wipe()

    start_separate_quorum(world, first)
    allow_rejections(world)
    for number in range(20):
        first.propose(f"of another history {number}")
        world.step()

    for node in (second, third):
        journal = node.member.journal
        assert not [one for one in range(len(journal)) if b"another history" in journal[one].batch]


def start_separate_quorum(world: World, node: Node) -> None:
    """Start a node that leads a quorum of its own, without checks, before it has any link."""
    node.handle_entries = lambda entries: None  # type: ignore[method-assign]
    world.network.isolate(node.node_id)
    world.start(node)
    node.member.cycle()
    node.member.cycle()
    world.network.rejoin(node.node_id)


def allow_rejections(world: World) -> None:
    """Let every node reject messages; a link is opened again at once, as if it had not been closed."""
    for node in world.nodes.values():
        node.member.guard.receive = partial(receive_or_reject, node.member.guard.receive)  # type: ignore[method-assign]


def receive_or_reject(receive: Callable[[Peer, bytes], None], peer: Peer, frame: bytes) -> None:
    try:
        receive(peer, frame)
    except KafkaError as rejection:
        assert rejection.code is ErrorCode.CORRUPT_MESSAGE

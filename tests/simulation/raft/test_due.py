"""A voter sleeps until its next deadline if no message arrives."""

from tests.simulation.raft.world import World


def test_a_silent_voter_does_not_keep_a_leader_awake() -> None:
    world = World(3)
    leader = world.leader()
    world.crash(world.others(leader)[0])
    world.run(3)

    assert leader in world.leaders
    leader.member.cycle()
    assert leader.member.due_at > leader.member.engine.now()


def test_a_leader_without_a_majority_resigns_within_two_seconds() -> None:
    world = World(3)
    leader = world.leader()
    for node in world.nodes.values():
        if node is not leader:
            world.crash(node)

    due_at = leader.member.due_at
    world.run(2)

    assert leader not in world.leaders and leader.member.due_at > due_at


def test_a_follower_sleeps_until_it_would_stand_for_election() -> None:
    world = World(3)
    leader = world.leader()
    world.run(1)

    for node in world.nodes.values():
        if node is not leader:
            assert node.member.due_at == node.member.engine.election_deadline > node.member.engine.now()

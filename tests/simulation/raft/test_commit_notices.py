"""Followers learn of a single commit at once, and of frequent commits with the next entries."""

from ottla.metadata_raft.raft_member import COMMIT_NOTICE_SECONDS
from ottla.metadata_raft.raft_messages import AppendEntries, decode_message
from tests.simulation.raft.world import Node, World

STEP = 0.001


def targets_of_empty_messages(leader: Node) -> list[int]:
    """Return a list that collects the targets of messages without entries from now on."""
    targets: list[int] = []
    send = leader.send

    def count(node_id: int, frame: bytes) -> None:
        message = decode_message(frame)
        if isinstance(message, AppendEntries) and not message.entries:
            targets.append(node_id)
        send(node_id, frame)

    leader.send = count  # type: ignore[method-assign]
    return targets


def test_followers_learn_of_a_lone_commit_at_once() -> None:
    world = World(3)
    leader = world.leader()
    world.run(1)

    leader.propose("x")
    for _ in range(5):
        world.step(STEP / 10)

    assert all(world.settings(node) == {"x"} for node in world.nodes.values())


def test_frequent_commits_are_announced_with_the_next_entries() -> None:
    world = World(3)
    leader = world.leader()
    world.run(1)
    targets = targets_of_empty_messages(leader)

    for number in range(100):
        leader.propose(f"n{number}")
        for _ in range(5):  # the entry is committed before the next one is proposed
            world.step(STEP / 5)

    seconds = 100 * STEP
    assert len(targets) <= 2 * (seconds / COMMIT_NOTICE_SECONDS + 2)


def test_the_last_of_many_commits_is_announced_soon() -> None:
    world = World(3)
    leader = world.leader()
    world.run(1)
    for number in range(20):
        leader.propose(f"n{number}")
        world.step(STEP)

    for _ in range(10):
        world.step(STEP)

    assert all(len(world.settings(node)) == 20 for node in world.nodes.values())

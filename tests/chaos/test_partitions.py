"""Three hosts whose network is cut: whole, in one direction, between two of them. Skipped where not root."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.chaos.history import History
from tests.chaos.hosts import Host, hosts, why_no_hosts
from tests.chaos.nodes import Nodes
from tests.chaos.traffic import Reader, Writer, acknowledged_after, create_topic, read_all

pytestmark = pytest.mark.slow
PARTITIONS, RATE = 6, 50
CUT_S = 6.0
RECOVERY_LIMIT_S = 30.0


@dataclass(slots=True, kw_only=True)
class World:
    hosts: list[Host]
    nodes: Nodes
    history: History
    writer: Writer
    reader: Reader


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Three nodes under load, judged at the end of all tests."""
    reason = why_no_hosts()
    if reason is not None:
        pytest.skip(reason)
    with hosts(3) as three:
        nodes = Nodes(tmp_path_factory.mktemp("hosts"), hosts=three)
        try:
            create_topic(nodes.bootstrap, PARTITIONS, 3)
            history = History()
            writer = Writer(0, nodes.bootstrap, PARTITIONS, RATE, history)
            reader = Reader(nodes.bootstrap, PARTITIONS, history)
            yield World(hosts=three, nodes=nodes, history=history, writer=writer, reader=reader)
            writer.stop()
            time.sleep(0.5)
            reader.stop()
            log = read_all(nodes.bootstrap, PARTITIONS)
            assert history.problems(log) == [] and history.refused == [] and nodes.tracebacks() == []
        finally:
            nodes.stop_all()


def writes_go_on(world: World, timeout_s: float = RECOVERY_LIMIT_S) -> float:
    return acknowledged_after(world.history, len(world.history.acknowledged), range(PARTITIONS), timeout_s)


def test_writes_go_on_without_the_controller(world: World) -> None:
    controller = world.nodes.controller()

    world.hosts[controller].isolate()
    writes_go_on(world)
    time.sleep(CUT_S)
    world.hosts[controller].join()

    world.nodes.wait_until_in_sync()
    writes_go_on(world)


def test_writes_go_on_without_a_leader_of_partitions(world: World) -> None:
    leader = world.nodes.leader_of(0)

    world.hosts[leader].isolate()
    writes_go_on(world)
    time.sleep(CUT_S)
    world.hosts[leader].join()

    world.nodes.wait_until_in_sync()


def test_a_node_that_is_heard_by_nobody_steps_aside(world: World) -> None:
    """It hears all others, so it knows everything, and can tell nothing."""
    mute = world.nodes.controller()
    others = [host for index, host in enumerate(world.hosts) if index != mute]

    for other in others:
        world.hosts[mute].stop_sending_to(other)
    writes_go_on(world)
    time.sleep(CUT_S)
    for other in others:
        world.hosts[mute].send_again_to(other)

    world.nodes.wait_until_in_sync()


def test_a_link_between_two_followers_of_the_quorum_is_no_reason_to_elect(world: World) -> None:
    controller = world.nodes.controller()
    one, other = (host for index, host in enumerate(world.hosts) if index != controller)

    one.stop_sending_to(other)
    other.stop_sending_to(one)
    writes_go_on(world)
    time.sleep(CUT_S)
    stayed = world.nodes.controller() == controller
    one.send_again_to(other)
    other.send_again_to(one)

    world.nodes.wait_until_in_sync()
    assert stayed


def test_a_flapping_cable_loses_nothing(world: World) -> None:
    flapping = world.hosts[world.nodes.leader_of(1)]

    for _ in range(5):
        flapping.isolate()
        time.sleep(0.7)
        flapping.join()
        time.sleep(0.7)

    world.nodes.wait_until_in_sync()
    writes_go_on(world)

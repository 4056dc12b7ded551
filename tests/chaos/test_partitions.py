"""Three hosts whose network is cut: whole, in one direction, between two of them. Skipped where not root."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.chaos.history import History
from tests.chaos.hosts import Host, hosts, why_no_hosts
from tests.chaos.nodes import Nodes
from tests.chaos.traffic import Reader, Writer, acknowledged_after, create_topic, read_all

pytestmark = pytest.mark.slow
PARTITIONS, RATE = 6, 20
CUT_S = 6.0
# What was on its way when a link was cut is acknowledged by then.
IN_FLIGHT_S = 0.5
REPLICA_LAG_MS = 5_000
RECOVERY_LIMIT_S = 60.0


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
        lag = f"replica.lag.time.max.ms={REPLICA_LAG_MS}"
        nodes = Nodes(tmp_path_factory.mktemp("hosts"), lag, hosts=three)
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


def writes_go_on(world: World) -> float:
    """Seconds until each partition has acknowledged what was sent from now on."""
    time.sleep(IN_FLIGHT_S)
    return acknowledged_after(
        world.history, len(world.history.acknowledged), range(PARTITIONS), RECOVERY_LIMIT_S
    )


@contextmanager
def isolated(host: Host) -> Iterator[None]:
    """Whatever becomes of the test, the next one finds a network that is whole."""
    host.isolate()
    try:
        yield
    finally:
        host.join()


@contextmanager
def mute(host: Host, *others: Host) -> Iterator[None]:
    """What a host sends to others is lost."""
    for other in others:
        host.stop_sending_to(other)
    try:
        yield
    finally:
        for other in others:
            host.send_again_to(other)


def test_writes_go_on_without_the_controller(world: World) -> None:
    controller = world.nodes.controller()

    with isolated(world.hosts[controller]):
        writes_go_on(world)
        time.sleep(CUT_S)

    world.nodes.wait_until_in_sync()
    writes_go_on(world)


def test_writes_go_on_without_a_leader_of_partitions(world: World) -> None:
    leader = world.nodes.leader_of(0)

    with isolated(world.hosts[leader]):
        writes_go_on(world)
        time.sleep(CUT_S)

    world.nodes.wait_until_in_sync()


def test_a_node_that_is_heard_by_nobody_steps_aside(world: World) -> None:
    """It hears all others, so it knows everything, and can tell nothing."""
    # A client that is connected to the silent one alone would learn of no other leader (node D24).
    world.nodes.spread_leaders()
    writes_go_on(world)
    silent = world.nodes.controller()
    others = [host for index, host in enumerate(world.hosts) if index != silent]

    with mute(world.hosts[silent], *others):
        writes_go_on(world)
        time.sleep(CUT_S)

    world.nodes.wait_until_in_sync()


def test_a_link_between_two_followers_of_the_quorum_is_no_reason_to_elect(world: World) -> None:
    """What one of them leads, the other cannot copy: it leaves the ISRs after `replica.lag.time.max.ms`."""
    controller = world.nodes.controller()
    one, other = (host for index, host in enumerate(world.hosts) if index != controller)

    with mute(one, other), mute(other, one):
        writes_go_on(world)
        time.sleep(CUT_S)
        stayed = world.nodes.controller() == controller

    world.nodes.wait_until_in_sync()
    assert stayed


def test_a_flapping_cable_loses_nothing(world: World) -> None:
    flapping = world.hosts[world.nodes.leader_of(1)]

    for _ in range(5):
        with isolated(flapping):
            time.sleep(0.7)
        time.sleep(0.7)

    world.nodes.wait_until_in_sync()
    writes_go_on(world)

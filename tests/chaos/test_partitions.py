"""Three hosts with a cut around one host, in one direction, or between two of them. Skipped without root."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.chaos.history import History
from tests.chaos.hosts import Host, hosts, hosts_unavailable_reason
from tests.chaos.nodes import Nodes
from tests.chaos.traffic import Reader, Writer, acknowledged_after, create_topic, read_all

pytestmark = pytest.mark.slow
PARTITIONS, RATE = 6, 20
CUT_S = 6.0
# Records in flight when a link was cut are acknowledged after this time.
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
    """Run three nodes under load; check the history after all tests."""
    reason = hosts_unavailable_reason()
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
            assert history.problems(log) == [] and history.failed == [] and nodes.tracebacks() == []
        finally:
            nodes.stop_all()


def wait_for_writes(world: World) -> float:
    """Wait until each partition acknowledges a record that is sent from now on; return the seconds."""
    time.sleep(IN_FLIGHT_S)
    return acknowledged_after(
        world.history, len(world.history.acknowledged), range(PARTITIONS), RECOVERY_LIMIT_S
    )


@contextmanager
def isolated(host: Host) -> Iterator[None]:
    """Isolate a host, and join it again even if the test fails."""
    host.isolate()
    try:
        yield
    finally:
        host.join()


@contextmanager
def drop_packets(host: Host, *others: Host) -> Iterator[None]:
    """Lose all packets from a host to the others."""
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
        wait_for_writes(world)
        time.sleep(CUT_S)

    world.nodes.wait_until_in_sync()
    wait_for_writes(world)


def test_writes_go_on_without_a_leader_of_partitions(world: World) -> None:
    leader = world.nodes.leader_of(0)

    with isolated(world.hosts[leader]):
        wait_for_writes(world)
        time.sleep(CUT_S)

    world.nodes.wait_until_in_sync()


def test_a_node_whose_packets_are_lost_is_replaced(world: World) -> None:
    """The node receives the packets of the others, but they do not receive its packets."""
    # A client with a connection to the silent node only would not learn of another leader (node D24).
    world.nodes.spread_leaders()
    wait_for_writes(world)
    silent = world.nodes.controller()
    others = [host for index, host in enumerate(world.hosts) if index != silent]

    with drop_packets(world.hosts[silent], *others):
        wait_for_writes(world)
        time.sleep(CUT_S)

    world.nodes.wait_until_in_sync()


def test_a_cut_link_between_two_followers_of_the_quorum_causes_no_election(world: World) -> None:
    """Neither can replicate from the other, so each is removed from the ISRs that the other leads."""
    before = world.nodes.quorum_leader()
    one, other = (host for index, host in enumerate(world.hosts) if index != before.node_id)

    with drop_packets(one, other), drop_packets(other, one):
        wait_for_writes(world)
        time.sleep(CUT_S)
        leader = world.nodes.quorum_leader()

    world.nodes.wait_until_in_sync()
    assert leader == before


def test_a_flapping_link_loses_nothing(world: World) -> None:
    flapping = world.hosts[world.nodes.leader_of(1)]

    for _ in range(5):
        with isolated(flapping):
            time.sleep(0.7)
        time.sleep(0.7)

    world.nodes.wait_until_in_sync()
    wait_for_writes(world)

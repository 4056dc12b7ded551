"""Scenarios of many nodes: three vote, and all others are brokers that fetch the metadata from them."""

import asyncio
from collections import Counter
from typing import Final

from ottla.metadata_raft.image import PartitionImage
from tests.simulation import admin_requests
from tests.simulation.idempotent_producer import add_producer
from tests.simulation.scenarios import recover_and_check
from tests.simulation.simulation import Simulation
from tests.simulation.world import VirtualNode

TOPIC: Final = "wide"
PARTITIONS_PER_NODE: Final = 10
REPLICAS: Final = 3
# The end of its connections reveals a killed broker, so leaders are elected before its session of 9 s ends.
LED_WITHIN_S: Final = 0.5
# The permitted difference of leaders between two nodes; a new controller learns of some brokers later than of
# others.
SPREAD: Final = 3
SPREAD_OF_A_NEW_CONTROLLER: Final = 6


async def one_of_many_brokers_fails(simulation: Simulation) -> None:
    """All nodes soon know the new leaders, and the broker follows them when it is back."""
    await _fail(simulation, simulation.world.nodes[-1], SPREAD)


async def the_controller_of_many_brokers_fails(simulation: Simulation) -> None:
    """The next controller elects leaders in its place, and all nodes soon know them."""
    controller = next(node for node in simulation.world.nodes if node.is_controller)
    await _fail(simulation, controller, SPREAD_OF_A_NEW_CONTROLLER)


async def _fail(simulation: Simulation, failed: VirtualNode, spread: int) -> None:
    world, nodes = simulation.world, simulation.world.nodes
    partitions = PARTITIONS_PER_NODE * len(nodes)
    request = admin_requests.create_topic(simulation.admin_client, TOPIC, partitions, REPLICAS, {})
    await world.spawn(simulation.admin, request)
    await simulation.wait_until_recovered()
    add_producer(simulation.workload, "p", simulation.partitions, pause_s=0.1)
    led = sum(one.leader == failed.node_id for one in _partitions(failed))
    assert led >= PARTITIONS_PER_NODE // 2, "leaders are spread"

    failed.kill()
    deadline_s = world.loop.now_s + LED_WITHIN_S
    others = [node for node in nodes if node is not failed]
    while any(one.leader in (failed.node_id, -1) for node in others for one in _partitions(node)):
        assert world.loop.now_s < deadline_s, "partitions wait for a node that died"
        await asyncio.sleep(0.05)
    counts = _leaders(others[0])
    assert max(counts.values()) - min(counts.values()) <= spread, "the partitions that it led are not spread"
    failed.start()

    await recover_and_check(simulation)


def _partitions(node: VirtualNode) -> tuple[PartitionImage, ...]:
    """Return the partitions of the topic, as a node knows them."""
    assert node.broker is not None
    return tuple(node.broker.quorum_services.image.topics.by_name[TOPIC].partitions)


def _leaders(node: VirtualNode) -> Counter[int]:
    """Return how many partitions of all topics each broker leads, as a node knows them."""
    assert node.broker is not None
    topics = node.broker.quorum_services.image.topics.by_name.values()
    return Counter(one.leader for topic in topics for one in topic.partitions)


SCENARIOS: Final = (one_of_many_brokers_fails, the_controller_of_many_brokers_fails)

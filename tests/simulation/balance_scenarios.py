"""Scenarios of clusters that balance themselves, while nodes die, join and leave or while one is busy.

Checked in all states of the metadata: each partition keeps its full number of replicas besides those that are
only being added, in as many racks as before, and no more partitions move at once than configured. At the end
the load is even: two nodes of a rack differ in replicas, and any two nodes in leaders, by at most SPREAD.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Coroutine
from typing import Any, Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import MetadataImage
from ottla.node.settings.balance_settings import ENABLE, EXCLUDED, REQUESTED
from tests.simulation import admin_requests
from tests.simulation.cluster_checks import partitions_of
from tests.simulation.idempotent_producer import add_producer
from tests.simulation.nemesis import BALANCE_KINDS
from tests.simulation.scenarios import recover_and_check, until
from tests.simulation.sim_client import pause
from tests.simulation.simulation import Options, Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import VirtualNode

TOPIC: Final = "wide"
PARTITIONS: Final = 12
FACTOR: Final = 3
RACKS: Final = 3
CONCURRENT: Final = 3
SPREAD: Final = 2
LIMIT_S: Final = 120.0
SETTINGS: Final = {
    "ottla.balance.interval.ms": "1000",
    "ottla.balance.concurrent.moves": str(CONCURRENT),
    "ottla.balance.max.bytes.per.second": "50000",
    "replica.fetch.max.bytes": "10000",  # so that a copy takes several fetches
}
OPTIONS: Final = Options(nodes=6, racks=RACKS, seconds=20.0, kinds=BALANCE_KINDS, settings=SETTINGS)
# Copies stop after their first fetch.
HALTED: Final = Options(
    nodes=6, racks=RACKS, settings={**SETTINGS, "ottla.balance.max.bytes.per.second": "1"}
)
# One of five nodes is the controller, one dies, one is busy, and two are idle.
BUSY: Final = Options(nodes=5)
BUSY_FOR_S: Final = 25.0  # loads are measured every 10 s


async def brokers_join_and_leave_while_nodes_fail(simulation: Simulation) -> None:
    """One broker joins with an empty disk and receives its share; another is emptied."""
    nemesis, seconds = simulation.nemesis, simulation.options.seconds
    joining, leaving = simulation.world.nodes[5], 4
    await _begin(simulation)
    joining.kill()
    joining.storage.lose_everything()
    await _set(simulation, ENABLE, "true")
    joining.start()
    await until(lambda: bool(_moving(simulation)), "nothing moves", limit_s=LIMIT_S)
    await nemesis.run(seconds / 2)
    await _set(simulation, EXCLUDED, str(leaving))
    await nemesis.run(seconds / 2)
    await nemesis.heal()
    simulation.workload.is_calm = True

    await _wait_until_balanced(simulation, without=(leaving,))
    await _end(simulation)


async def the_controller_fails_while_replicas_move(simulation: Simulation) -> None:
    """The next controller continues the requested balance, and withdraws the request when it is complete."""
    await _begin(simulation)
    await _set(simulation, REQUESTED, "true")
    for _ in range(2):
        await until(lambda: bool(_moving(simulation)), "nothing moves", limit_s=LIMIT_S)
        controller = _controllers(simulation)[0]
        controller.kill()
        await asyncio.sleep(3 * simulation.world.chance.random())
        controller.start()

    await until(
        lambda: REQUESTED not in _newest(simulation).configs.broker(None),
        "the request is still set",
        limit_s=LIMIT_S,
    )
    await _wait_until_balanced(simulation)
    await _end(simulation)


async def a_node_is_down_when_replicas_move(simulation: Simulation) -> None:
    """Partitions with a replica on a node that is down stay, since their moves could not end."""
    await _begin(simulation)
    down = simulation.world.nodes[0]
    down.kill()
    await _set(simulation, REQUESTED, "true")
    await until(
        lambda: REQUESTED not in _newest(simulation).configs.broker(None),
        "the request is still set",
        limit_s=LIMIT_S,
    )
    down.start()

    await _end(simulation)


async def a_balance_is_cancelled(simulation: Simulation) -> None:
    """Each partition whose move was cancelled has its replicas where they were, all of them in sync."""
    await _begin(simulation)
    before = {where: set(one.replicas) for where, one in partitions_of(_newest(simulation))}
    await _set(simulation, REQUESTED, "true")
    await until(lambda: bool(_copied(simulation)), "nothing moves", limit_s=LIMIT_S)
    failed = simulation.world.chance.choice(simulation.world.nodes)
    failed.kill()
    await asyncio.sleep(3 * simulation.world.chance.random())
    failed.start()
    await _set(simulation, REQUESTED, None)
    cancelled: list[TopicPartition] = []
    for partition in _moving(simulation):
        await _repeat(simulation, lambda one=partition: _cancel(simulation, one, cancelled))  # type: ignore[misc]

    if not cancelled:
        raise SimulationError("copies are not throttled: each move had ended before it was cancelled")
    await until(lambda: not _moving(simulation), "partitions still move", limit_s=LIMIT_S)
    after = {where: set(one.replicas) for where, one in partitions_of(_newest(simulation))}
    if moved := {where: after[where] for where in cancelled if after[where] != before[where]}:
        raise SimulationError(f"cancelled moves were completed: {moved}")
    await _end(simulation)


async def a_broker_fails_next_to_a_busy_one(simulation: Simulation) -> None:
    """The leadership of a dead broker is spread over the idle replicas in sync, not the busy one."""
    world = simulation.world
    await until(lambda: len(_controllers(simulation)) == 1, "there is no controller", limit_s=LIMIT_S)
    failed, busy, *idle = [node for node in world.nodes if not node.is_controller]
    assignments = [
        [failed.node_id, *others]
        for one, other in ((0, 1), (1, 0))
        for others in ([busy.node_id, idle[one].node_id], [idle[one].node_id, idle[other].node_id])
        for _ in range(PARTITIONS // 4)
    ]
    led_by_busy = [busy.node_id, idle[0].node_id, idle[1].node_id]
    await _create(simulation, [*assignments, led_by_busy])
    await simulation.wait_until_recovered()
    add_producer(simulation.workload, "p", [TopicPartition(TOPIC, len(assignments))], pause_s=0.02)
    await asyncio.sleep(BUSY_FOR_S)

    failed.kill()
    await until(
        lambda: not _leaders(_newest(simulation))[failed.node_id],
        "the dead broker still leads",
        limit_s=LIMIT_S,
    )
    led = Counter(
        one.leader for where, one in partitions_of(_newest(simulation)) if failed.node_id in one.replicas[:1]
    )
    failed.start()
    if led[busy.node_id] or abs(led[idle[0].node_id] - led[idle[1].node_id]) > 1:
        raise SimulationError(f"{busy.node_id} is busy, {failed.node_id} died, its leaders are {led}")
    await recover_and_check(simulation)


# ---- steps of scenarios --------------------------------------------------------------------------------


async def _begin(simulation: Simulation) -> None:
    """Create a topic whose partitions lie on one node of each rack, and produce to it for a while."""
    first = list(range(FACTOR))
    await _create(simulation, [first[one % FACTOR :] + first[: one % FACTOR] for one in range(PARTITIONS)])
    places = [TopicPartition(TOPIC, one) for one in range(PARTITIONS)]
    simulation.partitions += places
    add_producer(simulation.workload, "p", places, pause_s=2.0)
    simulation.workload.add_reader("reader", places)
    await asyncio.sleep(4)


async def _create(simulation: Simulation, assignments: list[list[int]]) -> None:
    request = admin_requests.create_topic(
        simulation.admin_client, TOPIC, -1, -1, {"min.insync.replicas": "2"}, assignments
    )
    await simulation.world.spawn(simulation.admin, request)


async def _end(simulation: Simulation) -> None:
    """Check that no records were lost, and that no state of the metadata breaks a rule."""
    await recover_and_check(simulation)
    racks: dict[TopicPartition, int] = {}
    for version, (image, _) in sorted(simulation.invariants.images.items()):
        if (problem := _problem_of(image, racks)) is not None:
            raise SimulationError(f"metadata {version}: {problem}")


def _problem_of(image: MetadataImage, racks: dict[TopicPartition, int]) -> str | None:
    """Return a problem of an image; `racks` has each partition's number of racks in the image before."""
    moving = 0
    for where, one in partitions_of(image):
        moving += bool(one.adding_replicas or one.removing_replicas)
        present, wanted = (
            set(one.replicas) - set(others) for others in (one.adding_replicas, one.removing_replicas)
        )
        if min(len(present), len(wanted)) < FACTOR:
            return f"{where} has the replicas {present}, and will have {wanted}, of {FACTOR}"
        before, racks[where] = racks.get(where, 0), len({replica % RACKS for replica in wanted})
        if racks[where] < before:
            return f"{where} moves to {wanted}, in fewer racks than the {before} before"
    return f"{moving} partitions move at once, more than {CONCURRENT}" if moving > CONCURRENT else None


async def _wait_until_balanced(simulation: Simulation, without: Container[int] = ()) -> None:
    deadline_s = simulation.world.loop.now_s + LIMIT_S
    while (problem := _imbalance(_newest(simulation), without, simulation.options.nodes)) is not None:
        if simulation.world.loop.now_s > deadline_s:
            raise SimulationError(problem)
        await asyncio.sleep(0.2)


def _imbalance(image: MetadataImage, without: Container[int], nodes: int) -> str | None:
    if any(one.adding_replicas or one.removing_replicas for _, one in partitions_of(image)):
        return "partitions still move"
    held = Counter(replica for _, one in partitions_of(image) for replica in one.replicas)
    led = _leaders(image)
    staying = [one for one in range(nodes) if one not in without]
    if any(held[one] or led[one] for one in range(nodes) if one in without):
        return f"an excluded node still has replicas or leaders: {held}"
    if any(len({replica % RACKS for replica in one.replicas}) < RACKS for _, one in partitions_of(image)):
        return "a partition lies in too few racks"
    groups = [("leads", led, staying)]
    groups += [("has", held, [one for one in staying if one % RACKS == rack]) for rack in range(RACKS)]
    for verb, counts, group in groups:
        if max(counts[one] for one in group) - min(counts[one] for one in group) > SPREAD:
            return f"one of the nodes {group} {verb} more than its share: {counts}"
    return None


async def _set(simulation: Simulation, name: str, value: str | None) -> None:
    """Set a config of all brokers, or delete it."""
    client = simulation.admin_client
    await _repeat(simulation, lambda: admin_requests.set_broker_config(client, name, value))


async def _cancel(simulation: Simulation, partition: TopicPartition, cancelled: list[TopicPartition]) -> None:
    """Cancel the move of a partition and add it to `cancelled`, unless the move had ended before."""
    try:
        await admin_requests.reassign(simulation.admin_client, partition, None)
    except KafkaError as error:
        if error.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
            raise
    else:
        cancelled.append(partition)


async def _repeat(simulation: Simulation, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Repeat a request until it succeeds, whatever fails meanwhile."""

    async def send_again() -> None:
        while True:
            try:
                return await send()
            except KafkaError as error:
                simulation.workload.check_error(error)
                await pause(simulation.world.chance)

    await simulation.world.spawn(simulation.admin, send_again())


def _controllers(simulation: Simulation) -> list[VirtualNode]:
    return [node for node in simulation.world.nodes if node.is_controller]


def _newest(simulation: Simulation) -> MetadataImage:
    found = simulation.nemesis.newest_image()
    assert found is not None
    return found


def _moving(simulation: Simulation) -> list[TopicPartition]:
    return [
        where
        for where, one in partitions_of(_newest(simulation))
        if one.adding_replicas or one.removing_replicas
    ]


def _copied(simulation: Simulation) -> list[TopicPartition]:
    """Return moving partitions that have records, and so cannot be copied at once."""
    return [where for where in _moving(simulation) if where.topic == TOPIC]


def _leaders(image: MetadataImage) -> Counter[int]:
    return Counter(one.leader for _, one in partitions_of(image))


SCENARIOS: Final = (
    brokers_join_and_leave_while_nodes_fail,
    the_controller_fails_while_replicas_move,
    a_node_is_down_when_replicas_move,
)

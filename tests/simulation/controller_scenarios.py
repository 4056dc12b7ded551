"""Scenarios of controllers that are no brokers: three of them lead a cluster of three brokers.

The active controller is killed, paused or cut off from the other nodes while records are written and topics
are created. Another controller must take over within TAKEN_OVER_S, a topic must be created meanwhile, and
records must be acknowledged all the time: brokers ask the other controllers when the active one is silent. As
no broker fails, none is fenced, and no partition gets another leader.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.logstore.words.errors import ErrorCode, KafkaError
from tests.simulation import admin_requests
from tests.simulation.administrator import TopicAdministrator
from tests.simulation.idempotent_producer import add_producer
from tests.simulation.nemesis import KINDS
from tests.simulation.scenarios import recover_and_check
from tests.simulation.sim_client import pause
from tests.simulation.simulation import Options, Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import VirtualNode

CONTROLLERS: Final = 3
BROKERS: Final = (3, 4, 5)
TAKEN_OVER_S: Final = 10.0
AWAY_S: Final = 8.0  # longer than any session of a broker
# A broker notices after controller.quorum.request.timeout.ms, 2 s, that the active controller is silent.
SETTINGS: Final = {"broker.session.timeout.ms": "6000"}
OPTIONS: Final = Options(
    nodes=CONTROLLERS + len(BROKERS),
    voters=CONTROLLERS,
    has_separate_controllers=True,
    settings=SETTINGS,
)
FAULTS: Final = Options(
    nodes=CONTROLLERS + len(BROKERS),
    voters=CONTROLLERS,
    has_separate_controllers=True,
    kinds=(*KINDS, "kill_controller"),
)


async def the_active_controller_fails(simulation: Simulation) -> None:
    """It is killed, paused and cut off, each once, in an order that the seed gives."""
    _begin(simulation)
    await asyncio.sleep(1)
    undisturbed = [simulation.invariants.highest_version]
    faults = [_killed, _paused, _cut_off]
    simulation.world.chance.shuffle(faults)
    for number, fault in enumerate(faults):
        active = await _active_controller(simulation, but=None)
        with fault(simulation, active):
            began_s, written = simulation.world.loop.now_s, simulation.workload.produced
            await _active_controller(simulation, but=active)
            await _create_topic(simulation, f"made-{number}")
            while simulation.world.loop.now_s < began_s + AWAY_S:
                _check_contact(simulation)
                await asyncio.sleep(0.05)
            if simulation.workload.produced == written:
                raise SimulationError(f"no record was acknowledged while {active.process!r} was away")
        undisturbed.append(simulation.invariants.highest_version)
        await asyncio.sleep(1)

    await recover_and_check(simulation)
    _check_roles(simulation)
    # Only for the first fault: a controller that was away has lost its connections to brokers, and when it is
    # active later, it gives these less time (metadata_raft/DESIGN.md, D23).
    _check_brokers_are_undisturbed(simulation, *undisturbed[:2])


async def controllers_and_brokers_fail(simulation: Simulation) -> None:
    """Faults of random kinds hit controllers and brokers alike."""
    _begin(simulation)
    await simulation.nemesis.run(simulation.options.seconds)
    await simulation.nemesis.heal()
    simulation.workload.is_calm = True

    await recover_and_check(simulation)
    _check_roles(simulation)


# ---- faults ------------------------------------------------------------------------------------------


@contextmanager
def _killed(simulation: Simulation, node: VirtualNode) -> Iterator[None]:
    node.kill()
    yield
    node.start()


@contextmanager
def _paused(simulation: Simulation, node: VirtualNode) -> Iterator[None]:
    node.pause()
    yield
    node.resume()


@contextmanager
def _cut_off(simulation: Simulation, node: VirtualNode) -> Iterator[None]:
    others = [one.host for one in simulation.world.nodes if one is not node]
    simulation.world.network.isolate(node.host, others)
    yield
    simulation.world.network.rejoin(node.host, others)


# ---- steps and checks ----------------------------------------------------------------------------------


def _begin(simulation: Simulation) -> None:
    workload = simulation.workload
    add_producer(workload, "p", simulation.partitions, pause_s=0.1)
    workload.add_reader("reader", simulation.partitions)
    workload.add_group("g", simulation.partitions[0], pause_s=0.4)
    TopicAdministrator(workload, "admin-2", replication_factor=len(BROKERS), pause_s=0.5)


async def _active_controller(simulation: Simulation, *, but: VirtualNode | None) -> VirtualNode:
    """Wait until a controller other than `but` is active, and return it."""
    deadline_s = simulation.world.loop.now_s + TAKEN_OVER_S
    while True:
        for node in simulation.world.nodes:
            if node is not but and node.is_controller:
                return node
        if simulation.world.loop.now_s > deadline_s:
            raise SimulationError(f"no controller is active after {TAKEN_OVER_S} s")
        await asyncio.sleep(0.05)


async def _create_topic(simulation: Simulation, name: str) -> None:
    """Create a topic, by a request that is repeated until it succeeds, at most for TAKEN_OVER_S."""
    client, deadline_s = simulation.admin_client, simulation.world.loop.now_s + TAKEN_OVER_S

    async def again() -> None:
        while True:
            try:
                return await admin_requests.create_topic(client, name, 2, len(BROKERS), {})
            except KafkaError as error:
                if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:  # an earlier request, without an answer
                    return
                simulation.workload.check_error(error)
                if simulation.world.loop.now_s > deadline_s:
                    raise SimulationError(f"{name} is not created: {error}") from error
                await pause(simulation.world.chance)

    await simulation.world.spawn(simulation.admin, again())


def _check_roles(simulation: Simulation) -> None:
    """Check that only brokers are registered, and that only they have replicas."""
    for version, (image, _) in sorted(simulation.invariants.images.items()):
        held = {
            replica
            for topic in image.topics.by_name.values()
            for one in topic.partitions
            for replica in one.replicas
        }
        if found := (image.brokers.keys() | held) - set(BROKERS):
            raise SimulationError(f"metadata {version}: the controllers {sorted(found)} are brokers")


def _check_contact(simulation: Simulation) -> None:
    """Check that all brokers hear an active controller, without which they accept no records."""
    now_s = simulation.world.loop.now_s
    for node in simulation.world.nodes[CONTROLLERS:]:
        assert node.broker is not None
        if node.broker.base.state.contact.cut_off_since_ms(now_s) is not None:
            raise SimulationError(f"{node.process!r} hears no controller, although one is active")


def _check_brokers_are_undisturbed(simulation: Simulation, first: int, last: int) -> None:
    """Check that no broker was fenced, and no partition got another leader, in these metadata versions."""
    leaders: dict[tuple[bytes, int], tuple[int, int]] = {}
    for version, (image, _) in sorted(simulation.invariants.images.items()):
        if not first <= version <= last:
            continue
        if fenced := [one.broker_id for one in image.brokers.values() if one.fenced]:
            raise SimulationError(f"metadata {version}: the brokers {fenced} are fenced, and none failed")
        for topic in image.topics.by_name.values():
            for one in topic.partitions:
                now = one.leader, one.leader_epoch
                if leaders.setdefault((topic.topic_id, one.partition), now) != now:
                    raise SimulationError(
                        f"metadata {version}: {topic.name}-{one.partition} has another leader, and no "
                        "broker failed"
                    )

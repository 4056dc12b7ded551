"""Scenarios: faults in an order that random faults seldom have; each failed once, or detects a mutant."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from ottla.logstore.log_manager import LogManager
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.commands import AlterPartition, AlterPartitionReply
from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.image import MetadataImage, PartitionImage
from ottla.node.broker import Broker
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import ReplicaManager
from tests.simulation import admin_requests
from tests.simulation.idempotent_producer import add_producer
from tests.simulation.invariants import replicas_of
from tests.simulation.simulation import Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.world import VirtualNode, context_of

FIRST: Final = TopicPartition("a", 0)
Scenario = Callable[[Simulation], Coroutine[Any, Any, None]]
T = TypeVar("T")


async def recover_and_check(simulation: Simulation) -> None:
    """Wait until the cluster has recovered, and check that nothing acknowledged is missing."""
    await simulation.wait_until_recovered()
    await simulation.workload.finish(limit_s=30)
    await as_client(simulation, simulation.check())


async def a_leader_is_fenced_for_a_moment(simulation: Simulation) -> None:
    """A leader is fenced for a moment, and must learn its followers' offsets from idle fetch sessions."""
    leader, partition = next(pair for pair in replicas_of(simulation.world, FIRST) if pair[1].is_leader)
    assert leader.broker is not None
    leader.broker.services.replica_manager.fence()
    leader.broker.services.replica_manager.unfence()
    await asyncio.sleep(1)

    assert partition.isr is not None
    assert [one.log_end_offset for one in partition.isr.followers.values()] == [0, 0]


async def a_broker_loses_its_disk(simulation: Simulation) -> None:
    """A broker with an empty disk copies its replicas again."""
    add_producer(simulation.workload, "p", simulation.partitions, pause_s=0.1)
    await asyncio.sleep(3)
    lost = simulation.world.nodes[3]
    lost.kill()
    lost.storage.lose_everything()
    await asyncio.sleep(3)
    lost.start()

    await recover_and_check(simulation)
    for partition in simulation.partitions:
        assert len({one.log.log_end_offset for _, one in replicas_of(simulation.world, partition)}) == 1


async def all_are_killed_and_two_of_three_return(simulation: Simulation) -> None:
    """The hosts keep running, so the page caches are intact; leaders are elected without the third node."""
    nodes = simulation.world.nodes
    add_producer(simulation.workload, "p", simulation.partitions, pause_s=0.1)
    await asyncio.sleep(3)
    for node in nodes:
        node.kill()
    await asyncio.sleep(1)
    for node in nodes[:2]:
        node.start()

    deadline_s = simulation.world.loop.now_s + 20
    for partition in simulation.partitions:
        while sum(one.is_leader for _, one in replicas_of(simulation.world, partition)) != 1:
            assert simulation.world.loop.now_s < deadline_s, f"{partition} waits for the third node"
            await asyncio.sleep(0.1)
    nodes[2].start()
    await recover_and_check(simulation)


async def the_leader_loses_its_power_when_the_others_die(simulation: Simulation) -> None:
    """The leader returns first and forms a quorum with a node that never led; the third has what it lost."""
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(3)
    leader = next(node for node, one in replicas_of(simulation.world, FIRST) if one.is_leader)
    others = [node for node in simulation.world.nodes if node is not leader]
    leader.lose_power()
    for node in others:
        node.kill()
    await asyncio.sleep(0.1)
    leader.start()
    await asyncio.sleep(0.5)
    others[0].start()
    await asyncio.sleep(10)

    others[1].start()
    await recover_and_check(simulation)


async def the_last_replica_in_sync_loses_its_power(simulation: Simulation) -> None:
    """The last two replicas in sync lose power; the last one had synced all that it acknowledged alone."""
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.05)
    await asyncio.sleep(3)
    last, partition = next(pair for pair in replicas_of(simulation.world, FIRST) if pair[1].is_leader)
    gone, other = (node for node in simulation.world.nodes if node is not last)
    gone.kill()
    while len(partition.assignment.in_sync_replicas) > 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(3)
    away_s = 0.1
    while len(partition.assignment.in_sync_replicas) > 1:  # it stays in sync if it is back in time
        other.kill()
        await asyncio.sleep(away_s)
        other.start()
        away_s = 7.0  # longer than any replica.lag.time.max.ms
        for _ in range(3_000):
            if len(partition.assignment.in_sync_replicas) == 1:
                break
            await asyncio.sleep(0.001)
    other.lose_power()
    await asyncio.sleep(0.1)
    last.lose_power()

    for node in simulation.world.nodes:
        node.start()
    await recover_and_check(simulation)


async def an_eligible_replica_leads_when_no_replica_is_in_sync(simulation: Simulation) -> None:
    """The replica that left the ISR first returns first: nothing was acknowledged without it meanwhile."""
    first, last = await _pair_of_observers(simulation)
    first.kill()
    await until(lambda: _newest(simulation).eligible_leader_replicas == (first.node_id,))
    await asyncio.sleep(1)
    last.kill()
    await until(lambda: not _newest(simulation).isr)
    leaderless = _newest(simulation)
    first.start()
    await until(lambda: _newest(simulation).leader == first.node_id)

    assert leaderless.eligible_leader_replicas == (3, 4)
    assert leaderless.last_known_elr == (last.node_id,)
    assert _newest(simulation).isr == (first.node_id,)
    last.start()
    await recover_and_check(simulation)
    assert not _newest(simulation).eligible_leader_replicas


async def a_replica_without_acknowledged_records_does_not_lead(simulation: Simulation) -> None:
    """With min.insync.replicas of 1, the last replica has acknowledged records that the first one lacks."""
    first, last = await _pair_of_observers(simulation)
    first.kill()
    await until(lambda: _newest(simulation).isr == (last.node_id,))
    await asyncio.sleep(2)
    last.kill()
    await until(lambda: not _newest(simulation).isr)
    first.start()
    await asyncio.sleep(10)

    last.start()
    await recover_and_check(simulation)


async def an_eligible_replica_loses_its_power(simulation: Simulation) -> None:
    """The replica lost what it had not synced, so the partition waits for the one that still has it."""
    first, last = await _pair_of_observers(simulation)
    first.lose_power()
    await until(lambda: _newest(simulation).eligible_leader_replicas == (first.node_id,))
    last.kill()
    await until(lambda: not _newest(simulation).isr)
    first.start()
    await asyncio.sleep(10)

    last.start()
    await recover_and_check(simulation)


# For nodes with two disks each.
TWO_DISKS: Final = {"log.dirs": "/data,/more", "log.dir.failure.timeout.ms": "3000"}


async def a_disk_fails_and_the_controller_is_out_of_reach(simulation: Simulation) -> None:
    """No other broker can take over the replicas of the disk, so the node ends, though another disk works."""
    world = simulation.world
    add_producer(simulation.workload, "p", simulation.partitions, pause_s=0.02)
    await asyncio.sleep(2)
    node = next(one for one in world.nodes if not one.is_controller)
    others = [one.host for one in world.nodes if one is not node]
    assert node.broker is not None and node.process is not None
    world.network.isolate(node.host, others)
    await asyncio.sleep(1)

    async def fail(log_manager: LogManager) -> None:
        log_manager.take_offline(log_manager.dirs[1], "pulled out")

    failed_at_s = world.loop.now_s
    await world.spawn(node.process, fail(node.broker.base.log_manager))
    await until(lambda: not node.is_alive)
    took_s = world.loop.now_s - failed_at_s
    world.network.rejoin(node.host, others)
    node.start()

    assert 3 <= took_s < 5, took_s
    await recover_and_check(simulation)


# For a cluster that must survive when all its hosts lose their power at once.
DURABLE: Final = {"log.flush.interval.messages": "1"}


async def the_power_of_all_fails(simulation: Simulation) -> None:
    """The power fails repeatedly: with `log.flush.interval.messages` of 1 nothing acknowledged is lost."""
    world = simulation.world
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    for _ in range(3):
        await asyncio.sleep(1 + world.chance.random())
        for node in world.nodes:
            node.lose_power()
        for node in world.nodes:
            node.start()
        await simulation.wait_until_recovered()
    await recover_and_check(simulation)


async def an_old_alter_partition_is_sent_again(simulation: Simulation) -> None:
    """An old AlterPartition is submitted again, when the replica that it let in has been removed again."""
    world = simulation.world
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(1)
    leader, partition = await leader_of(simulation)
    next_id = next(one for one in partition.assignment.replicas if one != leader.node_id)
    late = world.nodes[next_id]  # the next leader
    late.kill()
    await until(lambda: next_id not in partition.assignment.in_sync_replicas)
    growing = _next_change_of_isr(leader, partition, with_node=next_id)
    late.start()
    await until(lambda: next_id in partition.assignment.in_sync_replicas)
    stop_fetching(late)
    await until(lambda: next_id not in partition.assignment.in_sync_replicas)
    await asyncio.sleep(1)

    assert leader.broker is not None and leader.process is not None
    await world.spawn(leader.process, leader.broker.quorum_services.metadata.submit(growing.result()))
    leader.kill()
    await asyncio.sleep(5)

    late.kill()
    leader.start()
    late.start()
    await recover_and_check(simulation)


async def a_follower_learns_late_of_two_elections(simulation: Simulation) -> None:
    """The leader lost and regained leadership meanwhile; what it acknowledged since then is not truncated."""
    world = simulation.world
    leader, partition = await leader_of(simulation)
    first_id, second_id, last_id = (
        leader.node_id,
        *(one for one in partition.assignment.replicas if one != leader.node_id),
    )
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(1)
    last, second = world.nodes[last_id], world.nodes[second_id]
    metadata_of_last = _HeldMetadata(last)
    await make_leader(simulation, second_id)
    metadata_of_second = _HeldMetadata(second)
    await make_leader(simulation, first_id)
    await asyncio.sleep(10)

    metadata_of_last.apply_until(lambda one: one.leader == second_id)
    await asyncio.sleep(2)
    leader.kill()
    metadata_of_last.apply_all()
    metadata_of_second.apply_all()
    await asyncio.sleep(5)

    leader.start()
    await recover_and_check(simulation)


async def a_leader_dies_when_it_has_deleted_records(simulation: Simulation) -> None:
    """Its followers do not know of the deletion: records whose deletion was answered must stay deleted."""
    world, history, client = simulation.world, simulation.history, simulation.admin_client
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(1)
    leader, _ = await leader_of(simulation)
    followers = [node for node in world.nodes if node is not leader]
    for follower in followers:
        stop_fetching(follower)
    await asyncio.sleep(0.5)  # the fetches under way are answered
    known = history.of(FIRST)
    known.delete_requested = max(known.acknowledged)

    async def delete() -> None:
        try:
            low_watermark = await admin_requests.delete_records(client, FIRST, known.delete_requested)
            history.note_deleted(FIRST, known.delete_requested, low_watermark)
        except KafkaError:
            client.forget_leader(FIRST)

    deletion = as_client(simulation, delete())
    await asyncio.sleep(0.5)
    leader.kill()
    await deletion

    await until(lambda: any(one.is_leader for _, one in replicas_of(world, FIRST)))
    for follower in followers:
        resume_fetching(follower)
    leader.start()
    await recover_and_check(simulation)


async def a_leader_loses_its_power_while_a_restarted_follower_waits_for_its_answer(
    simulation: Simulation,
) -> None:
    """The follower's fetch waits at a process that died: the follower must not wait for its response."""
    world = simulation.world
    leader, _ = await leader_of(simulation)
    follower = next(node for node in world.nodes if node is not leader)
    follower.kill()
    follower.start()
    await simulation.wait_until_recovered()
    await asyncio.sleep(1)  # its fetch waits at the leader

    leader.lose_power()
    await asyncio.sleep(0.1)  # it is back before its session has expired
    leader.start()
    await simulation.wait_until_recovered()
    await make_leader(simulation, leader.node_id)
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.05)
    await asyncio.sleep(1)
    await recover_and_check(simulation)


async def a_follower_dies_when_its_leader_has_lost_its_power(simulation: Simulation) -> None:
    """The leader's session has not expired; the leader returns first, without what it had not synced."""
    world = simulation.world
    assert world.nodes[0].broker is not None
    controller_id = world.nodes[0].broker.quorum_services.metadata.controller_id
    pair = [node.node_id for node in world.nodes if node.node_id != controller_id]
    await as_client(simulation, admin_requests.reassign(simulation.admin_client, FIRST, pair))
    await until(lambda: any(_are_in_sync(one, pair) for _, one in replicas_of(world, FIRST)))
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(3)
    leader, _ = await leader_of(simulation)
    follower = next(world.nodes[one] for one in pair if one != leader.node_id)

    leader.lose_power()
    follower.kill()
    await asyncio.sleep(1)
    leader.start()
    await asyncio.sleep(10)
    follower.start()
    await recover_and_check(simulation)


async def _flip_on_some_replica(simulation: Simulation) -> tuple[VirtualNode, Broker, "_Bit"]:
    """Produce records for a while, then flip a bit in the log of one replica."""
    world, chance = simulation.world, simulation.world.chance
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(3)
    node, partition = chance.choice(list(replicas_of(world, FIRST)))
    assert node.broker is not None
    bit = _random_bit(partition, chance)
    _flip(node, bit)
    return node, node.broker, bit


async def a_bit_flips_on_a_replica(simulation: Simulation) -> None:
    """The damage is found, the replica leaves the ISR and returns repaired, and no record is lost."""
    world = simulation.world
    node, broker, bit = await _flip_on_some_replica(simulation)
    was_out: list[bool] = []

    broker.services.maintenance.scrub.soon(FIRST, bit.offset)
    while broker.services.maintenance.scrub.repaired == 0:
        was_out.append(
            any(
                one.is_leader and node.node_id not in one.assignment.in_sync_replicas
                for _, one in replicas_of(world, FIRST)
            )
        )
        assert len(was_out) < 60_000, f"{bit} is not repaired"
        await asyncio.sleep(0.001)

    assert any(was_out), "it left the ISR"
    assert broker.services.maintenance.scrub.found == 1
    await recover_and_check(simulation)
    assert broker.services.maintenance.scrub.unrepaired_count == 0
    assert len({_bytes_of(one) for _, one in replicas_of(world, FIRST)}) == 1


async def a_bit_flips_on_a_replica_and_another_node_dies(simulation: Simulation) -> None:
    """The damage is repaired, although the node that dies had an intact copy or was about to lead."""
    world, chance = simulation.world, simulation.world.chance
    node, broker, bit = await _flip_on_some_replica(simulation)

    broker.services.maintenance.scrub.soon(FIRST, bit.offset)
    await asyncio.sleep(0.1 * chance.random())
    other = chance.choice([one for one in world.nodes if one is not node])
    other.kill()
    await asyncio.sleep(3 * chance.random())
    other.start()

    await until(lambda: broker.services.maintenance.scrub.repaired == 1)
    await recover_and_check(simulation)
    assert broker.services.maintenance.scrub.unrepaired_count == 0
    assert len({_bytes_of(one) for _, one in replicas_of(world, FIRST)}) == 1


async def a_bit_flips_on_a_replica_that_is_made_to_lead(simulation: Simulation) -> None:
    """The damage of a cleanly stopped replica is found as soon as an operator makes the replica lead."""
    world, chance = simulation.world, simulation.world.chance
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(3)
    leader, _ = await leader_of(simulation)
    node, partition = chance.choice([pair for pair in replicas_of(world, FIRST) if pair[0] is not leader])
    bit = _random_bit(partition, chance)
    await node.stop()
    _flip(node, bit)
    node.start()
    await simulation.wait_until_recovered()

    await make_leader(simulation, node.node_id)
    broker = node.broker
    assert broker is not None

    await until(lambda: broker.services.maintenance.scrub.repaired == 1)
    await recover_and_check(simulation)
    assert broker.services.maintenance.scrub.unrepaired_count == 0
    assert len({_bytes_of(one) for _, one in replicas_of(world, FIRST)}) == 1


async def _pair_of_observers(simulation: Simulation) -> tuple[VirtualNode, VirtualNode]:
    """Move the first partition to two nodes without a vote, and produce to it; return follower and leader."""
    world = simulation.world
    pair = [3, 4]
    await as_client(simulation, admin_requests.reassign(simulation.admin_client, FIRST, pair))
    await until(lambda: any(_are_in_sync(one, pair) for _, one in replicas_of(world, FIRST)))
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.02)
    await asyncio.sleep(2)
    leader, _ = await leader_of(simulation)
    return world.nodes[7 - leader.node_id], leader


def _newest(simulation: Simulation) -> PartitionImage:
    """Return the first partition in the newest metadata of the voters."""
    images = [
        node.broker.quorum_services.image
        for node in simulation.world.nodes[:3]
        if node.is_alive and node.is_serving and node.broker is not None
    ]
    found = max(images, key=lambda image: image.version).topics.partition(FIRST)
    assert found is not None
    return found


# ---- steps of scenarios --------------------------------------------------------------------------------


async def until(
    holds: Callable[[], bool], problem: str = "a condition does not hold", *, limit_s: float = 60.0
) -> None:
    """Wait until the condition holds; raise SimulationError with the problem after `limit_s`."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + limit_s
    while not holds():
        if loop.time() > deadline_s:
            raise SimulationError(f"{problem} after {limit_s:g} s")
        await asyncio.sleep(0.01)


def as_client(simulation: Simulation, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Start some work on the host of the administrator's client."""
    return simulation.world.spawn(simulation.admin, work)


async def leader_of(simulation: Simulation) -> tuple[VirtualNode, Partition]:
    """Return the leader of the first partition, in the highest leader epoch."""
    await until(lambda: any(one.is_leader for _, one in replicas_of(simulation.world, FIRST)))
    found = [pair for pair in replicas_of(simulation.world, FIRST) if pair[1].is_leader]
    return max(found, key=lambda pair: pair[1].leader_epoch)


class _Bit(NamedTuple):
    """A bit of a committed batch of a log, with the offset of the batch."""

    path: Path
    position: int
    mask: int
    offset: int


def _random_bit(partition: Partition, chance: random.Random) -> _Bit:
    log = partition.log
    places = [
        (segment, position, header)
        for segment in log.segments
        for position, header in segment.headers()
        if header.next_offset < log.high_watermark
    ]
    segment, position, header = chance.choice(places)
    at = position + chance.randrange(header.size_bytes)
    return _Bit(segment.path, at, 1 << chance.randrange(8), header.base_offset)


def _flip(node: VirtualNode, bit: _Bit) -> None:
    """Flip a bit on the disk of the node, unknown to its process."""
    node.storage.find(str(bit.path)).content[bit.position] ^= bit.mask


def _bytes_of(partition: Partition) -> bytes:
    return b"".join(one.file.read_at(0, one.size_bytes) for one in partition.log.segments if one.size_bytes)


def _next_change_of_isr(
    node: VirtualNode, partition: Partition, *, with_node: int
) -> "asyncio.Future[AlterPartition]":
    """Return a future of the leader's next AlterPartition with this node in the ISR."""
    assert node.broker is not None
    updates = node.broker.services.replication._updates
    alter_partition = updates._alter_partition
    found: asyncio.Future[AlterPartition] = asyncio.get_running_loop().create_future()

    async def watch(command: AlterPartition) -> AlterPartitionReply:
        members = [
            member.broker_id
            for topic in command.topics
            if topic.topic_id == partition.topic_id
            for one in topic.partitions
            if one.partition_index == partition.topic_partition.partition
            for member in one.new_isr_with_epochs
        ]
        if with_node in members and not found.done():
            found.set_result(command)
        return await alter_partition(command)

    updates._alter_partition = watch
    return found


def stop_fetching(node: VirtualNode) -> None:
    """Stop the fetchers of a node, which otherwise continues."""
    assert node.broker is not None
    for fetcher in node.broker.services.replication.fetchers:
        fetcher.fetch = lambda: asyncio.sleep(1)  # type: ignore[method-assign]


def resume_fetching(node: VirtualNode) -> None:
    assert node.broker is not None
    for fetcher in node.broker.services.replication.fetchers:
        fetcher.__dict__.pop("fetch", None)


def _are_in_sync(partition: Partition, node_ids: Sequence[int]) -> bool:
    """Return True if the leader knows exactly these nodes as replicas, all in sync."""
    assignment = partition.assignment
    return (
        partition.is_leader
        and set(assignment.replicas) == set(node_ids)
        and set(assignment.in_sync_replicas) == set(node_ids)
    )


async def make_leader(simulation: Simulation, node_id: int) -> None:
    """Make this node the preferred leader of the first partition, elect it, and wait until it leads."""
    client = simulation.admin_client
    _, partition = await leader_of(simulation)
    others = [one for one in partition.assignment.replicas if one != node_id]

    async def ask() -> bool:
        try:
            await admin_requests.reassign(client, FIRST, [node_id, *others])
            await admin_requests.elect_preferred_leader(client, FIRST)
        except KafkaError as error:
            if error.code is not ErrorCode.NETWORK_EXCEPTION:
                raise
            return False  # the requested node died meanwhile; the next attempt finds another
        return True

    while not await as_client(simulation, ask()):
        await asyncio.sleep(0.1)
    node = simulation.world.nodes[node_id]
    await until(lambda: any(one.is_leader for on, one in replicas_of(simulation.world, FIRST) if on is node))


class _HeldMetadata:
    """Metadata that a node has received and that its replicas do not apply yet."""

    def __init__(self, node: VirtualNode) -> None:
        assert node.broker is not None and node.process is not None
        self._manager = node.broker.services.replica_manager
        self._context = context_of(node.process)
        self._held: list[tuple[MetadataImage, MetadataChanges]] = []
        self._manager.apply = lambda image, changes: self._held.append((image, changes))  # type: ignore[method-assign]

    def apply_until(self, holds: Callable[[PartitionImage], bool]) -> None:
        """Apply the metadata up to the first state of the first partition for which this holds."""
        while self._held:
            image, changes = self._held.pop(0)
            self._context.run(ReplicaManager.apply, self._manager, image, changes)
            found = image.topics.partition(FIRST)
            if found is not None and holds(found):
                return

    def apply_all(self) -> None:
        """Apply all metadata, also those that come later."""
        self.apply_until(lambda _: False)
        del self._manager.apply

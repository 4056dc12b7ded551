"""Scenarios of share groups: late writes of old leaders, reset groups, compaction, and a lost disk."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.record import build_batch, records_of
from ottla.logstore.record_batch import iterate_headers
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.partition import Partition
from ottla.node.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.node.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from ottla.node.wire.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.node.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.simulation import admin_requests, share_workload
from tests.simulation.idempotent_producer import add_producer
from tests.simulation.invariants import batches_of, replicas_of
from tests.simulation.scenarios import FIRST, recover_and_check
from tests.simulation.share_history import ACCEPT, RELEASE, RENEW
from tests.simulation.sim_client import (
    ALL,
    LAST_VERSION_WITH_NAMES,
    PRODUCE_TIMEOUT_MS,
    REQUEST_TIMEOUT_S,
    SimClient,
    base_offset_of,
    check,
)
from tests.simulation.simulation import Options, Simulation
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload
from tests.simulation.world import START_MS, VirtualNode

GROUP: Final = "reset"
LIMIT_S: Final = 20.0
SCENARIO_S: Final = 15.0  # from the start of the run
LONG_S: Final = 60.0  # the timeout of a client, as long as the search for a coordinator may take
OPTIONS: Final = Options(
    cleans=True, settings=share_workload.SETTINGS | {"group.share.delivery.count.limit": "10"}
)


async def a_removed_member_acknowledges_nothing_after_a_reset(simulation: Simulation) -> None:
    """A member that was removed from the group still holds records when the group's offsets are reset.

    Its acknowledgements then belong to the old state, and must not be written to the new one.
    """
    workload = simulation.workload
    add_producer(workload, "p", [FIRST], pause_s=0.05)
    configs = {"share.auto.offset.reset": "earliest"}
    client = simulation.admin_client
    await simulation.world.spawn(simulation.admin, admin_requests.set_group_configs(client, GROUP, configs))
    removed, joiner = (_Member(workload, name, GROUP) for name in ("forgotten", "next"))
    await removed.do(removed.join())
    held = await removed.do(removed.fetch_until_acquired())

    await removed.do(removed.renew_until(held, lambda: _reset(client)))
    await joiner.do(joiner.join())
    code = await removed.do(removed.acknowledge(held, ACCEPT))
    if not code:
        raise SimulationError("an acknowledgement of records before the reset was accepted")
    await joiner.do(joiner.accept_until_done(held))
    await recover_and_check(simulation)


async def a_late_acknowledgement_is_not_written_to_a_newer_state(simulation: Simulation) -> None:
    """A leader's write is under way until another broker leads and has delivered the records again."""
    world, network = simulation.world, simulation.world.network
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.05)
    group, leader, coordinator = await _group(simulation, is_on_leader=False)
    first, second = (_Member(simulation.workload, name, group) for name in ("first", "second"))
    await first.do(first.join())
    held = await first.do(first.fetch_until_acquired())

    network.isolate(leader.host, [coordinator.host])
    acknowledgement = world.spawn(first.process, first.acknowledge(held, ACCEPT, timeout_s=LONG_S))
    [third] = [node for node in world.nodes if node not in (leader, coordinator)]
    await _make_leader(simulation, third)
    await second.do(second.join())
    acquired = await second.do(second.fetch_until_acquired())
    network.rejoin(leader.host, [coordinator.host])
    await _check_is_not_accepted(acknowledgement)

    if acquired[0][0] != held[0][0]:
        raise SimulationError(f"the second leader starts at {acquired}, although {held} are not finished")
    await second.do(second.accept_until_done(held, acquired))
    await recover_and_check(simulation)


async def an_isolated_coordinator_confirms_nothing(simulation: Simulation) -> None:
    """An isolated coordinator, which also leads the partition, must not confirm what no other node knows."""
    world, network = simulation.world, simulation.world.network
    add_producer(simulation.workload, "p", [FIRST], pause_s=0.05)
    group, leader, _ = await _group(simulation, is_on_leader=True)
    first, second = (_Member(simulation.workload, name, group) for name in ("first", "second"))
    await first.do(first.join())
    held = await first.do(first.fetch_until_acquired())
    others = [node.host for node in world.nodes if node is not leader]

    network.isolate(leader.host, others)
    await _check_is_not_accepted(world.spawn(first.process, first.acknowledge(held, ACCEPT)))
    await second.do(second.join())
    await second.do(second.accept_until_done(held))

    network.rejoin(leader.host, others)
    await recover_and_check(simulation)


async def compacted_records_are_not_delivered(simulation: Simulation) -> None:
    """A member releases records, and then the log keeps only the newest of each key."""
    world, client = simulation.world, simulation.admin_client
    world.compacted |= {FIRST.topic}
    await _start_at_earliest(simulation, GROUP)
    for name, value in (("cleanup.policy", "compact"), ("segment.ms", "1000")):
        request = admin_requests.set_topic_config(client, FIRST.topic, name, value)
        await world.spawn(simulation.admin, request)
    await world.spawn(simulation.admin, _write(simulation, [b"%d" % (number % 4) for number in range(20)]))
    member = _Member(simulation.workload, "member", GROUP)
    await member.do(member.join())
    held = await member.do(member.fetch_until_acquired())
    await member.do(member.acknowledge(held, RELEASE))

    await asyncio.sleep(1.2)
    await world.spawn(simulation.admin, _write(simulation, [b"the next segment"]))
    await _until(simulation, lambda: _batch_count(simulation) < 10, "nothing is compacted")
    member.values.clear()
    while (start := _start_offset(simulation)) < 21:
        acquired = await member.do(member.fetch())
        if acquired:
            await member.do(member.acknowledge(acquired, ACCEPT))
        _check_time(simulation, f"the group is still at {start} of a compacted log")
        await asyncio.sleep(0.1)

    content = await world.spawn(
        simulation.admin, simulation.workload.read_to_end(client, world.chance, FIRST, limit_s=LIMIT_S)
    )
    if not set(member.values) <= set(content.values):
        raise SimulationError(f"{sorted(member.values)} were delivered, the log has {sorted(content.values)}")


async def a_node_loses_its_disk(simulation: Simulation) -> None:
    """The disk has share-partition states and records; other nodes have both."""
    add_producer(simulation.workload, "p", simulation.partitions, pause_s=0.1)
    await simulation.add_workers()
    await asyncio.sleep(4)
    lost = simulation.world.nodes[3]
    lost.kill()
    lost.storage.lose_everything()
    await asyncio.sleep(2)
    lost.start()
    await asyncio.sleep(2)

    await simulation.wait_until_recovered()
    simulation.workload.is_calm = True
    await simulation.finish(limit_s=LIMIT_S)
    await simulation.world.spawn(simulation.admin, simulation.check())


class _Member:
    """A member that acts as the scenario says, and retries after errors."""

    def __init__(self, workload: Workload, name: str, group: str) -> None:
        self._workload = workload
        self._name = name
        self._group = group
        self._client, _, self.process = workload.client(name)
        self.values: dict[int, bytes] = {}  # of the records that it received
        self._topic_id = b""
        self._session_epoch = 0

    async def do(self, work: Any) -> Any:
        """Run some work on this member's host."""
        return await self._workload.world.spawn(self.process, work)

    async def join(self) -> None:
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        epoch = 0
        while True:
            try:
                found = await self._client.refresh([FIRST.topic])
                self._topic_id = bytes(found.topics[0].topic_id)
                request = ShareGroupHeartbeatRequest(
                    group_id=self._group,
                    member_id=self._name,
                    member_epoch=epoch,
                    subscribed_topic_names=[FIRST.topic],
                )
                coordinator = await self._client.coordinator_of(self._group)
                answer = await self._client.ask(coordinator, request, ShareGroupHeartbeatResponse)
                check(answer.error_code, answer.error_message)
                epoch = answer.member_epoch
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    return
            except KafkaError as error:
                self._workload.check_error(error)
                self._client.forget_coordinator(self._group)
            self._check_time(deadline_s, "is assigned nothing")
            await asyncio.sleep(0.2)

    async def fetch(self) -> list[tuple[int, int]]:
        """Acquire records of the first partition and return their ranges of offsets."""
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            max_wait_ms=200,
            min_bytes=1,
            max_records=500,
            batch_size=500,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[FetchPartition(partition_index=0)])],
        )
        try:
            answer = await self._client.ask(await self._client.leader(FIRST), request, ShareFetchResponse)
            check(answer.error_code, answer.error_message)
        except KafkaError as error:
            self._workload.check_error(error)
            self._session_epoch = 0
            self._client.forget_leader(FIRST)
            await asyncio.sleep(0.1)
            return []
        self._session_epoch += 1
        parts = [one for topic in answer.responses for one in topic.partitions]
        for one in parts:
            content = bytes(one.records) if isinstance(one.records, bytes | bytearray | memoryview) else b""
            for position, header in iterate_headers(content):
                for record in records_of([content[position : position + header.size_bytes]]):
                    self.values[record.offset] = record.value or b""
        if any(one.error_code for one in parts):
            self._session_epoch = 0
            self._client.forget_leader(FIRST)
            await asyncio.sleep(0.1)
        return [(each.first_offset, each.last_offset) for one in parts for each in one.acquired_records]

    async def acknowledge(
        self, held: list[tuple[int, int]], kind: int, *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> int:
        """Acknowledge all given records with one type; return the error code, 0 if there is none."""
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            is_renew_ack=kind == RENEW,
            topics=[
                AcknowledgeTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=FIRST.partition,
                            acknowledgement_batches=[
                                AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                                )
                                for first, last in held
                            ],
                        )
                    ],
                )
            ],
        )
        leader = await self._client.leader(FIRST)
        answer = await self._client.ask(leader, request, ShareAcknowledgeResponse, timeout_s=timeout_s)
        check(answer.error_code, answer.error_message)
        self._session_epoch += 1
        return answer.responses[0].partitions[0].error_code

    async def fetch_until_acquired(self) -> list[tuple[int, int]]:
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        while not (held := await self.fetch()):
            self._check_time(deadline_s, "receives nothing")
        return held

    async def renew_until(self, held: list[tuple[int, int]], done: Callable[[], Any]) -> None:
        """Renew the locks until `done` returns True."""
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        while not await done():
            self._check_time(deadline_s, "waits too long")
            code = await self.acknowledge(held, RENEW)
            if code:
                raise SimulationError(f"{self._name} renews its locks in time: {ErrorCode(code)}")
            await asyncio.sleep(0.3)

    async def accept_until_done(
        self, wanted: list[tuple[int, int]], acquired: list[tuple[int, int]] | None = None
    ) -> None:
        """Accept the given records, and all that are acquired later, until the wanted ones are accepted."""
        left = {offset for first, last in wanted for offset in range(first, last + 1)}
        deadline_s = self._workload.world.loop.now_s + LIMIT_S
        while left:
            self._check_time(deadline_s, f"does not receive {sorted(left)[:9]}")
            acquired = acquired or await self.fetch()
            try:
                if acquired and not await self.acknowledge(acquired, ACCEPT):
                    left -= {offset for first, last in acquired for offset in range(first, last + 1)}
            except KafkaError as error:
                self._workload.check_error(error)
                self._session_epoch = 0
                self._client.forget_leader(FIRST)
            acquired = None

    def _check_time(self, deadline_s: float, problem: str) -> None:
        if self._workload.world.loop.now_s > deadline_s:
            raise SimulationError(f"{self._name} {problem}")


async def _start_at_earliest(simulation: Simulation, group: str) -> None:
    configs = {"share.auto.offset.reset": "earliest"}
    request = admin_requests.set_group_configs(simulation.admin_client, group, configs)
    await simulation.world.spawn(simulation.admin, request)


async def _group(simulation: Simulation, *, is_on_leader: bool) -> tuple[str, VirtualNode, VirtualNode]:
    """Return a group, the leader of the first partition, and the share coordinator of the group.

    The two are the same node if `is_on_leader`, else different ones.
    """
    probe = _Member(simulation.workload, "probe", "probe")
    await probe.do(probe.join())  # creates the topic of the states
    leader = next(node for node, one in replicas_of(simulation.world, FIRST) if one.is_leader)
    assert leader.broker is not None
    services = leader.broker.services
    topic = services.metadata.image.topics.by_name[FIRST.topic]
    for number in range(100):
        key = SharePartitionKey(f"group-{number}", topic.topic_id, FIRST.partition)
        coordinator = services.share_states.known_coordinator_of(key.coordinator_key)
        if (coordinator == leader.node_id) == is_on_leader:
            await _start_at_earliest(simulation, key.group)
            return key.group, leader, simulation.world.nodes[coordinator]
    raise SimulationError("no share coordinator is on the required node: use another seed")


async def _make_leader(simulation: Simulation, node: VirtualNode) -> None:
    """Make a node the preferred leader of the first partition, and wait until it leads."""
    client, world = simulation.admin_client, simulation.world
    others = [one.node_id for one in world.nodes if one is not node]
    deadline_s = world.loop.now_s + LIMIT_S

    async def move() -> None:
        try:
            await admin_requests.reassign(client, FIRST, (node.node_id, *others))
            await admin_requests.elect_preferred_leader(client, FIRST)
        except KafkaError:
            await asyncio.sleep(0.2)

    while not any(one is node and replica.is_leader for one, replica in replicas_of(world, FIRST)):
        if world.loop.now_s > deadline_s:
            raise SimulationError(f"{node.host.name} does not become the leader of {FIRST}")
        await world.spawn(simulation.admin, move())


async def _write(simulation: Simulation, keys: Sequence[bytes]) -> None:
    """Produce a record of each key, in a batch of its own."""
    client, world = simulation.admin_client, simulation.world
    for key in keys:
        simulation.history.attempt(FIRST, [key])
        now_ms = START_MS + int(world.loop.now_s * 1000)
        request = ProduceRequest(
            transactional_id=None,
            acks=ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=FIRST.topic,
                    partition_data=[
                        PartitionProduceData(
                            index=FIRST.partition, records=build_batch([(key, key, now_ms, ())])
                        )
                    ],
                )
            ],
        )
        leader = await client.leader(FIRST)
        answer = await client.ask(leader, request, ProduceResponse, max_version=LAST_VERSION_WITH_NAMES)
        base_offset_of(answer)


def _leading_replica(simulation: Simulation) -> tuple[VirtualNode, Partition]:
    return next(one for one in replicas_of(simulation.world, FIRST) if one[1].is_leader)


def _batch_count(simulation: Simulation) -> int:
    return len(list(batches_of(_leading_replica(simulation)[1])))


def _start_offset(simulation: Simulation) -> int:
    """Return the start offset of the group in the memory of its leader."""
    node, partition = _leading_replica(simulation)
    assert node.broker is not None
    key = SharePartitionKey(GROUP, partition.topic_id, FIRST.partition)
    led = node.broker.services.shares.share_partitions.get(key)
    return -1 if led is None else led.core.start_offset


async def _until(simulation: Simulation, holds: Callable[[], bool], problem: str) -> None:
    while not holds():
        _check_time(simulation, problem)
        await asyncio.sleep(0.1)


def _check_time(simulation: Simulation, problem: str) -> None:
    if simulation.world.loop.now_s > SCENARIO_S:
        raise SimulationError(problem)


async def _check_is_not_accepted(acknowledgement: "asyncio.Task[int]") -> None:
    try:
        code = await acknowledgement
    except KafkaError:
        return
    if not code:
        raise SimulationError("an acknowledgement was accepted that no other node can know")


async def _reset(client: SimClient) -> bool:
    """Reset the group to the start of the partition; return False as long as it has members."""
    part = AlterShareGroupOffsetsRequestPartition(partition_index=FIRST.partition, start_offset=0)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name=FIRST.topic, partitions=[part])
    request = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
    coordinator = await client.coordinator_of(GROUP)
    answer = await client.ask(coordinator, request, AlterShareGroupOffsetsResponse)
    if answer.error_code == ErrorCode.NON_EMPTY_GROUP:
        return False
    check(answer.error_code, answer.error_message)
    check(answer.responses[0].partitions[0].error_code)
    return True


SCENARIOS: Final = (
    a_removed_member_acknowledges_nothing_after_a_reset,
    a_late_acknowledgement_is_not_written_to_a_newer_state,
    an_isolated_coordinator_confirms_nothing,
    compacted_records_are_not_delivered,
)

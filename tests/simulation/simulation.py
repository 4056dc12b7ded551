"""One run: a cluster with its clients and faults, all made from a seed, and the checks at the end."""

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import pysyncobj.syncobj

from ottla.groupcoord.group_records import OFFSETS_TOPIC
from ottla.groupcoord.transactions.transaction_records import TRANSACTIONS_TOPIC
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.image import INTERNAL_TOPICS
from ottla.metadata_raft.raft_node import use_clock
from ottla.node.net import link_door
from tests.simulation import (
    admin_requests,
    cluster_checks,
    idempotent_producer,
    share_workload,
    two_phase_workload,
    txn_checks,
    txn_workload,
)
from tests.simulation.admin_history import RequestedValue, TopicHistory
from tests.simulation.administrator import PartitionAdministrator, Scope, TopicAdministrator
from tests.simulation.consumer_history import ConsumerHistory
from tests.simulation.consumer_members import SETTINGS as CONSUMER_SETTINGS
from tests.simulation.consumer_members import ConsumerMember
from tests.simulation.group_history import GroupHistory
from tests.simulation.group_members import GroupMember
from tests.simulation.history import History
from tests.simulation.invariants import Invariants
from tests.simulation.nemesis import KINDS, Nemesis
from tests.simulation.share_traits import LETTER_TOPIC, traits_of
from tests.simulation.share_workload import ShareWorkload
from tests.simulation.sim_client import SimClient, pause
from tests.simulation.txn_history import TxnHistory
from tests.simulation.virtual_loop import PROCESS, SimulationError
from tests.simulation.virtual_network import DetachedSocket
from tests.simulation.workload import Workload
from tests.simulation.world import CLIENT_PORT, CONTROLLER_PORT, VirtualNode, World, may_come_from_a_disk

LIMIT_S: Final = 3_600.0
RECOVERY_S: Final = 20.0  # within which a cluster without faults must recover: shorter than a timeout
SECRET: Final = "a secret of the simulation"
# Internal topics roll a segment each second, and the cleaner removes from them all that it may.
CLEANING: Final = {
    "log.roll.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.delete.retention.ms": "500",
}
# Faults that a lone node cannot survive: no other node has what its page cache lost.
NEEDS_REPLICAS: Final = frozenset({"power", "power_at_disk_step"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The parameters of a run, besides its seed."""

    nodes: int = 3
    voters: int = 3  # at most; the other nodes are brokers only
    has_separate_controllers: bool = False  # the voters are not brokers
    replicas: int = 3  # at most
    in_sync: int = 2  # at least, for anything to be acknowledged
    racks: int = 0  # to which the nodes are assigned in turn
    seconds: float = 20.0  # during which faults are injected
    kinds: tuple[str, ...] = KINDS
    settings: dict[str, str] = field(default_factory=dict)
    show: bool = False
    keep_trace: bool = False
    consumers: int = 0  # members of a consumer group (KIP-848), besides the members of a classic group
    transactions: int = 0  # transactional producers
    two_phase: int = 0  # more producers, whose prepared transactions survive them (KIP-939)
    copiers: int = 0  # clients that copy the records of these transactions, in transactions of their own
    workers: int = 0  # members of a share group
    traits: tuple[str, ...] = ()  # of `share_traits`, which the share group may have; the seed picks some
    cleans: bool = False  # the logs of the coordinators are compacted all the time
    may_lose: bool = False  # records, not metadata: all hosts may lose power, and elections may be unclean


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run; `digest` is equal in all runs of a seed."""

    seed: int
    digest: int
    events: int
    callbacks: int
    virtual_s: float
    acknowledged: int
    read: int
    metadata_offset: int
    faults: list[str]
    exits: list[str]
    trace: list[str] | None = None


class Simulation:
    """The parts of one run, which tests may access."""

    def __init__(self, seed: int, options: Options) -> None:
        self.options = options
        self.world = World(seed, show=options.show)
        if options.keep_trace:
            self.world.lines = []
        if options.cleans:
            self.world.compacted = INTERNAL_TOPICS
        chance = self.world.chance
        self.settings = _cluster_settings(chance, options)
        for node_id in range(options.nodes):
            self.world.nodes.append(
                VirtualNode(self.world, node_id, _node_settings(node_id, options) | self.settings)
            )
        self.admin = self.world.add_client("admin")
        bootstrap = [
            (node.host.name, CLIENT_PORT)
            for node in self.world.nodes[options.voters if options.has_separate_controllers else 0 :]
        ]
        self.history = History(may_lose=options.may_lose)
        self.workload = Workload(self.world, self.history, bootstrap, may_lose=options.may_lose)
        self.admin_client = SimClient(bootstrap, random.Random(f"admin {seed}"))
        self.invariants = Invariants(self.world, may_lose=options.may_lose)
        self.history.on_deleted = self.invariants.note_deletion
        kinds = options.kinds
        if min(options.nodes, options.replicas) == 1 and not options.may_lose:
            kinds = tuple(kind for kind in kinds if kind not in NEEDS_REPLICAS)
        self.nemesis = Nemesis(
            self.world,
            is_safe=lambda: options.may_lose or self.has_recovered(),
            kinds=kinds,
            gap_s=chance.choice((0.5, 1.0, 3.0)),
        )
        self.partitions: list[TopicPartition] = []
        self.members: list[GroupMember] = []
        self.consumers: list[ConsumerMember] = []
        self.consumer_history = ConsumerHistory("consumers", may_lose=options.may_lose)
        self.txn_history = TxnHistory()
        self.txn_partitions: list[TopicPartition] = []  # to which transactional producers write
        self.copies: list[TopicPartition] = []
        self.copiers: list[txn_workload.Copier] = []
        self.copier_history = GroupHistory("copiers", may_lose=options.may_lose)
        self.share: ShareWorkload | None = None
        self.traits = traits_of(seed, options.traits)
        self.letter_partitions: list[TopicPartition] = []
        assert not (options.workers and options.may_lose), "a share group must not lose records"

    def run(self) -> Outcome:
        """Run the seed with random faults; raise SimulationError if an invariant is broken."""
        return self._execute(self._main())

    def play(self, scenario: Callable[["Simulation"], Coroutine[Any, Any, None]]) -> Outcome:
        """Run a scenario instead of random faults; it starts when the cluster is up and has its topics."""

        async def main() -> None:
            await self._begin()
            await self.wait_until_recovered()
            await scenario(self)

        return self._execute(main())

    def _execute(self, main: Coroutine[Any, Any, None]) -> Outcome:
        loop = self.world.loop
        listener = _LogListener(self.world)
        root = logging.getLogger()
        level, handlers = root.level, root.handlers
        root.handlers = [listener]  # the warnings of thousands of dying nodes would hide a failure
        root.setLevel(logging.INFO if self.options.show else logging.ERROR)
        gc_was_enabled = gc.isenabled()
        gc.disable()
        engine_clock = pysyncobj.syncobj.monotonicTime
        use_clock(loop.time)
        detach = link_door.detach
        link_door.detach = DetachedSocket  # type: ignore[assignment]
        try:
            loop.run(main, limit_s=LIMIT_S)
        finally:
            self.world.close()
            use_clock(engine_clock)
            link_door.detach = detach
            if gc_was_enabled:
                gc.enable()
            root.handlers = handlers
            root.setLevel(level)
        return Outcome(
            seed=self.world.seed,
            digest=self.world.digest,
            events=self.world.events,
            callbacks=loop.callbacks,
            virtual_s=loop.now_s,
            acknowledged=self.workload.produced,
            read=self.workload.reads,
            metadata_offset=self.invariants.highest_version,
            faults=self.nemesis.injected,
            exits=[line for node in self.world.nodes for line in node.exits],
            trace=self.world.lines,
        )

    async def _main(self) -> None:
        world, chance, options = self.world, self.world.chance, self.options
        await self._begin()
        for number in range(2):
            idempotent_producer.add_producer(
                self.workload,
                f"p{number}",
                self.partitions,
                pause_s=chance.choice((0.2, 0.5, 1.0)),
                max_in_flight=chance.choice((1, idempotent_producer.MAX_IN_FLIGHT)),
                headers=self.traits.headers,
            )
        self.workload.add_reader("reader", self.partitions)
        self.workload.add_group("g", self.partitions[0], pause_s=0.4)
        self.members = [
            GroupMember(self.workload, self.history.members, f"member-{number}", self.partitions, pause_s=0.4)
            for number in range(chance.randint(1, 3))
        ]
        self.add_consumers(options.consumers)
        self.add_transactions()
        await self.add_workers()
        replicas = min(options.nodes, options.replicas)
        TopicAdministrator(
            self.workload, "admin-2", replication_factor=replicas, pause_s=chance.choice((0.3, 2.0))
        )
        scope = Scope(
            partitions=self.partitions,
            movable=self._movable(),
            nodes=options.nodes,
            replicas=replicas,
            voters=min(options.nodes, options.voters),
        )
        PartitionAdministrator(self.workload, "admin-3", scope, pause_s=chance.choice((0.2, 1.0, 4.0)))
        await self.nemesis.run(options.seconds)
        await self.nemesis.heal()
        self.workload.is_calm = True
        await self.wait_until_recovered()
        await self.wait_until_joined()
        await self.finish(limit_s=RECOVERY_S)
        await world.spawn(self.admin, self.check())
        for stopped in [node.stop() for node in world.nodes]:
            await asyncio.wait([stopped], timeout=RECOVERY_S)
            if not stopped.done():
                raise SimulationError("a node does not stop")

    def add_consumers(self, count: int) -> None:
        """Add the members of the consumer group: one in four is static, one in four subscribes by a regex."""
        topics = sorted({partition.topic for partition in self.partitions})
        for number in range(count):
            self.consumers.append(
                ConsumerMember(
                    self.workload,
                    self.consumer_history,
                    f"consumer-{number}",
                    topics,
                    pause_s=0.3,
                    instance="one" if number % 4 == 1 else None,
                    regex="[ab]" if number % 4 == 2 else None,
                )
            )

    def add_transactions(self) -> None:
        """Add transactional producers, copiers, and readers of both isolation levels."""
        options, history, workload = self.options, self.txn_history, self.workload
        if not options.transactions:
            return
        clocks_jump = "clock_jump" in self.nemesis.weights
        txn_workload.add_producers(
            workload, history, self.txn_partitions, options.transactions, clocks_jump=clocks_jump
        )
        two_phase_workload.add_producers(workload, history, self.txn_partitions, options.two_phase)
        self.copiers = txn_workload.add_copiers(
            workload,
            history,
            self.copier_history,
            self.txn_partitions,
            self.copies,
            options.copiers,
            clocks_jump=clocks_jump,
        )
        self.members += [copier.member for copier in self.copiers]
        for committed in (False, True):
            txn_workload.add_reader(
                workload, history, [*self.txn_partitions, *self.copies], committed=committed
            )

    async def add_workers(self) -> None:
        """Add the members of a share group, with few partitions, so that several members share each."""
        if not self.options.workers:
            return
        self.share = ShareWorkload(
            self.workload,
            self.txn_history,
            [partition for partition in self.partitions if partition.topic == "a"],
            self.txn_partitions,
            delivery_limit=int(self.settings["group.share.delivery.count.limit"]),
            traits=self.traits,
            letter_partitions=self.letter_partitions,
        )
        begun = self.share.begin(self.admin_client, self.options.workers, limit_s=RECOVERY_S)
        await self.world.spawn(self.admin, begun)

    async def finish(self, *, limit_s: float) -> None:
        """Stop all clients after recovery; each must end within `limit_s`."""
        if self.share is not None:
            agreed = self.share.wait_until_agreed(self.admin_client, limit_s=limit_s)
            await self.world.spawn(self.admin, agreed)
        await self.workload.finish(limit_s=limit_s)
        if self.share is not None:
            if self.traits.resets:  # members return after the last reset
                agreed = self.share.wait_until_agreed(self.admin_client, limit_s=limit_s)
                await self.world.spawn(self.admin, agreed)
            await self.world.spawn(self.admin, self.share.probe(self.admin_client, limit_s=limit_s))
            await self.share.accept_all(limit_s=limit_s)
        for copier in self.copiers:
            await asyncio.wait_for(self.world.spawn(copier.process, copier.finish()), limit_s)

    def _movable(self) -> list[TopicPartition]:
        movable = [*self.partitions, TopicPartition(OFFSETS_TOPIC, 0)]
        if self.options.transactions:
            movable += [*self.txn_partitions, *self.copies, TopicPartition(TRANSACTIONS_TOPIC, 0)]
        if self.options.workers:
            movable += [*share_workload.STATES, *self.letter_partitions]
        return movable

    async def _begin(self) -> None:
        for node in self.world.nodes:
            node.start()
        await self.world.spawn(self.admin, self._create_topics())

    # ---- topics --------------------------------------------------------------------------------------

    async def _create_topics(self) -> None:
        chance = self.world.chance
        replicas = min(self.options.nodes, self.options.replicas)
        names = {"a": self.partitions, "b": self.partitions}
        if self.options.transactions:
            names |= {"t": self.txn_partitions, "c": self.copies}
        if self.traits.has_letters:
            names[LETTER_TOPIC] = self.letter_partitions
        for name, made in names.items():
            partitions = chance.randint(1, 3)
            configs = {
                "min.insync.replicas": str(min(self.options.in_sync, replicas)),
                "segment.ms": str(chance.choice((2_000, 3_600_000))),
                **self.traits.topic_configs(name),
            }
            deadline_s = self.world.loop.now_s + RECOVERY_S
            while True:
                try:
                    await admin_requests.create_topic(self.admin_client, name, partitions, replicas, configs)
                    break
                except KafkaError as error:
                    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                        break
                    if self.world.loop.now_s > deadline_s:
                        raise SimulationError(f"no topic can be created: {error}") from error
                    await pause(chance)
            topic = self.history.admin.topics[name] = TopicHistory(
                RequestedValue(partitions), is_created=True
            )
            topic.settings = {key: RequestedValue(value) for key, value in configs.items()}
            made += [TopicPartition(name, index) for index in range(partitions)]

    # ---- checks --------------------------------------------------------------------------------------

    def has_recovered(self) -> bool:
        """Return True if all nodes are up with the same metadata, and all replicas are in sync."""
        nodes = self.world.nodes
        if not all(node.is_alive and node.is_serving and not node.process.is_paused for node in nodes):  # type: ignore[union-attr]
            return False
        if any(link.is_cut for link in self.world.network.links.values()):
            return False
        images = [node.broker.quorum_services.image for node in nodes if node.broker is not None]
        newest = max(images, key=lambda one: one.version)
        if any(one.version != newest.version for one in images):
            return False
        return all(
            len(partition.isr) == len(partition.replicas)
            and partition.has_leader
            and not (partition.adding_replicas or partition.removing_replicas)
            for topic in newest.topics.by_name.values()
            for partition in topic.partitions
        )

    async def wait_until_recovered(self) -> None:
        """Wait until the cluster has recovered, at most RECOVERY_S after all faults have ended."""
        deadline_s = self.world.loop.now_s + RECOVERY_S
        while not self.has_recovered():
            await asyncio.sleep(0.1)
            for node in self.world.nodes:
                if not node.is_alive:  # it ended because of a disk error before the disk was healed
                    node.start()
            if self.world.loop.now_s > deadline_s:
                raise SimulationError(f"the cluster does not recover: {self._state()}")

    async def wait_until_joined(self) -> None:
        """Wait until every member is in its group again, at most RECOVERY_S."""
        deadline_s = self.world.loop.now_s + RECOVERY_S
        while not all(member.is_joined for member in self.members):
            if self.world.loop.now_s > deadline_s:
                raise SimulationError(f"not all {len(self.members)} members return to the group")
            await asyncio.sleep(0.05)
        await self.wait_until_assigned()

    async def wait_until_assigned(self) -> None:
        """Wait until the members of the consumer group own all partitions, at most RECOVERY_S."""
        for consumer in self.consumers:
            consumer.is_calm = True
        deadline_s = self.world.loop.now_s + RECOVERY_S
        while self.consumers:
            owned = sorted(one for consumer in self.consumers for one in consumer.owned)
            if all(consumer.is_joined for consumer in self.consumers) and owned == sorted(self.partitions):
                return
            if self.world.loop.now_s > deadline_s:
                state = [(one.name, one.is_joined, sorted(one.owned)) for one in self.consumers]
                raise SimulationError(f"the consumers do not share all of {self.partitions}: {state}")
            await asyncio.sleep(0.05)

    def _state(self) -> str:
        lines = []
        for node in self.world.nodes:
            broker = node.broker
            quorum = None if broker is None else broker.quorum_services
            image = None if quorum is None else quorum.image
            lines.append(
                f"{node.process!r} alive={node.is_alive} serving={node.is_serving} exits={node.exits[-1:]}"
                f" version={image.version if image else None}"
                f" brokers={[(b.broker_id, b.fenced) for b in image.brokers.values()] if image else None}"
                + (
                    str(
                        [
                            (
                                topic.name,
                                one.partition,
                                one.leader,
                                one.isr,
                                one.replicas,
                                one.adding_replicas,
                            )
                            for topic in image.topics.by_name.values()
                            for one in topic.partitions
                            if len(one.isr) < len(one.replicas) or not one.has_leader or one.removing_replicas
                        ]
                    )
                    if image
                    else ""
                )
            )
        return "\n".join(lines)

    async def check(self) -> None:
        """Check the final state of the cluster, when it has recovered and all clients have ended."""
        chance, client = self.world.chance, self.admin_client
        if self.options.transactions:
            await txn_checks.wait_until_ended(
                self.world, client, chance, [*self.txn_partitions, *self.copies], limit_s=RECOVERY_S
            )
        await cluster_checks.elect_preferred_leaders(self.world, client, chance, limit_s=RECOVERY_S)
        await cluster_checks.wait_until_at_rest(self.world, self.history, limit_s=RECOVERY_S)
        contents = {}
        for partition in self.partitions:
            content = await self.workload.read_to_end(client, chance, partition, limit_s=RECOVERY_S)
            self.history.check_end(partition, content)
            contents[partition] = content.values
        for group, partition in self.history.commits:
            self.history.check_committed(group, partition, await self._committed(group, partition))
        members = self.history.members
        for partition, offsets in members.offsets.items():
            found = await self._committed(members.group, partition)
            members.check_fetched(partition, found, at_least=offsets.highest)
        consumers = self.consumer_history
        for partition, offsets in consumers.offsets.offsets.items():
            found = await self._committed(consumers.group, partition)
            consumers.offsets.check_fetched(partition, found, at_least=offsets.highest)
        if self.options.transactions:
            visible = await self._check_transactions()
            for partition in self.txn_partitions:
                found = visible[partition]
                contents[partition] = dict(zip(found.offsets, found.values, strict=True))
        if self.share is not None:
            await self.share.check(client, contents, limit_s=RECOVERY_S)
        for node in self.world.nodes:
            assert node.broker is not None
            image = node.broker.quorum_services.image
            self.history.admin.check(repr(node.process), image)
        client.close()

    async def _check_transactions(self) -> dict[TopicPartition, txn_checks.Found]:
        """Check the transactions, and return the records that `read_committed` consumers see."""
        contents: list[dict[TopicPartition, txn_checks.Found]] = [{}, {}]
        for committed, found in enumerate(contents):
            for partition in [*self.txn_partitions, *self.copies]:
                found[partition] = await txn_checks.read_to_end(
                    self.world,
                    self.admin_client,
                    self.world.chance,
                    partition,
                    committed=bool(committed),
                    limit_s=RECOVERY_S,
                )
        everything, visible = contents
        broker = self.world.nodes[0].broker
        assert broker is not None
        level = broker.quorum_services.image.transaction_version
        txn_checks.check_logs(self.txn_history, self.history, visible, everything, level=level)
        if self.options.copiers:
            group = self.copier_history.group
            txn_checks.check_all_copies(
                {one: visible[one] for one in self.txn_partitions},
                {one: visible[one] for one in self.copies},
                {one: await self._committed(group, one) for one in self.txn_partitions},
            )
        return visible

    async def _committed(self, group: str, partition: TopicPartition) -> int:
        client = self.admin_client
        deadline_s = self.world.loop.now_s + RECOVERY_S
        while True:
            try:
                return await client.committed(group, partition)
            except KafkaError as error:
                if self.world.loop.now_s > deadline_s:
                    raise SimulationError(f"group {group} does not answer: {error}") from error
                client.forget_coordinator(group)
                await pause(self.world.chance)


class _LogListener(logging.Handler):
    """The handler of the nodes' log lines: it prints them with the trace and keeps the last exception.

    A node that logs an unexpected exception fails the run, even if it continues.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is None or process.is_dead:
            return
        if record.exc_info and (error := record.exc_info[1]) is not None:
            self._world.last_exception = f"{process!r} {self.format(record)}"
            if not may_come_from_a_disk(error):
                self._world.loop.call_exception_handler({"message": record.getMessage(), "exception": error})
        if self._world.show:
            print(f"{self._world.loop.now_s:12.6f} log {process!r} {record.getMessage()}")


def run_seed(seed: int, options: Options) -> Outcome:
    """Run one seed with random faults."""
    return Simulation(seed, options).run()


def _cluster_settings(chance: random.Random, options: Options) -> dict[str, str]:
    """Return the settings that all nodes share; some are random, so that many timings are tried."""
    replicas = min(options.replicas, options.nodes)
    return {
        "log.dirs": "/data",
        "num.recovery.threads.per.data.dir": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "min.insync.replicas": str(min(2, replicas)),
        "default.replication.factor": str(replicas),
        "broker.session.timeout.ms": chance.choice(("2000", "6000")),
        "broker.heartbeat.interval.ms": "500",
        "log.flush.offset.checkpoint.interval.ms": "1000",  # a recent one is trusted by a recovery
        "replica.lag.time.max.ms": chance.choice(("1500", "5000")),
        "replica.fetch.wait.max.ms": "300",
        "metadata.log.max.record.bytes.between.snapshots": chance.choice(("2000", "20000000")),
        "log.cleaner.enable": str(options.cleans).lower(),
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        **(CLEANING if options.cleans else {}),
        **(CONSUMER_SETTINGS if options.consumers else {}),
        **(_transaction_settings(replicas) if options.transactions else {}),
        **(share_workload.settings(chance, replicas) if options.workers else {}),
        **options.settings,
    }


def _transaction_settings(replicas: int) -> dict[str, str]:
    return {
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
        **txn_workload.SETTINGS,
    }


def _node_settings(node_id: int, options: Options) -> dict[str, str]:
    name = f"node-{node_id}"
    settings = {
        "ottla.rest.listeners": "",
        "ottla.anonymous.administrators": "anywhere",  # clients run on hosts of their own
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{name}:{CLIENT_PORT}",
        "advertised.listeners": f"PLAINTEXT://{name}:{CLIENT_PORT}",
    }
    if options.racks:
        settings["broker.rack"] = f"rack-{node_id % options.racks}"
    if options.nodes > 1:
        voters = min(options.voters, options.nodes)
        settings["controller.quorum.voters"] = ",".join(
            f"{one}@node-{one}:{CONTROLLER_PORT}" for one in range(voters)
        )
        settings["controller.listener.names"] = "CONTROLLER"
        settings["cluster.secret"] = SECRET
        settings["process.roles"] = "broker,controller" if node_id < voters else "broker"
        if node_id < voters:
            settings["listeners"] += f",CONTROLLER://{name}:{CONTROLLER_PORT}"
        if node_id < voters and options.has_separate_controllers:
            settings["process.roles"] = "controller"
            settings["listeners"] = f"CONTROLLER://{name}:{CONTROLLER_PORT}"
            del settings["advertised.listeners"]
    return settings

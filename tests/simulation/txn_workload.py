"""Transactional clients under faults: producers of both protocols, copiers and readers.

A producer commits, aborts, dies in the middle and starts again, or leaves a transaction open until it times
out; some of its requests take another path and arrive when it has given them up. Two instances may share a
transactional id and fence each other. A producer without a rival that keeps its timeout must never be fenced.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.group_history import GroupHistory, Ownership
from tests.simulation.group_members import REJOIN, GroupMember
from tests.simulation.in_flight import MAX_IN_FLIGHT
from tests.simulation.sim_client import SimClient, pause
from tests.simulation.txn_clients import FENCED, OLD, V1, V2, LatePath, Protocol, TxnClient, read
from tests.simulation.txn_history import Outcome, SentTransaction, TxnHistory
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload
from tests.simulation.world import START_MS

LONG_TIMEOUT_MS: Final = 600_000  # longer than a run
SHORT_TIMEOUTS_MS: Final = (500, 1_500, 3_000)
LATE_CHANCE: Final = 0.15
MAX_COPIED_RECORDS: Final = 20  # records in a transaction of a copier
COMMIT, ABORT, GIVE_UP, DIE, LEAVE, SLOW = "commit", "abort", "give up", "die", "leave", "slow"
SLOW_S: Final = 5.0  # longer than the session timeout of a member
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.two.phase.commit.enable": "true",
}


class ProducerEnded(Exception):
    """The producer has ended; another one starts with its transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """The behaviour of a producer."""

    protocol: Protocol
    timeout_ms: int
    has_rival: bool = False  # another instance uses its id
    may_be_fenced: bool  # it has a rival, or a transaction may time out
    is_two_phase: bool = False  # only its clients end its transactions
    pause_s: float


class TxnContext:
    """The common part of producers and copiers: a transactional id, a late path, and checks of errors."""

    def __init__(
        self, workload: Workload, history: TxnHistory, name: str, transactional_id: str, behaviour: Behaviour
    ) -> None:
        self.workload, self.history, self.name, self.behaviour = workload, history, name, behaviour
        self.client: SimClient
        self.chance: random.Random
        self.client, self.chance, self.process = workload.client(name)
        world = workload.world
        late_process = world.add_client(f"{name}-late")
        self.late = LatePath(world, late_process, self.chance)
        self.producer = TxnClient(
            self.client,
            self.chance,
            transactional_id,
            protocol=behaviour.protocol,
            timeout_ms=behaviour.timeout_ms,
            now_ms=lambda: START_MS + int(world.loop.now_s * 1000),
            trace=world.trace,
            is_two_phase=behaviour.is_two_phase,
        )
        self._serial = 0
        self._count = 0

    def begin(self) -> SentTransaction:
        self._count += 1
        return self.history.begin(f"{self.name}/{self._count}")

    async def init(self, *, resumes: bool = False) -> None:
        """Initialize a new producer, or resume the same one with a new epoch."""
        if resumes:
            try:
                await self.producer.init(resumes=True)
            except KafkaError as error:
                # If the coordinator changes, a retry of a request that was carried out is fenced
                # (KAFKA-20357).
                if error.code not in FENCED:
                    self.fail(error)
                await self.producer.init()
        else:
            try:
                await self.producer.init()
            except KafkaError as error:
                self.fail(error)
        self._note_pair()

    async def init_keeping_prepared(self) -> tuple[int, int]:
        """Initialize, keep the prepared transaction of the previous producer, and return its pair.

        The pair is of producer id and epoch, (-1, -1) if no transaction is open.
        """
        try:
            prepared = await self.producer.init(keeps_prepared=True)
        except KafkaError as error:
            self.fail(error)
        self._note_pair()
        return prepared

    def _note_pair(self) -> None:
        if self.behaviour.protocol.moves_epoch and not self.behaviour.has_rival:
            self.history.epoch_movers.add(self.producer.producer[0])

    async def produce(
        self,
        transaction: SentTransaction,
        partition: TopicPartition,
        *batches: list[bytes],
        dies: bool = False,
    ) -> None:
        """Produce several batches in flight at once; with `dies`, send the last one late and raise."""
        history = self.workload.history
        for values in batches:
            self.history.note_sent(transaction, partition, values)
            history.attempt(partition, values)
        acknowledged = batches[:-1] if dies else batches
        if acknowledged:
            late = self.late if not dies and self.chance.random() < LATE_CHANCE else None
            offsets = await self.producer.produce(partition, *acknowledged, late=late)
            for offset, values in zip(offsets, acknowledged, strict=True):
                history.acknowledge(partition, offset, values)
                self.workload.produced += len(values)
        if dies:
            await self.producer.produce_and_forget(partition, batches[-1], self.late)
            raise ProducerEnded

    async def commit(self, transaction: SentTransaction) -> None:
        transaction.outcome = Outcome.IN_DOUBT
        await self._end(committed=True)
        transaction.outcome = Outcome.COMMITTED

    async def end_and_forget(self, transaction: SentTransaction, *, committed: bool) -> None:
        """Send the end of the transaction as the last request, which arrives later or never."""
        if committed:
            transaction.outcome = Outcome.IN_DOUBT
        await self.producer.end_and_forget(self.late, committed=committed)

    async def abort(self) -> None:
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        late = self.late if self.chance.random() < LATE_CHANCE else None
        await self.producer.end(committed=committed, late=late)
        self._note_pair()

    def note_fence(self, error: KafkaError) -> None:
        """Note that the producer was fenced; if that must not happen, or at another error, end the run."""
        self.workload.world.trace("fenced", f"{self.name} {error.code.name}")
        if error.code not in FENCED or not self.behaviour.may_be_fenced:
            self.fail(error)

    def fail(self, error: KafkaError) -> NoReturn:
        """End the run, as no fault explains this error."""
        client = f"{self.name} ({self.producer.transactional_id} {self.producer.producer})"
        raise self.workload.world.unexplained(error, client) from error

    def values(self, count: int, content: Callable[[int], bytes]) -> list[bytes]:
        """Return values that start with their producer and a serial number."""
        values = []
        for number in range(count):
            values.append(b"%s:%d:" % (self.name.encode(), self._serial) + content(number))
            self._serial += 1
        return values


class TxnProducer:
    """A producer of transactions over some partitions, one after the other."""

    def __init__(self, context: TxnContext, partitions: Sequence[TopicPartition]) -> None:
        self._context = context
        self._partitions = list(partitions)
        context.workload.spawn(context.process, self._run())

    async def _run(self) -> None:
        context = self._context
        await context.init()
        while not context.workload.stopping:
            transaction = context.begin()
            try:
                await self._transaction(transaction)
            except ProducerEnded:
                await context.init()
            except KafkaError as error:
                context.note_fence(error)
                await pause(context.chance, context.chance.choice((0.0, 0.5, 3.0)))
                await context.init()
            await context.workload.rest(context.behaviour.pause_s * context.chance.random() * 2)
        context.client.close()

    async def _transaction(self, transaction: SentTransaction) -> None:
        context, chance = self._context, self._context.chance
        plan = chance.choices((COMMIT, ABORT, GIVE_UP, DIE, LEAVE), (55, 20, 10, 10, 5))[0]
        partitions = chance.sample(self._partitions, chance.randint(1, len(self._partitions)))
        portions = [
            (partition, count)
            for partition in partitions
            for count in chance.choice(((1,), (1,), (1, 1), (MAX_IN_FLIGHT,)))
        ]
        chance.shuffle(portions)
        if context.behaviour.protocol.adds_partitions:
            await self._add(partitions)
        for place, (partition, count) in enumerate(portions):
            is_last = plan == DIE and (place == len(portions) - 1 or chance.random() < 0.3)
            batches = [
                context.values(chance.randint(1, 4), lambda _: bytes(chance.choice((0, 10, 300))))
                for _ in range(count)
            ]
            await context.produce(transaction, partition, *batches, dies=is_last)
        context.workload.world.trace("transaction", f"{transaction.name} {plan}")
        if plan == COMMIT:
            await context.commit(transaction)
        elif plan == GIVE_UP:
            await self._give_up(transaction, chance.choice(partitions))
        elif plan == ABORT:
            await context.abort()
            if chance.random() < 0.3:
                await context.init(resumes=True)
        else:
            await self._leave(transaction)

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        producer, chance = self._context.producer, self._context.chance
        if chance.random() < 0.5:
            await producer.add_partitions(partitions)
        else:
            for partition in partitions:
                await producer.add_partitions([partition])

    async def _give_up(self, transaction: SentTransaction, partition: TopicPartition) -> None:
        """Abort with an unanswered batch in flight; the next transaction must have another epoch."""
        context = self._context
        values = context.values(1, lambda _: b"")
        try:
            await context.produce(transaction, partition, values, dies=True)
        except ProducerEnded:
            await asyncio.sleep(context.chance.choice((0.0, 0.001, 0.01)) * context.chance.random())
        await context.abort()
        if not context.behaviour.protocol.moves_epoch:
            await context.init(resumes=True)

    async def _leave(self, transaction: SentTransaction) -> None:
        """Stay silent for a while, in which the transaction may time out, and then commit or initialize."""
        context = self._context
        if context.behaviour.timeout_ms < LONG_TIMEOUT_MS:
            await asyncio.sleep(context.behaviour.timeout_ms / 1000 * context.chance.choice((0.9, 1.5, 3.0)))
        if context.chance.random() < 0.5:
            await context.commit(transaction)
        else:
            await context.init()


class Copier:
    """A group member that copies records and commits the group's offsets in the same transaction."""

    def __init__(
        self,
        context: TxnContext,
        group: GroupHistory,
        sources: Sequence[TopicPartition],
        targets: Sequence[TopicPartition],
    ) -> None:
        self._context, self._group, self._targets = context, group, list(targets)
        self.process = context.process
        self._owned: Ownership | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._is_begun = False
        self.member = GroupMember(
            context.workload, group, f"{context.name}-member", sources, pause_s=0.2, work=self._work
        )

    async def finish(self) -> None:
        """End the last transaction when the member has left the group."""
        await self._begin()
        self._context.client.close()

    async def _work(self, client: SimClient, owned: Ownership, partition: TopicPartition) -> None:
        """Copy some records. An error of the group is raised, and the member joins again."""
        context = self._context
        if owned is not self._owned:
            self._owned = owned
            self._positions.clear()
        await self._begin()
        if partition not in self._positions:
            self._positions[partition] = max(0, await client.committed(self._group.group, partition))
        start = self._positions[partition]
        portion = await read(client, partition, start, committed=True)
        records = portion.records[:MAX_COPIED_RECORDS]
        if not records:
            return
        end = records[-1].offset + 1
        transaction = context.begin()
        self._positions.pop(partition)  # unless it is committed, the copier continues at the group's offset
        values = [record.value or b"" for record in records]
        try:
            if await self._copy(transaction, owned, partition, values, end):
                self._positions[partition] = end
        except ProducerEnded:
            self._is_begun = False
        except KafkaError as error:
            if error.code in REJOIN:
                await self._abort()
                raise
            context.note_fence(error)
            self._is_begun = False
        finally:
            # Before it joins again: the group does not return offsets while a transaction has pending ones.
            await self._begin()

    async def _begin(self) -> None:
        if not self._is_begun:
            await self._context.init()
            self._is_begun = True

    async def _abort(self) -> None:
        try:
            await self._context.abort()
        except KafkaError as error:
            self._context.note_fence(error)
            self._is_begun = False

    async def _copy(
        self,
        transaction: SentTransaction,
        owned: Ownership,
        source: TopicPartition,
        values: Sequence[bytes],
        end: int,
    ) -> bool:
        """Copy records in a transaction and return True if it was committed."""
        context, chance = self._context, self._context.chance
        producer, group = context.producer, self._group
        plan = chance.choices((COMMIT, SLOW, ABORT, DIE), (70, 10, 10, 10))[0]
        target = chance.choice(self._targets)
        if context.behaviour.protocol.adds_partitions:
            await producer.add_partitions([target])
            await producer.add_offsets(group.group)
        copies = context.values(len(values), lambda number: values[number])
        await context.produce(transaction, target, copies, dies=plan == DIE and chance.random() < 0.5)
        latest = group.generation_id
        await producer.commit_offsets(
            group.group,
            {source: end},
            generation_id=owned.generation_id,
            member_id=owned.member_id,
            late=context.late if chance.random() < LATE_CHANCE else None,
        )
        if owned.generation_id < latest:
            raise SimulationError(
                f"{group.group} accepts offsets of generation {owned.generation_id} in {latest}"
                f" ({transaction.name})"
            )
        if plan == DIE:
            raise ProducerEnded
        if plan == ABORT:
            await context.abort()
            return False
        if plan == SLOW:
            await asyncio.sleep(SLOW_S)  # another member owns the partition, and waits for this transaction
        group.of(source).attempted.add(end)
        await context.commit(transaction)
        group.of(source).highest = max(group.of(source).highest, end)
        return True


def add_reader(
    workload: Workload, history: TxnHistory, partitions: Sequence[TopicPartition], *, committed: bool
) -> None:
    """Add a client that reads all partitions from the start, again and again, at one isolation level."""
    client, chance, process = workload.client(f"reader-{'committed' if committed else 'all'}")
    workload.spawn(process, _read_all(workload, history, client, chance, partitions, committed))


async def _read_all(
    workload: Workload,
    history: TxnHistory,
    client: SimClient,
    chance: random.Random,
    partitions: Sequence[TopicPartition],
    committed: bool,
) -> None:
    offsets = dict.fromkeys(partitions, 0)
    while not workload.stopping:
        for partition in partitions:
            try:
                portion = await read(
                    client, partition, offsets[partition], committed=committed, max_wait_ms=20
                )
            except KafkaError as error:
                workload.check_error(error)
                client.forget_leader(partition)
                await pause(chance)
                continue
            for record in portion.records:
                if committed:
                    history.note_read(partition, record.offset, record.value or b"")
                workload.history.note_read(partition, record.offset, record.value or b"")
                workload.reads += 1
            offsets[partition] = portion.next_offset
        await workload.rest(0.2)
        if chance.random() < 0.05:
            offsets = {one: chance.randint(0, offset) for one, offset in offsets.items()}
    client.close()


def add_producers(
    workload: Workload,
    history: TxnHistory,
    partitions: Sequence[TopicPartition],
    count: int,
    *,
    clocks_jump: bool,
) -> None:
    """Add producers of all protocols; the last two share their id and fence each other."""
    chance = random.Random(f"transactions {workload.world.seed}")
    for number in range(count):
        is_rival = number >= count - 2 and count > 2
        timeout_ms = chance.choice((LONG_TIMEOUT_MS, LONG_TIMEOUT_MS, *SHORT_TIMEOUTS_MS))
        behaviour = Behaviour(
            protocol=(V2, V1, V2, OLD)[number % 4],
            timeout_ms=timeout_ms,
            has_rival=is_rival,
            may_be_fenced=is_rival or clocks_jump or timeout_ms < LONG_TIMEOUT_MS,
            pause_s=chance.choice((0.05, 0.2, 0.5)),
        )
        transactional_id = "rivals" if is_rival else f"tx-{number}"
        TxnProducer(TxnContext(workload, history, f"x{number}", transactional_id, behaviour), partitions)


def add_copiers(
    workload: Workload,
    history: TxnHistory,
    group: GroupHistory,
    sources: Sequence[TopicPartition],
    targets: Sequence[TopicPartition],
    count: int,
    *,
    clocks_jump: bool,
) -> list[Copier]:
    """Add members of one group, with both protocols in turn."""
    copiers = []
    for number in range(count):
        behaviour = Behaviour(
            protocol=(V2, V1)[number % 2],
            timeout_ms=LONG_TIMEOUT_MS,
            may_be_fenced=clocks_jump,
            pause_s=0.2,
        )
        context = TxnContext(workload, history, f"copier-{number}", f"copier-{number}", behaviour)
        copiers.append(Copier(context, group, sources, targets))
    return copiers

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
from tests.simulation.txn_history import Fate, ToldTransaction, TxnHistory
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload
from tests.simulation.world import START_MS

LONG_TIMEOUT_MS: Final = 600_000  # longer than a run
SHORT_TIMEOUTS_MS: Final = (500, 1_500, 3_000)
LATE_CHANCE: Final = 0.15
COPY_AT_MOST: Final = 20  # records in a transaction of a copier
COMMIT, ABORT, GIVE_UP, DIE, LEAVE, SLOW = "commit", "abort", "give up", "die", "leave", "slow"
SLOW_S: Final = 5.0  # longer than the session timeout of a member
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.two.phase.commit.enable": "true",
}


class Died(Exception):
    """The producer has ended; another one starts with its transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The behaviour of a producer."""

    protocol: Protocol
    timeout_ms: int
    has_rival: bool = False  # another instance uses its id
    may_be_fenced: bool  # it has a rival, or a transaction may time out
    is_two_phase: bool = False  # only its clients end its transactions
    pause_s: float


class TxnParty:
    """The common part of producers and copiers: a transactional id, a late path, and checks of errors."""

    def __init__(
        self, workload: Workload, history: TxnHistory, name: str, transactional_id: str, habits: Habits
    ) -> None:
        self.workload, self.history, self.name, self.habits = workload, history, name, habits
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
            protocol=habits.protocol,
            timeout_ms=habits.timeout_ms,
            now_ms=lambda: START_MS + int(world.loop.now_s * 1000),
            trace=world.trace,
            is_two_phase=habits.is_two_phase,
        )
        self._serial = 0
        self._count = 0

    def begin(self) -> ToldTransaction:
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
        self._tell_pair()

    async def init_keeping(self) -> tuple[int, int]:
        """Initialize, keep the prepared transaction of the previous producer, and return its pair.

        The pair is of producer id and epoch, (-1, -1) if no transaction is open.
        """
        try:
            prepared = await self.producer.init(keeps_prepared=True)
        except KafkaError as error:
            self.fail(error)
        self._tell_pair()
        return prepared

    def _tell_pair(self) -> None:
        if self.habits.protocol.moves_epoch and not self.habits.has_rival:
            self.history.epoch_movers.add(self.producer.producer[0])

    async def produce(
        self,
        transaction: ToldTransaction,
        partition: TopicPartition,
        *batches: list[bytes],
        dies: bool = False,
    ) -> None:
        """Produce several batches in flight at once; with `dies`, send the last one late and raise Died."""
        told = self.workload.history
        for values in batches:
            self.history.sends(transaction, partition, values)
            told.attempt(partition, values)
        heard_of = batches[:-1] if dies else batches
        if heard_of:
            late = self.late if not dies and self.chance.random() < LATE_CHANCE else None
            offsets = await self.producer.produce(partition, *heard_of, late=late)
            for offset, values in zip(offsets, heard_of, strict=True):
                told.acknowledge(partition, offset, values)
                self.workload.produced += len(values)
        if dies:
            await self.producer.produce_and_forget(partition, batches[-1], self.late)
            raise Died

    async def commit(self, transaction: ToldTransaction) -> None:
        transaction.fate = Fate.IN_DOUBT
        await self._end(committed=True)
        transaction.fate = Fate.COMMITTED

    async def end_and_forget(self, transaction: ToldTransaction, *, committed: bool) -> None:
        """Send the end of the transaction as the last request, which arrives later or never."""
        if committed:
            transaction.fate = Fate.IN_DOUBT
        await self.producer.end_and_forget(self.late, committed=committed)

    async def abort(self) -> None:
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        late = self.late if self.chance.random() < LATE_CHANCE else None
        await self.producer.end(committed=committed, late=late)
        self._tell_pair()

    def is_fenced(self, error: KafkaError) -> bool:
        """Return True if the error fences the producer, which must be possible; any other ends the run."""
        self.workload.world.trace("fenced", f"{self.name} {error.code.name}")
        if error.code not in FENCED or not self.habits.may_be_fenced:
            self.fail(error)
        self.history.fences += 1
        return True

    def fail(self, error: KafkaError) -> NoReturn:
        """End the run, as no fault explains this error."""
        who = f"{self.name} ({self.producer.transactional_id} {self.producer.producer})"
        raise self.workload.world.unexplained(error, who) from error

    def values(self, count: int, what: Callable[[int], bytes]) -> list[bytes]:
        """Return values that start with their producer and a serial number."""
        made = []
        for number in range(count):
            made.append(b"%s:%d:" % (self.name.encode(), self._serial) + what(number))
            self._serial += 1
        return made


class TxnProducer:
    """A producer of transactions over some partitions, one after the other."""

    def __init__(self, party: TxnParty, partitions: Sequence[TopicPartition]) -> None:
        self._party = party
        self._partitions = list(partitions)
        party.workload.spawn(party.process, self._run())

    async def _run(self) -> None:
        party = self._party
        await party.init()
        while not party.workload.stopping:
            transaction = party.begin()
            try:
                await self._transaction(transaction)
            except Died:
                await party.init()
            except KafkaError as error:
                if party.is_fenced(error):
                    await pause(party.chance, party.chance.choice((0.0, 0.5, 3.0)))
                    await party.init()
            await party.workload.rest(party.habits.pause_s * party.chance.random() * 2)
        party.client.close()

    async def _transaction(self, transaction: ToldTransaction) -> None:
        party, chance = self._party, self._party.chance
        plan = chance.choices((COMMIT, ABORT, GIVE_UP, DIE, LEAVE), (55, 20, 10, 10, 5))[0]
        partitions = chance.sample(self._partitions, chance.randint(1, len(self._partitions)))
        portions = [
            (partition, count)
            for partition in partitions
            for count in chance.choice(((1,), (1,), (1, 1), (MAX_IN_FLIGHT,)))
        ]
        chance.shuffle(portions)
        if party.habits.protocol.adds_partitions:
            await self._add(partitions)
        for place, (partition, count) in enumerate(portions):
            is_last = plan == DIE and (place == len(portions) - 1 or chance.random() < 0.3)
            batches = [
                party.values(chance.randint(1, 4), lambda _: bytes(chance.choice((0, 10, 300))))
                for _ in range(count)
            ]
            await party.produce(transaction, partition, *batches, dies=is_last)
        party.workload.world.trace("transaction", f"{transaction.name} {plan}")
        if plan == COMMIT:
            await party.commit(transaction)
        elif plan == GIVE_UP:
            await self._give_up(transaction, chance.choice(partitions))
        elif plan == ABORT:
            await party.abort()
            if chance.random() < 0.3:
                await party.init(resumes=True)
        else:
            await self._leave(transaction)

    async def _add(self, partitions: Sequence[TopicPartition]) -> None:
        producer, chance = self._party.producer, self._party.chance
        if chance.random() < 0.5:
            await producer.add_partitions(partitions)
        else:
            for partition in partitions:
                await producer.add_partitions([partition])

    async def _give_up(self, transaction: ToldTransaction, partition: TopicPartition) -> None:
        """Abort with an unanswered batch in flight; the next transaction must have another epoch."""
        party = self._party
        values = party.values(1, lambda _: b"")
        try:
            await party.produce(transaction, partition, values, dies=True)
        except Died:
            await asyncio.sleep(party.chance.choice((0.0, 0.001, 0.01)) * party.chance.random())
        await party.abort()
        if not party.habits.protocol.moves_epoch:
            await party.init(resumes=True)

    async def _leave(self, transaction: ToldTransaction) -> None:
        """Stay silent for a while, in which the transaction may time out, and then commit or initialize."""
        party = self._party
        if party.habits.timeout_ms < LONG_TIMEOUT_MS:
            await asyncio.sleep(party.habits.timeout_ms / 1000 * party.chance.choice((0.9, 1.5, 3.0)))
        if party.chance.random() < 0.5:
            await party.commit(transaction)
        else:
            await party.init()


class Copier:
    """A group member that copies records and commits the group's offsets in the same transaction."""

    def __init__(
        self,
        party: TxnParty,
        group: GroupHistory,
        sources: Sequence[TopicPartition],
        targets: Sequence[TopicPartition],
    ) -> None:
        self._party, self._group, self._targets = party, group, list(targets)
        self.process = party.process
        self._owned: Ownership | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._is_begun = False
        self.member = GroupMember(
            party.workload, group, f"{party.name}-member", sources, pause_s=0.2, work=self._work
        )

    async def finish(self) -> None:
        """End the last transaction when the member has left the group."""
        await self._begin()
        self._party.client.close()

    async def _work(self, client: SimClient, owned: Ownership, partition: TopicPartition) -> None:
        """Copy some records. An error of the group is raised, and the member joins again."""
        party = self._party
        if owned is not self._owned:
            self._owned = owned
            self._positions.clear()
        await self._begin()
        if partition not in self._positions:
            self._positions[partition] = max(0, await client.committed(self._group.group, partition))
        start = self._positions[partition]
        portion = await read(client, partition, start, committed=True)
        records = portion.records[:COPY_AT_MOST]
        if not records:
            return
        end = records[-1].offset + 1
        transaction = party.begin()
        self._positions.pop(partition)  # unless it is committed, the copier continues at the group's offset
        values = [record.value or b"" for record in records]
        try:
            if await self._copy(transaction, owned, partition, values, end):
                self._positions[partition] = end
        except Died:
            self._is_begun = False
        except KafkaError as error:
            if error.code in REJOIN:
                await self._abort()
                raise
            self._is_begun = not party.is_fenced(error)
        finally:
            # Before it joins again: the group does not return offsets while a transaction has pending ones.
            await self._begin()

    async def _begin(self) -> None:
        if not self._is_begun:
            await self._party.init()
            self._is_begun = True

    async def _abort(self) -> None:
        try:
            await self._party.abort()
        except KafkaError as error:
            self._is_begun = not self._party.is_fenced(error)

    async def _copy(
        self,
        transaction: ToldTransaction,
        owned: Ownership,
        source: TopicPartition,
        values: Sequence[bytes],
        end: int,
    ) -> bool:
        """Copy records in a transaction and return True if it was committed."""
        party, chance = self._party, self._party.chance
        producer, group = party.producer, self._group
        plan = chance.choices((COMMIT, SLOW, ABORT, DIE), (70, 10, 10, 10))[0]
        target = chance.choice(self._targets)
        if party.habits.protocol.adds_partitions:
            await producer.add_partitions([target])
            await producer.add_offsets(group.group)
        copies = party.values(len(values), lambda number: values[number])
        await party.produce(transaction, target, copies, dies=plan == DIE and chance.random() < 0.5)
        latest = group.generation_id
        await producer.commit_offsets(
            group.group,
            {source: end},
            generation_id=owned.generation_id,
            member_id=owned.member_id,
            late=party.late if chance.random() < LATE_CHANCE else None,
        )
        if owned.generation_id < latest:
            raise SimulationError(
                f"{group.group} accepts offsets of generation {owned.generation_id} in {latest}"
                f" ({transaction.name})"
            )
        if plan == DIE:
            raise Died
        if plan == ABORT:
            await party.abort()
            return False
        if plan == SLOW:
            await asyncio.sleep(SLOW_S)  # another member owns the partition, and waits for this transaction
        group.of(source).attempted.add(end)
        await party.commit(transaction)
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
                workload.judge(error)
                client.forget_leader(partition)
                await pause(chance)
                continue
            for record in portion.records:
                if committed:
                    history.saw(partition, record.offset, record.value or b"")
                workload.history.saw(partition, record.offset, record.value or b"")
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
        habits = Habits(
            protocol=(V2, V1, V2, OLD)[number % 4],
            timeout_ms=timeout_ms,
            has_rival=is_rival,
            may_be_fenced=is_rival or clocks_jump or timeout_ms < LONG_TIMEOUT_MS,
            pause_s=chance.choice((0.05, 0.2, 0.5)),
        )
        transactional_id = "rivals" if is_rival else f"tx-{number}"
        TxnProducer(TxnParty(workload, history, f"x{number}", transactional_id, habits), partitions)


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
    made = []
    for number in range(count):
        habits = Habits(
            protocol=(V2, V1)[number % 2],
            timeout_ms=LONG_TIMEOUT_MS,
            may_be_fenced=clocks_jump,
            pause_s=0.2,
        )
        party = TxnParty(workload, history, f"copier-{number}", f"copier-{number}", habits)
        made.append(Copier(party, group, sources, targets))
    return made

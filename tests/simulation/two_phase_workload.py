"""Producers with two-phase commit, whose prepared transactions survive them (KIP-939).

A producer prepares a transaction and ends. Its successor, with the same transactional id, finds the
transaction open, complete and under the pair that it had, and decides. An end that the predecessor still
requested counts only if it arrived before the successor did. Only these clients end such a transaction,
however long it takes, so none of them is ever fenced.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.txn_clients import V2
from tests.simulation.txn_history import Fate, ToldTransaction, TxnHistory
from tests.simulation.txn_workload import Habits, TxnParty
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload

NOTHING: Final = (-1, -1)
TINY_TIMEOUT_MS: Final = 1  # has no effect with two-phase commit
COMMIT, ABORT, PREPARE = "commit", "abort", "prepare"


class TwoPhaseProducer:
    """A producer of transactions over some partitions, by clients that come and go."""

    def __init__(self, party: TxnParty, partitions: Sequence[TopicPartition]) -> None:
        self._party = party
        self._partitions = list(partitions)
        party.workload.spawn(party.process, self._run())

    async def _run(self) -> None:
        party = self._party
        await party.init()
        while not party.workload.stopping:
            try:
                await self._transaction(party.begin())
            except KafkaError as error:
                party.fail(error)
            await party.workload.rest(party.habits.pause_s * party.chance.random() * 2)
        party.client.close()

    async def _transaction(self, transaction: ToldTransaction) -> None:
        party, chance = self._party, self._party.chance
        for partition in chance.sample(self._partitions, chance.randint(1, len(self._partitions))):
            values = party.values(chance.randint(1, 4), lambda _: bytes(chance.choice((0, 10, 300))))
            await party.produce(transaction, partition, values)
        plan = chance.choices((COMMIT, ABORT, PREPARE), (15, 10, 75))[0]
        party.workload.world.trace("transaction", f"{transaction.name} {plan}")
        if plan == COMMIT:
            await party.commit(transaction)
        elif plan == ABORT:
            await party.abort()
        else:
            await self._prepare(transaction)

    async def _prepare(self, transaction: ToldTransaction) -> None:
        party, chance = self._party, self._party.chance
        prepared = party.producer.producer
        forgotten = chance.choice((None, None, True, False))  # the end that its last request asks for
        if forgotten is not None:
            await party.end_and_forget(transaction, committed=forgotten)
        while True:
            await asyncio.sleep(chance.choice((0.0, 0.1, 3.0)) * chance.random())
            found = await party.init_keeping()
            if found == NOTHING or chance.random() < 0.7:
                break
        await asyncio.sleep(chance.choice((0.0, 0.1, 3.0)) * chance.random())
        if found == NOTHING and forgotten is not None:
            if forgotten:
                transaction.fate = Fate.COMMITTED
        elif found != prepared:
            raise SimulationError(f"{transaction.name} was prepared as {prepared}, and {found} is open")
        elif chance.random() < 0.6:
            await party.commit(transaction)
        else:
            await party.abort()
            transaction.fate = Fate.UNDECIDED


def add_producers(
    workload: Workload, history: TxnHistory, partitions: Sequence[TopicPartition], count: int
) -> None:
    chance = random.Random(f"two phases {workload.world.seed}")
    for number in range(count):
        habits = Habits(
            protocol=V2,
            timeout_ms=TINY_TIMEOUT_MS,
            may_be_fenced=False,
            is_two_phase=True,
            pause_s=chance.choice((0.05, 0.2, 0.5)),
        )
        TwoPhaseProducer(TxnParty(workload, history, f"y{number}", f"two-phase-{number}", habits), partitions)

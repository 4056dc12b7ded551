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
from tests.simulation.txn_history import Outcome, SentTransaction, TxnHistory
from tests.simulation.txn_workload import Behaviour, TxnContext
from tests.simulation.virtual_loop import SimulationError
from tests.simulation.workload import Workload

NO_PRODUCER: Final = (-1, -1)
TINY_TIMEOUT_MS: Final = 1  # has no effect with two-phase commit
COMMIT, ABORT, PREPARE = "commit", "abort", "prepare"


class TwoPhaseProducer:
    """A producer of transactions over some partitions, each of whose clients is replaced by a successor."""

    def __init__(self, context: TxnContext, partitions: Sequence[TopicPartition]) -> None:
        self._context = context
        self._partitions = list(partitions)
        context.workload.spawn(context.process, self._run())

    async def _run(self) -> None:
        context = self._context
        await context.init()
        while not context.workload.stopping:
            try:
                await self._transaction(context.begin())
            except KafkaError as error:
                context.fail(error)
            await context.workload.rest(context.behaviour.pause_s * context.chance.random() * 2)
        context.client.close()

    async def _transaction(self, transaction: SentTransaction) -> None:
        context, chance = self._context, self._context.chance
        for partition in chance.sample(self._partitions, chance.randint(1, len(self._partitions))):
            values = context.values(chance.randint(1, 4), lambda _: bytes(chance.choice((0, 10, 300))))
            await context.produce(transaction, partition, values)
        plan = chance.choices((COMMIT, ABORT, PREPARE), (15, 10, 75))[0]
        context.workload.world.trace("transaction", f"{transaction.name} {plan}")
        if plan == COMMIT:
            await context.commit(transaction)
        elif plan == ABORT:
            await context.abort()
        else:
            await self._prepare(transaction)

    async def _prepare(self, transaction: SentTransaction) -> None:
        context, chance = self._context, self._context.chance
        prepared = context.producer.producer
        last_end = chance.choice((None, None, True, False))  # the end that its last request asks for
        if last_end is not None:
            await context.end_and_forget(transaction, committed=last_end)
        while True:
            await asyncio.sleep(chance.choice((0.0, 0.1, 3.0)) * chance.random())
            found = await context.init_keeping_prepared()
            if found == NO_PRODUCER or chance.random() < 0.7:
                break
        await asyncio.sleep(chance.choice((0.0, 0.1, 3.0)) * chance.random())
        if found == NO_PRODUCER and last_end is not None:
            if last_end:
                transaction.outcome = Outcome.COMMITTED
        elif found != prepared:
            raise SimulationError(f"{transaction.name} was prepared as {prepared}, and {found} is open")
        elif chance.random() < 0.6:
            await context.commit(transaction)
        else:
            await context.abort()
            transaction.outcome = Outcome.UNDECIDED


def add_producers(
    workload: Workload, history: TxnHistory, partitions: Sequence[TopicPartition], count: int
) -> None:
    chance = random.Random(f"two phases {workload.world.seed}")
    for number in range(count):
        behaviour = Behaviour(
            protocol=V2,
            timeout_ms=TINY_TIMEOUT_MS,
            may_be_fenced=False,
            is_two_phase=True,
            pause_s=chance.choice((0.05, 0.2, 0.5)),
        )
        TwoPhaseProducer(
            TxnContext(workload, history, f"y{number}", f"two-phase-{number}", behaviour), partitions
        )

"""An idempotent producer with acks=all and up to five requests on the way to each partition (KIP-98).

It sends as Kafka's clients do: one connection to the leader, batches in the order of their sequences, the
next while the answers to others are awaited. When one is refused, no new one goes out until all are answered;
then those without an acknowledgement go again, oldest first. Now and then it has no patience: all go again
over a new connection, while the first copies are still on their way.

What the cluster owes it is checked with each answer. A batch may be out of order only behind one that was
refused; the oldest that is on its way never is, for the leader has all before it, and knows the last five.
"""

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from logstore.errors import ErrorCode, KafkaError
from logstore.record_batch import MAX_SEQUENCE
from logstore.topic_partition import TopicPartition
from node.net.peer_client import PeerClient
from node.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.simulation.sim_client import (
    LAST_VERSION_WITH_NAMES,
    REQUEST_TIMEOUT_S,
    SimClient,
    base_offset_of,
    pause,
    produce_request,
)
from tests.simulation.workload import LOST, Workload
from tests.simulation.world import START_MS

MAX_IN_FLIGHT: Final = 5  # for which Kafka's clients may be idempotent
MAX_RECORDS: Final = 5  # of a batch
IMPATIENCE: Final = 0.03  # the chance that a request is given up early
# A producer that is unknown may begin anywhere: this one comes past the last sequence before long.
NEAR_THE_LAST_SEQUENCE: Final = MAX_SEQUENCE - 100


@dataclass(frozen=True, slots=True)
class _Batch:
    values: list[bytes]
    sequence: int
    request: ProduceRequest


def add_producer(
    workload: Workload,
    name: str,
    partitions: Sequence[TopicPartition],
    *,
    pause_s: float,
    max_in_flight: int = MAX_IN_FLIGHT,
) -> None:
    """A client that writes to all of `partitions`, each in an order of its own, until the workload ends."""
    client, chance, process = workload.client(name)

    async def produce() -> None:
        producer = await _init_producer(workload, client, chance)
        async with asyncio.TaskGroup() as tasks:
            for partition in partitions:
                sender = _Sender(workload, client, chance, name, partition, producer, max_in_flight)
                tasks.create_task(sender.run(pause_s))
        client.close()

    workload.spawn(process, produce())


async def _init_producer(workload: Workload, client: SimClient, chance: random.Random) -> tuple[int, int]:
    while True:
        try:
            return await client.init_producer_id()
        except KafkaError as error:
            workload.judge(error)
            await pause(chance)


async def _ask(connection: PeerClient, request: ProduceRequest) -> ProduceResponse:
    return await connection.request(
        request, ProduceResponse, timeout_s=REQUEST_TIMEOUT_S, max_version=LAST_VERSION_WITH_NAMES
    )


class _Sender:
    """What one producer writes to one partition."""

    def __init__(
        self,
        workload: Workload,
        client: SimClient,
        chance: random.Random,
        name: str,
        partition: TopicPartition,
        producer: tuple[int, int],
        max_in_flight: int,
    ) -> None:
        self._workload = workload
        self._client = client
        self._chance = chance
        self._name = name
        self._partition = partition
        self._producer = producer
        self._max_in_flight = max_in_flight
        self._next_number = 0
        self._next_sequence = chance.choice((0, NEAR_THE_LAST_SEQUENCE)) if max_in_flight > 1 else 0
        self._unacknowledged: list[_Batch] = []  # that are to go again, oldest first
        # Who is unknown may begin with any batch, so the second waits until the first is there.
        self._is_known = False

    async def run(self, pause_s: float) -> None:
        """Write until the workload ends, and to the last acknowledgement."""
        workload, chance = self._workload, self._chance
        while self._unacknowledged or not workload.stopping:
            try:
                endpoint = await self._client.leader(self._partition)
                failure = await self._send(endpoint, new=self._new_batches())
            except KafkaError as error:
                failure = error
            if failure is None:
                await workload.rest(pause_s * chance.random() * 2)
                continue
            workload.judge(failure)
            if failure.code in LOST:
                return
            self._client.forget_leader(self._partition)
            await pause(chance)

    def _new_batches(self) -> int:
        """How many are to be written before the next pause."""
        if self._workload.stopping:
            return 0
        return 1 if self._max_in_flight == 1 else self._chance.randint(1, self._max_in_flight + 1)

    async def _send(self, endpoint: tuple[str, int], *, new: int) -> KafkaError | None:
        """Send what is to go again, and then new batches, until all are answered; the first refusal."""
        connection = await self._client.connect(endpoint)
        again, self._unacknowledged = deque(self._unacknowledged), []
        on_the_way: deque[tuple[_Batch, asyncio.Task[ProduceResponse]]] = deque()
        failure: KafkaError | None = None
        while True:
            limit = self._max_in_flight if self._is_known else 1
            while failure is None and len(on_the_way) < limit and (again or new > 0):
                if again:
                    batch = again.popleft()
                else:
                    batch, new = self._next_batch(), new - 1
                on_the_way.append((batch, asyncio.create_task(_ask(connection, batch.request))))
            if not on_the_way:
                self._unacknowledged += again
                return failure
            batch, answer = on_the_way.popleft()
            if await self._has_no_patience(answer):
                self._client.drop_connection(endpoint)
                waiting = [(batch, answer), *on_the_way]
                for _, task in waiting:
                    task.add_done_callback(asyncio.Task.exception)  # whatever it is, nobody hears of it
                self._unacknowledged += [*(one for one, _ in waiting), *again]
                return KafkaError(ErrorCode.REQUEST_TIMED_OUT)
            try:
                self._acknowledge(batch, base_offset_of(await answer))
            except KafkaError as error:
                self._workload.world.trace(
                    "refused", f"{self._name} {self._partition} {batch.sequence} {error.code.name}"
                )
                if failure is None:
                    failure = error
                elif error.code not in LOST:
                    self._workload.judge(error)
                self._unacknowledged.append(batch)

    async def _has_no_patience(self, answer: asyncio.Task[ProduceResponse]) -> bool:
        """Wait for an answer; now and then not long enough."""
        if self._max_in_flight == 1 or self._chance.random() >= IMPATIENCE:
            return False
        done, _ = await asyncio.wait([answer], timeout=0.1 * self._chance.random())
        return not done

    def _acknowledge(self, batch: _Batch, offset: int) -> None:
        workload = self._workload
        workload.world.trace("acknowledged", f"{self._name} {self._partition} {batch.sequence} at {offset}")
        workload.history.acknowledge(self._partition, offset, batch.values)
        workload.produced += len(batch.values)
        workload.last_success_s = workload.world.loop.now_s
        self._is_known = True

    def _next_batch(self) -> _Batch:
        chance, values = self._chance, []
        for _ in range(chance.randint(1, MAX_RECORDS)):
            filler = bytes(chance.choice((0, 10, 200, 3_000)))
            values.append(b"%s:%d:" % (self._name.encode(), self._next_number) + filler)
            self._next_number += 1
        self._workload.history.attempt(self._partition, values)
        request = produce_request(
            self._partition,
            values,
            now_ms=START_MS + int(self._workload.world.loop.now_s * 1000),
            producer=self._producer,
            base_sequence=self._next_sequence,
        )
        batch = _Batch(values, self._next_sequence, request)
        self._next_sequence = (self._next_sequence + len(values)) & MAX_SEQUENCE
        return batch

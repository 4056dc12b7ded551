"""An idempotent producer with acks=all and up to five requests in flight to each partition (KIP-98).

At times it gives up early: it sends all unanswered batches again over a new connection, while the first
copies are still under way.

Each answer is checked. A batch may be rejected as out of order only after an earlier one was rejected. The
oldest in flight never is, as the leader has all batches before it and knows the last five.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.logstore.record import Headers
from ottla.logstore.record_batch import MAX_SEQUENCE
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.simulation.in_flight import MAX_IN_FLIGHT, Batch, send_in_order
from tests.simulation.sim_client import SimClient, pause, produce_request
from tests.simulation.workload import LOST, Workload
from tests.simulation.world import START_MS

MAX_RECORDS: Final = 5  # in a batch
GIVE_UP_CHANCE: Final = 0.03  # the probability that a request is given up early
# A producer may begin with any sequence; from this one on, sequences soon wrap around.
NEAR_THE_LAST_SEQUENCE: Final = MAX_SEQUENCE - 100

# Makes the headers of a new record of a partition, from random numbers and the time in ms.
HeadersOf = Callable[[TopicPartition, random.Random, int], Headers]


def add_producer(
    workload: Workload,
    name: str,
    partitions: Sequence[TopicPartition],
    *,
    pause_s: float,
    max_in_flight: int = MAX_IN_FLIGHT,
    headers: HeadersOf = lambda *_: (),
) -> None:
    """Add a client that produces to all of `partitions`, each with its own sequence, until the end."""
    client, chance, process = workload.client(name)

    async def produce() -> None:
        producer = await _init_producer(workload, client, chance)
        async with asyncio.TaskGroup() as tasks:
            for partition in partitions:
                sender = _Sender(workload, client, chance, name, partition, producer, max_in_flight, headers)
                tasks.create_task(sender.run(pause_s))
        client.close()

    workload.spawn(process, produce())


async def _init_producer(workload: Workload, client: SimClient, chance: random.Random) -> tuple[int, int]:
    while True:
        try:
            return await client.init_producer_id()
        except KafkaError as error:
            workload.check_error(error)
            await pause(chance)


class _Sender:
    """The batches of one producer for one partition."""

    def __init__(
        self,
        workload: Workload,
        client: SimClient,
        chance: random.Random,
        name: str,
        partition: TopicPartition,
        producer: tuple[int, int],
        max_in_flight: int,
        headers: HeadersOf,
    ) -> None:
        self._headers = headers
        self._workload = workload
        self._client = client
        self._chance = chance
        self._name = name
        self._partition = partition
        self._producer = producer
        self._max_in_flight = max_in_flight
        self._next_number = 0
        self._next_sequence = chance.choice((0, NEAR_THE_LAST_SEQUENCE)) if max_in_flight > 1 else 0
        self._unacknowledged: list[Batch] = []  # to be sent again, oldest first
        # A leader that does not know the producer accepts any sequence, so the second batch waits until the
        # first is acknowledged.
        self._is_known = False

    async def run(self, pause_s: float) -> None:
        """Produce until the workload ends and all batches are acknowledged."""
        workload, chance = self._workload, self._chance
        while self._unacknowledged or not workload.stopping:
            try:
                endpoint = await self._client.leader(self._partition)
                failure = await self._send(endpoint)
            except KafkaError as error:
                failure = error
            if failure is None:
                await workload.rest(pause_s * chance.random() * 2)
                continue
            workload.check_error(failure)
            if failure.code in LOST:
                return
            self._client.forget_leader(self._partition)
            await pause(chance)

    async def _send(self, endpoint: tuple[str, int]) -> KafkaError | None:
        """Send the batches without an acknowledgement again, or else new ones; return the first error.

        So at most the batches that were in flight follow the first one without an acknowledgement.
        """
        again = iter(self._unacknowledged)
        rejected = await send_in_order(
            self._client,
            endpoint,
            again if self._unacknowledged else self._new_batches(),
            acknowledge=self._acknowledge,
            max_in_flight=self._max_in_flight,
            give_up_after_s=self._give_up_after_s,
        )
        self._unacknowledged = [*(one.batch for one in rejected), *again]
        for batch, error in rejected:
            self._workload.world.trace(
                "refused", f"{self._name} {self._partition} {batch.sequence} {error.code.name}"
            )
        for _, error in rejected[1:]:
            if error.code not in LOST:
                self._workload.check_error(error)
        return rejected[0].error if rejected else None

    def _give_up_after_s(self) -> float | None:
        if self._max_in_flight == 1 or self._chance.random() >= GIVE_UP_CHANCE:
            return None
        return 0.1 * self._chance.random()

    def _acknowledge(self, batch: Batch, offset: int) -> None:
        workload = self._workload
        workload.world.trace("acknowledged", f"{self._name} {self._partition} {batch.sequence} at {offset}")
        workload.history.acknowledge(self._partition, offset, batch.values)
        workload.produced += len(batch.values)
        self._is_known = True

    def _new_batches(self) -> Iterator[Batch]:
        """Yield the new batches before the next pause, each created when it is sent."""
        if not self._workload.stopping:
            is_alone = self._max_in_flight == 1 or not self._is_known
            for _ in range(1 if is_alone else self._chance.randint(1, self._max_in_flight + 1)):
                yield self._next_batch()

    def _next_batch(self) -> Batch:
        chance, values = self._chance, []
        for _ in range(chance.randint(1, MAX_RECORDS)):
            filler = bytes(chance.choice((0, 10, 200, 3_000)))
            values.append(b"%s:%d:" % (self._name.encode(), self._next_number) + filler)
            self._next_number += 1
        self._workload.history.attempt(self._partition, values)
        now_ms = START_MS + int(self._workload.world.loop.now_s * 1000)
        request = produce_request(
            self._partition,
            values,
            now_ms=now_ms,
            producer=self._producer,
            base_sequence=self._next_sequence,
            headers=[self._headers(self._partition, chance, now_ms) for _ in values],
        )
        batch = Batch(self._next_sequence, values, request)
        self._next_sequence = (self._next_sequence + len(values)) & MAX_SEQUENCE
        return batch

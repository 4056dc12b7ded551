"""The pipelining of a producer: several batches under way to one partition, as Kafka's clients send them.

The batches go over one connection in the order of their sequences, without waiting for the responses. When
one is rejected, no other is sent until all are answered: the batches without an acknowledgement are sent
again, oldest first.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.produce import ProduceRequest, ProduceResponse
from tests.simulation.sim_client import (
    LAST_VERSION_WITH_NAMES,
    REQUEST_TIMEOUT_S,
    SimClient,
    base_offset_of,
)

MAX_IN_FLIGHT: Final = 5  # up to which Kafka's clients are idempotent


class Batch(NamedTuple):
    """A batch of one producer for one partition."""

    sequence: int  # of its first record
    values: list[bytes]
    request: ProduceRequest


class RejectedBatch(NamedTuple):
    """A batch without an acknowledgement, and its error."""

    batch: Batch
    error: KafkaError


async def send_in_order(
    client: SimClient,
    endpoint: tuple[str, int],
    batches: Iterator[Batch],
    *,
    acknowledge: Callable[[Batch, int], None],
    max_in_flight: int = MAX_IN_FLIGHT,
    max_version: int = LAST_VERSION_WITH_NAMES,
    give_up_after_s: Callable[[], float | None] = lambda: None,
) -> list[RejectedBatch]:
    """Send batches until one is rejected or none is left; return the rejected ones in order.

    The first of them has the cause. `batches` keeps what was not sent. `acknowledge` is called with each base
    offset. `give_up_after_s` returns how long to wait for the next response; after that all batches under way
    count as timed out, although they may still arrive.
    """
    connection = await client.connect(endpoint)
    in_flight: deque[tuple[Batch, asyncio.Task[ProduceResponse]]] = deque()
    rejected: list[RejectedBatch] = []
    while True:
        while not rejected and len(in_flight) < max_in_flight and (batch := next(batches, None)) is not None:
            response = connection.request(
                batch.request, ProduceResponse, timeout_s=REQUEST_TIMEOUT_S, max_version=max_version
            )
            in_flight.append((batch, asyncio.create_task(response)))
        if not in_flight:
            return rejected
        await asyncio.wait([in_flight[0][1]], timeout=give_up_after_s())
        if not in_flight[0][1].done():
            client.drop_connection(endpoint)
            for batch, answer in in_flight:
                answer.add_done_callback(asyncio.Task.exception)  # retrieve its result, which has no reader
                rejected.append(RejectedBatch(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT)))
            return rejected
        batch, answer = in_flight.popleft()
        try:
            acknowledge(batch, base_offset_of(answer.result()))
        except KafkaError as error:
            rejected.append(RejectedBatch(batch, error))

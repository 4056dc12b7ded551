"""Produce in a transaction: verification before the first batch, and the errors for clients (KIP-890)."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.kafka_api import produce
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.kafka_api.transactional_produce import refusal
from ottla.node.net.answers import CloseConnection, Delayed
from ottla.node.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.node.fakes import Gate
from tests.unit.node.handler_results import settled
from tests.unit.node.replica.replica_world import CONNECTION, NODE_ID, OTHER_ID, ReplicaWorld, batch

PRODUCER = 7
NONE = ErrorCode.NONE


class World(ReplicaWorld):
    """A leader, and a coordinator that answers when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[tuple[str, int, int, list[TopicPartition], bool]] = []
        self.answers: list[asyncio.Future[Any]] = []
        self.txn_gate = Gate(self._add_or_verify)
        self.create_topic(partitions=3)
        for index in range(3):
            self.append(index=index)  # so that the logs are not empty

    def _add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        adds: bool,
    ) -> "asyncio.Future[Any]":
        self.requests.append((transactional_id, producer_id, producer_epoch, partitions, adds))
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]

    def respond(self, code: ErrorCode, number: int = -1, **codes: ErrorCode) -> None:
        """Answer a request to the coordinator; `p1` is the code of partition 1."""
        partitions = self.requests[number][3]
        self.answers[number].set_result({one: codes.get(f"p{one.partition}", code) for one in partitions})

    def send(self, message: ProduceRequest, version: int, *, is_large: bool = False) -> Any:
        context = RequestContext(0, version, 1, "test", CONNECTION, is_large)
        return produce.handle(self, context, message)  # type: ignore[arg-type]

    def end(self, epoch: int = 0, *, version: int = 0, index: int = 0) -> None:
        self.partition(index=index).append_marker(
            EndTransactionMarker(ControlType.ABORT, 0),
            producer_id=PRODUCER,
            producer_epoch=epoch,
            transaction_version=version,
            now_ms=0,
        )

    def end_offsets(self) -> list[int]:
        return [self.partition(index=index).log.log_end_offset for index in range(3)]


def transactional(sequence: int = 0, *, epoch: int = 0, producer_id: int = PRODUCER) -> bytes:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


def request(
    *parts: tuple[int, bytes | None], transactional_id: str | None = "tx", acks: int = 1, topic: str = "t"
) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(name=topic, topic_id=topic.encode().ljust(16, b"."), partition_data=data)
        ],
    )


async def answered(result: Any) -> list[PartitionProduceResponse]:
    """Return the partitions of the response, once it is complete."""
    response = await settled(result)
    return list(response.responses[0].partition_responses)


def codes_of(answers: list[PartitionProduceResponse]) -> list[int]:
    return [one.error_code for one in answers]


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 60))


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("version", [9, 11, 12, 13])
def test_the_coordinator_is_asked_before_the_first_batch_and_not_again(version: int, is_large: bool) -> None:
    async def scenario() -> None:
        world = World()
        result = world.send(request((0, transactional()), (2, transactional())), version, is_large=is_large)
        task = asyncio.ensure_future(answered(result))
        while not world.requests:
            await asyncio.sleep(0)
        assert world.end_offsets() == [1, 1, 1]

        world.respond(NONE)
        answers = await task

        partitions = [TopicPartition("t", 0), TopicPartition("t", 2)]
        assert world.requests == [("tx", PRODUCER, 0, partitions, version >= 12)]
        assert [(one.error_code, one.base_offset) for one in answers] == [(0, 1), (0, 1)]
        more = await answered(world.send(request((0, transactional(1))), version, is_large=is_large))
        assert (codes_of(more), len(world.requests)) == ([0], 1)

    play(scenario())


# The coordinator's code, and the codes for clients of Produce 10, 11 and 12, as in Apache Kafka 4.3.1.
EXPECTED = {
    "TRANSACTION_ABORTABLE": ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE"),
    "PRODUCER_FENCED": ("INVALID_PRODUCER_EPOCH",) * 3,
    "INVALID_PRODUCER_EPOCH": ("INVALID_PRODUCER_EPOCH",) * 3,
    "INVALID_PRODUCER_ID_MAPPING": ("INVALID_PRODUCER_ID_MAPPING",) * 3,
    "INVALID_REQUEST": ("INVALID_REQUEST",) * 3,
    "INVALID_TXN_STATE": ("INVALID_TXN_STATE",) * 3,
    "CONCURRENT_TRANSACTIONS": ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "CONCURRENT_TRANSACTIONS"),
    "COORDINATOR_LOAD_IN_PROGRESS": ("NOT_ENOUGH_REPLICAS",) * 3,
    "COORDINATOR_NOT_AVAILABLE": ("NOT_ENOUGH_REPLICAS",) * 3,
    "NOT_COORDINATOR": ("NOT_ENOUGH_REPLICAS",) * 3,
    "NETWORK_EXCEPTION": ("NOT_ENOUGH_REPLICAS",) * 3,
    "UNKNOWN_TOPIC_OR_PARTITION": ("UNKNOWN_TOPIC_OR_PARTITION",) * 3,
    # Kafka passes this one on, which ends the producer's transaction; it only means "not yet".
    "OPERATION_NOT_ATTEMPTED": ("NOT_ENOUGH_REPLICAS",) * 3,
}


@pytest.mark.parametrize("code", EXPECTED)
@pytest.mark.parametrize(("version", "column"), [(3, 0), (9, 0), (10, 0), (11, 1), (12, 2), (13, 2)])
def test_a_client_gets_an_error_that_its_version_knows(code: str, version: int, column: int) -> None:
    refused = refusal(ErrorCode[code], version)

    assert refused is not None and refused.code.name == EXPECTED[code][column]
    if refused.code.name == "NOT_ENOUGH_REPLICAS":
        assert refused.detail == (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code}"
        )


def test_without_an_error_of_the_coordinator_nothing_is_rejected() -> None:
    assert refusal(NONE, 12) is None


def test_partitions_are_answered_each_for_itself() -> None:
    async def scenario() -> None:
        world = World()
        first = world.send(request((1, transactional())), 12)
        world.respond(NONE)
        await answered(first)
        message = request(
            (0, transactional()), (1, transactional(1)), (2, transactional()), (9, transactional())
        )

        result = world.send(message, 12)
        world.respond(NONE, p2=ErrorCode.CONCURRENT_TRANSACTIONS)
        answers = await answered(result)

        assert world.requests[-1][3] == [TopicPartition("t", 0), TopicPartition("t", 2)]
        assert codes_of(answers) == [0, 0, 51, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert world.end_offsets() == [2, 3, 1]

    play(scenario())


def test_a_request_in_a_transaction_may_hold_batches_outside_of_it() -> None:
    async def scenario() -> None:
        world = World()

        result = world.send(request((0, batch()), (1, transactional()), (2, None)), 11)
        assert world.end_offsets() == [1, 1, 1]  # all wait
        world.respond(NONE)

        assert codes_of(await answered(result)) == [0, 0, ErrorCode.INVALID_RECORD]

    play(scenario())


def test_several_producers_in_one_request_are_refused_with_all_of_it() -> None:
    async def scenario() -> None:
        world = World()
        message = request((0, transactional()), (1, transactional(producer_id=8)), (2, batch()))

        answers = await answered(world.send(message, 12))

        assert codes_of(answers) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3
        assert {one.error_message for one in answers} == {
            "Transactional records contained more than one producer ID"
        }
        assert (world.requests, world.end_offsets()) == ([], [1, 1, 1])

    play(scenario())


@pytest.mark.parametrize("is_large", [False, True])
def test_without_a_transactional_id_nothing_beside_a_transactional_batch_is_appended(is_large: bool) -> None:
    async def scenario() -> None:
        world = World()
        message = request((0, batch()), (9, None), (1, transactional()), transactional_id=None)

        answers = await answered(world.send(message, 12, is_large=is_large))

        assert codes_of(answers) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 3
        assert (world.requests, world.end_offsets()) == ([], [1, 1, 1])

    play(scenario())


def test_a_fenced_producer_is_refused_without_asking() -> None:
    async def scenario() -> None:
        world = World()
        world.end(epoch=3)

        assert codes_of(await answered(world.send(request((0, transactional(epoch=2))), 12))) == [
            ErrorCode.INVALID_PRODUCER_EPOCH
        ]
        assert world.requests == []

    play(scenario())


@pytest.mark.parametrize(
    ("version", "epoch_of_end", "code"),
    [(11, 0, ErrorCode.INVALID_TXN_STATE), (12, 1, ErrorCode.INVALID_PRODUCER_EPOCH)],
)
def test_a_transaction_that_ends_before_the_coordinator_answers_gets_no_batch(
    version: int, epoch_of_end: int, code: ErrorCode
) -> None:
    """KAFKA-12671: a late batch opens no transaction, which would never end."""

    async def scenario() -> None:
        world = World()
        result = world.send(request((0, transactional())), version)
        world.end(epoch_of_end, version=2 * epoch_of_end)
        world.respond(NONE)

        assert codes_of(await answered(result)) == [code]
        log = world.partition().log
        assert log.last_stable_offset == log.log_end_offset == 2

    play(scenario())


def test_of_two_first_batches_the_earlier_goes_first() -> None:
    async def scenario() -> None:
        world = World()
        first = world.send(request((0, transactional(0))), 11)
        second = world.send(request((0, transactional(1))), 11)
        world.respond(NONE, 1)
        assert codes_of(await answered(second)) == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        world.respond(NONE, 0)
        assert codes_of(await answered(first)) == [0]

    play(scenario())


def test_a_leader_that_has_resigned_when_the_coordinator_answers_appends_nothing() -> None:
    async def scenario() -> None:
        world = World()
        result = world.send(request((0, transactional())), 12)
        world.create_topic(partitions=3, leader=OTHER_ID, leader_epoch=1, replicas=(NODE_ID, OTHER_ID))
        world.respond(NONE)

        assert codes_of(await answered(result)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    play(scenario())


def test_a_duplicate_batch_gets_the_first_response_again() -> None:
    """In the open transaction the coordinator is not asked again."""

    async def scenario() -> None:
        world = World()
        first = world.send(request((0, transactional())), 11)
        world.respond(NONE)
        await answered(first)
        (again,) = await answered(world.send(request((0, transactional())), 11))
        assert (again.error_code, again.base_offset) == (0, 1)
        assert len(world.requests) == 1

    play(scenario())


@pytest.mark.parametrize(("version", "is_verified"), [(11, False), (12, True)])
def test_older_clients_are_not_verified_if_the_setting_disables_it(version: int, is_verified: bool) -> None:
    async def scenario() -> None:
        world = World()
        world.config = replace(world.config, transaction_partition_verification_enable=False)

        result = world.send(request((0, transactional())), version)
        if is_verified:
            world.respond(NONE)

        assert codes_of(await answered(result)) == [0]
        assert bool(world.requests) == is_verified

    play(scenario())


def test_a_request_with_acks_zero_is_verified_too_and_an_error_closes_its_connection() -> None:
    async def scenario() -> None:
        world = World()
        result = world.send(request((0, transactional()), acks=0), 12)
        world.respond(ErrorCode.TRANSACTION_ABORTABLE)

        with pytest.raises(CloseConnection):
            result.answer(await result.future)

    play(scenario())


def test_acks_all_waits_for_the_coordinator_and_then_for_the_replicas() -> None:
    async def scenario() -> None:
        world = World()
        world.create_topic(partitions=3, replicas=(NODE_ID, OTHER_ID))
        result = world.send(request((0, transactional()), acks=-1), 12)
        assert not result.is_carried_out  # later requests must not be appended before it
        world.respond(NONE)
        waits = result.answer(await result.future)
        assert isinstance(waits, Delayed) and waits.is_carried_out

        world.partition().follower_fetched(OTHER_ID, 2)

        assert codes_of(await answered(waits)) == [0]

    play(scenario())


def test_a_batch_without_a_sequence_is_refused_and_keeps_no_other_from_the_log() -> None:
    async def scenario() -> None:
        world = World()
        good = world.send(request((0, transactional())), 12)
        bad = await answered(world.send(request((0, transactional(-1))), 12))
        world.respond(NONE)

        assert codes_of(bad) == [ErrorCode.INVALID_RECORD]
        assert codes_of(await answered(good)) == [0]
        assert len(world.requests) == 1

    play(scenario())


def test_bytes_that_are_not_a_batch_are_rejected() -> None:
    async def scenario() -> None:
        world = World()
        torn = bytearray(transactional())
        torn[30] ^= 1  # the CRC does not match
        result = world.send(request((0, b"garbage"), (1, bytes(torn))), 12)
        world.respond(NONE)

        assert codes_of(await answered(result)) == [ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE]

    play(scenario())

"""The gate to transaction coordinators: questions are merged, asked again, and given up."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

import pytest

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_commands import AddPartitions, VerifyPartitions
from ottla.groupcoord.transactions.transaction_results import AddPartitionsResult, VerifyPartitionsResult
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import txn_gate
from ottla.node.coordinators.txn_gate import TxnGate, code_for_client
from ottla.node.net.answers import Delayed
from ottla.node.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.node.coordinators.txn_node import TxnNode
from tests.unit.node.coordinators.txn_node import play as play_node
from tests.unit.node.fakes import peer_of

HERE, THERE, ELSEWHERE = 1, 2, 3
P0, P1, P2 = (TopicPartition("t", index) for index in range(3))
NONE, CONCURRENT, NOT_COORDINATOR, NOT_AVAILABLE = (
    ErrorCode.NONE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class World:
    """A gate of node 1, and coordinators whose answers a test chooses."""

    def __init__(self) -> None:
        self.places: dict[str, int | None] = {}  # the coordinators of ids; of all others it is THERE
        self.requests: list[tuple[int, AddPartitionsToTxnRequest, asyncio.Future[ErrorCode]]] = []
        self.commands: list[AddPartitions | VerifyPartitions] = []
        self.answers: deque[Any] = deque()  # of the coordinator on this node
        self.requested_at: list[float] = []
        self.gate = TxnGate(
            node_id=HERE,
            coordinators=self,
            connect=self._connect,
            request_timeout_ms=30_000,
            retry_backoff_ms=20,
            retry_max_ms=100,
        )

    def coordinator_node(self, transactional_id: str) -> int | None:
        return self.places.get(transactional_id, THERE)

    def ask(self, transactional_id: str, make: Callable[[int], Any], build: Callable[[Any], Any]) -> Any:
        self.requested_at.append(asyncio.get_running_loop().time())
        self.commands.append(make(1))
        answer = self.answers.popleft()
        return Delayed(answer, build) if isinstance(answer, asyncio.Future) else build(answer)

    async def _connect(self, node_id: int, purpose: str) -> Any:
        async def request(message: AddPartitionsToTxnRequest, *_: Any, **__: Any) -> Any:
            self.requested_at.append(asyncio.get_running_loop().time())
            outcome: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
            self.requests.append((node_id, message, outcome))
            return _response(message, await outcome)

        return peer_of(request)

    async def next_request(self, count: int) -> "tuple[AddPartitionsToTxnRequest, asyncio.Future[ErrorCode]]":
        """Wait for the request with the number `count`, and return it."""
        while len(self.requests) < count:
            await asyncio.sleep(0.001)
        return self.requests[count - 1][1:]

    def add_or_verify(
        self, transactional_id: str, *partitions: TopicPartition, epoch: int = 0, adds: bool = False
    ) -> Any:
        return self.gate.add_or_verify(transactional_id, 7, epoch, partitions, adds=adds)


def _response(message: AddPartitionsToTxnRequest, code: ErrorCode) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index, partition_error_code=code
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in one.topics
                ],
            )
            for one in message.transactions
        ]
    )


def play(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        world = World()
        async with asyncio.TaskGroup() as tasks:
            world.gate.start(tasks.create_task)
            await asyncio.wait_for(scenario(world), 60)
            world.gate.close()

    VirtualLoop(random.Random(1)).run(main(), limit_s=120)


def partitions_in(request: AddPartitionsToTxnRequest) -> dict[str, Sequence[int]]:
    return {one.transactional_id: one.topics[0].partitions for one in request.transactions}


@pytest.mark.parametrize("adds", [False, True])
def test_the_coordinator_on_this_node_is_asked_by_a_call(adds: bool) -> None:
    async def scenario(world: World) -> None:
        world.places["tx"] = HERE
        verified = VerifyPartitionsResult({P0: NONE, P1: ErrorCode.TRANSACTION_ABORTABLE})
        world.answers.append(AddPartitionsResult() if adds else verified)

        codes = await world.add_or_verify("tx", P0, P1, adds=adds)

        assert codes == {P0: NONE, P1: NONE if adds else ErrorCode.TRANSACTION_ABORTABLE}
        (command,) = world.commands
        assert type(command) is (AddPartitions if adds else VerifyPartitions)
        assert (command.producer, command.partitions) == (ProducerPair(7, 0), {P0, P1})

    play(scenario)


def test_the_answer_of_the_coordinator_on_this_node_may_come_later() -> None:
    async def scenario(world: World) -> None:
        world.places["tx"] = HERE
        later: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        world.answers.append(later)

        pending = world.add_or_verify("tx", P0, adds=True)
        await asyncio.sleep(1)
        assert not pending.done()
        later.set_result(KafkaError(ErrorCode.PRODUCER_FENCED))

        assert await pending == {P0: ErrorCode.PRODUCER_FENCED}

    play(scenario)


def test_questions_during_a_request_go_with_the_next_one() -> None:
    async def scenario(world: World) -> None:
        first = world.add_or_verify("tx-0", P0)
        _, outcome = await world.next_request(1)
        rest = [world.add_or_verify(f"tx-{number}", P0, P1) for number in range(1, 500)]
        same = [world.add_or_verify("tx-7", P2), world.add_or_verify("tx-0", P0)]
        await asyncio.sleep(1)
        assert len(world.requests) == 1 and not first.done()

        outcome.set_result(NONE)
        request, outcome = await world.next_request(2)
        outcome.set_result(NONE)

        assert await first == {P0: NONE}
        assert [await one for one in rest[:3]] == [{P0: NONE, P1: NONE}] * 3
        await asyncio.gather(*rest, *same)
        assert len(world.requests) == 2
        assert partitions_in(request)["tx-7"] == [0, 1, 2]  # two equal questions became one

    play(scenario)


def test_an_answer_is_not_valid_for_a_question_that_was_asked_after_its_request() -> None:
    """The answer may be older than a marker that the guard of the new question cannot notice."""

    async def scenario(world: World) -> None:
        world.add_or_verify("tx", P0)
        _, outcome = await world.next_request(1)
        second = world.add_or_verify("tx", P0)
        outcome.set_result(NONE)
        _, outcome = await world.next_request(2)
        assert not second.done()
        outcome.set_result(ErrorCode.TRANSACTION_ABORTABLE)

        assert await second == {P0: ErrorCode.TRANSACTION_ABORTABLE}

    play(scenario)


def test_a_request_has_each_id_once_and_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(txn_gate, "MAX_TRANSACTIONS_PER_REQUEST", 2)
    monkeypatch.setattr(txn_gate, "MAX_WAITING", 4)

    async def scenario(world: World) -> None:
        world.add_or_verify("busy", P0)
        _, outcome = await world.next_request(1)
        for epoch in (0, 1):
            world.add_or_verify("tx", P0, epoch=epoch)
        for number in (1, 2):
            last = world.add_or_verify(f"tx-{number}", P0)
        beyond = world.add_or_verify("one too many", P0)
        outcome.set_result(NONE)
        for count in (2, 3):
            request, outcome = await world.next_request(count)
            assert len(request.transactions) == 2
            assert len({one.transactional_id for one in request.transactions}) == 2
            outcome.set_result(NONE)

        assert await last == {P0: NONE}
        assert await beyond == {P0: NOT_AVAILABLE}

    play(scenario)


def test_a_request_says_whether_partitions_are_added() -> None:
    async def scenario(world: World) -> None:
        pending = [world.add_or_verify("a", P0, adds=False), world.add_or_verify("b", P0, adds=True)]
        request, outcome = await world.next_request(1)
        outcome.set_result(NONE)
        await asyncio.gather(*pending)

        one, other = request.transactions
        assert (one.verify_only, other.verify_only) == (True, False)
        assert (one.producer_id, one.producer_epoch) == (7, 0)

    play(scenario)


@pytest.mark.parametrize("place", [HERE, THERE])
@pytest.mark.parametrize(
    ("code", "adds", "is_retried"),
    [
        (CONCURRENT, True, True),
        (CONCURRENT, False, False),
        (NOT_COORDINATOR, False, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, True),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, True, True),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True, False),
        (ErrorCode.PRODUCER_FENCED, True, False),
        (ErrorCode.TRANSACTION_ABORTABLE, False, False),
    ],
)
def test_questions_with_transient_errors_are_asked_again_for_a_while(
    place: int, code: ErrorCode, adds: bool, is_retried: bool
) -> None:
    async def scenario(world: World) -> None:
        world.places["tx"] = place
        world.answers.extend([KafkaError(code)] * 20)
        began = asyncio.get_running_loop().time()
        pending = world.add_or_verify("tx", P0, adds=adds)
        while not pending.done():
            if len(world.requests) and not world.requests[-1][2].done():
                world.requests[-1][2].set_result(code)
            await asyncio.sleep(0)
            if not pending.done():
                await asyncio.sleep(0.0001)

        assert await pending == {P0: code}
        pauses = [
            round((after - before) * 1000)
            for before, after in zip(world.requested_at, world.requested_at[1:], strict=False)
        ]
        assert pauses[:6] == ([1, 2, 4, 8, 16, 20] if is_retried else [])
        assert asyncio.get_running_loop().time() - began < 0.125

    play(scenario)


def test_an_answer_after_a_retry_is_given() -> None:
    async def scenario(world: World) -> None:
        world.places["tx"] = HERE
        world.answers.extend([KafkaError(CONCURRENT), KafkaError(CONCURRENT), AddPartitionsResult()])

        assert await world.add_or_verify("tx", P0, adds=True) == {P0: NONE}

    play(scenario)


def test_a_coordinator_that_does_not_answer_is_a_network_error() -> None:
    async def scenario(world: World) -> None:
        pending = world.add_or_verify("tx", P0, P1)
        _, outcome = await world.next_request(1)
        outcome.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT))

        assert await pending == {P0: ErrorCode.NETWORK_EXCEPTION, P1: ErrorCode.NETWORK_EXCEPTION}

    play(scenario)


def test_without_a_coordinator_a_question_fails_at_once() -> None:
    async def scenario(world: World) -> None:
        world.places["tx"] = None

        assert await world.add_or_verify("tx", P0) == {P0: NOT_AVAILABLE}

    play(scenario)


def test_when_a_coordinator_moves_the_new_one_is_asked() -> None:
    """The old coordinator's host may be down: it would not answer before the timeout."""

    async def scenario(world: World) -> None:
        sent = world.add_or_verify("tx", P0)
        stays = world.add_or_verify("stays", P0)
        _, silent = await world.next_request(1)
        waiting = world.add_or_verify("tx-2", P0)
        world.places |= {"tx": ELSEWHERE, "tx-2": ELSEWHERE}
        world.gate.refresh()
        request, outcome = await world.next_request(2)
        outcome.set_result(NONE)

        assert world.requests[1][0] == ELSEWHERE
        assert set(partitions_in(request)) == {"tx", "tx-2"}
        assert await sent == await waiting == {P0: NONE}
        assert not stays.done()
        silent.set_result(ErrorCode.TRANSACTION_ABORTABLE)
        assert await stays == {P0: ErrorCode.TRANSACTION_ABORTABLE}

    play(scenario)


def test_cancelled_questions_are_not_sent() -> None:
    async def scenario(world: World) -> None:
        world.add_or_verify("busy", P0)
        _, outcome = await world.next_request(1)
        world.add_or_verify("gone", P0).cancel()
        stays = world.add_or_verify("stays", P0)
        outcome.set_result(NONE)
        request, outcome = await world.next_request(2)
        outcome.set_result(NONE)

        assert set(partitions_in(request)) == {"stays"}
        await stays

    play(scenario)


def test_closing_answers_all_questions() -> None:
    async def scenario(world: World) -> None:
        sent = world.add_or_verify("tx", P0)
        _, outcome = await world.next_request(1)
        waiting = world.add_or_verify("tx-2", P0)
        world.gate.close()

        assert await sent == await waiting == {P0: NOT_AVAILABLE}
        outcome.set_result(NONE)  # lets the task end

    play(scenario)


def test_a_real_coordinator_adds_and_verifies() -> None:
    async def scenario(node: TxnNode) -> None:
        producer = await node.begin("tx")
        gate = TxnGate(
            node_id=HERE,
            coordinators=node.txns,
            connect=cast(Any, None),
            request_timeout_ms=30_000,
            retry_backoff_ms=20,
            retry_max_ms=100,
        )
        gate.start(cast(Any, "no other node is asked"))

        added = await gate.add_or_verify("tx", *producer, [P0], adds=True)
        verified = await gate.add_or_verify("tx", *producer, [P0, P1], adds=False)
        stale = await gate.add_or_verify("tx", producer.producer_id, 9, [P0], adds=True)

        assert added == {P0: NONE}
        assert verified == {P0: NONE, P1: ErrorCode.TRANSACTION_ABORTABLE}
        assert stale == {P0: ErrorCode.PRODUCER_FENCED}
        assert node.states("tx") == ["Empty", "Ongoing"]

    play_node(scenario)


@pytest.mark.parametrize(
    ("code", "knows_abortable", "expected"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, False, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_older_clients_get_codes_that_they_know(
    code: ErrorCode, knows_abortable: bool, expected: ErrorCode
) -> None:
    assert code_for_client(code, knows_abortable=knows_abortable) is expected

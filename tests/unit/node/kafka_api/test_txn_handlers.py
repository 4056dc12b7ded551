"""The requests of transactions, version by version, as clients and leaders send them."""

import asyncio
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any

import pytest

from ottla.groupcoord.transactions.transaction import ProducerPair
from ottla.groupcoord.transactions.transaction_results import ListedTransaction
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decode, encode
from ottla.node.kafka_api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    find_coordinator,
    init_producer_id,
    list_transactions,
)
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import BuiltInThread, CloseConnection
from ottla.node.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.node.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.node.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.node.wire.messages.end_txn import EndTxnRequest
from ottla.node.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.node.wire.messages.list_transactions import ListTransactionsRequest
from ottla.node.work.fair_pool import FairPool, GivenUp
from tests.unit.node.coordinators.txn_node import Scenario, TxnNode, play
from tests.unit.node.handler_results import settled
from tests.unit.node.kafka_api.test_group_handlers import CONNECTION

FENCED, EPOCH = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
NONE = ErrorCode.NONE


async def call(
    node: TxnNode,
    api: ModuleType,
    version: int,
    request: Any,
    *,
    connection: int = 1,
    is_large: bool = False,
) -> Any:
    """Return the response as a client of that version would read it."""
    request = decode(type(request), version, encode(request, version))
    context = RequestContext(0, version, 1, "app", replace(CONNECTION, number=connection), is_large)
    answer = await settled(api.handle(node.services, context, request))
    return decode(type(answer), version, encode(answer, version))


def serving(scenario: Scenario, node: TxnNode | None = None) -> None:
    """Play a scenario on a node with the transaction topic, and with a topic `t` of two partitions."""

    async def prepared(node: TxnNode) -> None:
        await node.txns.coordinator_of("x")
        await scenario(node)

    play(prepared, node)


async def producer(node: TxnNode, transactional_id: str = "x", version: int = 5, **more: Any) -> Any:
    request = InitProducerIdRequest(
        transactional_id=transactional_id, **{"transaction_timeout_ms": 60_000, **more}
    )
    return await call(node, init_producer_id, version, request)


async def pair_of(node: TxnNode, transactional_id: str = "x") -> ProducerPair:
    answer = await producer(node, transactional_id)
    return ProducerPair(answer.producer_id, answer.producer_epoch)


def topics(*indexes: int, name: str = "t") -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(name=name, partitions=list(indexes))]


async def add(node: TxnNode, pair: Any, version: int = 3, *indexes: int, name: str = "t") -> list[int]:
    """Return the codes of a client's request, partition by partition."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=pair.producer_id,
        v3_and_below_producer_epoch=pair.producer_epoch,
        v3_and_below_topics=topics(*(indexes or (0, 1)), name=name),
    )
    answer = await call(node, add_partitions_to_txn, version, request)
    return codes_of(answer.results_by_topic_v3_and_below)


def codes_of(results: Any) -> list[int]:
    return [one.partition_error_code for topic in results for one in topic.results_by_partition]


async def end(
    node: TxnNode, pair: Any, version: int = 4, *, committed: bool = True, connection: int = 1
) -> Any:
    request = EndTxnRequest(
        transactional_id="x",
        producer_id=pair.producer_id,
        producer_epoch=pair.producer_epoch,
        committed=committed,
    )
    return await call(node, end_txn, version, request, connection=connection)


# ---- the place of the coordinator ----------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_is_found_and_its_topic_made(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        request = (
            FindCoordinatorRequest(key="x", key_type=1)
            if version < 4
            else FindCoordinatorRequest(coordinator_keys=["x", ""], key_type=1)
        )

        answer = await call(node, find_coordinator, version, request)

        found = [answer] if version < 4 else list(answer.coordinators)
        assert {(each.node_id, each.host, each.port, each.error_code) for each in found} == {
            (1, "here", 9092, 0)
        }
        assert node.created == 1

    play(scenario)


def test_there_is_no_coordinator_while_no_reachable_broker_leads() -> None:
    async def scenario(node: TxnNode) -> None:
        node.host(leader_epoch=1, leader=2)
        request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=1)
        (found,) = (await call(node, find_coordinator, 6, request)).coordinators
        assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    serving(scenario)


def test_a_suspected_coordinator_is_waited_for_and_not_named_if_it_is_gone() -> None:
    async def scenario(node: TxnNode) -> None:
        request = FindCoordinatorRequest(coordinator_keys=["x"], key_type=1)
        (before,) = (await call(node, find_coordinator, 6, request)).coordinators
        node.suspects.suspect(before.node_id)

        pending = asyncio.ensure_future(call(node, find_coordinator, 6, request))
        await asyncio.sleep(0.05)
        assert not pending.done()
        node.suspects.mark_gone(before.node_id)
        (gone,) = (await pending).coordinators
        assert (gone.error_code, gone.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

        node.suspects.trust(before.node_id)
        assert (await call(node, find_coordinator, 6, request)).coordinators == [before]

    serving(scenario)


# ---- InitProducerId ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_a_producer_begins_and_its_successor_has_the_next_epoch(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        first, second = await producer(node, version=version), await producer(node, version=version)
        assert (first.error_code, first.producer_id, first.producer_epoch) == (0, 1_001, 0)
        assert (second.error_code, second.producer_id, second.producer_epoch) == (0, 1_001, 1)
        assert second.ongoing_txn_producer_id == second.ongoing_txn_producer_epoch == -1

    serving(scenario)


@pytest.mark.parametrize(("version", "code"), [(3, EPOCH), (4, FENCED), (5, FENCED)])
def test_an_old_epoch_is_fenced_with_an_error_that_the_client_knows(version: int, code: ErrorCode) -> None:
    async def scenario(node: TxnNode) -> None:
        for _ in range(3):
            first = await producer(node)
        answer = await producer(node, version=version, producer_id=first.producer_id, producer_epoch=0)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

    serving(scenario)


def test_half_a_producer_and_the_empty_id_are_rejected_first() -> None:
    async def scenario(node: TxnNode) -> None:
        invalid = ErrorCode.INVALID_REQUEST
        assert (await producer(node, producer_id=5)).error_code == invalid
        assert (await producer(node, producer_epoch=5)).error_code == invalid
        assert (await producer(node, "")).error_code == invalid
        assert (await producer(node, transaction_timeout_ms=0)).error_code == 50
        assert (await producer(node, transaction_timeout_ms=900_001)).error_code == 50
        assert (await producer(node, "a" * 1_025)).error_code == invalid
        assert (await producer(node, "a" * 1_024)).error_code == 0

    serving(scenario)


def test_keep_prepared_returns_the_ongoing_transaction() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        assert await add(node, pair) == [0, 0]
        kept = await producer(node, version=6, keep_prepared_txn=True)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == (pair.producer_id, 0)
        assert (kept.producer_id, kept.producer_epoch) == (pair.producer_id, 1)
        refused = await producer(node, version=6, enable2_pc=True)
        assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    serving(scenario)


# ---- AddPartitionsToTxn, AddOffsetsToTxn ----------------------------------------------------------------


@pytest.mark.parametrize("version", range(4))
def test_a_client_adds_partitions(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        assert await add(node, pair, version) == [0, 0]
        stale = pair._replace(producer_epoch=5)
        assert await add(node, stale, version) == [EPOCH if version < 2 else FENCED] * 2
        other = pair._replace(producer_id=7)
        assert await add(node, other, version) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2

    serving(scenario)


def test_one_unknown_partition_prevents_all_from_being_added() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        assert await add(node, pair, 3, 0, 2) == [55, 3]
        assert await add(node, pair, 3, 0, name="nowhere") == [3]
        for internal in ("__transaction_state", "__consumer_offsets"):
            assert await add(node, pair, 3, 0, name=internal) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert (await end(node, pair)).error_code == ErrorCode.INVALID_TXN_STATE

    serving(scenario)


@pytest.mark.parametrize("version", (4, 5))
def test_leaders_ask_about_many_transactions_at_once(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        pair, other = await pair_of(node), await pair_of(node, "other")

        def transaction(pair: Any, name: str, *indexes: int, verify: bool) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=pair.producer_id,
                producer_epoch=pair.producer_epoch,
                verify_only=verify,
                topics=topics(*indexes),
            )

        request = AddPartitionsToTxnRequest(
            transactions=[
                transaction(pair, "x", 0, verify=True),
                transaction(pair, "x", 0, verify=False),
                transaction(pair, "x", 1, 0, verify=True),
                transaction(other, "other", 0, 9, verify=False),
                transaction(pair, "other", 0, verify=True),
                transaction(pair, "unknown", 0, verify=True),
                transaction(pair, "", 0, verify=True),
            ]
        )
        answer = await call(node, add_partitions_to_txn, version, request)

        assert [each.transactional_id for each in answer.results_by_transaction] == [
            each.transactional_id for each in request.transactions
        ]
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert [codes_of(each.topic_results) for each in answer.results_by_transaction] == [
            [ErrorCode.TRANSACTION_ABORTABLE],
            [NONE],
            [ErrorCode.TRANSACTION_ABORTABLE, NONE],
            [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
            [mapping],
            [mapping],
            [ErrorCode.INVALID_REQUEST],
        ]

    serving(scenario)


def test_very_many_partitions_and_transactions_take_turns() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        many = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=pair.producer_id,
            v3_and_below_producer_epoch=pair.producer_epoch,
            v3_and_below_topics=topics(*([0, 1] * 1_000)),
        )
        answer = await call(node, add_partitions_to_txn, 3, many, is_large=True)
        assert codes_of(answer.results_by_topic_v3_and_below) == [NONE] * 2_000
        wrong = AddPartitionsToTxnRequest(v3_and_below_topics=topics(*([0, 9] * 1_000)))
        answer = await call(node, add_partitions_to_txn, 3, wrong, is_large=True)
        assert codes_of(answer.results_by_topic_v3_and_below) == [55, 3] * 1_000

        one = AddPartitionsToTxnTransaction(
            transactional_id="x", producer_id=pair.producer_id, producer_epoch=0, topics=topics(0)
        )
        batch = AddPartitionsToTxnRequest(transactions=[one] * 1_000)
        answer = await call(node, add_partitions_to_txn, 5, batch, is_large=True)
        assert [codes_of(each.topic_results) for each in answer.results_by_transaction] == [[0]] * 1_000
        described = DescribeTransactionsRequest(transactional_ids=["x", "none"] * 1_000)
        answer = await call(node, describe_transactions, 0, described, is_large=True)
        assert [one.transactional_id for one in answer.transaction_states] == ["x", "none"]

    serving(scenario)


def test_a_client_waits_for_markers_and_a_leader_does_not() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        await add(node, pair)
        await end(node, pair)
        one = AddPartitionsToTxnTransaction(
            transactional_id="x", producer_id=pair.producer_id, producer_epoch=0, topics=topics(0)
        )
        answer = await call(node, add_partitions_to_txn, 4, AddPartitionsToTxnRequest(transactions=[one]))
        assert codes_of(answer.results_by_transaction[0].topic_results) == [51]

        waiting = asyncio.ensure_future(add(node, pair))
        await asyncio.sleep(0)
        node.marked()
        assert await waiting == [0, 0]

    serving(scenario)


@pytest.mark.parametrize("version", range(5))
def test_adding_offsets_of_a_group_adds_the_partition_that_stores_them(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)

        async def add_offsets(producer_epoch: int) -> int:
            request = AddOffsetsToTxnRequest(
                transactional_id="x",
                producer_id=pair.producer_id,
                producer_epoch=producer_epoch,
                group_id="g",
            )
            return int((await call(node, add_offsets_to_txn, version, request)).error_code)

        assert await add_offsets(0) == 0
        answer = await call(
            node, describe_transactions, 0, DescribeTransactionsRequest(transactional_ids=["x"])
        )
        (topic,) = answer.transaction_states[0].topics
        assert (topic.topic, list(topic.partitions)) == ("__consumer_offsets", [7])
        assert await add_offsets(4) == (EPOCH if version < 2 else FENCED)

    serving(scenario)


# ---- EndTxn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_a_client_ends_its_transaction_and_asks_again(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        await add(node, pair)
        answer = await end(node, pair, version)
        node.marked()
        again = await end(node, pair, version)
        assert answer == again
        expected = (pair.producer_id, 1) if version == 5 else (-1, -1)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, *expected)
        fenced = await end(node, pair._replace(producer_epoch=9), version)
        assert fenced.error_code == (EPOCH if version < 2 else FENCED)
        assert (fenced.producer_id, fenced.producer_epoch) == (-1, -1)

    serving(scenario)


def test_a_copy_of_an_old_request_closes_the_connection_that_brought_it() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        await add(node, pair)
        await end(node, pair, connection=5)
        node.marked()
        await add(node, pair)
        with pytest.raises(CloseConnection):
            await end(node, pair, connection=4)
        assert (await end(node, pair, connection=5)).error_code == 0

    serving(scenario)


# ---- descriptions and lists ----------------------------------------------------------------------------


def test_transactions_are_described() -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        await add(node, pair)
        request = DescribeTransactionsRequest(transactional_ids=["x", "unknown", ""])
        answer = await call(node, describe_transactions, 0, request)
        known, unknown, empty = answer.transaction_states
        assert (known.error_code, known.transaction_state, known.transaction_timeout_ms) == (
            0,
            "Ongoing",
            60_000,
        )
        assert (known.producer_id, known.producer_epoch) == (pair.producer_id, 0)
        assert known.transaction_start_time_ms == node.clock.now_ms()
        assert [(each.topic, list(each.partitions)) for each in known.topics] == [("t", [0, 1])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST

    serving(scenario)


@pytest.mark.parametrize("version", range(3))
def test_transactions_are_listed(version: int) -> None:
    async def scenario(node: TxnNode) -> None:
        pair = await pair_of(node)
        await producer(node, "y")
        await add(node, pair)

        async def listed(**filters: Any) -> Any:
            answer = await call(node, list_transactions, version, ListTransactionsRequest(**filters))
            return answer, sorted(each.transactional_id for each in answer.transaction_states)

        assert (await listed())[1] == ["x", "y"]
        assert (await listed(state_filters=["Ongoing"]))[1] == ["x"]
        assert (await listed(producer_id_filters=[pair.producer_id]))[1] == ["x"]
        answer, found = await listed(state_filters=["Odd", "Even"])
        assert (answer.unknown_state_filters, found) == (["Even", "Odd"], [])
        if version >= 1:
            # It has no transaction, so its start time is -1.
            assert (await listed(duration_filter=1_000))[1] == ["y"]
        if version >= 2:
            assert (await listed(transactional_id_pattern="[xz]"))[1] == ["x"]
            assert (await listed(transactional_id_pattern=""))[1] == ["x", "y"]
            assert (await listed(transactional_id_pattern="("))[0].error_code == 128

    serving(scenario)


def test_very_many_filters_are_answered_off_the_loop() -> None:
    states = sorted(f"state-{number}" for number in range(10_000))

    async def scenario(node: TxnNode) -> None:
        await producer(node)
        context = RequestContext(0, 0, 1, "app", CONNECTION, is_large=True)

        answer = await list_transactions.handle(
            node.services, context, ListTransactionsRequest(state_filters=states)
        )

        assert isinstance(answer, BuiltInThread)
        assert answer.make().unknown_state_filters == states

    serving(scenario)


def test_trap_12_requests_to_another_node_or_too_early_get_their_errors() -> None:
    async def scenario(node: TxnNode) -> None:
        await producer(node)
        node.host(leader_epoch=1, leader=2)
        node.txns.refresh()
        assert (await producer(node)).error_code == ErrorCode.NOT_COORDINATOR
        pair = ProducerPair(1_001, 0)
        assert await add(node, pair) == [ErrorCode.NOT_COORDINATOR] * 2
        assert (await end(node, pair)).error_code == ErrorCode.NOT_COORDINATOR
        described = DescribeTransactionsRequest(transactional_ids=["x"])
        answer = await call(node, describe_transactions, 0, described)
        assert answer.transaction_states[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await call(node, list_transactions, 2, ListTransactionsRequest())).error_code == 0

        node.host(leader_epoch=2)
        node.txns.refresh()  # which begins to load
        assert (await producer(node)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        listed = await call(node, list_transactions, 2, ListTransactionsRequest())
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    serving(scenario)


def test_without_producer_ids_clients_retry() -> None:
    async def scenario(node: TxnNode) -> None:
        node.id_error = KafkaError(ErrorCode.NOT_CONTROLLER, "nobody leads")
        assert (await producer(node)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    serving(scenario)


def test_matching_ids_calls_pause_now_and_then() -> None:
    ids = [ListedTransaction(f"x-{number}", number, "Empty") for number in range(1_000)]
    calls = count()

    def pause() -> None:
        if next(calls) == 9:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too long")

    found = list_transactions.matching("x-[13]", ids[:10], pause)
    assert [one.transactional_id for one in found] == ["x-1", "x-3"]
    with pytest.raises(KafkaError):
        list_transactions.matching("x-[13]", ids, pause)


@pytest.mark.parametrize(
    ("pattern", "max_cpu_s", "code", "found"),
    [
        ("x", 60.0, ErrorCode.NONE, ["x"]),
        ("[", 60.0, ErrorCode.INVALID_REGULAR_EXPRESSION, []),
        ("x", -1.0, ErrorCode.REQUEST_TIMED_OUT, []),
    ],
)
def test_ids_are_matched_in_a_pool_that_clients_share(
    pattern: str, max_cpu_s: float, code: ErrorCode, found: list[str]
) -> None:
    async def scenario(node: TxnNode) -> None:
        node.pattern_pool = FairPool("patterns", threads=1, max_cpu_s=max_cpu_s)
        await producer(node)
        request = ListTransactionsRequest(transactional_id_pattern=pattern)

        answer = await call(node, list_transactions, 2, request)

        assert answer.error_code == code
        assert [one.transactional_id for one in answer.transaction_states] == found

    serving(scenario)


def test_a_pattern_of_a_client_that_has_gone_is_given_up() -> None:
    async def scenario(node: TxnNode) -> None:
        node.pattern_pool = FairPool("patterns", threads=1, max_cpu_s=60.0, is_open=lambda number: False)
        await producer(node)
        with pytest.raises(GivenUp):
            await call(node, list_transactions, 2, ListTransactionsRequest(transactional_id_pattern="x"))

    serving(scenario)

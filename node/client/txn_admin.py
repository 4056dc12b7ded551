"""Transactions at their coordinators, and the producers in the logs of partitions."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.client.ask_brokers import ask_brokers
from ottla.node.client.ask_leaders import Answers, ask_leaders, for_lookup
from ottla.node.client.cluster_client import Client, check, only
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.node.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.node.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.node.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

ONGOING: Final = "Ongoing"
DECIDED: Final = ("PrepareCommit", "PrepareAbort")  # the markers are being written
# As Apache Kafka writes them.
STATES: Final = ("Empty", ONGOING, *DECIDED, "CompleteCommit", "CompleteAbort", "PrepareEpochFence", "Dead")
# A response has a result for each of these, and is decoded in one turn.
PARTITIONS_PER_REQUEST: Final = 500
IDS_PER_REQUEST: Final = 500
# The versions of ListTransactions that add each filter. An older server would ignore it and list everything.
_DURATION_VERSION, _PATTERN_VERSION = 1, 2
ELECTION_PAUSE_S: Final = 0.2
NO_LEADER: Final = -1
# Has no effect at the coordinator: a producer that only fences begins no transaction.
_FENCING_TIMEOUT_MS: Final = 1


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator_id: int


class ListedTransactions(NamedTuple):
    """The transactional ids by name, and the errors of the brokers that did not answer."""

    transactions: list[ListedTransaction]
    problems: Mapping[int, KafkaError]


class TransactionView(NamedTuple):
    """A transactional id; its partitions are those of an open transaction, or those that lack its marker."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: Sequence[TopicPartition]
    coordinator: str


class ProducerView(NamedTuple):
    """The state of a producer in a log; `start_offset` is that of its open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    start_offset: int | None


async def list_transactions(
    client: Client,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> ListedTransactions:
    """Return the transactional ids of all brokers by name; only those that match every given filter."""
    request = ListTransactionsRequest(
        state_filters=states,
        producer_id_filters=producer_ids,
        duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        transactional_id_pattern=pattern,
    )
    least = (
        _PATTERN_VERSION if pattern is not None else _DURATION_VERSION if longer_than_ms is not None else 0
    )

    async def ask(client: Client, broker_id: int) -> list[ListedTransaction]:
        connection = await client.node(broker_id)
        if connection.versions.get(ApiKey.LIST_TRANSACTIONS, (0, 0))[1] < least:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"broker {broker_id} does not support this filter"
            )
        response = await connection.request(request, ListTransactionsResponse, timeout_s=client.remaining_s)
        check(response.error_code, None, f"the transactions of broker {broker_id}")
        return [
            ListedTransaction(one.transactional_id, one.transaction_state, one.producer_id, broker_id)
            for one in response.transaction_states
        ]

    answers = await ask_brokers(client, ask)
    return ListedTransactions(
        sorted(one for mine in answers.found.values() for one in mine), answers.problems
    )


async def describe_transaction(client: Client, transactional_id: str) -> TransactionView:
    """Return a transactional id; TRANSACTIONAL_ID_NOT_FOUND if its coordinator does not have it."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    async def attempt() -> TransactionView:
        connection = await client.transaction_coordinator(transactional_id)
        response = await connection.request(
            request, DescribeTransactionsResponse, timeout_s=client.remaining_s
        )
        one = only(response.transaction_states, f"transactional id {transactional_id}")
        check(one.error_code, None, f"transactional id {transactional_id}")
        return _view_of(one, connection.peer)

    return await client.retry(attempt)


async def describe_open(client: Client, listed: Sequence[ListedTransaction]) -> dict[str, TransactionView]:
    """Return the listed ids with an open transaction, by id, from the brokers that listed them.

    An id that has moved to another coordinator since, or was removed, is left out: this only completes a
    list.
    """
    by_broker: dict[int, list[str]] = {}
    for one in listed:
        if one.state in (ONGOING, *DECIDED):
            by_broker.setdefault(one.coordinator_id, []).append(one.transactional_id)
    found: dict[str, TransactionView] = {}
    for broker_id, ids in by_broker.items():
        for begin in range(0, len(ids), IDS_PER_REQUEST):
            request = DescribeTransactionsRequest(transactional_ids=ids[begin : begin + IDS_PER_REQUEST])
            found |= await client.retry(partial(_describe_known, client, broker_id, request))
    return found


async def _describe_known(
    client: Client, broker_id: int, request: DescribeTransactionsRequest
) -> dict[str, TransactionView]:
    connection = await client.node(broker_id)
    response = await connection.request(request, DescribeTransactionsResponse, timeout_s=client.remaining_s)
    return {
        one.transactional_id: _view_of(one, connection.peer)
        for one in response.transaction_states
        if not one.error_code
    }


def _view_of(state: TransactionState, peer: str) -> TransactionView:
    partitions = [TopicPartition(data.topic, number) for data in state.topics for number in data.partitions]
    return TransactionView(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        None if state.transaction_start_time_ms < 0 else state.transaction_start_time_ms,
        sorted(partitions),
        peer,
    )


async def fence(client: Client, transactional_id: str) -> None:
    """Fence the producer of an id: its open transaction is aborted, and its next request is rejected."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS
    )

    async def attempt() -> None:
        connection = await client.transaction_coordinator(transactional_id)
        response = await connection.request(request, InitProducerIdResponse, timeout_s=client.remaining_s)
        # CONCURRENT_TRANSACTIONS while the markers are being written: retried until that is done.
        check(response.error_code, None, f"transactional id {transactional_id}")

    await client.retry(attempt)


# ---- at the leaders ------------------------------------------------------------------------------


async def describe_producers(
    client: Client, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
) -> dict[TopicPartition, list[ProducerView]]:
    """Return the producers in each log by their id, from the leader or from one broker."""
    if broker_id is None:
        return dict(sorted((await find_producers(client, partitions)).all().items()))
    mine = sorted(partitions)
    answers = await client.retry(partial(_whole_producers, client, broker_id, mine))
    return dict(sorted(answers.items()))


async def find_producers(client: Client, partitions: Iterable[TopicPartition]) -> Answers[list[ProducerView]]:
    """Return the producers in the logs of the leaders, and the errors of partitions without an answer."""
    return await ask_leaders(client, partitions, partial(_ask_producers, client))


async def _whole_producers(
    client: Client, node_id: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ProducerView]]:
    answers = await _ask_producers(client, node_id, partitions)
    found = {one: answer for one, answer in answers.items() if not isinstance(answer, KafkaError)}
    problems = {one: answer for one, answer in answers.items() if isinstance(answer, KafkaError)}
    for one in partitions:
        if one not in answers:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the server returned nothing about {one}")
    return Answers(found, problems).all()


async def _ask_producers(
    client: Client, node_id: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ProducerView] | KafkaError]:
    found: dict[TopicPartition, list[ProducerView] | KafkaError] = {}
    for begin in range(0, len(partitions), PARTITIONS_PER_REQUEST):
        found |= await _ask_some(client, node_id, partitions[begin : begin + PARTITIONS_PER_REQUEST])
    return found


async def _ask_some(
    client: Client, node_id: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, list[ProducerView] | KafkaError]:
    topics = [
        TopicRequest(name=name, partition_indexes=numbers) for name, numbers in _by_topic(partitions).items()
    ]
    connection = await client.node(node_id)
    response = await connection.request(
        DescribeProducersRequest(topics=topics), DescribeProducersResponse, timeout_s=client.remaining_s
    )
    found: dict[TopicPartition, list[ProducerView] | KafkaError] = {}
    for topic in response.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            try:
                check(one.error_code, one.error_message, str(partition))
                found[partition] = sorted(_producer_view_of(each) for each in one.active_producers)
            except KafkaError as error:
                found[partition] = error
    return found


def _producer_view_of(state: ProducerState) -> ProducerView:
    return ProducerView(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )


async def write_abort_marker(client: Client, partition: TopicPartition, producer: ProducerView) -> None:
    """Abort the open transaction of a producer in one log, without its coordinator."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        # -1 if the log has no marker of this producer yet: then 0, which is not above any coordinator's
        # epoch.
        coordinator_epoch=max(0, producer.coordinator_epoch),
        transaction_version=0,
    )

    async def attempt() -> None:
        connection = await client.node(await client.leader_id(partition))
        response = await connection.request(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, timeout_s=client.remaining_s
        )
        written = only(response.markers, f"the marker of producer {producer.producer_id}")
        for topic in written.topics:
            for one in topic.partitions:
                if one.error_code:
                    client.forget(topic.name)
                check(one.error_code, None, str(partition))

    await client.retry(attempt)


async def partitions_to_search(client: Client, broker_id: int | None) -> list[TopicPartition]:
    """Return all partitions, internal topics included; or those of which this broker has a replica."""
    response = await client.refresh(None)
    if broker_id is not None:
        await client.node(broker_id)  # raises for a broker that does not exist, instead of an empty result
    return [
        TopicPartition(topic.name, one.partition_index)
        for topic in response.topics
        if topic.name is not None
        for one in topic.partitions
        if broker_id is None or broker_id in one.replica_nodes
    ]


async def leaders_of(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the leader of each existing partition; NO_LEADER if it still has none after some seconds."""
    topics = sorted({one.topic for one in partitions})
    deadline = for_lookup(client).deadline
    while True:
        if topics:
            await client.refresh(topics)
        leaders = {
            one: client.topics[one.topic].leaders[one.partition]
            for one in partitions
            if one.topic in client.topics and one.partition in client.topics[one.topic].leaders
        }
        if NO_LEADER not in leaders.values() or deadline.is_over:
            return leaders
        await asyncio.sleep(ELECTION_PAUSE_S)


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for name, number in partitions:
        topics.setdefault(name, []).append(number)
    return topics

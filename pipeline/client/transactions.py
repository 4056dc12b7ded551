"""Transactions by id, many at once: requests to a coordinator are all sent before the first answer.

A producer id with its epoch (a pair) is used for one transaction, in the protocol before KIP-890, in which
only InitProducerId and a timeout raise the epoch: so any process that knows the pair can repeat EndTxn, and
the answer stays valid.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.node.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.node.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.node.wire.messages.end_txn import EndTxnRequest
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.node.wire.messages.list_transactions import ListTransactionsRequest
from ottla.node.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.pipeline.client.answers import check
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.connections import Purpose
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.client.metadata import MOVED, Cluster, CoordinatorType
from ottla.pipeline.client.retries import is_retriable
from ottla.pipeline.columns.producer_pair import ProducerPair

R = TypeVar("R")

TWO_PHASE: Final = 6  # the version of InitProducerId with two-phase commit (KIP-939)
BEFORE_TWO_PHASE: Final = 5
MAX_ADD_PARTITIONS: Final = 3  # of AddPartitionsToTxn; version 4 is for brokers
MAX_ADD_OFFSETS: Final = 3  # of AddOffsetsToTxn; version 4 is KIP-890's
MAX_TXN_OFFSET_COMMIT: Final = 4  # version 5 adds the group to the transaction itself (KIP-890)
MAX_END_TXN: Final = 4  # version 5 returns the next epoch, so it cannot be repeated
# A node stops reading while its answers are not read, so a client must not only send.
MAX_IN_FLIGHT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    """A transactional id as its coordinator describes it.

    `state` has Kafka's name, such as CompleteCommit.
    """

    state: str
    pair: ProducerPair
    start_ms: int  # -1 if no transaction is open
    timeout_ms: int
    partitions: frozenset[TopicPartition]


class Transactions:
    """The transactions of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def init(self, ids: Sequence[str], *, timeout_ms: int, two_phase: bool) -> dict[str, ProducerPair]:
        """Return a new pair for each id; it fences the previous pair and aborts its open transaction.

        Raises UNSUPPORTED_VERSION for `two_phase` if a coordinator does not support it.
        """

        def request(transactional_id: str) -> InitProducerIdRequest:
            return InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, enable2_pc=two_phase
            )

        def read(transactional_id: str, answer: Any) -> ProducerPair:
            check(answer.error_code, f"transactional id {transactional_id}")
            return ProducerPair(answer.producer_id, answer.producer_epoch)

        def most(connection: BrokerConnection) -> int:
            if not two_phase:
                return BEFORE_TWO_PHASE
            if connection.version_of(InitProducerIdRequest) < TWO_PHASE:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION, f"{connection.peer} does not support two-phase commit"
                )
            return TWO_PHASE

        return self._request_all(ids, request, read, most)

    def add_partitions(
        self, transactional_id: str, pair: ProducerPair, partitions: Sequence[TopicPartition]
    ) -> None:
        """Add partitions to the transaction, which begins with the first."""
        topics: dict[str, list[int]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=pair.producer_id,
            v3_and_below_producer_epoch=pair.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=those) for name, those in topics.items()
            ],
        )

        def read(_id: str, answer: Any) -> None:
            outcomes = [
                (one.partition_error_code, f"adding {topic.name}-{one.partition_index} to {transactional_id}")
                for topic in answer.results_by_topic_v3_and_below
                for one in topic.results_by_partition
            ]
            # OPERATION_NOT_ATTEMPTED is the error of the partitions beside the one that was rejected.
            for code, subject in sorted(
                outcomes, key=lambda one: one[0] == ErrorCode.OPERATION_NOT_ATTEMPTED
            ):
                check(code, subject)

        self._request_all([transactional_id], lambda _id: request, read, lambda _c: MAX_ADD_PARTITIONS)

    def add_offsets(
        self,
        transactional_id: str,
        pair: ProducerPair,
        group_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> None:
        """Add offsets of a group without members, to be committed with the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=pair.producer_id,
            producer_epoch=pair.epoch,
            group_id=group_id,
        )

        def read(_id: str, answer: Any) -> None:
            check(answer.error_code, f"adding group {group_id} to {transactional_id}")

        self._request_all([transactional_id], lambda _id: request, read, lambda _c: MAX_ADD_OFFSETS)
        commit = _offset_commit(transactional_id, pair, group_id, offsets)

        def attempt(connection: BrokerConnection) -> None:
            answer = connection.request(commit, most=MAX_TXN_OFFSET_COMMIT)
            for topic in answer.topics:
                for one in topic.partitions:
                    check(
                        one.error_code, f"committing {topic.name}-{one.partition_index} of group {group_id}"
                    )

        self._cluster.retry_with_coordinator(CoordinatorType.GROUP, group_id, attempt)

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> dict[str, KafkaError | None]:
        """End the transactions of these pairs; return the final error of each by id, or None if it ended."""

        def request(transactional_id: str) -> EndTxnRequest:
            pair = pairs[transactional_id]
            return EndTxnRequest(
                transactional_id=transactional_id,
                producer_id=pair.producer_id,
                producer_epoch=pair.epoch,
                committed=commit,
            )

        def read(transactional_id: str, answer: Any) -> KafkaError | None:
            try:
                check(answer.error_code, f"ending the transaction of {transactional_id}")
            except KafkaError as error:
                if is_retriable(error):
                    raise
                return error
            return None

        return self._request_all([*pairs], request, read, lambda _c: MAX_END_TXN)

    def describe(self, ids: Sequence[str]) -> dict[str, TransactionDescription | None]:
        """Return the description of each id, or None if the id is unknown."""

        def read(transactional_id: str, answer: Any) -> TransactionDescription | None:
            if len(answer.transaction_states) != 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"no single answer about {transactional_id}")
            one = answer.transaction_states[0]
            if one.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return None
            check(one.error_code, f"transactional id {transactional_id}")
            return TransactionDescription(
                state=one.transaction_state,
                pair=ProducerPair(one.producer_id, one.producer_epoch),
                start_ms=one.transaction_start_time_ms,
                timeout_ms=one.transaction_timeout_ms,
                partitions=frozenset(
                    TopicPartition(topic.topic, index) for topic in one.topics for index in topic.partitions
                ),
            )

        return self._request_all(
            ids, lambda one: DescribeTransactionsRequest(transactional_ids=[one]), read, lambda _c: None
        )

    def list_open(self, prefix: str, *, timeout_ms: int | None = None) -> set[str]:
        """Return the ids with this prefix whose transaction is open, from all coordinators."""

        def attempt() -> set[str]:
            self._cluster.refresh_nodes()  # a node that left since the last attempt is not asked again
            connections = self._cluster.connections
            sent = []
            for node_id in connections.nodes():
                connection = connections.to(node_id, Purpose.CONTROL)
                request = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[])
                sent.append((connection, connection.send(request)))
            found: set[str] = set()
            problem: KafkaError | None = None
            for connection, pending in sent:
                try:
                    answer = connection.receive(pending)
                    check(answer.error_code, f"transactions of {connection.peer}")
                    found |= {one.transactional_id for one in answer.transaction_states}
                except KafkaError as error:
                    problem = error
            if problem is not None:
                raise problem
            return {one for one in found if one.startswith(prefix)}

        return self._cluster.retry(attempt, timeout_ms=timeout_ms)

    # ---- many at once -----------------------------------------------------------------------------

    def _request_all(
        self,
        ids: Sequence[str],
        request: Callable[[str], object],
        read: Callable[[str, Any], R],
        most: Callable[[BrokerConnection], int | None],
    ) -> dict[str, R]:
        """Return what `read` makes of the answer for each id; ids with retriable errors are asked again."""
        found: dict[str, R] = {}

        def attempt() -> None:
            problem: KafkaError | None = None
            left = [one for one in ids if one not in found]
            for start in range(0, len(left), MAX_IN_FLIGHT):
                for one, outcome in self._request_once(
                    left[start : start + MAX_IN_FLIGHT], request, most
                ).items():
                    try:
                        if isinstance(outcome, KafkaError):
                            raise outcome
                        found[one] = read(one, outcome)
                    except KafkaError as error:
                        if error.code in MOVED:
                            self._cluster.forget_coordinator(CoordinatorType.TRANSACTION, one)
                        if problem is None or not is_retriable(error):
                            problem = error
            if problem is not None:
                raise problem

        self._cluster.retry(attempt)
        return {one: found[one] for one in ids}

    def _request_once(
        self,
        ids: Sequence[str],
        request: Callable[[str], object],
        most: Callable[[BrokerConnection], int | None],
    ) -> dict[str, Any]:
        """Return the answer, or the KafkaError, by id."""
        outcomes: dict[str, Any] = {}
        coordinators: list[tuple[str, BrokerConnection]] = []
        # All coordinators first: FindCoordinator uses the same connections.
        for one in ids:
            try:
                coordinators.append((one, self._cluster.coordinator(CoordinatorType.TRANSACTION, one)))
            except KafkaError as error:
                outcomes[one] = error
        sent: list[tuple[str, BrokerConnection, PendingRequest]] = []
        for one, connection in coordinators:
            try:
                sent.append((one, connection, connection.send(request(one), most=most(connection))))
            except KafkaError as error:
                outcomes[one] = error
        for one, connection, pending in sent:
            try:
                outcomes[one] = connection.receive(pending)
            except KafkaError as error:
                outcomes[one] = error
        return outcomes


def _offset_commit(
    transactional_id: str,
    pair: ProducerPair,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> TxnOffsetCommitRequest:
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for partition, one in offsets.items():
        topics.setdefault(partition.topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=one.offset,
                committed_leader_epoch=one.leader_epoch,
                committed_metadata=one.metadata,
            )
        )
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=pair.producer_id,
        producer_epoch=pair.epoch,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=those) for name, those in topics.items()],
    )

"""Transactions through faults: cut at every step, coordinators that die, leaders that move or hang.

After each fault, the rows and the offset of a committed transaction are there once, in order.
"""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema import schema_of
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.node.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.node.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.node.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.node.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.node.wire.messages.end_txn import EndTxnRequest
from ottla.node.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.node.wire.messages.produce import ProduceRequest
from ottla.node.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.pipeline.client.batch_sender import BatchSender
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.connection import BrokerConnection, PendingRequest
from ottla.pipeline.client.group_offsets import CommittedOffset, committed_offsets
from ottla.pipeline.client.metadata import Cluster, CoordinatorType
from ottla.pipeline.client.transactions import Transactions
from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.wire_client import eventually
from tests.pipeline.conftest import MakeClient
from tests.pipeline.spark.topic_rows import read_topic
from tests.pipeline.topics import TIMEOUT_S, make_topic, settings_for

pytestmark = pytest.mark.slow

STEPS = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    ProduceRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)
ROWS = [b"first", b"second", b"third"]
Interrupt = Callable[[BrokerConnection], None]


class Transaction:
    """One transaction from beginning to end: three batches to a partition, and an offset of a group."""

    def __init__(self, cluster: Cluster, partition: TopicPartition) -> None:
        self.cluster = cluster
        self.partition = partition
        self.id, self.group = f"T.{uuid4().hex}", f"g-{uuid4().hex}"
        self.transactions = Transactions(cluster)
        self.between: Callable[[], None] = lambda: None

    def run(self) -> None:
        pairs = self.transactions.init([self.id], timeout_ms=60_000, two_phase=False)
        pair = pairs[self.id]
        self.transactions.add_partitions(self.id, pair, [self.partition])
        sender = BatchSender(self.cluster, self.id)
        for number, value in enumerate(ROWS):
            fields = {"producer_id": pair.producer_id, "producer_epoch": pair.epoch, "base_sequence": number}
            sender.send(self.partition, batch([value], attributes=TRANSACTIONAL, **fields), records_count=1)
            self.between()
        sender.flush()
        offsets = {self.partition: CommittedOffset(offset=7)}
        self.transactions.add_offsets(self.id, pair, self.group, offsets)
        assert self.transactions.end(pairs, commit=True) == {self.id: None}

    def check(self, bootstrap: str) -> None:
        """Check that the offset is committed, and the rows are there once."""
        # A coordinator that was cut off a moment ago would return offsets from before.
        self.cluster.rediscover_coordinator(CoordinatorType.GROUP, self.group)
        committed = committed_offsets(self.cluster, self.group, [self.partition])
        assert {partition: one.offset for partition, one in committed.items()} == {self.partition: 7}
        assert rows_of(bootstrap, self.partition) == ROWS


def rows_of(bootstrap: str, partition: TopicPartition) -> list[bytes | None]:
    """Return the committed rows as soon as there are as many as expected, or more."""

    def read() -> list[bytes | None]:
        messages = read_topic(bootstrap, partition.topic)
        return [one.value() for one in messages if one.partition() == partition.partition]

    return eventually(read, lambda found: len(found) >= len(ROWS), TIMEOUT_S)


class InterruptAt:
    """Interrupts the first request of a kind: before it is sent, after it is sent, or after its answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: type, moment: str, do: Interrupt) -> None:
        self.api_key = schema_of(step).api_key
        self.step, self.moment, self.do = step, moment, do
        self.is_done = False
        self._send, self._receive = BrokerConnection.send, BrokerConnection.receive
        monkeypatch.setattr(BrokerConnection, "send", lambda *args, **more: self.send(*args, **more))
        monkeypatch.setattr(BrokerConnection, "receive", lambda *args: self.receive(*args))

    def send(self, connection: BrokerConnection, request: object, **more: Any) -> PendingRequest:
        is_it = isinstance(request, self.step) and not self.is_done
        if is_it and self.moment == "before it is sent":
            self.interrupt(connection)
        pending = self._send(connection, request, **more)
        if is_it and self.moment == "after it is sent":
            self.interrupt(connection)
        return pending

    def receive(self, connection: BrokerConnection, pending: PendingRequest) -> Any:
        answer = self._receive(connection, pending)
        if pending.api_key == self.api_key and self.moment == "after its answer" and not self.is_done:
            self.interrupt(connection)
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the answer is lost")
        return answer

    def interrupt(self, connection: BrokerConnection) -> None:
        self.is_done = True
        self.do(connection)


@pytest.mark.parametrize("moment", ["before it is sent", "after it is sent", "after its answer"])
@pytest.mark.parametrize("step", STEPS)
def test_a_transaction_that_is_cut_at_any_step_is_committed_once(
    bootstrap: str, client: MakeClient, monkeypatch: pytest.MonkeyPatch, step: type, moment: str
) -> None:
    transaction = Transaction(client(Role.SINK), TopicPartition(make_topic(bootstrap), 0))
    at_step = InterruptAt(monkeypatch, step, moment, BrokerConnection.close)

    transaction.run()

    assert at_step.is_done
    transaction.check(bootstrap)


# ---- nodes ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with Nodes(nodes=3) as running:
        yield running


@pytest.fixture
def partition(nodes: Nodes) -> TopicPartition:
    return TopicPartition(make_topic(nodes.bootstrap, replicas=3), 0)


@pytest.fixture
def cluster(nodes: Nodes) -> Iterator[Cluster]:
    made = Cluster(settings_for(nodes.bootstrap, Role.SINK, request_timeout_ms="3000"))
    yield made
    made.close()


@pytest.mark.parametrize("moment", ["after it is sent", "after its answer"])
@pytest.mark.parametrize("step", [AddPartitionsToTxnRequest, TxnOffsetCommitRequest, EndTxnRequest])
def test_a_coordinator_that_dies_under_a_request_is_replaced_by_one_with_all_state(
    nodes: Nodes,
    partition: TopicPartition,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    step: type,
    moment: str,
) -> None:
    transaction = Transaction(cluster, partition)
    killed: list[int] = []

    def kill_the_coordinator(_connection: BrokerConnection) -> None:
        of_group = step is TxnOffsetCommitRequest
        key = (
            (CoordinatorType.GROUP, transaction.group)
            if of_group
            else (CoordinatorType.TRANSACTION, transaction.id)
        )
        killed.append(cluster._coordinators[key])
        nodes.kill(killed[0])

    InterruptAt(monkeypatch, step, moment, kill_the_coordinator)

    try:
        transaction.run()

        monkeypatch.undo()
        transaction.check(nodes.bootstrap)
    finally:
        for node_id in killed:
            nodes.restart(node_id)


def test_a_leader_that_moves_between_batches_costs_nothing(
    nodes: Nodes, partition: TopicPartition, cluster: Cluster
) -> None:
    transaction = Transaction(cluster, partition)
    leaders: list[int] = []

    def move() -> None:
        """Make the next replica the leader, of which the client hears without any error."""
        leaders.append(nodes.leader_of(*partition))
        replicas = [(leaders[-1] + step) % 3 for step in (1, 2, 3)]
        ask(
            cluster,
            AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name=partition.topic,
                        partitions=[ReassignablePartition(partition_index=0, replicas=replicas)],
                    )
                ]
            ),
        )
        ask(
            cluster,
            ElectLeadersRequest(
                election_type=0, topic_partitions=[TopicPartitions(topic=partition.topic, partitions=[0])]
            ),
        )
        while nodes.leader_of(*partition) != replicas[0]:
            pass
        cluster.forget_topic(partition.topic)

    transaction.between = move
    transaction.run()

    transaction.check(nodes.bootstrap)
    assert len({*leaders}) == 3


def ask(cluster: Cluster, request: object) -> None:
    answer = cluster.connections.to_any().request(request)
    assert not answer.error_code, answer


@pytest.mark.parametrize("names_itself", [True, False])
def test_a_leader_without_followers_is_abandoned(
    nodes: Nodes, partition: TopicPartition, cluster: Cluster, names_itself: bool
) -> None:
    """The leader takes batches and cannot commit them, so it answers with a timeout or not at all.

    If it is asked for the leader, it names itself.
    """
    first = nodes.node_ids[0]  # the first bootstrap address, so it is asked before the others
    while (nodes.leader_of(*partition) == first) is not names_itself:
        partition = TopicPartition(make_topic(nodes.bootstrap, replicas=3), 0)
    transaction = Transaction(cluster, partition)
    moments = iter([lambda: nodes.isolate(nodes.leader_of(*partition))])
    transaction.between = lambda: next(moments, lambda: None)()

    try:
        transaction.run()
    finally:
        nodes.heal()

    transaction.check(nodes.bootstrap)

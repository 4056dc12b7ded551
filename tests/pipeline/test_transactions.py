"""Transactions by id: begun, ended, ended again, described, fenced, many at once."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.pipeline.client.batch_sender import BatchSender
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.group_offsets import CommittedOffset, committed_offsets
from ottla.pipeline.client.list_offsets import LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, CoordinatorType
from ottla.pipeline.client.transactions import Transactions
from ottla.pipeline.columns.producer_pair import ProducerPair
from tests.compat.batches import TRANSACTIONAL, batch
from tests.pipeline.conftest import MakeClient
from tests.pipeline.topics import make_topic, settings_for

pytestmark = pytest.mark.slow

TIMEOUT_MS = 60_000


def new_ids(count: int) -> list[str]:
    return [f"T.{uuid4().hex}" for _ in range(count)]


def write(cluster: Cluster, transactional_id: str, pair: ProducerPair, partition: TopicPartition) -> None:
    sender = BatchSender(cluster, transactional_id)
    fields = {"producer_id": pair.producer_id, "producer_epoch": pair.epoch, "base_sequence": 0}
    sender.send(partition, batch([b"v"], attributes=TRANSACTIONAL, **fields), records_count=1)
    sender.flush()


def stable_end(client: MakeClient, partition: TopicPartition) -> int:
    return list_offsets(client(isolation_level="read_committed"), {partition: LATEST})[partition]


def wait_for_state(transactions: Transactions, ids: list[str], state: str) -> None:
    """Wait for a state: a coordinator answers after its decision, while its markers are still under way."""
    while {one.state for one in transactions.describe(ids).values() if one} != {state}:
        pass


@pytest.mark.parametrize("commit", [True, False])
def test_many_transactions_are_ended_and_ended_again(
    bootstrap: str, client: MakeClient, commit: bool
) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    cluster = client(Role.SINK)
    transactions = Transactions(cluster)
    ids = new_ids(3)

    pairs = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)
    for one, pair in pairs.items():
        transactions.add_partitions(one, pair, [partition])
        write(cluster, one, pair, partition)
    described = transactions.describe([*ids, "T.nobody"])

    assert described.pop("T.nobody") is None
    for one, found in described.items():
        assert found is not None
        assert (found.state, found.pair, found.timeout_ms) == ("Ongoing", pairs[one], TIMEOUT_MS)
        assert found.partitions == {partition}
    assert stable_end(client, partition) == 0
    for _ in range(2):  # the second answer is equal, for a client that did not get the first
        assert transactions.end(pairs, commit=commit) == dict.fromkeys(ids)
    wait_for_state(transactions, ids, "CompleteCommit" if commit else "CompleteAbort")
    assert stable_end(client, partition) == 6  # three records, three markers
    errors = transactions.end(pairs, commit=not commit)
    assert {error.code for error in errors.values() if error} == {ErrorCode.INVALID_TXN_STATE}
    assert len(errors) == 3


def test_a_new_pair_fences_the_one_before(bootstrap: str, client: MakeClient) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    transactions = Transactions(client(Role.SINK))
    ids = new_ids(1)
    old = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)
    transactions.add_partitions(ids[0], old[ids[0]], [partition])

    new = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)

    assert new[ids[0]] > old[ids[0]]
    fenced = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    rejected = transactions.end(old, commit=True)[ids[0]]
    assert rejected is not None
    assert rejected.code in fenced
    with pytest.raises(KafkaError) as raised:
        transactions.add_partitions(ids[0], old[ids[0]], [partition])
    assert raised.value.code in fenced


def test_open_transactions_are_found_by_a_prefix_of_their_ids(bootstrap: str, client: MakeClient) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    transactions = Transactions(client(Role.SINK))
    prefix = uuid4().hex
    ids = [f"{prefix}.{index}" for index in range(6)]
    pairs = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)

    for one in ids[:4]:
        transactions.add_partitions(one, pairs[one], [partition])

    assert transactions.list_open(prefix) == set(ids[:4])
    assert Transactions(client()).list_open(prefix) == set(ids[:4])  # by a client that knows no node yet
    transactions.end({one: pairs[one] for one in ids[:4]}, commit=False)
    assert transactions.list_open(prefix) == set()


def test_offsets_of_a_group_come_with_the_transaction(bootstrap: str, client: MakeClient) -> None:
    partition = TopicPartition(make_topic(bootstrap), 0)
    transactions = Transactions(client(Role.SINK))
    ids, group = new_ids(1), f"g-{uuid4().hex}"
    offset = CommittedOffset(offset=7, metadata="record")
    pairs = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)

    transactions.add_offsets(ids[0], pairs[ids[0]], group, {partition: offset})
    transactions.end(pairs, commit=True)

    assert committed_offsets(client(), group, [partition]) == {partition: offset}  # waits for the marker


def test_coordinators_that_moved_are_found_again(client: MakeClient) -> None:
    cluster = client(Role.SINK)
    transactions = Transactions(cluster)
    ids = new_ids(8)
    first = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)

    for one in ids:
        cluster._coordinators[CoordinatorType.TRANSACTION, one] = (
            cluster._coordinators[CoordinatorType.TRANSACTION, one] + 1
        ) % 3
    second = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)

    assert [*second] == ids
    assert all(second[one] > first[one] for one in ids)


def test_a_nonexistent_partition_is_an_error(bootstrap: str, client: MakeClient) -> None:
    cluster = client(Role.SINK, max_block_ms="200")
    transactions = Transactions(cluster)
    ids = new_ids(1)
    pairs = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=False)
    there = TopicPartition(make_topic(bootstrap), 0)

    with pytest.raises(KafkaError, match="adding nowhere-0 to"):
        transactions.add_partitions(ids[0], pairs[ids[0]], [there, TopicPartition("nowhere", 0)])


def test_two_phases_are_rejected_if_the_cluster_does_not_support_them(client: MakeClient) -> None:
    with pytest.raises(KafkaError, match="does not support two-phase commit") as rejected:
        Transactions(client(Role.SINK)).init(new_ids(1), timeout_ms=TIMEOUT_MS, two_phase=True)

    assert rejected.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_transactions_have_two_phases_if_the_cluster_supports_them(
    ottla_cluster_factory: Callable[..., Nodes],
) -> None:
    nodes = ottla_cluster_factory(nodes=1, overrides={"transaction.two.phase.commit.enable": "true"})
    partition = TopicPartition(make_topic(nodes.bootstrap), 0)
    cluster = Cluster(settings_for(nodes.bootstrap, Role.SINK))
    transactions = Transactions(cluster)
    ids = new_ids(2)

    pairs = transactions.init(ids, timeout_ms=TIMEOUT_MS, two_phase=True)
    for one, pair in pairs.items():
        transactions.add_partitions(one, pair, [partition])

    described = transactions.describe(ids)
    assert {one.timeout_ms for one in described.values() if one} == {2**31 - 1}  # it does not time out
    assert transactions.end(pairs, commit=True) == dict.fromkeys(ids)
    cluster.close()

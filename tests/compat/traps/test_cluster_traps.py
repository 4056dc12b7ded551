"""The parts of traps 11, 17, 18, 20, 28, 30, 37, 38 and 42 that need several brokers.

`OTTLA_TEST_BOOTSTRAP` with the addresses of a cluster, separated by commas, runs the tests there. Apache
Kafka 4.3.1 passes them, except for the one that kills a broker.
"""

import os
import signal
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.batches import batch
from tests.compat.wire_client import WireClient, eventually, only
from tests.integration.cluster.conftest import Cluster

NONE, OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_LEADER, TIMED_OUT = 0, 1, 3, 6, 7
NOT_COORDINATOR, NOT_ENOUGH, NOT_ENOUGH_AFTER_APPEND, FENCED_EPOCH, UNKNOWN_EPOCH = 16, 19, 20, 74, 75
OUT_OF_ORDER = 45
LONG_MS = 60_000
PRODUCER = {"producer_id": 4_000_000, "producer_epoch": 0}
Brokers = dict[int, WireClient]


@pytest.fixture(scope="module")
def brokers(cluster_bootstrap: str) -> Iterator[Brokers]:
    """Connect to each of three brokers, and give the connections by broker id."""
    with WireClient(cluster_bootstrap.split(",")[0]) as client:
        found = eventually(lambda: client.call("metadata", 12, topics=[]).brokers, lambda one: len(one) >= 3)
    if len(found) < 3:
        pytest.skip("the test needs three brokers")
    clients = {one.node_id: WireClient(f"{one.host}:{one.port}") for one in found}
    yield clients
    for one in clients.values():
        one.close()


class PlacedTopic:
    """A topic of one partition: `leader` and `follower` are its replicas, `other` has none."""

    def __init__(self, brokers: Brokers, **configs: str) -> None:
        self.brokers = brokers
        self.leader_id, self.follower_id, self.other_id = sorted(brokers)[:3]
        self.name, self.former_epoch = f"placed-{uuid4().hex[:8]}", -1
        create(self.leader, self.name, self.leader_id, self.follower_id, **configs)
        for one in brokers.values():
            known = eventually(lambda one=one: self.metadata(one), lambda found: found.error_code == NONE)  # type: ignore[misc]
            assert only(known.partitions).leader_id == self.leader_id
        ready = eventually(lambda: self.list_offset(self.leader, -1), lambda one: one.error_code == NONE)
        assert ready.error_code == NONE

    @property
    def leader(self) -> WireClient:
        return self.brokers[self.leader_id]

    @property
    def follower(self) -> WireClient:
        return self.brokers[self.follower_id]

    @property
    def other(self) -> WireClient:
        return self.brokers[self.other_id]

    def metadata(self, at: WireClient) -> Any:
        return only(at.call("metadata", 12, topics=[{"name": self.name}]).topics)

    @property
    def leader_epoch(self) -> int:
        return int(only(self.metadata(self.leader).partitions).leader_epoch)

    def list_offset(self, at: WireClient, timestamp: int, epoch: int = -1) -> Any:
        wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": epoch}
        topics = [{"name": self.name, "partitions": [wanted]}]
        return only(only(at.call("list_offsets", 7, replica_id=-1, topics=topics).topics).partitions)

    def produce(self, at: WireClient, version: int = 10, timeout_ms: int = LONG_MS, **header: int) -> Any:
        """Produce one record with acks=all, and return the whole response."""
        return at.call("produce", version, **self.records(timeout_ms, **header))

    def records(self, timeout_ms: int = LONG_MS, **header: int) -> dict[str, Any]:
        """Return the fields of a Produce request for acks=all with one record."""
        data = [{"name": self.name, "partition_data": [{"index": 0, "records": batch(**header)}]}]
        return {"acks": -1, "timeout_ms": timeout_ms, "topic_data": data}

    def fetch(self, at: WireClient, version: int, offset: int, epoch: int = -1) -> Any:
        """Return the only partition of a Fetch response; topics are named, so the version is 12 at most."""
        return only(only(self.fetch_answer(at, version, offset, epoch=epoch).responses).partitions)

    def fetch_answer(self, at: WireClient, version: int, offset: int, epoch: int = -1) -> Any:
        wanted = {
            "partition": 0,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
            "current_leader_epoch": epoch,
        }
        topic: dict[str, Any] = {"partitions": [wanted]}
        if version < 13:
            topic["topic"] = self.name
        else:
            topic["topic_id"] = self.metadata(at).topic_id
        return at.call("fetch", version, max_wait_ms=LONG_MS, min_bytes=1, topics=[topic])

    def end_of_epoch(self, at: WireClient, epoch: int) -> tuple[int, int, int]:
        wanted = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        topics = [{"topic": self.name, "partitions": [wanted]}]
        answer = at.call("offset_for_leader_epoch", 4, replica_id=-1, topics=topics)
        found = only(only(answer.topics).partitions)
        return found.error_code, found.leader_epoch, found.end_offset

    def swap(self) -> None:
        """Make the follower the leader, and wait until every broker knows it."""
        self.former_epoch = self.leader_epoch
        replicas = [{"partition_index": 0, "replicas": [self.follower_id, self.leader_id]}]
        moved = self.leader.call(
            "alter_partition_reassignments", 0, topics=[{"name": self.name, "partitions": replicas}]
        )
        assert only(only(moved.responses).partitions).error_code == NONE
        self.leader_id, self.follower_id = self.follower_id, self.leader_id

        def leads() -> bool:
            request = [{"topic": self.name, "partitions": [0]}]
            self.leader.call("elect_leaders", 2, election_type=0, topic_partitions=request, timeout_ms=10_000)
            known = [only(self.metadata(one).partitions).leader_id for one in self.brokers.values()]
            return set(known) == {self.leader_id} and self.list_offset(self.leader, -1).error_code == NONE

        assert eventually(leads, lambda found: found)


def create(at: WireClient, name: str, *replicas: int, **configs: str) -> None:
    wanted = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": list(replicas)}],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    assert only(at.call("create_topics", 7, topics=[wanted], timeout_ms=30_000).topics).error_code == NONE


def partition_of(answer: Any) -> Any:
    return only(only(answer.responses).partition_responses)


@pytest.fixture(scope="module")
def placed(brokers: Brokers) -> PlacedTopic:
    """Create a topic with one record. A test that changes the leader creates its own."""
    made = PlacedTopic(brokers)
    assert partition_of(made.produce(made.leader)).error_code == NONE
    return made


@pytest.fixture(scope="module")
def moved(brokers: Brokers) -> PlacedTopic:
    """Create a topic with two records of `PRODUCER` before a change of the leader, and one after it."""
    made = PlacedTopic(brokers)
    for sequence in range(3):
        if sequence == 2:
            made.swap()
        sent = partition_of(made.produce(made.leader, base_sequence=sequence, **PRODUCER))
        assert (sent.error_code, sent.base_offset) == (NONE, sequence)
    return made


def test_trap_11_a_created_topic_is_soon_known_to_every_broker(brokers: Brokers) -> None:
    for at in brokers.values():
        name = f"trap-11-{uuid4().hex[:8]}"
        create(at, name, *brokers)
        for other in brokers.values():
            request = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            found = eventually(
                lambda other=other, request=request: only(other.call("metadata", 12, **request).topics),  # type: ignore[misc]
                lambda one: one.error_code == NONE and only(one.partitions).error_code == NONE,
            )
            assert (found.error_code, len(found.partitions)) == (NONE, 1)


def test_trap_17_only_the_leader_in_its_epoch_says_that_an_offset_is_out_of_range(
    placed: PlacedTopic,
) -> None:
    at_leader = placed.fetch(placed.leader, 10, 1000)
    of_the_future = placed.fetch(placed.leader, 10, 1000, epoch=placed.leader_epoch + 1)
    at_follower = placed.fetch(placed.follower, 10, 1000)

    assert at_leader.error_code == OUT_OF_RANGE
    assert of_the_future.error_code == UNKNOWN_EPOCH
    assert at_follower.error_code == NOT_LEADER


def test_trap_18_a_new_leader_has_an_epoch_and_each_offset_its_own(moved: PlacedTopic) -> None:
    old, new, leader = moved.former_epoch, moved.leader_epoch, moved.leader
    first, of_the_highest_time = (moved.list_offset(leader, timestamp) for timestamp in (0, -3))

    assert new > old
    assert moved.fetch(leader, 11, 0, epoch=old).error_code == FENCED_EPOCH
    assert moved.fetch(leader, 11, 0, epoch=new + 1).error_code == UNKNOWN_EPOCH
    assert moved.list_offset(leader, -1, epoch=old).error_code == FENCED_EPOCH
    assert moved.list_offset(leader, -1, epoch=new + 1).error_code == UNKNOWN_EPOCH
    assert (first.offset, first.leader_epoch) == (0, old)
    assert (of_the_highest_time.offset, of_the_highest_time.leader_epoch) == (2, new)


def test_trap_18_only_the_leader_returns_the_ends_of_epochs(moved: PlacedTopic) -> None:
    old, new, leader = moved.former_epoch, moved.leader_epoch, moved.leader

    assert moved.end_of_epoch(leader, old) == (NONE, old, 2)
    assert moved.end_of_epoch(leader, new) == (NONE, new, 3)
    assert moved.end_of_epoch(leader, new + 5) == (NONE, -1, -1)
    assert moved.end_of_epoch(moved.follower, old)[0] == NOT_LEADER


def test_trap_30_a_new_leader_knows_the_last_batches_of_a_producer(moved: PlacedTopic) -> None:
    again = [partition_of(moved.produce(moved.leader, base_sequence=one, **PRODUCER)) for one in range(3)]
    gap = partition_of(moved.produce(moved.leader, base_sequence=4, **PRODUCER))

    assert [(one.error_code, one.base_offset) for one in again] == [(NONE, 0), (NONE, 1), (NONE, 2)]
    assert gap.error_code == OUT_OF_ORDER


def test_trap_20_a_broker_that_does_not_lead_says_so_at_once_and_names_the_leader(
    placed: PlacedTopic,
) -> None:
    leader = (placed.leader_id, placed.leader_epoch)
    began = time.monotonic()
    produces = [placed.produce(at, version) for at in (placed.follower, placed.other) for version in (10, 12)]
    fetches = [placed.fetch_answer(placed.other, version, 0) for version in (16, 17)]
    fetches.append(placed.fetch_answer(placed.follower, 10, 0))
    seconds = time.monotonic() - began

    assert seconds < LONG_MS / 2000, "nothing waits for its time-out"
    for partition in map(partition_of, produces):
        assert (partition.error_code, partition.base_offset) == (NOT_LEADER, -1)
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == leader
    for answer in fetches:
        assert only(only(answer.responses).partitions).error_code == NOT_LEADER
    for answer in fetches[:2]:
        found = only(only(answer.responses).partitions).current_leader
        assert (found.leader_id, found.leader_epoch) == leader


def test_trap_37_a_named_leader_has_its_endpoint_in_metadata(placed: PlacedTopic) -> None:
    known = {
        one.node_id: (one.host, one.port) for one in placed.other.call("metadata", 12, topics=[]).brokers
    }
    answers = [placed.produce(placed.other), placed.fetch_answer(placed.other, 16, 0)]
    cluster = placed.other.call("describe_cluster", 1).brokers

    for answer in answers:
        named = only(answer.node_endpoints)
        assert (named.node_id, (named.host, named.port)) == (placed.leader_id, known[placed.leader_id])
    assert {one.broker_id: (one.host, one.port) for one in cluster} == known


def test_trap_28_every_broker_gives_ids_to_producers_without_a_name(brokers: Brokers) -> None:
    request = {"transactional_id": None, "transaction_timeout_ms": LONG_MS}

    answers = [
        eventually(
            lambda one=one: one.call("init_producer_id", 4, **request),  # type: ignore[misc]
            lambda found: found.error_code == NONE,
        )
        for one in brokers.values()
    ]

    assert [(one.error_code, one.producer_epoch) for one in answers] == [(NONE, 0)] * len(brokers)
    assert len({one.producer_id for one in answers}) == len(brokers)


def test_trap_38_version_1_of_offset_fetch_has_its_error_in_every_partition(brokers: Brokers) -> None:
    """KAFKA-19246: version 2 added an error code for the whole response."""
    group = f"trap-38-{uuid4().hex[:8]}"
    first = next(iter(brokers.values()))
    coordinator = eventually(
        lambda: first.call("find_coordinator", 2, key=group, key_type=0),
        lambda found: found.error_code == NONE,
    )
    wrong = next(client for node_id, client in brokers.items() if node_id != coordinator.node_id)
    request = {"group_id": group, "topics": [{"name": "any", "partition_indexes": [0, 1]}]}

    single, whole = (wrong.call("offset_fetch", version, **request) for version in (1, 2))

    assert [one.error_code for one in only(single.topics).partitions] == [NOT_COORDINATOR] * 2
    assert whole.error_code == NOT_COORDINATOR


def test_trap_42_acks_all_times_out_and_is_rejected_before_and_after_the_append(
    brokers: Brokers, request: pytest.FixtureRequest
) -> None:
    if os.environ.get("OTTLA_TEST_BOOTSTRAP"):
        pytest.skip("the test needs brokers that it may kill")
    three_nodes: Cluster = request.getfixturevalue("three_nodes")
    two = PlacedTopic(brokers, min_insync_replicas="2")
    leader, lost = two.leader, two.follower_id

    def answer(timeout_ms: int) -> int:
        return int(partition_of(two.produce(leader, timeout_ms=timeout_ms)).error_code)

    assert eventually(lambda: answer(LONG_MS), lambda code: code == NONE) == NONE
    # A stopped follower stays in the ISR for some seconds, and does not get the records appended now.
    three_nodes.signal(lost, signal.SIGSTOP)
    try:
        timed_out = answer(100)
        waiting = leader.send("produce", 10, **two.records())
        assert leader.is_silent()
    finally:
        # Its connections end, so it leaves the ISR at once.
        three_nodes.kill(lost)
    try:
        after = partition_of(leader.receive("produce", 10, waiting)).error_code
        before = answer(LONG_MS)
    finally:
        three_nodes.start(lost)
        brokers[lost].close()
        brokers[lost] = WireClient(three_nodes.nodes[lost].bootstrap)

    assert (timed_out, after, before) == (TIMED_OUT, NOT_ENOUGH_AFTER_APPEND, NOT_ENOUGH)
    # The appended records are committed when the follower is back; the rejected ones are not in the log.
    end = eventually(lambda: two.list_offset(leader, -1).offset, lambda offset: offset >= 3)
    assert end == 3
    assert eventually(lambda: answer(LONG_MS), lambda code: code == NONE) == NONE

"""A node that is cut off answers from old metadata: then another node is asked."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.node.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.node.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.node.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.group_offsets import committed_offsets
from ottla.pipeline.client.list_offsets import LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, CoordinatorType, Leader, TopicGone
from ottla.pipeline.source.log_ends import ends_after
from ottla.pipeline.source.source_offsets import SourceOffsets
from ottla.pipeline.source.source_options import Mode, SourceOptions
from tests.pipeline.topics import settings_for

STALE, OTHER = 1, 2  # node ids; the stale one is the first of the bootstrap servers
PARTITION = TopicPartition("flights", 0)
TOPIC_ID = bytes(15) + b"7"


class Node:
    """A node with the metadata that it has: the topics, their leader and the coordinator."""

    def __init__(self, node_id: int, topics: set[str], is_stale: bool) -> None:
        self.leader_epoch = 1
        # The end of its log; None if it does not consider itself the leader.
        self.end: int | None = None if is_stale else 7
        self.peer = f"node{node_id}:9092"
        self.node_id = node_id
        self.topics = topics
        self.is_stale = is_stale
        self.requests: list[type] = []

    def is_open(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def request(self, request: Any, *, most: int | None = None) -> Any:
        self.requests.append(type(request))
        match request:
            case MetadataRequest(topics=topics):
                return self._metadata([one.name for one in topics or ()])
            case FindCoordinatorRequest(key=key):
                found = Coordinator(key=key, node_id=self.node_id, host="h", port=1)
                return FindCoordinatorResponse(coordinators=[found])
            case OffsetFetchRequest(group_id=group_id):
                code = ErrorCode.NOT_COORDINATOR if self.is_stale else ErrorCode.NONE
                group = OffsetFetchResponseGroup(group_id=group_id, error_code=code)
                return OffsetFetchResponse(groups=[group])
            case ListOffsetsRequest():
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER if self.end is None else ErrorCode.NONE
                one = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=self.end or -1)
                return ListOffsetsResponse(
                    topics=[ListOffsetsTopicResponse(name="flights", partitions=[one])]
                )
        raise AssertionError(request)

    def send(self, request: Any, *, most: int | None = None) -> Any:
        return self.request(request)

    def receive(self, pending: Any) -> Any:
        return pending

    def _metadata(self, names: list[str]) -> MetadataResponse:
        """Answer as if this node led everything."""
        epoch = self.leader_epoch
        led = MetadataResponsePartition(partition_index=0, leader_id=self.node_id, leader_epoch=epoch)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=one, host=f"node{one}", port=9092) for one in (STALE, OTHER)
            ],
            topics=[
                MetadataResponseTopic(name=name, topic_id=TOPIC_ID, partitions=[led])
                if name in self.topics
                else MetadataResponseTopic(name=name, error_code=unknown)
                for name in names
            ],
        )


Nodes = dict[int, Node]
Make = Callable[..., tuple[Cluster, Nodes]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make clients of two nodes, the first of which is stale: it knows only the `known` topics."""

    def make(known: set[str]) -> tuple[Cluster, Nodes]:
        nodes = {STALE: Node(STALE, known, True), OTHER: Node(OTHER, {"flights"}, False)}
        connect = lambda host, *_: nodes[int(host[-1])]  # noqa: E731
        monkeypatch.setattr(BrokerConnection, "connect", connect)
        settings = settings_for("node1:9092,node2:9092", Role.SOURCE, retry_backoff_ms="0")
        return Cluster(settings), nodes

    yield make


def test_a_topic_that_the_first_node_does_not_know_is_found(make: Make) -> None:
    cluster, nodes = make(set())

    assert cluster.topic("flights").leaders == {0: Leader(OTHER, 1)}
    assert cluster.leader(PARTITION) == Leader(OTHER, 1)
    assert nodes[STALE].requests == [MetadataRequest]


def test_a_topic_is_gone_when_every_node_says_so(make: Make) -> None:
    cluster, nodes = make(set())

    with pytest.raises(TopicGone):
        cluster.topic("nowhere")

    assert nodes[STALE].requests == nodes[OTHER].requests == [MetadataRequest] * 2


def test_offsets_are_asked_of_the_leader_that_another_node_names(make: Make) -> None:
    cluster, nodes = make({"flights"})

    assert list_offsets(cluster, {PARTITION: LATEST}) == {PARTITION: 7}
    assert nodes[STALE].requests == [MetadataRequest, ListOffsetsRequest]


def test_a_coordinator_is_the_one_that_another_node_names(make: Make) -> None:
    cluster, nodes = make({"flights"})

    assert committed_offsets(cluster, "g") == {}
    assert OffsetFetchRequest in nodes[STALE].requests and OffsetFetchRequest in nodes[OTHER].requests


def test_a_node_that_was_not_asked_since_is_not_demoted_further(make: Make) -> None:
    cluster, _ = make({"flights"})
    failures = iter(range(5))

    def fail_five_times() -> str:
        cluster.connections.to_any()
        if next(failures, None) is not None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the one before is not over")
        return "done"

    for _ in range(50):
        cluster.connections.pass_over()  # no node was asked

    assert cluster.retry(fail_five_times) == "done"
    times = cluster.connections._passed_over.values()
    assert sorted(times) == [2, 3]


def test_a_leader_of_an_old_epoch_is_not_believed(make: Make) -> None:
    """Such a node may lead in its own view, but others have read beyond the end of its log."""
    cluster, nodes = make({"flights"})
    nodes[OTHER].leader_epoch, nodes[STALE].end = 2, 3
    cluster.connections.to_any()
    cluster.connections.pass_over()
    assert cluster.leader(PARTITION) == Leader(OTHER, 2)

    cluster.forget_topic("flights")
    cluster.connections.pass_over()  # so that the stale node is the next
    found = list_offsets(cluster, {PARTITION: LATEST})

    assert found == {PARTITION: 7}
    assert nodes[STALE].requests == [MetadataRequest]


def test_an_apparent_loss_is_checked_at_another_node(make: Make) -> None:
    cluster, nodes = make({"flights"})
    nodes[STALE].end = 3
    given = {"kafka.bootstrap.servers": "node1:9092,node2:9092", "subscribe": "flights"}
    read = SourceOffsets(offsets={PARTITION: 5}, topic_ids={"flights": TOPIC_ID})

    ends, losses = ends_after(
        cluster, SourceOptions.from_options(given, Mode.STREAM), read, lambda _pause_ms: None
    )

    assert (dict(ends.offsets), losses) == ({PARTITION: 7}, [])
    assert ListOffsetsRequest in nodes[STALE].requests


def test_a_coordinator_is_settled_by_the_node_with_the_newest_metadata(make: Make) -> None:
    """A coordinator that was cut off would return offsets from before."""
    cluster, nodes = make({"__consumer_offsets"})
    nodes[OTHER].topics, nodes[OTHER].leader_epoch = {"__consumer_offsets"}, 2

    cluster.rediscover_coordinator(CoordinatorType.GROUP, "g")

    assert cluster._coordinators == {(CoordinatorType.GROUP, "g"): OTHER}
    assert FindCoordinatorRequest not in nodes[STALE].requests

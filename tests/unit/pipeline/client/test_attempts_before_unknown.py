"""A topic that a node does not know may be new, so it counts as gone only after several such answers.

Their number is ATTEMPTS_BEFORE_UNKNOWN.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.node.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.node.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.group_offsets import CommittedOffset, commit_offsets
from ottla.pipeline.client.metadata import ATTEMPTS_BEFORE_UNKNOWN, Cluster, Leader, TopicGone
from tests.pipeline.topics import settings_for

UNKNOWN, LOADING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
ELECTING = ErrorCode.LEADER_NOT_AVAILABLE
PARTITION = TopicPartition("flights", 0)


class Node:
    """The only node: it answers Metadata and OffsetCommit with these codes in turn, then without an error."""

    peer = "node1:9092"

    def __init__(self, codes: Sequence[ErrorCode]) -> None:
        self._codes = iter(codes)

    def is_open(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def request(self, request: Any, *, most: int | None = None) -> Any:
        match request:
            case MetadataRequest():
                led = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
                code = next(self._codes, ErrorCode.NONE) if request.topics else ErrorCode.NONE
                topic = MetadataResponseTopic(name="flights", error_code=code, partitions=[led])
                broker = MetadataResponseBroker(node_id=1, host="node1", port=9092)
                return MetadataResponse(brokers=[broker], topics=[topic] if request.topics else [])
            case FindCoordinatorRequest(key=key):
                found = Coordinator(key=key, node_id=1, host="node1", port=9092)
                return FindCoordinatorResponse(coordinators=[found])
            case OffsetCommitRequest():
                one = OffsetCommitResponsePartition(partition_index=0, error_code=next(self._codes, 0))
                return OffsetCommitResponse(
                    topics=[OffsetCommitResponseTopic(name="flights", partitions=[one])]
                )
        raise AssertionError(request)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[ErrorCode]], Cluster]:
    def make(codes: Sequence[ErrorCode]) -> Cluster:
        node = Node(codes)
        monkeypatch.setattr(BrokerConnection, "connect", lambda *_: node)
        return Cluster(settings_for("node1:9092", Role.SOURCE, retry_backoff_ms="0"))

    return make


TOLERATED = ATTEMPTS_BEFORE_UNKNOWN - 1


@pytest.mark.parametrize("codes", [[UNKNOWN] * TOLERATED, [LOADING] * 10 + [UNKNOWN] * TOLERATED])
def test_a_commit_waits_for_a_topic(
    cluster: Callable[[Sequence[ErrorCode]], Cluster], codes: Sequence[ErrorCode]
) -> None:
    commit_offsets(cluster(codes), "g", {PARTITION: CommittedOffset(offset=7)})


def test_a_commit_to_an_unknown_topic_fails(
    cluster: Callable[[Sequence[ErrorCode]], Cluster],
) -> None:
    with pytest.raises(TopicGone, match="has no partition 0"):
        commit_offsets(cluster([UNKNOWN] * 10), "g", {PARTITION: CommittedOffset(offset=7)})


@pytest.mark.parametrize("codes", [[UNKNOWN] * TOLERATED, [ELECTING] * 10 + [UNKNOWN] * TOLERATED])
def test_a_read_waits_for_a_new_topic(
    cluster: Callable[[Sequence[ErrorCode]], Cluster], codes: Sequence[ErrorCode]
) -> None:
    assert cluster(codes).topic("flights").leaders == {0: Leader(1, 0)}


def test_a_topic_that_no_node_knows_is_gone(cluster: Callable[[Sequence[ErrorCode]], Cluster]) -> None:
    with pytest.raises(TopicGone, match="does not exist"):
        cluster([UNKNOWN] * 10).topic("flights")

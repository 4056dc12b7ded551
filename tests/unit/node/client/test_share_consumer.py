"""The consumer of share groups against a fake leader and coordinator."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.logstore.record import NewRecord, build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.client.cluster_client import Client, Topic
from ottla.node.client.share_consumer import ShareConsumer, ShareLimits
from ottla.node.client.share_member import LEAST_HEARTBEAT_S
from ottla.node.wire.acknowledge_type import AcknowledgeType
from ottla.node.wire.messages import share_acknowledge, share_fetch
from ottla.node.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ottla.node.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.node.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC_ID = bytes(range(16))
LOCK_MS = 1_000


class Node:
    """A fake broker: the coordinator of the group, and the leader of `orders-0`."""

    def __init__(self, node_id: int = 1) -> None:
        self.node_id = node_id
        self.requests: list[Any] = []
        self.log: list[int] = []  # offsets to return
        self.acknowledged: list[tuple[int, int, int]] = []
        self.renewed: list[tuple[int, int]] = []
        self.heartbeat_error = self.fetch_error = self.acknowledge_error = 0
        self.partition_error, self.new_leader = 0, -1
        self.version = 2

    def version_for(self, _: type[object]) -> int:
        return self.version

    async def request(self, request: Any, _: type[Any], *, timeout_s: float) -> Any:
        assert timeout_s > 0
        self.requests.append(request)
        if isinstance(request, ShareGroupHeartbeatRequest):
            return self._heartbeat(request)
        if isinstance(request, ShareFetchRequest):
            return self._fetch(request)
        assert isinstance(request, ShareAcknowledgeRequest)
        return self._acknowledge(request)

    def _heartbeat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        error, self.heartbeat_error = self.heartbeat_error, 0
        assignment = None
        if request.member_epoch == 0 and not error:
            assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=[0])])
        return ShareGroupHeartbeatResponse(
            error_code=error,
            member_id=request.member_id,
            member_epoch=request.member_epoch + 1,
            heartbeat_interval_ms=0,
            assignment=assignment,
        )

    def _fetch(self, request: ShareFetchRequest) -> ShareFetchResponse:
        error, self.fetch_error = self.fetch_error, 0
        if error:
            return ShareFetchResponse(error_code=error)
        given, self.log = self.log[: request.max_records], self.log[request.max_records :]
        records: list[NewRecord] = [(None, b"v%d" % one, 0, ()) for one in given]
        content = bytes(build_batch(records, base_offset=given[0])) if given else b""
        acquired = []
        if given:
            acquired.append(
                share_fetch.AcquiredRecords(first_offset=given[0], last_offset=given[-1], delivery_count=1)
            )
        partition_error, self.partition_error = self.partition_error, 0
        data = share_fetch.PartitionData(
            partition_index=0,
            error_code=partition_error,
            current_leader=share_fetch.LeaderIdAndEpoch(leader_id=self.new_leader, leader_epoch=2),
            records=content,
            acquired_records=acquired,
        )
        topic = share_fetch.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return ShareFetchResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])

    def _acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
        error, self.acknowledge_error = self.acknowledge_error, 0
        answers = []
        for topic in request.topics:
            for one in topic.partitions:
                for batch in one.acknowledgement_batches:
                    place = batch.first_offset, batch.last_offset
                    if request.is_renew_ack:
                        self.renewed.append(place)
                    else:
                        (kind,) = batch.acknowledge_types
                        self.acknowledged.append((*place, kind))
                leader = share_acknowledge.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
                answers.append(
                    share_acknowledge.PartitionData(
                        partition_index=one.partition_index, error_code=error, current_leader=leader
                    )
                )
        topics = [share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=answers)]
        return ShareAcknowledgeResponse(responses=topics)

    def fetches(self) -> list[ShareFetchRequest]:
        return [one for one in self.requests if isinstance(one, ShareFetchRequest)]


class Cluster:
    """A client of these nodes; the first leads `orders-0` and coordinates the group."""

    remaining_s, remaining_ms, timeout_s = 5.0, 5_000, 5.0

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {one.node_id: one for one in nodes}
        self.first = nodes[0]
        self.topics: dict[str, Topic] = {}
        self.refreshed = 0

    def renewed(self) -> "Cluster":
        return self

    async def coordinator(self, _: str) -> Node:
        return self.first

    async def node(self, node_id: int) -> Node:
        return self.nodes[node_id]

    async def refresh(self, names: list[str]) -> None:
        assert names == ["orders"]
        self.refreshed += 1
        self.topics["orders"] = Topic("orders", TOPIC_ID, {0: self.first.node_id})

    def forget(self, topic: str) -> None:
        self.topics.pop(topic, None)

    async def retry(self, attempt: Callable[[], Any]) -> Any:
        return await attempt()


def consumer_of(cluster: Cluster) -> ShareConsumer:
    return ShareConsumer(cast(Client, cluster), "g", ["orders"], limits=ShareLimits(10, wait_ms=1))


def offsets(records: list[Any]) -> list[int]:
    return [one.record.offset for one in records]


def test_each_record_is_acknowledged_by_itself_and_neighbours_in_one_range() -> None:
    async def scenario() -> None:
        node = Node()
        node.log = [0, 1, 2, 3]
        consumer = consumer_of(Cluster(node))

        records = await consumer.poll()
        assert [(one.record.value, one.delivery_count) for one in records][:2] == [(b"v0", 1), (b"v1", 1)]
        for one, kind in zip(
            records,
            (AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT),
            strict=True,
        ):
            consumer.acknowledge(one, kind)
        assert await consumer.commit() == []
        assert node.acknowledged == [(0, 1, 1), (2, 2, 2), (3, 3, 3)]

    asyncio.run(scenario())


def test_a_session_names_its_partitions_once_and_counts_its_requests() -> None:
    async def scenario() -> None:
        node = Node()
        consumer = consumer_of(Cluster(node))
        for _ in range(3):
            await consumer.poll()
        await consumer.close()

        assert [(one.share_session_epoch, len(one.topics)) for one in node.fetches()] == [
            (0, 1),
            (1, 0),
            (2, 0),
        ]
        closing, leaving = node.requests[-2:]
        assert (closing.share_session_epoch, leaving.member_epoch) == (-1, -1)

    asyncio.run(scenario())


def test_no_more_records_are_requested_than_wanted() -> None:
    async def scenario() -> None:
        node = Node()
        node.log = list(range(9))
        consumer = consumer_of(Cluster(node))

        assert offsets(await consumer.poll(2)) == [0, 1]
        assert (node.fetches()[0].max_records, node.fetches()[0].share_acquire_mode) == (2, 1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "error",
    [ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH],
)
def test_a_session_that_is_lost_is_opened_again_and_old_records_are_not_acknowledged(
    error: ErrorCode,
) -> None:
    async def scenario() -> None:
        node = Node()
        node.log = [0]
        consumer = consumer_of(Cluster(node))
        (record,) = await consumer.poll()
        node.fetch_error = error
        await consumer.poll()
        node.log = [0]
        node.requests.clear()

        consumer.acknowledge(record, AcknowledgeType.ACCEPT)
        (lost,) = await consumer.commit()
        await consumer.poll()

        assert (lost.range.first, lost.error.code) == (0, ErrorCode.INVALID_RECORD_STATE)
        assert [(one.share_session_epoch, len(one.topics)) for one in node.fetches()] == [(0, 1)]
        assert not node.acknowledged

    asyncio.run(scenario())


def test_a_late_acknowledgement_is_reported() -> None:
    async def scenario() -> None:
        node = Node()
        node.log = [4, 5]
        consumer = consumer_of(Cluster(node))
        for one in await consumer.poll():
            consumer.acknowledge(one, AcknowledgeType.ACCEPT)
        node.acknowledge_error = ErrorCode.INVALID_RECORD_STATE

        (lost,) = await consumer.commit()

        assert (lost.range.first, lost.range.last, lost.error.code) == (4, 5, ErrorCode.INVALID_RECORD_STATE)
        assert await consumer.commit() == []

    asyncio.run(scenario())


def test_a_leader_that_a_response_names_is_asked_next() -> None:
    async def scenario() -> None:
        old, new = Node(1), Node(2)
        new.log = [7]
        old.partition_error, old.new_leader = ErrorCode.NOT_LEADER_OR_FOLLOWER, 2
        cluster = Cluster(old, new)
        consumer = consumer_of(cluster)
        assert await consumer.poll() == []
        refreshed = cluster.refreshed

        assert offsets(await consumer.poll()) == [7]
        assert cluster.refreshed == refreshed
        assert [one.partitions for one in old.fetches()[1].forgotten_topics_data] == [[0]]

    asyncio.run(scenario())


def test_a_fenced_member_joins_again_under_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])

    async def scenario() -> None:
        node = Node()
        node.log = [0]
        consumer = consumer_of(Cluster(node))
        await consumer.member.heartbeat()
        member_id = consumer.member.member_id
        now_s[0] += LEAST_HEARTBEAT_S
        node.heartbeat_error = ErrorCode.FENCED_MEMBER_EPOCH

        await consumer.member.heartbeat()

        beats = [one for one in node.requests if isinstance(one, ShareGroupHeartbeatRequest)]
        assert [one.member_epoch for one in beats] == [0, 1, 0]
        assert {one.member_id for one in beats} == {member_id}
        assert [one.subscribed_topic_names for one in beats] == [["orders"], None, ["orders"]]

    asyncio.run(scenario())


@pytest.mark.parametrize(("version", "renewed"), [(2, [(0, 1)]), (1, [])])
def test_locks_of_held_records_are_renewed_at_half_of_their_time(
    version: int, renewed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])

    async def scenario() -> None:
        node = Node()
        node.log, node.version = [0, 1], version
        consumer = consumer_of(Cluster(node))
        await consumer.poll()
        now_s[0] += LOCK_MS / 2_000 - 0.125
        await consumer.keep_alive()
        assert node.renewed == []

        now_s[0] += 0.125
        await consumer.keep_alive()
        await consumer.keep_alive()

        assert node.renewed == renewed

    asyncio.run(scenario())


def test_an_error_that_is_not_retriable_is_raised() -> None:
    async def scenario() -> None:
        node = Node()
        node.partition_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError) as caught:
            await consumer_of(Cluster(node)).poll()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    asyncio.run(scenario())

"""Requests count for their topic and API, whichever path serves them."""

import asyncio
import struct
from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.clock import ManualClock
from ottla.node.counters.request_counters import SAMPLE_EVERY
from ottla.node.counters.topic_counters import TopicCounters
from ottla.node.kafka_api import dispatch
from ottla.node.net.answers import Pending
from ottla.node.wire import codec
from ottla.node.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.unit.node.kafka_api.test_repeated_produce import PEER, Node, batch, frame
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID


def counters_of(node: Node) -> TopicCounters:
    found = node.world.replica_manager.counters_of("t")
    assert found is not None
    return found


def requests(node: Node, api: str) -> int:
    return sum(one.requests for (name, _), one in node.dispatcher.counters.by_version.items() if name == api)


def timed(node: Node, api: str, version: int) -> int:
    return sum(node.dispatcher.counters.of(api, version).latency.counts)


@pytest.mark.parametrize("is_general", [False, True])
def test_each_path_of_a_produce_request_counts_batches_bytes_and_records(is_general: bool) -> None:
    node = Node(9, is_general=is_general)
    batches = [batch(count) for count in (1, 2, 300)]

    for one in batches:
        node.send(frame(9, one))

    counters = counters_of(node)
    assert (counters.total_produce_requests, counters.messages_in) == (3, 303)
    assert counters.bytes_in == sum(map(len, batches))
    assert requests(node, "Produce") == 3


def test_requests_that_are_served_together_count_one_by_one() -> None:
    node = Node(9, is_general=False)
    node.send(frame(9, batch()))

    node.send_together([frame(9, batch(2), correlation_id=number) for number in range(20)])

    assert node.runs == [19]
    assert counters_of(node).messages_in == 41
    assert counters_of(node).bytes_in == len(batch()) + 20 * len(batch(2))
    assert requests(node, "Produce") == counters_of(node).total_produce_requests == 21


def test_every_sixteenth_repeated_request_is_timed_and_counts_for_sixteen() -> None:
    node = Node(9, is_general=False)
    node.send(frame(9, batch()))
    assert timed(node, "Produce", 9) == 1, "by the general way each is timed"

    for _ in range(3 * SAMPLE_EVERY):
        node.send(frame(9, batch()))

    assert timed(node, "Produce", 9) == 1 + 3 * SAMPLE_EVERY


def test_a_delayed_request_is_timed_until_its_response(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        node = Node(9, is_general=False)
        node.world.create_topic(partitions=2, replicas=(NODE_ID, OTHER_ID))
        now_s = [100.0]
        monkeypatch.setattr(dispatch, "monotonic_s", lambda: now_s[0])
        pending = node.dispatcher.serve(PEER, memoryview(bytearray(frame(9, batch(), acks=-1))))
        assert isinstance(pending, Pending)
        now_s[0] += 0.2
        node.world.partition().follower_fetched(OTHER_ID, 1)
        pending.encode(await pending.awaitable)

        latency = node.dispatcher.counters.of("Produce", 9).latency
        assert sum(latency.counts) == 1 and latency.sum_s == pytest.approx(0.2)

    asyncio.run(play())


def test_errors_count_by_their_code_and_only_unusual_ones_as_failures() -> None:
    node = Node(9, is_general=False)

    node.send(frame(9, batch(), index=9))  # an unknown partition
    node.send(frame(9, batch(timestamp=ManualClock().now_ms() + 10**10)))
    node.send(frame(9, batch()[:-1] + b"?"))

    errors = node.dispatcher.counters.of("Produce", 9).errors
    assert errors == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1,
        ErrorCode.INVALID_TIMESTAMP: 1,
        ErrorCode.CORRUPT_MESSAGE: 1,
    }
    assert counters_of(node).failed_produce_requests == 1


def test_records_sent_to_a_consumer_count_as_bytes_out() -> None:
    node = Node(9, is_general=False)
    records = batch(5)
    node.send(frame(9, records))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1_000_000,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", partitions=[wanted])],
    )
    fetch = b"".join(codec.encode_request(1, 12, 3, "reader", request))[4:]

    node.dispatcher.serve(PEER, memoryview(fetch))

    assert counters_of(node).bytes_out == len(records)
    assert counters_of(node).total_fetch_requests == 1
    assert requests(node, "Fetch") == 1 and requests(node, "FetchFollower") == 0


def test_an_error_response_counts_by_its_code() -> None:
    node = Node(9, is_general=False)
    request = struct.pack(">hhih", 18, 99, 7, -1)  # ApiVersions in a version that does not exist
    node.dispatcher.serve(PEER, memoryview(request))
    body = FetchRequest(replica_id=-1, session_id=5, session_epoch=9)

    node.dispatcher.serve(PEER, memoryview(b"".join(codec.encode_request(1, 12, 3, "reader", body))[4:]))

    errors = cast(Any, node.dispatcher.counters.of("Fetch", 12).errors)
    assert errors == {ErrorCode.FETCH_SESSION_ID_NOT_FOUND: 1}

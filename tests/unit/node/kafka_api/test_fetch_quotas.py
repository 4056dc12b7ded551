"""A fetch that exceeds the quota gets an empty response, and its session stays as it was."""

from typing import Any, cast

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api.dispatch import Dispatcher
from ottla.node.net.answers import Pending
from ottla.node.quota.client_quotas import CONSUMER_BYTE_RATE, ClientQuotas
from ottla.node.quota.rate import Windows
from ottla.node.wire import codec
from ottla.node.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.unit.node.kafka_api.serving import dispatcher_of
from tests.unit.node.kafka_api.test_byte_quotas import Throttled
from tests.unit.node.replica.replica_world import ReplicaWorld

VALUE_BYTES = 10_000
VERSIONS = [4, 7, 11, 12]


class FetchingNode:
    """A node with a partition of two batches, and one client of it."""

    def __init__(self, limit: float | None) -> None:
        self.world = ReplicaWorld()
        self.world.create_topic()
        for _ in range(2):
            self.world.append(value=bytes(VALUE_BYTES))
        self.dispatcher: Dispatcher = dispatcher_of(self.world)
        self.now_ms = 0
        self.dispatcher.quotas = ClientQuotas(Windows(), Windows(), lambda: self.now_ms)
        self.connection = Throttled()
        if limit is not None:
            self.dispatcher.quotas.set({(("client-id", "test"),): {CONSUMER_BYTE_RATE: limit}})

    def fetch(
        self, version: int, offset: int = 0, session: tuple[int, int] = (0, -1), **fields: Any
    ) -> tuple[FetchResponse, int]:
        """Return the response and its length."""
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [] if session[1] > 0 else [FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(
            **{
                "max_wait_ms": 0,
                "min_bytes": 1,
                "topics": topics,
                "session_id": session[0],
                "session_epoch": session[1],
                **fields,
            }
        )
        frame = b"".join(codec.encode_request(1, version, 7, "test", request))[4:]
        answer = self.dispatcher.serve(cast(Any, self.connection), memoryview(bytearray(frame)))
        assert not isinstance(answer, Pending) and answer is not None
        sent = b"".join(cast(Any, answer))
        return codec.decode_response(1, version, sent, 4)[1], len(sent)


def records_bytes(response: FetchResponse) -> int:
    return sum(len(one.records or b"") for topic in response.responses for one in topic.partitions)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_answers_are_those_without_a_quota_while_it_is_kept(version: int) -> None:
    free, node = FetchingNode(None), FetchingNode(1_000_000)

    assert node.fetch(version) == free.fetch(version)
    assert node.connection.throttled == []


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bytes_of_an_answer_count_as_apache_kafka_counts_them(version: int) -> None:
    node = FetchingNode(1_000_000)

    response, answer_bytes = node.fetch(version)

    reading = node.dispatcher.quotas.fetched.readings(1)[0]
    header_bytes = 4 + (version >= 12)
    assert records_bytes(response) > 0
    # A length and the body; over ten seconds as it is the first one.
    assert reading.value * 10 == answer_bytes - header_bytes


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fetch_beyond_the_quota_is_empty_and_its_bytes_do_not_count(version: int) -> None:
    node = FetchingNode(1_000_000)
    quotas = node.dispatcher.quotas
    _, answer_bytes = node.fetch(version)
    counted = answer_bytes - 4 - (version >= 12)
    limit = (counted + 1) / 10  # the first one was within it
    quotas.set({(("client-id", "test"),): {CONSUMER_BYTE_RATE: limit}})

    response, _ = node.fetch(version)

    assert response.responses == [] and response.error_code == 0
    assert response.throttle_time_ms == pytest.approx((2 * counted / limit - 10) * 1_000, abs=1)
    assert node.connection.throttled == [response.throttle_time_ms]
    assert quotas.fetched.readings(1)[0].value * 10 == counted
    node.now_ms = 12_000
    assert records_bytes(node.fetch(version)[0]) > 0


def test_a_session_goes_on_after_a_throttled_fetch() -> None:
    node = FetchingNode(1_000_000)
    full, answer_bytes = node.fetch(12, session=(0, 0))
    assert full.session_id
    node.world.append(value=b"little")
    node.dispatcher.quotas.set({(("client-id", "test"),): {CONSUMER_BYTE_RATE: answer_bytes * 1.5 / 10}})

    throttled, _ = node.fetch(12, session=(full.session_id, 1))
    node.now_ms = 12_000
    after, _ = node.fetch(12, session=(full.session_id, 2))

    assert throttled.throttle_time_ms and throttled.session_id == full.session_id
    assert throttled.responses == [] and throttled.error_code == 0
    assert records_bytes(after), "the records that the throttled response left out are returned"


def test_a_throttled_fetch_creates_no_session() -> None:
    node = FetchingNode(1)

    response, _ = node.fetch(12, session=(0, 0))

    assert response.throttle_time_ms and response.session_id == 0
    assert len(node.world.replica_manager.sessions) == 0


def test_a_fetch_returns_at_most_what_the_windows_allow_at_once() -> None:
    node = FetchingNode(None)
    limit = VALUE_BYTES * 1.5 / 10
    node.dispatcher.quotas.set({(("client-id", "test"),): {CONSUMER_BYTE_RATE: limit}})

    # As in Apache Kafka, the bytes around the records make it slightly too much at first.
    first, _ = node.fetch(12)
    node.now_ms = 10_900
    second, _ = node.fetch(12)

    assert node.connection.throttled == [first.throttle_time_ms] and first.throttle_time_ms < 100
    assert records_bytes(second) == VALUE_BYTES * 1.5, "two batches would be throttled for ever"


def test_an_error_of_the_whole_fetch_counts_nothing() -> None:
    node = FetchingNode(1)

    response, _ = node.fetch(12, session=(5, 3))

    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not node.connection.throttled

"""A client that exceeds its produce quota gets a throttle time, and its connection is throttled."""

from typing import Any, cast

import pytest

from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.quota.client_quotas import PRODUCER_BYTE_RATE
from ottla.node.wire import codec as codec_of
from tests.unit.node.kafka_api.test_repeated_produce import Node, batch, frame
from tests.unit.node.replica.replica_world import CONNECTION


class Throttled:
    """A connection that records its throttle times."""

    def __init__(self) -> None:
        self.info: ConnectionInfo = CONNECTION
        self.throttled: list[int] = []

    def throttle(self, throttle_ms: int) -> None:
        self.throttled.append(throttle_ms)


def node_with_quota(version: int, client_id: str, limit: float) -> Node:
    node = Node(version, is_general=False)
    for _ in range(2):  # The first makes the head known, the second the room in the segment.
        node.send(frame(version, batch()))
    node.dispatcher.quotas.set({(("client-id", client_id),): {PRODUCER_BYTE_RATE: limit}})
    return node


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_producer_beyond_its_quota_gets_a_throttle_time_and_is_throttled(version: int) -> None:
    node, connection = node_with_quota(version, "test", 1.0), Throttled()
    request = frame(version, batch())

    answer = node.dispatcher.serve(cast(Any, connection), memoryview(bytearray(request)))

    assert isinstance(answer, list)
    _, response = codec_of.decode_response(0, version, b"".join(cast(Any, answer)), 4)
    # The whole request counts, over ten seconds as it is the first one; the quota is 1 B/s.
    assert connection.throttled == [response.throttle_time_ms] == [(len(request) + 4 - 10) * 1_000]
    assert node.world.partition().log.log_end_offset == 3, "a throttled request is appended"


def test_requests_of_a_client_with_a_quota_are_not_served_in_a_run() -> None:
    node, connection = node_with_quota(9, "test", 1.0), Throttled()
    one = frame(9, batch())
    view = memoryview(bytearray((len(one).to_bytes(4, "big") + one) * 2))

    assert node.dispatcher.serve_run(cast(Any, connection), view, 0, len(view)) is None

    node.dispatcher.quotas.set({(("client-id", "other"),): {PRODUCER_BYTE_RATE: 1.0}})
    assert node.dispatcher.serve_run(cast(Any, connection), view, 0, len(view)) is not None
    assert not connection.throttled


def test_a_request_that_is_never_answered_counts_as_well() -> None:
    node, connection = node_with_quota(9, "test", 1.0), Throttled()

    request = frame(9, batch(), acks=0)
    assert node.dispatcher.serve(cast(Any, connection), memoryview(bytearray(request))) is None

    assert connection.throttled == [(len(request) + 4 - 10) * 1_000]

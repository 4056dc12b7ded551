"""Share groups by raw requests to a node: sessions, records, acknowledgements, lost connections."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.words.errors import ErrorCode
from tests.compat.batches import batch
from tests.compat.wire_client import Closed, WireClient, eventually, only
from tests.integration.embedded_broker import EmbeddedBroker

pytestmark = pytest.mark.slow
GROUP = "workers"
ACCEPT, RELEASE = 1, 2
NO_WAIT = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500, "batch_size": 500}


class Member:
    """A member of a share group on a connection of its own."""

    def __init__(self, bootstrap: str, name: str, topic_id: bytes) -> None:
        self.wire = WireClient(bootstrap)
        self.name, self.topic_id = name, topic_id
        self.epoch = 0

    def fetch(self, *acknowledgements: tuple[int, int, list[int]], **fields: Any) -> Any:
        """Send a ShareFetch with partition 0 and return the response."""
        partition = {"partition_index": 0, "acknowledgement_batches": as_batches(acknowledgements)}
        topics = [{"topic_id": self.topic_id, "partitions": [partition]}]
        answer = self.wire.call(
            "share_fetch",
            2,
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=topics if acknowledgements or self.epoch == 0 else [],
            **{**NO_WAIT, **fields},
        )
        self.epoch += answer.error_code == ErrorCode.NONE
        return answer

    def acknowledge(self, *acknowledgements: tuple[int, int, list[int]]) -> int:
        """Return the error of partition 0, or that of the request."""
        partition = {"partition_index": 0, "acknowledgement_batches": as_batches(acknowledgements)}
        answer = self.wire.call(
            "share_acknowledge",
            2,
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=[{"topic_id": self.topic_id, "partitions": [partition]}],
        )
        if answer.error_code != ErrorCode.NONE:
            return int(answer.error_code)
        self.epoch += 1
        return int(only(only(answer.responses).partitions).error_code)

    def acquire(self) -> list[tuple[int, int, int]]:
        """Fetch until records are acquired, and return their ranges."""
        return eventually(lambda: acquired(self.fetch(max_wait_ms=200)), bool)


def as_batches(acknowledgements: tuple[tuple[int, int, list[int]], ...]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        for first, last, types in acknowledgements
    ]


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for partition in topic.partitions
        for one in partition.acquired_records
    ]


def ten_records(bootstrap: str) -> bytes:
    """Create a topic with ten records, which the group reads from the start, and return its id."""
    wire = WireClient(bootstrap)
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    made = only(wire.call("create_topics", 7, topics=topics, timeout_ms=30_000).topics)
    config = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resources = [{"resource_type": 32, "resource_name": GROUP, "configs": [config]}]
    wire.call("incremental_alter_configs", 1, resources=resources)
    # The coordinator of the group does this when the first member subscribes to the topic.
    place = SharePartitionKey(GROUP, bytes(made.topic_id), 0).coordinator_key
    eventually(
        lambda: wire.call("find_coordinator", 6, key_type=2, coordinator_keys=[place]),
        lambda answer: only(answer.coordinators).error_code == ErrorCode.NONE,
    )
    partition = {"partition": 0, "state_epoch": 0, "start_offset": -1}
    begun = {"topic_id": made.topic_id, "partitions": [partition]}
    eventually(
        lambda: wire.call("initialize_share_group_state", 0, group_id=GROUP, topics=[begun]),
        lambda answer: only(only(answer.results).partitions).error_code == ErrorCode.NONE,
    )
    produce(wire, 10)
    wire.close()
    return bytes(made.topic_id)


@pytest.fixture
def member_of(broker: EmbeddedBroker) -> Iterator[Callable[[str], Member]]:
    """Yield a function that returns members that read a topic with ten records from its start."""
    topic_id = ten_records(broker.bootstrap)
    members: list[Member] = []

    def member(name: str) -> Member:
        members.append(Member(broker.bootstrap, name, topic_id))
        return members[-1]

    yield member
    for one in members:
        one.wire.close()


def produce(wire: WireClient, count: int) -> None:
    data = {"index": 0, "records": batch([b"value"] * count)}
    answer = wire.call(
        "produce", 9, acks=-1, timeout_ms=30_000, topic_data=[{"name": "t", "partition_data": [data]}]
    )
    assert only(only(answer.responses).partition_responses).error_code == ErrorCode.NONE


def test_records_are_acquired_acknowledged_and_not_delivered_again(
    member_of: Callable[[str], Member], broker: EmbeddedBroker
) -> None:
    first = member_of("m1")

    assert first.acquire() == [(0, 9, 1)]
    assert first.acknowledge((0, 4, [ACCEPT]), (5, 9, [RELEASE])) == ErrorCode.NONE
    assert first.acquire() == [(5, 9, 2)]
    answer = first.fetch((5, 9, [ACCEPT]))

    data = only(only(answer.responses).partitions)
    assert (data.acknowledge_error_code, data.acquired_records) == (ErrorCode.NONE, [])
    assert broker.call(
        lambda node: [one.core.start_offset for one in node.services.shares.share_partitions.values()]
    ) == [10]


def test_a_lost_connection_releases_the_records_of_its_member(
    member_of: Callable[[str], Member],
) -> None:
    first, second = member_of("m1"), member_of("m2")
    assert first.acquire() == [(0, 9, 1)]
    assert acquired(second.fetch(max_wait_ms=100)) == []

    first.wire.close()

    assert second.acquire() == [(0, 9, 2)]


def test_an_expired_lock_releases_the_records_of_its_member(
    embedded: Callable[..., EmbeddedBroker],
) -> None:
    broker = embedded(
        group_share_record_lock_duration_ms=1_000, group_share_min_record_lock_duration_ms=1_000
    )
    topic_id = ten_records(broker.bootstrap)
    first, second = (Member(broker.bootstrap, name, topic_id) for name in ("m1", "m2"))
    assert first.acquire() == [(0, 9, 1)]
    second.fetch()

    assert acquired(second.fetch(max_wait_ms=20_000)) == [(0, 9, 2)]
    assert first.acknowledge((0, 9, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
    for one in (first, second):
        one.wire.close()


def test_the_last_connection_leaves_nothing_behind(
    member_of: Callable[[str], Member], broker: EmbeddedBroker
) -> None:
    member = member_of("m1")
    member.acquire()

    member.wire.close()

    def left(broker: EmbeddedBroker) -> tuple[int, int, int]:
        return broker.call(
            lambda node: (
                len(node.services.shares),
                len(node.services.shares.sessions),
                node.services.shares.used_bytes,
            )
        )

    assert eventually(lambda: left(broker), lambda now: now == (0, 0, 0)) == (0, 0, 0)


def test_a_session_ends_with_its_final_epoch(member_of: Callable[[str], Member]) -> None:
    member = member_of("m1")
    member.acquire()
    member.epoch = -1

    ended = member.fetch((0, 9, [ACCEPT]))
    member.epoch = -1
    again = member.fetch()

    assert only(only(ended.responses).partitions).acknowledge_error_code == ErrorCode.NONE
    assert again.error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_request_with_a_wrong_session_epoch_is_rejected(member_of: Callable[[str], Member]) -> None:
    member = member_of("m1")
    member.acquire()
    member.epoch += 5

    assert member.fetch().error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge((0, 9, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH


@pytest.mark.parametrize(
    "acknowledgements",
    [
        [(0, 2**62, [ACCEPT])],
        [(-5, -1, [ACCEPT])],
        [(2**63 - 1, 2**63 - 1, [ACCEPT])],
        [(-(2**63), 2**63 - 1, [ACCEPT])],
        [(0, 9, [ACCEPT] * 9)],
        [(0, 9, [])],
        [(offset, offset, [ACCEPT]) for offset in range(9, -1, -1)],
    ],
)
def test_an_odd_acknowledgement_fails_alone(
    member_of: Callable[[str], Member], acknowledgements: list[tuple[int, int, list[int]]]
) -> None:
    member = member_of("m1")
    member.acquire()

    assert member.acknowledge(*acknowledgements) in (
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD_STATE,
    )
    assert member.acknowledge((0, 9, [ACCEPT])) in (ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_records": -1},
        {"max_bytes": -1},
        {"min_bytes": -5},
        {"batch_size": -1},
        {"batch_size": 0},
        {"max_wait_ms": -1},
        {"share_acquire_mode": 77},
        {"max_records": 2**31 - 1, "max_bytes": 2**31 - 1},
    ],
)
def test_odd_numbers_in_a_fetch_are_answered(
    member_of: Callable[[str], Member], fields: dict[str, int]
) -> None:
    member = member_of("m1")
    member.fetch()

    try:
        answer = member.fetch(**fields)
    except Closed:
        pytest.fail("the connection was closed")

    assert answer.error_code == ErrorCode.NONE
    assert member.fetch().error_code == ErrorCode.NONE

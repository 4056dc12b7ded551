"""The sender of markers: every partition of a transaction gets its marker, whatever happens to its leader."""

from typing import Any

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decoder, encoder
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators import marker_sender
from ottla.node.kafka_api.dispatch import SMALL_REQUEST_ELEMENTS
from ottla.node.replica.partition import Partition
from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.unit.node.coordinators.marker_world import Markers, marker

T0, U0, V0 = ("t", 0), ("u", 0), ("v", 0)


@pytest.fixture
def markers() -> Markers:
    """Return nodes of which the sender's node leads `t`, and two others lead `u` and `v`."""
    markers = Markers()
    for leader, name in enumerate("tuv", 1):
        markers.create_topic(name, leader=leader)
    return markers


def tp(*named: tuple[str, int]) -> set[TopicPartition]:
    return {TopicPartition(*each) for each in named}


def test_all_leaders_get_their_markers_and_each_is_reported_after_its_answer(markers: Markers) -> None:
    for number, name in enumerate("tuv", 1):
        markers.nodes[number].begin(7, name)

    async def scenario() -> None:
        markers.send(0, "x", [T0, U0, V0], committed=False, marker_epoch=1, transaction_version=2)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert [markers.nodes[number].markers(name) for number, name in enumerate("tuv", 1)] == [
        [(7, 1, "abort")]
    ] * 3
    assert {index for index, _ in markers.written} == {0}
    assert {(one.transactional_id, one.producer_id, one.marker_epoch) for _, one in markers.written} == {
        ("x", 7, 1)
    }
    assert sorted(each for _, one in markers.written for each in one.partitions) == sorted(tp(T0, U0, V0))


def test_the_own_node_gets_markers_without_a_connection(markers: Markers) -> None:
    async def scenario() -> None:
        markers.send(0, "x", [T0])
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert not markers.requests and markers.nodes[1].markers("t") == [(7, 0, "commit")]


def test_many_decisions_are_few_requests(markers: Markers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "MAX_MARKERS", 400)

    async def scenario() -> None:
        for number in range(1_000):
            markers.send(number % 50, f"x{number}", [U0], producer_id=number)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert [len(request.markers) for _, request in markers.requests] == [400, 400, 200]
    assert len(markers.written) == 1_000


def test_the_partitions_of_a_request_are_limited(markers: Markers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marker_sender, "MAX_PARTITIONS", 3)
    markers.create_topic("wide", partitions=5, leader=2)

    async def scenario() -> None:
        markers.send(0, "x", [("wide", index) for index in range(5)])
        markers.send(0, "y", [U0], producer_id=8)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    def partitions(request: WriteTxnMarkersRequest) -> int:
        return sum(len(topic.partition_indexes) for each in request.markers for topic in each.topics)

    assert [partitions(request) for _, request in markers.requests] == [3, 3]
    assert all(markers.nodes[2].markers("wide", index) for index in range(5))


def test_the_largest_request_is_carried_out_in_one_turn_of_the_leader(markers: Markers) -> None:
    """Otherwise another request could be carried out in between."""

    async def scenario() -> None:
        for number in range(marker_sender.MAX_MARKERS):
            markers.send(0, f"x{number}", [U0], producer_id=number)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    ((_, request),) = markers.requests
    body = b"".join(map(bytes, encoder(WriteTxnMarkersRequest, 2)(request, bytearray())))
    read, _ = decoder(WriteTxnMarkersRequest, 2)(body, 0, SMALL_REQUEST_ELEMENTS)
    assert len(read.markers) == marker_sender.MAX_MARKERS == marker_sender.MAX_PARTITIONS


def test_decisions_during_a_request_go_with_the_next_one(markers: Markers) -> None:
    markers.create_topic("copied", leader=2)
    for node in markers.nodes.values():
        node.create_topic("copied", leader=2, replicas=(2, 3), isr=(2, 3))

    async def scenario() -> None:
        markers.send(0, "x", [("copied", 0)])
        await markers.until(lambda: len(markers.requests) == 1)
        for number in range(5):
            markers.send(0, f"y{number}", [U0], producer_id=10 + number)
        await markers.until(lambda: bool(markers.nodes[2].markers("copied")))
        assert len(markers.requests) == 1
        markers.nodes[2].partition("copied").follower_fetched(3, 1)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert [len(request.markers) for _, request in markers.requests] == [1, 5]


def test_request_numbers_grow_and_come_with_the_broker_epoch(markers: Markers) -> None:
    async def scenario() -> None:
        for number in range(3):
            markers.send(0, f"x{number}", [U0, V0], producer_id=number)
            await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    for leader in (2, 3):
        sent = [(request.sender_epoch, request.number) for to, request in markers.requests if to == leader]
        assert sent == [(5, 1), (5, 2), (5, 3)]
    epochs = {tuple(topic.leader_epochs) for _, one in markers.requests for topic in one.markers[0].topics}
    assert epochs == {(0,)}


# ---- leaders that fail -------------------------------------------------------------------------------------


def test_a_new_leader_gets_the_markers_at_once(markers: Markers) -> None:
    markers.unreachable = {2}

    async def scenario() -> None:
        markers.send(0, "x", [U0, V0])
        await markers.until(lambda: markers.done() == {("x", TopicPartition(*V0))})
        markers.create_topic("u", leader=3, leader_epoch=1)
        markers.sender.refresh()
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.nodes[3].markers("u") == [(7, 0, "commit")] and markers.nodes[2].markers("u") == []


def test_an_old_leader_that_says_so_is_not_asked_again(markers: Markers) -> None:
    """It learned of its successor before the sender did."""
    for number in (2, 3):
        markers.nodes[number].create_topic("u", leader=3, leader_epoch=1, replicas=(1, 2, 3), isr=(3,))

    async def scenario() -> None:
        markers.send(0, "x", [U0])
        await markers.until(lambda: len(markers.requests) >= 2)
        assert {to for to, _ in markers.requests} == {2}
        markers.nodes[1].create_topic("u", leader=3, leader_epoch=1, replicas=(1, 2, 3), isr=(3,))
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.nodes[3].markers("u") == [(7, 0, "commit")]


def test_a_request_whose_answer_was_lost_is_repeated_and_the_marker_is_there_once(markers: Markers) -> None:
    markers.nodes[2].begin(7, "u")
    markers.loses_answers = {2}

    async def scenario() -> None:
        markers.send(0, "x", [U0], marker_epoch=1, transaction_version=2)
        await markers.until(lambda: len(markers.requests) == 3)
        markers.loses_answers = set()
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.nodes[2].markers("u") == [(7, 1, "commit")]


def test_a_leader_that_cannot_write_is_asked_until_it_can(markers: Markers) -> None:
    leader = markers.nodes[2]
    for node in markers.nodes.values():
        config = LogConfig(min_insync_replicas=2)
        node.create_topic("short", leader=2, replicas=(1, 2, 3), isr=(2,), config=config)

    async def scenario() -> None:
        markers.send(0, "x", [("short", 0)])
        await markers.until(lambda: len(markers.requests) == 3)
        leader.create_topic("short", leader=2, replicas=(1, 2, 3), isr=(2, 3))
        await markers.until(lambda: bool(leader.markers("short")))
        assert markers.sender.left == 1
        leader.partition("short").follower_fetched(3, 1)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)


def test_a_partition_without_a_leader_waits_for_one(markers: Markers) -> None:
    for node in markers.nodes.values():
        node.create_topic("u", leader=-1, leader_epoch=1, replicas=(2, 3), isr=(2,))

    async def scenario() -> None:
        markers.send(0, "x", [U0, T0])
        await markers.until(lambda: bool(markers.written))
        assert not markers.requests and markers.sender.left == 1
        for node in markers.nodes.values():
            node.create_topic("u", leader=2, leader_epoch=2, replicas=(2, 3), isr=(2,))
        markers.sender.refresh()
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.done() == {("x", TopicPartition(*U0)), ("x", TopicPartition(*T0))}


def test_a_new_leader_is_found_without_a_notification(
    markers: Markers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marker_sender, "PARKED_MS", 1)
    for node in markers.nodes.values():
        node.create_topic("u", leader=-1, leader_epoch=1, replicas=(2, 3), isr=(2,))

    async def scenario() -> None:
        markers.send(0, "x", [U0])
        for node in markers.nodes.values():
            node.create_topic("u", leader=2, leader_epoch=2, replicas=(2, 3), isr=(2,))
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)


def test_a_deleted_topic_has_nothing_to_end(markers: Markers) -> None:
    markers.unreachable = {2}

    async def scenario() -> None:
        markers.send(0, "x", [("never there", 0)])
        assert not markers.written  # not before the shard has carried out its decision
        markers.send(0, "y", [U0], producer_id=8)
        await markers.until(lambda: bool(markers.written))
        markers.delete_topic("u")
        markers.sender.refresh()
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.done() == {("x", TopicPartition("never there", 0)), ("y", TopicPartition(*U0))}


def test_a_topic_that_was_created_again_gets_a_marker_that_ends_nothing(markers: Markers) -> None:
    markers.delete_topic("u")
    markers.create_topic("u", leader=3, topic_id=b"another".ljust(16, b"."))

    async def scenario() -> None:
        markers.send(0, "x", [U0])
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.nodes[3].partition("u").log.last_stable_offset == 1


# ---- ended transactions and fenced coordinators ------------------------------------------------------------


def test_a_newer_transaction_in_a_partition_means_that_this_one_has_ended(
    markers: Markers, caplog: pytest.LogCaptureFixture
) -> None:
    markers.nodes[2].begin(7, "u", epoch=5)

    async def scenario() -> None:
        markers.send(0, "x" * 1_000, [U0], marker_epoch=4)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert len(markers.written) == 1 and "INVALID_PRODUCER_EPOCH" in caplog.text
    assert "x" * 101 not in caplog.text


def test_a_fenced_coordinator_is_notified_and_its_markers_are_dropped(markers: Markers) -> None:
    async def scenario() -> None:
        markers.send(0, "x", [U0], coordinator_epoch=9)
        await markers.until(lambda: not markers.sender.left)
        markers.send(4, "x", [U0, T0], coordinator_epoch=8)
        markers.send(4, "y", [V0], producer_id=8, coordinator_epoch=8)
        await markers.until(lambda: bool(markers.fenced))
        assert not markers.sender.left

    markers.play(scenario)

    assert [(index, job.transactional_id) for index, job in markers.fenced] == [(4, "x")]
    assert len(markers.nodes[2].markers("u")) == 1


def test_a_coordinator_is_not_loaded_again_and_again(
    markers: Markers, caplog: pytest.LogCaptureFixture
) -> None:
    """An administrator has aborted a transaction with an arbitrary coordinator epoch."""
    markers.nodes[2].ask(WriteTxnMarkersRequest(markers=[marker(7, [U0], coordinator_epoch=99)]))

    async def scenario() -> None:
        markers.send(0, "x", [U0], coordinator_epoch=1)
        await markers.until(lambda: bool(markers.fenced))
        markers.send(0, "x", [U0], coordinator_epoch=1)  # loaded again
        markers.send(0, "y", [U0], producer_id=8, coordinator_epoch=1)
        await markers.until(lambda: len(markers.requests) > 5)

    markers.play(scenario)

    assert len(markers.fenced) == 1 and markers.done() == {("y", TopicPartition(*U0))}
    assert caplog.text.count("TRANSACTION_COORDINATOR_FENCED") == 1


def test_markers_of_a_closed_shard_are_not_reported(markers: Markers) -> None:
    markers.unreachable = {2}

    async def scenario() -> None:
        markers.send(0, "x", [U0])
        markers.send(1, "y", [U0], producer_id=8)
        await markers.until(lambda: bool(markers.failed_connects))
        markers.sender.drop(0)
        assert markers.sender.left == 1
        markers.unreachable = set()
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.done() == {("y", TopicPartition(*U0))}
    assert markers.nodes[2].markers("u") == [(8, 0, "commit")]


def test_a_shard_that_is_loaded_again_sends_all_markers_again_and_gets_their_reports(
    markers: Markers,
) -> None:
    markers.unreachable = {3}

    async def scenario() -> None:
        markers.send(0, "x", [U0, V0], coordinator_epoch=1)
        await markers.until(lambda: len(markers.written) == 1)
        markers.sender.drop(0)
        markers.written.clear()
        markers.unreachable = set()
        markers.send(0, "x", [U0, V0], coordinator_epoch=2)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert markers.done() == {("x", TopicPartition(*U0)), ("x", TopicPartition(*V0))}
    assert [each for _, each in _coordinator_epochs(markers.requests, "v")] == [2]


def _coordinator_epochs(requests: Any, name: str) -> list[tuple[str, int]]:
    return [
        (topic.name, each.coordinator_epoch)
        for _, request in requests
        for each in request.markers
        for topic in each.topics
        if topic.name == name
    ]


def test_a_leader_that_answers_an_unknown_error_is_asked_again(
    markers: Markers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)

    async def scenario() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Partition, "append_marker", broken)
            markers.send(0, "x", [U0])
            await markers.until(lambda: len(markers.requests) == 2)
        await markers.until(lambda: not markers.sender.left)

    markers.play(scenario)

    assert "CORRUPT_MESSAGE" in caplog.text and markers.nodes[2].markers("u") == [(7, 0, "commit")]

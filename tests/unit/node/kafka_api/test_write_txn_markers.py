"""WriteTxnMarkers at a leader: the markers that it writes, when it answers, and late copies."""

import asyncio
from typing import Any

import pytest

from ottla.groupcoord.group_records import OFFSETS_TOPIC as OFFSETS
from ottla.groupcoord.offsets.offset_commands import OffsetFetch, OffsetToCommit, Producer, TxnOffsetCommit
from ottla.groupcoord.offsets.offset_results import OffsetFetchResult
from ottla.logstore.log_config import LogConfig
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.errors import ErrorCode
from ottla.node.coordinators import marker_writer
from ottla.node.net.answers import Delayed
from ottla.node.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.unit.node.coordinators.marker_world import MarkerNode, codes, marker, play
from tests.unit.node.handler_results import settled

T0 = ("t", 0)


def request(*markers: Any, **fields: Any) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=list(markers), **fields)


@pytest.fixture
def node() -> MarkerNode:
    node = MarkerNode()
    node.create_topic(partitions=2)
    return node


def test_a_marker_ends_the_transaction_in_each_of_its_partitions(node: MarkerNode) -> None:
    node.begin(7)
    node.begin(7, index=1)
    logs = [node.partition(index=index).log for index in (0, 1)]
    assert [log.last_stable_offset for log in logs] == [0, 0]

    answer = node.ask(request(marker(7, [T0, ("t", 1)], is_commit=False)))

    assert codes(answer) == {(7, "t", 0): ErrorCode.NONE, (7, "t", 1): ErrorCode.NONE}
    assert node.markers() == node.markers(index=1) == [(7, 0, "abort")]
    assert [log.last_stable_offset for log in logs] == [2, 2]


def test_markers_are_written_in_the_order_in_which_they_are_asked_for(node: MarkerNode) -> None:
    node.begin(7)
    node.begin(8)

    answer = node.ask(request(marker(8), marker(7, is_commit=False), marker(9, epoch=3)))

    assert set(codes(answer).values()) == {ErrorCode.NONE}
    assert node.markers() == [(8, 0, "commit"), (7, 0, "abort"), (9, 3, "commit")]


def test_a_producer_is_named_once_with_the_result_of_its_last_marker(node: MarkerNode) -> None:
    answer = node.ask(request(marker(7, epoch=5), marker(7, [T0, ("t", 1)], epoch=4)))

    assert [each.producer_id for each in answer.markers] == [7]
    assert codes(answer) == {(7, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH, (7, "t", 1): ErrorCode.NONE}


def test_a_request_without_markers_gets_an_empty_response(node: MarkerNode) -> None:
    assert node.ask(request()).markers == []


def test_each_partition_is_refused_for_itself(node: MarkerNode) -> None:
    node.create_topic("led by another", leader=2)
    node.create_topic("of others", leader=2, replicas=(2,))
    node.create_topic("short", replicas=(1, 2), isr=(1,), config=LogConfig(min_insync_replicas=2))
    places = [T0, ("nowhere", 0), ("t", 2), ("led by another", 0), ("of others", 0), ("short", 0)]

    answer = node.ask(request(marker(7, places)))

    assert list(codes(answer).values()) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    ]


def test_an_older_coordinator_and_an_older_producer_get_their_errors(node: MarkerNode) -> None:
    node.ask(request(marker(7, epoch=3, coordinator_epoch=5)))

    assert codes(node.ask(request(marker(7, epoch=2, coordinator_epoch=5)))) == {
        (7, "t", 0): ErrorCode.INVALID_PRODUCER_EPOCH
    }
    assert codes(node.ask(request(marker(7, epoch=3, coordinator_epoch=4)))) == {
        (7, "t", 0): ErrorCode.TRANSACTION_COORDINATOR_FENCED
    }


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (7, -1)])
def test_a_marker_without_a_producer_is_rejected(node: MarkerNode, producer_id: int, epoch: int) -> None:
    answer = node.ask(request(marker(producer_id, epoch=epoch)))

    assert codes(answer) == {(producer_id, "t", 0): ErrorCode.UNKNOWN_SERVER_ERROR}
    assert node.markers() == []


def test_a_node_that_is_cut_off_writes_no_markers(node: MarkerNode) -> None:
    node.begin(7)
    node.is_cut_off = True

    assert codes(node.ask(request(marker(7)))) == {(7, "t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert node.markers() == []


@pytest.mark.parametrize("is_large", [False, True])
def test_a_marker_is_answered_when_it_is_committed(node: MarkerNode, is_large: bool) -> None:
    node.create_topic("copied", replicas=(1, 2), isr=(1, 2))

    async def scenario() -> None:
        answering = asyncio.ensure_future(
            node.answer(request(marker(7, [("copied", 0), T0])), is_large=is_large)
        )
        while not node.markers("copied"):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert not answering.done()

        node.partition("copied").follower_fetched(2, 1)

        assert set(codes(await answering).values()) == {ErrorCode.NONE}

    play(node, scenario)


def test_a_repeated_marker_is_answered_when_the_first_one_is_committed(node: MarkerNode) -> None:
    node.create_topic("copied", replicas=(1, 2), isr=(1, 2))
    node.begin(7, "copied")
    again = request(marker(7, [("copied", 0)], epoch=1, version=2))

    async def scenario() -> None:
        assert isinstance(node.ask(again), Delayed)
        repeated = node.ask(again)
        assert isinstance(repeated, Delayed) and node.markers("copied") == [(7, 1, "commit")]

        node.partition("copied").follower_fetched(2, 2)

        assert codes(repeated.answer(await repeated.future)) == {(7, "copied", 0): ErrorCode.NONE}

    play(node, scenario)


def test_a_leader_that_resigns_meanwhile_answers_with_an_error(node: MarkerNode) -> None:
    node.create_topic("copied", replicas=(1, 2), isr=(1, 2))

    async def scenario() -> None:
        waiting = node.ask(request(marker(7, [("copied", 0)])))
        node.create_topic("copied", replicas=(1, 2), leader=2, leader_epoch=1, isr=(1, 2))

        answer = waiting.answer(await waiting.future)
        assert codes(answer) == {(7, "copied", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}

    play(node, scenario)


def test_a_peer_soon_gets_a_timeout_for_markers_that_are_not_committed(
    node: MarkerNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.kafka_api.write_txn_markers.PEER_WAIT_MS", 1)
    node.create_topic("copied", replicas=(1, 2), isr=(1, 2))

    async def scenario() -> None:
        answer = await node.answer(request(marker(7, [("copied", 0), T0]), number=1), peer_id=2)
        assert codes(answer) == {(7, "copied", 0): ErrorCode.REQUEST_TIMED_OUT, (7, "t", 0): ErrorCode.NONE}

    assert marker_writer.PEER_WAIT_MS == 1_000
    play(node, scenario)


# ---- late copies -------------------------------------------------------------------------------------------

LATE = {(7, "t", 0): ErrorCode.REQUEST_TIMED_OUT}


def test_a_copy_of_a_request_that_was_given_up_ends_no_later_transaction(node: MarkerNode) -> None:
    """The second transaction has the epoch of the first one, as transactions of older clients do."""
    given_up = request(marker(7), sender_epoch=5, number=1)
    node.begin(7)
    node.ask(request(marker(7), sender_epoch=5, number=2), peer_id=2)
    node.begin(7, sequence=1)

    assert codes(node.ask(given_up, peer_id=2)) == LATE

    assert node.markers() == [(7, 0, "commit")]
    assert node.partition().log.has_ongoing_transaction(7, 0)


def test_request_numbers_count_for_one_process_of_one_peer(node: MarkerNode) -> None:
    def is_written(peer_id: int, sender_epoch: int, number: int) -> bool:
        message = request(marker(7), sender_epoch=sender_epoch, number=number)
        return codes(node.ask(message, peer_id=peer_id)) != LATE

    assert is_written(2, 5, 9)
    assert is_written(2, 6, 1)  # another process, which starts over
    assert not is_written(2, 5, 10)  # sent by the process before
    assert is_written(3, 1, 1)
    assert not is_written(3, 1, 1)


def test_the_request_number_of_a_client_is_ignored(node: MarkerNode) -> None:
    forged = request(marker(7), sender_epoch=99, number=2**62)

    assert codes(node.ask(forged)) == {(7, "t", 0): ErrorCode.NONE}
    assert codes(node.ask(request(marker(7)))) == {(7, "t", 0): ErrorCode.NONE}
    assert codes(node.ask(request(marker(7), sender_epoch=1, number=1), peer_id=2)) == {
        (7, "t", 0): ErrorCode.NONE
    }


def test_a_marker_for_another_leader_epoch_is_not_written(node: MarkerNode) -> None:
    node.create_topic(partitions=2, leader_epoch=4)

    def write(leader_epoch: int) -> list[ErrorCode]:
        return list(codes(node.ask(request(marker(7, leader_epoch=leader_epoch)))).values())

    assert write(3) == [ErrorCode.FENCED_LEADER_EPOCH]
    assert write(5) == [ErrorCode.UNKNOWN_LEADER_EPOCH]
    assert node.markers() == []
    assert write(4) == write(-1) == [ErrorCode.NONE]


# ---- offsets of groups -------------------------------------------------------------------------------------

G0 = (OFFSETS, 0)


async def commit_in(node: MarkerNode, producer: Producer, offset: int) -> None:
    def make(token: int) -> TxnOffsetCommit:
        return TxnOffsetCommit(
            token=token,
            group_id="g",
            generation_id=-1,
            member_id="",
            offsets=[OffsetToCommit("t", 0, offset)],
            producer=producer,
            guard=NOT_VERIFIED,
        )

    await settled(node.groups.ask("g", make, lambda answer: answer))


async def fetched(node: MarkerNode, *, stable: bool = True) -> tuple[int, int]:
    """Return the committed offset and the error code."""

    def make(token: int) -> OffsetFetch:
        return OffsetFetch(token=token, group_id="g", topics=[("t", [0])], require_stable=stable)

    answer = await settled(node.groups.ask("g", make, lambda answer: answer))
    assert isinstance(answer, OffsetFetchResult)
    one = answer.topics[0][1][0]
    return one.offset, one.error


@pytest.mark.parametrize("is_commit", [True, False])
def test_offsets_are_visible_after_a_commit_marker_and_never_after_an_abort(
    node: MarkerNode, is_commit: bool
) -> None:
    node.create_topic(OFFSETS)

    async def scenario() -> None:
        await commit_in(node, Producer(7, 0), 42)
        assert await fetched(node) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)

        answer = await node.answer(request(marker(7, [G0], is_commit=is_commit)))

        assert codes(answer) == {(7, OFFSETS, 0): ErrorCode.NONE}
        assert await fetched(node) == (42 if is_commit else -1, ErrorCode.NONE)
        assert node.markers(OFFSETS) == [(7, 0, "commit" if is_commit else "abort")]

    play(node, scenario)


def test_offsets_are_not_shown_before_the_marker_is_committed(node: MarkerNode) -> None:
    node.create_topic(OFFSETS, replicas=(1, 2), isr=(1,))

    async def scenario() -> None:
        await commit_in(node, Producer(7, 0), 42)
        node.create_topic(OFFSETS, replicas=(1, 2), isr=(1, 2))
        answering = asyncio.ensure_future(node.answer(request(marker(7, [G0]))))
        fetching = asyncio.ensure_future(fetched(node))
        while not node.markers(OFFSETS):
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert not answering.done() and not fetching.done()

        node.partition(OFFSETS).follower_fetched(2, 2)

        assert codes(await answering) == {(7, OFFSETS, 0): ErrorCode.NONE}
        assert await fetching == (42, ErrorCode.NONE)

    play(node, scenario)


def test_a_marker_comes_after_the_commits_of_its_turn(node: MarkerNode) -> None:
    node.create_topic(OFFSETS)

    async def scenario() -> None:
        await commit_in(node, Producer(7, 0), 1)
        plain = asyncio.ensure_future(commit_in(node, Producer(8, 0), 2))
        await asyncio.sleep(0)
        await node.answer(request(marker(8, [G0]), marker(7, [G0])))
        await plain

        assert await fetched(node) == (2, ErrorCode.NONE)  # the later write counts, whenever its marker comes

    play(node, scenario)


def test_while_a_groups_partition_is_loading_its_marker_must_be_retried(node: MarkerNode) -> None:
    node.create_topic(OFFSETS)
    node.append(OFFSETS)

    async def scenario() -> None:
        first = await node.answer(request(marker(7, [G0])))
        assert codes(first) == {(7, OFFSETS, 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}
        while set(codes(await node.answer(request(marker(7, [G0])))).values()) != {ErrorCode.NONE}:
            await asyncio.sleep(0.001)

    play(node, scenario)


def test_too_few_replicas_of_a_group_are_answered_with_not_leader(node: MarkerNode) -> None:
    node.create_topic(OFFSETS, replicas=(1, 2), isr=(1,), config=LogConfig(min_insync_replicas=2))

    async def scenario() -> None:
        answer = await node.answer(request(marker(7, [G0])))
        assert codes(answer) == {(7, OFFSETS, 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert node.markers(OFFSETS) == []

    play(node, scenario)


def test_a_refused_marker_leaves_the_group_as_it_is(node: MarkerNode) -> None:
    node.create_topic(OFFSETS)

    async def scenario() -> None:
        await commit_in(node, Producer(7, 3), 42)
        answer = await node.answer(request(marker(7, [G0], epoch=2)))

        assert codes(answer) == {(7, OFFSETS, 0): ErrorCode.INVALID_PRODUCER_EPOCH}
        assert await fetched(node) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        await node.answer(request(marker(7, [G0], epoch=3)))
        assert await fetched(node) == (42, ErrorCode.NONE)

    play(node, scenario)


def test_a_group_is_loaded_from_a_log_with_markers(node: MarkerNode) -> None:
    node.create_topic(OFFSETS)

    async def scenario() -> None:
        await commit_in(node, Producer(7, 0), 42)
        await node.answer(request(marker(7, [G0])))
        await commit_in(node, Producer(7, 0), 43)
        node.create_topic(OFFSETS, leader_epoch=1)
        node.groups.refresh()
        while not all(shard.is_loaded for shard in node.groups.shards.values()):
            await asyncio.sleep(0.001)

        assert await fetched(node, stable=False) == (42, ErrorCode.NONE)
        assert await fetched(node) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    play(node, scenario)

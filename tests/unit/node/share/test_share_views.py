"""The records in flight of share-partitions, from their leaders: this node or another one."""

import asyncio
from typing import Any

import pytest

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decode, encode
from ottla.node.kafka_api import describe_share_partitions
from ottla.node.share.share_views import RANGES_IN_ALL, USUAL_RANGES, ShareViews, Views
from ottla.node.share.window_view import MAX_RANGES
from ottla.node.wire.messages.describe_share_partitions import (
    DescribeSharePartitionsRequest,
    DescribeSharePartitionsResponse,
)
from tests.compat.wire_client import build
from tests.unit.node.fakes import peer_of
from tests.unit.node.kafka_api.share_world import GROUP, TOPIC_ID, ShareWorld, play
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, context

FAR_ID = b"far".ljust(16, b".")


class Peer:
    """A connection to the leader of all partitions, the node of `world`; it encodes and decodes messages."""

    def __init__(self, world: ShareWorld) -> None:
        self.world = world
        self.requests: list[Any] = []
        self.world.share_views = views_of(world, {})  # type: ignore[attr-defined]

    async def request(self, message: Any, response_type: type[Any]) -> Any:
        request = decode(type(message), 0, encode(message, 0))
        self.requests.append(request)
        answer = await describe_share_partitions.handle(self.world, context(30_006, 0), request)  # type: ignore[arg-type]
        return decode(response_type, 0, encode(answer, 0))


def views_of(world: ShareWorld, peers: dict[int, Any], node_id: int = NODE_ID) -> ShareViews:
    async def connect(broker_id: int, purpose: str) -> Any:
        if broker_id not in peers:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return peers[broker_id]

    return ShareViews(
        node_id=node_id,
        shares=world.shares,
        image=lambda: world.metadata.image,
        connect=connect,
        start_task=asyncio.ensure_future,
    )


async def acquire_ten(world: ShareWorld) -> None:
    """Let member `m1` hold the ten records of partition 0."""
    world.create_topic()
    await world.ready()
    world.append(count=10)
    await world.fetch("m1", 2)


def test_this_node_shows_the_records_that_its_members_hold() -> None:
    async def scenario(world: ShareWorld) -> None:
        await acquire_ten(world)
        world.clock.advance(4_000)

        found = await views_of(world, {}).look([world.key(), world.key(1), world.key()])

        assert list(found) == [world.key()], "no member reads the other partition"
        view = found[world.key()]
        assert (view.start_offset, view.end_offset, view.acquired, view.stalled_ms) == (0, 9, 10, 4_000)
        assert [(one.member_id, one.lock_left_ms) for one in view.next_locks] == [("m1", 26_000)]

    play(scenario)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_view_has_the_failure_of_dead_letters_and_says_if_any_are_lost(is_elsewhere: bool) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready("m1")
        led = world.shares.share_partitions[world.key()]
        views = views_of(world, {})
        if is_elsewhere:
            views = views_of(world, {NODE_ID: Peer(world)}, node_id=OTHER_ID)
        assert (await views.look([world.key()]))[world.key()].letter_failure_ms == -1

        led.note_letters(ErrorCode.REQUEST_TIMED_OUT, asyncio.get_running_loop().time() - 90)
        trying = (await views.look([world.key()]))[world.key()]
        led.letters_lost = True
        lost = (await views.look([world.key()]))[world.key()]

        assert (trying.letters_go_on, lost.letters_go_on) == (True, False)
        assert 90_000 <= lost.letter_failure_ms < 95_000
        assert lost.letter_failure == ErrorCode.REQUEST_TIMED_OUT

    play(scenario)


def test_a_record_is_the_oldest_since_the_start_offset_reached_it() -> None:
    async def scenario(world: ShareWorld) -> None:
        await acquire_ten(world)
        views = views_of(world, {})
        world.clock.advance(5_000)
        await world.acknowledge("m1", 3, [(0, 0, [1])])
        world.clock.advance(1_000)
        after_acknowledgement = (await views.look([world.key()]))[world.key()]
        await world.acknowledge("m1", 4, [(1, 9, [1])])
        world.clock.advance(60_000)
        idle = (await views.look([world.key()]))[world.key()]
        world.append(count=1)
        await world.fetch("m1", 5)
        world.clock.advance(10)
        new = (await views.look([world.key()]))[world.key()]

        assert (after_acknowledgement.start_offset, after_acknowledgement.stalled_ms) == (1, 1_000)
        assert (idle.start_offset, idle.stalled_ms) == (10, 0), "nothing is in flight"
        assert (new.start_offset, new.stalled_ms) == (10, 10)

    play(scenario)


def test_share_partitions_of_an_unreachable_leader_are_left_out() -> None:
    async def scenario(leader: ShareWorld) -> None:
        await acquire_ten(leader)

        assert await views_of(leader, {}, node_id=OTHER_ID).look([leader.key()]) == {}

    play(scenario)


def test_another_leader_is_asked_once_for_all_of_its_share_partitions() -> None:
    async def scenario(leader: ShareWorld) -> None:
        await acquire_ten(leader)
        peer = Peer(leader)
        asking = views_of(leader, {NODE_ID: peer}, node_id=OTHER_ID)

        found = await asking.look([leader.key(), SharePartitionKey("others", TOPIC_ID, 0)])

        here = await views_of(leader, {}).look([leader.key()])
        assert found == here and found[leader.key()].acquired == 10
        (request,) = peer.requests
        assert [one.group_id for one in request.groups] == [GROUP, "others"]
        assert request.max_ranges == USUAL_RANGES

    play(scenario)


def test_a_leader_that_hangs_does_not_delay_the_answer() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic("far", topic_id=FAR_ID, leader=OTHER_ID, replicas=(OTHER_ID,))
        await acquire_ten(world)

        async def never(message: Any, response_type: Any) -> Any:
            await asyncio.Event().wait()

        views = views_of(world, {OTHER_ID: peer_of(never)})
        found: Views = await views.look([world.key(), SharePartitionKey(GROUP, FAR_ID, 0)], timeout_s=0.05)

        assert list(found) == [world.key()]

    play(scenario)


def test_missing_topics_and_partitions_are_left_out() -> None:
    async def scenario(world: ShareWorld) -> None:
        await acquire_ten(world)
        keys = [
            SharePartitionKey(GROUP, bytes(16), 0),
            SharePartitionKey(GROUP, TOPIC_ID, 9_999),
            SharePartitionKey(GROUP, TOPIC_ID, -1),
        ]

        assert await views_of(world, {}).look(keys) == {}

    play(scenario)


def test_views_of_very_many_share_partitions_have_fewer_ranges() -> None:
    async def scenario(world: ShareWorld) -> None:
        await acquire_ten(world)
        peer = Peer(world)
        groups = [SharePartitionKey(f"g{number}", TOPIC_ID, 0) for number in range(RANGES_IN_ALL // 2)]

        await views_of(world, {NODE_ID: peer}, node_id=OTHER_ID).look(groups)

        assert peer.requests[0].max_ranges == 2

    play(scenario)


def test_the_ranges_of_a_view_are_limited() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic()
        await world.ready()
        for number in range(MAX_RANGES + 5):
            world.append(count=1)
            world.clock.advance(1)  # so that each lock ends at another time
            await world.fetch("m1", 2 + number)
        peer = Peer(world)
        request: DescribeSharePartitionsRequest = build(
            DescribeSharePartitionsRequest,
            {
                "max_ranges": 32_767,
                "groups": [{"group_id": GROUP, "topics": [{"topic_id": TOPIC_ID, "partitions": [0, 0, 7]}]}],
            },
        )

        answer = await peer.request(request, DescribeSharePartitionsResponse)

        ((one,),) = [topic.partitions for group in answer.groups for topic in group.topics]
        assert one.in_flight.acquired == MAX_RANGES + 5
        assert len(one.in_flight.next_locks) == len(one.in_flight.most_delivered) == MAX_RANGES

    play(scenario)

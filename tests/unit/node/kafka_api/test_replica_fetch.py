"""Fetches of followers at their leader: records and errors, acknowledgements, wake-ups."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.words.errors import ErrorCode
from ottla.node.kafka_api import fetch
from ottla.node.kafka_api.request_context import RequestContext
from ottla.node.net.answers import Delayed
from ottla.node.replica.partition import Partition
from ottla.node.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tests.unit.node.replica.replica_world import CONNECTION, NODE_ID, OTHER_ID, ReplicaWorld, batch

BATCH_BYTES = len(batch(1))
BOTH = (NODE_ID, OTHER_ID)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


class Follower:
    """Another broker that fetches from the broker of the world, as its peer."""

    def __init__(self, world: ReplicaWorld, *, broker_epoch: int = 1, peer_id: int = OTHER_ID) -> None:
        self.world = world
        self.broker_epoch = broker_epoch
        self.context = RequestContext(1, 18, 1, "peer", replace(CONNECTION, peer_id=peer_id))
        self.session_id = 0
        self.epoch = 0
        self.topic_id = world.metadata.image.topics.by_name["t"].topic_id

    def ask(
        self, *wanted: FetchPartition, forgotten: Sequence[int] = (), max_wait_ms: int = 0, **fields: Any
    ) -> Any:
        """Return the handler's result: a response, or a wait."""
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=OTHER_ID, replica_epoch=self.broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=wanted)] if wanted else (),
            forgotten_topics_data=[ForgottenTopic(topic_id=self.topic_id, partitions=forgotten)]
            if forgotten
            else (),
            **fields,
        )
        return self._taken(fetch.handle(self.world, self.context, request))  # type: ignore[arg-type]

    def _taken(self, response: Any) -> Any:
        if isinstance(response, FetchResponse) and not response.error_code:
            self.session_id = response.session_id
            self.epoch += 1
        return response

    def fetch(self, *wanted: FetchPartition, **fields: Any) -> dict[int, PartitionData]:
        """Return the partitions in the response to a fetch that does not wait."""
        response = self.ask(*wanted, **fields)
        assert isinstance(response, FetchResponse), response
        assert response.error_code == ErrorCode.NONE
        return {one.partition_index: one for topic in response.responses for one in topic.partitions}

    def wake(self) -> None:
        """Send the request that makes the leader answer the follower's waiting fetch at once."""
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=OTHER_ID, replica_epoch=self.broker_epoch),
            session_id=self.session_id,
            session_epoch=-1,
        )
        fetch.handle(self.world, self.context, request)  # type: ignore[arg-type]


def at(
    offset: int, index: int = 0, *, epoch: int = 0, last_epoch: int = -1, start: int = 0
) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=start,
        partition_max_bytes=1 << 20,
    )


@pytest.fixture
def world() -> ReplicaWorld:
    world = ReplicaWorld()
    world.create_topic(partitions=3, replicas=BOTH)
    return world


def follower_end_offset(partition: Partition) -> int:
    assert partition.isr is not None
    return partition.isr.followers[OTHER_ID].log_end_offset


def test_a_follower_reads_to_the_log_end_and_acknowledges_with_its_next_fetch(world: ReplicaWorld) -> None:
    world.append()
    follower = Follower(world)

    data = follower.fetch(at(0))[0]
    assert data.records is not None and len(data.records) == BATCH_BYTES
    assert data.high_watermark == 0
    data = follower.fetch(at(1, last_epoch=0))[0]

    assert world.partition().log.high_watermark == data.high_watermark == 1


def test_only_partitions_with_changes_are_returned(world: ReplicaWorld) -> None:
    follower = Follower(world)
    assert sorted(follower.fetch(at(0), at(0, 1), at(0, 2))) == [0, 1, 2]
    assert follower.fetch() == {}

    world.append(index=1)

    assert sorted(follower.fetch()) == [1]
    assert sorted(follower.fetch()) == [1], "the follower has not acknowledged it"
    assert sorted(follower.fetch(at(1, 1, last_epoch=0))) == [1], "the high watermark"
    assert follower.fetch() == {}


def test_a_forgotten_partition_is_not_returned(world: ReplicaWorld) -> None:
    follower = Follower(world)
    follower.fetch(at(0), at(0, 1))
    follower.fetch(forgotten=[1])

    world.append(index=1)

    assert follower.fetch() == {}
    assert world.partition("t", 1).watchers == []


def test_partitions_take_turns_if_a_response_is_full(world: ReplicaWorld) -> None:
    for index in range(3):
        world.append(index=index)
    follower = Follower(world)

    seen = [sorted(follower.fetch(at(0), at(0, 1), at(0, 2), max_bytes=BATCH_BYTES))]
    seen += [sorted(follower.fetch(max_bytes=BATCH_BYTES)) for _ in range(3)]

    assert seen == [[0], [1], [2], [0]]


def test_a_client_that_has_not_proven_to_be_that_broker_gets_nothing(world: ReplicaWorld) -> None:
    world.append()

    for peer_id in (-1, 7):
        response = Follower(world, peer_id=peer_id).ask(at(0))
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert not response.responses


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (at(0, epoch=1), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (at(9, epoch=0), ErrorCode.OFFSET_OUT_OF_RANGE),
        (at(0, 9), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_errors_are_answered_at_once(world: ReplicaWorld, wanted: FetchPartition, code: ErrorCode) -> None:
    data = Follower(world).fetch(wanted, max_wait_ms=10_000)

    assert [one.error_code for one in data.values()] == [code]


def test_an_older_epoch_is_fenced(world: ReplicaWorld) -> None:
    world.create_topic(partitions=3, replicas=BOTH, leader_epoch=4)

    assert Follower(world).fetch(at(0, epoch=3))[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_broker_that_is_not_yet_known_as_a_replica_retries(world: ReplicaWorld) -> None:
    world.create_topic(partitions=3, replicas=(NODE_ID,))

    assert Follower(world).fetch(at(0))[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_process_that_was_replaced_moves_no_high_watermark(world: ReplicaWorld) -> None:
    world.append()

    data = Follower(world, broker_epoch=0).fetch(at(1, last_epoch=0))[0]

    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.partition().log.high_watermark == 0


def test_the_end_of_a_diverging_log_is_returned(world: ReplicaWorld) -> None:
    world.append(count=5)
    world.create_topic(partitions=3, replicas=BOTH, leader_epoch=3)
    world.append(count=5)

    data = Follower(world).fetch(at(8, epoch=3, last_epoch=1))[0]

    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 5)
    assert not data.records
    assert follower_end_offset(world.partition()) == -1, "its log diverges"


def test_invalid_session_epochs_of_followers_are_rejected(world: ReplicaWorld) -> None:
    follower = Follower(world)
    follower.fetch(at(0))
    follower.epoch += 1
    assert follower.ask().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    follower.session_id += 1
    assert follower.ask().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_in_a_new_epoch_of_the_same_leader_the_followers_offset_is_known_again(world: ReplicaWorld) -> None:
    """A node that was cut off for a while goes on leading; its followers have no new offsets to report."""
    world.append()
    follower = Follower(world)
    follower.fetch(at(0))
    follower.fetch(at(1, last_epoch=0))
    follower.fetch()

    world.replica_manager.fence()
    world.replica_manager.unfence()
    assert follower_end_offset(world.partition()) == -1
    follower.fetch()

    assert follower_end_offset(world.partition()) == 1


def test_a_follower_that_repeats_its_offset_gets_the_high_watermark_again(
    world: ReplicaWorld,
) -> None:
    """A new leader epoch began when the response arrived, so the follower dropped it."""
    world.append()
    follower = Follower(world)
    follower.fetch(at(0))
    assert follower.fetch(at(1, last_epoch=0))[0].high_watermark == 1
    assert follower.fetch() == {}

    assert follower.fetch(at(1, last_epoch=0))[0].high_watermark == 1


# ---- waiting -------------------------------------------------------------------------------------


async def _caught_up(world: ReplicaWorld) -> tuple[Follower, Delayed]:
    follower = Follower(world)
    follower.fetch(at(0), at(0, 1), at(0, 2))
    waiting = follower.ask(max_wait_ms=10_000)
    assert isinstance(waiting, Delayed)
    return follower, waiting


async def _answer(waiting: Delayed, within_s: float = 8.0) -> list[int]:
    async with asyncio.timeout(within_s):
        response = waiting.answer(await waiting.future)
    return sorted(one.partition_index for topic in response.responses for one in topic.partitions)


def test_an_append_wakes_the_fetch_that_waits(world: ReplicaWorld, loop: asyncio.AbstractEventLoop) -> None:
    async def scenario() -> None:
        _, waiting = await _caught_up(world)
        world.append(index=2)
        assert waiting.future.done()  # type: ignore[attr-defined]
        assert await _answer(waiting) == [2]

    loop.run_until_complete(scenario())


def test_a_high_watermark_alone_waits_for_records_but_not_long(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    async def scenario() -> None:
        follower = Follower(world)
        world.append()
        follower.fetch(at(0))
        waiting = follower.ask(at(1, last_epoch=0), max_wait_ms=10_000)
        assert isinstance(waiting, Delayed)
        assert world.partition().log.high_watermark == 1
        assert not waiting.future.done()  # type: ignore[attr-defined]
        assert await _answer(waiting) == [0]

    loop.run_until_complete(scenario())


def test_a_follower_ends_its_waiting_fetch_with_another_request(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    async def scenario() -> None:
        follower, waiting = await _caught_up(world)
        follower.wake()
        assert await _answer(waiting) == []

    loop.run_until_complete(scenario())


def test_a_leader_that_resigns_answers_waiting_fetches_at_once(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    async def scenario() -> None:
        _, waiting = await _caught_up(world)
        world.create_topic(partitions=3, replicas=BOTH, leader=OTHER_ID, leader_epoch=1)
        assert await _answer(waiting) == [0, 1, 2]

    loop.run_until_complete(scenario())


def test_records_are_deleted_when_the_follower_has_deleted_too(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    async def scenario() -> None:
        world.append(count=4)
        follower = Follower(world)
        follower.fetch(at(0))
        follower.fetch(at(4, last_epoch=0))
        partition = world.partition()
        offset = partition.delete_records_before(3)
        assert partition.low_watermark() == 0
        done = world.replica_manager.delay_delete({partition: offset}, 10_000)
        assert [one.log_start_offset for one in follower.fetch().values()] == [3]
        assert not done.done()
        follower.fetch(at(4, last_epoch=0, start=3))
        assert (await done)[partition] == (ErrorCode.NONE, 3)

    loop.run_until_complete(scenario())


def test_a_deletion_that_times_out_returns_the_low_watermark(
    world: ReplicaWorld, loop: asyncio.AbstractEventLoop
) -> None:
    async def scenario() -> None:
        world.append(count=4)
        Follower(world).fetch(at(4, last_epoch=0, start=1))
        partition = world.partition()
        offset = partition.delete_records_before(3)
        done = await world.replica_manager.delay_delete({partition: offset}, 1)
        assert done[partition] == (ErrorCode.REQUEST_TIMED_OUT, 1)

    loop.run_until_complete(scenario())


# ---- throttling ----------------------------------------------------------------------------------


def test_a_throttled_follower_that_is_not_in_sync_waits_for_its_quota(world: ReplicaWorld) -> None:
    config = LogConfig(leader_replication_throttled_replicas=(f"0:{NODE_ID}",))
    world.create_topic(partitions=3, replicas=BOTH, isr=(NODE_ID,), config=config)
    world.replica_manager.update_config(world.metadata.image, "t")
    world.replica_manager.quotas.configure(leader_bytes_per_second=10, follower_bytes_per_second=2**63 - 1)
    for index in range(2):
        world.append(index=index)
        world.append(index=index)
    follower = Follower(world)

    first = follower.fetch(at(0), at(0, 1), max_bytes=4 * BATCH_BYTES)
    assert sorted(index for index, data in first.items() if data.records) == [0, 1]
    second = follower.fetch()
    assert sorted(index for index, data in second.items() if data.records) == [1], "0 is over its quota"
    world.clock.advance(60_000)

    assert sorted(index for index, data in follower.fetch().items() if data.records) == [0, 1]

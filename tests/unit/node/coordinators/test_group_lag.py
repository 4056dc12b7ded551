"""The lag of groups, over real logs on disks in memory, on one node or on two that ask each other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, build_marker
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.schema_compiler import decode, encode
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.coordinators.group_lag import FIRST_READ_BYTES, GroupLag, GroupOffset, PartitionLag
from ottla.node.kafka_api import describe_lag
from ottla.node.work.turns import STEPS_PER_TURN
from tests.unit.node.fakes import peer_of
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch, context

T0 = TopicPartition("t", 0)


class LagWorld(ReplicaWorld):
    """A node that measures lag; its requests to other nodes go to `peers`."""

    def __init__(self, node_id: int = NODE_ID, *, others: tuple[int, ...] = (OTHER_ID,)) -> None:
        super().__init__(node_id, others=others)
        self.peers: dict[int, Any] = {}
        self.threads = 0
        self.group_lag = GroupLag(
            node_id=node_id,
            replicas=self.replica_manager,
            image=lambda: self.metadata.image,
            connect=self._connect,
            in_thread=lambda work: self.in_thread(work),
            clock=self.clock,
        )

    async def _connect(self, node_id: int, purpose: str) -> Any:
        if node_id not in self.peers:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        return self.peers[node_id]

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        self.threads += 1
        await asyncio.sleep(0)
        return work()

    def measure(
        self, *places: tuple[TopicPartition, int | None], timeout_s: float = 60
    ) -> dict[GroupOffset, Any]:
        return asyncio.run(self.group_lag.measure([GroupOffset(*one) for one in places], timeout_s=timeout_s))

    def lag_of(self, committed: int | None, partition: TopicPartition = T0) -> PartitionLag | None:
        return self.measure((partition, committed)).get(GroupOffset(partition, committed))

    def write(self, content: bytes | bytearray) -> None:
        """Put a batch into the log unchanged, with its offsets, and commit it."""
        log = self.partition().log
        log.append_as_follower(content)
        log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def world() -> LagWorld:
    """Return a node with a topic of ten records, five of which are a minute old and five half a minute."""
    world = LagWorld()
    world.create_topic()
    world.append(count=5)
    world.clock.advance(30_000)
    world.append(count=5)
    world.clock.advance(30_000)
    return world


@pytest.mark.parametrize(
    ("committed", "lag"),
    [
        (None, PartitionLag(10, None, None)),
        (0, PartitionLag(10, 10, 60_000)),
        (3, PartitionLag(10, 7, 60_000)),
        (5, PartitionLag(10, 5, 30_000)),
        (9, PartitionLag(10, 1, 30_000)),
        (10, PartitionLag(10, 0, 0)),
        (12, PartitionLag(10, 0, 0)),  # the log was truncated after an unclean election
    ],
)
def test_lag_counts_from_the_committed_offset_to_the_end(
    world: LagWorld, committed: int | None, lag: PartitionLag
) -> None:
    assert world.lag_of(committed) == lag


def test_no_log_is_read_without_lag(world: LagWorld) -> None:
    world.measure((T0, 10), (T0, None), (TopicPartition("t", 1), 0), (TopicPartition("gone", 0), 5))

    assert world.threads == 0


def test_an_empty_partition_has_no_lag(world: LagWorld) -> None:
    world.create_topic("empty")

    assert world.lag_of(0, TopicPartition("empty", 0)) == PartitionLag(0, 0, 0)
    assert world.lag_of(None, TopicPartition("empty", 0)) == PartitionLag(0, None, None)


def test_deleted_records_are_not_part_of_the_age(world: LagWorld) -> None:
    world.partition().delete_records_before(7)
    assert world.lag_of(2) == PartitionLag(10, 8, 30_000)

    world.partition().delete_records_before(10)
    assert world.lag_of(2) == PartitionLag(10, 8, 0), "nothing is left to read"


def test_a_compacted_gap_counts_in_records_and_not_in_time(world: LagWorld) -> None:
    now = world.clock.now_ms()
    world.write(build_batch([(b"k", b"v", now - 1_000, ())], base_offset=20))
    assert world.lag_of(10) == PartitionLag(21, 11, 1_000)
    assert world.lag_of(15) == PartitionLag(21, 6, 1_000)

    world.write(build_batch([], base_offset=21, last_offset=29, base_timestamp=now))
    assert world.lag_of(21) == PartitionLag(30, 9, 0), "compaction took all that was there"


def marker(offset: int) -> bytearray:
    end = EndTransactionMarker(ControlType.ABORT, 0)
    return build_marker(end, producer_id=1, producer_epoch=0, timestamp_ms=5, base_offset=offset)


def test_markers_count_in_records_and_not_in_time(world: LagWorld) -> None:
    world.write(marker(10))
    assert world.lag_of(10) == PartitionLag(11, 1, 0)
    assert world.lag_of(9) == PartitionLag(11, 2, 30_000)


def test_a_record_behind_very_many_markers_is_found(world: LagWorld) -> None:
    count = FIRST_READ_BYTES // len(marker(0)) + 10
    for number in range(count):
        world.write(marker(10 + number))
    world.write(build_batch([(b"k", b"v", world.clock.now_ms() - 7, ())], base_offset=10 + count))

    assert world.lag_of(10) == PartitionLag(11 + count, count + 1, 7)
    assert world.threads == 2, "the first read held markers alone"


def test_the_append_time_counts_in_a_topic_that_uses_it(world: LagWorld) -> None:
    world.create_topic("log", config=LogConfig(message_timestamp_type="LogAppendTime"))
    world.partition("log").append_as_leader(
        batch(now_ms=5), required_acks=1, now_ms=world.clock.now_ms(), produce_version=9
    )
    world.clock.advance(123)

    assert world.lag_of(0, TopicPartition("log", 0)) == PartitionLag(1, 1, 123)


def test_without_a_timestamp_there_is_no_age(world: LagWorld) -> None:
    world.write(build_batch([(b"k", b"v", -1, ())], base_offset=10))

    assert world.lag_of(10) == PartitionLag(11, 1, None)


@pytest.mark.parametrize(("timestamp", "age_ms"), [(2**63 - 1, 0), (-(2**63), 2**63 - 1)])
def test_impossible_timestamps_give_ages_that_fit_the_response(
    world: LagWorld, timestamp: int, age_ms: int
) -> None:
    world.write(build_batch([(b"k", b"v", timestamp, ())], base_offset=10))

    assert world.lag_of(10) == PartitionLag(11, 1, age_ms)


def test_records_above_the_high_watermark_are_no_lag(world: LagWorld) -> None:
    world.create_topic("three", replicas=(NODE_ID, OTHER_ID))
    world.append("three", count=2)
    world.append("three", count=2)
    world.partition("three").log.update_high_watermark(2)
    world.clock.advance(50)

    assert world.lag_of(1, TopicPartition("three", 0)) == PartitionLag(2, 1, 50)
    assert world.lag_of(2, TopicPartition("three", 0)) == PartitionLag(2, 0, 0)


def test_a_damaged_batch_leaves_the_age_unknown(world: LagWorld) -> None:
    world.partition().log.active_segment.file.write_at(70, [b"damage"])

    assert world.lag_of(0) == PartitionLag(10, 10, None)


def test_a_log_that_is_truncated_while_it_is_read_ends_the_search(world: LagWorld) -> None:
    """The bytes that the loop found are gone when the thread reads them."""
    world.append(count=3)
    read = world.in_thread

    async def cut_first(work: Callable[[], Any]) -> Any:
        log = world.partition().log
        if log.log_end_offset > 10:
            log.truncate_to(10, now_ms=0)
        return await read(work)

    world.in_thread = cut_first  # type: ignore[method-assign]

    assert world.lag_of(10) == PartitionLag(13, 3, None)


# ---- nodes that ask each other -------------------------------------------------------------------


class Peer:
    """A connection to another node that encodes and decodes its messages."""

    def __init__(self, world: LagWorld) -> None:
        self.world = world
        self.requests: list[Any] = []

    async def request(self, message: Any, response_type: type[Any]) -> Any:
        request = decode(type(message), 0, encode(message, 0))
        self.requests.append(request)
        answer = await describe_lag.handle(self.world, context(30_004, 0), request)  # type: ignore[arg-type]
        return decode(response_type, 0, encode(answer, 0))


@pytest.fixture
def two_nodes(world: LagWorld) -> tuple[LagWorld, Peer]:
    """Return `world`, which asks, and its connection to node 2, which leads the topics `far` and `wide`."""
    other = LagWorld(OTHER_ID, others=(NODE_ID,))
    for name in ("far", "wide"):
        for one in (world, other):
            one.create_topic(name, partitions=3, leader=OTHER_ID, replicas=(OTHER_ID,))
    other.append("far", count=4, index=1)
    other.clock.advance(2_000)
    peer = Peer(other)
    world.peers[OTHER_ID] = peer
    return world, peer


def test_each_other_leader_is_asked_once_for_all_of_its_partitions(two_nodes: tuple[LagWorld, Peer]) -> None:
    world, peer = two_nodes
    far = TopicPartition("far", 1)

    lags = world.measure(
        (T0, 10),
        (far, 1),
        (far, 4),
        (far, None),
        (TopicPartition("far", 2), 0),
        (TopicPartition("wide", 0), 0),
    )

    assert len(peer.requests) == 1
    assert lags == {
        GroupOffset(T0, 10): PartitionLag(10, 0, 0),
        GroupOffset(far, 1): PartitionLag(4, 3, 2_000),
        GroupOffset(far, 4): PartitionLag(4, 0, 0),
        GroupOffset(far, None): PartitionLag(4, None, None),
        GroupOffset(TopicPartition("far", 2), 0): PartitionLag(0, 0, 0),
        GroupOffset(TopicPartition("wide", 0), 0): PartitionLag(0, 0, 0),
    }


def test_partitions_of_an_unreachable_leader_are_left_out(two_nodes: tuple[LagWorld, Peer]) -> None:
    world, _ = two_nodes
    del world.peers[OTHER_ID]
    world.create_topic("orphan", leader=-1)

    lags = world.measure((T0, 9), (TopicPartition("far", 1), 1), (TopicPartition("orphan", 0), 1))

    assert lags == {GroupOffset(T0, 9): PartitionLag(10, 1, 30_000)}


def test_a_leader_that_hangs_does_not_delay_the_answer(two_nodes: tuple[LagWorld, Peer]) -> None:
    world, _ = two_nodes

    async def never(message: Any, response_type: Any) -> Any:
        await asyncio.Event().wait()

    world.peers[OTHER_ID] = peer_of(never)
    lags = world.measure((T0, 9), (TopicPartition("far", 1), 1), timeout_s=0.05)

    assert GroupOffset(TopicPartition("far", 1), 1) not in lags
    assert lags[GroupOffset(T0, 9)].records == 1


def test_a_node_that_no_longer_leads_returns_no_lag(two_nodes: tuple[LagWorld, Peer]) -> None:
    world, peer = two_nodes
    peer.world.create_topic("far", partitions=3, leader=NODE_ID, leader_epoch=1, replicas=(OTHER_ID, NODE_ID))
    peer.world.delete_topic("wide")

    assert world.measure((TopicPartition("far", 1), 1), (TopicPartition("wide", 1), 1)) == {}


def test_a_leader_that_is_cut_off_returns_no_lag(world: LagWorld) -> None:
    world.replica_manager.fence()

    assert world.measure((T0, 1)) == {}


def test_ages_that_are_not_read_in_time_are_left_out(two_nodes: tuple[LagWorld, Peer]) -> None:
    world, _ = two_nodes

    lags = world.measure((T0, 9), (T0, 10), timeout_s=0)

    assert lags == {
        GroupOffset(T0, 9): PartitionLag(10, 1, None),
        GroupOffset(T0, 10): PartitionLag(10, 0, 0),
    }


def test_very_many_partitions_take_turns_with_the_loop(world: LagWorld) -> None:
    count = 40 * STEPS_PER_TURN
    places = [GroupOffset(TopicPartition("t", 0), 9 - number) for number in range(count)]

    async def run() -> tuple[dict[GroupOffset, PartitionLag], int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        ticking = asyncio.get_running_loop().create_task(others())
        lags = await world.group_lag.measure(places, timeout_s=60)
        ticking.cancel()
        return lags, turns

    lags, turns = asyncio.run(run())

    assert len(lags) == count and lags[GroupOffset(T0, 9)] == PartitionLag(10, 1, 30_000)
    assert turns > 80, "two passes in memory, and the reads"

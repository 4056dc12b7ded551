"""A partition's roles and offsets, over a real log on a disk in memory."""

from functools import partial

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.partition_log import FetchIsolation
from ottla.logstore.record import ControlType, EndTransactionMarker
from ottla.logstore.record_batch import HEADER_SIZE
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.replica.delayed_produce import RequiredOffset
from ottla.node.replica.isr import IsrProposal
from ottla.node.replica.partition import Partition
from ottla.node.replica.replica_manager import DEFAULT_LAG_MS
from tests.unit.node.replica.replica_world import NODE_ID, OTHER_ID, ReplicaWorld, batch

UNCOMMITTED = FetchIsolation.HIGH_WATERMARK


@pytest.fixture
def world() -> ReplicaWorld:
    return ReplicaWorld()


def code_of(call: object, *arguments: object, **keywords: object) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        call(*arguments, **keywords)  # type: ignore[operator]
    return refused.value.code


def test_a_lone_leader_shows_a_record_at_once(world: ReplicaWorld) -> None:
    world.create_topic()

    world.append(count=3)

    assert world.partition().log.high_watermark == 3
    readable = partial(world.partition().readable_bytes, 0, 10_000, UNCOMMITTED)
    assert readable(enough_bytes=10_000) == len(batch(3))
    assert readable(enough_bytes=1) == HEADER_SIZE, "any batch is at least that large, so none is looked for"


def test_a_record_is_shown_when_every_replica_in_sync_has_it(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))
    partition = world.partition()

    world.append(count=3)
    assert partition.log.high_watermark == 0
    partition.follower_fetched(OTHER_ID, 2)
    assert partition.log.high_watermark == 2
    partition.follower_fetched(OTHER_ID, 3)

    assert partition.log.high_watermark == 3


def test_a_smaller_isr_lets_the_high_watermark_rise(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))
    world.append(count=3)

    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    assert world.partition().log.high_watermark == 0, "the other may be about to come in again"
    world.clock.advance(DEFAULT_LAG_MS + 1)
    world.replica_manager.check_isrs()

    assert world.partition().log.high_watermark == 3


def test_a_new_epoch_forgets_what_followers_had(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))
    world.append(count=3)
    world.partition().follower_fetched(OTHER_ID, 2)

    world.create_topic(replicas=(NODE_ID, OTHER_ID), leader_epoch=1)
    world.append(count=3)

    assert world.partition().log.high_watermark == 2


@pytest.mark.parametrize(
    ("known_epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_client_of_another_leader_epoch_is_rejected(
    world: ReplicaWorld, known_epoch: int, code: ErrorCode
) -> None:
    world.create_topic(leader_epoch=5)

    assert code_of(world.partition().check_leader, known_epoch) is code
    world.partition().check_leader(5)
    world.partition().check_leader(-1)


def test_a_follower_accepts_no_records_from_a_producer(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID), leader=OTHER_ID)

    assert code_of(world.append) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_acks_all_needs_enough_replicas_in_sync(world: ReplicaWorld) -> None:
    config = LogConfig(min_insync_replicas=2)
    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,), config=config)
    partition = world.partition()

    def append(acks: int) -> None:
        partition.append_as_leader(
            batch(), required_acks=acks, now_ms=world.clock.now_ms(), produce_version=9
        )

    assert code_of(append, -1) is ErrorCode.NOT_ENOUGH_REPLICAS
    append(1)


def test_a_topic_of_one_replica_is_written_whatever_min_insync_replicas_says(world: ReplicaWorld) -> None:
    world.create_topic(config=LogConfig(min_insync_replicas=2))

    world.partition().append_as_leader(
        batch(), required_acks=-1, now_ms=world.clock.now_ms(), produce_version=9
    )

    assert world.partition().log.high_watermark == 1


def test_an_acknowledgement_says_when_too_few_replicas_are_left(world: ReplicaWorld) -> None:
    config = LogConfig(min_insync_replicas=2)
    world.create_topic(replicas=(NODE_ID, OTHER_ID), config=config)
    world.append()
    partition = world.partition()

    assert partition.acknowledgement_of(RequiredOffset(1, 0)) is None
    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,), config=config)
    assert partition.acknowledgement_of(RequiredOffset(1, 0)) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    world.create_topic(replicas=(NODE_ID, OTHER_ID), config=config, leader=OTHER_ID, leader_epoch=1)
    assert partition.acknowledgement_of(RequiredOffset(1, 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_are_deleted_up_to_the_high_watermark(world: ReplicaWorld) -> None:
    world.create_topic()
    world.append(count=10)
    partition = world.partition()

    partition.delete_records_before(4)
    assert partition.low_watermark() == 4
    partition.delete_records_before(2)
    assert partition.low_watermark() == 4, "the low watermark never moves back"
    assert code_of(partition.delete_records_before, 11) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(partition.delete_records_before, -2) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records_before(-1) == 10


def test_records_that_are_not_replicated_are_not_deleted(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(NODE_ID, OTHER_ID))
    world.append(count=3)
    partition = world.partition()
    partition.follower_fetched(OTHER_ID, 1)

    assert code_of(partition.delete_records_before, 2) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records_before(1) == 1


def test_records_are_not_deleted_while_a_dead_replica_that_has_them_may_lead() -> None:
    """The dead replica is an eligible leader replica (KIP-966)."""
    world = ReplicaWorld(others=())
    world.create_topic(replicas=(NODE_ID, OTHER_ID))
    world.append(count=3)
    partition = world.partition()
    partition.follower_fetched(OTHER_ID, 3)
    world.change_partition("t", 0, isr=(NODE_ID,), eligible_leader_replicas=(OTHER_ID,), partition_epoch=1)
    partition.delete_records_before(2)

    while_eligible = partition.low_watermark()
    world.change_partition("t", 0, eligible_leader_replicas=(), partition_epoch=2)

    assert (while_eligible, partition.low_watermark()) == (0, 2)


def test_a_reader_that_diverged_from_the_log_learns_where(world: ReplicaWorld) -> None:
    world.create_topic(leader_epoch=1)
    world.append(count=5)
    world.create_topic(leader_epoch=3)
    world.append(count=5)
    partition = world.partition()

    assert partition.diverging_epoch(5, 1) is None
    assert partition.diverging_epoch(10, 3) is None
    assert partition.diverging_epoch(7, 1) == (1, 5)
    assert partition.diverging_epoch(7, 2) == (1, 5)
    assert code_of(partition.diverging_epoch, 7, 9) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_partition_that_is_not_here_says_why(world: ReplicaWorld) -> None:
    world.create_topic(replicas=(OTHER_ID,), leader=OTHER_ID)

    assert code_of(world.partition) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(world.partition, "t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(world.partition, "other") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_deleted_topic_is_gone_with_its_files(world: ReplicaWorld) -> None:
    world.create_topic(partitions=2)

    world.delete_topic("t")

    assert world.log_manager.deleted == [("t", 0), ("t", 1)]
    assert code_of(world.partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_created_again_has_a_log_of_its_own(world: ReplicaWorld) -> None:
    world.create_topic()
    old = world.partition().log

    world.create_topic(topic_id=b"n" * 16)

    assert world.partition().log is not old
    assert world.log_manager.deleted == [("t", 0)]


def test_a_failed_disk_is_a_storage_error(world: ReplicaWorld) -> None:
    world.create_topic()

    world.replica_manager.take_offline([world.partition().topic_partition])

    assert code_of(world.partition) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_proposal_from_before_a_leader_was_cut_off_may_still_be_accepted(world: ReplicaWorld) -> None:
    proposals: list[IsrProposal] = []
    world.replica_manager.context.propose = lambda _, proposal: proposals.append(proposal)
    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    partition = world.partition()
    partition.follower_fetched(OTHER_ID, 0)
    assert [one.broker_ids for one in proposals] == [{NODE_ID, OTHER_ID}]

    world.replica_manager.fence()
    world.replica_manager.unfence()
    world.append(count=3)

    assert partition.log.high_watermark == 0, "the other may be in sync by now, and lead without these"
    assert proposals == [proposals[0]] * 2, "the first may have been lost"
    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID, OTHER_ID))
    partition.follower_fetched(OTHER_ID, 3)
    assert partition.log.high_watermark == 3


def test_a_proposal_of_an_earlier_leader_epoch_is_not_sent_again(world: ReplicaWorld) -> None:
    proposals: list[IsrProposal] = []
    world.replica_manager.context.propose = lambda _, proposal: proposals.append(proposal)
    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,))
    world.partition().follower_fetched(OTHER_ID, 0)

    world.replica_manager.fence()
    world.create_topic(replicas=(NODE_ID, OTHER_ID), isr=(NODE_ID,), leader_epoch=1)
    world.replica_manager.unfence()
    world.append(count=3)

    assert len(proposals) == 1 and world.partition().log.high_watermark == 3


class Watcher:
    """Records the events of a log."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def log_grew(self) -> None:
        self.events.append("grew")

    def offsets_moved(self) -> None:
        self.events.append("moved")


def append_as(partition: Partition, way: str, now_ms: int) -> None:
    """Append one record as the leader, in one of the ways."""
    match way:
        case "a batch":
            partition.append_as_leader(batch(1), required_acks=1, now_ms=now_ms, produce_version=9)
        case "a run":
            records = memoryview(bytearray(batch(1)))
            assert partition.append_run([records], required_acks=1, now_ms=now_ms)
        case "a marker":
            partition.append_marker(
                EndTransactionMarker(ControlType.COMMIT, 0),
                producer_id=5,
                producer_epoch=0,
                transaction_version=0,
                now_ms=now_ms,
            )


@pytest.mark.parametrize("way", ["a batch", "a run", "a marker"])
@pytest.mark.parametrize("flush_messages", [1_000_000, 3])
def test_every_append_of_a_leader_wakes_watchers_is_counted_and_is_shown_once_flushed(
    world: ReplicaWorld, way: str, flush_messages: int
) -> None:
    world.create_topic(config=LogConfig(flush_messages=flush_messages))
    world.append(count=1)
    world.append(count=1)  # the second append determines the room for a run
    partition, watcher = world.partition(), Watcher()
    partition.watchers.append(watcher)
    counted = partition.counters.messages_in
    flushed: list[object] = []
    world.replica_manager.flush_by(flushed.append)

    append_as(partition, way, world.clock.now_ms())

    is_flushed_first = flush_messages == 3
    assert watcher.events == ["grew"] and partition.watchers == []
    assert flushed == ([partition.log] if is_flushed_first else [])
    assert partition.log.high_watermark == (2 if is_flushed_first else 3)
    assert partition.counters.messages_in - counted == (way != "a marker")


@pytest.mark.parametrize("way", ["a batch", "a run", "a marker"])
def test_a_record_that_other_in_sync_replicas_lack_is_not_shown_by_its_append(
    world: ReplicaWorld, way: str
) -> None:
    world.create_topic()
    world.append(count=1)
    world.append(count=1)
    world.create_topic(replicas=(NODE_ID, OTHER_ID))

    append_as(world.partition(), way, world.clock.now_ms())

    assert (world.partition().log.log_end_offset, world.partition().log.high_watermark) == (3, 2)

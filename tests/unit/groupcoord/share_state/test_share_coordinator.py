"""The share coordinator decides as Kafka's does; tests/compat/java compares it with Kafka's own shard."""

import pytest

from ottla.groupcoord.shard_bytes import NodeBytes
from ottla.groupcoord.share_state import share_state_shard, write_state
from ottla.groupcoord.share_state.check_request import CHECKS
from ottla.groupcoord.share_state.share_state_commands import ForgetTopics
from ottla.groupcoord.share_state.share_state_config import (
    MAX_DEAD_LETTERS_BYTES,
    SLICE_STATES,
    ShareCoordinatorConfig,
)
from ottla.groupcoord.share_state.share_state_records import SnapshotRecord, UpdateRecord
from ottla.groupcoord.share_state.share_state_shard import UNKNOWN_INCARNATION
from ottla.groupcoord.share_state.share_state_words import (
    InitializeState,
    SharePartitionKey,
    StateBatch,
    StateRequest,
    WriteState,
)
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.share_state.share_state_world import (
    KEY,
    ShareStateWorld,
    batch,
    key_of,
    topic_id,
)

FIVE_MINUTES_MS = 300_000


def test_a_state_has_all_that_was_written_since_it_began() -> None:
    world = ShareStateWorld()

    world.initialize(state_epoch=3, start_offset=10)
    world.write(batch(10, 14, 2), batch(15, 19), state_epoch=3, complete=5)
    world.write(batch(15, 17, 4, 2), state_epoch=3, start_offset=15, complete=3)

    read = world.read()
    assert (read.error, read.state_epoch, read.start_offset) == (ErrorCode.NONE, 3, 15)
    assert read.batches == (batch(15, 17, 4, 2), batch(18, 19))
    summary = world.summary()
    assert (summary.state_epoch, summary.start_offset, summary.delivery_complete_count) == (3, 15, 3)


@pytest.mark.parametrize("updates", [0, 1, 100])
def test_a_leaders_note_on_dead_letters_is_kept_until_it_writes_another(updates: int) -> None:
    config = ShareCoordinatorConfig(share_coordinator_snapshot_update_records_per_snapshot=updates)
    world = ShareStateWorld(config)
    world.initialize()

    first, second = (1).to_bytes(8) + b"two letters", (2).to_bytes(8)
    world.write(batch(3, 4, 3, 5), letters=first)
    world.write(batch(5, 9, 2))
    world.read(leader_epoch=2)  # which writes, too
    assert world.read(leader_epoch=2).dead_letters == first
    world.write(batch(3, 4, 4, 5), leader_epoch=2, letters=second)
    world.write(batch(10, 10, 2), leader_epoch=2, start_offset=10, complete=1)
    world.write(leader_epoch=2, start_offset=3, complete=7, letters=first)  # late, and once more

    assert world.read(leader_epoch=2).dead_letters == second
    assert (world.summary().start_offset, world.summary().delivery_complete_count) == (10, 1)
    assert world.read(leader_epoch=2).batches == (batch(10, 10, 2),)


@pytest.mark.parametrize("updates", [0, 100])
def test_a_write_that_comes_late_does_not_set_the_start_offset_back(updates: int) -> None:
    config = ShareCoordinatorConfig(share_coordinator_snapshot_update_records_per_snapshot=updates)
    world = ShareStateWorld(config)
    world.initialize()
    world.write(start_offset=10, complete=1)

    world.write(batch(3, 4, 0), batch(12, 12, 2), start_offset=3, complete=7)

    assert (world.summary().start_offset, world.summary().delivery_complete_count) == (10, 1)
    assert world.read(leader_epoch=2).batches == (batch(12, 12, 2),)
    world.initialize(state_epoch=1, start_offset=3)
    assert world.summary().start_offset == 3


def test_a_note_on_dead_letters_goes_with_the_state_and_has_a_limit() -> None:
    world = ShareStateWorld()
    world.initialize()
    world.write(letters=b"letters")

    assert world.write(letters=bytes(MAX_DEAD_LETTERS_BYTES + 1)).error is ErrorCode.INVALID_REQUEST
    assert world.read().dead_letters == b"letters"
    world.initialize(state_epoch=1)
    assert world.read().dead_letters == b""


def test_only_initialized_states_are_read_and_written() -> None:
    world = ShareStateWorld()

    assert world.write(batch(0, 9)).error is ErrorCode.INVALID_REQUEST
    assert world.read().error is ErrorCode.INVALID_REQUEST
    summary = world.summary()
    assert (summary.error, summary.start_offset, summary.delivery_complete_count) == (ErrorCode.NONE, -1, -1)
    assert world.delete().error is ErrorCode.NONE
    assert not world.rows


def test_a_read_by_a_later_leader_fences_the_earlier_one() -> None:
    world = ShareStateWorld()
    world.initialize()
    world.read(leader_epoch=5)

    assert world.write(batch(0, 9), leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH
    assert world.write(batch(0, 9), leader_epoch=5).error is ErrorCode.NONE
    assert world.write(batch(0, 9), leader_epoch=-1).error is ErrorCode.NONE
    assert world.summary().leader_epoch == 5
    world.crash()
    assert world.write(batch(0, 9), leader_epoch=4).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_write_moves_no_epoch() -> None:
    world = ShareStateWorld()
    world.initialize(state_epoch=1)
    world.read(leader_epoch=5)

    assert world.write(batch(0, 9), leader_epoch=7, state_epoch=3).error is ErrorCode.NONE

    assert (world.summary().leader_epoch, world.summary().state_epoch) == (5, 1)
    assert world.write(batch(0, 9), leader_epoch=5, state_epoch=1).error is ErrorCode.NONE


def test_a_leader_stays_fenced_when_the_state_begins_again_and_is_written() -> None:
    world = ShareStateWorld()
    world.initialize()
    world.read(leader_epoch=5)
    world.initialize(state_epoch=1)
    world.write(batch(0, 9), leader_epoch=5, state_epoch=1)

    assert world.write(batch(0, 9), leader_epoch=4, state_epoch=1).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_read_of_the_same_leader_writes_nothing() -> None:
    world = ShareStateWorld()
    world.initialize()
    world.read(leader_epoch=5)
    before = len(world.rows)

    world.read(leader_epoch=5)
    world.read(leader_epoch=-1)

    assert len(world.rows) == before


def test_a_state_that_begins_again_fences_writers_of_the_earlier_one() -> None:
    world = ShareStateWorld()
    world.initialize(state_epoch=1)
    world.write(batch(0, 9), state_epoch=1)

    world.initialize(state_epoch=2, start_offset=-1)

    assert world.write(batch(0, 9), state_epoch=1).error is ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(state_epoch=1).error is ErrorCode.FENCED_STATE_EPOCH
    read = world.read()
    assert (read.state_epoch, read.start_offset, read.batches) == (2, -1, ())
    assert world.summary().delivery_complete_count == -1


def test_a_state_that_was_deleted_and_created_again_fences_writers_of_the_earlier_one() -> None:
    """A group that is created again begins with the state epoch that it had before."""
    world = ShareStateWorld()
    world.initialize(state_epoch=1)
    earlier = world.read().incarnation
    world.delete()

    world.initialize(state_epoch=1)

    assert world.write(batch(0, 9), state_epoch=1, incarnation=earlier).error is ErrorCode.FENCED_STATE_EPOCH
    assert world.read().incarnation > earlier
    assert (
        world.write(batch(0, 9), state_epoch=1, incarnation=world.read().incarnation).error is ErrorCode.NONE
    )
    assert world.write(batch(0, 9), state_epoch=1).error is ErrorCode.NONE, "a node that names no incarnation"


def test_a_leader_that_has_read_a_state_goes_on_writing_when_the_coordinator_moves() -> None:
    world = ShareStateWorld()
    world.initialize(state_epoch=1)
    incarnation = world.read().incarnation

    world.crash()

    assert world.read().incarnation == UNKNOWN_INCARNATION
    assert world.write(batch(0, 9), state_epoch=1, incarnation=incarnation).error is ErrorCode.NONE
    world.advance(1)
    world.initialize(state_epoch=1)
    for known in (incarnation, UNKNOWN_INCARNATION):
        assert (
            world.write(batch(0, 9), state_epoch=1, incarnation=known).error is ErrorCode.FENCED_STATE_EPOCH
        )


@pytest.mark.parametrize("key", [key_of(topic=3), key_of(partition=2), key_of(partition=-1)])
def test_partitions_that_do_not_exist_are_rejected(key: SharePartitionKey) -> None:
    world = ShareStateWorld()

    error = world.initialize(key).error

    expected = ErrorCode.INVALID_REQUEST if key.partition < 0 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error is expected and world.delete(key).error is expected


@pytest.mark.parametrize(
    "written",
    [batch(5, 4), batch(-1, 4), batch(0, 2**63 - 1), batch(0, 4, 1), batch(0, 4, 0, -1)],
)
def test_impossible_batches_are_rejected(written: StateBatch) -> None:
    world = ShareStateWorld()
    world.initialize()

    assert world.write(written).error is ErrorCode.INVALID_REQUEST


def test_every_request_has_its_checks() -> None:
    assert set(CHECKS) == set(StateRequest.__args__)


def test_a_snapshot_is_written_after_the_configured_number_of_updates() -> None:
    world = ShareStateWorld(ShareCoordinatorConfig(share_coordinator_snapshot_update_records_per_snapshot=2))
    world.initialize()

    for at in range(6):
        world.write(batch(at, at, 2), complete=at)

    kinds = [type(record) for record in world.records]
    assert kinds == [SnapshotRecord, *[UpdateRecord, UpdateRecord, SnapshotRecord] * 2]
    last = world.records[-1]
    assert isinstance(last, SnapshotRecord) and last.state is not None
    assert last.state.snapshot_epoch == 2 and last.state.batches == (batch(0, 5, 2),)


def test_without_updates_every_write_is_a_snapshot() -> None:
    world = ShareStateWorld(ShareCoordinatorConfig(share_coordinator_snapshot_update_records_per_snapshot=0))
    world.initialize()

    world.write(batch(0, 0, 2))

    assert [type(record) for record in world.records] == [SnapshotRecord] * 2


def test_a_deleted_state_is_gone_and_may_begin_again_at_any_epoch() -> None:
    world = ShareStateWorld()
    world.initialize(state_epoch=5)
    world.read(leader_epoch=9)

    world.delete()

    assert world.read().error is ErrorCode.INVALID_REQUEST
    assert world.initialize(state_epoch=0).error is ErrorCode.NONE
    assert world.read(leader_epoch=1).error is ErrorCode.NONE


def test_states_of_topics_that_are_gone_are_removed_in_slices() -> None:
    world = ShareStateWorld()
    groups = [f"g{number}" for number in range(SLICE_STATES + 10)]
    for group in groups:
        world.initialize(key_of(group, 1))
    world.initialize(key_of("g0", 2))

    world.handle(ForgetTopics(topic_ids=frozenset({topic_id(1), topic_id(3)})))
    at_once = len(world.states)
    world.advance(1)

    assert at_once == 11
    assert list(world.states) == [key_of("g0", 2)]
    world.crash()
    assert list(world.states) == [key_of("g0", 2)]


def test_long_names_of_groups_do_not_make_tombstones_too_many_for_a_batch() -> None:
    world = ShareStateWorld(ShareCoordinatorConfig(max_batch_bytes=1_500))
    for number in range(9):
        world.initialize(key_of("g" * 300 + str(number)))

    world.handle(ForgetTopics(topic_ids=frozenset({topic_id(1)})))
    world.advance(1)

    assert not world.states
    assert len(world.batch_ends) == 9 + 9


# ---- the log -----------------------------------------------------------------------------------------------


def test_the_log_is_pruned_to_the_earliest_of_the_last_snapshots() -> None:
    config = ShareCoordinatorConfig(
        share_coordinator_snapshot_update_records_per_snapshot=1,
        share_coordinator_cold_partition_snapshot_interval_ms=10 * FIVE_MINUTES_MS,
    )
    world = ShareStateWorld(config)
    other = key_of(partition=1)
    world.initialize()
    world.initialize(other)
    for at in range(4):
        world.write(batch(at, at))
    world.advance(FIVE_MINUTES_MS)
    held_by_the_other = world.log_start_offset

    for at in range(4):
        world.write(batch(at, at), key=other)
    world.advance(FIVE_MINUTES_MS)

    assert (held_by_the_other, world.log_start_offset) == (1, 5)
    before = world.states
    world.crash()
    assert world.states == before


def test_nothing_is_pruned_twice() -> None:
    world = ShareStateWorld(
        ShareCoordinatorConfig(share_coordinator_cold_partition_snapshot_interval_ms=10 * FIVE_MINUTES_MS)
    )
    world.initialize()
    world.initialize(state_epoch=1)

    world.advance(3 * FIVE_MINUTES_MS)  # the world rejects a second `PruneLog` of an offset

    assert world.log_start_offset == 1


def test_a_share_partition_without_writes_does_not_keep_the_log() -> None:
    world = ShareStateWorld()
    world.initialize()
    for at in range(10):
        world.initialize(key_of(partition=1), state_epoch=at)
        world.write(batch(at, at), key=key_of(partition=1), state_epoch=at)

    world.advance(FIVE_MINUTES_MS)
    first_round = len(world.rows)
    world.advance(FIVE_MINUTES_MS)

    assert world.log_start_offset == 21  # the new snapshot of the first, and then that of the second
    assert first_round == 23 and len(world.rows) == 23, "no state needs another snapshot"
    assert world.states[KEY].snapshot_epoch == 1
    assert world.states[KEY].create_time_ms < world.states[KEY].write_time_ms


def test_cold_states_that_are_large_do_not_come_in_one_batch() -> None:
    world = ShareStateWorld(ShareCoordinatorConfig(max_batch_bytes=2_000))
    for partition in range(2):
        world.initialize(key_of(partition=partition))
        world.write(*(batch(at, at) for at in range(0, 120, 2)), key=key_of(partition=partition))
    before = len(world.batch_ends)

    world.advance(FIVE_MINUTES_MS + 1)

    assert len(world.batch_ends) == before + 2
    assert all(1_000 < len(key) + len(value or b"") < 2_000 for key, value in world.rows[-2:])
    assert [one.snapshot_epoch for one in world.states.values()] == [1, 1]


def test_uncommitted_records_are_lost_in_a_crash() -> None:
    world = ShareStateWorld(commits=False)
    world.initialize()
    world.write(batch(0, 4, 2))

    world.submit(WriteState(KEY, 0, 0, 5, 0, ()))
    unanswered = len(world.waiting)
    world.crash()

    assert unanswered == 1
    assert world.read().batches == (batch(0, 4, 2),) and world.summary().start_offset == 0


def test_an_answer_waits_until_the_state_that_it_shows_is_committed() -> None:
    world = ShareStateWorld(commits=False)
    token = world.submit(InitializeState(KEY, 0, 0))
    refused = world.submit(InitializeState(KEY, -2, 0))

    assert token not in world.answers and refused not in world.answers
    world.commit()
    assert world.answers[refused].error is ErrorCode.INVALID_REQUEST


# ---- memory ------------------------------------------------------------------------------------------------


def test_new_states_leave_an_eighth_of_the_memory_to_present_ones() -> None:
    world = ShareStateWorld()
    node = NodeBytes(limit_bytes=6_000)
    world.shard.bytes.attach(node)
    for number in range(7):
        assert world.initialize(key_of(str(number))).error is ErrorCode.NONE

    refused = world.initialize(key_of("8"))

    assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.write(batch(0, 1), key=key_of("0")).error is ErrorCode.NONE
    full = world.write(*(batch(at, at) for at in range(10, 40, 2)), key=key_of("0"))
    assert full.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.delete(key_of("1"))
    assert node.used_bytes == world.shard.bytes.total
    assert world.initialize(key_of("8")).error is ErrorCode.NONE


def test_a_state_never_becomes_larger_than_a_record_may_be() -> None:
    world = ShareStateWorld(ShareCoordinatorConfig(max_batch_bytes=1_000))
    world.initialize()

    answers = [world.write(batch(at, at)).error for at in range(0, 100, 2)]

    assert answers.count(ErrorCode.NONE) == 35
    assert set(answers[35:]) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert world.write(batch(0, 98, 2), start_offset=90).error is ErrorCode.NONE, "smaller is always taken"


def test_the_number_of_states_in_a_shard_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_state_shard, "MAX_STATES_PER_SHARD", 2)
    world = ShareStateWorld()
    for number in range(2):
        world.initialize(key_of(str(number)))

    assert world.initialize(key_of("2")).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.initialize(key_of("0"), state_epoch=1).error is ErrorCode.NONE
    world.delete(key_of("1"))
    assert world.initialize(key_of("2")).error is ErrorCode.NONE


def test_the_number_of_batches_in_a_state_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_state, "MAX_BATCHES", 5)
    world = ShareStateWorld()
    world.initialize()

    answers = [world.write(batch(at, at)).error for at in range(0, 16, 2)]

    assert answers == [ErrorCode.NONE] * 5 + [ErrorCode.UNKNOWN_SERVER_ERROR] * 3
    assert world.write(batch(10, 10), start_offset=4).error is ErrorCode.NONE

"""The view of a share-partition's records in flight."""

from ottla.groupcoord.share_state.share_state_words import StateBatch
from ottla.node.share.share_window import ShareWindow
from ottla.node.share.share_words import FetchedRecords, ShareConfig
from ottla.node.share.window_view import WindowView, view_window
from tests.unit.node.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ALL,
    ARCHIVED,
    AVAILABLE,
    LOCK_MS,
    REJECT,
    RELEASE,
    Partition,
)


def view(partition: Partition, *, max_ranges: int = 10, stalled_ms: int = 0) -> WindowView:
    return partition.core.view(now_ms=partition.now_ms, max_ranges=max_ranges, stalled_ms=stalled_ms)


def test_records_are_counted_by_their_states() -> None:
    partition = Partition()
    partition.fetch("m1")
    partition.fetch("m2")
    partition.acknowledge(5, 6, ACCEPT)
    partition.acknowledge(7, 7, REJECT)
    partition.acknowledge(8, 9, RELEASE)

    seen = view(partition, stalled_ms=77)

    assert (seen.start_offset, seen.end_offset, seen.stalled_ms) == (0, 19, 77)
    assert (seen.acquired, seen.available, seen.acknowledged, seen.archived) == (15, 2, 2, 1)
    assert (seen.delayed, seen.backing_off, seen.delivery_count_limit) == (0, 0, 5)


def test_records_in_a_back_off_are_counted_apart_from_available_ones() -> None:
    partition = Partition(config=ShareConfig(retry_backoff_ms=1_000, retry_backoff_max_ms=1_000))
    partition.fetch()
    partition.acknowledge(0, 3, RELEASE)

    assert (view(partition).backing_off, view(partition).available, view(partition).delayed) == (4, 0, 0)
    partition.wait(1_000)
    assert (view(partition).backing_off, view(partition).available) == (0, 4)


def test_records_with_the_most_deliveries_come_first_without_those_done_with() -> None:
    batches = [
        StateBatch(0, 4, AVAILABLE, 2),
        StateBatch(5, 5, ACKNOWLEDGED, 4),
        StateBatch(6, 6, AVAILABLE, 4),
        StateBatch(7, 8, ARCHIVED, 5),
        StateBatch(9, 9, AVAILABLE, 1),
    ]
    seen = view(Partition(batches=batches), max_ranges=2)

    assert [(one.first_offset, one.last_offset, one.delivery_count) for one in seen.most_delivered] == [
        (6, 6, 4),
        (0, 4, 2),
    ]
    assert {(one.member_id, one.lock_left_ms) for one in seen.most_delivered} == {(None, 0)}
    assert seen.oldest == seen.most_delivered[1]


def test_the_oldest_record_is_the_first_that_is_not_done_with() -> None:
    partition = Partition()
    assert view(partition).oldest is None
    partition.fetch("m1")
    partition.begin_acknowledge(0, 3, ACCEPT)  # the coordinator has not answered yet

    oldest = view(partition).oldest

    assert oldest is not None
    assert (oldest.first_offset, oldest.last_offset, oldest.member_id) == (4, 9, "m1")


def test_locks_are_listed_by_their_ends_with_their_holders() -> None:
    partition = Partition()
    partition.fetch("m1")
    partition.now_ms += 10_000
    partition.fetch("m2")
    partition.now_ms += 1_000

    locks = view(partition).next_locks

    assert [(one.first_offset, one.member_id, one.lock_left_ms) for one in locks] == [
        (0, "m1", LOCK_MS - 11_000),
        (10, "m2", LOCK_MS - 1_000),
    ]
    assert {one.state for one in locks} == {ACQUIRED}
    assert [one.first_offset for one in view(partition, max_ranges=1).next_locks] == [0]


def test_a_record_that_is_held_but_lost_by_the_log_counts_as_held() -> None:
    partition = Partition()
    partition.fetch("m1", up_to=10)
    partition.acknowledge(10, 14, RELEASE)
    partition.core.move_log_start(12)

    seen = view(partition)

    assert (seen.start_offset, seen.acquired, seen.available) == (12, 15, 3)


def test_very_many_ranges_are_shown_in_short_lists() -> None:
    batches = [StateBatch(offset, offset, AVAILABLE, 1 + offset % 4) for offset in range(300)]
    partition = Partition(batches=batches, log=[(300, 399)])
    partition.core.acquire(
        "m1", partition.now_ms, FetchedRecords(300, [300], [399]), ALL, ALL, is_strict=False
    )

    seen = view(partition)

    assert (seen.acquired, seen.available) == (100, 300)
    assert [one.delivery_count for one in seen.most_delivered] == [4] * 10
    assert [one.first_offset for one in seen.next_locks] == [300]


def test_records_that_wait_for_dead_letters_hold_up_the_group() -> None:
    window, archiving = ShareWindow(), 3
    window.records.add(0, 1, state=ARCHIVED, count=5)
    window.records.add(2, 4, state=archiving, count=5)
    window.records.add(5, 5, state=AVAILABLE, count=1)

    seen = view_window(window, now_ms=0, max_ranges=10, delivery_count_limit=5, stalled_ms=0)

    assert seen.archived == 5
    assert seen.oldest is not None and (seen.oldest.first_offset, seen.oldest.state) == (2, archiving)

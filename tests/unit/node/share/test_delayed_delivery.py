"""Records that are not due wait in a share-partition, by the index, and others are delivered."""

from array import array
from collections.abc import Sequence

from ottla.groupcoord.share_state.share_state_words import StateBatch
from ottla.logstore.delivery_delay import DueTimes
from ottla.node.share.acquire_records import MAX_PASSED_RANGES
from ottla.node.share.share_words import FetchedRecords, ShareConfig, ShareLimits
from tests.unit.node.share.partitions import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ALL,
    AVAILABLE,
    LOCK_MS,
    NOW_MS,
    RELEASE,
    WAITING,
    Partition,
)


class Delaying:
    """A share-partition of a topic that delays delivery; `due` has offsets and their delays in ms."""

    def __init__(
        self,
        due: dict[int, int],
        *,
        max_records: int = 1000,
        locks: int = 2000,
        max_states: int = 20_000,
        batches: Sequence[StateBatch] = (),
        start_offset: int = 0,
    ) -> None:
        self.partition = Partition(
            config=ShareConfig(partition_max_record_locks=locks),
            limits=ShareLimits(max_states=max_states),
            batches=batches,
            start_offset=start_offset,
        )
        self.core = self.partition.core
        self.core.delay_delivery(max_records)
        self.due = {offset: NOW_MS + wait_ms for offset, wait_ms in due.items()}

    def fetch(
        self,
        first: int,
        last: int,
        *,
        batch_records: int = 10,
        max_records: int = ALL,
        is_strict: bool = False,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[tuple[int, int, int]]:
        """Acquire the records from `first` to `last` of a log with batches of `batch_records`."""
        bases = list(range(first // batch_records * batch_records, last + 1, batch_records))
        fetched = FetchedRecords(
            fetch_offset=first,
            base_offsets=bases,
            last_offsets=[min(base + batch_records - 1, last) for base in bases],
            never_delivered=aborted,
            due_times=[self.due_times(bases[0], last)],
        )
        acquired = self.core.acquire("m1", self.partition.now_ms, fetched, max_records, ALL, is_strict)
        self.partition.check()
        return [tuple(each) for each in acquired]

    def due_times(self, first: int, last: int) -> DueTimes:
        waiting = [(offset, due_ms) for offset, due_ms in sorted(self.due.items()) if first <= offset <= last]
        return DueTimes(
            array("q", [offset for offset, _ in waiting]), array("q", [time for _, time in waiting])
        )

    def wait(self, duration_ms: int) -> None:
        self.partition.wait(duration_ms)


def test_records_that_are_not_due_wait_and_others_are_delivered() -> None:
    delaying = Delaying({3: 500, 4: 100, 5: 900, 12: 100})

    assert delaying.fetch(0, 19) == [(0, 2, 1), (6, 11, 1), (13, 19, 1)]

    # One range for all contiguous waiting records, whenever they are due.
    assert delaying.partition.states[1] == (3, 5, WAITING, 0)
    assert delaying.core.in_flight_count == 16
    assert delaying.core.next_due() == NOW_MS + 100
    delaying.wait(99)
    assert delaying.core.next_fetch_offset() == 20
    delaying.wait(1)
    assert delaying.core.next_fetch_offset() == 4
    assert delaying.fetch(4, 19) == [(4, 4, 1), (12, 12, 1)]
    assert delaying.core.next_due() == NOW_MS + 500


def test_skipped_records_do_not_count_towards_the_number_that_a_member_asks_for() -> None:
    delaying = Delaying(dict.fromkeys(range(100), 500))

    assert delaying.fetch(0, 129, max_records=1) == [(100, 109, 1)]

    assert delaying.partition.states == [(0, 99, WAITING, 0), (100, 109, ACQUIRED, 1)]


def test_a_member_gets_all_records_it_asks_for_when_every_second_one_waits() -> None:
    delaying = Delaying(dict.fromkeys(range(1, 40, 2), 500))

    acquired = delaying.fetch(0, 39, max_records=6)

    assert acquired == [(offset, offset, 1) for offset in range(0, 20, 2)]  # up to the end of the batch


def test_in_strict_mode_no_more_records_are_acquired_and_later_ones_wait() -> None:
    delaying = Delaying(dict.fromkeys((3, 5, 7), 500))

    assert delaying.fetch(0, 9, max_records=4, is_strict=True) == [(0, 2, 1), (4, 4, 1)]

    assert delaying.partition.states == [
        (0, 2, ACQUIRED, 1),
        (3, 3, WAITING, 0),
        (4, 4, ACQUIRED, 1),
        (5, 5, WAITING, 0),
        (6, 6, AVAILABLE, 0),
        (7, 7, WAITING, 0),
        (8, 9, AVAILABLE, 0),
    ]
    assert delaying.fetch(6, 9, max_records=4, is_strict=True) == [(6, 6, 1), (8, 9, 1)]


def test_one_fetch_skips_a_limited_number_of_ranges_and_the_next_continues() -> None:
    delaying = Delaying(dict.fromkeys(range(1, 2_000, 2), 500))

    first = delaying.fetch(0, 1_999)
    reached = delaying.core.next_fetch_offset()

    assert reached == 2 * MAX_PASSED_RANGES + 1
    assert first == [(offset, offset, 1) for offset in range(0, reached, 2)]
    assert delaying.fetch(reached, 1_999)[0] == (reached + 1, reached + 1, 1)


def test_records_of_an_aborted_transaction_do_not_wait_until_they_would_be_due() -> None:
    delaying = Delaying(dict.fromkeys(range(20), 500))

    assert delaying.fetch(0, 29, aborted=[(0, 9)]) == [(20, 29, 1)]

    assert delaying.core.start_offset == 10
    assert delaying.partition.states[0] == (10, 19, WAITING, 0)


def test_a_record_that_waits_longer_than_a_lock_is_not_fetched_again_and_again() -> None:
    delaying = Delaying({3: 10 * LOCK_MS})
    delaying.fetch(0, 9)

    delaying.wait(LOCK_MS)

    assert delaying.partition.states[1] == (3, 3, WAITING, 0)
    assert delaying.fetch(0, 9) == [(0, 2, 2), (4, 9, 2)]
    assert delaying.core.next_fetch_offset() == 10


def test_no_fetch_is_tried_again_while_too_many_wait() -> None:
    """Its response would be empty, and its member would ask again at once."""
    delaying = Delaying({0: 100, 50: 200}, max_records=1)
    delaying.fetch(0, 9)
    fetched = FetchedRecords(10, [50], [59], due_times=[delaying.due_times(50, 59)])

    assert delaying.core.acquire("m1", NOW_MS, fetched, ALL, ALL, False) == []

    assert not delaying.core.may_acquire()
    delaying.wait(100)
    assert delaying.fetch(0, 9) == [(0, 0, 1)]
    assert delaying.core.next_fetch_offset() == 10 and delaying.core.may_acquire()


def test_compacted_records_take_no_room() -> None:
    """The next record may be further ahead than there is room for ranges."""
    delaying = Delaying({100_001: 100}, max_states=64)
    fetched = FetchedRecords(0, [100_000], [100_002], due_times=[delaying.due_times(100_000, 100_002)])

    acquired = delaying.core.acquire("m1", NOW_MS, fetched, ALL, ALL, False)

    assert acquired == [(100_000, 100_000, 1), (100_002, 100_002, 1)]


def test_compacted_records_after_a_waiting_one_take_no_locks() -> None:
    delaying = Delaying({0: 10**9}, locks=20)
    delaying.fetch(0, 1)
    fetched = FetchedRecords(2, [1_000], [1_009], due_times=[delaying.due_times(1_000, 1_009)])

    assert delaying.core.acquire("m1", NOW_MS, fetched, ALL, ALL, False) == [(1_000, 1_009, 1)]

    assert delaying.core.in_flight_count == 11
    assert delaying.core.may_acquire()


def test_a_compacted_gap_does_not_hold_the_start_offset() -> None:
    delaying = Delaying({}, batches=[StateBatch(50, 59, ACKNOWLEDGED, 1)], locks=5)
    assert delaying.core.next_fetch_offset() == 0

    fetched = FetchedRecords(0, [50], [59], due_times=[delaying.due_times(50, 59)])
    assert delaying.core.acquire("m1", NOW_MS, fetched, ALL, ALL, False) == []

    assert delaying.partition.window == (60, 60)


def test_compacted_records_make_room_when_there_is_none() -> None:
    released = [StateBatch(each, each, AVAILABLE, each % 2 + 1) for each in range(40)]
    delaying = Delaying({}, batches=released, max_states=64)
    fetched = FetchedRecords(0, [50], [59], due_times=[delaying.due_times(50, 59)])

    assert delaying.core.acquire("m1", NOW_MS, fetched, ALL, ALL, False) == [(50, 59, 1)]

    delaying.partition.check()
    assert delaying.partition.window == (50, 59)


def test_one_delayed_record_does_not_hold_up_others() -> None:
    delaying = Delaying({0: 10**9}, locks=20)
    for first in range(0, 5000, 10):
        assert delaying.core.may_acquire()
        acquired = delaying.fetch(first, first + 9)
        delaying.partition.acknowledge(acquired[0][0], first + 9, ACCEPT)

    assert delaying.partition.states == [(0, 0, WAITING, 0), (1, 4999, ACKNOWLEDGED, 1)]
    assert delaying.core.in_flight_batch_count == 1
    delaying.wait(10**9)
    assert delaying.fetch(0, 9) == [(0, 0, 1)]
    delaying.partition.acknowledge(0, 0, ACCEPT)
    assert delaying.partition.window == (5000, 5000)


def test_delayed_records_that_come_one_by_one_are_one_range() -> None:
    delaying = Delaying({offset: 1000 + offset for offset in range(500)}, max_states=64)

    for offset in range(500):
        assert delaying.fetch(offset, offset, batch_records=1) == []

    assert delaying.partition.states == [(0, 499, WAITING, 0)]
    assert delaying.core.delayed_count == 500


def test_when_too_many_records_wait_all_later_ones_wait_as_well() -> None:
    delaying = Delaying({offset: 100 + offset for offset in range(10, 16)}, max_records=4)

    assert delaying.fetch(0, 19) == [(0, 9, 1)]

    assert delaying.partition.window == (0, 13)  # up to the last record for which there was room
    assert not delaying.core.may_acquire()
    assert delaying.fetch(14, 19) == []
    delaying.wait(110)
    assert delaying.core.may_acquire()
    assert delaying.fetch(10, 19) == [(10, 10, 1)]
    assert delaying.fetch(14, 19) == []
    delaying.wait(1)
    assert delaying.fetch(11, 19) == [(11, 11, 1), (16, 19, 1)]


def test_a_new_leader_finds_waiting_records() -> None:
    """No state was written for waiting records, so they are gaps between the written ones."""
    batches = [StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(20, 29, ACKNOWLEDGED, 1)]
    delaying = Delaying(dict.fromkeys((*range(5, 10), *range(15, 20)), 100), batches=batches, start_offset=5)

    assert delaying.core.next_fetch_offset() == 5
    assert delaying.fetch(5, 39) == [(30, 39, 1)]

    delaying.wait(100)
    assert delaying.fetch(5, 39) == [(5, 9, 1), (15, 19, 1)]


def test_a_gap_without_room_for_it_is_not_skipped() -> None:
    """It would never be fetched again, since the end offset is after it."""
    released = [StateBatch(each, each, AVAILABLE, each % 2 + 1) for each in range(40) if each != 30]
    delaying = Delaying({30: 100}, batches=released, max_states=40)

    first = delaying.fetch(0, 59, batch_records=20)

    assert (first[0][0], first[-1][1]) == (0, 29)
    assert delaying.core.next_fetch_offset() == 30
    assert not delaying.core.may_acquire()  # so a fetch does not try again and again
    for begin, end, _ in first:
        delaying.partition.acknowledge(begin, end, ACCEPT)
    assert delaying.core.may_acquire()  # nothing else would make room
    delaying.fetch(30, 59)
    delaying.wait(100)
    assert delaying.fetch(delaying.core.next_fetch_offset(), 59)[0] == (30, 30, 1)


def test_without_room_one_range_of_a_long_gap_is_acquired() -> None:
    released = [StateBatch(each, each, AVAILABLE, each % 2 + 1) for each in range(100, 140)]
    due = {each: 100 for each in range(100) if each % 10 == 5}
    delaying = Delaying(due, batches=released, max_states=40)

    assert delaying.fetch(0, 139) == [(0, 4, 1)]

    assert not delaying.core.may_acquire()
    delaying.partition.acknowledge(0, 4, ACCEPT)
    assert delaying.fetch(5, 139) == []
    assert delaying.partition.states[0] == (5, 5, WAITING, 0)


def test_the_first_record_is_freed_however_many_ranges_there_are() -> None:
    delaying = Delaying({offset: 10**6 + offset for offset in range(0, 400, 2)}, max_states=64)
    first = 0
    while delaying.core.may_acquire():
        for begin, end, _ in delaying.fetch(first, 399):
            delaying.partition.acknowledge(begin, end, ACCEPT)
        first = delaying.core.end_offset + 1

    assert len(delaying.partition.states) <= 32
    assert first < 399
    delaying.wait(10**6 + 400)  # all records are due
    seen = 0
    for _ in range(1000):
        offset = delaying.core.next_fetch_offset()
        if offset > 399:
            break
        for begin, end, _ in delaying.fetch(offset, 399):
            delaying.partition.acknowledge(begin, end, ACCEPT)
            seen += end - begin + 1
        delaying.wait(0)
    assert delaying.core.start_offset == 400
    assert seen > 200


def test_due_records_wait_for_the_first_one_when_there_are_too_many_ranges() -> None:
    delaying = Delaying({each: 100 if each % 2 else 10_000 for each in range(400)}, max_states=64)
    while delaying.core.end_offset < 399:
        assert delaying.fetch(delaying.core.end_offset and delaying.core.end_offset + 1, 399) == []
    delaying.wait(100)
    first = delaying.fetch(delaying.core.next_fetch_offset(), 399)
    for begin, end, _ in first:
        delaying.partition.acknowledge(begin, end, ACCEPT)

    assert 0 < len(first) < 200 and len(delaying.partition.states) <= 48
    assert delaying.core.next_due() == NOW_MS + 10_000  # when the first record is due

    delaying.wait(9_900)
    seen = len(first)
    while delaying.core.start_offset < 400:
        for begin, end, _ in delaying.fetch(delaying.core.next_fetch_offset(), 399):
            delaying.partition.acknowledge(begin, end, ACCEPT)
            seen += end - begin + 1
        delaying.wait(0)
    assert seen == 400


def test_a_due_record_that_is_released_is_available_at_once() -> None:
    delaying = Delaying({0: 100, 1: 100})
    delaying.fetch(0, 1)
    delaying.wait(100)
    assert delaying.fetch(0, 1) == [(0, 1, 1)]

    delaying.partition.acknowledge(0, 1, RELEASE)

    assert delaying.fetch(0, 1) == [(0, 1, 2)]


def test_records_that_the_log_loses_do_not_wait() -> None:
    delaying = Delaying(dict.fromkeys(range(10), 100))
    delaying.fetch(0, 9)

    delaying.core.move_log_start(10)

    delaying.partition.check()
    assert delaying.partition.window == (10, 10)
    assert delaying.core.delayed_count == 0 and delaying.core.next_due() is None


def test_a_topic_that_stops_delaying_delivers_all_records_at_once() -> None:
    delaying = Delaying(dict.fromkeys(range(10), 10**6))
    delaying.fetch(0, 19)

    delaying.core.delay_delivery(None)

    assert delaying.partition.states[0] == (0, 9, AVAILABLE, 0)
    assert delaying.partition.fetch(up_to=19)[0] == (0, 9, 1)


def test_many_records_due_at_once_are_freed_in_turns() -> None:
    count = 100_000
    delaying = Delaying({}, max_records=count)
    offsets = array("q", range(count))
    due_ms = array("q", [NOW_MS + 5]) * count
    fetched = FetchedRecords(
        0, range(0, count, 1000), range(999, count, 1000), due_times=[DueTimes(offsets, due_ms)]
    )
    while delaying.core.end_offset < count - 1:
        before = delaying.core.end_offset
        assert delaying.core.acquire("m1", NOW_MS, fetched, ALL, ALL, False) == []
        assert delaying.core.end_offset > before

    assert delaying.partition.states == [(0, count - 1, WAITING, 0)]
    delaying.wait(5)
    turns = 1
    while (next_ms := delaying.core.next_due()) is not None and next_ms <= delaying.partition.now_ms:
        delaying.core.free_due(delaying.partition.now_ms)
        turns += 1
    assert turns == 50
    assert delaying.core.delayed_count == 0

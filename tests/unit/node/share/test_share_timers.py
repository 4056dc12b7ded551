"""Timers of share-partitions, by a clock that only goes forward and by one that may be set."""

from array import array
from collections import Counter

import pytest

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey, StateRead
from ottla.logstore.delivery_delay import DueTimes
from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_timers import CLOCK_DRIFT_MS, CLOCK_LOOK_MS, MAX_RESET, ShareTimers
from ottla.node.share.share_words import FetchedRecords, ShareConfig, ShareLimits
from tests.unit.node.coordinators.test_timer_queue import ManualLoop
from tests.unit.node.share.partitions import ALL, LOCK_MS, NOW_MS


class Node:
    """The clocks of a node, its timers, and the share-partitions whose timer has fired."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.ahead_ms = 0
        self.expired: list[tuple[int, int]] = []  # the number of the partition, and the time in seconds
        self.cores: dict[SharePartitionKey, SharePartition] = {}
        self.timers = ShareTimers(
            self.now_ms,
            self.wall_ms,
            self.expire,
            lambda: TimerQueue(self.loop),  # type: ignore[arg-type]
        )

    def now_ms(self) -> int:
        return NOW_MS + round(self.loop.now_s * 1000)

    def wall_ms(self) -> int:
        return self.now_ms() + self.ahead_ms

    def expire(self, key: SharePartitionKey) -> None:
        core = self.cores[key]
        before = core.delayed_count
        core.free_due(self.wall_ms())
        core.expire(self.now_ms())
        if core.delayed_count < before or not before:
            self.expired.append((key.partition, round(self.loop.now_s)))
        self.timers.start(core)

    def add(self, number: int, *waits_ms: int, locked: bool = False) -> SharePartition:
        """Add a share-partition with a record for each wait; with `locked` a member holds another one."""
        key = SharePartitionKey("workers", bytes(16), number)
        self.cores[key] = core = SharePartition(key, 1, ShareConfig(), ShareLimits())
        core.restore(StateRead(key, state_epoch=0, start_offset=0), 0)
        core.delay_delivery(1000)
        count = len(waits_ms)
        due_ms = array("q", [self.wall_ms() + wait_ms for wait_ms in waits_ms])
        last = count if locked else count - 1
        fetched = FetchedRecords(0, [0], [last], due_times=[DueTimes(array("q", range(count)), due_ms)])
        core.acquire("m1", self.now_ms(), fetched, ALL, ALL, False)
        self.timers.start(core)
        return core


def test_a_record_comes_when_it_is_due_and_a_lock_ends_in_time() -> None:
    node = Node()
    node.add(1, 100_000, locked=True)
    node.add(2, 7_000)

    node.loop.advance(200)

    assert node.expired == [(2, 7), (1, 100)]
    assert node.cores[SharePartitionKey("workers", bytes(16), 1)].next_expiry() is None


def test_a_clock_that_is_set_forward_is_noticed_within_a_second() -> None:
    node = Node()
    node.add(1, 100_000)
    node.loop.advance(10)

    node.ahead_ms += 85_000
    node.loop.advance(5 + CLOCK_LOOK_MS / 1000)

    assert node.expired == [(1, 15)]


def test_a_record_that_is_due_since_the_clock_was_set_comes_at_once() -> None:
    node = Node()
    node.add(1, 100_000)
    node.loop.advance(10)

    node.ahead_ms += 10**9
    node.loop.advance(CLOCK_LOOK_MS / 1000)

    assert [number for number, _ in node.expired] == [1]


def test_a_clock_that_is_set_back_postpones_records_but_not_locks() -> None:
    node = Node()
    core = node.add(1, 100_000, locked=True)
    node.loop.advance(10)

    node.ahead_ms -= 50_000

    node.loop.advance(139)
    assert node.expired == [] and core.delayed_count == 1
    assert core.holder_of(1) is None  # the lock of 30 s has ended
    node.loop.advance(1)
    assert node.expired == [(1, 150)]


def test_a_clock_that_is_slewed_is_followed() -> None:
    node = Node()
    node.add(1, 1_000_000)

    for _ in range(1_000):
        node.ahead_ms += CLOCK_DRIFT_MS // 10
        node.loop.advance(1)

    assert [number for number, _ in node.expired] == [1]
    assert 997 <= node.expired[0][1] <= 999  # by the wall clock, which gains 2 ms a second


def test_timers_of_very_many_waiting_records_are_set_again_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    count = 2 * MAX_RESET + 1
    for number in range(count):
        node.add(number, 100_000)
    set_in_turn: Counter[int] = Counter()
    start = ShareTimers.start

    def counted(timers: ShareTimers, core: SharePartition) -> None:
        set_in_turn[node.loop.turns] += 1
        start(timers, core)

    monkeypatch.setattr(ShareTimers, "start", counted)

    node.ahead_ms += 50_000
    node.loop.advance(CLOCK_LOOK_MS / 1000)
    assert list(set_in_turn.values()) == [MAX_RESET, MAX_RESET, 1]
    node.loop.advance(50)

    assert sorted(number for number, _ in node.expired) == list(range(count))


def test_the_clocks_are_not_compared_when_no_record_waits() -> None:
    node = Node()
    core = node.add(1, 5_000)
    node.add(2, locked=True)
    node.timers.cancel(core.key)
    node.loop.advance(6)
    armed = node.loop.armed

    node.loop.advance(LOCK_MS / 1000 - 7)

    assert node.loop.armed == armed
    assert node.expired == [] and len(node.timers) == 1
    node.timers.close()
    assert len(node.timers) == 0
    node.loop.advance(100)
    assert node.expired == []

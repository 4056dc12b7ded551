"""The timer queue, on a loop with a manual clock."""

import asyncio
import itertools
import random
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ottla.node.coordinators.timer_queue import MAX_CALLS_PER_TURN, MAX_STALE_ENTRIES, TimerQueue


class ManualLoop:
    """The methods of a loop that a timer queue uses."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.calls: list[tuple[float, asyncio.TimerHandle, Callable[[], None]]] = []
        self.armed = 0
        self.turns = 0

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Callable[[], None], *_: Any) -> "ManualHandle":
        self.armed += 1
        handle = ManualHandle(when_s, callback)
        self.calls.append((when_s, handle, callback))  # type: ignore[arg-type]
        return handle

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self.call_at(self.now_s, lambda: callback(*arguments))

    def advance(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while True:
            due = [call for call in self.calls if call[0] <= until_s and not call[1].cancelled()]
            if not due:
                break
            first = min(due, key=lambda call: call[0])
            self.calls.remove(first)
            self.now_s = max(self.now_s, first[0])
            self.turns += 1
            first[2]()
        self.now_s = until_s


class ManualHandle:
    """The handle of a call of a manual loop."""

    def __init__(self, when_s: float, callback: Callable[[], None]) -> None:
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled


@pytest.fixture
def loop() -> ManualLoop:
    return ManualLoop()


@pytest.fixture
def timers(loop: ManualLoop) -> TimerQueue:
    return TimerQueue(loop)  # type: ignore[arg-type]


def test_timers_fire_once_in_the_order_of_their_deadlines(loop: ManualLoop, timers: TimerQueue) -> None:
    fired: list[str] = []
    for name, delay_ms in [("c", 30), ("a", 10), ("b", 20), ("now", 0)]:
        timers.start(name, delay_ms, lambda name=name: fired.append(name))  # type: ignore[misc]

    loop.advance(0.025)
    assert fired == ["now", "a", "b"]
    loop.advance(1)

    assert fired == ["now", "a", "b", "c"]
    assert len(timers) == 0


def test_a_cancelled_timer_does_not_fire(loop: ManualLoop, timers: TimerQueue) -> None:
    fired: list[str] = []
    timers.start("a", 10, lambda: fired.append("a"))

    timers.cancel("a")
    timers.cancel("never started")
    loop.advance(1)

    assert fired == []


@pytest.mark.parametrize(("moved_ms", "fires_s"), [(50, 0.05), (5, 0.005)])
def test_a_timer_that_is_started_again_moves(
    loop: ManualLoop, timers: TimerQueue, moved_ms: int, fires_s: float
) -> None:
    fired: list[float] = []
    timers.start("a", 10, lambda: fired.append(-1))

    timers.start("a", moved_ms, lambda: fired.append(loop.now_s))
    loop.advance(1)

    assert fired == [pytest.approx(fires_s)]


def test_moving_a_timer_to_a_later_time_does_not_wake_the_loop(loop: ManualLoop, timers: TimerQueue) -> None:
    timers.start("session", 10_000, lambda: None)

    for _ in range(1_000):
        loop.advance(0.001)
        timers.start("session", 10_000, lambda: None)

    assert loop.armed == 1


def test_a_callback_may_start_and_cancel_timers(loop: ManualLoop, timers: TimerQueue) -> None:
    fired: list[str] = []

    def again() -> None:
        fired.append("again")
        timers.cancel("victim")
        timers.start("next", 0, lambda: fired.append("next"))

    timers.start("a", 10, again)
    timers.start("victim", 11, lambda: fired.append("victim"))
    loop.advance(1)

    assert fired == ["again", "next"]


def test_a_callback_that_fails_does_not_stop_the_others(loop: ManualLoop, timers: TimerQueue) -> None:
    fired: list[str] = []

    def fail() -> None:
        raise AssertionError("a bug")

    timers.start("a", 10, fail)
    timers.start("b", 10, lambda: fired.append("b"))

    with pytest.raises(AssertionError):
        loop.advance(0.01)
    loop.advance(1)

    assert fired == ["b"]


def test_stale_entries_are_swept_and_nothing_is_lost(loop: ManualLoop, timers: TimerQueue) -> None:
    class Name:
        """A timer's name that can have a weak reference."""

    fired: list[int] = []
    remembered: weakref.WeakSet[Name] = weakref.WeakSet()
    for step in range(5 * MAX_STALE_ENTRIES):
        name = Name()
        remembered.add(name)
        timers.start(name, 1_000_000, lambda: None)
        timers.cancel(name)
        if step % 500 == 0:
            timers.start(("kept", step), 1_000, lambda step=step: fired.append(step))  # type: ignore[misc]

    assert len(remembered) + len(timers) <= 2 * len(timers) + MAX_STALE_ENTRIES + 1
    loop.advance(2)

    assert fired == list(range(0, 5 * MAX_STALE_ENTRIES, 500))


@pytest.mark.parametrize("seed", range(20))
def test_a_queue_agrees_with_a_simple_model(seed: int) -> None:
    loop = ManualLoop()
    timers = TimerQueue(loop)  # type: ignore[arg-type]
    chance = random.Random(seed)
    model: dict[int, float] = {}
    fired: list[int] = []
    expected: list[int] = []
    for _ in range(300):
        key = chance.randrange(8)
        match chance.randrange(3):
            case 0:
                delay_ms = chance.randrange(1, 100_000)
                model[key] = loop.now_s + delay_ms / 1000
                timers.start(key, delay_ms, lambda key=key: fired.append(key))  # type: ignore[misc]
            case 1:
                model.pop(key, None)
                timers.cancel(key)
            case _:
                until_s = loop.now_s + chance.randrange(20_000) / 1000 + 0.0005
                loop.advance(until_s - loop.now_s)
                due = sorted((at, key) for key, at in model.items() if at <= until_s)
                expected += [key for _, key in due]
                for _, key in due:
                    del model[key]
        assert fired == expected


async def _real_loop() -> list[str]:
    timers = TimerQueue()
    fired: list[str] = []
    done = asyncio.get_running_loop().create_future()
    timers.start("b", 4, lambda: (fired.append("b"), done.set_result(None)))  # type: ignore[func-returns-value, arg-type]
    timers.start("a", 1, lambda: fired.append("a"))
    await asyncio.wait_for(done, 60)
    timers.start("c", 1, lambda: fired.append("c"))
    timers.close()
    await asyncio.sleep(0.005)
    return fired


def test_timers_fire_on_a_real_loop_until_the_queue_closes() -> None:
    assert asyncio.run(_real_loop()) == ["a", "b"]


def test_very_many_due_timers_take_turns_with_the_loop(loop: ManualLoop) -> None:
    timers = TimerQueue(loop)  # type: ignore[arg-type]
    fired: list[int] = []
    last = MAX_CALLS_PER_TURN + 2

    def in_between() -> None:
        assert len(fired) == MAX_CALLS_PER_TURN
        timers.cancel(last)
        timers.start(last - 1, 50, lambda: fired.append(-1))

    def fire(number: int) -> None:
        fired.append(number)
        if number == 0:
            loop.call_soon(in_between)

    for number in range(last + 1):
        timers.start(number, 10, partial(fire, number))
    loop.advance(0.010)

    assert fired == list(range(MAX_CALLS_PER_TURN + 1))  # one was cancelled in between, one moved
    loop.advance(0.050)
    assert fired[-1] == -1 and len(timers) == 0


def test_slow_timers_take_turns_by_their_cpu_time(loop: ManualLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = itertools.count(0.0, 1.0)
    monkeypatch.setattr("ottla.node.coordinators.timer_queue.thread_cpu_s", lambda: next(now_s))
    timers = TimerQueue(loop)  # type: ignore[arg-type]
    order: list[str] = []

    def fire(number: int) -> None:
        order.append(f"timer {number}")
        loop.call_soon(order.append, "another")

    for number in range(3):
        timers.start(number, 10, partial(fire, number))
    loop.advance(0.010)

    assert order == ["timer 0", "another", "timer 1", "another", "timer 2", "another"]


def test_very_many_due_timers_are_found_in_turns_and_called_in_order(
    loop: ManualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.node.coordinators.timer_queue.MAX_DUE_PER_TURN", 2)
    timers = TimerQueue(loop)  # type: ignore[arg-type]
    fired: list[int] = []
    for number in range(9):
        timers.start(number, 10, partial(fired.append, number))

    loop.advance(0.010)

    assert fired == list(range(9))
    assert len(timers) == 0

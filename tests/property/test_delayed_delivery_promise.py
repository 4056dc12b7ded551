"""No record is delivered before it is due, each is delivered eventually, and none after it is finished."""

import random
from array import array
from bisect import bisect_left

import pytest

from ottla.groupcoord.share_state.share_state_words import SharePartitionKey, StateBatch, StateRead
from ottla.logstore.delivery_delay import DueTimes
from ottla.node.share import delayed_index
from ottla.node.share.share_partition import SharePartition
from ottla.node.share.share_words import (
    AcknowledgementBatch,
    FetchedRecords,
    Outcome,
    ShareConfig,
    ShareLimits,
    Transition,
)
from tests.thorough import some_of

KEY = SharePartitionKey("workers", bytes(range(16)), 0)
MEMBERS = ("m1", "m2", "m3")
ACCEPT, RELEASE, REJECT = 1, 2, 3
LONGEST_MS = 20_000
FAULTS = ("grown", "deleted", "compacted", "aborted", "switched", "altered", "set")


class Walk:
    """A random walk: a log of records with due times, the finished ones, and the coordinator's state.

    Besides the steps of members and of time there are new leaders, a log that grows, loses its start, is
    compacted and has aborted batches, a topic whose delays are switched off and on, group offsets that are
    altered, and a clock that is set.
    """

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.now_ms = 1_000
        self.wall_ms = self.latest_ms = 1_000
        self.config = ShareConfig(
            record_lock_duration_ms=500,
            delivery_count_limit=1000,
            partition_max_record_locks=chance.choice([5, 50, 2000]),
            retry_backoff_ms=chance.choice([0, 0, 50]),
            retry_backoff_max_ms=300,
        )
        self.limits = ShareLimits(max_states=chance.choice([16, 64, 20_000]))
        self.max_records = chance.choice([1, 7, 10_000])
        self.faults = [each for each in FAULTS if chance.random() < 0.5]
        self.is_combined = chance.random() < 0.5  # the coordinator merges adjacent batches
        self.is_delayed = True
        self.share = chance.choice([0.05, 0.5, 1.0])
        self.bases: list[int] = []
        self.lasts: list[int] = []
        self.due: dict[int, int] = {}
        self.aborted: set[int] = set()  # first offsets of batches
        self.never: set[int] = set()  # all records of the aborted batches
        self.end = 0
        self.grow(chance.randrange(1, 60))
        self.written: dict[int, tuple[int, int]] = {}
        self.start = 0
        self.log_start = 0
        self.done: set[int] = set()  # records that are finished or must not be delivered for another reason
        self.held: list[tuple[str, int, int]] = []
        self.core = self.lead()

    def grow(self, count: int) -> None:
        for _ in range(count):
            last = self.end + self.chance.choice([0, 0, 1, 4, 20])
            self.bases.append(self.end)
            self.lasts.append(last)
            for each in range(self.end, last + 1):
                if self.chance.random() < self.share:
                    wait_ms = self.chance.choice([1, 700, self.chance.randint(0, LONGEST_MS)])
                    self.due[each] = self.wall_ms + wait_ms
            if "aborted" in self.faults and self.chance.random() < 0.2:
                self.aborted.add(self.end)
                self.never.update(range(self.end, last + 1))
            self.end = last + 1

    def lead(self) -> SharePartition:
        core = SharePartition(KEY, 1, self.config, self.limits)
        if self.chance.random() < 0.5:
            core.delay_delivery(self.max_records)
        core.restore(StateRead(KEY, state_epoch=1, start_offset=self.start, batches=self.batches()), 0)
        self.held = []
        return core

    def batches(self) -> tuple[StateBatch, ...]:
        batches: list[StateBatch] = []
        for offset in sorted(self.written):
            each = StateBatch(offset, offset, *self.written[offset])
            before = batches[-1] if batches else None
            if offset < self.start:
                continue
            if self.is_combined and before and (before.last_offset + 1, *before[2:]) == (offset, *each[2:]):
                batches[-1] = before._replace(last_offset=offset)
            else:
                batches.append(each)
        return tuple(batches)

    def fetch(self) -> None:
        core = self.core
        if self.log_start > core.start_offset:
            core.move_log_start(self.log_start)
        core.delay_delivery(self.max_records if self.is_delayed else None)
        offset = core.next_fetch_offset()
        if not core.may_acquire() or offset >= self.end:
            return
        begin = bisect_left(self.lasts, offset)
        end = begin + self.chance.choice([1, 3, 50])
        bases, lasts = self.bases[begin:end], self.lasts[begin:end]
        if not bases:
            return
        waiting = [
            (each, self.due[each])
            for base, last in zip(bases, lasts, strict=True)
            for each in range(base, last + 1)
            if self.due.get(each, 0) > self.wall_ms and each >= core.delays_from and self.is_delayed
        ]
        due_times = DueTimes(array("q", [each for each, _ in waiting]), array("q", [ms for _, ms in waiting]))
        aborted = [each for each in zip(bases, lasts, strict=True) if each[0] in self.aborted]
        member = self.chance.choice(MEMBERS)
        max_records, is_strict = self.chance.choice([1, 10, 500]), self.chance.random() < 0.3
        fetched = FetchedRecords(offset, bases, lasts, aborted, [due_times] if self.is_delayed else ())
        before = self.seen()
        acquired = core.acquire(member, self.now_ms, fetched, max_records, 500, is_strict)
        assert acquired or self.seen() != before, (
            f"a fetch from {offset} changed nothing, and neither will the next one"
        )
        for first, last, count in acquired:
            for each in range(first, last + 1):
                # A record that was delivered before may be delivered again, whatever clock and topic say now.
                assert self.is_due(each) or count > 1, f"{each} was not due"
                assert each not in self.done, f"{each} was done with"
                assert each not in self.never, f"{each} was aborted"
            self.held.append((member, first, last))

    def seen(self) -> object:
        """Return all state that a fetch may change."""
        core = self.core
        offsets = core.next_fetch_offset(), core.delays_from, core.start_offset
        return offsets, core.may_acquire(), core.delayed_count, core.states()

    def is_due(self, offset: int) -> bool:
        return not self.is_delayed or self.due.get(offset, 0) <= max(self.wall_ms, self.latest_ms)

    def acknowledge(self, *, accepts: bool = False) -> None:
        if not self.held:
            return
        member, first, last = self.held.pop(self.chance.randrange(len(self.held)))
        kinds = [ACCEPT] if accepts else [ACCEPT, ACCEPT, RELEASE, REJECT]
        types = [self.chance.choice(kinds) for _ in range(first, last + 1)]
        if self.chance.random() < 0.5:
            types = types[:1]
        outcome = self.core.acknowledge(member, [AcknowledgementBatch(first, last, types)], self.now_ms)
        if not outcome.error:
            self.settle(outcome, fails=not accepts and self.chance.random() < 0.1)

    def settle(self, outcome: Outcome, *, fails: bool = False) -> None:
        if outcome.write is None:
            return
        assert isinstance(outcome.transition, Transition)
        if fails:
            self.core.failed(outcome.transition)
            return
        for first, last, state, count in outcome.write.batches:
            for each in range(first, last + 1):
                self.written[each] = (state, count)
                if state:
                    self.done.add(each)
        self.start = max(self.start, outcome.write.start_offset)
        self.core.persisted(outcome.transition, self.now_ms)

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.wall_ms += duration_ms
        self.latest_ms = max(self.latest_ms, self.wall_ms)
        self.core.free_due(self.wall_ms)
        self.settle(self.core.expire(self.now_ms))

    def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.5:
            self.fetch()
        elif kind < 0.75:
            self.acknowledge()
        elif kind < 0.94:
            self.pass_time(self.chance.choice([0, 1, 100, 1000]))
        elif kind < 0.97 or not self.faults:
            self.core = self.lead()
        else:
            self.fault(self.chance.choice(self.faults))
        self.check()

    def fault(self, kind: str) -> None:
        match kind:
            case "grown":
                self.grow(self.chance.randrange(1, 10))
            case "deleted":
                self.log_start = max(self.log_start, self.core.start_offset + self.chance.randint(1, 30))
                self.log_start = min(self.log_start, self.end)
                self.done |= set(range(self.log_start))
                kept = bisect_left(self.lasts, self.log_start)
                del self.bases[:kept], self.lasts[:kept]
            case "compacted":
                # Never the last one, which is in the active segment.
                number = self.chance.randrange(max(len(self.bases) - 1, 1))
                if number < len(self.bases) - 1:
                    for each in range(self.bases[number], self.lasts[number] + 1):
                        self.due.pop(each, None)  # a range may span it, as clients find no record there
                    self.never -= set(range(self.bases[number], self.lasts[number] + 1))
                    del self.bases[number], self.lasts[number]
            case "aborted":
                pass  # batches are aborted when the log grows
            case "switched":
                self.is_delayed = not self.is_delayed
            case "altered":
                self.start = self.chance.randint(self.log_start, self.end)
                self.written.clear()
                self.done = {*range(self.start)}
                self.core = self.lead()
            case "set":
                self.wall_ms = max(self.wall_ms + self.chance.choice([-5_000, -100, 100, 5_000]), 0)
                self.pass_time(0)

    def present(self) -> set[int]:
        """Return the records of the log that may be delivered."""
        return {
            each
            for base, last in zip(self.bases, self.lasts, strict=True)
            if base not in self.aborted
            for each in range(base, last + 1)
        }

    def check(self) -> None:
        self.core.check_invariants()

    def finish(self) -> None:
        """Let members accept all records that they get, until none is left."""
        for _ in range(40 * self.end + 4000):
            if not self.present() - self.done and self.core.next_fetch_offset() >= self.end:
                return
            self.fetch()
            while self.held:  # a lock that expires while others are accepted costs a delivery
                self.acknowledge(accepts=True)
            if self.chance.random() < 0.3:
                self.pass_time(self.chance.choice([1, 600]))
            self.check()
        left = sorted(self.present() - self.done)
        raise AssertionError(f"never delivered: {left[:10]} at {self.now_ms}, {self.core.states()[:10]}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_of(range(16), of_each_run=2))
def test_delayed_records_are_delivered_when_they_are_due(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_index, "BLOCK_RECORDS", 8)
    monkeypatch.setattr(delayed_index, "FEW_RECORDS", 2)
    for number in range(15):
        walk = Walk(seed * 100 + number)
        for _ in range(walk.chance.choice([20, 200])):
            walk.step()
        walk.finish()
        walk.pass_time(2 * LONGEST_MS)
        assert walk.core.delayed_count == 0

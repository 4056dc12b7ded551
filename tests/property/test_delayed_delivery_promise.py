"""No record is given to a member before it is due, each is some day, and none after it is done with."""

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


class Story:
    """A log of records that are due at some time, what is done with, and the coordinator's memory of it."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.now_ms = 1_000
        self.config = ShareConfig(
            record_lock_duration_ms=500,
            delivery_count_limit=1000,
            partition_max_record_locks=chance.choice([5, 50, 2000]),
        )
        self.limits = ShareLimits(max_states=chance.choice([64, 20_000]))
        self.max_records = chance.choice([1, 7, 10_000])
        self.bases: list[int] = []
        self.lasts: list[int] = []
        self.due: dict[int, int] = {}
        share = chance.choice([0.05, 0.5, 1.0])
        offset = 0
        for _ in range(chance.randrange(1, 60)):
            last = offset + chance.choice([0, 0, 1, 4, 20])
            self.bases.append(offset)
            self.lasts.append(last)
            for each in range(offset, last + 1):
                if chance.random() < share:
                    self.due[each] = self.now_ms + chance.choice([1, 700, chance.randint(0, LONGEST_MS)])
            offset = last + 1
        self.end = offset
        self.written: dict[int, tuple[int, int]] = {}
        self.start = 0
        self.done: set[int] = set()
        self.held: list[tuple[str, int, int]] = []
        self.core = self.lead()

    def lead(self) -> SharePartition:
        core = SharePartition(KEY, 1, self.config, self.limits)
        if self.chance.random() < 0.5:
            core.delay_delivery(self.max_records)
        batches = [
            StateBatch(offset, offset, *self.written[offset])
            for offset in sorted(self.written)
            if offset >= self.start
        ]
        core.restore(StateRead(KEY, state_epoch=1, start_offset=self.start, batches=tuple(batches)), 0)
        core.delay_delivery(self.max_records)
        self.held = []
        return core

    def fetch(self) -> None:
        core, offset = self.core, self.core.next_fetch_offset()
        if not core.may_acquire() or offset >= self.end:
            return
        begin = bisect_left(self.lasts, offset)
        end = begin + self.chance.choice([1, 3, 50])
        bases, lasts = self.bases[begin:end], self.lasts[begin:end]
        waiting = [
            (each, self.due[each])
            for each in range(bases[0], lasts[-1] + 1)
            if self.due.get(each, 0) > self.now_ms and each >= core.delays_from
        ]
        due_times = DueTimes(array("q", [each for each, _ in waiting]), array("q", [ms for _, ms in waiting]))
        member = self.chance.choice(MEMBERS)
        max_records, is_strict = self.chance.choice([1, 10, 500]), self.chance.random() < 0.3
        fetched = FetchedRecords(offset, bases, lasts, due_times=[due_times])
        for first, last, _ in core.acquire(member, self.now_ms, fetched, max_records, 500, is_strict):
            for each in range(first, last + 1):
                assert self.due.get(each, 0) <= self.now_ms, f"{each} was not due"
                assert each not in self.done, f"{each} was done with"
            self.held.append((member, first, last))

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
        self.core.free_due(self.now_ms)
        self.settle(self.core.expire(self.now_ms))

    def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.5:
            self.fetch()
        elif kind < 0.75:
            self.acknowledge()
        elif kind < 0.97:
            self.pass_time(self.chance.choice([0, 1, 100, 1000]))
        else:
            self.core = self.lead()
        self.core.check_invariants()

    def finish(self) -> None:
        """Let members accept all they get, until nothing is left."""
        for _ in range(40 * self.end + 4000):
            if len(self.done) == self.end:
                return
            self.fetch()
            while self.held:  # a lock that ends while others are accepted costs a delivery
                self.acknowledge(accepts=True)
            if self.chance.random() < 0.3:
                self.pass_time(self.chance.choice([1, 600]))
            self.core.check_invariants()
        left = sorted({*range(self.end)} - self.done)
        raise AssertionError(f"never given: {left[:10]} at {self.now_ms}, {self.core.states()[:10]}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", some_of(range(40), of_each_run=2))
def test_delayed_records_are_given_when_they_are_due(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delayed_index, "BLOCK_RECORDS", 8)
    monkeypatch.setattr(delayed_index, "FEW_RECORDS", 2)
    for number in range(15):
        story = Story(seed * 100 + number)
        for _ in range(story.chance.choice([20, 200])):
            story.step()
        story.finish()
        assert story.core.start_offset == story.end
        assert story.core.delayed_count == 0

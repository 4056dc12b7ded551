"""Back-offs of a share-partition against a simple model: a dictionary of records, each with its time."""

from dataclasses import dataclass
from random import Random

import pytest

from ottla.node.share.in_flight_records import ACQUIRED, AVAILABLE, WAITING
from ottla.node.share.share_words import Outcome, ShareConfig
from tests.thorough import some_of
from tests.unit.node.share.partitions import ACCEPT, REJECT, RELEASE, Partition

LOCK_MS, LIMIT, BACKOFF_MS, MAX_MS = 1_000, 6, 50, 700


@dataclass
class Waiting:
    """A record of the model; `free_ms` is the time from which it may be acquired, or None."""

    count: int
    held_until_ms: int
    free_ms: int | None = None
    is_done: bool = False


class BackoffModel:
    """A model with a loop over all records at each step."""

    def __init__(self) -> None:
        self.records: dict[int, Waiting] = {}

    def acquired(self, first: int, last: int, now_ms: int) -> None:
        for offset in range(first, last + 1):
            one = self.records.setdefault(offset, Waiting(0, 0, now_ms))
            assert not one.is_done and one.free_ms is not None and one.free_ms <= now_ms, (offset, one)
            self.records[offset] = Waiting(one.count + 1, now_ms + LOCK_MS)

    def released(self, offset: int, now_ms: int) -> None:
        one = self.records[offset]
        if one.count == LIMIT:
            one.is_done = True
        else:
            wait_ms = BACKOFF_MS
            for _ in range(one.count - 1):
                wait_ms *= 2
            one.free_ms = now_ms + min(wait_ms, MAX_MS)

    def locks_end(self, now_ms: int) -> None:
        for offset, one in self.records.items():
            if not one.is_done and one.free_ms is None and one.held_until_ms <= now_ms:
                self.released(offset, now_ms)

    def states(self, now_ms: int) -> dict[int, tuple[int, int]]:
        """Return the state and the delivery count of each record that is not finished."""
        shown = {}
        for offset, one in self.records.items():
            if not one.is_done:
                free = AVAILABLE if one.free_ms is not None and one.free_ms <= now_ms else WAITING
                shown[offset] = (ACQUIRED if one.free_ms is None else free, one.count)
        return shown


@pytest.mark.slow
@pytest.mark.parametrize("first", some_of(range(0, 100, 10), of_each_run=2))
def test_released_records_wait_as_long_as_in_the_model(first: int) -> None:
    for seed in range(first, first + 10):
        random, model = Random(seed), BackoffModel()
        config = ShareConfig(
            record_lock_duration_ms=LOCK_MS,
            delivery_count_limit=LIMIT,
            partition_max_record_locks=100,
            retry_backoff_ms=BACKOFF_MS,
            retry_backoff_max_ms=MAX_MS,
        )
        partition = Partition(config=config, log=[(at, at + 3) for at in range(0, 400, 4)])
        for _ in range(150):
            chance = random.random()
            held = [offset for offset, one in model.states(partition.now_ms).items() if one[0] == ACQUIRED]
            if chance < 0.3 and partition.core.may_acquire():
                for piece in partition.fetch(max_records=random.choice([1, 3, 500]), is_strict=True):
                    model.acquired(piece[0], piece[1], partition.now_ms)
            elif chance < 0.7 and held:
                offset = random.choice(held)
                kind = random.choice([RELEASE, RELEASE, RELEASE, ACCEPT, REJECT])
                outcome: Outcome = partition.begin_acknowledge(offset, offset, kind)
                partition.complete_write(outcome)
                if kind == RELEASE:
                    model.released(offset, partition.now_ms)
                else:
                    model.records[offset].is_done = True
            else:
                # A lock ends at the first step after its time, and its back-off begins then.
                outcome = partition.wait(random.choice([1, 20, 50, 100, 400, LOCK_MS]))
                model.locks_end(partition.now_ms)
                if outcome.write is not None:
                    partition.complete_write(outcome)
            shown = {
                offset: (state, count)
                for begin, end, state, count in partition.states
                for offset in range(begin, end + 1)
                if state in (AVAILABLE, ACQUIRED, WAITING) and count
            }
            assert shown == model.states(partition.now_ms), f"seed {seed}"
            due = [one.free_ms for one in model.records.values() if not one.is_done and one.free_ms]
            later = [time_ms for time_ms in due if time_ms > partition.now_ms]
            following = partition.core.next_expiry()
            assert not later or (following is not None and following <= min(later)), f"seed {seed}"

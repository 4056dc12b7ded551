"""A hundred thousand locks that end; the test counts tasks and timers, not time."""

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable

import pytest

from ottla.node.coordinators.timer_queue import TimerQueue
from ottla.node.share.share_words import FetchedRecords
from tests.unit.node.kafka_api.share_world import GROUP, ShareWorld, play

PARTITIONS = 25
LOCKS_EACH = 4_000
LOCKS = PARTITIONS * LOCKS_EACH


@pytest.mark.slow
def test_very_many_locks_have_one_timer_a_partition_and_end_with_one_write_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timers: Counter[Hashable] = Counter()
    start = TimerQueue.start

    def count(queue: TimerQueue, key: Hashable, delay_ms: float, callback: Callable[[], None]) -> None:
        timers[key] += 1
        start(queue, key, delay_ms, callback)

    monkeypatch.setattr(TimerQueue, "start", count)

    async def scenario(world: ShareWorld) -> None:
        world.own |= {"share.partition.max.record.locks": str(LOCKS_EACH)}
        world.create_topic(partitions=PARTITIONS)
        await world.ready("m1", *range(PARTITIONS))
        shares = world.shares
        tasks_before = len(asyncio.all_tasks())
        offsets = range(LOCKS_EACH)
        for key, led in shares.share_partitions.items():
            # Each record is a batch, so each is acquired as a piece of its own.
            fetched = FetchedRecords(0, base_offsets=offsets, last_offsets=offsets)
            taken = led.core.acquire("m1", world.clock.now_ms(), fetched, LOCKS_EACH, 1, False)
            assert len(taken) == LOCKS_EACH
            shares.expire(key)  # no lock has ended: this only starts the timer
        assert len(asyncio.all_tasks()) == tasks_before
        assert timers == dict.fromkeys(shares.share_partitions, 1)

        world.clock.advance(shares.record_lock_duration_ms(GROUP))
        for key in shares.share_partitions:
            shares.expire(key)
        assert shares.counters.lock_timeouts == LOCKS
        assert len(asyncio.all_tasks()) == tasks_before + PARTITIONS

        await world.run_pending()
        assert len(world.persister.written) == PARTITIONS
        assert timers == dict.fromkeys(shares.share_partitions, 1)

    play(scenario)

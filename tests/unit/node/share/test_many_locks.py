"""A hundred thousand locks that end: counted is what that takes of tasks and timers, not of time."""

from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.node.share.share_words import FetchedRecords
from tests.unit.node.kafka_api.share_world import ShareWorld, play

PARTITIONS = 25
LOCKS_EACH = 4_000
LOCKS = PARTITIONS * LOCKS_EACH


@pytest.mark.slow
def test_a_hundred_thousand_locks_have_a_timer_for_each_partition_and_end_with_a_write_for_each() -> None:
    async def story(world: ShareWorld) -> None:
        world.own |= {"share.partition.max.record.locks": str(LOCKS_EACH)}
        world.create_topic(partitions=PARTITIONS)
        await world.ready("m1", *range(PARTITIONS))
        shares = world.shares
        started: list[Coroutine[Any, Any, Any]] = []
        start_task = shares._start_task

        def count(work: Coroutine[Any, Any, Any]) -> Any:
            started.append(work)
            return start_task(work)

        shares._start_task = count  # type: ignore[assignment]
        for led in shares.share_partitions.values():
            offsets = list(range(LOCKS_EACH))
            fetched = FetchedRecords(0, base_offsets=offsets, last_offsets=offsets)
            # Each record is a batch, and was acquired as a piece of its own.
            led.core.acquire("m1", world.clock.now_ms(), fetched, LOCKS_EACH, 1, False)
            shares._schedule(led)
        held = [led.core.in_flight_range_count for led in shares.share_partitions.values()]
        assert sum(held) == LOCKS

        assert shares._timers is not None and len(shares._timers) == PARTITIONS
        assert not started

        world.clock.advance(shares.record_lock_duration_ms("workers"))
        for key in list(shares.share_partitions):
            shares.expire(key)
        await world.rest()

        assert shares.counters.lock_timeouts == LOCKS
        assert len(started) == PARTITIONS == len(world.persister.written)
        assert len(shares._timers) <= PARTITIONS

    play(story)

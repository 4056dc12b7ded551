"""ShareFetch of topics that delay their delivery: settings and logs that change while records wait."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.logstore import delivery_delay
from ottla.logstore.disk import FileSlice
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import build_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.share import share_fetch
from ottla.node.share.read_batches import ReadBatches
from ottla.node.share.read_delays import ReadDelays, read_delays
from ottla.node.share.share_fetch import ShareFetch
from ottla.node.wire.messages.share_fetch import ShareFetchResponse
from tests.unit.node.kafka_api.share_world import ShareWorld, acquired, play
from tests.unit.node.kafka_api.test_share_fetch import LONG_MS, only

DAY_MS = 86_400_000
PIECE = 10


def delays(max_records: int) -> LogConfig:
    return LogConfig(ottla_delivery_delay_enable=True, ottla_delivery_delay_max_records=max_records)


def append(world: ShareWorld, *waits_ms: int, index: int = 0) -> None:
    """Append a batch of records that are due after these times."""
    now_ms = world.clock.now_ms()
    records = [
        (b"key", b"value", now_ms, [("ottla.deliver.after.ms", str(wait_ms).encode())])
        for wait_ms in waits_ms
    ]
    world.partition("t", index).append_as_leader(
        build_batch(records), required_acks=1, now_ms=now_ms, produce_version=9
    )


def acquired_in(answer: ShareFetchResponse) -> list[tuple[int, int, int]]:
    return acquired(only(answer)) if answer.responses else []


def raise_the_limit(world: ShareWorld) -> None:
    world.partition().log.config = delays(100)


def remove_delay(world: ShareWorld) -> None:
    world.partition().log.config = LogConfig()


def delete_delayed(world: ShareWorld) -> None:
    world.partition().delete_records_before(11)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (raise_the_limit, [(11, 11, 1)]),
        (remove_delay, [(0, 9, 1), (10, 10, 1), (11, 11, 1)]),
        (delete_delayed, [(11, 11, 1)]),
    ],
)
def test_with_too_many_waiting_records_a_change_of_the_topic_takes_effect(
    change: Callable[[ShareWorld], None], expected: list[tuple[int, int, int]]
) -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(10))
        await world.ready()
        for waits_ms in ([DAY_MS] * 10, [DAY_MS], [0]):
            append(world, *waits_ms)
        assert not acquired_in(await world.fetch("m1", 2, max_wait_ms=10))

        change(world)

        assert [one for epoch in (3, 4, 5) for one in acquired_in(await fetch_some(world, epoch))] == expected

    play(scenario)


async def fetch_some(world: ShareWorld, epoch: int) -> ShareFetchResponse:
    return await world.fetch("m1", epoch, max_wait_ms=10, batch_size=1)


def test_records_that_are_deleted_while_they_wait_take_no_memory() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(10_000))
        await world.ready()
        before_bytes = world.shares.used_bytes
        for _ in range(3):
            append(world, *[DAY_MS] * 100)
        await world.fetch("m1", 2, max_wait_ms=10)
        assert world.shares.used_bytes > before_bytes + 300 * 20

        world.partition().delete_records_before(300)
        await world.fetch("m1", 3)

        assert world.shares.used_bytes == before_bytes

    play(scenario)


def test_a_fetch_waiting_for_a_full_partition_is_woken_when_another_member_finds_more() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(10))
        await world.ready("m1")
        await world.ready("m2")
        for waits_ms in ([DAY_MS] * 10, [DAY_MS], [0]):
            append(world, *waits_ms)
        await world.fetch("m1", 2, max_wait_ms=10)
        waiting = asyncio.ensure_future(world.fetch("m2", 2, max_wait_ms=10_000))
        await world.run_pending()

        remove_delay(world)
        first_part = acquired_in(await world.fetch("m1", 3, max_records=1))

        assert first_part + acquired_in(await waiting) == [(0, 9, 1), (10, 11, 1)]

    play(scenario)


@pytest.mark.parametrize(("max_records", "first"), [(1_000, [(100, 100, 1)]), (35, [])])
def test_very_many_delayed_records_of_a_batch_are_read_some_at_a_time(
    max_records: int, first: list[tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_delay, "WALKED_AT_ONCE", PIECE)
    monkeypatch.setattr(share_fetch, "DELAYS_AT_ONCE", 2 * PIECE)
    read: list[int] = []

    def read_some(*arguments: Any) -> ReadDelays:
        found = read_delays(*arguments)
        read.append(sum(len(piece.offsets) for piece in found.due_times))
        return found

    monkeypatch.setattr(share_fetch, "read_delays", read_some)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(max_records))
        await world.ready()
        append(world, *[DAY_MS + offset for offset in range(100)], 0)

        max_wait_ms = LONG_MS if first else 100  # if nothing is due, the response comes after this time
        assert acquired_in(await world.fetch("m1", 2, max_wait_ms=max_wait_ms)) == first

        (led,) = world.shares.share_partitions.values()
        assert led.core.delayed_count == min(max_records, 100)
        assert len(read) > 1 and max(read) <= 100
        world.clock.advance(DAY_MS + 100)
        for epoch in range(3, 12):
            world.shares.expire(world.key())
            first.extend(acquired_in(await world.fetch("m1", epoch, max_wait_ms=10)))
        offsets = [each for begin, end, _ in first for each in range(begin, end + 1)]
        assert set(offsets) == set(range(101))
        led.core.check_invariants()

    play(scenario)


def test_at_most_as_many_due_times_are_read_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_delay, "WALKED_AT_ONCE", PIECE)
    records = [(b"key", b"value", 0, [("ottla.deliver.at", b"1000")])] * 100
    content = build_batch(records, base_offset=0)
    batches = ReadBatches([0], [99], [0, len(content)], [])

    found = read_delays(content, batches, 0, delays(100), 0, 25)

    assert (found.last_offset, sum(len(piece.offsets) for piece in found.due_times)) == (29, 30)


def test_a_member_that_acquires_single_records_skips_many_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts = 0
    acquire = ShareFetch.acquire

    def counted(*arguments: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return acquire(*arguments)

    monkeypatch.setattr(ShareFetch, "acquire", counted)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(10_000))
        await world.ready()
        for _ in range(3_000):
            append(world, DAY_MS)
        append(world, 0)
        nonlocal attempts
        attempts = 0

        found = acquired_in(await world.fetch("m1", 2, max_wait_ms=20_000, max_records=1, batch_size=1))

        assert found == [(3_000, 3_000, 1)]
        assert attempts < 10
        (led,) = world.shares.share_partitions.values()
        assert (led.core.delayed_count, led.core.in_flight_range_count) == (3_000, 2)

    play(scenario)


def test_reading_beyond_records_that_wait_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_fetch, "SKIPPED_BYTES", 2_000)
    sizes: list[int] = []
    read = share_fetch.read_batches

    def noted(*arguments: Any, **named: Any) -> Any:
        found = read(*arguments, **named)
        sizes.append(found.size_bytes)
        return found

    monkeypatch.setattr(share_fetch, "read_batches", noted)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(10_000))
        await world.ready()
        for _ in range(200):
            append(world, DAY_MS)
        append(world, 0)

        found = acquired_in(await world.fetch("m1", 2, max_wait_ms=20_000, max_records=1, batch_size=1))

        assert found == [(200, 200, 1)]
        assert 5 < len(sizes) < 50 and 2_000 <= max(sizes) < 2_200

    play(scenario)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (OSError(5, "Input/output error"), ErrorCode.KAFKA_STORAGE_ERROR),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record of 2 bytes"), ErrorCode.CORRUPT_MESSAGE),
        (ValueError("an unexpected error"), ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
@pytest.mark.parametrize("place", ["read_delays", "read_batches"])
def test_records_that_a_thread_cannot_read_are_an_error_and_not_an_empty_response(
    place: str,
    failure: Exception,
    code: ErrorCode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = getattr(share_fetch, place)
    fails = True

    def fail(*arguments: Any, **named: Any) -> Any:
        if place == "read_batches" and arguments[1] == FileSlice.read_cached:
            return None  # it is not in the page cache
        if fails:
            raise failure
        return real(*arguments, **named)

    monkeypatch.setattr(share_fetch, place, fail)
    monkeypatch.setattr(share_fetch, "is_read_soon", lambda *_: False)

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(config=delays(10_000))
        world.create_topic("u")
        await world.ready()
        append(world, DAY_MS, 0)

        answer = only(await world.fetch("m1", 2, max_wait_ms=5_000))

        assert (answer.error_code, len(answer.acquired_records)) == (code, 0)
        assert f"cannot be delivered: {code.name}" in caplog.text
        nonlocal fails
        fails = False
        assert acquired_in(await world.fetch("m1", 3, max_wait_ms=5_000)) == [(1, 1, 1)]

    with caplog.at_level(logging.ERROR):
        play(scenario)

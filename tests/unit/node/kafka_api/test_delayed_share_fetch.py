"""ShareFetch of topics that delay their delivery: settings and logs that change while records wait."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import build_batch
from ottla.node.wire.messages.share_fetch import ShareFetchResponse
from tests.unit.node.kafka_api.share_world import ShareWorld, acquired, play
from tests.unit.node.kafka_api.test_share_fetch import only

DAY_MS = 86_400_000


def delays(max_records: int) -> LogConfig:
    return LogConfig(ottla_delivery_delay_enable=True, ottla_delivery_delay_max_records=max_records)


def append(world: ShareWorld, *waits_ms: int, index: int = 0) -> None:
    """A batch of records that are due after so long."""
    now_ms = world.clock.now_ms()
    records = [
        (b"key", b"value", now_ms, [("ottla.deliver.after.ms", str(wait_ms).encode())])
        for wait_ms in waits_ms
    ]
    world.partition("t", index).append_as_leader(
        build_batch(records), required_acks=1, now_ms=now_ms, produce_version=9
    )


def given(answer: ShareFetchResponse) -> list[tuple[int, int, int]]:
    return acquired(only(answer)) if answer.responses else []


def raise_the_limit(world: ShareWorld) -> None:
    world.partition().log.config = delays(100)


def delay_no_more(world: ShareWorld) -> None:
    world.partition().log.config = LogConfig()


def delete_what_waits(world: ShareWorld) -> None:
    world.partition().delete_records_before(11)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (raise_the_limit, [(11, 11, 1)]),
        (delay_no_more, [(0, 9, 1), (10, 10, 1), (11, 11, 1)]),
        (delete_what_waits, [(11, 11, 1)]),
    ],
)
def test_where_too_many_wait_it_is_noticed_that_the_topic_has_changed(
    change: Callable[[ShareWorld], None], expected: list[tuple[int, int, int]]
) -> None:
    async def story(world: ShareWorld) -> None:
        world.create_topic(config=delays(10))
        await world.ready()
        for waits_ms in ([DAY_MS] * 10, [DAY_MS], [0]):
            append(world, *waits_ms)
        assert not given(await world.fetch("m1", 2, max_wait_ms=10))

        change(world)

        assert [one for epoch in (3, 4, 5) for one in given(await fetch_some(world, epoch))] == expected

    play(story)


async def fetch_some(world: ShareWorld, epoch: int) -> ShareFetchResponse:
    return await world.fetch("m1", epoch, max_wait_ms=10, batch_size=1)


def test_records_that_are_deleted_while_they_wait_take_no_memory() -> None:
    async def story(world: ShareWorld) -> None:
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

    play(story)


def test_who_waits_for_a_full_partition_hears_of_it_when_another_member_sees_that_there_is_more() -> None:
    async def story(world: ShareWorld) -> None:
        world.create_topic(config=delays(10))
        await world.ready("m1")
        await world.ready("m2")
        for waits_ms in ([DAY_MS] * 10, [DAY_MS], [0]):
            append(world, *waits_ms)
        await world.fetch("m1", 2, max_wait_ms=10)
        waiting = asyncio.ensure_future(world.fetch("m2", 2, max_wait_ms=10_000))
        await world.rest()

        delay_no_more(world)
        given_to_one = given(await world.fetch("m1", 3, max_records=1))

        assert given_to_one + given(await waiting) == [(0, 9, 1), (10, 11, 1)]

    play(story)

"""ShareFetch when share-partitions have used up their memory: every group still makes progress."""

from ottla.node.share.led_partition import DELAYED_BYTES, LED_BYTES, RANGE_BYTES
from tests.unit.node.kafka_api.share_world import ShareWorld, acquired, play
from tests.unit.node.kafka_api.test_delayed_share_fetch import DAY_MS, acquired_in, append, delays
from tests.unit.node.kafka_api.test_share_fetch import only

ACCEPT, RELEASE = 1, 2


async def fill(world: ShareWorld) -> None:
    """Have one member of a group acquire more ranges of a partition than there is memory for."""
    for _ in range(30):
        world.append()
    await world.fetch("m1", 2, batch_size=1)
    assert world.shares.used_bytes > LED_BYTES + 20 * RANGE_BYTES


def test_without_memory_released_records_are_delivered_again_and_no_new_ones_until_some_are_done() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.own["ottla.share.retry.backoff.ms"] = "20"
        world.create_topic()
        await world.ready()
        await fill(world)
        world.append()
        one_by_one = [(offset, offset, [RELEASE]) for offset in range(30)]
        await world.acknowledge("m1", 3, one_by_one)
        world.clock.advance(20)
        world.shares.expire(world.key())

        again = acquired(only(await world.fetch("m1", 4)))

        assert [(first, last) for first, last, _ in again] == [(each, each) for each in range(30)]
        assert not acquired_in(await world.fetch("m1", 5))
        await world.acknowledge("m1", 6, [(0, 29, [ACCEPT])])
        assert acquired_in(await world.fetch("m1", 7)) == [(30, 30, 1)]

    play(scenario, limit_bytes=LED_BYTES + 20 * RANGE_BYTES)


def test_without_memory_a_partition_with_nothing_in_flight_delivers_one_batch() -> None:
    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2)
        await world.ready("m1", 0, 1)
        await fill(world)
        for _ in range(2):
            world.append(count=3, index=1)

        assert acquired_in(await world.fetch("m1", 3)) == [(0, 2, 1)]

        assert not acquired_in(await world.fetch("m1", 4))
        await world.acknowledge("m1", 5, [(0, 2, [ACCEPT])], partition=1)
        assert acquired_in(await world.fetch("m1", 6)) == [(3, 5, 1)]

    play(scenario, limit_bytes=2 * LED_BYTES + 20 * RANGE_BYTES)


def test_records_that_wait_until_they_are_due_leave_memory_to_others() -> None:
    limit_bytes = 2 * LED_BYTES + 2_000 * DELAYED_BYTES

    async def scenario(world: ShareWorld) -> None:
        world.create_topic(partitions=2, config=delays(100_000))
        await world.ready("m1", 0, 1)
        for _ in range(50):
            append(world, *[DAY_MS] * 100)
        for epoch in range(2, 5):
            await world.fetch("m1", epoch, max_wait_ms=10)
        assert world.shares.used_bytes < limit_bytes

        for _ in range(3):
            append(world, *[0] * 10, index=1)

        assert acquired_in(await world.fetch("m1", 5)) == [(0, 29, 1)]

    play(scenario, limit_bytes=limit_bytes)

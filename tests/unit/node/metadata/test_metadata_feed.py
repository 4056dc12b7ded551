"""A feed with many waiting nodes: they do not hold up the loop, and each waits as long as it requested."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.metadata_raft.delta import replay_batch
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.record_codec import MetadataBatch
from ottla.metadata_raft.records import ConfigRecord
from ottla.node.metadata import metadata_feed
from ottla.node.metadata.metadata_feed import MetadataFeed
from ottla.node.net.answers import Delayed
from ottla.node.wire.messages.fetch_metadata import FetchMetadataRequest

EMPTY = MetadataImage(cluster_id=b"the cluster's id")
LONG_MS = 30_000


def make_feed() -> MetadataFeed:
    return MetadataFeed(EMPTY, leader=lambda: (0, 1), voters=list, hears_all=lambda: True)


def commit(feed: MetadataFeed) -> None:
    record = ConfigRecord(resource_type=32, resource_name="g", name="n", value="v")
    batch = MetadataBatch(0, 1, 1_000, [record])
    image, _ = replay_batch(EMPTY, batch)
    feed.add(batch, image)


def wait(feed: MetadataFeed, max_wait_ms: int = LONG_MS) -> Delayed[Any]:
    request = FetchMetadataRequest(fetch_offset=0, last_epoch=-1, max_bytes=1_000, max_wait_ms=max_wait_ms)
    waiting = feed.fetch(request, 0)
    assert isinstance(waiting, Delayed)
    return waiting


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scene())


def is_answered(waiting: Delayed[Any]) -> bool:
    future: Any = waiting.future
    return bool(future.done())


def test_waiting_nodes_are_answered_in_order_a_few_in_each_turn_of_the_loop() -> None:
    async def scene() -> None:
        feed = make_feed()
        many = [wait(feed) for _ in range(3 * metadata_feed.ANSWERED_PER_TURN)]

        commit(feed)

        for turn in (1, 2, 3):
            answered = [is_answered(one) for one in many]
            assert (
                answered == sorted(answered, reverse=True)
                and sum(answered) == turn * metadata_feed.ANSWERED_PER_TURN
            )
            await asyncio.sleep(0)
        feed.close()

    play(scene)


def test_a_feed_that_closes_answers_all_waiting_nodes() -> None:
    async def scene() -> None:
        feed = make_feed()
        many = [wait(feed) for _ in range(3 * metadata_feed.ANSWERED_PER_TURN)]
        commit(feed)

        feed.close()

        assert all(is_answered(one) for one in many)

    play(scene)


def test_a_node_with_a_shorter_wait_is_answered_earlier() -> None:
    async def scene() -> None:
        feed = make_feed()
        first = wait(feed)
        short = wait(feed, 20)
        second = wait(feed)

        async with asyncio.timeout(60):
            await short.future

        assert not is_answered(first) and not is_answered(second)
        feed.close()

    play(scene)

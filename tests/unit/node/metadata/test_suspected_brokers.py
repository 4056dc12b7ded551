"""Requests for the partitions of a broker that has probably failed wait for a short, bounded time."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import pytest

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.records import NO_LEADER
from ottla.node.metadata import suspected_brokers
from ottla.node.metadata.suspected_brokers import SuspectedBrokers
from tests.unit.metadata_raft.metadata_world import EMPTY, MetadataWorld

SOON = 0.05


def one(brokers: Collection[int]) -> bool:
    """Return True if a request for partitions of broker 1 concerns one of the brokers."""
    return 1 in brokers


def changed(*brokers: int) -> MetadataChanges:
    return MetadataChanges((), configs=frozenset(), brokers=frozenset(brokers), features=False)


async def passes(waiting: Awaitable[None]) -> bool:
    """Return True if the wait ends at once."""
    try:
        await asyncio.wait_for(asyncio.ensure_future(waiting), SOON)
    except TimeoutError:
        return False
    return True


def test_requests_do_not_wait_for_brokers_that_are_not_suspected() -> None:
    async def story() -> None:
        suspects = SuspectedBrokers()
        assert not suspects and await passes(suspects.wait_while(lambda brokers: True))

        suspects.suspect(2)
        assert suspects and await passes(suspects.wait_while(one)), "another broker is suspected"

    asyncio.run(story())


@pytest.mark.parametrize(
    "ended",
    [
        lambda suspects: suspects.trust(1),
        lambda suspects: suspects.meet_metadata(EMPTY, changed(1)),
    ],
)
def test_a_request_for_a_suspected_leader_waits_until_its_state_is_known(
    ended: Callable[[SuspectedBrokers], None],
) -> None:
    async def story() -> None:
        suspects = SuspectedBrokers()
        suspects.suspect(1)
        waiting = asyncio.ensure_future(suspects.wait_while(one))
        await asyncio.sleep(SOON)
        assert not waiting.done()

        suspects.meet_metadata(EMPTY, changed(7))
        await asyncio.sleep(0)
        assert not waiting.done(), "another broker has changed"

        ended(suspects)
        await asyncio.wait_for(waiting, 60)
        assert not suspects

    asyncio.run(story())


def test_the_wait_ends_as_soon_as_the_metadata_name_another_leader() -> None:
    async def story() -> None:
        suspects, leader = SuspectedBrokers(), 1
        suspects.suspect(1)
        waiting = asyncio.ensure_future(suspects.wait_while(lambda brokers: leader in brokers))
        await asyncio.sleep(0)

        leader = 2
        suspects.meet_metadata(EMPTY, changed())

        await asyncio.wait_for(waiting, 60)

    asyncio.run(story())


def test_the_wait_is_bounded_and_a_broker_that_is_gone_is_no_leader_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspected_brokers, "WAIT_S", 0.01)
    monkeypatch.setattr(suspected_brokers, "GONE_S", 0.05)

    async def story() -> None:
        suspects = SuspectedBrokers()
        suspects.suspect(1)
        suspects.is_gone(1)
        await asyncio.wait_for(suspects.wait_while(one), 60)
        assert list(suspects.gone()) == [1]

        await asyncio.sleep(0.06)
        assert list(suspects.gone()) == [] and not suspects

    asyncio.run(story())


def test_after_a_failure_requests_wait_for_leaders_and_the_broker_is_still_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspected_brokers, "WAIT_S", 0.2)
    monkeypatch.setattr(suspected_brokers, "NAMED_S", 0.3)

    async def story() -> None:
        world, suspects = MetadataWorld(brokers=2), SuspectedBrokers()
        suspects.meet_metadata(world.image, changed(0, 1))
        assert not suspects

        world.heartbeat(1, want_fence=True)
        suspects.meet_metadata(world.image, changed(1))
        assert list(suspects.fallen()) == [1]
        leaderless = suspects.wait_while(lambda brokers: NO_LEADER in brokers)
        assert not await passes(leaderless)
        assert await passes(suspects.wait_while(one)), "other partitions have their leaders"

        await asyncio.wait_for(suspects.wait_while(lambda brokers: NO_LEADER in brokers), 60)
        await asyncio.sleep(0.3)
        assert not suspects

    asyncio.run(story())


class EarlyLoop(asyncio.SelectorEventLoop):
    """A loop whose timers fire early, as they may on a loop that counts in milliseconds."""

    def call_at(self, when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
        return super().call_at(when - SOON / 2, *rest, **more)


def test_the_wait_ends_even_if_timers_are_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspected_brokers, "WAIT_S", SOON)

    async def story() -> None:
        suspects = SuspectedBrokers()
        suspects.suspect(1)
        await asyncio.wait_for(suspects.wait_while(one), 60)

    with asyncio.Runner(loop_factory=EarlyLoop) as runner:
        runner.run(story())


def test_a_broker_that_came_back_does_not_count_as_failed() -> None:
    async def story() -> None:
        world, suspects = MetadataWorld(brokers=2), SuspectedBrokers()
        suspects.meet_metadata(world.image, changed(0, 1))
        world.heartbeat(1, want_fence=True)
        suspects.meet_metadata(world.image, changed(1))

        world.heartbeat(1)
        suspects.meet_metadata(world.image, changed(1))

        assert list(suspects.fallen()) == []

    asyncio.run(story())


def test_a_broker_that_is_not_suspected_is_not_gone() -> None:
    async def story() -> None:
        suspects = SuspectedBrokers()
        suspects.is_gone(1)
        assert not suspects and list(suspects.gone()) == []

    asyncio.run(story())


async def _heard(suspects: SuspectedBrokers, looks: list[int], *, hangs: bool = False) -> None:
    """Have `suspects` probe the leaders 1 and 2, of which the probe suspects 1."""

    async def look(broker_id: int) -> None:
        looks.append(broker_id)
        if hangs:
            await asyncio.Event().wait()
        if broker_id == 1:
            suspects.suspect(1)

    suspects.look_by(look)
    await suspects.hear(lambda: (1, 2))


def test_leaders_are_probed_before_they_are_named() -> None:
    async def story() -> None:
        suspects, looks = SuspectedBrokers(), list[int]()

        await _heard(suspects, looks)

        assert looks == [1, 2]
        assert not await passes(suspects.wait_while(one))

    asyncio.run(story())


def test_leaders_are_not_probed_again_at_once() -> None:
    async def story() -> None:
        suspects, looks = SuspectedBrokers(), list[int]()

        await _heard(suspects, looks)
        await _heard(suspects, looks)
        suspects.trust(1)
        await _heard(suspects, looks)
        assert looks == [1, 2], "too soon"
        await asyncio.sleep(suspected_brokers.LOOK_PAUSE_S)
        await _heard(suspects, looks)

        assert looks == [1, 2, 1, 2]

    asyncio.run(story())


def test_an_unreachable_leader_delays_a_request_only_briefly() -> None:
    async def story() -> None:
        suspects, looks = SuspectedBrokers(), list[int]()

        async with asyncio.timeout(10 * suspected_brokers.LOOK_S):
            await _heard(suspects, looks, hangs=True)

        assert looks == [1] and not suspects

    asyncio.run(story())


def test_a_client_that_is_ahead_of_the_metadata_waits_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspected_brokers, "WAIT_S", 0.2)
    known = False

    async def story() -> None:
        nonlocal known
        suspects, loop = SuspectedBrokers(), asyncio.get_running_loop()
        began = loop.time()
        await suspects.wait_for_metadata(lambda: True, 60)
        assert 0.2 <= loop.time() - began < 30
        waiting = asyncio.ensure_future(suspects.wait_for_metadata(lambda: not known))
        await asyncio.sleep(0)
        suspects.meet_metadata(EMPTY, changed())
        await asyncio.sleep(0.01)
        assert not waiting.done(), "this change concerns something else"

        known = True
        suspects.meet_metadata(EMPTY, changed())
        await waiting
        assert not suspects and await passes(suspects.wait_for_metadata(lambda: False))

    asyncio.run(story())

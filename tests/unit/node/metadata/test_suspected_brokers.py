"""Requests for the partitions of a broker that has probably failed wait for a short, bounded time."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

import pytest

from ottla.metadata_raft.delta import MetadataChanges
from ottla.metadata_raft.records import NO_LEADER
from ottla.node.metadata import suspected_brokers
from ottla.node.metadata.suspected_brokers import (
    GONE_S,
    LOOK_PAUSE_S,
    LOOK_S,
    NAMED_S,
    WAIT_S,
    SuspectedBrokers,
)
from tests.simulation.virtual_loop import VirtualLoop
from tests.unit.metadata_raft.metadata_world import EMPTY, MetadataWorld

SOON = 0.05


def play(scenario: Coroutine[Any, Any, None]) -> None:
    VirtualLoop(random.Random(1)).run(scenario, limit_s=60)


def concerns_broker_1(brokers: Collection[int]) -> bool:
    """Return True if a request for partitions of broker 1 concerns one of the brokers."""
    return 1 in brokers


def changed(*brokers: int) -> MetadataChanges:
    return MetadataChanges((), configs=frozenset(), brokers=frozenset(brokers), features=False)


async def ends_at_once(waiting: Awaitable[None]) -> bool:
    """Return True if the wait ends at once."""
    try:
        await asyncio.wait_for(asyncio.ensure_future(waiting), SOON)
    except TimeoutError:
        return False
    return True


def test_requests_do_not_wait_for_brokers_that_are_not_suspected() -> None:
    async def scenario() -> None:
        suspects = SuspectedBrokers()
        assert not suspects and await ends_at_once(suspects.wait_while(lambda brokers: True))

        suspects.suspect(2)
        assert suspects and await ends_at_once(suspects.wait_while(concerns_broker_1)), (
            "another broker is suspected"
        )

    play(scenario())


@pytest.mark.parametrize(
    "ended",
    [
        lambda suspects: suspects.trust(1),
        lambda suspects: suspects.handle_metadata(EMPTY, changed(1)),
    ],
)
def test_a_request_for_a_suspected_leader_waits_until_its_state_is_known(
    ended: Callable[[SuspectedBrokers], None],
) -> None:
    async def scenario() -> None:
        suspects = SuspectedBrokers()
        suspects.suspect(1)
        waiting = asyncio.ensure_future(suspects.wait_while(concerns_broker_1))
        await asyncio.sleep(SOON)
        assert not waiting.done()

        suspects.handle_metadata(EMPTY, changed(7))
        await asyncio.sleep(0)
        assert not waiting.done(), "another broker has changed"

        ended(suspects)
        await asyncio.wait_for(waiting, 60)
        assert not suspects

    play(scenario())


def test_the_wait_ends_as_soon_as_the_metadata_name_another_leader() -> None:
    async def scenario() -> None:
        suspects, leader = SuspectedBrokers(), 1
        suspects.suspect(1)
        waiting = asyncio.ensure_future(suspects.wait_while(lambda brokers: leader in brokers))
        await asyncio.sleep(0)

        leader = 2
        suspects.handle_metadata(EMPTY, changed())

        await asyncio.wait_for(waiting, 60)

    play(scenario())


def test_the_wait_is_bounded_and_a_broker_that_is_gone_is_no_leader_for_a_while() -> None:
    async def scenario() -> None:
        suspects = SuspectedBrokers()
        suspects.suspect(1)
        suspects.mark_gone(1)
        await asyncio.wait_for(suspects.wait_while(concerns_broker_1), 2 * WAIT_S)
        assert list(suspects.gone()) == [1]

        await asyncio.sleep(GONE_S)
        assert list(suspects.gone()) == [] and not suspects

    play(scenario())


def test_after_a_failure_requests_wait_for_leaders_and_the_broker_is_still_named() -> None:
    async def scenario() -> None:
        world, suspects = MetadataWorld(brokers=2), SuspectedBrokers()
        suspects.handle_metadata(world.image, changed(0, 1))
        assert not suspects

        world.heartbeat(1, want_fence=True)
        suspects.handle_metadata(world.image, changed(1))
        assert list(suspects.failed()) == [1]
        leaderless = suspects.wait_while(lambda brokers: NO_LEADER in brokers)
        assert not await ends_at_once(leaderless)
        assert await ends_at_once(suspects.wait_while(concerns_broker_1)), (
            "other partitions have their leaders"
        )

        await asyncio.wait_for(suspects.wait_while(lambda brokers: NO_LEADER in brokers), 2 * WAIT_S)
        await asyncio.sleep(NAMED_S)
        assert not suspects

    play(scenario())


class EarlyLoop(asyncio.SelectorEventLoop):
    """A loop whose timers fire early, as they may on a loop that counts in milliseconds."""

    def call_at(self, when: float, *rest: Any, **more: Any) -> asyncio.TimerHandle:
        return super().call_at(when - SOON / 2, *rest, **more)


def test_the_wait_ends_even_if_timers_are_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspected_brokers, "WAIT_S", SOON)

    async def scenario() -> None:
        suspects = SuspectedBrokers()
        suspects.suspect(1)
        await asyncio.wait_for(suspects.wait_while(concerns_broker_1), 60)

    with asyncio.Runner(loop_factory=EarlyLoop) as runner:
        runner.run(scenario())


def test_a_broker_that_came_back_does_not_count_as_failed() -> None:
    async def scenario() -> None:
        world, suspects = MetadataWorld(brokers=2), SuspectedBrokers()
        suspects.handle_metadata(world.image, changed(0, 1))
        world.heartbeat(1, want_fence=True)
        suspects.handle_metadata(world.image, changed(1))

        world.heartbeat(1)
        suspects.handle_metadata(world.image, changed(1))

        assert list(suspects.failed()) == []

    play(scenario())


def test_a_broker_that_is_not_suspected_is_not_gone() -> None:
    async def scenario() -> None:
        suspects = SuspectedBrokers()
        suspects.mark_gone(1)
        assert not suspects and list(suspects.gone()) == []

    play(scenario())


async def probe_leaders_1_and_2(
    suspects: SuspectedBrokers, probed: list[int], *, hangs: bool = False
) -> None:
    """Have `suspects` probe the leaders 1 and 2, of which the probe suspects 1."""

    async def probe(broker_id: int) -> None:
        probed.append(broker_id)
        if hangs:
            await asyncio.Event().wait()
        if broker_id == 1:
            suspects.suspect(1)

    suspects.probe_by(probe)
    await suspects.probe_leaders(lambda: (1, 2))


def test_leaders_are_probed_before_they_are_named() -> None:
    async def scenario() -> None:
        suspects, probed = SuspectedBrokers(), list[int]()

        await probe_leaders_1_and_2(suspects, probed)

        assert probed == [1, 2]
        assert not await ends_at_once(suspects.wait_while(concerns_broker_1))

    play(scenario())


def test_leaders_are_not_probed_again_at_once() -> None:
    async def scenario() -> None:
        suspects, probed = SuspectedBrokers(), list[int]()

        await probe_leaders_1_and_2(suspects, probed)
        await probe_leaders_1_and_2(suspects, probed)
        suspects.trust(1)
        await probe_leaders_1_and_2(suspects, probed)
        assert probed == [1, 2], "too soon"
        await asyncio.sleep(LOOK_PAUSE_S)
        await probe_leaders_1_and_2(suspects, probed)

        assert probed == [1, 2, 1, 2]

    play(scenario())


def test_an_unreachable_leader_delays_a_request_only_briefly() -> None:
    async def scenario() -> None:
        suspects, probed = SuspectedBrokers(), list[int]()

        async with asyncio.timeout(10 * LOOK_S):
            await probe_leaders_1_and_2(suspects, probed, hangs=True)

        assert probed == [1] and not suspects

    play(scenario())


def test_a_client_that_is_ahead_of_the_metadata_waits_for_a_bounded_time() -> None:
    known = False

    async def scenario() -> None:
        nonlocal known
        suspects, loop = SuspectedBrokers(), asyncio.get_running_loop()
        began = loop.time()
        await suspects.wait_for_metadata(lambda: True, 60)
        assert WAIT_S <= loop.time() - began < 2 * WAIT_S
        waiting = asyncio.ensure_future(suspects.wait_for_metadata(lambda: not known))
        await asyncio.sleep(0)
        suspects.handle_metadata(EMPTY, changed())
        await asyncio.sleep(0.01)
        assert not waiting.done(), "this change concerns something else"

        known = True
        suspects.handle_metadata(EMPTY, changed())
        await waiting
        assert not suspects and await ends_at_once(suspects.wait_for_metadata(lambda: False))

    play(scenario())

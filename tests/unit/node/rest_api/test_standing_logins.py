"""Work under way for a caller ends once its login is no longer valid, and other work goes on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.node.rest_api.authentication import Identity
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.standing_logins import StandingLogins

ANN, BOB = Identity("User:ann"), Identity("User:bob")


async def outcome_of(standing: StandingLogins, identity: Identity, work: Callable[[], Awaitable[str]]) -> str:
    try:
        async with standing.while_it_holds(identity):
            return await work()
    except RestError as error:
        assert error.status == 401
        return "ended"


async def wait_forever() -> str:
    await asyncio.Event().wait()
    return "never"


def test_only_work_for_a_login_that_ended_is_ended() -> None:
    async def run() -> None:
        ended: set[Identity] = set()
        standing = StandingLogins(lambda one: one not in ended)
        async with asyncio.TaskGroup() as tasks:
            of_ann = [tasks.create_task(outcome_of(standing, ANN, wait_forever)) for _ in range(3)]
            of_bob = tasks.create_task(outcome_of(standing, BOB, wait_forever))
            await asyncio.sleep(0)
            standing.look()
            await asyncio.sleep(0.01)
            before = [one.done() for one in of_ann]
            ended.add(ANN)
            standing.look()
            standing.look()  # twice, before the tasks have noticed
            await asyncio.wait(of_ann, timeout=5)

            assert before == [False] * 3 and [one.result() for one in of_ann] == ["ended"] * 3
            assert not of_bob.done() and len(standing) == 1
            of_bob.cancel()

    asyncio.run(run())


def test_work_that_ends_leaves_nothing_behind() -> None:
    async def run() -> None:
        standing = StandingLogins(lambda one: True)

        async def soon() -> str:
            return "done"

        assert await outcome_of(standing, ANN, soon) == "done" and len(standing) == 0

    asyncio.run(run())


def test_a_timeout_of_the_work_itself_is_raised_as_such() -> None:
    async def run() -> None:
        standing = StandingLogins(lambda one: True)

        async def late() -> str:
            async with asyncio.timeout(0.001):
                return await wait_forever()

        with pytest.raises(TimeoutError):
            await outcome_of(standing, ANN, late)
        assert len(standing) == 0

    asyncio.run(run())


def test_a_login_that_ended_meanwhile_is_refused() -> None:
    async def run() -> None:
        standing = StandingLogins(lambda one: one is not ANN)

        standing.check(BOB)
        with pytest.raises(RestError):
            standing.check(ANN)

    asyncio.run(run())

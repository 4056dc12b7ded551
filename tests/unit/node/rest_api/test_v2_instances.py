"""Consumers of v2 on a node: limited in number, each of one caller, for as long as it is used."""

import asyncio
from typing import Any, cast

import pytest

from ottla.node.client.cluster_client import Client
from ottla.node.client.deadline import Deadline
from ottla.node.net.act_for import Caller
from ottla.node.rest_api import v2_instances
from ottla.node.rest_api.fair_slots import Bounds, FairSlots
from ottla.node.rest_api.rest_error import RestError
from ottla.node.rest_api.v2_instances import InstanceConfig, Instances

CONFIG = InstanceConfig(form="json", reset="latest", commits_alone=False, min_bytes=1, request_timeout_ms=1)
ANN, BOB = (Caller(name, "127.0.0.1", is_local=True) for name in ("User:ann", "User:bob"))


class IdleClient:
    """A client that is only closed."""

    def __init__(self) -> None:
        self.is_closed = False

    async def __aexit__(self, *_: Any) -> None:
        self.is_closed = True


class Scene:
    """Instances with a number of slots, and the clients that were made for them."""

    def __init__(self, *, most: int = 3, most_of_address: int = 2, timeout_s: float = 60.0) -> None:
        self.clients: list[IdleClient] = []
        slots = FairSlots("consumers", "consumers", Bounds(most, most_of_address))
        self.instances = Instances(self._make, slots, timeout_s)

    def _make(self, caller: Caller, share: str) -> Client:
        self.clients.append(IdleClient())
        return cast(Client, self.clients[-1])

    def create(self, name: str, caller: Caller = ANN) -> None:
        self.instances.create("g", name, caller, caller.principal, CONFIG)

    async def ask(self, name: str, caller: Caller = ANN) -> None:
        async with self.instances.use("g", name, caller, Deadline.after(0.05)):
            pass

    async def play(self, scenario: Any) -> None:
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(self.instances.run())
            await asyncio.sleep(0)
            await scenario()
            run.cancel()


def code_of(caught: pytest.ExceptionInfo[RestError]) -> int:
    return caught.value.error_code


def test_names_are_unique_and_the_instances_of_a_caller_and_of_all_are_limited() -> None:
    scene = Scene()

    async def scenario() -> None:
        scene.create("one")
        with pytest.raises(RestError) as taken:
            scene.create("one")
        scene.create("two")
        with pytest.raises(RestError) as too_many_of_one:
            scene.create("three")
        scene.create("three", BOB)
        with pytest.raises(RestError) as too_many:
            scene.create("four", BOB)
        assert [code_of(one) for one in (taken, too_many_of_one, too_many)] == [40902, 429, 429]
        assert len(scene.instances) == len(scene.clients) == 3

    asyncio.run(scene.play(scenario))

    assert all(one.is_closed for one in scene.clients), "they end with the node"


def test_an_instance_is_asked_by_its_caller_alone_and_by_one_request_at_a_time() -> None:
    scene = Scene()

    async def scenario() -> None:
        scene.create("one")
        with pytest.raises(RestError) as of_another:
            await scene.ask("one", BOB)
        with pytest.raises(RestError) as missing:
            await scene.ask("two")
        async with scene.instances.use("g", "one", ANN, Deadline.after(1.0)):
            with pytest.raises(RestError) as busy:
                await scene.ask("one")
        await scene.ask("one")
        assert [code_of(one) for one in (of_another, missing, busy)] == [40403, 40403, 40903]

    asyncio.run(scene.play(scenario))


def test_an_instance_that_is_deleted_or_idle_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2_instances, "KEEP_S", 0.001)
    scene = Scene(most_of_address=1, timeout_s=0.01)

    async def scenario() -> None:
        scene.create("one")
        async with scene.instances.use("g", "one", ANN, Deadline.after(1.0)) as instance:
            await scene.instances.delete(instance)
        assert len(scene.instances) == 0
        while not scene.clients[0].is_closed:
            await asyncio.sleep(0)
        scene.create("two")
        while not scene.clients[1].is_closed:
            await asyncio.sleep(0.001)
        scene.create("three")
        assert len(scene.instances) == 1

    asyncio.run(scene.play(scenario))

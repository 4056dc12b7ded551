"""Clients are lent to one request each, come back with their connections, and are limited in number."""

import asyncio
from typing import Any, cast

import pytest

from ottla.node.client.cluster_client import Topic
from ottla.node.net.act_for import Caller
from ottla.node.net.peer_client import PeerClient
from ottla.node.rest_api import client_pool
from ottla.node.rest_api.client_pool import MAX_CLIENTS, MAX_IDLE, ClientPool
from ottla.node.rest_api.rest_error import RestError

CALLER = Caller("User:ann", "10.0.0.1", False)


class Facts:
    cut_off_since_ms = None

    def connect_for(self, caller: Caller) -> Any:
        return PeerClient.connect

    def bootstrap(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", 9)]


def pool() -> ClientPool:
    return ClientPool(cast(Any, Facts()))


def test_two_requests_have_two_clients_and_the_next_has_one_of_them() -> None:
    async def run() -> None:
        clients = pool()
        async with clients.lend(CALLER) as first, clients.lend(CALLER) as second:
            assert first is not second
        async with clients.lend(CALLER) as third:
            assert third in (first, second)

    asyncio.run(run())


def test_a_caller_is_not_lent_the_connections_of_another() -> None:
    async def run() -> None:
        clients = pool()
        others = [CALLER._replace(principal="User:bob"), CALLER._replace(host="10.0.0.2")]
        async with clients.lend(CALLER) as first:
            pass
        for other in others:
            async with clients.lend(other) as lent:
                assert lent is not first
        async with clients.lend(CALLER) as again:
            assert again is first

    asyncio.run(run())


def test_a_client_that_comes_back_has_forgotten_what_it_knew() -> None:
    async def run() -> None:
        clients = pool()
        async with clients.lend(CALLER) as first:
            first.topics["t"] = Topic("t", bytes(16), {0: 1})
        async with clients.lend(CALLER) as again:
            assert again is first and not again.topics

    asyncio.run(run())


def test_a_client_comes_back_from_a_request_that_failed() -> None:
    async def run() -> None:
        clients = pool()
        with pytest.raises(RestError):
            async with clients.lend(CALLER) as first:
                raise RestError(404, 404, "no")
        async with clients.lend(CALLER) as again:
            assert again is first

    asyncio.run(run())


def test_a_caller_that_waits_too_long_for_its_turn_gets_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_pool, "TURN_TIMEOUT_S", 0.01)

    async def run() -> None:
        clients = pool()
        held = [clients.lend(CALLER, address=f"{number % 2}") for number in range(MAX_CLIENTS)]
        lent = [await one.__aenter__() for one in held]
        with pytest.raises(RestError) as refused:
            async with clients.lend(CALLER):
                pass
        for one in held:
            await one.__aexit__(None, None, None)

        assert refused.value.status == 429
        held = [clients.lend(CALLER, address=f"{number % 2}") for number in range(MAX_CLIENTS)]
        lent_again = [await one.__aenter__() for one in held]
        assert sum(client in lent for client in lent_again) == MAX_IDLE
        for one in held:
            await one.__aexit__(None, None, None)
        async with clients.lend(CALLER):
            pass
        await clients.close()

    asyncio.run(run())

"""The limit of connections, and the choice of the one that a new connection replaces."""

import math
from typing import Any, cast

import pytest

from ottla.node.net.connection_info import network_of
from ottla.node.rest_api import connections
from ottla.node.rest_api.connections import HttpConnections


class Client:
    """The part of a connection that `HttpConnections` uses."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_at_work = False
        self.deadline_s = math.inf
        self.is_cut_off = False

    def cut_off(self) -> None:
        self.is_cut_off = True


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> HttpConnections:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    return HttpConnections()


def enter(pool: HttpConnections, *clients: Client) -> list[bool]:
    return [pool.enter(cast(Any, one)) for one in clients]


def test_the_address_with_most_connections_loses_the_one_idle_for_longest(pool: HttpConnections) -> None:
    lone, many = Client("a"), [Client("b") for _ in range(3)]
    enter(pool, lone, *many)
    pool.moved(cast(Any, many[0]))
    new = [Client("c"), Client("d")]

    assert enter(pool, *new) == [True, True]

    assert [one.is_cut_off for one in (lone, *many)] == [False, False, True, True]


def test_a_served_connection_is_kept_and_when_all_are_served_no_other_is_accepted(
    pool: HttpConnections,
) -> None:
    clients = [Client("a") for _ in range(4)]
    enter(pool, *clients)
    for one in clients[:3]:
        one.is_at_work = True

    new, other = Client("a"), Client("b")
    assert enter(pool, new) == [True]
    assert [one.is_cut_off for one in clients] == [False, False, False, True]
    assert enter(pool, other) == [True]  # the new connection has sent no request yet
    for one in (*clients, new, other):
        one.is_at_work = True
    assert enter(pool, Client("c")) == [False]


def test_a_place_is_free_again_once(pool: HttpConnections) -> None:
    first = Client("a")
    enter(pool, first, *[Client("b") for _ in range(3)])

    for _ in range(2):  # it was cut off, and then the loop reports its end
        pool.leave(cast(Any, first))

    other = Client("a")
    assert enter(pool, other) == [True]
    pool.moved(cast(Any, first))  # it has ended, and gets no place back
    assert enter(pool, Client("c"), Client("c")) == [True, True] and not other.is_cut_off


@pytest.mark.parametrize(
    ("peer_name", "network"),
    [
        (None, ""),
        (("10.0.0.1", 9), "10.0.0.1"),
        (("::ffff:10.0.0.1", 9, 0, 0), "10.0.0.1"),
        (("2001:db8:1:2:3::4", 9, 0, 0), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 9, 0, 2), "fe80::/64"),
    ],
)
def test_a_host_with_many_addresses_of_ipv6_is_one(peer_name: Any, network: str) -> None:
    assert network_of(str(peer_name[0]) if peer_name else "") == network

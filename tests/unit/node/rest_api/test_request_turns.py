"""Requests to the REST API are handled a few reads a turn, and addresses take turns."""

from collections.abc import Callable

import pytest

from ottla.node.rest_api.request_turns import MOST_PER_TURN, RequestTurns

REQUEST = b"GET /v3/clusters HTTP/1.1\r\n"


class Loop:
    """The calls that a loop was given, and its turns."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


class Connection:
    """A connection that notes when it is handled."""

    def __init__(self, name: str, handled: list[str]) -> None:
        self._name = name
        self._handled = handled

    def handle_held(self) -> None:
        self._handled.append(self._name)


def arrive(turns: RequestTurns, address: str, handled: list[str], data: bytes = REQUEST) -> bool:
    return turns.take_turn(Connection(address, handled), address, data)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def turns(loop: Loop) -> RequestTurns:
    return RequestTurns(loop.call_soon)


def test_few_pieces_are_handled_at_once(turns: RequestTurns, loop: Loop) -> None:
    handled: list[str] = []

    for _ in range(3):
        assert [arrive(turns, "a", handled) for _ in range(MOST_PER_TURN)] == [True] * MOST_PER_TURN
        loop.turn()

    assert handled == []


def test_a_flood_is_handled_a_few_pieces_a_turn(turns: RequestTurns, loop: Loop) -> None:
    handled: list[str] = []
    flood = [arrive(turns, "a", handled) for _ in range(3 * MOST_PER_TURN + 1)]

    assert flood.count(True) == MOST_PER_TURN
    for done in (MOST_PER_TURN, 2 * MOST_PER_TURN, 2 * MOST_PER_TURN + 1):
        loop.turn()
        assert len(handled) == done


def test_another_address_is_handled_in_the_next_turn(turns: RequestTurns, loop: Loop) -> None:
    handled: list[str] = []
    for _ in range(100):
        arrive(turns, "a", handled)
    assert not arrive(turns, "b", handled)

    loop.turn()

    assert handled[:2] == ["a", "b"] and len(handled) == MOST_PER_TURN


@pytest.mark.parametrize("probe", [b"GET /healthz HTTP/1.1\r\n", b"HEAD /readyz HTTP/1.1\r\n"])
def test_a_probe_does_not_wait_for_a_flood_from_its_address(
    turns: RequestTurns, loop: Loop, probe: bytes
) -> None:
    handled: list[str] = []
    for _ in range(100):
        arrive(turns, "a", handled)
    probed: list[str] = []
    assert not arrive(turns, "a", probed, probe)

    loop.turn()

    assert probed == ["a"]


def test_a_connection_does_not_overtake_others_of_its_address(turns: RequestTurns, loop: Loop) -> None:
    first: list[str] = []
    for _ in range(2 * MOST_PER_TURN + 1):
        arrive(turns, "a", first)
    loop.turn()
    late: list[str] = []

    assert not arrive(turns, "a", late)

    loop.turn()
    assert (len(first), late) == (MOST_PER_TURN + 1, ["a"])


def test_a_loop_without_work_is_left_alone(turns: RequestTurns, loop: Loop) -> None:
    arrive(turns, "a", [])

    loop.turn()
    loop.turn()

    assert loop.calls == []

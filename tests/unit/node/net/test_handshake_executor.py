"""The order in which handshakes are computed, and the choice of those that are refused."""

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.node.net.handshake_executor import HandshakeExecutor


class HeldLoop:
    """A loop whose thread pool computes only when the test says so."""

    def __init__(self) -> None:
        self.began: list[tuple[Any, Future[Any]]] = []

    def run_in_executor(self, pool: object, work: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.began.append((work, future))
        return future

    def compute(self) -> None:
        work, future = self.began.pop(0)
        future.set_result(work())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldLoop:
    held = HeldLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: held)
    return held


def test_addresses_have_their_turns_one_after_another(held: HeldLoop) -> None:
    executor, done = HandshakeExecutor(threads=1), list[str]()
    for address, count in (("a", 5), ("b", 2), ("c", 1)):
        for number in range(count):
            executor.submit(address, lambda name=f"{address}{number}": name, done.append, lambda: None)

    while held.began:
        held.compute()

    assert done == ["a0", "a1", "b0", "c0", "a2", "b1", "a3", "a4"]
    assert executor.waiting == 0


def test_if_too_many_handshakes_wait_the_address_with_most_loses_its_newest(held: HeldLoop) -> None:
    executor, done, refused = HandshakeExecutor(threads=1, max_waiting=4), list[str](), list[str]()

    def submit(name: str) -> None:
        executor.submit(name[0], lambda: name, done.append, lambda: refused.append(name))

    for name in ("a0", "a1", "a2", "a3", "a4", "b0", "a5"):
        submit(name)

    assert refused == ["a4", "a5"]
    while held.began:
        held.compute()
    assert done == ["a0", "a1", "b0", "a2", "a3"]


def test_all_addresses_that_one_host_may_have_share_a_turn(held: HeldLoop) -> None:
    executor, done = HandshakeExecutor(threads=1), list[str]()
    for name, address in (("0", "::1"), ("a", "2001:db8::a"), ("b", "2001:db8::b"), ("c", "10.0.0.1")):
        executor.submit(address, lambda name=name: name, done.append, lambda: None)

    while held.began:
        held.compute()

    assert done == ["0", "a", "c", "b"]


def test_among_addresses_with_equally_many_the_last_to_connect_is_refused(held: HeldLoop) -> None:
    executor, refused = HandshakeExecutor(threads=1, max_waiting=2), list[str]()
    for name in ("a", "b", "c", "d"):
        executor.submit(name, lambda: None, lambda result: None, lambda name=name: refused.append(name))

    assert refused == ["d"]


def test_waiting_handshakes_are_dropped_when_the_node_stops(held: HeldLoop) -> None:
    executor, done = HandshakeExecutor(threads=1), list[str]()
    for name in ("a", "b"):
        executor.submit(name, lambda: "x", done.append, lambda: None)

    executor.close()
    held.compute()

    assert done == ["x"] and not held.began and executor.waiting == 0

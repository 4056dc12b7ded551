"""ottla.node.net.arrivals: connections that wait, or are throttled, before they are let in."""

import asyncio
from typing import Any, cast

import pytest

from ottla.node.net import arrivals as arrivals_module
from ottla.node.net.arrivals import Arrival, Arrivals
from ottla.node.quota.connection_rates import CONNECTION_CREATION_RATE, ConnectionRates, RateLimits
from ottla.node.quota.rate import Windows
from tests.unit.node.net.test_listener import Transport


class Timers:
    """A loop with a clock controlled by the test, and with timers only."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.timers: list[tuple[float, Any, tuple[Any, ...]]] = []

    def call_later(self, delay_s: float, call: Any, *arguments: Any) -> None:
        self.timers.append((self.now_s + delay_s, call, arguments))

    def advance(self, seconds: float) -> None:
        until = self.now_s + seconds
        while due := sorted((one for one in self.timers if one[0] <= until), key=lambda one: one[0]):
            self.timers.remove(due[0])
            self.now_s = due[0][0]
            due[0][1](*due[0][2])
        self.now_s = until


class AcceptedProtocol(asyncio.BufferedProtocol):
    """The protocol of a connection that was let in."""

    def __init__(self) -> None:
        self.received = b""
        self.transport: Any = None
        self.room = bytearray(3)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.room)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += bytes(self.room[:nbytes])


class Socket(Transport):
    """A transport that can be handed from one protocol to the next."""

    protocol: Any = None
    is_reading_now = True

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self.is_aborted


class FakeListener:
    """A listener that records the connections that it lets in."""

    name = "A"
    file_limit = 1_000
    is_protected = False

    def __init__(self, *, rate: int = 2**31 - 1, addresses: dict[str | None, float] | None = None) -> None:
        self.timers = Timers()
        self.loop = cast(asyncio.AbstractEventLoop, self.timers)
        self.accepted: list[AcceptedProtocol] = []
        self.rates = ConnectionRates(Windows(), lambda: int(self.timers.now_s * 1_000))
        self.rates.limit(RateLimits(max_connection_creation_rate=rate))
        quotas = {
            (("ip", name),): {CONNECTION_CREATION_RATE: limit} for name, limit in (addresses or {}).items()
        }
        self.rates.set(quotas)
        self.arrivals = Arrivals(self, self.rates)

    def make_protocol(self) -> asyncio.BufferedProtocol:
        self.accepted.append(AcceptedProtocol())
        return self.accepted[-1]

    def connect(self, client: str = "10.0.0.1", file_number: int | None = None) -> Socket:
        transport = Socket(client, file_number)
        transport.protocol = self.arrivals.new()
        transport.protocol.connection_made(transport)
        return transport

    def addresses(self) -> list[str]:
        return [one.transport.get_extra_info("peername")[0] for one in self.accepted]


def test_within_the_rate_all_connections_are_let_in_at_once() -> None:
    listener = FakeListener(rate=2)

    sockets = [listener.connect() for _ in range(20)]

    assert len(listener.accepted) == 20 and len(listener.arrivals) == 0
    assert all(one.is_reading_now for one in sockets)


def test_beyond_the_rate_connections_come_in_one_by_one_at_that_rate() -> None:
    listener = FakeListener(rate=2)
    for _ in range(20):
        listener.connect()

    waiting = [listener.connect() for _ in range(100)]

    assert not any(one.is_reading_now for one in waiting)
    assert len(listener.accepted) == 20 and len(listener.arrivals) == 100
    listener.timers.advance(30)
    assert 20 + 40 <= len(listener.accepted) <= 20 + 62, "two a second"
    listener.timers.advance(40)
    assert len(listener.arrivals) == 0 and not any(one.is_aborted for one in waiting)


def test_a_connection_that_has_sent_much_already_waits_for_its_turn_with_all_of_it() -> None:
    listener = FakeListener(rate=2)
    for _ in range(20):
        listener.connect()
    early = bytes(range(256)) * 80
    transport = Socket("10.0.0.2", None)

    listener.arrivals.take(cast(Any, transport), memoryview(early))
    has_waited = len(listener.accepted) == 20 and not transport.is_reading_now
    transport.protocol.get_buffer(-1)[:3] = b"end"
    transport.protocol.buffer_updated(3)
    listener.timers.advance(3)

    assert has_waited and listener.accepted[-1].received == early + b"end"


def test_addresses_take_turns_so_none_waits_for_all_of_another() -> None:
    listener = FakeListener(rate=2)
    for _ in range(20):
        listener.connect("10.0.0.1")
    for _ in range(100):
        listener.connect("10.0.0.1")

    listener.connect("10.0.0.2")
    listener.timers.advance(3)

    assert "10.0.0.2" in listener.addresses()


def test_an_address_beyond_its_rate_is_closed_after_its_throttle_time_and_delays_no_other() -> None:
    listener = FakeListener(addresses={"10.0.0.1": 2})
    for _ in range(20):
        listener.connect("10.0.0.1")

    throttled = listener.connect("10.0.0.1")
    listener.connect("10.0.0.2")

    assert listener.addresses() == ["10.0.0.1"] * 20 + ["10.0.0.2"]
    assert not throttled.is_aborted and not throttled.is_reading_now
    listener.timers.advance(0.49)
    assert not throttled.is_aborted
    listener.timers.advance(0.02)
    assert throttled.is_aborted
    throttled.protocol.connection_lost(None)
    assert len(listener.arrivals) == 0


def test_a_client_that_leaves_while_it_waits_is_forgotten() -> None:
    listener = FakeListener(rate=2)
    for _ in range(20):
        listener.connect()
    first, second = listener.connect(), listener.connect()

    for one in (first, second):
        assert not one.protocol.eof_received()
        one.abort()
        one.protocol.connection_lost(None)
    listener.timers.advance(60)

    assert len(listener.accepted) == 20 and len(listener.arrivals) == 0


def test_early_bytes_are_received_when_the_client_is_let_in() -> None:
    listener = FakeListener(rate=2)
    for _ in range(20):
        listener.connect()
    early = listener.connect()
    arrival = early.protocol
    assert isinstance(arrival, Arrival)

    arrival.get_buffer(-1)[:8] = b"a little"
    early.is_reading_now = True  # as with uvloop
    arrival.buffer_updated(8)
    assert not early.is_reading_now
    listener.timers.advance(60)

    assert listener.accepted[-1].received == b"a little" and early.is_reading_now


def test_if_too_many_wait_the_address_with_most_loses_its_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals_module, "MAX_WAITING", 10)
    listener = FakeListener(rate=1)
    for _ in range(10):
        listener.connect()
    many = [listener.connect("10.0.0.1") for _ in range(12)]

    other = listener.connect("10.0.0.2")

    assert [one.is_aborted for one in many] == [False] * 9 + [True] * 3
    assert not other.is_aborted and len(listener.arrivals) == 10


def test_throttled_connections_of_one_address_take_no_place_of_waiting_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arrivals_module, "MAX_THROTTLED", 5)
    monkeypatch.setattr(arrivals_module, "MAX_WAITING", 5)
    listener = FakeListener(addresses={"10.0.0.1": 1})
    for _ in range(10):
        listener.connect()

    throttled = [listener.connect() for _ in range(8)]

    assert [one.is_aborted for one in throttled] == [False] * 5 + [True] * 3
    listener.connect("10.0.0.2")
    assert listener.addresses()[-1] == "10.0.0.2"


def test_file_descriptors_of_the_logs_are_not_taken() -> None:
    listener = FakeListener(rate=2)

    assert listener.connect(file_number=1_000).is_aborted
    assert not listener.accepted


def test_waiting_connections_are_closed_when_the_listener_stops() -> None:
    listener = FakeListener(rate=2)
    for _ in range(20):
        listener.connect()
    waiting = [listener.connect() for _ in range(3)]

    listener.arrivals.close()
    listener.timers.advance(60)

    assert all(one.is_aborted for one in waiting) and len(listener.accepted) == 20

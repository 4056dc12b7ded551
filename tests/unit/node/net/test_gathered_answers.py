"""Responses are sent at once if few come in a turn of the loop, and together if many do; awaited responses go
before those of the requests that brought the news.
"""

import asyncio
from collections.abc import Iterator

import pytest

from ottla.node.net.answers import Pending
from ottla.node.net.connection_states import Serving
from ottla.node.net.gathered_answers import (
    MAX_AHEAD,
    MAX_GATHERED,
    MAX_KEPT_BYTES,
    MIN_GATHERED,
    TRY_EVERY,
    GatheredAnswers,
)
from tests.unit.node.net.test_connection import Peer, frame


class Sender:
    """A connection that records its writes in a log shared with others."""

    def __init__(self, name: str, log: list[tuple[str, bytes]]) -> None:
        self.name = name
        self.log = log
        self.state = Serving.READY

    def write(self, answer: bytes) -> None:  # type: ignore[override]
        self.log.append((self.name, bytes(answer)))


class Turns:
    """The gathered answers of a listener, with a loop whose turns the test makes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.gathered = GatheredAnswers(loop)
        self.log: list[tuple[str, bytes]] = []
        self.senders = [Sender(str(number), self.log) for number in range(2 * MAX_GATHERED)]

    def answer(self, count: int) -> int:
        """Answer `count` connections; return how many of these answers were sent at once."""
        before = len(self.log)
        for sender in self.senders[:count]:
            self.gathered.send(sender, b"answer")  # type: ignore[arg-type]
        return len(self.log) - before

    def end(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))

    def try_one(self) -> None:
        """Send as many answers as are sent at once before gathering is tried for a turn."""
        for _ in range(TRY_EVERY):
            assert self.answer(1) == 1
        self.log.clear()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def turns(loop: asyncio.AbstractEventLoop) -> Turns:
    return Turns(loop)


def test_few_answers_leave_at_once_but_for_one_turn_now_and_then(turns: Turns) -> None:
    turns.try_one()

    assert turns.answer(MIN_GATHERED - 1) == 0
    turns.end()
    assert len(turns.log) == MIN_GATHERED - 1
    turns.try_one()


def test_many_answers_of_a_turn_leave_at_its_end(turns: Turns) -> None:
    turns.try_one()

    for _ in range(3):
        assert turns.answer(MIN_GATHERED) == 0
        turns.end()
        assert [name for name, _ in turns.log] == [str(number) for number in range(MIN_GATHERED)]
        turns.log.clear()


def test_the_number_of_gathered_answers_is_limited(turns: Turns) -> None:
    turns.try_one()

    assert turns.answer(MAX_GATHERED + 3) == MAX_GATHERED
    turns.end()
    assert len(turns.log) == MAX_GATHERED + 3
    assert turns.answer(MIN_GATHERED) == 0, "those that left before the turn's end count, too"


def test_a_large_answer_is_sent_at_once_after_those_before_it(turns: Turns) -> None:
    turns.try_one()
    first, second = turns.senders[:2]

    turns.gathered.send(first, b"small")  # type: ignore[arg-type]
    turns.gathered.send(second, bytes(MAX_KEPT_BYTES + 1))  # type: ignore[arg-type]

    assert [(name, len(answer)) for name, answer in turns.log] == [("0", 5), ("1", MAX_KEPT_BYTES + 1)]


def test_nothing_is_written_to_a_connection_that_was_closed_meanwhile(turns: Turns) -> None:
    turns.try_one()

    turns.answer(3)
    turns.senders[1].state = Serving.CLOSED
    turns.end()

    assert [name for name, _ in turns.log] == ["0", "2"]


def test_awaited_answers_are_sent_before_those_of_the_requests_that_brought_the_news(turns: Turns) -> None:
    producer, consumer = turns.senders[:2]
    turns.loop.call_soon(turns.gathered.send_awaited, consumer, b"news")

    turns.gathered.gather_until_answered()
    turns.gathered.send(producer, b"taken")  # type: ignore[arg-type]
    assert not turns.log
    turns.end()

    assert turns.log == [("1", b"news"), ("0", b"taken")]
    assert turns.answer(1) == 1, "the next turn has no news"


def wake(turns: Turns, *senders: Sender) -> None:
    """Answer awaited requests by callbacks of the loop, as an append does."""
    for sender in senders:
        turns.loop.call_soon(turns.gathered.send_awaited, sender, b"news")
        turns.gathered.gather_until_answered()


@pytest.mark.parametrize("consumers", range(1, MAX_AHEAD + 3))
def test_the_request_that_brought_the_news_waits_for_few(turns: Turns, consumers: int) -> None:
    producer, *waiting = turns.senders[: consumers + 1]

    for _ in range(2):
        turns.log.clear()
        wake(turns, *waiting)
        turns.gathered.send(producer, b"taken")  # type: ignore[arg-type]
        turns.end()

        assert [name for name, _ in turns.log].index("0") == min(consumers, MAX_AHEAD)


def test_two_producers_of_a_turn_wait_for_both_consumers(turns: Turns) -> None:
    for producer, consumer in (turns.senders[:2], turns.senders[2:4]):
        wake(turns, consumer)
        turns.gathered.send(producer, b"taken")  # type: ignore[arg-type]
    turns.end()

    assert [name for name, _ in turns.log] == ["1", "3", "0", "2"]


def test_awaited_answers_are_sent_together_with_others_in_a_turn_of_many(turns: Turns) -> None:
    turns.try_one()
    first, second, consumer = turns.senders[:3]

    turns.gathered.send(first, b"taken")  # type: ignore[arg-type]
    wake(turns, consumer)
    turns.gathered.send(second, b"taken")  # type: ignore[arg-type]
    turns.end()

    assert [name for name, _ in turns.log] == ["0", "1", "2"]


def test_answers_that_had_to_wait_count_for_how_many_come_in_a_turn(turns: Turns) -> None:
    for _ in range(TRY_EVERY):
        turns.gathered.send_awaited(turns.senders[0], b"news")  # type: ignore[arg-type]
    turns.log.clear()

    for _ in range(2):
        for sender in turns.senders[:MIN_GATHERED]:
            turns.gathered.send_awaited(sender, b"news")  # type: ignore[arg-type]
        assert not turns.log
        turns.end()
        assert len(turns.log) == MIN_GATHERED
        turns.log.clear()


def test_a_transport_that_fails_does_not_hold_up_those_after_it(turns: Turns) -> None:
    def fail(answer: bytes) -> None:
        raise RuntimeError

    turns.loop.set_exception_handler(lambda loop, context: None)
    turns.gathered.gather_until_answered()
    turns.senders[0].write = fail  # type: ignore[assignment, method-assign]
    turns.answer(1)
    turns.end()

    turns.gathered.send(turns.senders[1], b"taken")  # type: ignore[arg-type]
    assert [name for name, _ in turns.log] == ["1"]


def test_an_awaited_answer_is_sent_after_earlier_answers_to_the_same_connection(turns: Turns) -> None:
    first, second = turns.senders[:2]

    turns.gathered.gather_until_answered()
    turns.gathered.send(first, b"another's")  # type: ignore[arg-type]
    turns.gathered.send(second, b"earlier")  # type: ignore[arg-type]
    turns.gathered.send_awaited(second, b"news")  # type: ignore[arg-type]

    assert turns.log == [("0", b"another's"), ("1", b"earlier"), ("1", b"news")]


def test_a_turn_with_news_does_not_count_as_a_tried_turn(turns: Turns) -> None:
    turns.answer(1)
    turns.gathered.gather_until_answered()
    turns.end()

    assert [turns.answer(1) for _ in range(TRY_EVERY - 1)] == [1] * (TRY_EVERY - 1)
    assert turns.answer(1) == 0


@pytest.fixture
def peer(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """Return a connection whose answers wait for the end of the turn."""
    monkeypatch.setattr("ottla.node.net.gathered_answers.TRY_EVERY", 0)
    return Peer(loop)


def test_a_connection_answers_at_the_end_of_the_turn(peer: Peer) -> None:
    peer.send(frame(b"one") + frame(b"two"))
    assert not peer.transport.sent

    peer.turn()
    assert peer.transport.sent == [b"onetwo"]


def test_a_peer_that_has_closed_its_side_is_answered_before_the_transport_closes(peer: Peer) -> None:
    peer.send(frame(b"one"))

    assert not peer.connection.eof_received()
    assert peer.transport.sent == [b"one"]


def test_gathered_answers_are_sent_before_the_connection_is_closed(peer: Peer) -> None:
    peer.send(frame(b"one") + b"\xff\xff\xff\xff")

    assert peer.transport.sent == [b"one"] and peer.transport.is_closed


def test_answers_that_are_too_large_to_be_kept_leave_in_their_order(peer: Peer) -> None:
    peer.listener.answer = lambda request: (
        [bytes(request)] if len(request) < 9 else [bytes(request), bytes(20_000)]
    )

    peer.send(frame(b"one") + frame(b"the second"))

    assert b"".join(peer.transport.sent) == b"onethe second" + bytes(20_000)


def test_a_large_read_lets_others_have_their_answers_first(peer: Peer) -> None:
    other = Peer(peer.loop, gathered=peer.listener.gathered)
    peer.send(frame(b"one"))

    large = frame(bytes(400_000))
    while large and not peer.transport.sent:
        large = large[other.send(large[:40_000]) :]

    assert peer.transport.sent == [b"one"]
    assert large, "before the large frame was whole"


def test_a_connection_that_waits_is_answered_first(loop: asyncio.AbstractEventLoop) -> None:
    gathered = GatheredAnswers(loop)
    consumer, producer = Peer(loop, gathered=gathered), Peer(loop, gathered=gathered)
    found = loop.create_future()
    consumer.listener.answer = lambda request: Pending(found, lambda result: [result])
    order: list[str] = []
    for name, one in (("consumer", consumer), ("producer", producer)):
        one.transport.write = lambda data, name=name: order.append(name)  # type: ignore[method-assign]
    consumer.send(frame(b"anything new?"))

    def append(request: memoryview) -> list[bytes]:
        found.set_result(b"news")
        gathered.gather_until_answered()
        return [b"taken"]

    producer.listener.answer = append  # type: ignore[assignment]
    producer.send(frame(b"news"))
    producer.turn()

    assert order == ["consumer", "producer"]

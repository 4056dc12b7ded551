"""Each move between the states of a connection is caused by its event, and no other move happens."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from ottla.node.net import connection as connection_module
from ottla.node.net import connection_states, read_turn, throttle
from ottla.node.net.answers import CloseConnection, Pending
from ottla.node.net.connection_states import READING_MOVES, SERVING_MOVES, Reading, Serving
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.receive_memory import ReceiveMemory
from tests.unit.node.net.test_connection import Peer, frame, with_a_file_under_way

READY, BLOCKED, YIELDING, WAITING, HELD, THROTTLED, REFUSED, CLOSED = Serving
ON, OFF, RESTING, STARVED = Reading
SENSELESS = b"\xff" * 8
THROTTLE_MS = 3_600_000
LARGE = frame(bytes(100_000))


def moves_in_words() -> set[tuple[str, str]]:
    text = connection_states.__doc__ or ""
    return {(found[1], found[2]) for found in re.finditer(r"^ +([A-Z]+) +-> ([A-Z]+) ", text, flags=re.M)}


def moves_of(table: Mapping[Any, frozenset[Any]]) -> set[tuple[str, str]]:
    return {(state.name, to.name) for state, moves in table.items() for to in moves}


def test_the_table_of_moves_matches_the_documented_one() -> None:
    assert moves_in_words() == moves_of(SERVING_MOVES) | moves_of(READING_MOVES)
    assert set(SERVING_MOVES) == set(Serving) and set(READING_MOVES) == set(Reading)


class Gathered(GatheredAnswers):
    """Gathered answers that call the test after they are sent."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.after_sending: Callable[[], None] = lambda: None

    def send_all(self) -> None:
        super().send_all()
        self.after_sending()


class Story(Peer):
    """A peer whose node answers as the frame's first byte says, and whose states are recorded."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: ReceiveMemory | None = None) -> None:
        self.gathered = Gathered(loop)
        super().__init__(loop, memory, self.gathered)
        self.waiting: asyncio.Future[Any] = loop.create_future()
        self.replicas: asyncio.Future[Any] = loop.create_future()
        self.listener.answer = self._answer

    def _answer(self, asked: memoryview) -> Any:
        match bytes(asked[2:3]):
            case b"w":  # waits
                return Pending(self.waiting, self._encode)
            case b"r":  # is carried out, and waits for replicas
                return Pending(self.replicas, lambda _: [b"acknowledged"], is_carried_out=True)
            case b"x":  # is refused
                raise CloseConnection("it is hopeless")
            case b"t":  # is beyond a quota
                self.connection.throttle(THROTTLE_MS)
                return [b"throttled"]
            case b"f":  # fills what may be unsent
                return [b"records", b"more"]
            case _:
                return [b"."]

    def _encode(self, result: Any) -> Any:
        if isinstance(result, Exception):
            raise result
        if result == "more":
            self.waiting = self.loop.create_future()
            return Pending(self.waiting, self._encode)
        return [b"at last"]

    def asks(self, kind: bytes) -> None:
        """Send one Produce request for each kind."""
        self.send(b"".join(frame(b"\0\0" + kind[at : at + 1]) for at in range(len(kind))))

    def stops_reading_answers(self) -> None:
        self.connection.pause_writing()

    def stops_reading_at_the_next_write(self) -> None:
        write = self.transport.writelines

        def writelines(buffers: list[bytes]) -> None:
            write(buffers)
            self.connection.pause_writing()

        self.transport.writelines = writelines  # type: ignore[method-assign]

    def reads_answers(self) -> None:
        self.connection.resume_writing()

    def answered(self, result: Any = None) -> None:
        self.waiting.set_result(result)
        self.turn()

    def replicated(self) -> None:
        self.replicas.set_result(None)
        self.turn()

    def goes(self) -> None:
        self.connection.connection_lost(None)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 3600.0)


def many(story: Story) -> None:
    story.asks(b"." * (connection_module.MAX_REQUESTS_PER_TURN + 1))


def fill_and_wait(story: Story) -> None:
    story.stops_reading_at_the_next_write()
    story.asks(b".w")


def refuse_when_full(story: Story) -> None:
    """Send a large frame that is refused: gathered answers are sent before it, and fill the transport."""
    story.asks(b"r")
    story.gathered.after_sending = story.stops_reading_answers
    story.send(frame(b"\0\0x" + bytes(connection_module.LARGE_FRAME_BYTES)))


def owe_and_ask_another(story: Story) -> None:
    story.send(frame(b"\0\0r") + frame(b"\0\1."))


def throttled_when_owed(story: Story) -> None:
    story.connection.throttle(THROTTLE_MS)
    story.replicated()


def time_is_over(story: Story) -> None:
    later(story, THROTTLE_MS / 1_000 + 1)


def later(story: Story, seconds: float) -> None:
    """Let time pass on the loop."""
    time = story.loop.time
    story.loop.time = lambda: time() + seconds  # type: ignore[method-assign]
    story.turn()


def blocked_by_what_was_owed(story: Story) -> None:
    story.stops_reading_at_the_next_write()
    story.replicated()


MOVES: dict[tuple[Serving, Serving], tuple[Callable[[Story], Any], Callable[[Story], Any]]] = {
    (READY, BLOCKED): (lambda story: None, Story.stops_reading_answers),
    (READY, YIELDING): (lambda story: None, many),
    (READY, WAITING): (lambda story: None, lambda story: story.asks(b"w")),
    (READY, HELD): (lambda story: None, owe_and_ask_another),
    (READY, REFUSED): (lambda story: story.asks(b"r"), lambda story: story.send(SENSELESS)),
    (READY, CLOSED): (lambda story: None, lambda story: story.send(SENSELESS)),
    (BLOCKED, READY): (Story.stops_reading_answers, Story.reads_answers),
    (BLOCKED, WAITING): (lambda story: None, fill_and_wait),
    (BLOCKED, REFUSED): (lambda story: None, refuse_when_full),
    (BLOCKED, CLOSED): (Story.stops_reading_answers, Story.goes),
    (YIELDING, READY): (many, Story.turn),
    (YIELDING, BLOCKED): (lambda story: (many(story), story.stops_reading_answers()), Story.turn),
    (YIELDING, CLOSED): (many, Story.goes),
    (WAITING, READY): (lambda story: story.asks(b"w"), Story.answered),
    (WAITING, BLOCKED): (
        lambda story: (story.asks(b"w"), story.stops_reading_answers()),
        Story.answered,
    ),
    (WAITING, WAITING): (lambda story: story.asks(b"w"), lambda story: story.answered("more")),
    (WAITING, REFUSED): (
        lambda story: story.asks(b"rw"),
        lambda story: story.answered(CloseConnection("it is hopeless")),
    ),
    (WAITING, CLOSED): (
        lambda story: story.asks(b"w"),
        lambda story: story.answered(CloseConnection("it is hopeless")),
    ),
    (HELD, READY): (owe_and_ask_another, Story.replicated),
    (HELD, BLOCKED): (owe_and_ask_another, blocked_by_what_was_owed),
    (HELD, CLOSED): (owe_and_ask_another, Story.goes),
    (READY, THROTTLED): (lambda story: None, lambda story: story.connection.throttle(THROTTLE_MS)),
    (BLOCKED, THROTTLED): (
        lambda story: (story.stops_reading_answers(), story.connection.throttle(THROTTLE_MS)),
        Story.reads_answers,
    ),
    (YIELDING, THROTTLED): (lambda story: (many(story), story.connection.throttle(THROTTLE_MS)), Story.turn),
    (WAITING, THROTTLED): (
        lambda story: (story.asks(b"w"), story.connection.throttle(THROTTLE_MS)),
        Story.answered,
    ),
    (HELD, THROTTLED): (owe_and_ask_another, throttled_when_owed),
    (THROTTLED, READY): (lambda story: story.asks(b"t"), time_is_over),
    (THROTTLED, BLOCKED): (
        lambda story: (story.asks(b"t"), story.stops_reading_answers()),
        time_is_over,
    ),
    (THROTTLED, REFUSED): (
        lambda story: story.asks(b"rt"),
        lambda story: story.connection.refuse("its bytes were changed on the way"),
    ),
    (THROTTLED, CLOSED): (lambda story: story.asks(b"t"), Story.goes),
    (REFUSED, CLOSED): (lambda story: story.asks(b"rx"), Story.replicated),
}


class NotedTable:
    """The table of moves; it records the moves that are looked up."""

    def __init__(self) -> None:
        self.made: list[tuple[Serving, Serving]] = []

    def __getitem__(self, state: Serving) -> "NotedMoves":
        return NotedMoves(self, state)


class NotedMoves:
    def __init__(self, table: NotedTable, state: Serving) -> None:
        self._table = table
        self._state = state

    def __contains__(self, to: Serving) -> bool:
        self._table.made.append((self._state, to))
        return to in SERVING_MOVES[self._state]


@pytest.mark.parametrize(("state", "to"), [(state, to) for state in Serving for to in SERVING_MOVES[state]])
def test_each_move_of_the_table_is_made(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, state: Serving, to: Serving
) -> None:
    story = Story(loop)
    prepare, make = MOVES[state, to]
    prepare(story)
    table = NotedTable()
    monkeypatch.setattr(connection_module, "SERVING_MOVES", table)

    make(story)

    assert (state, to) in table.made


@pytest.mark.parametrize(("state", "to"), MOVES)
def test_a_move_that_the_table_does_not_have_is_a_bug(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, state: Serving, to: Serving
) -> None:
    """Remove each move from the table in turn, and make it nevertheless."""
    failures: list[Exception] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    story = Story(loop)
    prepare, make = MOVES[state, to]
    prepare(story)
    monkeypatch.setattr(
        connection_module, "SERVING_MOVES", {**SERVING_MOVES, state: SERVING_MOVES[state] - {to}}
    )

    with pytest.raises(AssertionError, match=f"^{state.name} -> {to.name}"):
        make(story)
        for failure in failures:  # in a callback of the loop
            raise failure


def test_a_held_request_is_served_when_nothing_is_owed_and_the_peer_reads(
    loop: asyncio.AbstractEventLoop,
) -> None:
    story = Story(loop)
    owe_and_ask_another(story)
    blocked_by_what_was_owed(story)
    assert story.connection.state is BLOCKED
    assert story.transport.sent == [b"acknowledged"]

    story.reads_answers()

    assert story.transport.sent == [b"acknowledged", b"."]


def test_a_throttled_peer_has_its_answer_at_once_and_waits_with_its_next_request(
    loop: asyncio.AbstractEventLoop,
) -> None:
    story = Story(loop)
    story.asks(b"t.")
    story.asks(b"..")
    story.turn()
    assert story.transport.sent == [b"throttled"]
    assert story.connection.is_throttled and not story.transport.is_reading

    time_is_over(story)
    story.turn()

    assert b"".join(story.transport.sent) == b"throttled..."
    assert not story.connection.is_throttled and story.transport.is_reading


def test_an_owed_answer_leaves_while_its_peer_is_throttled(loop: asyncio.AbstractEventLoop) -> None:
    story = Story(loop)
    story.asks(b"rt")
    story.replicated()

    assert b"".join(story.transport.sent) == b"acknowledgedthrottled" and story.connection.is_throttled


def test_the_end_of_a_throttled_peer_is_noticed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, busy = Story(loop), Story(loop)
    quiet.asks(b"t")
    assert not quiet.connection.eof_received()

    busy.asks(b"t.")
    busy.asks(b".")
    ends = {"peer_has_ended": lambda: True}
    monkeypatch.setattr(busy.transport, "get_extra_info", ends.get)
    later(busy, throttle.LOOK_FOR_END_SECONDS)

    assert busy.transport.is_closed


def test_nothing_is_served_behind_a_file_that_is_not_sent_yet(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(loop)
    story.asks(b".")
    with with_a_file_under_way(story, monkeypatch) as sender:
        story.asks(b".")
        assert story.transport.sent == [b"."]
        sender.has_sent()

        assert b"".join(story.transport.sent) == b".." and story.connection.state is READY


def test_a_request_that_is_closed_while_its_answer_leaves_is_given_up(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The answers before the request exceed the memory of all unsent answers."""
    story = Story(loop)
    write = story.transport.writelines

    def end(buffers: list[bytes]) -> None:
        write(buffers)
        story.connection.abort("its answers are not read while memory is scarce")

    story.transport.writelines = end  # type: ignore[method-assign]
    story.asks(b".w")
    assert story.connection.state is CLOSED and not story.waiting.done()

    story.goes()
    story.turn()

    assert story.waiting.cancelled() and len(story.listener.complaints) == 1


# ---- reading -----------------------------------------------------------------------------------------------


def test_a_read_behind_a_request_that_waits_is_the_last_until_it_is_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    story = Story(loop)
    story.asks(b"w")
    assert story.connection.reading is ON

    story.asks(b".")
    assert story.connection.reading is OFF
    story.answered()

    assert story.connection.reading is ON


def test_a_peer_that_sends_much_rests_and_is_read_again(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 0.0)
    story = Story(loop)
    taken = story.send(LARGE * 9)
    assert taken < len(LARGE * 9) and story.connection.reading is RESTING

    story.turn()

    assert story.connection.reading is ON


def test_a_connection_that_is_not_read_from_may_have_to_rest_as_well(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(loop)
    story.send(LARGE)
    story.turn()
    story.connection.pause_writing()
    story.listener.must_rest = lambda: True
    story.send(LARGE[:40_000])
    assert story.connection.reading is OFF

    story.listener.must_rest = lambda: False
    story.reads_answers()
    assert story.connection.reading is RESTING

    story.turn()
    assert story.connection.reading is ON


def test_a_connection_without_memory_to_grow_is_read_again_when_there_is_some(
    loop: asyncio.AbstractEventLoop,
) -> None:
    memory = ReceiveMemory(100_000)
    debtor, story = Story(loop, memory), Story(loop, memory)
    debtor.send(frame(bytes(120_000))[:80_000])

    story.send(frame(bytes(60_000))[:40_000])
    assert story.connection.reading is STARVED
    debtor.goes()

    assert story.connection.reading is ON
    assert story.transport.is_reading


@pytest.mark.parametrize("reading", [OFF, RESTING])
def test_a_connection_that_is_not_read_from_may_lack_memory_when_it_could_be(
    loop: asyncio.AbstractEventLoop, reading: Reading
) -> None:
    memory = ReceiveMemory(100_000)
    debtor, story = Story(loop, memory), Story(loop, memory)
    debtor.send(frame(bytes(120_000))[:80_000])
    story.connection.pause_writing()
    story.send(frame(bytes(60_000))[:8192])
    assert story.connection.reading is OFF
    story.connection.reading = reading

    story.reads_answers()

    assert story.connection.reading is STARVED


def test_a_closed_connection_is_not_read_from_again(loop: asyncio.AbstractEventLoop) -> None:
    story = Story(loop)
    story.asks(b"w.")

    story.connection.close()
    story.answered()

    assert story.connection.reading is OFF and not story.transport.is_reading

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
from tests.unit.node.net.test_connection import Peer, advance_clock, frame, sending_file

READY, BLOCKED, YIELDING, WAITING, HELD, THROTTLED, REFUSED, CLOSED = Serving
ON, OFF, RESTING, STARVED = Reading
MALFORMED = b"\xff" * 8
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


class ScriptedPeer(Peer):
    """A peer whose node answers as the first byte after the API key of a frame says."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: ReceiveMemory | None = None) -> None:
        self.gathered = Gathered(loop)
        super().__init__(loop, memory, self.gathered)
        self.waiting: asyncio.Future[Any] = loop.create_future()
        self.replicas: asyncio.Future[Any] = loop.create_future()
        self.listener.answer = self._answer

    def _answer(self, request: memoryview) -> Any:
        match bytes(request[2:3]):
            case b"w":  # waits
                return Pending(self.waiting, self._encode)
            case b"r":  # is carried out, and waits for replicas
                return Pending(self.replicas, lambda _: [b"acknowledged"], is_carried_out=True)
            case b"x":  # is refused
                raise CloseConnection("it is hopeless")
            case b"t":  # is beyond a quota
                self.connection.throttle(THROTTLE_MS)
                return [b"throttled"]
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

    def disconnects(self) -> None:
        self.connection.connection_lost(None)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 3600.0)


def exceed_turn(peer: ScriptedPeer) -> None:
    peer.asks(b"." * (connection_module.MAX_REQUESTS_PER_TURN + 1))


def wait_while_blocked(peer: ScriptedPeer) -> None:
    peer.stops_reading_at_the_next_write()
    peer.asks(b".w")


def refuse_when_full(peer: ScriptedPeer) -> None:
    """Send a large frame that is refused: gathered answers are sent before it, and fill the transport."""
    peer.asks(b"r")
    peer.gathered.after_sending = peer.stops_reading_answers
    peer.send(frame(b"\0\0x" + bytes(connection_module.LARGE_FRAME_BYTES)))


def hold_behind_produce(peer: ScriptedPeer) -> None:
    peer.send(frame(b"\0\0r") + frame(b"\0\1."))


def throttle_and_replicate(peer: ScriptedPeer) -> None:
    peer.connection.throttle(THROTTLE_MS)
    peer.replicated()


def end_throttle(peer: ScriptedPeer) -> None:
    advance_clock(peer.loop, THROTTLE_MS / 1_000 + 1)
    peer.turn()


def block_while_replicating(peer: ScriptedPeer) -> None:
    peer.stops_reading_at_the_next_write()
    peer.replicated()


MOVES: dict[tuple[Serving, Serving], tuple[Callable[[ScriptedPeer], Any], Callable[[ScriptedPeer], Any]]] = {
    (READY, BLOCKED): (lambda peer: None, ScriptedPeer.stops_reading_answers),
    (READY, YIELDING): (lambda peer: None, exceed_turn),
    (READY, WAITING): (lambda peer: None, lambda peer: peer.asks(b"w")),
    (READY, HELD): (lambda peer: None, hold_behind_produce),
    (READY, REFUSED): (lambda peer: peer.asks(b"r"), lambda peer: peer.send(MALFORMED)),
    (READY, CLOSED): (lambda peer: None, lambda peer: peer.send(MALFORMED)),
    (BLOCKED, READY): (ScriptedPeer.stops_reading_answers, ScriptedPeer.reads_answers),
    (BLOCKED, WAITING): (lambda peer: None, wait_while_blocked),
    (BLOCKED, REFUSED): (lambda peer: None, refuse_when_full),
    (BLOCKED, CLOSED): (ScriptedPeer.stops_reading_answers, ScriptedPeer.disconnects),
    (YIELDING, READY): (exceed_turn, ScriptedPeer.turn),
    (YIELDING, BLOCKED): (lambda peer: (exceed_turn(peer), peer.stops_reading_answers()), ScriptedPeer.turn),
    (YIELDING, CLOSED): (exceed_turn, ScriptedPeer.disconnects),
    (WAITING, READY): (lambda peer: peer.asks(b"w"), ScriptedPeer.answered),
    (WAITING, BLOCKED): (
        lambda peer: (peer.asks(b"w"), peer.stops_reading_answers()),
        ScriptedPeer.answered,
    ),
    (WAITING, WAITING): (lambda peer: peer.asks(b"w"), lambda peer: peer.answered("more")),
    (WAITING, REFUSED): (
        lambda peer: peer.asks(b"rw"),
        lambda peer: peer.answered(CloseConnection("it is hopeless")),
    ),
    (WAITING, CLOSED): (
        lambda peer: peer.asks(b"w"),
        lambda peer: peer.answered(CloseConnection("it is hopeless")),
    ),
    (HELD, READY): (hold_behind_produce, ScriptedPeer.replicated),
    (HELD, BLOCKED): (hold_behind_produce, block_while_replicating),
    (HELD, CLOSED): (hold_behind_produce, ScriptedPeer.disconnects),
    (READY, THROTTLED): (lambda peer: None, lambda peer: peer.connection.throttle(THROTTLE_MS)),
    (BLOCKED, THROTTLED): (
        lambda peer: (peer.stops_reading_answers(), peer.connection.throttle(THROTTLE_MS)),
        ScriptedPeer.reads_answers,
    ),
    (YIELDING, THROTTLED): (
        lambda peer: (exceed_turn(peer), peer.connection.throttle(THROTTLE_MS)),
        ScriptedPeer.turn,
    ),
    (WAITING, THROTTLED): (
        lambda peer: (peer.asks(b"w"), peer.connection.throttle(THROTTLE_MS)),
        ScriptedPeer.answered,
    ),
    (HELD, THROTTLED): (hold_behind_produce, throttle_and_replicate),
    (THROTTLED, READY): (lambda peer: peer.asks(b"t"), end_throttle),
    (THROTTLED, BLOCKED): (
        lambda peer: (peer.asks(b"t"), peer.stops_reading_answers()),
        end_throttle,
    ),
    (THROTTLED, REFUSED): (
        lambda peer: peer.asks(b"rt"),
        lambda peer: peer.connection.refuse("its bytes were changed on the way"),
    ),
    (THROTTLED, CLOSED): (lambda peer: peer.asks(b"t"), ScriptedPeer.disconnects),
    (REFUSED, CLOSED): (lambda peer: peer.asks(b"rx"), ScriptedPeer.replicated),
}


class RecordedTable:
    """The table of moves; it records the moves that are looked up."""

    def __init__(self) -> None:
        self.made: list[tuple[Serving, Serving]] = []

    def __getitem__(self, state: Serving) -> "RecordedMoves":
        return RecordedMoves(self, state)


class RecordedMoves:
    def __init__(self, table: RecordedTable, state: Serving) -> None:
        self._table = table
        self._state = state

    def __contains__(self, to: Serving) -> bool:
        self._table.made.append((self._state, to))
        return to in SERVING_MOVES[self._state]


@pytest.mark.parametrize(("state", "to"), [(state, to) for state in Serving for to in SERVING_MOVES[state]])
def test_each_move_of_the_table_is_made(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, state: Serving, to: Serving
) -> None:
    peer = ScriptedPeer(loop)
    prepare, make = MOVES[state, to]
    prepare(peer)
    table = RecordedTable()
    monkeypatch.setattr(connection_module, "SERVING_MOVES", table)

    make(peer)

    assert (state, to) in table.made


@pytest.mark.parametrize(("state", "to"), MOVES)
def test_a_move_that_the_table_does_not_have_is_a_bug(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, state: Serving, to: Serving
) -> None:
    """Remove each move from the table in turn, and make it nevertheless."""
    failures: list[Exception] = []
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    peer = ScriptedPeer(loop)
    prepare, make = MOVES[state, to]
    prepare(peer)
    monkeypatch.setattr(
        connection_module, "SERVING_MOVES", {**SERVING_MOVES, state: SERVING_MOVES[state] - {to}}
    )

    with pytest.raises(AssertionError, match=f"^{state.name} -> {to.name}"):
        make(peer)
        for failure in failures:  # in a callback of the loop
            raise failure


def test_a_held_request_is_served_when_nothing_is_owed_and_the_peer_reads(
    loop: asyncio.AbstractEventLoop,
) -> None:
    peer = ScriptedPeer(loop)
    hold_behind_produce(peer)
    block_while_replicating(peer)
    assert peer.connection.state is BLOCKED
    assert peer.transport.sent == [b"acknowledged"]

    peer.reads_answers()

    assert peer.transport.sent == [b"acknowledged", b"."]


def test_a_throttled_peer_has_its_answer_at_once_and_waits_with_its_next_request(
    loop: asyncio.AbstractEventLoop,
) -> None:
    peer = ScriptedPeer(loop)
    peer.asks(b"t.")
    peer.asks(b"..")
    peer.turn()
    assert peer.transport.sent == [b"throttled"]
    assert peer.connection.is_throttled and not peer.transport.is_reading

    end_throttle(peer)
    peer.turn()

    assert b"".join(peer.transport.sent) == b"throttled..."
    assert not peer.connection.is_throttled and peer.transport.is_reading


def test_an_owed_answer_leaves_while_its_peer_is_throttled(loop: asyncio.AbstractEventLoop) -> None:
    peer = ScriptedPeer(loop)
    peer.asks(b"rt")
    peer.replicated()

    assert b"".join(peer.transport.sent) == b"acknowledgedthrottled" and peer.connection.is_throttled


def test_the_end_of_a_throttled_peer_is_noticed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet, busy = ScriptedPeer(loop), ScriptedPeer(loop)
    quiet.asks(b"t")
    assert not quiet.connection.eof_received()

    busy.asks(b"t.")
    busy.asks(b".")
    ends = {"peer_has_ended": lambda: True}
    monkeypatch.setattr(busy.transport, "get_extra_info", ends.get)
    advance_clock(loop, throttle.LOOK_FOR_END_SECONDS)
    busy.turn()

    assert busy.transport.is_closed


def test_nothing_is_served_behind_a_file_that_is_not_sent_yet(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = ScriptedPeer(loop)
    peer.asks(b".")
    with sending_file(peer, monkeypatch) as sender:
        peer.asks(b".")
        assert peer.transport.sent == [b"."]
        sender.has_sent()

        assert b"".join(peer.transport.sent) == b".." and peer.connection.state is READY


def test_a_request_that_is_closed_while_its_answer_leaves_is_given_up(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """The answers before the request exceed the memory of all unsent answers."""
    peer = ScriptedPeer(loop)
    write = peer.transport.writelines

    def end(buffers: list[bytes]) -> None:
        write(buffers)
        peer.connection.abort("its answers are not read while memory is scarce")

    peer.transport.writelines = end  # type: ignore[method-assign]
    peer.asks(b".w")
    assert peer.connection.state is CLOSED and not peer.waiting.done()

    peer.disconnects()
    peer.turn()

    assert peer.waiting.cancelled() and len(peer.listener.complaints) == 1


# ---- reading -----------------------------------------------------------------------------------------------


def test_a_read_behind_a_request_that_waits_is_the_last_until_it_is_answered(
    loop: asyncio.AbstractEventLoop,
) -> None:
    peer = ScriptedPeer(loop)
    peer.asks(b"w")
    assert peer.connection.reading is ON

    peer.asks(b".")
    assert peer.connection.reading is OFF
    peer.answered()

    assert peer.connection.reading is ON


def test_a_peer_that_sends_much_rests_and_is_read_again(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_turn, "MAX_TURN_SECONDS", 0.0)
    peer = ScriptedPeer(loop)
    taken = peer.send(LARGE * 9)
    assert taken < len(LARGE * 9) and peer.connection.reading is RESTING

    peer.turn()

    assert peer.connection.reading is ON


def test_a_connection_that_is_not_read_from_may_have_to_rest_as_well(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = ScriptedPeer(loop)
    peer.send(LARGE)
    peer.turn()
    peer.connection.pause_writing()
    peer.listener.must_pause = lambda: True
    peer.send(LARGE[:40_000])
    assert peer.connection.reading is OFF

    peer.listener.must_pause = lambda: False
    peer.reads_answers()
    assert peer.connection.reading is RESTING

    peer.turn()
    assert peer.connection.reading is ON


def test_a_connection_without_memory_to_grow_is_read_again_when_there_is_some(
    loop: asyncio.AbstractEventLoop,
) -> None:
    memory = ReceiveMemory(100_000)
    overdrawn, peer = ScriptedPeer(loop, memory), ScriptedPeer(loop, memory)
    overdrawn.send(frame(bytes(120_000))[:80_000])

    peer.send(frame(bytes(60_000))[:40_000])
    assert peer.connection.reading is STARVED
    overdrawn.disconnects()

    assert peer.connection.reading is ON
    assert peer.transport.is_reading


@pytest.mark.parametrize("reading", [OFF, RESTING])
def test_a_connection_that_is_not_read_from_may_lack_memory_when_it_could_be(
    loop: asyncio.AbstractEventLoop, reading: Reading
) -> None:
    memory = ReceiveMemory(100_000)
    overdrawn, peer = ScriptedPeer(loop, memory), ScriptedPeer(loop, memory)
    overdrawn.send(frame(bytes(120_000))[:80_000])
    peer.connection.pause_writing()
    peer.send(frame(bytes(60_000))[:8192])
    assert peer.connection.reading is OFF
    peer.connection.reading = reading

    peer.reads_answers()

    assert peer.connection.reading is STARVED


def test_a_closed_connection_is_not_read_from_again(loop: asyncio.AbstractEventLoop) -> None:
    peer = ScriptedPeer(loop)
    peer.asks(b"w.")

    peer.connection.close()
    peer.answered()

    assert peer.connection.reading is OFF and not peer.transport.is_reading

"""Long answers share a limited amount of memory, and slow readers lose theirs to others."""

from contextlib import ExitStack

import pytest

from ottla.node.rest_api.answer_room import MIN_LEAVING_S, AnswerPart, AnswerRoom
from ottla.node.rest_api.rest_error import RestError


class World:
    """A room of 100 bytes with a clock, and the connections that were cut off."""

    def __init__(self, stack: ExitStack) -> None:
        self.now_s = 0.0
        self.cut_off: list[str] = []
        self.room = AnswerRoom(lambda: self.now_s, 100)
        self._stack = stack

    def part(self, name: str) -> AnswerPart:
        return self._stack.enter_context(self.room.part(lambda: self.cut_off.append(name)))


@pytest.fixture
def world() -> World:
    return World(ExitStack())


def test_an_answer_gives_its_room_back_however_it_ends() -> None:
    room = AnswerRoom(lambda: 0.0)

    with pytest.raises(ZeroDivisionError), room.part(lambda: None) as part:
        part.hold(60)
        part.leave(80)
        1 / 0  # noqa: B018

    assert room.held_bytes == 0


def test_an_answer_under_construction_is_refused_when_there_is_no_room(world: World) -> None:
    first, second = world.part("first"), world.part("second")
    first.hold(60)

    with pytest.raises(RestError) as refused:
        second.hold(41)

    assert refused.value.status == 429 and world.cut_off == [] and world.room.held_bytes == 60
    second.hold(40)
    first.hold(10)
    second.hold(90)
    assert world.room.held_bytes == 100


def test_one_answer_alone_may_be_larger(world: World) -> None:
    alone = world.part("alone")

    alone.hold(500)
    alone.leave(1000)

    with pytest.raises(RestError):
        world.part("other").hold(1)


def test_the_longest_reader_is_cut_off_unless_it_has_just_begun(world: World) -> None:
    first, second, third = world.part("first"), world.part("second"), world.part("third")
    first.leave(40)
    world.now_s = 1.0
    second.leave(40)

    with pytest.raises(RestError):
        third.leave(60)
    world.now_s = MIN_LEAVING_S
    third.leave(60)

    assert world.cut_off == ["first"] and world.room.held_bytes == 100
    world.room.give_back(first)  # its task runs its finally block
    assert world.room.held_bytes == 100

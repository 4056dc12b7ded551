"""The answers that a connection owes, by themselves: their order and their end."""

import asyncio
from collections.abc import Iterator

import pytest

from ottla.node.net.ordered_answers import MAX_ORDERED, PRODUCE_KEY, OrderedAnswers


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def owed() -> OrderedAnswers:
    return OrderedAnswers()


def test_answers_leave_in_the_order_of_their_requests(
    loop: asyncio.AbstractEventLoop, owed: OrderedAnswers
) -> None:
    first, second = owed.await_answer(loop.create_future()), owed.await_answer(loop.create_future())
    owed.add([b"three"])

    assert not owed.settle(second, [b"two"])
    assert owed.take() == ([], None)
    assert owed.settle(first, [b"one"])

    assert owed.take() == ([b"one", b"two", b"three"], None)
    assert not owed.in_order


def test_only_what_is_there_is_taken(loop: asyncio.AbstractEventLoop, owed: OrderedAnswers) -> None:
    owed.add([b"one"])
    waiting = owed.await_answer(loop.create_future())
    owed.add([b"three"])

    assert owed.take() == ([b"one"], None)
    assert owed.in_order[0] is waiting


def test_a_request_without_an_answer_gets_no_bytes(
    loop: asyncio.AbstractEventLoop, owed: OrderedAnswers
) -> None:
    waiting = owed.await_answer(loop.create_future())
    owed.add([b"two"])

    assert owed.settle(waiting, None)

    assert owed.take() == ([b"two"], None)


def test_nothing_is_owed_behind_a_refusal(loop: asyncio.AbstractEventLoop, owed: OrderedAnswers) -> None:
    owed.add([b"one"])
    owed.add_refusal("it is hopeless")
    owed.await_answer(loop.create_future())

    assert owed.take() == ([b"one"], "it is hopeless")
    assert not owed.in_order


def test_an_awaited_answer_may_end_in_a_refusal(
    loop: asyncio.AbstractEventLoop, owed: OrderedAnswers
) -> None:
    waiting = owed.await_answer(loop.create_future())
    owed.add([b"two"])

    assert owed.settle(waiting, None, "it is hopeless")

    assert owed.take() == ([], "it is hopeless")


@pytest.mark.parametrize(
    ("request_bytes", "passes"), [(PRODUCE_KEY + b"\0\x09", True), (b"\0\1\0\x09", False), (b"\0", False)]
)
def test_only_a_produce_request_passes_the_waiting_ones(
    owed: OrderedAnswers, request_bytes: bytes, passes: bool
) -> None:
    view = memoryview(b"size" + request_bytes + PRODUCE_KEY)

    assert owed.may_serve(view, 4, 4 + len(request_bytes)) is passes


def test_the_number_of_owed_answers_is_limited(owed: OrderedAnswers) -> None:
    view = memoryview(PRODUCE_KEY)
    for _ in range(MAX_ORDERED):
        assert owed.may_serve(view, 0, 2)
        owed.add([b"answer"])

    assert not owed.may_serve(view, 0, 2)


def test_answers_that_are_given_up_are_cancelled(
    loop: asyncio.AbstractEventLoop, owed: OrderedAnswers
) -> None:
    futures = [loop.create_future() for _ in range(2)]
    for future in futures:
        owed.await_answer(future)
    owed.add([b"answer"])

    owed.give_up()

    assert all(future.cancelled() for future in futures) and not owed.in_order

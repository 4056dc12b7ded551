"""The answers that a connection owes, in the order of their requests.

A Produce request whose records are appended and wait for replicas, or for a flush, holds up no other Produce
request behind it. So several answers may be awaited at once; whatever is answered behind them waits with its
answer until its turn has come. Nothing but Produce requests is served meanwhile: their answers are small, and
none of them waits in another way.
"""

import asyncio
from collections import deque
from typing import Any

from ottla.node.net.answers import Answer
from ottla.node.net.file_pipe import Piece

# Produce requests of a connection whose acknowledgements are waited for. Clients have 5 in flight; each is a
# future and some small objects.
MAX_OWED = 64
PRODUCE_KEY = b"\0\0"


class Owed:
    """An answer that is to leave after those before it; `future` while it is not there.

    With a `refusal` the connection is closed for that reason instead.
    """

    __slots__ = ("answer", "future", "refusal")

    def __init__(
        self, future: "asyncio.Future[Any] | None", answer: Answer, refusal: str | None = None
    ) -> None:
        self.future = future
        self.answer = answer
        self.refusal = refusal


class OwedAnswers:
    """The answers that one connection owes, in order."""

    __slots__ = ("in_order",)

    def __init__(self) -> None:
        self.in_order: deque[Owed] = deque()  # the connection looks at it with each request: is it empty?

    def lets_pass(self, view: memoryview, start: int, stop: int) -> bool:
        """Return whether the request between these positions may be served although answers are owed."""
        return len(self.in_order) < MAX_OWED and stop - start >= 2 and view[start : start + 2] == PRODUCE_KEY

    def add(self, answer: Answer) -> None:
        """Owe an answer that is there already."""
        self.in_order.append(Owed(None, answer))

    def add_refusal(self, reason: str) -> None:
        """Owe the end of the connection: nothing is answered behind it."""
        self.in_order.append(Owed(None, None, reason))

    def await_answer(self, future: "asyncio.Future[Any]") -> Owed:
        """Owe an answer that comes of this future; `settle` tells which."""
        owed = Owed(future, None)
        self.in_order.append(owed)
        return owed

    def settle(self, owed: Owed, answer: Answer, refusal: str | None = None) -> bool:
        """Note an answer that was awaited, or why there is none; return whether it is the next to leave."""
        owed.future, owed.answer, owed.refusal = None, answer, refusal
        return owed is self.in_order[0]

    def take(self) -> tuple[list[Piece], str | None]:
        """Take the answers that are there, up to the first that is not; the reason to close, if one is next.

        Behind that nothing is owed any more.
        """
        out: list[Piece] = []
        in_order = self.in_order
        while in_order and in_order[0].future is None:
            owed = in_order.popleft()
            if owed.refusal is not None:
                in_order.clear()
                return out, owed.refusal
            if owed.answer:
                out += owed.answer
        return out, None

    def give_up(self) -> None:
        """The peer is gone: nobody waits for these answers."""
        for owed in self.in_order:
            if owed.future is not None:
                owed.future.cancel()
        self.in_order.clear()

"""The answers that a connection owes, in the order of their requests.

A Produce request whose records are appended, and which waits for replicas or a flush, does not hold up the
next Produce request. So several answers may be pending at once; each answer that is ready waits until all
before it are sent. Only Produce requests are served meanwhile, since their answers are small. One of them
that must wait before its append, such as for its transaction's coordinator, holds up the requests behind it.
"""

import asyncio
from collections import deque
from typing import Any

from ottla.node.net.answers import Answer
from ottla.node.net.file_pipe import Piece

# Produce requests of a connection that wait for acknowledgement. Clients have 5 in flight; each is a future
# and some small objects.
MAX_ORDERED = 64
PRODUCE_KEY = b"\0\0"


class OrderedAnswer:
    """An answer to send after all before it; it has a `future` until it is ready.

    With a `refusal` the connection is closed for that reason instead.
    """

    __slots__ = ("answer", "future", "refusal")

    def __init__(
        self, future: "asyncio.Future[Any] | None", answer: Answer, refusal: str | None = None
    ) -> None:
        self.future = future
        self.answer = answer
        self.refusal = refusal


class OrderedAnswers:
    """The answers that one connection owes, in order."""

    __slots__ = ("in_order",)

    def __init__(self) -> None:
        # Public: the connection checks with each request if it is empty.
        self.in_order: deque[OrderedAnswer] = deque()

    def may_serve(self, view: memoryview, start: int, stop: int) -> bool:
        """Return True if the request between these positions may be served although answers are owed."""
        return (
            len(self.in_order) < MAX_ORDERED and stop - start >= 2 and view[start : start + 2] == PRODUCE_KEY
        )

    def add(self, answer: Answer) -> None:
        """Owe an answer that is ready."""
        self.in_order.append(OrderedAnswer(None, answer))

    def add_refusal(self, reason: str) -> None:
        """Owe the end of the connection: nothing is answered after it."""
        self.in_order.append(OrderedAnswer(None, None, reason))

    def await_answer(self, future: "asyncio.Future[Any]") -> OrderedAnswer:
        """Owe the answer to come of this future; it is set by `settle`."""
        ordered = OrderedAnswer(future, None)
        self.in_order.append(ordered)
        return ordered

    def settle(self, ordered: OrderedAnswer, answer: Answer, refusal: str | None = None) -> bool:
        """Set an owed answer, or the reason to close instead; return True if it is the next to send."""
        ordered.future, ordered.answer, ordered.refusal = None, answer, refusal
        return ordered is self.in_order[0]

    def take(self) -> tuple[list[Piece], str | None]:
        """Take the ready answers up to the first that is not ready, and the reason to close, if that is next.

        After a reason to close nothing is owed any more.
        """
        out: list[Piece] = []
        in_order = self.in_order
        while in_order and in_order[0].future is None:
            ordered = in_order.popleft()
            if ordered.refusal is not None:
                in_order.clear()
                return out, ordered.refusal
            if ordered.answer:
                out += ordered.answer
        return out, None

    def give_up(self) -> None:
        """Cancel all owed answers: the peer is gone."""
        for ordered in self.in_order:
            if ordered.future is not None:
                ordered.future.cancel()
        self.in_order.clear()

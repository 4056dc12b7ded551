"""The ways to answer a request: what handlers return, and what connections take.

A handler returns a `Result` of its response's class. The dispatcher makes of it an `Answer`, bytes that may
leave, or something `Pending`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.logstore.words.schema import Buffer
from ottla.node.net.file_pipe import Piece

C = TypeVar("C")  # a connection
R = TypeVar("R")  # a response
R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)

# ---- what handlers return ----------------------------------------------------------------------------------


class Delayed(NamedTuple, Generic[T_co]):
    """Answer when an event has come: the future of that event, and the function that then makes the answer.

    Cheaper than a coroutine, for no task is made. Of a handler's, `answer` may return any other `Result` in
    its turn. A request that `is_carried_out` has a Future, waits once, and keeps nothing of what was
    received. One that waits for news brings `release`, by which its connection has the future done when it
    cannot wait any longer. One that `keeps_nothing` of what was received lets its connection have the memory
    back while it waits. What `ends_with_client` is a coroutine that changes nothing, and is cancelled once
    its client has gone.
    """

    future: Awaitable[Any]
    answer: Callable[[Any], T_co]
    is_carried_out: bool = False
    release: Callable[[], None] | None = None
    keeps_nothing: bool = False
    ends_with_client: bool = False


class Aside(NamedTuple, Generic[R_co]):
    """Build and write the answer beside the loop, since it is large.

    `make` touches nothing that the loop changes. An answer that `is_slow` lets the others pass by.
    """

    make: Callable[[], R_co]
    is_slow: bool = False


class EncodedBody(NamedTuple):
    """Answer with a body that was encoded before, in the request's version."""

    buffers: list[Buffer]


# The response itself, one of the above, an awaitable of any of these, or None for no answer at all.
Result: TypeAlias = R | EncodedBody | Aside[R] | Delayed["Result[R]"] | Awaitable["Result[R]"] | None


# ---- what connections take ---------------------------------------------------------------------------------

Answer = list[Piece] | None  # The answer as buffers and parts of files, None for "no answer".


class Pending(NamedTuple):
    """An answer that has to be waited for: a coroutine or a future, and what makes the answer of its result.

    `encode` may find that there is more to wait for. A request that `is_carried_out` waits only to be
    acknowledged, and holds nothing that was received: the next of its kind need not wait for it. What waits
    for news has a `release`, called when something comes behind it and when nobody is left to be told. One
    that `keeps_nothing` of its frame gives the memory back: it may wait for hours. One that
    `ends_with_client` changes nothing before it is encoded, so nobody needs it once its client has gone.
    """

    awaitable: Awaitable[Any]
    encode: "Callable[[Any], Answer | Pending]"
    is_carried_out: bool = False
    release: Callable[[], None] | None = None
    keeps_nothing: bool = False
    ends_with_client: bool = False


class Run(NamedTuple):
    """Requests that were served at once: where in the buffer they end, how many, and all of their answers."""

    stop: int
    requests: int
    answers: Answer | Pending


def _no_run(connection: object, view: memoryview, position: int, end: int) -> Run | None:
    return None


class Service(NamedTuple, Generic[C]):
    """What serves requests: from a frame (without its length) to the answer.

    `serve_run` may serve several frames at once, from that whose length stands at `position` in `view`, which
    is filled up to `end`; it serves at least two, or says None.

    `fail` gives the answer to a frame whose serving raised, or raises CloseConnection where the protocol
    has no room for an error.
    """

    serve: Callable[[C, memoryview], Answer | Pending]
    fail: Callable[[C, memoryview, BaseException], Answer]
    serve_run: Callable[[C, memoryview, int, int], Run | None] = _no_run


class CloseConnection(Exception):
    """Raised while a request is served: the only fitting answer is to close. The text goes to the log."""

"""The forms in which a handler answers a request, and those that a connection takes.

A handler returns a `Result` of its response's class. The dispatcher turns it into an `Answer`, bytes that can
be sent, or into a `Pending`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from ottla.logstore.words.schema import Buffer
from ottla.node.net.file_pipe import Piece

C = TypeVar("C")  # a connection
R = TypeVar("R")  # a response
R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)

# ---- results of handlers -----------------------------------------------------------------------------------


class Delayed(NamedTuple, Generic[T_co]):
    """An answer that is made by `answer` from the result of `future`; Kafka's DelayedOperation.

    Cheaper than a coroutine, since it needs no task. In a handler's result, `answer` may return any other
    `Result`.

    `is_carried_out`: the request is carried out and only its acknowledgement is pending. Its future is a
    Future, it waits once, and it refers to none of the received bytes.
    `release`: completes the future early with what is available; the connection calls it when the request can
    wait no longer.
    `keeps_nothing`: none of the received bytes are needed any more, so the connection takes their memory
    back.
    `ends_with_client`: the future is a coroutine that changes nothing; it is cancelled when its client is
    gone.
    """

    future: Awaitable[Any]
    answer: Callable[[Any], T_co]
    is_carried_out: bool = False
    release: Callable[[], None] | None = None
    keeps_nothing: bool = False
    ends_with_client: bool = False


class BuiltInThread(NamedTuple, Generic[R_co]):
    """A large response that a thread builds with `make` and encodes.

    `make` must not touch anything that the loop changes.
    """

    make: Callable[[], R_co]


class EncodedBody(NamedTuple):
    """A body that was encoded before, in the request's version."""

    buffers: list[Buffer]
    error_code: int = 0  # of an answer that has one for all of its parts


# The response itself, one of the above, an awaitable of any of these, or None for no answer at all.
Result: TypeAlias = R | EncodedBody | BuiltInThread[R] | Delayed["Result[R]"] | Awaitable["Result[R]"] | None


# ---- answers for connections -------------------------------------------------------------------------------

Answer = list[Piece] | None  # The answer as buffers and parts of files, None for "no answer".


class Pending(NamedTuple):
    """An answer that is still awaited: a coroutine or future, and `encode`, which turns its result into the
    answer or into another `Pending`.

    The other fields are those of `Delayed`. If it `is_carried_out`, the next request is served without
    waiting for it. `release` is called when another request arrives behind this one, and when the client is
    gone.
    """

    awaitable: Awaitable[Any]
    encode: "Callable[[Any], Answer | Pending]"
    is_carried_out: bool = False
    release: Callable[[], None] | None = None
    keeps_nothing: bool = False
    ends_with_client: bool = False


class Run(NamedTuple):
    """Requests that were served at once: the position where they end, their number, and all their answers."""

    stop: int
    requests: int
    answers: Answer | Pending


def _no_run(connection: object, view: memoryview, position: int, end: int) -> Run | None:
    return None


class Service(NamedTuple, Generic[C]):
    """The functions that serve requests, from a frame (without its length) to the answer.

    `serve_run` may serve several frames at once. The length of the first one is at `position` in `view`,
    which is filled up to `end`. It serves at least two, or returns None.

    `fail` returns the answer to a frame whose serving raised an error, or raises CloseConnection if the
    protocol has no field for an error.
    """

    serve: Callable[[C, memoryview], Answer | Pending]
    fail: Callable[[C, memoryview, BaseException], Answer]
    serve_run: Callable[[C, memoryview, int, int], Run | None] = _no_run


class CloseConnection(Exception):
    """Raised by a request that can only be answered by closing the connection; the text is logged."""

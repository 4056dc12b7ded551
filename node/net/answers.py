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
    """Answer when `future` is done, with what `answer` makes of its result; Kafka's DelayedOperation.

    Cheaper than a coroutine, since no task is made. In a handler's result, `answer` may return any other
    `Result`.

    `is_carried_out`: the request is done and only waits to be acknowledged. Its future is a Future, it waits
    once, and it keeps nothing of what was received.
    `release`: completes the future early, with what there is; the connection calls it when the request can
    wait no longer.
    `keeps_nothing`: nothing of what was received is needed any more, so the connection takes its memory back.
    `ends_with_client`: the future is a coroutine that changes nothing, cancelled when its client has gone.
    """

    future: Awaitable[Any]
    answer: Callable[[Any], T_co]
    is_carried_out: bool = False
    release: Callable[[], None] | None = None
    keeps_nothing: bool = False
    ends_with_client: bool = False


class BuiltInThread(NamedTuple, Generic[R_co]):
    """Answer with a large response: a thread builds it with `make` and encodes it.

    `make` must not touch anything that the loop changes.
    """

    make: Callable[[], R_co]


class EncodedBody(NamedTuple):
    """Answer with a body that was encoded before, in the request's version."""

    buffers: list[Buffer]
    error_code: int = 0  # of an answer that has one for all of its parts


# The response itself, one of the above, an awaitable of any of these, or None for no answer at all.
Result: TypeAlias = R | EncodedBody | BuiltInThread[R] | Delayed["Result[R]"] | Awaitable["Result[R]"] | None


# ---- what connections take ---------------------------------------------------------------------------------

Answer = list[Piece] | None  # The answer as buffers and parts of files, None for "no answer".


class Pending(NamedTuple):
    """An answer that has to be waited for: a coroutine or a future, and `encode`, which makes the answer of
    its result, or finds that there is more to wait for.

    The other fields are those of `Delayed`. The next request need not wait for one that `is_carried_out`.
    `release` is called when another request comes behind this one, and when no client is left to answer.
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

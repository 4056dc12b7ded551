"""What a handler knows about a request beside its body: which API and version, and from whom."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from logstore.schema import Buffer
from node.counters.request_counters import RequestCounters
from node.net.connection_info import ConnectionInfo

__all__ = ["Aside", "ConnectionInfo", "Delayed", "EncodedBody", "RequestContext"]


@dataclass(slots=True)
class RequestContext:
    """One request, from the moment its header was read."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ConnectionInfo
    is_large: bool = False  # whether it has so many elements that others must have their turn meanwhile
    counters: RequestCounters | None = None  # of its API: errors of parts of its answer are counted there


class Delayed(NamedTuple):
    """What a handler returns whose answer waits for an event: a future, and what then makes the answer.

    Cheaper than a coroutine, for no task is made. `answer` may return an awaitable in its turn. A request
    that `is_carried_out` has a Future, waits once, and keeps nothing of what was received. One that waits for
    news brings `release`, by which its connection has the future done when it cannot wait any longer. One
    that `keeps_nothing` of what was received lets its connection have the memory back while it waits. What
    `ends_with_client` is a coroutine that changes nothing, and is cancelled once its client has gone.
    """

    future: Awaitable[Any]
    answer: Callable[[Any], Any]
    is_carried_out: bool = False
    release: Callable[[], None] | None = None
    keeps_nothing: bool = False
    ends_with_client: bool = False


class Aside(NamedTuple):
    """What a handler returns whose answer is so large that it is built and written beside the loop.

    `make` touches nothing that the loop changes. What `is_slow` lets others that are built so pass by.
    """

    make: Callable[[], Any]
    is_slow: bool = False


class EncodedBody(NamedTuple):
    """What a handler returns that keeps its answers ready-made: the body in the request's version."""

    buffers: list[Buffer]

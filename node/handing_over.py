"""The types of the calls that hand work to a thread, to a task, or to another node."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class InThread(Protocol):
    """Runs work in a thread that may wait for a disk, or takes long."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class StartTask(Protocol):
    """Starts a task that is cancelled when the node stops."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]": ...


class Ask(Protocol):
    """Sends a request to another node, and returns its response within a time."""

    def __call__(
        self, node_id: int, purpose: str, request: object, response_type: type[T], timeout_s: float, /
    ) -> Awaitable[T]: ...

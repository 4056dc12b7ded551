"""The ways to hand work over: to a thread, to a task, to another node. The node says to which."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class InThread(Protocol):
    """Does in a thread what may wait for a disk, or takes long."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class StartTask(Protocol):
    """Begins something that ends with the node at the latest."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> "asyncio.Task[T]": ...


class Ask(Protocol):
    """Asks another node, within a time."""

    def __call__(
        self, node_id: int, purpose: str, request: object, response_type: type[T], timeout_s: float, /
    ) -> Awaitable[T]: ...

"""How work is handed to a thread, or begun as a task of its own; the node says which threads and tasks."""

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

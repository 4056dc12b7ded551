"""An event of a part that is made before its listeners."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Signal(Generic[T]):
    """An event with listeners, which are called in the order in which they were connected."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[T], None]] = []

    def connect(self, listener: Callable[[T], None]) -> None:
        self._listeners.append(listener)

    def __call__(self, value: T) -> None:
        for listener in self._listeners:
            listener(value)

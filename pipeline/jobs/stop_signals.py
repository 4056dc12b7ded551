"""SIGTERM and Ctrl-C as requests to stop (door)."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` for each SIGINT and SIGTERM, in the main thread, in place of the previous handlers.

    A Spark session handles Ctrl-C itself once it starts, so enter this after that.
    """

    def handle_signal(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, handle_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""SIGTERM and Ctrl-C as requests to stop (door)."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` for each such signal, in the main thread, in place of the previous handler.

    A Spark session handles Ctrl-C itself once it starts, so enter this after that.
    """

    def asked(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, asked) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

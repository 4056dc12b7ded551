"""Writes the lines of a log in a thread, so that a reader that stops reading never blocks the node.

Standard error is often a pipe: `ottla start 2>&1 | less`, a slow container runtime, a test that reads the
output at the end. If such a pipe is full, a write blocks until its reader continues. The loop must not block:
it would answer no client until then. Lines wait here instead, up to `MAX_WAITING_BYTES`; further lines are
counted, and the count is written when there is room again.
"""

import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_WAITING_BYTES: Final = 4 << 20
END_TIMEOUT_S: Final = 2.0  # at the end of the process, for pending lines
RETRY_S: Final = 1.0  # pause of a non-blocking descriptor


class LogStream:
    """A text stream for `logging.StreamHandler`, whose writes to a file descriptor never block the caller."""

    def __init__(
        self,
        descriptor: int,
        *,
        encoding: str = "utf-8",
        notice: Callable[[str], str] = str,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        """Write to `descriptor`; `notice` formats the sentence about dropped lines as a line of this log."""
        self._descriptor = descriptor
        self._encoding = encoding
        self._notice = notice
        self._max_waiting_bytes = max_waiting_bytes
        self._turn = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0  # including those that are being written
        self._left_out = 0
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> int:
        """Append a text, or count it as left out if too much is pending; never block and never fail."""
        data = text.encode(self._encoding, "backslashreplace")
        with self._turn:
            if self._waiting_bytes + len(data) > self._max_waiting_bytes:
                self._left_out += 1
                return len(text)
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            if self._thread is None:
                self._begin()
            self._turn.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as it can."""

    def end(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Wait until everything is written, but not for long: the reader may have stopped."""
        deadline = time.monotonic() + timeout_s
        with self._turn:
            while self._waiting_bytes and (left_s := deadline - time.monotonic()) > 0:
                self._turn.wait(left_s)

    def _begin(self) -> None:
        """Start the thread; if the system has no thread left, the next line tries again.

        It blocks all signals: it may start before the process has set its signal handlers.
        """
        thread = threading.Thread(target=self._run, name="log", daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            thread.start()
        except RuntimeError:
            return
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._turn:
                while not self._waiting:
                    self._turn.wait()
                data = b"".join(self._waiting)
                self._waiting.clear()
            self._write(data)
            with self._turn:
                self._waiting_bytes -= len(data)
                if self._left_out:
                    self._print_left_out()
                self._turn.notify_all()

    def _print_left_out(self) -> None:
        lines = "1 line was" if self._left_out == 1 else f"{self._left_out:,} lines were"
        sentence = self._notice(f"{lines} left out of this log, because its reader was too slow.")
        self._left_out = 0
        line = f"{sentence}\n".encode(self._encoding, "backslashreplace")
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _write(self, data: bytes) -> None:
        """Write everything; if the descriptor has no reader any more, the rest is dropped."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that shares the descriptor has made it non-blocking
                select.select([], [self._descriptor], [], RETRY_S)
            except OSError:
                return

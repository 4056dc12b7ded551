"""The log of a process on standard error: one line an event, as text or JSON, whatever others put in names.

A line that comes again within ten seconds is only counted, and how often it came is told before the next line
that is written. What is logged may have names in it that somebody else chose: characters that end lines or
move a terminal's cursor stand as escapes, so that nobody writes lines of his own.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.cli.log_stream import LogStream
from ottla.node.loggers import level_name

TEXT: Final = "text"
JSON: Final = "json"
REPEATED_WITHIN_S: Final = 10.0
MAX_REMEMBERED: Final = 256  # lines that may come again; the oldest give way


def begin(log_format: str, node_id: int) -> None:
    """Write the log of this process so, from here on."""
    formatter = JsonFormatter(node_id) if log_format == JSON else TextFormatter()

    def notice(sentence: str) -> str:
        return formatter.format(logging.LogRecord(__name__, logging.WARNING, "", 0, sentence, (), None))

    stream = LogStream(sys.stderr.fileno(), encoding=sys.stderr.encoding, notice=notice)
    handler = RepeatingHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def end() -> None:
    """Write what waits, so that what is printed to standard error from here on stands behind it."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RepeatingHandler) and isinstance(handler.stream, LogStream):
            handler.stream.end()


class TextFormatter(logging.Formatter):
    """TIME LEVEL MESSAGE (LOGGER), and below it, moved in, the traceback of what failed."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s (%(name)s)")

    def formatMessage(self, record: logging.LogRecord) -> str:  # the library's name
        record.message = escape_controls(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join("    " + escape_controls(line) for line in super().formatException(ei).splitlines())


class JsonFormatter(logging.Formatter):
    """One object a line: timestamp, level, logger, message, node_id, and the traceback as `exception`."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {
            "timestamp": at.replace("+00:00", "Z"),
            "level": level_name(record.levelno),
            "logger": record.name,
            "message": record.getMessage(),
            "node_id": self._node_id,
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


class RepeatingHandler(logging.StreamHandler[TextIO | LogStream]):
    """Writes a line that comes again and again once, and how often it came."""

    def __init__(self, stream: TextIO | LogStream, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._now_s = now_s
        # (logger, level, message) -> when it was written last, how often it came since, the last record
        self._written: dict[tuple[str, int, str], tuple[float, int, logging.LogRecord]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Called under the handler's lock."""
        now_s = self._now_s()
        key = (record.name, record.levelno, record.getMessage())
        written = self._written.get(key)
        if written is not None and now_s - written[0] < REPEATED_WITHIN_S and not record.exc_info:
            self._written[key] = (written[0], written[1] + 1, record)
            return
        self._tell_overdue(now_s)
        self._written.pop(key, None)
        self._written[key] = (now_s, 0, record)
        if len(self._written) > MAX_REMEMBERED:
            self._tell(self._written.pop(next(iter(self._written))))
        super().emit(record)

    def close(self) -> None:
        """Tell what was only counted, and wait a moment for the stream."""
        self.acquire()
        try:
            self._tell_overdue(float("inf"))
        finally:
            self.release()
        if isinstance(self.stream, LogStream):
            self.stream.end()
        super().close()

    def _tell_overdue(self, now_s: float) -> None:
        for key, written in tuple(self._written.items()):
            if now_s - written[0] < REPEATED_WITHIN_S:
                break  # they stand in the order in which they were written
            del self._written[key]
            self._tell(written)

    def _tell(self, written: tuple[float, int, logging.LogRecord]) -> None:
        _, count, last = written
        if count:
            again = logging.makeLogRecord(last.__dict__)
            times = "once" if count == 1 else f"{count} times"
            again.msg, again.args = f"{last.getMessage()} ({times} more)", ()
            super().emit(again)

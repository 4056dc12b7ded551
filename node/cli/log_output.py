"""The log of a process on standard error: one line per event, as text or JSON, with all names escaped.

A line that is repeated within ten seconds is only counted, and the count is written before the next line. Log
messages may contain names that clients chose: characters that end lines or move a terminal's cursor are
escaped, so that no client can forge a line.
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
MAX_REMEMBERED: Final = 256  # lines; the oldest are dropped


def begin(log_format: str, node_id: int) -> None:
    """Write the log of this process in this format from here on."""
    formatter = JsonFormatter(node_id) if log_format == JSON else TextFormatter()

    def notice(sentence: str) -> str:
        return formatter.format(logging.LogRecord(__name__, logging.WARNING, "", 0, sentence, (), None))

    stream = LogStream(sys.stderr.fileno(), encoding=sys.stderr.encoding, notice=notice)
    handler = RepeatingHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def end() -> None:
    """Write all pending lines, so that later output on standard error comes after them."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RepeatingHandler) and isinstance(handler.stream, LogStream):
            handler.stream.end()


class TextFormatter(logging.Formatter):
    """TIME LEVEL MESSAGE (LOGGER), and below it, indented, the traceback of an error."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s (%(name)s)")

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name is logging's
        record.message = escape_controls(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        return "\n".join("    " + escape_controls(line) for line in super().formatException(ei).splitlines())


class JsonFormatter(logging.Formatter):
    """One object per line: timestamp, level, logger, message, node_id, and the traceback as `exception`."""

    def __init__(self, node_id: int) -> None:
        super().__init__()
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = {
            "timestamp": at.replace("+00:00", "Z"),
            "level": level_name(record.levelno),
            "logger": record.name,
            "message": record.getMessage(),
            "node_id": self._node_id,
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class RepeatingHandler(logging.StreamHandler[TextIO | LogStream]):
    """A handler that writes a repeated line once, and then its count."""

    def __init__(self, stream: TextIO | LogStream, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._now_s = now_s
        # (logger, level, message) -> time of the last write, count since then, last record
        self._written: dict[tuple[str, int, str], tuple[float, int, logging.LogRecord]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count a record; called under the handler's lock."""
        now_s = self._now_s()
        key = (record.name, record.levelno, record.getMessage())
        written = self._written.get(key)
        if written is not None and now_s - written[0] < REPEATED_WITHIN_S and not record.exc_info:
            self._written[key] = (written[0], written[1] + 1, record)
            return
        self._write_overdue(now_s)
        self._written.pop(key, None)
        self._written[key] = (now_s, 0, record)
        if len(self._written) > MAX_REMEMBERED:
            self._write(self._written.pop(next(iter(self._written))))
        super().emit(record)

    def close(self) -> None:
        """Write the pending counts, and wait a moment for the stream."""
        self.acquire()
        try:
            self._write_overdue(float("inf"))
        finally:
            self.release()
        if isinstance(self.stream, LogStream):
            self.stream.end()
        super().close()

    def _write_overdue(self, now_s: float) -> None:
        for key, written in tuple(self._written.items()):
            if now_s - written[0] < REPEATED_WITHIN_S:
                break  # the dictionary is in the order of the writes
            del self._written[key]
            self._write(written)

    def _write(self, written: tuple[float, int, logging.LogRecord]) -> None:
        _, count, last = written
        if count:
            again = logging.makeLogRecord(last.__dict__)
            times = "once" if count == 1 else f"{count} times"
            again.msg, again.args = f"{last.getMessage()} ({times} more)", ()
            super().emit(again)

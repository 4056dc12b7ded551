"""The log of a process: one line per event with any content, and repeated lines are counted."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from ottla.node.cli.log_output import MAX_REMEMBERED, JsonFormatter, RepeatingHandler, TextFormatter


class Log:
    """A logger with a clock that the test sets."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.now_s = 100.0
        self.handler = RepeatingHandler(self.stream, lambda: self.now_s)
        self.handler.setFormatter(logging.Formatter("%(message)s"))
        self.logger = logging.Logger("node.test")
        self.logger.addHandler(self.handler)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


def test_a_repeated_line_is_written_once_with_its_count(log: Log) -> None:
    for _ in range(5):
        log.logger.warning("Node %d is gone", 2)
    assert log.lines() == ["Node 2 is gone"]

    log.now_s += 11
    log.logger.warning("something else")

    assert log.lines() == ["Node 2 is gone", "Node 2 is gone (4 times more)", "something else"]


def test_pending_counts_are_written_at_the_end(log: Log) -> None:
    log.logger.warning("again")
    log.logger.warning("again")

    log.handler.close()

    assert log.lines() == ["again", "again (once more)"]


def test_different_lines_and_failures_are_all_written(log: Log) -> None:
    log.logger.info("same")
    log.logger.warning("same")
    for _ in range(2):
        try:
            raise ValueError("reason")
        except ValueError:
            log.logger.exception("failed")

    assert [line for line in log.lines() if not line.startswith((" ", "Traceback", "ValueError"))] == [
        "same",
        "same",
        "failed",
        "failed",
    ]


def test_after_its_time_a_line_is_written_again(log: Log) -> None:
    log.logger.info("hourly")
    log.now_s += 3600
    log.logger.info("hourly")

    assert log.lines() == ["hourly", "hourly"]


def test_the_number_of_remembered_lines_is_limited(log: Log) -> None:
    for number in range(3 * MAX_REMEMBERED):
        log.logger.info("line %d", number)

    assert len(log.lines()) == 3 * MAX_REMEMBERED
    log.logger.info("line %d", 2 * MAX_REMEMBERED)
    assert len(log.lines()) == 3 * MAX_REMEMBERED, "the oldest that is remembered is only counted"
    log.logger.info("line %d", 2 * MAX_REMEMBERED - 1)
    assert f"line {2 * MAX_REMEMBERED - 1}" in log.lines()[3 * MAX_REMEMBERED :], "it was forgotten"


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("ottla.node.net", logging.WARNING, "file.py", 1, message, arguments, None)
    made.created = 1_700_000_000.25
    made.__dict__.update(fields)
    return made


def failure() -> logging.LogRecord:
    try:
        raise ValueError("a\n2026-01-01 00:00:00 INFO forged (node)")
    except ValueError as error:
        return record("failed", exc_info=(type(error), error, error.__traceback__))


def test_names_cannot_begin_a_line_or_move_the_cursor() -> None:
    line = TextFormatter().format(record("topic %s", "x\n2026-01-01 INFO forged\r\x1b[2K\x85\u2028"))

    assert len(line.splitlines()) == 1 and "\x1b" not in line
    assert r"x\n2026-01-01 INFO forged\r\x1b[2K\x85\u2028" in line


def test_a_traceback_is_indented() -> None:
    first, *rest = TextFormatter().format(failure()).split("\n")

    assert "WARNING failed (ottla.node.net)" in first
    assert rest and all(line.startswith("    ") for line in rest)


def test_a_line_of_json_is_one_object_with_kafkas_levels() -> None:
    document = json.loads(JsonFormatter(4).format(record("topic %s", "x\ny")))
    failed = JsonFormatter(4).format(failure())

    assert document == {
        "timestamp": "2023-11-14T22:13:20.250Z",
        "level": "WARN",
        "logger": "ottla.node.net",
        "message": "topic x\ny",
        "node_id": 4,
    }
    assert len(failed.splitlines()) == 1 and "ValueError" in json.loads(failed)["exception"]

"""A log never blocks on its reader: a bounded number of lines waits, and the rest is counted."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.node.cli.log_output import RepeatingHandler
from ottla.node.cli.log_stream import LogStream

PIPE_BYTES = 65_536  # the buffer of a pipe in Linux


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    os.close(ends[0])
    os.close(ends[1])


def read_until(reader: int, last: bytes) -> bytes:
    seen = b""
    while not seen.endswith(last):
        seen += os.read(reader, 1 << 20)
    return seen


def test_lines_are_written_in_their_order(pipe: tuple[int, int]) -> None:
    stream = LogStream(pipe[1])
    for number in range(1_000):
        stream.write(f"line {number}\n")
    stream.end()

    assert read_until(pipe[0], b"line 999\n").decode().splitlines() == [f"line {n}" for n in range(1_000)]


def test_a_logger_does_not_wait_for_a_reader_that_has_stopped(pipe: tuple[int, int]) -> None:
    logger = logging.Logger("test")
    logger.addHandler(RepeatingHandler(LogStream(pipe[1])))  # type: ignore[arg-type, unused-ignore]

    def log() -> None:
        for number in range(4 * PIPE_BYTES // 64):
            logger.warning("%064d", number)

    thread = threading.Thread(target=log, daemon=True)
    thread.start()
    thread.join(30)

    assert not thread.is_alive(), "the logger waits for the pipe"
    lines = read_until(pipe[0], b"%064d\n" % (4 * PIPE_BYTES // 64 - 1)).splitlines()
    assert lines == [b"%064d" % number for number in range(4 * PIPE_BYTES // 64)], "nothing was lost"


def test_lines_beyond_the_limit_are_counted_and_reported_when_there_is_room(pipe: tuple[int, int]) -> None:
    stream = LogStream(pipe[1], max_waiting_bytes=3 * PIPE_BYTES)
    line = "x" * 1_023 + "\n"
    for _ in range(1_000):
        stream.write(line)

    seen = read_until(pipe[0], b"was too slow.\n").decode().splitlines()

    kept = seen.count(line.strip())
    assert 3 * PIPE_BYTES // 1_024 <= kept < 1_000
    assert seen[-1] == f"{1_000 - kept:,} lines were left out of this log, because its reader was too slow."
    stream.write("again\n")
    assert read_until(pipe[0], b"again\n") == b"again\n"


def test_dropped_lines_are_reported_in_the_format_of_the_log(pipe: tuple[int, int]) -> None:
    stream = LogStream(
        pipe[1], notice=lambda sentence: json.dumps({"message": sentence}), max_waiting_bytes=9
    )
    stream.write("too long\n" * 2)
    stream.write("second\n")

    line = read_until(pipe[0], b"}\n").decode().removeprefix("second\n")

    assert json.loads(line) == {
        "message": "1 line was left out of this log, because its reader was too slow."
    }


def test_if_no_thread_can_start_the_next_line_tries_again(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stream = LogStream(pipe[1])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        stream.write("first\n")
    stream.write("second\n")

    assert read_until(pipe[0], b"second\n") == b"first\nsecond\n"


def test_the_thread_takes_no_signals() -> None:
    """If it did not block them, a signal that the node blocks in its own threads would end the process."""
    program = """
import os, signal, sys
from ottla.node.cli.log_stream import LogStream
stream = LogStream(1)
stream.write("begun\\n")
stream.end()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
stream.write(f"{signal.sigwait({signal.SIGTERM}).name}\\n")
stream.end()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (0, "begun\nSIGTERM\n"), ran.stderr


def test_the_end_waits_for_the_reader_only_for_a_limited_time(pipe: tuple[int, int]) -> None:
    stream = LogStream(pipe[1])
    stream.write("x" * 2 * PIPE_BYTES)

    stream.end(timeout_s=0.1)

    assert len(os.read(pipe[0], 4 * PIPE_BYTES)) == PIPE_BYTES


def test_a_reader_that_is_gone_does_no_harm() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = LogStream(writer)

    stream.write("nobody reads this\n")
    began = time.monotonic()
    stream.end(timeout_s=60.0)

    assert time.monotonic() - began < 30, "the thread has gone on"
    os.close(writer)


def test_a_descriptor_that_does_not_block_gets_everything(pipe: tuple[int, int]) -> None:
    os.set_blocking(pipe[1], False)
    stream = LogStream(pipe[1])
    stream.write("x" * 4 * PIPE_BYTES)
    stream.write("end\n")

    assert len(read_until(pipe[0], b"end\n")) == 4 * PIPE_BYTES + 4


def test_characters_that_cannot_be_encoded_are_escaped(pipe: tuple[int, int]) -> None:
    stream = LogStream(pipe[1], encoding="ascii")
    stream.write("topic ö\n")

    assert read_until(pipe[0], b"\n") == rb"topic \xf6" + b"\n"

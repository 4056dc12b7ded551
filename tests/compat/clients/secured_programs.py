"""Processes with client libraries, driven by the tests of secured nodes.

Their programs are `secured_client.py`, `SecuredClient.java` and `go/secured`.
"""

import re
import subprocess
import sys
import time
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final

import pytest

from tests.compat.clients.secured_node import TIMEOUT_S, TOPIC
from tests.compat.go.programs import go_program
from tests.compat.java.jars import reason_to_skip
from tests.compat.java.java_programs import java_program
from tests.compat.servers import ROOT

CLIENTS: Final = ("confluent", "java", "franz", "sarama", "kafka-python", "aiokafka")
SOON_S: Final = 20.0  # until a client has reported an error; the most patient one tries for ten seconds
_ENDED: Final = "the process has ended"


class Program:
    """A process with a client library; `send` sends a command, `receive` waits for the answer.

    Commands are numbered, so a late answer to an earlier command is ignored.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_behind = False  # it may still be busy with a command whose answer was not waited for
        self._number = 0
        self._process = subprocess.Popen(
            _command_of(name),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())
        self._lines.put(_ENDED)

    def send(self, command: str, argument: str, settings: dict[str, str]) -> None:
        assert self._process.stdin is not None
        self._number += 1
        words = (f"{name}={value}" for name, value in settings.items())
        self._process.stdin.write(" ".join((str(self._number), command, TOPIC, argument, *words)) + "\n")

    def receive(self, timeout_s: float = TIMEOUT_S) -> str:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                self.is_behind = True
                raise AssertionError(f"{self.name} has not answered for {timeout_s} s") from None
            number, _, answer = line.partition(" ")
            if number == str(self._number):
                return answer
            assert line != _ENDED, f"{self.name} has ended"

    def talk(self, value: str, settings: dict[str, str], timeout_s: float = TIMEOUT_S) -> str:
        self.send("talk", value, settings)
        return self.receive(timeout_s)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()


def _command_of(name: str) -> list[str]:
    """Return the command that starts the process of a library, or skip the test with the reason."""
    if name == "java":
        if (reason := reason_to_skip()) is not None:
            pytest.skip(reason)
        return java_program("SecuredClient")
    if name in ("franz", "sarama"):
        program = go_program("secured")
        if isinstance(program, str):
            pytest.skip(program)
        return [str(program), name]
    return [sys.executable, "-W", "ignore", "-m", "tests.compat.clients.secured_client", name]


def assert_answer(answer: str, pattern: str) -> None:
    assert re.search(pattern, answer), answer

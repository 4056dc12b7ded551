"""Producers of several clients that write at a steady rate, idempotent and with acks=all, each in a process.

The Python ones are `python -m benchmarks.steady_producers CLIENT BOOTSTRAP TOPIC RECORDS-A-SECOND`; those in
Go and Java are among the tests. Each prints a line for each record, "ack" or "failed" with the error, and
works until its input ends. Their settings are the defaults, which most users have, except for idempotence,
acks and linger.
"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from benchmarks.program_environment import program_environment
from tests.compat.go.programs import go_program
from tests.compat.java.java_programs import java_program

ROOT: Final = Path(__file__).resolve().parents[2]
PAYLOAD: Final = b"x" * 100
END_TIMEOUT_S: Final = 30.0
FAILURES_KEPT: Final = 20
LEAST_QUIET_S: Final = 2.0
# The time that a client needs to recover from a fault before the next: franz-go requests metadata at most
# once in five seconds (MetadataMinAge), librdkafka backs off from a broker that refused it
# (reconnect.backoff.max.ms).
QUIET_S: Final = {"franz-go": 11.0, "librdkafka": 15.0}


class SteadyProducer:
    """A running client, with the times of its acknowledgements and its failures."""

    def __init__(self, command: list[str], quiet_s: float) -> None:
        self.quiet_s = quiet_s  # to write undisturbed before a fault
        self.acknowledged_s: list[float] = []
        self.failed: deque[str] = deque(maxlen=FAILURES_KEPT)
        self.failures = 0
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=program_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line == "ack\n":
                self.acknowledged_s.append(time.monotonic())
            else:
                self.failures += 1
                self.failed.append(line.rstrip())

    def longest_gap_s(self, since_s: float) -> float:
        """Return the longest time without an acknowledgement that ended after `since_s`."""
        times = list(self.acknowledged_s)
        return max(after - before for before, after in pairwise(times) if after > since_s)

    def wait_for(self, seconds: float, timeout_s: float) -> None:
        """Wait until acknowledgements have come for `seconds`; RuntimeError after `timeout_s`."""
        began = time.monotonic()
        first: float | None = None
        while first is None or time.monotonic() < first + seconds:
            if self._process.poll() is not None:
                raise RuntimeError(f"the producer has ended: {list(self.failed)}")
            if time.monotonic() > began + timeout_s:
                raise RuntimeError(f"nothing was acknowledged for {timeout_s:g} s: {list(self.failed)}")
            if first is None and self.acknowledged_s and self.acknowledged_s[-1] > began:
                first = self.acknowledged_s[-1]
            time.sleep(0.02)

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()


@contextmanager
def producing(client: str, bootstrap: str, topic: str, per_second: int) -> Iterator[SteadyProducer]:
    """Start a producer of a client, yield it after its first two seconds of records, and stop it."""
    command = COMMANDS[client]()
    quiet_s = QUIET_S.get(client, LEAST_QUIET_S)
    producer = SteadyProducer([*command, bootstrap, topic, str(per_second)], quiet_s)
    try:
        producer.wait_for(2.0, END_TIMEOUT_S)
        yield producer
    finally:
        producer.stop()


def missing_reason(client: str) -> str:
    """Return the reason why a client cannot run on this machine, or ""."""
    if client != "franz-go":
        return ""
    program = go_program("steady")
    return program if isinstance(program, str) else ""


def _python_command(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", "benchmarks.steady_producers", name]


COMMANDS: Final[dict[str, Callable[[], list[str]]]] = {
    "librdkafka": _python_command("librdkafka"),
    "java": lambda: java_program("SteadyProducer"),
    "franz-go": lambda: [str(go_program("steady"))],
    "kafka-python": _python_command("kafka-python"),
    "aiokafka": _python_command("aiokafka"),
}


def _report(failure: object) -> None:
    print("ack" if failure is None else f"failed {failure}", flush=True)


def _pace(per_second: int, send: Callable[[], object], wait: Callable[[float], object]) -> None:
    began, number = time.monotonic(), 0
    while True:
        send()
        number += 1
        while (left := began + number / per_second - time.monotonic()) > 0:
            wait(left)


def _librdkafka(bootstrap: str, topic: str, per_second: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "log_level": 2,
        }
    )

    def report_delivery(error: Any, _: Any) -> None:
        _report(error)

    _pace(per_second, lambda: producer.produce(topic, PAYLOAD, on_delivery=report_delivery), producer.poll)


def _kafka_python(bootstrap: str, topic: str, per_second: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True)

    def send() -> None:
        future = producer.send(topic, PAYLOAD)
        future.add_callback(lambda _: _report(None))
        future.add_errback(_report)

    _pace(per_second, send, time.sleep)


def _aiokafka(bootstrap: str, topic: str, per_second: int) -> None:
    from aiokafka import AIOKafkaProducer

    async def work() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        await producer.start()
        began, number = time.monotonic(), 0
        while True:
            sent = await producer.send(topic, PAYLOAD)
            sent.add_done_callback(lambda future: _report(future.exception()))
            number += 1
            await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))

    asyncio.run(work())


_CLIENTS: Final = {"librdkafka": _librdkafka, "kafka-python": _kafka_python, "aiokafka": _aiokafka}


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    _CLIENTS[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))

"""Clients in a pod of their own: they write with acks=all and read in a group until they are stopped.

usage: python -m tests.k8s.load BOOTSTRAP PARTITIONS FOLDER
A file `stop` in FOLDER ends it. It then writes `result.json` there: numbers of records, and all problems.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError

from tests.chaos.history import History, Stamp
from tests.chaos.traffic import TOPIC, Writer, create_topic, read_all

RATE = 20  # records per second and partition
ALL_READ_TIMEOUT_S = 90.0


class GroupReader:
    """The only member of a group, which commits automatically."""

    def __init__(self, bootstrap: str, history: History) -> None:
        self.failed: list[str] = []
        self.not_sent: list[str] = []  # failed commits since the last successful one
        self._history = history
        self._stop = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "load",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                # A failed host sends no RST, so a fetch would wait for a minute.
                "socket.timeout.ms": 6_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 2,
                "on_commit": self._committed,
            }
        )
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _committed(self, error: KafkaError | None, _partitions: Any) -> None:
        if error is None:
            self.not_sent.clear()
        elif error.code() in (KafkaError._RESOLVE, KafkaError._WAIT_COORD):
            # A pod that is replaced has no name for a moment, so the coordinator cannot be found. No request
            # was sent, and the next commit includes this one.
            self.not_sent.append(f"commit: {error}")
        else:
            self.failed.append(f"commit: {error}")

    def _run(self) -> None:
        while not self._stop.is_set():
            for message in self._consumer.consume(1000, 0.1):
                if message.error() is not None:
                    self.failed.append(f"read: {message.error()}")
                else:
                    stamp = Stamp.decode(message.value())
                    self._history.read.append((message.partition(), message.offset(), stamp))
        self._consumer.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def main(bootstrap: str, partitions: int, folder: Path) -> None:
    create_topic(bootstrap, partitions, 3)
    history = History()
    reader = GroupReader(bootstrap, history)
    writer = Writer(0, bootstrap, partitions, RATE, history)
    while not (folder / "stop").exists():
        time.sleep(0.1)
        write_atomically(folder / "progress", str(len(history.acknowledged)))
    writer.stop()
    deadline = time.monotonic() + ALL_READ_TIMEOUT_S
    while len(history.read) < len(history.acknowledged) and time.monotonic() < deadline:
        time.sleep(0.05)
    reader.stop()
    log = read_all(bootstrap, partitions)
    result = {
        "sent": writer.sent,
        "acknowledged": len(history.acknowledged),
        "read": len(history.read),
        "refused": history.failed[:20],
        "failed": [*reader.failed, *reader.not_sent][:20],
        "problems": history.problems(log)[:20],
    }
    write_atomically(folder / "result.json", json.dumps(result))


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically: a reader gets the old or the new text."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))

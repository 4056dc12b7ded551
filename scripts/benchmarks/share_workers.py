"""Members of share groups (librdkafka) in processes of their own, and counts of their records.

    python -m benchmarks.share_workers BOOTSTRAP TOPIC GROUP MODE CONSUMERS
MODE: batches   the records of a poll are accepted with the next poll
      singly    records are accepted and rejected in turn, each on its own
A process prints lines, with times of the machine's monotonic clock:
    count NUMBER TIME   the number of records since the last line
It works until its input ends.
"""

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer

from benchmarks.program_environment import program_environment
from tests.cpu_time import cpu_seconds_of

ROOT: Final = Path(__file__).resolve().parents[2]
POLL_S: Final = 0.2
STOP_TIMEOUT_S: Final = 30
BATCHES, SINGLY = "batches", "singly"


def consumer_of(bootstrap: str, topic: str, group: str, mode: str) -> Any:
    """Return a member of the group."""
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit" if mode == SINGLY else "implicit",
            "log_level": 2,
        }
    )
    consumer.subscribe([topic])
    return consumer


def poll_records(consumer: Any) -> list[Any]:
    """Return the records of one poll; none if there is no coordinator yet."""
    try:
        return [one for one in consumer.poll(POLL_S) if not one.error()]
    except KafkaException:
        return []


def _work(consumer: Any, mode: str, is_over: threading.Event) -> None:
    while not is_over.is_set():
        messages = poll_records(consumer)
        if mode == SINGLY:
            for one in messages:
                is_odd = one.offset() % 2
                consumer.acknowledge(one, AcknowledgeType.REJECT if is_odd else AcknowledgeType.ACCEPT)
        if messages:
            sys.stdout.write(f"count {len(messages)} {time.monotonic()}\n")
            sys.stdout.flush()
    consumer.close()


def main(bootstrap: str, topic: str, group: str, mode: str, consumers: str) -> None:
    is_over = threading.Event()
    members = [consumer_of(bootstrap, topic, group, mode) for _ in range(int(consumers))]
    threads = [threading.Thread(target=_work, args=(one, mode, is_over)) for one in members]
    for one in threads:
        one.start()
    sys.stdin.read()
    is_over.set()
    for one in threads:
        one.join()


@dataclass(slots=True)
class Workers:
    """Handles on the processes; `counts` are times and numbers of received records."""

    counts: list[tuple[float, int]] = field(default_factory=list)
    _processes: list["subprocess.Popen[str]"] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)

    def start(self, bootstrap: str, topic: str, group: str, mode: str, consumers: int) -> None:
        """Start a process with `consumers` members."""
        words = [bootstrap, topic, group, mode, str(consumers)]
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.share_workers", *words],
            cwd=ROOT,
            env=program_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._processes.append(process)
        self._readers.append(threading.Thread(target=self._read, args=(process,), daemon=True))
        self._readers[-1].start()

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts)

    def wait(self, records: int, seconds: float) -> None:
        """Wait until this many records were received; RuntimeError after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.total < records:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {self.total} of {records} records came within {seconds:g} s")
            time.sleep(0.02)

    def cpu_seconds(self) -> float:
        """Return the user and system time of all processes so far."""
        return sum(cpu_seconds_of(one.pid) for one in self._processes)

    def rate(self) -> float:
        """Return the records a second between the first and the last that were received."""
        times = sorted(self.counts)
        (began_s, first), (ended_s, _) = times[0], times[-1]
        return (self.total - first) / max(ended_s - began_s, 1e-6)

    def stop(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, reader in zip(self._processes, self._readers, strict=True):
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            reader.join()
            assert process.stdout is not None
            process.stdout.close()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            _, count, time_s = line.split()
            self.counts.append((float(time_s), int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])

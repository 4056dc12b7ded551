"""Java consumers for the tests: JVMs with members of groups (GroupMembers.java), and what they have told."""

import contextlib
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compat.java.jars import kafka_classpath

HERE = Path(__file__).resolve().parent
CLIENTS = "org.apache.kafka:kafka-clients:{}"
PATIENT_S = 90.0  # on a loaded machine everything but a wrong answer may take its time
# Members of the classic protocol hear of a rebalance when they heartbeat.
QUICK = {"heartbeat.interval.ms": "300", "session.timeout.ms": "6000"}


@dataclass(slots=True)
class Ownership:
    """From when to when a member had a partition, ms of the machine's monotonic clock; None: it has it."""

    member: str
    partition: str
    begin_ms: int
    end_ms: int | None = None


@dataclass(slots=True)
class Story:
    """What members of one group told, whichever JVM they were in."""

    polled: Counter[str] = field(default_factory=Counter)  # values
    owned: dict[str, set[str]] = field(default_factory=dict)  # of the members that live
    ownerships: list[Ownership] = field(default_factory=list)
    rebalances: Counter[str] = field(
        default_factory=Counter
    )  # how often a member was assigned anything, or nothing
    failures: list[str] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    lock: threading.Condition = field(default_factory=threading.Condition)

    def note(self, told: dict[str, Any]) -> None:
        member, event = told["member"], told["event"]
        with self.lock:
            match event:
                case "started":
                    self.owned[member] = set()
                case "assigned":
                    self.rebalances[member] += 1
                    self.owned[member] |= set(told["partitions"])
                    self.ownerships += [Ownership(member, one, told["at"]) for one in told["partitions"]]
                case "revoked" | "lost":
                    self._end(member, set(told["partitions"]), told["at"])
                case "polled":
                    self.polled.update(value for _, _, value in told["records"])
                case "closed":
                    self._end(member, set(self.owned.pop(member)), told["at"])
                    self.closed.add(member)
                case "failed":
                    self.failures.append(f"{member}: {told['error']}")
            self.lock.notify_all()

    def crashed(self, members: Sequence[str]) -> None:
        """These were killed: what they had is nobody's."""
        with self.lock:
            for member in members:
                if member in self.owned:
                    self._end(member, set(self.owned.pop(member)), int(time.monotonic() * 1000))

    def _end(self, member: str, partitions: set[str], at_ms: int) -> None:
        self.owned.get(member, set()).difference_update(partitions)
        for one in self.ownerships:
            if one.member == member and one.partition in partitions and one.end_ms is None:
                one.end_ms = at_ms

    def wait(self, holds: Callable[["Story"], bool], what: str, seconds: float = PATIENT_S) -> None:
        """Until something holds of what was told."""
        with self.lock:
            is_so = self.lock.wait_for(lambda: bool(self.failures) or holds(self), seconds)
            assert not self.failures, self.failures
            assert is_so, f"not within {seconds:g} s: {what}; owned {self.owned}, {len(self.polled)} values"

    def wait_for_shares(self, shares: Sequence[int], *, of: int) -> None:
        """Until the members own so many partitions each, in any order, and all of the `of` are owned."""

        def holds(story: Story) -> bool:
            owned = list(story.owned.values())
            return sorted(map(len, owned)) == sorted(shares) and len(set().union(*owned)) == of

        self.wait(holds, f"shares of {sorted(shares)}")

    def check_no_partition_was_owned_twice(self) -> None:
        by_partition: dict[str, list[Ownership]] = {}
        for one in sorted(self.ownerships, key=lambda one: one.begin_ms):
            before = by_partition.setdefault(one.partition, [])
            if before:
                end_ms = before[-1].end_ms
                assert end_ms is not None and end_ms <= one.begin_ms, (before[-1], one)
            before.append(one)


class JavaMembers:
    """A JVM whose members tell one story; `kill` lets all of them crash."""

    def __init__(self, classpath: str, story: Story, bootstrap: str, log: Path) -> None:
        self._story, self._bootstrap = story, bootstrap
        self._names: list[str] = []
        self._log = log.open("wb")
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-cp", classpath, str(HERE / "GroupMembers.java")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._story.note(json.loads(line))

    def start(self, name: str, group: str, topics: str, **config: str) -> None:
        """A new member; underscores in the names of settings stand for dots."""
        settings = {"bootstrap.servers": self._bootstrap, "group.id": group}
        settings |= QUICK if config.get("group_protocol") != "consumer" else {}
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        self._names.append(name)
        self._say("start", name, topics, *(f"{key}={value}" for key, value in settings.items()))

    def close(self, name: str) -> None:
        """It leaves; returns when it has."""
        self._say("close", name)
        self._story.wait(lambda story: name in story.closed, f"{name} has left")
        self._names.remove(name)

    def _say(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL: nobody leaves, nothing is committed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self._story.crashed(self._names)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def clients_classpath(version: str) -> str | None:
    """The class path of Kafka's clients of one version, or None where Maven does not find it."""
    return kafka_classpath(CLIENTS.format(version))

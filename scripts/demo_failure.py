"""The failure in the demo: a node is killed in the middle of the stream, and started again.

The measurement is what a user notices: the longest time between two acknowledgements of a partition that
ended after the kill, by the producer's own delivery reports.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient
from demo_access import Access

KILL_AT = 1 / 3  # of all flights are acknowledged
DEAD_FOR_S = 1.5
ADMIN_TIMEOUT_S = 10
IN_SYNC_TIMEOUT_S = 60


@dataclass(slots=True)
class Acknowledgements:
    """The last acknowledgement of each partition, and its longest wait since the kill, in seconds."""

    killed_at_s: float | None = None
    count: int = 0
    _last_s: dict[int, float] = field(default_factory=dict)
    _longest_s: dict[int, float] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    def enter(self, partition: int) -> None:
        now_s = time.monotonic()
        self.count += 1
        self._counts[partition] = self._counts.get(partition, 0) + 1
        if self.killed_at_s is not None:
            waited_s = now_s - self._last_s.get(partition, now_s)
            if waited_s > self._longest_s.get(partition, 0.0):
                self._longest_s[partition] = waited_s
        self._last_s[partition] = now_s

    @property
    def busiest(self) -> int:
        """The partition with the most acknowledgements."""
        return max(list(self._counts), key=self._counts.__getitem__)

    @property
    def longest_waits_s(self) -> Mapping[int, float]:
        return dict(self._longest_s)


class Failure:
    """A thread that kills the node which leads a partition, and starts it again a moment later."""

    def __init__(self, cluster: Path, start_node: Sequence[str | Path], access: Access, topic: str) -> None:
        """`cluster` is the directory of `ottla cluster up`, `start_node` the command that starts one node."""
        self.acknowledgements = Acknowledgements()
        self.victim = -1
        self.leaders_before: Mapping[int, int] = {}
        self.started_again_s = 0.0  # from the second start of the node until it served again
        self.in_sync_s = 0.0  # from the end of the stream until every replica of the topic was in sync
        self.problem = ""
        self._cluster = cluster
        self._start_node = start_node
        self._topic = topic
        self._partition: int | None = None
        self._admin = AdminClient({**access.confluent, "log_level": 2})
        self._thread = threading.Thread(target=self._run, daemon=True)

    def kill_leader(self, partition: int | None = None) -> None:
        """Kill the leader of `partition`, or of the busiest one, in the background; only once."""
        if self._thread.ident is None:
            self._partition = partition
            self._thread.start()

    def wait(self) -> None:
        """Wait until the node serves again."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self.leaders_before = self.leaders()
            partition = self.acknowledgements.busiest if self._partition is None else self._partition
            self.victim = self.leaders_before[partition]
            pid = int((self._cluster / f"node-{self.victim}" / "pid").read_text())
            os.kill(pid, signal.SIGKILL)
            self.acknowledgements.killed_at_s = time.monotonic()
            time.sleep(DEAD_FOR_S)
            begun_s = time.monotonic()
            command = [*self._start_node, self._cluster, str(self.victim)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            self.started_again_s = time.monotonic() - begun_s
            if done.returncode:
                self.problem = f"node {self.victim} did not start again: {done.stderr.strip()}"
        except Exception as error:  # reported at the end of the demo, not in this thread
            self.problem = f"the leader could not be killed and started again: {error}"

    def leaders(self) -> dict[int, int]:
        """Return the leader of each partition."""
        partitions = self._admin.list_topics(self._topic, ADMIN_TIMEOUT_S).topics[self._topic].partitions
        return {index: partition.leader for index, partition in partitions.items()}

    def wait_until_in_sync(self) -> None:
        """Wait until every replica is in sync again, including those of the killed node."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < IN_SYNC_TIMEOUT_S:
            partitions = self._admin.list_topics(self._topic, ADMIN_TIMEOUT_S).topics[self._topic].partitions
            if all(len(one.isrs) == len(one.replicas) for one in partitions.values()):
                self.in_sync_s = time.monotonic() - begun_s
                return
            time.sleep(0.05)
        self.problem = f"node {self.victim} is not in sync again after {IN_SYNC_TIMEOUT_S} s"

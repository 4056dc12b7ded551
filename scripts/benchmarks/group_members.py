"""The duration of a rebalance after a member joins or leaves, as consumers of librdkafka see it.

There are two processes of members. Each reads lines from its standard input, `add NUMBER` or `remove NUMBER`,
and prints a line of JSON for each change of a member's partitions, with its time; all processes of a machine
share one monotonic clock. librdkafka does not show its generation, so a group counts as stable when its
members own each partition once, in even shares.
"""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from benchmarks import clients
from benchmarks.servers import Server
from benchmarks.workload import Figures, Plan

PROCESSES, MEMBERS, PARTITIONS = 2, 10, 20
WAIT_LIMIT_S = 60.0
CLASSIC = {
    "partition.assignment.strategy": "range",
    # Members learn of a rebalance with their next heartbeat; the default of 3 s would dominate the figures.
    "heartbeat.interval.ms": 1000,
}
CONSUMER = {"group.protocol": "consumer"}  # its interval is the server's: 5 s
HEARTBEAT_S = {"classic": 1.0, "consumer": 5.0}
# Members that learn of a rebalance together send heartbeats together, so the figures depend on the moment of
# their period at which the next change comes: these are evenly spread, after SETTLED_ROUNDS whole periods.
ROUNDS = {"classic": 5, "consumer": 3}
SETTLED_ROUNDS = {"classic": 3, "consumer": 1}
GOALS = {"join s": 0.5, "leave s": 0.5, "longest s": 0.5}


def one_joins_and_leaves(protocol: str) -> Callable[[Server, Plan], Figures]:
    """Return a workload that times an eleventh member's joining and leaving until the group is stable."""

    def run(server: Server, plan: Plan) -> Figures:
        topic, group = clients.create_topic(server.bootstrap, PARTITIONS), f"bench-{uuid.uuid4().hex[:8]}"
        took_s: dict[str, list[float]] = {"add": [], "remove": []}
        rounds, settled_rounds = ROUNDS[protocol], SETTLED_ROUNDS[protocol]
        with _Members(server.bootstrap, group, topic, protocol) as members:
            for number in range(MEMBERS):
                members.send_command(number, "add")
            members.until_stable()
            before = server.cpu_seconds()
            for number in range(rounds):
                for action, measured in took_s.items():
                    time.sleep((settled_rounds + (number + 0.5) / rounds) * HEARTBEAT_S[protocol])
                    began = time.perf_counter()
                    members.send_command(MEMBERS, action)
                    measured.append(members.until_stable() - began)
            cpu = server.cpu_seconds() - before
        clients.delete_topic(server.bootstrap, topic)
        return {
            "join s": statistics.fmean(took_s["add"]),
            "leave s": statistics.fmean(took_s["remove"]),
            "longest s": max(took_s["add"] + took_s["remove"]),
            "server CPU s": cpu,
        }

    return run


# ---- handles on the processes ---------------------------------------------------------------------


class _Members:
    """The members of one group, spread over the processes; a context manager that ends them."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self._changed = threading.Condition()
        self._owned: dict[int, frozenset[int]] = {}
        self._changed_s = 0.0
        arguments = [bootstrap, group, topic, protocol]
        root = Path(__file__).resolve().parents[1]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.group_members", *arguments],
                env={**os.environ, "PYTHONPATH": str(root)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for _ in range(PROCESSES)
        ]
        for process in self._processes:
            threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def __enter__(self) -> "_Members":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(WAIT_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def send_command(self, member: int, action: str) -> None:
        """Start or stop a member, in the process that follows from its number."""
        with self._changed:
            if action == "add":
                self._owned[member] = frozenset()
            else:
                del self._owned[member]
        stdin = self._processes[member % PROCESSES].stdin
        assert stdin is not None
        stdin.write(f"{action} {member}\n")

    def until_stable(self) -> float:
        """Wait until the group is stable; return the time of the last change."""
        with self._changed:
            if not self._changed.wait_for(self._is_stable, WAIT_LIMIT_S):
                raise RuntimeError(f"{len(self._owned)} members are not stable after {WAIT_LIMIT_S:g} s")
            return self._changed_s

    def _is_stable(self) -> bool:
        share, more = divmod(PARTITIONS, len(self._owned))
        shares = sorted(share + (number < more) for number in range(len(self._owned)))
        owned = self._owned.values()
        return sorted(map(len, owned)) == shares and len(frozenset().union(*owned)) == PARTITIONS

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            change = json.loads(line)
            with self._changed:
                if change["member"] in self._owned:
                    self._owned[change["member"]] = frozenset(change["owned"])
                    self._changed_s = max(self._changed_s, change["at_s"])
                    self._changed.notify_all()


# ---- a process of members --------------------------------------------------------------------------


class Member:
    """A consumer, and the thread that polls it."""

    def __init__(self, number: int, settings: dict[str, Any], topic: str) -> None:
        self._number = number
        self._owned: set[int] = set()
        self._stopping = threading.Event()
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke)
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._consumer.poll(0.02)
        self._consumer.close()

    def _assign(self, _: Consumer, places: list[Place]) -> None:
        self._owned |= {place.partition for place in places}
        self._report()

    def _revoke(self, _: Consumer, places: list[Place]) -> None:
        self._owned -= {place.partition for place in places}
        self._report()

    def _report(self) -> None:
        change = {"member": self._number, "owned": sorted(self._owned), "at_s": time.perf_counter()}
        sys.stdout.write(json.dumps(change) + "\n")
        sys.stdout.flush()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()


def main() -> None:
    bootstrap, group, topic, protocol = sys.argv[1:]
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "enable.auto.commit": False,
        **(CONSUMER if protocol == "consumer" else CLASSIC),
        **clients.QUIET,
    }
    members: dict[int, Member] = {}
    stopped: list[Member] = []
    for line in sys.stdin:
        action, _, number = line.partition(" ")
        if action == "add":
            members[int(number)] = Member(int(number), settings, topic)
        else:
            stopped.append(members.pop(int(number)))
            stopped[-1].stop()
    for member in members.values():
        member.stop()
    for member in [*stopped, *members.values()]:
        member.join()


if __name__ == "__main__":
    main()

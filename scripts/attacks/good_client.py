"""A well-behaved client in a process of its own.

    python -m attacks.good_client BOOTSTRAP[,BOOTSTRAP] [PROPERTIES]
PROPERTIES is the client.properties file of the administrator of secured nodes.

At the line BEGIN on its input the client joins a group; then it produces a record, fetches it and sends a
heartbeat, several times a second. At the line FINISH it leaves the group and prints as JSON the latencies,
the failures, and the partitions whose leader or leader epoch changed meanwhile. Then it is idle until the
next BEGIN, so one process serves many attacks.
"""

import json
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

from attacks.nodes import Nodes
from attacks.secured_access import Role, connect, read_access
from tests.compat.batches import batch
from tests.compat.wire_client import Closed, WireClient, eventually

ROOT: Final = Path(__file__).resolve().parents[2]
PAUSE_S: Final = 0.02
TIMEOUT_S: Final = 30.0  # as clients have by default
WAIT_LIMIT_S: Final = 6 * TIMEOUT_S  # each of its last calls may take its whole timeout
PARTITIONS: Final = 6
SESSION_MS: Final = 30_000
READY: Final = "READY"
BEGIN: Final = "BEGIN"
FINISH: Final = "FINISH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The measurements of a good client: latencies, failures, and leaders that changed."""

    rounds: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    failures: tuple[str, ...]
    moved: tuple[str, ...]  # descriptions of changes of leader or leader epoch


class GoodClient:
    """A handle on the process of a good client. Once constructed, its topic exists and the client is idle."""

    def __init__(self, nodes: Nodes) -> None:
        secured = [] if nodes.access is None else [str(nodes.access.properties)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attacks.good_client", ",".join(nodes.bootstraps), *secured],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT / 'src'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._until_ready()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def begin(self) -> None:
        """Start producing, fetching and sending heartbeats."""
        self._write_line(BEGIN)
        self._until_ready()

    def finish(self) -> Seen:
        """Stop, and return the measurements since `begin`.

        The process ends after a failure, because its connections may be gone.
        """
        self._write_line(FINISH)
        line = self._line()
        if not line:
            raise RuntimeError("the good client has ended")
        fields: dict[str, Any] = json.loads(line)
        seen = Seen(**{**fields, "failures": tuple(fields["failures"]), "moved": tuple(fields["moved"])})
        if seen.failures:
            self.kill()
        return seen

    def kill(self) -> None:
        """Kill the process unless it has ended."""
        if self.is_running:
            self._process.kill()
            self._process.communicate()

    def _write_line(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def _until_ready(self) -> None:
        if self._line() != READY:
            self.kill()
            raise RuntimeError("the good client could not start")

    def _line(self) -> str:
        """Return the next line of output; empty if the process has ended or is silent for WAIT_LIMIT_S."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], WAIT_LIMIT_S)[0]:
            return ""
        return self._process.stdout.readline().strip()


def main(bootstraps: list[str], properties: str = "") -> None:
    """Create a topic; work from each BEGIN to the next FINISH, until the input ends."""
    access = read_access(Path(properties)) if properties else None

    def connected(bootstrap: str) -> WireClient:
        if access is None:
            return WireClient(bootstrap, timeout_s=TIMEOUT_S)
        return connect(bootstrap, access, Role.ADMINISTRATOR, timeout_s=TIMEOUT_S)

    topic = f"good-{uuid.uuid4().hex[:8]}"
    wanted = {"name": topic, "num_partitions": PARTITIONS, "replication_factor": len(bootstraps)}
    with connected(bootstraps[0]) as client:
        created = client.call("create_topics", 7, topics=[wanted], timeout_ms=30_000)
        assert not created.topics[0].error_code, created
    print(READY, flush=True)
    while sys.stdin.readline().strip() == BEGIN:
        print(json.dumps(_work(bootstraps, connected, topic)), flush=True)


def _work(bootstraps: list[str], connected: Callable[[str], WireClient], topic: str) -> dict[str, Any]:
    """Produce, fetch and send heartbeats until a line comes on the input; return the fields of `Seen`."""
    group = f"good-{uuid.uuid4().hex[:8]}"
    with connected(bootstraps[0]) as client:
        before = eventually(lambda: _leaders(client, topic), lambda seen: all(one[0] >= 0 for one in seen))
        # Partition 0 may be led by another node than the attacked one: the others must not suffer either.
        leader = before[0][0]
        home = _home(client, group)
    times: list[float] = []
    failures: list[str] = []
    rounds = 0
    with ExitStack() as stack:
        data = stack.enter_context(connected(bootstraps[leader]))
        member = stack.enter_context(connected(bootstraps[home]))
        identity = _joined(member, group)
        print(READY, flush=True)
        requests = (
            lambda: _produce(data, topic),
            lambda: _fetch(data, topic),
            lambda: _heartbeat(member, identity),
        )
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            rounds += 1
            for request in requests:
                began = time.perf_counter()
                try:
                    request()
                except (Closed, OSError, AssertionError) as error:
                    failures.append(f"{type(error).__name__}: {error}"[:200])
                times.append((time.perf_counter() - began) * 1000)
        sys.stdin.readline()
        if not failures:
            member.call("leave_group", 1, group_id=group, member_id=identity["member_id"])
    with connected(bootstraps[-1]) as client:
        after = _leaders(client, topic)
    places = quantiles(times, n=100) if len(times) > 1 else [0.0] * 99
    return {
        "rounds": rounds,
        "p50_ms": places[49],
        "p99_ms": places[98],
        "longest_ms": max(times, default=0.0),
        "failures": failures[:5],
        "moved": [
            f"partition {index}: leader and epoch {old} became {new}"
            for index, (old, new) in enumerate(zip(before, after, strict=True))
            if old != new
        ],
    }


def _leaders(client: WireClient, topic: str) -> list[tuple[int, int]]:
    """Return the leader and the leader epoch of each partition."""
    (described,) = client.call("metadata", 12, topics=[{"name": topic}]).topics
    partitions = sorted(described.partitions, key=lambda one: one.partition_index)
    return [(one.leader_id, one.leader_epoch) for one in partitions]


def _home(client: WireClient, group: str) -> int:
    """Return the node id of the group's coordinator."""
    found = eventually(
        lambda: client.call("find_coordinator", 4, key_type=0, coordinator_keys=[group]).coordinators[0],
        lambda one: not one.error_code,
    )
    return int(found.node_id)


def _joined(member: WireClient, group: str) -> dict[str, Any]:
    """Join the group as its only member; return the fields that identify the member in requests."""

    def join() -> Any:
        return member.call(
            "join_group",
            2,
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            protocol_type="good",
            protocols=[{"name": "any", "metadata": b""}],
        )

    joined = eventually(join, lambda one: not one.error_code)
    identity = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    assignments = [{"member_id": joined.member_id, "assignment": b"x"}]
    assert not member.call("sync_group", 2, assignments=assignments, **identity).error_code

    return identity


def _heartbeat(member: WireClient, identity: dict[str, Any]) -> None:
    code = member.call("heartbeat", 2, **identity).error_code
    assert not code, f"a heartbeat got error {code}"


def _produce(client: WireClient, topic: str) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch([b"good"])}]}]
    answer = client.call("produce", 9, acks=-1, timeout_ms=30_000, topic_data=data)
    code = answer.responses[0].partition_responses[0].error_code
    assert not code, f"a record got error {code}"


def _fetch(client: WireClient, topic: str) -> None:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}]
    answer = client.call(
        "fetch", 12, max_wait_ms=0, min_bytes=0, topics=[{"topic": topic, "partitions": partitions}]
    )
    code = answer.responses[0].partitions[0].error_code
    assert not code, f"a fetch got error {code}"


if __name__ == "__main__":
    main(sys.argv[1].split(","), *sys.argv[2:])

"""The cost of ACLs on the hot path: equal requests without an authorizer, and with 10,000 ACLs.

Each server runs both nodes at once, which take turns. The client is `User:ANONYMOUS`, whose right comes from
a prefix that other entries share. Each request writes or reads one record, where authorization weighs most.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from rich.console import Console

from benchmarks import clients, frames, load, report, servers
from benchmarks.choice import chosen_servers, chosen_workloads, report_results
from benchmarks.turns import alone, failures_recorded
from benchmarks.workload import Figures, Plan, Workload

ACLS: Final = 10_000
ACLS_AT_ONCE: Final = 1_000
ENTRIES_OF_PREFIX: Final = 100  # of other users, at the prefix that gives the client its right
PREFIX: Final = "bench-"
PARTITIONS: Final = 4
CONNECTIONS: Final = 4
SLICES: Final = 3  # of a run; the nodes take turns after each
AUTHORIZER: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found=true",  # so that the client may create the first ACLs
)
OPEN, WITH_ACLS = "no authorizer", f"{ACLS:,} ACLs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A node without an authorizer and one with ACLs, of the same server."""

    nodes: dict[str, servers.Server]

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()


# ---- the ACLs ------------------------------------------------------------------------------------


def _entry(number: int) -> AclBinding:
    pattern, topic, user = ResourcePatternType.LITERAL, f"topic-{number // 2}", f"User:user-{number % 500}"
    if number == 0:
        pattern, topic, user = ResourcePatternType.PREFIXED, PREFIX, "User:ANONYMOUS"
    elif number <= ENTRIES_OF_PREFIX:
        pattern, topic = ResourcePatternType.PREFIXED, PREFIX
    operation = AclOperation.ALL if number == 0 else (AclOperation.READ, AclOperation.WRITE)[number % 2]
    return AclBinding(ResourceType.TOPIC, topic, pattern, user, "*", operation, AclPermissionType.ALLOW)


def make_acls(bootstrap: str) -> None:
    """Create the entries, that of the client first."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **clients.QUIET})
    for first in range(0, ACLS, ACLS_AT_ONCE):
        made = admin.create_acls([_entry(number) for number in range(first, first + ACLS_AT_ONCE)])
        for one in made.values():
            one.result(clients.CALL_TIMEOUT_S)


# ---- workloads -----------------------------------------------------------------------------------


def _produce(node: servers.Server, topic: str, seconds: float) -> load.Done:
    return load.small_requests([node.port], topic, PARTITIONS, connections=CONNECTIONS, seconds=seconds)


def _fetch(node: servers.Server, topic: str, seconds: float) -> load.Done:
    """Read the record of a partition repeatedly; all responses have the same size."""
    requests = []
    answer_bytes = 0
    for index in range(CONNECTIONS):
        frame = bytes(frames.fetch_frame(topic, index, 0, 1))
        connection = load.connect(node.port)
        connection.sendall(frame)
        prefix = memoryview(bytearray(4))
        load.receive_exactly(connection, prefix)
        answer_bytes = 4 + int.from_bytes(prefix)
        load.receive_exactly(connection, memoryview(bytearray(answer_bytes - 4)))
        requests.append((connection, frame))
    took, answered = load.replay(
        requests,
        answer_bytes=answer_bytes,
        error_at=frames.fetch_error_at(topic),
        seconds=seconds,
        in_flight=load.IN_FLIGHT,
    )
    return load.Done(seconds=took, requests=answered, records=answered, payload_bytes=100 * answered)


def _both(
    drive: Callable[[servers.Server, str, float], load.Done],
) -> Callable[[Pair, Plan], Figures]:
    """Return a workload that drives the two nodes in turns."""

    def run(pair: Pair, plan: Plan) -> Figures:
        topics = {kind: clients.create_topic(node.bootstrap, PARTITIONS) for kind, node in pair.nodes.items()}
        requests, cpu_s = dict.fromkeys(pair.nodes, 0), dict.fromkeys(pair.nodes, 0.0)
        for kind, node in pair.nodes.items():
            batch = frames.build_batch(100, 100)
            load.produce(
                [node.port],
                topics[kind],
                batch,
                acks=1,
                connections=PARTITIONS,
                seconds=clients.CALL_TIMEOUT_S,  # one batch each, however busy the machine is
                limit_bytes=PARTITIONS * len(batch.data),
            )
        for _ in range(SLICES):
            for kind, node in pair.nodes.items():
                with alone(kind, pair.nodes):
                    before = node.cpu_seconds()
                    requests[kind] += drive(node, topics[kind], plan.seconds / SLICES).requests
                    cpu_s[kind] += node.cpu_seconds() - before
        for kind, node in pair.nodes.items():
            clients.delete_topic(node.bootstrap, topics[kind])
        return {f"{kind}: CPU us/request": cpu_s[kind] * 1e6 / requests[kind] for kind in pair.nodes}

    return run


WORKLOADS: Final[Sequence[Workload[Pair]]] = (
    Workload(name="acls: Produce, one record", run=_both(_produce)),
    Workload(name="acls: Fetch, one record", run=_both(_fetch)),
)


# ---- the run -------------------------------------------------------------------------------------


def start(name: str, folder: Path) -> Pair:
    """Start both nodes of a server, and create the ACLs of one."""
    with ExitStack() as started:
        nodes = {}
        for kind, settings in ((OPEN, ()), (WITH_ACLS, AUTHORIZER)):
            nodes[kind] = servers.start(name, folder / kind.replace(" ", "-").replace(",", ""), settings)
            started.callback(nodes[kind].stop)
        make_acls(nodes[WITH_ACLS].bootstrap)
        for node in nodes.values():
            topic = clients.create_topic(node.bootstrap, PARTITIONS)
            load.warm_up(lambda node=node, topic=topic: _rate(_produce(node, topic, 1.0)))  # type: ignore[misc]
            clients.delete_topic(node.bootstrap, topic)
        started.pop_all()
    return Pair(nodes=nodes)


def _rate(done: load.Done) -> float:
    return done.requests / done.seconds


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words, each `--runs` times."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    names = chosen_servers(arguments, console)
    plan = Plan(seconds=1.5, limit_bytes=256 << 20) if arguments.quick else Plan(seconds=6.0)
    results = report.Report()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        for name in names:  # one after the other: two JVMs and two nodes would share two cores
            with failures_recorded(results, name):
                pair = start(name, Path(folder) / name)
                try:
                    for one in chosen:
                        for _ in range(arguments.runs):
                            with failures_recorded(results, f"{one.name} of {name}"):
                                results.add(one.name, name, one.run(pair, plan))
                finally:
                    with suppress(OSError):
                        pair.stop()
    report_results(results, chosen, arguments, console)
    return 0

"""TLS beside Apache Kafka with the same certificates: producing, consuming, and a flood of new connections.

Clients are librdkafka's. The flood comes from processes of its own, with a full handshake for each
connection; its cost to others shows in the round trips of clients that connected before.
"""

import multiprocessing
import ssl
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from rich.console import Console

from benchmarks import clients, load, report, servers
from benchmarks.choice import chosen_servers, chosen_workloads, report_results
from benchmarks.turns import alone, failures_recorded
from benchmarks.workload import Figures, Plan, Workload
from tests.ports import free_port

PARTITIONS = 4
RECORD_BYTES = 1_000
STORM_PER_SECOND: Final = 1_000
STORM_PROCESSES = 2
STORM_THREADS = 8  # in each of them, because a handshake waits for the server
PROBES = 4
PROBE_PAUSE_S = 0.002
TIMEOUT_S = 60.0
# ApiVersions, version 0, without a client id.
REQUEST: Final = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A server with listeners for plaintext and for TLS."""

    server: servers.Server
    port: int  # of the TLS listener
    ca: Path

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"security.protocol": "SSL", "ssl.ca.location": str(self.ca)}


# ---- records -------------------------------------------------------------------------------------


def _figures(stage: Stage, done: load.Done, cpu_s: float) -> Figures:
    gigabytes = done.payload_bytes / 1e9
    return {"MB/s": done.payload_bytes / 1e6 / done.seconds, "CPU s/GB": cpu_s / gigabytes}


def produce(stage: Stage, plan: Plan) -> Figures:
    """Send records of 1 KB over TLS."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    before = stage.server.cpu_seconds()
    done = clients.produce(
        stage.bootstrap,
        topic,
        partitions=PARTITIONS,
        record_bytes=RECORD_BYTES,
        seconds=plan.seconds,
        limit_bytes=plan.limit_bytes,
        settings=stage.settings,
    )
    figures = _figures(stage, done, stage.server.cpu_seconds() - before)
    clients.delete_topic(stage.server.bootstrap, topic)
    return figures


def consume(stage: Stage, plan: Plan) -> Figures:
    """Read records of 1 KB over TLS that were sent in plaintext."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    sent = clients.produce(
        stage.server.bootstrap,
        topic,
        partitions=PARTITIONS,
        record_bytes=RECORD_BYTES,
        seconds=plan.seconds,
        limit_bytes=plan.limit_bytes,
        settings={},
    )
    before = stage.server.cpu_seconds()
    done = clients.consume(
        stage.bootstrap,
        topic,
        records=sent.records,
        record_bytes=RECORD_BYTES,
        seconds=TIMEOUT_S,
        settings=stage.settings,
    )
    figures = _figures(stage, done, stage.server.cpu_seconds() - before)
    clients.delete_topic(stage.server.bootstrap, topic)
    return figures


# ---- a flood of connections ------------------------------------------------------------------------


def _connect(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(load.connect(port), server_hostname="127.0.0.1")


def _storm(port: int, ca: str, per_second: float, seconds: float) -> int:
    """Open and close `per_second` connections a second; return the number of completed handshakes."""
    context = ssl.create_default_context(cafile=ca)
    began, lock = time.perf_counter(), threading.Lock()
    taken, complete = 0, 0

    def work() -> None:
        nonlocal taken, complete
        while True:
            with lock:
                due = began + taken / per_second
                taken += 1
            if due - began > seconds:
                return
            time.sleep(max(0.0, due - time.perf_counter()))
            if time.perf_counter() - began > seconds:
                return
            with suppress(OSError):
                _connect(port, context).close()
                with lock:
                    complete += 1

    threads = [threading.Thread(target=work) for _ in range(STORM_THREADS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return complete


def _probe(connections: Sequence[ssl.SSLSocket], seconds: float) -> list[float]:
    """Return the sorted milliseconds of round trips on open connections."""
    buffer = memoryview(bytearray(1 << 16))
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for one in connections:
            began = time.perf_counter()
            one.sendall(REQUEST)
            load.receive_exactly(one, buffer[:4])
            load.receive_exactly(one, buffer[: int.from_bytes(buffer[:4], "big")])
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(PROBE_PAUSE_S)
    return sorted(taken)


def storm(stage: Stage, plan: Plan) -> Figures:
    """Measure round trips on open connections, alone and beside a thousand new connections a second."""
    context = ssl.create_default_context(cafile=str(stage.ca))
    probes = [_connect(stage.port, context) for _ in range(PROBES)]
    try:
        alone = _probe(probes, plan.seconds)
        before, began = stage.server.cpu_seconds(), time.perf_counter()
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(STORM_PROCESSES, spawn) as pool:
            share = STORM_PER_SECOND / STORM_PROCESSES
            storms = [
                pool.submit(_storm, stage.port, str(stage.ca), share, plan.seconds)
                for _ in range(STORM_PROCESSES)
            ]
            during = _probe(probes, plan.seconds)
            made = sum(one.result() for one in storms)
        cpu_s, took = stage.server.cpu_seconds() - before, time.perf_counter() - began
    finally:
        for one in probes:
            one.close()
    return {
        "connections/s": made / plan.seconds,
        "p99 alone ms": alone[int(len(alone) * 0.99)],
        "p99 beside ms": during[int(len(during) * 0.99)],
        "CPU s/s": cpu_s / took,
    }


WORKLOADS: Final[Sequence[Workload[Stage]]] = (
    Workload(name="tls: produce 1 KB, librdkafka", run=produce),
    Workload(name="tls: consume 1 KB, librdkafka", run=consume),
    Workload(name=f"tls: {STORM_PER_SECOND:,} connections a second", run=storm),
)


# ---- the run -------------------------------------------------------------------------------------


def write_certificates(folder: Path) -> tuple[Path, Path]:
    """Write a keystore and the authority that signed it; the key is PKCS#8, the only format Java reads."""
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1", "localhost")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    keystore, authority = folder / "node.pem", folder / "ca.pem"
    keystore.write_bytes(pem + b"".join(one.bytes() for one in issued.cert_chain_pems))
    keystore.chmod(0o600)
    ca.cert_pem.write_to_path(str(authority))
    return keystore, authority


def start(name: str, folder: Path, keystore: Path, ca: Path) -> Stage:
    """Start a server with a plaintext listener and a TLS listener."""
    plain, encrypted, controllers = free_port(), free_port(), free_port()
    listeners = [f"PLAINTEXT://127.0.0.1:{plain}", f"SSL://127.0.0.1:{encrypted}"]
    settings = [f"ssl.keystore.location={keystore}", "ssl.keystore.type=PEM"]
    if name == "kafka":
        settings += [
            f"listeners={','.join([*listeners, f'CONTROLLER://127.0.0.1:{controllers}'])}",
            f"advertised.listeners={','.join(listeners)}",
            f"controller.quorum.voters=1@127.0.0.1:{controllers}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        ]
    else:
        settings.append(f"listeners={','.join(listeners)}")
    server = servers.start(name, folder, settings, port=plain)
    return Stage(server=server, port=encrypted, ca=ca)


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words, each `--runs` times in turns."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    names = chosen_servers(arguments, console)
    plan = Plan(seconds=1.0, limit_bytes=256 << 20) if arguments.quick else Plan()
    results = report.Report()
    stages: dict[str, Stage] = {}
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        try:
            keystore, ca = write_certificates(Path(folder))
            for name in names:
                stages[name] = start(name, Path(folder) / name, keystore, ca)
            for stage in stages.values():
                with failures_recorded(results, f"warm-up of {stage.server.name}"):
                    produce(stage, plan)
            running = {name: stage.server for name, stage in stages.items()}
            for one in chosen:
                for _ in range(arguments.runs):
                    for name, stage in stages.items():
                        with alone(name, running), failures_recorded(results, f"{one.name} of {name}"):
                            results.add(one.name, name, one.run(stage, plan))
        finally:
            for stage in stages.values():
                stage.server.stop()
    report_results(results, chosen, arguments, console)
    return 0

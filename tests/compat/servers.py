"""Servers for the tests as processes: a node of Ottla, and Apache Kafka 4.3.1 (scripts/kafka-reference)."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.compat.java.java_programs import QUICK_START
from tests.node_fork import popen
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 90.0


@dataclass(slots=True, kw_only=True)
class Server:
    """A process that has printed READY; `log` is the file with all of its output."""

    bootstrap: str
    process: subprocess.Popen[bytes]
    data: Path
    log: Path
    ready_line: str = field(default="")

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def is_running(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> int:
        """Send SIGTERM, wait, and return the exit code."""
        if self.is_running():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process and its children with SIGKILL."""
        for pid in [self.process.pid, *descendants_of(self.process.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


class StartNode(Protocol):
    """A function that starts a node in `data` with settings `name=value`, and waits for READY."""

    def __call__(self, data: Path, *overrides: str, port: int = 0) -> Server: ...


def descendants_of(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    direct = [int(child) for child in children]
    return direct + [grandchild for child in direct for grandchild in descendants_of(child)]


def start_ottla(data: Path, *overrides: str, port: int = 0) -> Server:
    """Start a node of Ottla in `data` with settings `name=value`."""
    command = [sys.executable, "-m", "ottla", "start", "--data", str(data / "ottla")]
    listener = f"listeners=PLAINTEXT://127.0.0.1:{port or free_port()}"
    # Nodes of other tests have the default port of the REST API.
    return start(command, data, (listener, "ottla.rest.listeners=", *overrides))


def start_kafka(data: Path, *overrides: str) -> Server:
    """Start Apache Kafka, with a JVM that is quick to start rather than fast later."""
    command = [str(ROOT / "scripts" / "kafka-reference"), "--data", str(data / "kafka")]
    return start(command, data, overrides, JDK_JAVA_OPTIONS=" ".join(QUICK_START))


def start(command: list[str], data: Path, overrides: tuple[str, ...], **environment: str) -> Server:
    """Run a server until it prints READY.

    Raises RuntimeError with its output if it ends or does not print it in time.
    """
    data.mkdir(parents=True, exist_ok=True)
    log = data / f"out-{time.monotonic_ns()}.log"
    for override in overrides:
        command += ["--override", override]
    with log.open("wb") as output:
        process = popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=output)
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        ready = re.search(r"^READY .*bootstrap=(\S+).*\n", text, flags=re.M)
        if ready:
            return Server(
                bootstrap=ready[1].split(",")[0], process=process, data=data, log=log, ready_line=ready[0]
            )
        if process.poll() is not None:
            break
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()
    raise RuntimeError(f"{command[:4]} did not become ready: {log.read_text(errors='replace')[-2000:]}")

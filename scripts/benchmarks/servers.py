"""Start, measure and stop either server as a process on a free port of loopback."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tests.cpu_time import cpu_seconds_of
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 120
STOP_TIMEOUT_S = 40
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Both run with their defaults, except for settings that free the disk soon.
OVERRIDES = ["num.partitions=1", "log.segment.delete.delay.ms=1000"]
# A single server is paused during the other's turns, and must not be fenced for that.
PAUSED_OVERRIDES = ["broker.session.timeout.ms=600000"]


@dataclass(slots=True, kw_only=True)
class Server:
    """A running server. `pid` is the process that does the work, `process` the one that was started."""

    name: str
    port: int
    pid: int
    process: subprocess.Popen[str]
    data: Path
    rest: str = ""  # host:port of the REST API, if there is one

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        """Return the user and system time so far, of all threads."""
        return cpu_seconds_of(self.pid)

    def started_at_s(self) -> float:
        """Return the start time of the process, on the clock of time.CLOCK_BOOTTIME (resolution 10 ms)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[19]) / TICKS_PER_S

    def rss_mb(self) -> float:
        return rss_mb_of(self.pid)

    def pause(self) -> None:
        """Pause the process; ignore a dead one, whose own turn fails."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.data, ignore_errors=True)


def rss_mb_of(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, flags=re.M)
    assert found is not None
    return int(found[1]) / 1024


def start(name: str, data: Path, settings: Sequence[str] = (), *, port: int = 0) -> Server:
    """Start `ottla` or `kafka` in `data`, and wait until it is ready; RuntimeError with its output if not.

    `settings` are NAME=VALUE, added to those of all servers; they may name listeners at this `port`.
    """
    port = port or free_port()
    data.mkdir(parents=True, exist_ok=True)
    overrides = [
        part for override in (*OVERRIDES, *PAUSED_OVERRIDES, *settings) for part in ("--override", override)
    ]
    if name == "kafka":
        command = [str(ROOT / "scripts" / "kafka-reference"), "--port", str(port), "--data", str(data)]
    else:
        command = [sys.executable, "-P", "-m", "ottla", "start", "--data", str(data)]
        overrides = ["--override", f"listeners=PLAINTEXT://127.0.0.1:{port}", *overrides]
    process = subprocess.Popen(
        [*command, *overrides], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    words = ""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        line = process.stdout.readline()
        words += line
        if line.startswith("READY "):
            bootstrap = re.search(r"bootstrap=\S+?:(\d+)", line)
            pid = re.search(r"\bpid=(\d+)", line)
            served = int(bootstrap[1]) if bootstrap else port
            worker = int(pid[1]) if pid else listener_of(served, process.pid)
            rest = re.search(r"\brest=http://([^\s,]+)", line)
            # A server whose output is not read would block.
            Thread(target=process.stdout.read, name="drain", daemon=True).start()
            return Server(
                name=name,
                port=served,
                pid=worker,
                process=process,
                data=data,
                rest=rest[1] if rest else "",
            )
        if not line:
            break
    process.kill()
    raise RuntimeError(f"{name} did not start: {words.strip()[-800:]}")


def listener_of(port: int, ancestor: int) -> int:
    """Return the process at or below `ancestor` that listens on `port`, or `ancestor` if none is found."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            columns = row.split()
            if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{columns[9]}]")
    waiting = [ancestor]
    while waiting:
        pid = waiting.pop()
        try:
            held = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()}
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        if held & inodes:
            return pid
        waiting += [int(child) for child in children]
    return ancestor

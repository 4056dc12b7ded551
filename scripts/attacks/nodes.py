"""Start, measure and stop one Ottla node or three, as processes of their own."""

import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from attacks.secured_access import SETTINGS as SECURED_SETTINGS
from attacks.secured_access import Access, Role, connect, read_access, tls_context
from ottla.node.cli.local_cluster import SECURE_FOLDER, NodeProcess, wait_until_ready, write_homes
from ottla.node.settings.secure_settings import SecureFiles
from tests.compat.wire_client import CALL_TIMEOUT_S, WireClient
from tests.cpu_time import cpu_seconds_of
from tests.ports import free_ports

# The longest that a node may take to end after SIGTERM; k8s/base/statefulset.yaml allows 90 s.
GRACE_S: Final = 60.0
SETTINGS: Final = {
    "num.partitions": "1",
    "ottla.metrics.loop.look.ms": "5",
    "group.initial.rebalance.delay.ms": "0",
}
THREE_SETTINGS: Final = {"default.replication.factor": "3", "min.insync.replicas": "2"}
SCRAPE_TIMEOUT_S: Final = 120.0
LONGEST_TURN: Final = "ottla_event_loop_turn_max_seconds"
PORTS_OF_SECURED: Final = 4
# A node keeps an exposition for a second.
BETWEEN_SCRAPES_S: Final = 1.1
Start = Callable[..., "subprocess.Popen[bytes]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Running nodes; `processes` is in the order of their ids."""

    processes: tuple[NodeProcess, ...]
    access: Access | None = None  # None: the nodes are open
    role: Role = Role.ADMINISTRATOR  # of the connections
    attacked: int = 0  # the index of the node that is attacked

    def as_role(self, role: Role) -> "Nodes":
        """Return these nodes with connections of another role."""
        return replace(self, role=role)

    def each(self) -> "list[Nodes]":
        """Return these nodes once for each node, as the one that is attacked."""
        return [replace(self, attacked=index) for index in range(len(self.processes))]

    def connect(
        self, *, client_id: str | None = "attack", timeout_s: float = CALL_TIMEOUT_S, source: str = ""
    ) -> WireClient:
        """Return a connection to the attacked node, logged in if the role has a user."""
        if self.access is None:
            return WireClient(self.bootstrap, client_id=client_id, timeout_s=timeout_s, source=source)
        return connect(
            self.bootstrap,
            self.access,
            self.role,
            client_id=client_id,
            timeout_s=timeout_s,
            source=source,
        )

    def scrape(self, index: int = 0) -> bytes:
        """Return the metrics of a node, as Prometheus reads them."""
        access = self.access
        headers = {} if access is None else access.basic(Role.ADMINISTRATOR)
        request = urllib.request.Request(f"{self.processes[index].rest}/metrics", headers=dict(headers))
        context = None if access is None else tls_context(access.authority)
        with urllib.request.urlopen(request, timeout=SCRAPE_TIMEOUT_S, context=context) as answer:
            content: Any = answer.read()
        return bytes(content)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of the attacked node."""
        return self.processes[self.attacked].bootstrap

    @property
    def bootstraps(self) -> list[str]:
        return [one.bootstrap for one in self.processes]

    @property
    def rest(self) -> str:
        """The URL of the first node's REST API."""
        return self.processes[0].rest

    def is_running(self) -> bool:
        return all(one.process.poll() is None for one in self.processes)

    def cpu_s(self) -> float:
        """Return the user and system time of all nodes so far."""
        return sum(cpu_seconds_of(one.process.pid) for one in self.processes)

    def rss_mib(self) -> list[float]:
        return [_status_mib(one.process.pid, "VmRSS") for one in self.processes]

    def reset_peaks(self) -> None:
        """Reset the peaks that `peak_mib` returns."""
        for one in self.processes:
            Path(f"/proc/{one.process.pid}/clear_refs").write_text("5")

    def peak_mib(self) -> list[float]:
        """Return the most memory that each node had since `reset_peaks`."""
        return [_status_mib(one.process.pid, "VmHWM") for one in self.processes]

    def longest_turn_s(self) -> float:
        """Return the longest turn of a node's loop since the last call, in CPU time of the loop's thread."""
        return max(self._gauge(index, LONGEST_TURN) for index in range(len(self.processes)))

    def _gauge(self, index: int, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", self.scrape(index).decode(), flags=re.M)
        assert found is not None, f"node {index} has no {name}"
        return float(found[1])

    def log(self) -> str:
        return "".join(one.home.log.read_text(errors="replace") for one in self.processes)

    def stop(self) -> bool:
        """Stop all by SIGTERM; kill those that do not end within GRACE_S. False if there are any."""
        for one in self.processes:
            if one.process.poll() is None:
                one.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        ended = True
        for one in self.processes:
            try:
                one.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
                ended = False
            one.close()
        return ended


def start_nodes(
    count: int,
    data: Path,
    settings: Mapping[str, str],
    start: Start = subprocess.Popen,
    *,
    is_secure: bool = False,
) -> Nodes:
    """Start `count` nodes with these settings, and return them once they serve; `start` starts a process."""
    secured = SECURED_SETTINGS if is_secure else {}
    overrides = {**SETTINGS, **(THREE_SETTINGS if count == 3 else {}), **secured, **settings}
    homes = write_homes(
        count,
        base_port=free_ports(PORTS_OF_SECURED * count),
        data=data,
        overrides=[f"{name}={value}" for name, value in overrides.items()],
        rest=True,
        is_secure=is_secure,
    )
    processes: list[NodeProcess] = []
    try:
        for home in homes:
            processes.append(NodeProcess(home, start=start))
        wait_until_ready(processes, [])
    except BaseException:
        for one in processes:
            one.process.kill()
            one.process.wait()
            one.close()
        raise
    access = read_access(SecureFiles(data / SECURE_FOLDER).client_properties) if is_secure else None
    return Nodes(processes=tuple(processes), access=access)


def _status_mib(pid: int, name: str) -> float:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), flags=re.M)
    assert found is not None
    return int(found[1]) / 1024

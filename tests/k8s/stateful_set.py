"""The StatefulSet of the manifests on one machine, with stand-ins for its controller, scheduler and DNS.

Each pod gets its own host and, whenever it is created again, another address; its volume stays. Names are in
a hosts file that all pods read. A name appears a moment after the start of its pod, and disappears with it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.hosts import Host, Network, network
from tests.k8s.kubelet import RunningPod
from tests.k8s.pod import NAMESPACE, pod_of
from tests.k8s.rendered import Object, find

READY_TIMEOUT_S = 90.0
DNS_DELAY_S = 0.3
SECRETS = {"ottla": {"cluster-secret": "a secret of the tests"}}
ZONES = ("zone-a", "zone-b", "zone-c")


class StatefulSet:
    """The pods of the set, by ordinal, and their names."""

    def __init__(self, objects: list[Object], hosts: Network, folder: Path) -> None:
        self.objects = objects
        self.pods: dict[int, RunningPod] = {}
        self.replicas = int(find(objects, "StatefulSet", "ottla")["spec"]["replicas"])
        self._hosts, self._folder = hosts, folder
        self._generation = 0
        self._warnings: list[str] = []
        self._names: dict[str, str] = {}  # host names of pods -> addresses
        self.etc = folder / "etc"
        self.etc.mkdir()
        (self.etc / "nsswitch.conf").write_text("hosts: files\n")
        self._publish()

    @property
    def warnings(self) -> list[str]:
        """The problems of all pods so far, and the tracebacks in their logs."""
        return [*self._warnings, *(one for ordinal in self.pods for one in self.warnings_of(ordinal))]

    def new_host(self) -> Host:
        """Add a host to the network of the pods, for another program."""
        return self._hosts.add()

    # ---- names ---------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Write the hosts file: names of running pods, and the bootstrap service of the ready ones."""
        lines = ["127.0.0.1 localhost\n", *(f"{address} {name}\n" for name, address in self._names.items())]
        for one in self.pods.values():
            if one.is_ready:
                lines.append(f"{one.host.address} ottla-bootstrap ottla-bootstrap.{NAMESPACE}.svc\n")
        # A reader gets the old file or the new one.
        fresh = self.etc / "hosts.new"
        fresh.write_text("".join(lines))
        fresh.replace(self.etc / "hosts")

    # ---- pods ----------------------------------------------------------------------------------------

    def create(self, *ordinals: int) -> None:
        """Create pods at once (podManagementPolicy: Parallel), and wait until they are ready."""
        self.begin(*ordinals)
        for ordinal in ordinals:
            self.wait_until_ready(ordinal)

    def begin(self, *ordinals: int) -> None:
        """Create pods and publish their names; do not wait until they are ready."""
        for ordinal in ordinals:
            self._begin(ordinal)
        time.sleep(DNS_DELAY_S)
        for ordinal in ordinals:
            one = self.pods[ordinal]
            self._names |= dict.fromkeys(one.pod.host_names, one.host.address)
        self._publish()

    def _begin(self, ordinal: int) -> None:
        self._generation += 1
        host = self._hosts.add()
        zone = {"topology.kubernetes.io/zone": ZONES[ordinal % len(ZONES)]}
        pod = pod_of(self.objects, ordinal, address=host.address, secrets=SECRETS, node_labels=zone)
        self.pods[ordinal] = RunningPod(
            pod,
            host,
            folder=self._folder / f"{pod.name}-{self._generation}",
            etc=self.etc,
            volume=self._folder / f"data-{pod.name}",
        )

    def wait_until_ready(self, ordinal: int) -> None:
        one = self.pods[ordinal]
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not one.is_ready:
            assert one.container.is_running, f"{one.pod.name} ended: {one.container.output()[-3000:]}"
            assert time.monotonic() < deadline, (
                f"{one.pod.name} is not ready: {one.container.output()[-3000:]}"
            )
            time.sleep(0.05)
        self._publish()

    def delete(self, ordinal: int, end: Callable[[RunningPod], None] = RunningPod.end) -> None:
        """End a pod, and remove its address and its names."""
        one = self.pods[ordinal]
        one.is_ready = False
        self._publish()
        end(one)
        self._warnings += self.warnings_of(ordinal)
        del self.pods[ordinal]
        for name in one.pod.host_names:
            self._names.pop(name, None)
        self._publish()
        self._hosts.remove(one.host)

    def warnings_of(self, ordinal: int) -> list[str]:
        """Return the problems of a pod so far, and the first traceback in its log."""
        one = self.pods[ordinal]
        text = one.container.output()
        if "Traceback" not in text:
            return one.warnings
        return [*one.warnings, f"{one.pod.name}: {text[text.index('Traceback') :][:3000]}"]

    def rolling_update(self) -> None:
        """Replace each pod, from the highest ordinal down; continue when the new pod is ready."""
        for ordinal in sorted(self.pods, reverse=True):
            self.delete(ordinal)
            self.create(ordinal)

    def run(self, ordinal: int, *command: str, timeout_s: float = 60) -> str:
        """Run a command in a pod, like `kubectl exec`; return its output."""
        done = self.pods[ordinal].container.run(command, timeout_s)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def end(self) -> None:
        """Kill all pods at the end of a test."""
        for one in self.pods.values():
            one.kill()


@contextmanager
def played(objects: list[Object], folder: Path) -> Iterator[StatefulSet]:
    """Make the StatefulSet without pods; end it and its network at the end."""
    with network() as hosts:
        played_set = StatefulSet(objects, hosts, folder)
        try:
            yield played_set
        finally:
            played_set.end()

"""The StatefulSet of the manifests, played on one machine: what its controller, the scheduler and DNS do.

Each pod gets a host of its own and, whenever it is made again, another address; its volume stays. Names are
in a hosts file that all pods see; a name appears a moment after the pod has begun, and goes with it.
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
    """The pods by ordinal."""

    def __init__(self, objects: list[Object], hosts: Network, folder: Path) -> None:
        self.objects = objects
        self.pods: dict[int, RunningPod] = {}
        self.replicas = int(find(objects, "StatefulSet", "ottla")["spec"]["replicas"])
        self._hosts, self._folder = hosts, folder
        self._generation = 0
        self._troubles: list[str] = []
        self._names: dict[str, str] = {}  # of pods, to their addresses
        self.etc = folder / "etc"
        self.etc.mkdir()
        (self.etc / "nsswitch.conf").write_text("hosts: files\n")
        self._publish()

    @property
    def troubles(self) -> list[str]:
        """What went wrong with any pod so far, and stories of our own bugs in their logs."""
        stories = [
            f"{one.pod.name}: {text[text.index('Traceback') :][:3000]}"
            for one in self.pods.values()
            if "Traceback" in (text := one.container.output())
        ]
        return [
            *self._troubles,
            *(trouble for one in self.pods.values() for trouble in one.troubles),
            *stories,
        ]

    def new_host(self) -> Host:
        """A host for something beside the pods, on the same network."""
        return self._hosts.add()

    # ---- names ---------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Headless names of all that run; the bootstrap service is whoever is ready."""
        lines = ["127.0.0.1 localhost\n", *(f"{address} {name}\n" for name, address in self._names.items())]
        for one in self.pods.values():
            if one.is_ready:
                lines.append(f"{one.host.address} ottla-bootstrap ottla-bootstrap.{NAMESPACE}.svc\n")
        # Whoever reads sees the old file or the new one.
        fresh = self.etc / "hosts.new"
        fresh.write_text("".join(lines))
        fresh.replace(self.etc / "hosts")

    # ---- pods ----------------------------------------------------------------------------------------

    def create(self, *ordinals: int) -> None:
        """Make pods, all at once (podManagementPolicy: Parallel); returns when they are ready."""
        self.begin(*ordinals)
        for ordinal in ordinals:
            self.wait_until_ready(ordinal)

    def begin(self, *ordinals: int) -> None:
        """Make pods, which are not ready yet, but have names."""
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
        """End a pod; its address and its name are gone then."""
        one = self.pods[ordinal]
        one.is_ready = False
        self._publish()
        end(one)
        self._troubles += self.troubles_of(ordinal)
        del self.pods[ordinal]
        for name in one.pod.host_names:
            self._names.pop(name, None)
        self._publish()
        self._hosts.remove(one.host)

    def troubles_of(self, ordinal: int) -> list[str]:
        one = self.pods[ordinal]
        text = one.container.output()
        story = [f"{one.pod.name}: {text[text.index('Traceback') :][:3000]}"] if "Traceback" in text else []
        return [*one.troubles, *story]

    def rolling_update(self) -> None:
        """Each pod anew, from the highest ordinal down, the next when the one before is ready."""
        for ordinal in sorted(self.pods, reverse=True):
            self.delete(ordinal)
            self.create(ordinal)

    def run(self, ordinal: int, *command: str, timeout_s: float = 60) -> str:
        """`kubectl exec`: what a command in a pod prints."""
        done = self.pods[ordinal].container.run(command, timeout_s)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def end(self) -> None:
        """At the end of a test."""
        for one in self.pods.values():
            one.kill()


@contextmanager
def played(objects: list[Object], folder: Path) -> Iterator[StatefulSet]:
    """The StatefulSet, of which no pod is made yet."""
    with network() as hosts:
        played_set = StatefulSet(objects, hosts, folder)
        try:
            yield played_set
        finally:
            played_set.end()

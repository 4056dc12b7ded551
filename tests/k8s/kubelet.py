"""A stand-in for the kubelet: it probes a pod, runs its hook, and ends it within its grace period.

As in Kubernetes, only the startup probe runs until it has succeeded. A failed liveness probe is recorded as a
problem, since a kubelet would end the container after a few.
"""

import http.client
import signal
import subprocess
import threading
import time
from pathlib import Path

from tests.chaos.hosts import Host
from tests.k8s.container import Container
from tests.k8s.pod import Pod, Probe

TICK_S = 0.05


class RunningPod:
    """A pod on its host, which a thread probes until it ends."""

    def __init__(self, pod: Pod, host: Host, *, folder: Path, etc: Path, volume: Path) -> None:
        self.pod, self.host = pod, host
        self.container = Container(
            folder,
            host=host,
            name=pod.name,
            user=pod.user,
            etc=etc,
            volume=volume,
            volume_path=pod.volume_path,
            environment=pod.environment,
            command=pod.command,
        )
        self.is_started = False
        self.is_ready = False
        self.warnings: list[str] = []  # the warning events of a kubelet
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._probe, daemon=True)
        self._thread.start()

    # ---- probes ------------------------------------------------------------------------------------

    def _probe(self) -> None:
        if not self._succeeds_in_time(self.pod.startup):
            return
        self.is_started = True
        failures = {"liveness": 0, "readiness": 0}
        now = time.monotonic()
        due = dict.fromkeys(failures, now)
        while not self._is_ending.wait(TICK_S):
            for kind, probe in (("liveness", self.pod.liveness), ("readiness", self.pod.readiness)):
                if time.monotonic() < due[kind]:
                    continue
                due[kind] += probe.period_s
                succeeded = self.get(probe) is None
                if self._is_ending.is_set():
                    return  # the request was in flight when the pod began to end
                failures[kind] = 0 if succeeded else failures[kind] + 1
                if kind == "readiness" and (succeeded or failures[kind] >= probe.failure_threshold):
                    self.is_ready = succeeded
                if kind == "liveness" and not succeeded:
                    self.warnings.append(f"{self.pod.name}: liveness failed {failures[kind]} times")

    def _succeeds_in_time(self, probe: Probe) -> bool:
        for _ in range(probe.failure_threshold):
            if self.get(probe) is None:
                return True
            if self._is_ending.wait(probe.period_s) or not self.container.is_running:
                return False
        self.warnings.append(f"{self.pod.name}: it did not start in time")
        return False

    def get(self, probe: Probe) -> str | None:
        """Send a probe; return why it fails, or None if it succeeds, which is any status from 200 to 399."""
        connection = http.client.HTTPConnection(self.host.address, probe.port, timeout=probe.timeout_s)
        try:
            connection.request("GET", probe.path)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()
        return None if 200 <= status < 400 else str(status)

    # ---- termination -------------------------------------------------------------------------------

    def end(self) -> None:
        """Run the hook and send SIGTERM; after the grace period, kill the pod and record a problem."""
        deadline = time.monotonic() + self.pod.grace_s
        self._is_ending.set()
        self.is_ready = False
        try:
            done = self.container.run(self.pod.pre_stop, self.pod.grace_s)
            if done.returncode:
                self.warnings.append(f"{self.pod.name}: preStop ended with {done.returncode}: {done.stderr}")
            self.container.signal(signal.SIGTERM)
            code = self.container.wait(max(0.1, deadline - time.monotonic()))
            if code:
                self.warnings.append(f"{self.pod.name}: ended with {code}: {self.container.output()[-2000:]}")
        except subprocess.TimeoutExpired:
            self.warnings.append(f"{self.pod.name}: killed after {self.pod.grace_s} s")
        self.kill()

    def kill(self) -> None:
        """Kill the pod at once, as when its host fails."""
        self._is_ending.set()
        self.is_ready = False
        self.container.kill()
        self._thread.join()

"""Probes beside an attack: /healthz at the port of the probes, as a kubelet asks, and at the REST API.

Every time it must answer within the time that k8s/base/statefulset.yaml gives it.
"""

import http.client
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from attacks.nodes import Nodes

PROBE_TIMEOUT_S: Final = 5.0
PROBE_PAUSE_S: Final = 0.1
SETTINGS: Final = {"ottla.probe.listener": "127.0.0.1:0"}
ATTACKER: Final = "127.0.0.1"
TIMEOUT_S: Final = 120.0


def get(
    url: str,
    path: str,
    *,
    source: str = ATTACKER,
    timeout_s: float = TIMEOUT_S,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Return status and body of one GET, asked from an address of this machine."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        str(parts.hostname), parts.port, timeout=timeout_s, source_address=(source, 0)
    )
    try:
        connection.request("GET", path, headers=dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def probe_url(nodes: Nodes) -> str:
    """Return the URL of the first node's probes; AssertionError if they have no port."""
    found = re.search(r"Probes are served at (\S+)", nodes.log())
    assert found is not None, "the node has no port for probes"
    return f"http://{found[1]}"


class Kubelet:
    """Asks /healthz again and again."""

    def __init__(self, url: str) -> None:
        self.longest_s = 0.0
        self.asked = 0
        self.failures: list[str] = []
        self._url = url
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for its last probe."""
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                status, _ = get(self._url, "/healthz", timeout_s=PROBE_TIMEOUT_S)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(type(error).__name__)
            else:
                if status != 200:
                    self.failures.append(str(status))
            self.asked += 1
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            if self._end.wait(PROBE_PAUSE_S):
                return


@contextmanager
def probed(nodes: Nodes) -> Iterator[Kubelet]:
    """Probe the first node meanwhile; AssertionError if a probe fails."""
    kubelet, other = Kubelet(probe_url(nodes)), Kubelet(nodes.rest)
    try:
        yield kubelet
    finally:
        kubelet.finish()
        other.finish()
    failures = kubelet.failures + other.failures
    assert not failures, f"{len(failures)} probes failed: {failures[:3]}"
    kubelet.longest_s = max(kubelet.longest_s, other.longest_s)

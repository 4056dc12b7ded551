"""Probes beside an attack: /healthz at the port of the probes, as a kubelet asks, and at the REST API.

Every time it must answer within the time that k8s/base/statefulset.yaml gives it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attacks.nodes import Nodes
from attacks.probes import TIMEOUT_S

SCRIPTS: Final = Path(__file__).resolve().parents[1]
SETTINGS: Final = {"ottla.probe.listener": "127.0.0.1:0"}


def probe_url(nodes: Nodes) -> str:
    """Return the URL of the first node's probes; AssertionError if they have no port."""
    found = re.search(r"Probes are served at (\S+)", nodes.log())
    assert found is not None, "the node has no port for probes"
    return f"http://{found[1]}"


class Kubelet:
    """Asks /healthz again and again, in a process of its own; what it saw is known once it has finished."""

    def __init__(self, url: str) -> None:
        self.longest_s = self.at_rest_s = 0.0
        self.asked = 0
        self.failures: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attacks.probes", url],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> None:
        """Wait for its last probe."""
        told, _ = self._process.communicate(timeout=TIMEOUT_S)
        found = json.loads(told)
        self.asked, self.longest_s, self.failures = found["asked"], found["longest_s"], found["failures"]


@contextmanager
def probed(nodes: Nodes) -> Iterator[Kubelet]:
    """Probe the first node meanwhile, and give what is seen at the port of its probes; AssertionError if a
    probe fails, there or at the REST API. `at_rest_s` is the longest at the REST API.
    """
    kubelet, other = Kubelet(probe_url(nodes)), Kubelet(nodes.rest)
    try:
        yield kubelet
    finally:
        kubelet.finish()
        other.finish()
        kubelet.at_rest_s = other.longest_s
    failures = kubelet.failures + other.failures
    assert not failures, f"{len(failures)} probes failed: {failures[:3]}"

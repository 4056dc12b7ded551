"""Probes during an attack: /healthz at the port of the probes, as a kubelet requests it, and at the REST API.

Each response must arrive within the timeout of k8s/base/statefulset.yaml.
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
    """Return the URL of the first node's probes; AssertionError if it has no port for them."""
    found = re.search(r"Probes are served at (\S+)", nodes.log())
    assert found is not None, "the node has no port for probes"
    return f"http://{found[1]}"


class Kubelet:
    """A process that requests /healthz repeatedly. Its measurements are set by `finish`."""

    def __init__(self, url: str) -> None:
        self.longest_s = self.rest_longest_s = 0.0
        self.requests = 0
        self.failures: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attacks.probes", url],
            env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> None:
        """Stop after the current probe, and read the measurements."""
        output, _ = self._process.communicate(timeout=TIMEOUT_S)
        found = json.loads(output)
        self.requests, self.longest_s, self.failures = (
            found["requests"],
            found["longest_s"],
            found["failures"],
        )


@contextmanager
def probed(nodes: Nodes) -> Iterator[Kubelet]:
    """Probe the first node while the block runs; yield the measurements at the port of its probes.

    `rest_longest_s` is the longest probe at the REST API. AssertionError if a probe failed at either.
    """
    kubelet, other = Kubelet(probe_url(nodes)), Kubelet(nodes.rest)
    try:
        yield kubelet
    finally:
        kubelet.finish()
        other.finish()
        kubelet.rest_longest_s = other.longest_s
    failures = kubelet.failures + other.failures
    assert not failures, f"{len(failures)} probes failed: {failures[:3]}"

"""A node does not load optional libraries of its dependencies, which would cost memory."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.ports import free_port


@pytest.mark.slow
def test_a_node_loads_no_optional_library_of_its_dependencies(tmp_path: Path) -> None:
    port, rest = free_port(), free_port()
    settings = [f"listeners=PLAINTEXT://127.0.0.1:{port}", f"ottla.rest.listeners=http://127.0.0.1:{rest}"]
    command = [sys.executable, "-m", "ottla", "start", "--data", str(tmp_path / "data")]
    command += [word for one in settings for word in ("--override", one)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        try:
            assert node.stdout is not None and node.stdout.readline().startswith("READY ")
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{rest}/metrics", timeout=30).read()
            loaded = Path(f"/proc/{node.pid}/maps").read_text()
        finally:
            node.terminate()

    assert b"ottla_" in metrics or b"kafka_" in metrics
    assert "uvloop" in loaded and "crc32c" in loaded
    assert [
        name for name in ("pydantic", "cryptography", "cramjam", "lz4", "numpy", "pyarrow") if name in loaded
    ] == []

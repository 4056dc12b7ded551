"""The README on operations and the doctor: its commands run as they stand there, but for the addresses."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compat.servers import ROOT, start_ottla
from tests.ports import free_port
from tests.readme import blocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the commands are curl's"),
]


def commands_under(head: str) -> list[str]:
    """The commands of the first block under a heading."""
    return [line for line in blocks(head, "sh")[0].splitlines() if line.strip()]


def test_the_commands_for_operators_work_as_pasted(tmp_path: Path) -> None:
    rest = free_port()
    node = start_ottla(tmp_path, f"ottla.rest.listeners=http://127.0.0.1:{rest}", "node.id=1")
    settings = tmp_path / "server.properties"
    settings.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:{node.port}\nlog.dirs={tmp_path / 'ottla'}\nnode.id=1\n"
    )
    operations, doctors = commands_under("Operations over REST"), commands_under("What is wrong")
    try:
        answers = [run(one.replace("localhost:8082", f"127.0.0.1:{rest}")) for one in operations]
        found = [
            run(
                one.replace("ottla doctor", f"{sys.executable} -m node doctor")
                .replace("localhost:9092", node.bootstrap)
                .replace("server.properties", str(settings)),
                OTTLA_BOOTSTRAP=node.bootstrap,
            )
            for one in doctors
        ]
    finally:
        node.stop()

    assert len(operations) >= 8 and len(doctors) == 3
    assert all(one.startswith("{") and "error_code" not in one for one in answers), answers
    assert "nothing is wrong" in found[0] and found[2].startswith('{"is_healthy": true')


def run(command: str, **environment: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout

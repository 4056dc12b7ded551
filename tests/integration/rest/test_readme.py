"""The commands of the README's section on the REST API, run as they stand there, but for the address."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.compat.servers import start_ottla
from tests.readme import blocks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the commands are curl's"),
]
# A refusal ends the script, as a reader would stop there.
PRELUDE = (
    'set -eu\ncurl() { command curl --fail-with-body "$@" >> "$SEEN"; tail -n 1 "$SEEN"; echo >> "$SEEN"; }\n'
)


def test_the_commands_of_the_readme_work_as_pasted(tmp_path: Path) -> None:
    commands = "".join(blocks("REST API", "sh"))
    server = start_ottla(tmp_path, "ottla.rest.listeners=http://127.0.0.1:0")
    try:
        address = server.words.partition("rest=http://")[2].split()[0]
        script = PRELUDE + commands.replace("127.0.0.1:8082", address)
        done = subprocess.run(
            ["bash", "-c", script],
            env={"PATH": "/usr/bin:/bin", "SEEN": str(tmp_path / "seen")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        server.stop()

    assert commands.count("curl") > 15 and address in script
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    # The report of a record that was stored has the code 200.
    assert set(re.findall(r'"error_code":(\d+)', (tmp_path / "seen").read_text())) == {"200"}

"""bash completes the commands of an installed `ottla`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
# The steps of bash at Tab: it calls the function of `complete -F` with the words so far.
SCRIPT = """
source ~/.bashrc
COMP_WORDS=(ottla topic cr) COMP_CWORD=2
$(complete -p ottla | sed -E 's/.*-F ([^ ]+).*/\\1/') ottla
echo "${COMPREPLY[@]}"
"""


def test_bash_completes_a_command_after_the_installation(tmp_path: Path) -> None:
    programs = Path(sys.executable).parent
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"}
    (tmp_path / ".bashrc").write_text("export THEIRS=1\n")

    subprocess.run(["ottla", "--install-completion", "bash"], env=environment, check=True, timeout=60)
    completed = subprocess.run(
        ["bash", "--norc", "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert completed.stdout == "create\n"
    assert (tmp_path / ".bashrc").read_text().startswith("export THEIRS=1\n")

"""What is installed for others takes no memory of a node."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from node.__main__ import main
sys.argv = ["ottla", "start", "--config", sys.argv[1]]
code = main()
import node.broker, prometheus_client
print(*sorted({name.partition(".")[0] for name, module in sys.modules.items() if module is not None}))
sys.exit(code)
"""


@pytest.mark.slow
def test_a_node_loads_no_library_that_others_of_its_libraries_could_use(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "none.properties")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    loaded = set(ended.stdout.split())
    assert ended.returncode == 1 and "none.properties" in ended.stderr, ended.stderr
    assert {"pysyncobj", "uvloop", "prometheus_client", "typer"} <= loaded
    assert loaded.isdisjoint({"pydantic", "cryptography", "snappy", "cramjam", "numpy", "pyspark", "rich"})

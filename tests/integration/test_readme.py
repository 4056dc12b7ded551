"""The README's commands on the command line, on several nodes and in tests, run as they stand there.

Only addresses and folders are others, for several tests run at a time. Those of the REST API, of operations
and of Spark have tests of their own.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compat.servers import ROOT, Server, start_ottla
from tests.integration.test_pytest_plugin import NO_OTHER_PLUGINS
from tests.ports import free_port, free_ports
from tests.readme import blocks, failed, run_lines

pytestmark = pytest.mark.slow
USE_IT = "Use it"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A node whose data lie in ottla-data, seen from `node.data`."""
    folder = tmp_path_factory.mktemp("readme")
    server = start_ottla(folder)
    (folder / "ottla-data").symlink_to(folder / "ottla")
    yield server
    server.stop()


@contextmanager
def running(command: Sequence[str], directory: Path) -> Iterator[str]:
    """A command of the README as a process of its own, until SIGTERM: the line with which it is ready."""
    with subprocess.Popen(
        [sys.executable, "-m", "node", *command],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OTTLA_REST_LISTENERS": ""},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def test_a_node_is_started_as_the_readme_says(tmp_path: Path) -> None:
    [_, start] = blocks(USE_IT, "sh")[0].splitlines()
    [name, *command] = start.partition(" #")[0].split()

    with running([*command, "--port", str(free_port())], tmp_path) as ready:
        assert name == "ottla" and "READY" in ready and "data=ottla-data" in ready
        assert (tmp_path / "ottla-data").is_dir()


def test_records_groups_and_transactions_go_as_the_readme_says(node: Server) -> None:
    [_, records, groups, transactions, _] = blocks(USE_IT, "sh")
    address = {"OTTLA_BOOTSTRAP": node.bootstrap}

    wrote_and_read = run_lines(records, node.data, **address)
    grouped = run_lines(groups, node.data, **address)
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "billing-1"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"open", partition=0)
    producer.flush(30)
    in_transactions = run_lines(transactions, node.data, **address)

    assert failed(wrote_and_read) == [] and "2 apples" in wrote_and_read[2].output
    assert "payload" in wrote_and_read[-1].output or "value" in wrote_and_read[-1].output
    assert failed(grouped) == []
    # Nothing hangs in a log that is well, so the last line has nothing to end.
    assert [line.command for line in failed(in_transactions)] == [transactions.splitlines()[-1]]
    assert "billing-1" in in_transactions[1].output and "Traceback" not in in_transactions[-1].output


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_any_client_works_as_the_readme_says(node: Server, tmp_path: Path) -> None:
    kcat = blocks(USE_IT, "sh")[-1].replace("localhost:9092", node.bootstrap)
    [python] = blocks(USE_IT, "python")
    program = tmp_path / "program.py"
    program.write_text(python.replace("localhost:9092", node.bootstrap))

    lines = run_lines(kcat, tmp_path)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)

    assert failed(lines) == [] and "hello\n" in lines[1].output
    assert (done.returncode, done.stderr) == (0, "")


def test_three_nodes_go_as_the_readme_says(tmp_path: Path) -> None:
    [up, then] = blocks("Three nodes on one machine", "sh")
    [votes] = blocks("Several hosts", "sh")[1:]
    port = free_ports(12)
    command = up.partition(" #")[0].replace("19092", str(port)).split()[1:]
    for offset in (2, 1, 0):
        then = then.replace(str(19092 + offset), str(port + offset))

    with running(command, tmp_path) as ready:
        assert "READY" in ready
        lines = run_lines(then, tmp_path)
        voted = run_lines(votes, tmp_path, OTTLA_BOOTSTRAP=f"127.0.0.1:{port}")

    assert failed(lines) == []
    # There is no node 4 here, and so nobody to whom replicas could go.
    [added, removed, drained] = voted
    assert removed.code == 0 and (added.code, drained.code) == (1, 1)
    assert "Node 4 does not follow" in added.output and "Start another broker first" in drained.output


def test_an_embedded_cluster_goes_as_the_readme_says(tmp_path: Path) -> None:
    [embedded, fixture] = blocks("In tests", "python")
    program, test = tmp_path / "program.py", tmp_path / "test_orders.py"
    program.write_text(embedded)
    test.write_text(
        f"from confluent_kafka import Producer\n\n\n{fixture}    producer.list_topics(timeout=30)\n"
    )

    ran = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=ROOT, check=False)
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, test],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": NO_OTHER_PLUGINS},
        check=False,
    )

    assert ran.returncode == 0 and re.match(r"127\.0\.0\.1:\d+,", ran.stdout), ran.stderr
    assert tested.returncode == 0 and "1 passed" in tested.stdout, tested.stdout

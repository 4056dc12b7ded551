"""`ottla`'s own commands for quorums, brokers and replicas as a client: of a node, and of Apache Kafka."""

import json
import os
import subprocess
import sys
from uuid import uuid4

import pytest

from tests.compat.servers import ROOT, Server

pytestmark = pytest.mark.slow


@pytest.fixture(params=["ottla", pytest.param("reference", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def run(server: Server, *arguments: str, code: int = 0) -> str:
    """A command run to the end that we expect; what it printed, on whichever stream it should."""
    done = subprocess.run(
        [sys.executable, "-m", "node", *arguments],
        cwd=ROOT,
        env={**os.environ, "OTTLA_BOOTSTRAP": server.bootstrap},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def test_the_quorum_and_the_brokers_are_shown(server: Server) -> None:
    quorum = json.loads(run(server, "quorum", "status", "--output", "json"))
    [broker] = json.loads(run(server, "broker", "list", "--output", "json"))

    assert [one["node"] for one in quorum["voters"]] == [quorum["leader"]] == [broker["broker"]]
    assert quorum["voters"][0]["log_end_offset"] >= quorum["high_watermark"] - 1 > 0
    assert broker["state"] == "active" and server.bootstrap.endswith(f":{broker['port']}")
    assert run(server, "quorum", "status").startswith(f"leader {quorum['leader']}  epoch ")


def test_partitions_are_moved_and_led(server: Server) -> None:
    [broker] = json.loads(run(server, "broker", "list", "--output", "json"))
    alone, topic = str(broker["broker"]), f"ottla-{uuid4().hex[:8]}"
    run(server, "topic", "create", topic, "--partitions", "2")

    assert run(server, "topic", "reassign", topic, "-r", alone) == "".join(
        f"{topic}-{number} is on {alone}\n" for number in (0, 1)
    )
    assert "INVALID_REPLICA_ASSIGNMENT" in run(server, "topic", "reassign", topic, "-r", "77", code=1)
    assert run(server, "topic", "elect", topic).count(f"led by {alone} already") == 2
    assert run(server, "topic", "reassign", topic, "--output", "json") == "[]\n"
    run(server, "topic", "delete", topic)


def test_the_only_node_stays(server: Server) -> None:
    [broker] = json.loads(run(server, "broker", "list", "--output", "json"))
    alone = str(broker["broker"])

    assert f"`ottla quorum remove {alone}`" in run(server, "broker", "decommission", alone, code=1)
    assert "votes already" in run(server, "quorum", "add", alone, code=1)
    assert run(server, "quorum", "remove", alone, code=1).startswith("ottla: ")

"""`ottla`'s own commands for quorums, brokers and replicas as a client: of a node, and of Apache Kafka."""

import json
import os
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest

from tests.compat.command_line import ottla
from tests.compat.servers import ROOT, Server

pytestmark = pytest.mark.slow


@pytest.fixture(params=["ottla", pytest.param("reference", marks=pytest.mark.java)])
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


def run(server: Server, *arguments: str, code: int = 0) -> str:
    return ottla(server.bootstrap, *arguments, code=code)


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


def test_groups_are_described_measured_reset_and_deleted(server: Server) -> None:
    topic, group = f"ottla-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    run(server, "topic", "create", topic)
    subprocess.run(
        [sys.executable, "-m", "node", "produce", topic],
        cwd=ROOT,
        env={**os.environ, "OTTLA_BOOTSTRAP": server.bootstrap},
        input="a\nb\nc\n",
        text=True,
        check=True,
    )
    run(server, "consume", topic, "--group", group, "-n", "1")

    [listed] = [one for one in of(server, "list", "--state", "empty") if one["group"] == group]
    [described] = of(server, "describe", group)
    [lag] = of(server, "lag", group)
    run(server, "group", "reset", group, "--to-earliest", "--all-topics", "--execute")
    [after] = of(server, "lag", group)

    assert (listed["type"], listed["protocol_type"]) == ("classic", "consumer")
    assert (described["state"], described["members"]) == ("Empty", [])
    assert lag["lag"] == 2 and 0 < lag["seconds"] < 60
    assert after["lag"] == 3 and after["seconds"] > lag["seconds"]
    assert run(server, "group", "delete-offsets", group, "--topic", topic).startswith(group)
    assert run(server, "group", "delete", group) == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in run(server, "group", "lag", group, code=1)
    run(server, "topic", "delete", topic)


def of(server: Server, *arguments: str) -> list[dict[str, Any]]:
    """What `ottla group` says for programs."""
    told: list[dict[str, Any]] = json.loads(run(server, "group", *arguments, "--output", "json"))
    return told

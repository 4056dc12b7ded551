"""A node without a majority reports it: in its health, on every REST answer, and to the command line."""

import asyncio
import http.client
import json
import sys
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ottla.node.cli.app import main
from ottla.node.embedded import Cluster
from ottla.node.net.peer_client import PeerClient
from ottla.node.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.node.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.integration.cluster.conftest import eventually

pytestmark = pytest.mark.slow
SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}
TIMEOUT_S = 20
# Commands that change nothing, with the text on stderr besides the warning, and the exit code.
READING_COMMANDS: dict[str, tuple[tuple[str, ...], str, int | None]] = {
    "topic list": ((), "", 0),
    "topic describe": (("t",), "", 0),
    "topic config": (("t",), "", 0),
    "topic reassign": (("t",), "", 0),
    "broker list": ((), "", 0),
    "quorum status": ((), "", 0),
    "group list": ((), "groups of broker 2 are missing", 1),
    "group describe": (("--all",), "groups of broker 2 are missing", 1),
    "group lag": (("--all",), "groups of broker 2 are missing", 1),
    "group config": (("g",), "", 0),
    "txn list": ((), "transactions of broker 2 are missing", 1),
    # The result depends on which node led the partitions, and on which nodes were fenced in time.
    "txn find-hanging": (("--all",), "", None),
}


def ask(url: str, path: str) -> tuple[Any, str | None]:
    """Return the body of an answer, and the time since which its node is cut off."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        content = response.read()
        body = json.loads(content) if content.startswith(b"{") else content.decode()
        return body, response.headers.get("Ottla-Cut-Off-Since")
    finally:
        connection.close()


def ottla(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run a command and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["ottla", *words])
    return main()


def controllers(address: str) -> tuple[int, int]:
    """Return the controller that Metadata names, and the one that DescribeCluster names."""

    async def look() -> tuple[int, int]:
        host, _, port = address.partition(":")
        node = await PeerClient.connect(host, int(port), client_id="test")
        metadata = await node.request(MetadataRequest(topics=[]), MetadataResponse)
        cluster = await node.request(DescribeClusterRequest(), DescribeClusterResponse)
        await node.close()
        return metadata.controller_id, cluster.controller_id

    return asyncio.run(look())


def test_a_node_that_lost_its_majority_is_not_healthy_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with Cluster(3, rest=True, overrides=SESSION) as cluster:
        url, own = cluster.rest_url(0), cluster.bootstrap.split(",")[0]
        assert url is not None
        assert ottla(monkeypatch, "topic", "create", "t", "-b", own) == 0
        eventually(lambda: ask(url, "/v1/health")[0]["is_healthy"], "the node is healthy at first")

        cluster.kill(1)
        cluster.kill(2)

        eventually(
            lambda: ask(url, "/v1/health")[0]["cut_off_since"] is not None,
            "the node reports that it is cut off",
        )
        health, since = ask(url, "/v1/health")
        assert not health["is_healthy"] and health["controller_id"] is None
        assert since == health["cut_off_since"] and since in health["reason"]
        assert ask(url, "/v1/quorum")[0]["leader"] is None
        assert "controller" not in ask(url, "/v3/clusters")[0]["data"][0]
        assert controllers(own) == (0, 0), "the node names itself as the controller"
        admin = AdminClient({"bootstrap.servers": own, "log_level": 0})
        assert admin.describe_cluster().result(TIMEOUT_S).controller.id == 0
        for path in ("/v1/no-such-path", "/v3/clusters/other/topics", "/v1/groups/nobody", "/metrics"):
            assert ask(url, path)[1] == since, path
        [gauge] = [
            line for line in ask(url, "/metrics")[0].splitlines() if line.startswith("ottla_quorum_cut_off")
        ]
        assert float(gauge.split()[-1]) >= 3
        missing = ask(url, "/v1/groups")[0]["missing"]
        assert 2 in [one["broker_id"] for one in missing]  # broker 1 may be fenced already
        for command, (arguments, words, code) in READING_COMMANDS.items():
            given = [*command.split(), *arguments, "--timeout", str(TIMEOUT_S), "-b", own]
            begun = time.monotonic()
            ended = ottla(monkeypatch, *given)
            errors = capfd.readouterr().err
            assert f"cut off from the metadata quorum since {since}" in errors, command
            assert code in (ended, None) and words in errors, (command, errors)
            assert time.monotonic() - begun < TIMEOUT_S / 2, command

        changes = (("create", "later"), ("delete", "t"))
        for words in changes:
            assert ottla(monkeypatch, "topic", *words, "--timeout", "5", "-b", own) == 1
            errors = capfd.readouterr().err
            assert "did not answer" not in errors, "the node answers that there was no decision"

        cluster.restart(1)
        cluster.restart(2)

        eventually(lambda: ask(url, "/v1/health")[0]["is_healthy"], "the node is healthy again")
        assert ask(url, "/v1/health")[1] is None

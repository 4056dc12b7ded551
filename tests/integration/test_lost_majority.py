"""A node whose majority is gone says so: in its health, on every answer, and to the command line."""

import http.client
import json
import subprocess
import sys
from typing import Any

import pytest

from node.embedded import Cluster
from tests.compat.servers import ROOT
from tests.integration.cluster.conftest import eventually

pytestmark = pytest.mark.slow
SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "300"}


def ask(url: str, path: str) -> tuple[Any, str | None]:
    """The body of an answer, and since when the node that gave it is cut off."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return json.loads(response.read()), response.headers.get("Ottla-Cut-Off-Since")
    finally:
        connection.close()


def test_a_node_that_lost_its_majority_is_not_healthy_until_it_is_back() -> None:
    with Cluster(3, rest=True, overrides=SESSION) as cluster:
        url, own = cluster.rest_url(0), cluster.bootstrap.split(",")[0]
        assert url is not None
        eventually(lambda: ask(url, "/v1/health")[0]["is_healthy"], "it is well at first")

        cluster.isolate(0)

        eventually(
            lambda: ask(url, "/v1/health")[0]["cut_off_since"] is not None, "it says that it is cut off"
        )
        health, since = ask(url, "/v1/health")
        assert not health["is_healthy"] and health["controller_id"] is None
        assert since == health["cut_off_since"] and since in health["reason"]
        assert ask(url, "/v1/quorum")[0]["leader"] is None
        assert "controller" not in ask(url, "/v3/clusters")[0]["data"][0]
        shown = subprocess.run(
            [sys.executable, "-m", "node", "broker", "list", "-b", own],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert shown.returncode == 0 and f"cut off from the metadata quorum since {since}" in shown.stderr

        cluster.heal()

        eventually(lambda: ask(url, "/v1/health")[0]["is_healthy"], "it is well again")
        assert ask(url, "/v1/health")[1] is None

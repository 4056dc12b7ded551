"""The REST server itself: any node answers, access is checked, and malformed requests get errors."""

import asyncio
import os
import re
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from ottla.node.authorization.access import Access
from ottla.node.embedded import Cluster
from ottla.node.handing_over import StartTask
from ottla.node.memory.memory_budget import divide
from ottla.node.memory.memory_uses import MemoryUses
from ottla.node.net.act_for import ActingNode, ActingSecrets
from ottla.node.net.listener import Listener
from ottla.node.node_state import NodeState
from ottla.node.node_view import NodeView, RestDoors
from ottla.node.rest_api.connections import HttpConnections
from ottla.node.rest_api.server_thread import RestServer
from ottla.node.security.sasl.failed_logins import FailedLogins
from ottla.node.security.sasl.false_credentials import FalseCredentials
from ottla.node.security.security_reload import SecurityReload
from ottla.node.settings.config import BrokerConfig, parse_config
from ottla.node.settings.rest_settings import REST_LISTENERS
from tests.compat.servers import start_ottla
from tests.integration.rest.conftest import Api, eventually, logged
from tests.integration.rest.test_produce_records import create

pytestmark = pytest.mark.slow

NO_DOORS = RestDoors(
    acting=ActingSecrets(bytes(32), None, lambda: ActingNode(0, bytes(16)), bytes),
    access_of=Access,
    failed_logins=FailedLogins(),
    false_credentials=FalseCredentials(dict),
    unique=bytes,
)


@dataclass
class ListenerStub:
    """The part of a node's listener that its REST API uses to reach the node."""

    name: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 9


def view_of(config: BrokerConfig) -> NodeView:
    """Return a node that has only begun to start."""
    return NodeView(
        NodeState(config),
        cast(StartTask, None),
        [cast(Listener, ListenerStub())],
        SecurityReload(dict),
        NO_DOORS,
    )


def test_every_node_describes_the_cluster(apis: list[Api]) -> None:
    for api in apis:
        [cluster] = api.get("/v3/clusters")["data"]

        assert cluster == api.get(api.v3)
        assert cluster["kind"] == "KafkaCluster" and cluster["cluster_id"] == api.cluster_id
        assert cluster["metadata"] == {
            "self": api.url + api.v3,
            "resource_name": f"crn:///kafka={api.cluster_id}",
        }
        assert cluster["topics"] == {"related": f"{api.url}{api.v3}/topics"}
        assert cluster["controller"]["related"].rpartition("/")[2] in {"0", "1", "2"}


def test_a_missing_path_is_an_error_in_json(api: Api) -> None:
    nothing = api.get("/v3/nothing", 404)
    no_cluster = api.get("/v3/clusters/other", 404)
    no_method = api.ask("DELETE", "/v3/clusters")

    assert nothing == {"error_code": 404, "message": "HTTP 404 Not Found"}
    assert no_cluster["error_code"] == 404
    assert no_method.status == 405 and no_method.headers["Allow"] == "GET,HEAD"


def test_head_is_a_get_without_content(rest_cluster: Cluster, api: Api) -> None:
    """RFC 9110, 9.3.2, for short answers, long ones (in pieces), errors, files and streams."""
    records = f"{api.v3}/topics/{create(rest_cluster)}/records"
    paths = ["/", "/healthz", "/readyz", "/openapi.json", "/v3/clusters", "/v3/nothing", records]
    for path in paths:
        got, head = api.ask("GET", path), api.ask("HEAD", path)

        assert (head.status, head.content) == (got.status, b"")
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
        assert int(head.headers["Content-Length"]) == len(got.content)
    tail = api.ask("HEAD", records, headers={"Accept": "text/event-stream"})
    assert (tail.status, tail.headers["Content-Type"], tail.content) == (200, "text/event-stream", b"")
    assert api.ask("HEAD", f"{api.v3}/topics/-/configs:alter").status == 405


def test_the_document_has_each_route(api: Api) -> None:
    document = api.get("/openapi.json")

    assert document["openapi"] == "3.1.0"
    assert {"/v3/clusters", "/v3/clusters/{cluster_id}", "/openapi.json"} <= document["paths"].keys()
    assert document["components"]["schemas"]["ClusterData"]["required"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_are_rejected(api: Api, headers: dict[str, str], status: int) -> None:
    reply = api.ask("GET", "/v3/clusters", headers=headers)

    assert reply.status == status
    assert "Access-Control-Allow-Origin" not in reply.headers
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_of_this_node_may_send_requests(api: Api) -> None:
    assert api.ask("GET", "/v3/clusters", headers={"Origin": api.url}).status == 200


def test_a_node_whose_named_port_is_taken_does_not_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        named = f"ottla.rest.listeners=http://127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(
            RuntimeError,
            match=r"Cannot listen on .*: another process uses that port; choose another port there.",
        ):
            start_ottla(tmp_path, named)


def test_a_node_starts_without_a_taken_default_port(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        named = parse_config({REST_LISTENERS: f"http://127.0.0.1:{taken.getsockname()[1]}"})
        config = replace(
            named, rest_listeners_are_named=False
        )  # as without the setting, and with its default
        server = RestServer(view_of(config), divide(1 << 30), MemoryUses())

        server.bind()

    assert server.addresses == [] and "this node runs without a REST API" in caplog.text


def test_a_failed_server_closes_its_ports_and_logs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A probe then finds the port closed, and a supervisor restarts the node."""

    async def fail(connections: HttpConnections) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(HttpConnections, "run", fail)
    config = parse_config({REST_LISTENERS: "http://127.0.0.1:0"})
    server = RestServer(view_of(config), divide(1 << 30), MemoryUses())
    server.bind()
    [address] = server.addresses

    async def serve() -> None:
        server.start()
        await asyncio.to_thread(eventually, lambda: not server.addresses, "its sockets are closed")
        await server.stop()

    asyncio.run(serve())

    assert "AssertionError: a bug" in logged(caplog) and "The REST API has stopped" in caplog.text
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address[:2], timeout=30).close()


def test_the_ready_line_has_the_bound_address_and_links_have_the_advertised_one(tmp_path: Path) -> None:
    server = start_ottla(
        tmp_path,
        "ottla.rest.listeners=http://127.0.0.1:0",
        "ottla.rest.advertised.listener=http://ottla.example:80",
        "ottla.rest.allowed.hosts=*.proxy.example",
    )
    try:
        url = server.ready_line.partition("rest=")[2].split()[0]
        api = Api(url, "")
        [cluster] = api.get("/v3/clusters")["data"]
        statuses = {
            name: api.ask("GET", "/v3/clusters", headers={"Host": name}).status
            for name in ("ottla.example", "a.proxy.example:8080", "proxy.example")
        }
    finally:
        code = server.stop()

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    assert code == 0 and cluster["metadata"]["self"] == (
        f"http://ottla.example:80/v3/clusters/{cluster['cluster_id']}"
    )
    assert statuses == {"ottla.example": 200, "a.proxy.example:8080": 200, "proxy.example": 421}
    assert not os.path.exists(f"/proc/{server.process.pid}")

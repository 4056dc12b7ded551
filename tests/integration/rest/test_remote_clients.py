"""REST requests of administrators are denied to clients on other machines, and all others are served.

The node treats one address of this machine as that of another machine.
"""

import http.client
import re
from collections.abc import Iterator

import pytest

from ottla.node.net.connection_info import is_local_address
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.rest_api.rest_error import AUTHORIZATION_FAILED
from ottla.node.rest_api.route import Route
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

pytestmark = pytest.mark.slow
REMOTE_HOST = "127.0.0.9"
MUTATING = [route for route in ALL_ROUTES if route.method not in ("GET", "HEAD", "OPTIONS")]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "ottla.node.rest_api.client_address.is_local_address",
            lambda client, local: client != REMOTE_HOST and is_local_address(client, local),
        )
        started = start_embedded(tmp_path_factory.mktemp("remote"), ottla_rest_listeners="http://127.0.0.1:0")
        yield started
        started.stop()


def ask(node: EmbeddedBroker, client_host: str, method: str, path: str) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a client with this address."""
    address = node.call(lambda broker: broker.rest.addresses[0])
    client = http.client.HTTPConnection(
        address.host, address.port, timeout=60, source_address=(client_host, 0)
    )
    try:
        client.request(method, path, body=b"{}", headers={"Content-Type": "application/json"})
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


@pytest.mark.parametrize("route", MUTATING, ids=lambda route: route.operation_id)
def test_a_remote_client_is_denied_only_the_routes_for_administrators(
    node: EmbeddedBroker, route: Route
) -> None:
    path = re.sub(r"{\w+}", "1", route.path)

    status, body = ask(node, REMOTE_HOST, route.method, path)
    refused = status == 403 and str(AUTHORIZATION_FAILED).encode() in body

    assert refused is route.is_for_administrators, (status, body)


@pytest.mark.parametrize(
    "route", [one for one in MUTATING if one.is_for_administrators], ids=lambda one: one.operation_id
)
def test_a_client_on_the_machine_of_a_node_is_not_denied(node: EmbeddedBroker, route: Route) -> None:
    status, body = ask(node, "127.0.0.1", route.method, re.sub(r"{\w+}", "1", route.path))

    assert status != 403, body

"""The REST API over TLS: its certificate, client certificates, renewal, and handshakes that never end."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.node.rest_api import tls_door
from ottla.node.settings.failed_login_settings import DEFAULT_BURST
from ottla.node.settings.rest_security_settings import REST
from tests.integration.certificates import Authority
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.integration.rest.conftest import Api, eventually

pytestmark = pytest.mark.slow
MAX_HANDSHAKES = 8


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(certificates: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tls_door, "MAX_HANDSHAKES", MAX_HANDSHAKES)
        patch.setattr("ottla.node.security.security_reload.LOOK_SECONDS", 0.1)
        started = start_embedded(
            tmp_path_factory.mktemp("rest-tls"),
            ottla_rest_listeners="https://127.0.0.1:0,http://127.0.0.1:0",
            ottla_rest_ssl_keystore_location=certificates.issue("node"),
            ottla_rest_ssl_truststore_location=certificates.home / "ca.pem",
            ottla_rest_ssl_client_auth="requested",
        )
        yield started
        started.stop()


def api_of(node: EmbeddedBroker, certificates: Authority, name: str | None = None) -> Api:
    return Api(node.broker.rest.addresses[0].url, "any", tls=certificates.context(name))


def shown(node: EmbeddedBroker, certificates: Authority) -> bytes | None:
    """Return the certificate that the node sends on a new connection."""
    address = node.broker.rest.addresses[0]
    with (
        socket.create_connection(address[:2]) as plain,
        certificates.context().wrap_socket(plain, server_hostname=address.host) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True)


def test_https_is_served_beside_http_and_links_lead_back_there(
    node: EmbeddedBroker, certificates: Authority
) -> None:
    secure, plain = node.broker.rest.addresses

    over_tls = api_of(node, certificates).get("/v3/clusters")
    in_the_clear = Api(plain.url, "any").get("/v3/clusters")

    assert secure.url.startswith("https://")
    assert over_tls["metadata"]["self"] == f"{secure.url}/v3/clusters"
    assert in_the_clear["metadata"]["self"] == f"{plain.url}/v3/clusters"


def test_many_requests_and_a_long_answer_go_over_one_connection(
    node: EmbeddedBroker, certificates: Authority
) -> None:
    api, address = api_of(node, certificates), node.broker.rest.addresses[0]
    connection = api.connection(address.host, address.port)

    lengths = set()
    for _ in range(20):
        connection.request("GET", "/openapi.json")
        lengths.add(len(connection.getresponse().read()))
    connection.close()

    assert len(lengths) == 1 and lengths.pop() > 100_000


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_plain_http_gets_a_pointer_to_https_and_nothing_else(node: EmbeddedBroker, method: str) -> None:
    address = node.broker.rest.addresses[0]
    client = http.client.HTTPConnection(address.host, address.port, timeout=60)

    client.request(method, "/healthz")
    answer = client.getresponse()
    content = answer.read()
    with socket.create_connection(address[:2], timeout=60) as connection:
        connection.sendall(f"{method} /healthz HTTP/1.1\r\n\r\n".encode())
        received = b"".join(iter(lambda: connection.recv(4096), b""))

    assert answer.status == 400
    assert content == b"" if method == "HEAD" else b"begins with https://" in content
    assert received == tls_door.HTTPS_REQUIRED_RESPONSE, "and the connection is closed"


@pytest.mark.parametrize("sent", [b"GE", b"\x00\x00\x00\x20", b"QUIT / HTTP/1.1\r\n\r\n"])
def test_bytes_that_are_neither_tls_nor_http_get_no_answer(node: EmbeddedBroker, sent: bytes) -> None:
    with socket.create_connection(node.broker.rest.addresses[0][:2], timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = connection.recv(4096)

    assert not received.startswith(b"HTTP")


def test_a_new_certificate_is_sent_on_new_connections(node: EmbeddedBroker, certificates: Authority) -> None:
    api, address = api_of(node, certificates), node.broker.rest.addresses[0]
    before, connection = shown(node, certificates), api.connection(address.host, address.port)
    connection.request("GET", "/healthz")
    connection.getresponse().read()

    certificates.issue("node")
    eventually(lambda: shown(node, certificates) != before, "the new certificate is sent")
    connection.request("GET", "/healthz")
    still_open = connection.getresponse()

    assert still_open.status == 200
    connection.close()


def test_endless_handshakes_keep_no_client_out(node: EmbeddedBroker, certificates: Authority) -> None:
    address = node.broker.rest.addresses[0]
    slow = [socket.create_connection(address[:2]) for _ in range(3 * MAX_HANDSHAKES)]
    for one in slow[-MAX_HANDSHAKES:]:
        one.sendall(b"\x16\x03\x01\x02\x00\x01")

    answered = [api_of(node, certificates).ask("GET", "/healthz").status for _ in range(3)]
    slow[0].settimeout(60)
    cut_off = slow[0].recv(1)

    assert answered == [200] * 3 and cut_off == b""
    for one in slow:
        one.close()


def test_handshakes_are_computed_outside_the_event_loop(
    node: EmbeddedBroker, certificates: Authority
) -> None:
    names: list[str] = []
    context = node.broker.base.listener_tls.accepting(REST)
    context.sni_callback = lambda *_: names.append(threading.current_thread().name)
    try:
        api_of(node, certificates).get("/v3/clusters")
    finally:
        context.sni_callback = None

    assert [name.rpartition("_")[0] for name in names] == ["rest-handshake"]


def test_failed_and_abandoned_handshakes_count_until_the_address_is_refused(
    node: EmbeddedBroker, certificates: Authority
) -> None:
    address, failures = node.broker.rest.addresses[0][:2], node.broker.base.failed_logins
    before, counts = node.broker.view.rest.logins.failed, node.broker.view.rest.logins
    hello = client_hello(certificates)

    with (
        socket.create_connection(address, timeout=60) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(plain, server_hostname="127.0.0.1")
    eventually(lambda: counts.failed == before + 1, "a handshake that the client rejects is a failed login")
    abandoned = 0

    def is_refused() -> bool:
        """Abandon handshakes until the address is refused; return True if a login was refused too."""
        nonlocal abandoned
        while not failures.is_refused("127.0.0.1", time.monotonic()):
            abandoned += 1
            assert abandoned < DEFAULT_BURST * 3
            with socket.create_connection(address, timeout=60) as plain:
                plain.sendall(hello)
                plain.recv(1)
        try:
            api_of(node, certificates).get("/v3/clusters")
        except OSError:
            return True
        return False  # on a slow machine, the address regains its allowance in time

    eventually(is_refused, "an address whose handshakes fail is refused")
    assert abandoned > DEFAULT_BURST
    failures._of.clear()
    assert api_of(node, certificates).get("/v3/clusters")["data"]


def client_hello(certificates: Authority) -> bytes:
    """Return a ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = certificates.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_a_client_without_a_certificate_is_rejected_if_one_is_required(
    embedded: Callable[..., EmbeddedBroker], certificates: Authority
) -> None:
    strict = embedded(
        ottla_rest_listeners="https://127.0.0.1:0",
        ssl_keystore_location=certificates.issue("node"),
        ssl_truststore_location=certificates.home / "ca.pem",
        ottla_rest_ssl_client_auth="required",
    )

    with_one = api_of(strict, certificates, "client").ask("GET", "/healthz").status
    with pytest.raises((OSError, http.client.HTTPException)):
        api_of(strict, certificates).ask("GET", "/healthz")

    assert with_one == 200


def test_a_keystore_that_cannot_be_read_stops_the_start(embedded: Callable[..., EmbeddedBroker]) -> None:
    with pytest.raises(KafkaError, match=r"ssl\.keystore\.location /nowhere\.pem"):
        embedded(ottla_rest_listeners="https://127.0.0.1:0", ottla_rest_ssl_keystore_location="/nowhere.pem")


def test_the_api_uses_tls_to_brokers_if_nodes_do_among_each_other(
    embedded: Callable[..., EmbeddedBroker], certificates: Authority
) -> None:
    node = embedded(
        listeners="SSL://127.0.0.1:0",
        inter_broker_listener_name="SSL",
        ssl_keystore_location=certificates.issue("node"),
        ssl_truststore_location=certificates.home / "ca.pem",
        ssl_client_auth="required",
        ottla_rest_listeners="https://127.0.0.1:0",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
    )
    api = api_of(node, certificates)
    cluster = api.get("/v3/clusters")["data"][0]["cluster_id"]

    created = api.ask("POST", f"/v3/clusters/{cluster}/topics", {"topic_name": "t"})

    assert created.status == 201, created.content

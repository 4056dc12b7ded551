"""Connections over TLS with a login, to Ottla and to Apache Kafka, and errors that come at once."""

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.wire.messages.metadata import MetadataRequest
from ottla.pipeline.client import first_contact
from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.connection import BrokerConnection
from ottla.pipeline.client.connections import BrokerConnections
from ottla.pipeline.client.metadata import Cluster
from tests.compat.java.jars import reason_to_skip
from tests.pipeline.secured import LIFETIME_MS, PASSWORDS, Secured, secured
from tests.ports import free_port

pytestmark = pytest.mark.slow
SOON_S = 10.0  # the most time until an error that no retry can cure, also on a busy machine
ALL = MetadataRequest(topics=[])


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if request.param == "kafka" and (reason := reason_to_skip()) is not None:
        pytest.skip(reason)
    with secured(tmp_path_factory.mktemp(request.param), is_kafka=request.param == "kafka") as found:
        yield found


def settings_of(options: dict[str, str], **more: str) -> ClientSettings:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}
    return ClientSettings.from_options({**options, **given}, Role.SOURCE)


def connect(settings: ClientSettings) -> BrokerConnection:
    return BrokerConnection.connect(*settings.bootstrap_servers[0], settings)


def rejection(settings: ClientSettings) -> KafkaError:
    """Request the metadata as a query does, and return the error with which that fails soon."""
    cluster = Cluster(settings)
    begun = time.monotonic()
    with pytest.raises(KafkaError) as rejected:
        cluster.retry(cluster.refresh_nodes)
    cluster.close()
    assert time.monotonic() - begun < SOON_S
    assert not any(password in str(rejected.value) for password in PASSWORDS.values())
    return rejected.value


# ---- successes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_a_client_that_logs_in_is_answered(server: Secured, mechanism: str) -> None:
    connection = connect(settings_of(server.options(mechanism=mechanism)))

    assert connection.request(ALL).brokers
    assert connection.is_open()
    assert connection.request(ALL).brokers
    connection.close()
    assert not connection.is_open()


@pytest.mark.parametrize("form", ["PEM", "PEM in settings", "PKCS12"])
def test_a_client_has_a_certificate(server: Secured, form: str, tmp_path: Path) -> None:
    pem = server.home / "anna.pem"
    key, _, chain = pem.read_text().partition("-----BEGIN CERTIFICATE-----")
    stores = {"keystore_location": str(pem)}
    if form == "PEM in settings":
        stores = {"keystore_key": key, "keystore_certificate_chain": f"-----BEGIN CERTIFICATE-----{chain}"}
    if form == "PKCS12":
        store = tmp_path / "anna.p12"
        command = [
            "openssl",
            "pkcs12",
            "-export",
            "-in",
            str(pem),
            "-out",
            str(store),
            "-passout",
            "pass:pw12",
        ]
        subprocess.run(command, check=True, capture_output=True)
        stores = {"keystore_location": str(store), "keystore_password": "pw12", "keystore_type": "PKCS12"}

    connection = connect(settings_of(server.mutual_options(**stores)))

    assert connection.request(ALL).brokers
    connection.close()


def test_a_login_that_ends_is_renewed_while_answers_are_under_way(server: Secured) -> None:
    """KIP-368. Each request has an answer, in order, over the first connection."""
    connection = connect(settings_of(server.options(listener="SHORT")))
    stream = connection._socket
    until = time.monotonic() + 3 * LIFETIME_MS / 1000
    answered = 0
    while time.monotonic() < until or answered <= 20:
        sent = [connection.send(ALL) for _ in range(3)]
        time.sleep(0.3)
        sent += [connection.send(ALL) for _ in range(2)]
        answered += sum(1 for pending in sent if connection.receive(pending).brokers)
        assert connection.in_flight == 0

    assert answered > 20 and connection._socket is stream
    connection.close()


def test_a_login_is_renewed_after_an_idle_time(server: Secured) -> None:
    connections = BrokerConnections(settings_of(server.options(listener="SHORT")))
    assert connections.to_any().request(ALL).brokers
    time.sleep(LIFETIME_MS / 1000 + 0.5)

    assert connections.to_any().request(ALL).brokers
    connections.close()


# ---- errors that come at once -------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_fails_at_once(server: Secured, mechanism: str) -> None:
    error = rejection(settings_of(server.options(mechanism=mechanism, password="guessed-canary")))

    assert error.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "refused the login of the user anna" in error.detail and "canary" not in error.detail


def test_a_removed_user_is_rejected_when_the_login_is_renewed(server: Secured) -> None:
    connection = connect(settings_of(server.options("bert", listener="SHORT")))
    assert connection.request(ALL).brokers
    server.remove_user("bert")
    try:
        time.sleep(LIFETIME_MS / 1000 * 0.9)

        with pytest.raises(KafkaError) as rejected:
            connection.request(ALL)
    finally:
        server.add_user("bert")

    assert rejected.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not connection.is_open()


def test_an_untrusted_authority_fails_at_once(server: Secured) -> None:
    options = server.options()
    options["kafka.ssl.truststore.location"] = str(server.home / "untrusted.pem")

    error = rejection(settings_of(options))

    assert error.code is ErrorCode.INVALID_CONFIG
    assert "its certificate is not trusted" in error.detail and "ssl.truststore.location" in error.detail


def test_a_certificate_of_another_name_is_not_trusted(server: Secured) -> None:
    port = server.bootstrap("SASL").rpartition(":")[2]
    options = {**server.options(), "kafka.bootstrap.servers": f"localhost:{port}"}

    error = rejection(settings_of(options))
    unchecked = connect(settings_of(options, ssl_endpoint_identification_algorithm=""))

    assert "not valid for 'localhost'" in error.detail
    assert unchecked.request(ALL).brokers
    unchecked.close()


def test_a_missing_file_is_named(server: Secured) -> None:
    error = rejection(settings_of({**server.options(), "kafka.ssl.truststore.location": "/nowhere/ca.pem"}))

    assert "ssl.truststore.location /nowhere/ca.pem cannot be used: No such file" in error.detail


def test_a_missing_certificate_of_the_client_is_an_error(
    server: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_contact, "RETRY_MS", 0)

    assert "ssl.keystore.location" in rejection(settings_of(server.mutual_options())).detail


@pytest.mark.parametrize(
    ("listener", "protocol", "expected"),
    [
        ("SASL", "PLAINTEXT", "listener with TLS"),
        ("SASL", "SSL", "clients that do not log in"),
        ("ADMIN", "SSL", "TLS"),
        ("MUTUAL", "SASL_SSL", ""),
    ],
)
def test_another_protocol_than_that_of_the_listener_is_an_error(
    server: Secured, listener: str, protocol: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_contact, "RETRY_MS", 1_000)
    options = {**server.options(listener=listener), "kafka.security.protocol": protocol}

    assert expected in rejection(settings_of(options)).detail


def test_a_listener_without_logins_is_an_error(server: Secured) -> None:
    stores = {"keystore_location": str(server.home / "anna.pem")}
    options = {**server.options(), **server.mutual_options(**stores), "kafka.security.protocol": "SASL_SSL"}

    error = rejection(settings_of(options))

    assert error.code is ErrorCode.ILLEGAL_SASL_STATE and "has no SASL" in error.detail


def test_a_server_that_is_silent_in_the_handshake_is_abandoned(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        options = {"kafka.bootstrap.servers": address, "kafka.security.protocol": "SSL"}

        with pytest.raises(KafkaError, match="no TLS handshake in time") as rejected:
            connect(settings_of(options, socket_connection_setup_timeout_ms="100"))

    assert rejected.value.code is ErrorCode.NETWORK_EXCEPTION

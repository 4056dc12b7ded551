"""`ottla doctor` on real faults: ports, names, disks, nodes that are down or are not the expected ones."""

import asyncio
import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trustme
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ottla.node.doctor.ask_cluster import ask_cluster
from ottla.node.doctor.diagnosis import diagnose_cluster, diagnose_node
from ottla.node.doctor.endpoint_facts import Speaks
from ottla.node.doctor.finding import Finding, Severity
from ottla.node.doctor.try_endpoint import try_endpoint
from ottla.node.embedded import Cluster
from ottla.node.secure_client.client_security import (
    ClientSecurity,
    ClientTls,
    SaslLogin,
    read_client_security,
)
from ottla.node.security.distinguished_name import host_names
from ottla.node.settings.config import load_config
from ottla.node.tls.store_settings import StoreSettings
from tests.compat import command_line
from tests.compat.servers import start_ottla
from tests.integration.certificates import write_certificates
from tests.integration.cluster.conftest import eventually
from tests.integration.embedded_broker import start_embedded
from tests.ports import free_port

pytestmark = pytest.mark.slow
TIMEOUT_S = 20.0


def problems(found: list[Finding]) -> str:
    return "\n".join(one.sentence for one in found if one.severity is Severity.PROBLEM)


def of_cluster(bootstrap: str) -> list[Finding]:
    host, _, port = bootstrap.rpartition(":")
    return asyncio.run(diagnose_cluster([(host, int(port))], timeout_s=TIMEOUT_S))


def of_node(*overrides: str) -> list[Finding]:
    return asyncio.run(diagnose_node(load_config(overrides=overrides), timeout_s=TIMEOUT_S))


def doctor(bootstrap: str, *arguments: str, code: int) -> str:
    """Run the command, which must end with this code and print no error, and return its output."""
    process = command_line.start(bootstrap, "doctor", *arguments)
    out, err = process.communicate(timeout=command_line.TIMEOUT_S)
    assert (process.returncode, err) == (code, ""), out + err
    return out


def speaks(port: int, *, timeout_s: float = TIMEOUT_S) -> Speaks:
    return asyncio.run(try_endpoint("127.0.0.1", port, timeout_s=timeout_s)).speaks


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Serve a port at which `answer` handles each connection, and yield its number."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        answer(connection)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


# ---- a cluster -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(nodes=3, rest=True) as cluster:
        yield cluster


def test_a_healthy_cluster_has_no_problem(three: Cluster) -> None:
    report = json.loads(doctor(three.bootstrap, "--json", code=0))
    text = doctor(three.bootstrap, code=0)

    assert report["is_healthy"] and all(one["severity"] == "note" for one in report["findings"])
    assert text.endswith("nothing is wrong\n")


def test_a_dead_node_is_reported(three: Cluster) -> None:
    killed = (three.controller_id + 1) % 3

    admin = AdminClient({"bootstrap.servers": three.bootstrap, "log_level": 0})
    lonely = f"lonely-{uuid4().hex[:8]}"
    admin.create_topics([NewTopic(lonely, 1, replica_assignment=[[killed]])])[lonely].result(TIMEOUT_S)
    three.kill(killed)
    try:
        for _ in range(20):  # the controller may not have fenced it yet
            text = doctor(three.bootstrap, "--timeout", "10", code=1)
            if "fenced" in text and "no leader" in text:
                break
        report = json.loads(doctor(three.bootstrap, "--output", "json", code=1))
        expected = report["is_healthy"], report["findings"]
        eventually(lambda: over_rest(three) == expected, "the REST API, which caches findings, has the same")
    finally:
        three.restart(killed)
    admin.delete_topics([lonely])[lonely].result(TIMEOUT_S)

    [cause] = [line for line in text.splitlines() if line.startswith("problem")]
    assert cause.startswith(f"problem  broker: Broker {killed} is down, starting or hanging (registered, but")
    assert f"1 partition has no leader ({lonely}-0)" in cause
    assert "2 of 3 voters of the metadata quorum are left, and if one more fails" in cause
    assert text.endswith("\n1 problem\n")
    assert "loopback" not in text, "loopback addresses are right for a cluster on one machine"


def over_rest(cluster: Cluster) -> tuple[bool, Any]:
    """Return the verdict and the findings of the controller's REST API."""
    url = cluster.rest_url(cluster.controller_id)
    with urllib.request.urlopen(f"{url}/v1/doctor", timeout=TIMEOUT_S) as answer:
        found = json.load(answer)
    return found["is_healthy"], found["findings"]


def test_an_address_without_a_listener_is_reported() -> None:
    free = free_port()

    text = doctor(f"localhost:{free}", code=1)

    assert f"problem  listener: localhost:{free} refuses connections" in text


def test_a_name_that_does_not_resolve_is_reported() -> None:
    assert "cannot be resolved" in problems(of_cluster("no-such-host.invalid:9092"))


def test_a_node_that_advertises_an_unreachable_address_is_reported(tmp_path: Path) -> None:
    port = free_port()
    node = start_ottla(tmp_path, f"advertised.listeners=PLAINTEXT://no-such-host.invalid:{port}", "node.id=1")
    try:
        found = problems(of_cluster(node.bootstrap))
    finally:
        node.stop()

    assert f"Node 1 advertises no-such-host.invalid:{port}, which cannot be resolved" in found


def test_a_node_that_advertises_the_address_of_another_node_is_reported(
    three: Cluster, tmp_path: Path
) -> None:
    host, _, port = three.bootstrap.split(",")[0].rpartition(":")
    node = start_ottla(tmp_path, f"advertised.listeners=PLAINTEXT://{host}:{port}", "node.id=7")
    try:
        found = problems(of_cluster(node.bootstrap))
    finally:
        node.stop()

    assert f"Node 7 advertises {host}:{port}, but another node answers there" in found
    assert "These addresses belong to 2 different clusters" in found


def test_clients_with_unsupported_requests_are_named(tmp_path: Path) -> None:
    node = start_ottla(tmp_path, f"ottla.rest.listeners=http://127.0.0.1:{free_port()}", "node.id=1")
    try:
        well = of_cluster(node.bootstrap)
        with socket.create_connection(("127.0.0.1", node.port), timeout=10) as client:
            body = struct.pack(">hhih", 1, 0, 1, -1)  # Fetch, version 0, which current clients do not send
            client.sendall(struct.pack(">i", len(body)) + body)
            assert client.recv(1) == b"", "the connection is closed"
        found = problems(of_cluster(node.bootstrap))
    finally:
        node.stop()

    assert "unknown" not in "".join(one.sentence for one in well), "its REST API was asked"
    assert "A client (unknown software) asked node 1 for Fetch 0, which it does not support" in found


def test_a_log_that_cannot_be_cleaned_is_named(tmp_path: Path) -> None:
    rest = f"ottla.rest.listeners=http://127.0.0.1:{free_port()}"
    node = start_ottla(tmp_path, rest, "node.id=1", "log.cleaner.backoff.ms=50")
    settings = {"bootstrap.servers": node.bootstrap, "log_level": 0}
    try:
        admin, producer = AdminClient(settings), Producer(settings)
        config = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0"}
        admin.create_topics([NewTopic("changes", 1, 1, config=config)])["changes"].result(TIMEOUT_S)
        for value in ("first", "second", "third"):
            producer.produce("changes", value, key="k")
            assert producer.flush(TIMEOUT_S) == 0
            time.sleep(0.01)  # the next record gets a new segment
        with (tmp_path / "ottla" / "changes-0" / "00000000000000000000.log").open("r+b") as log:
            log.seek(65)  # after the header of the first batch, so its CRC no longer matches
            log.write(b"\xff")
        compact = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ConfigResource.Type.TOPIC, "changes", incremental_configs=[compact])
        admin.incremental_alter_configs([topic])[topic].result(TIMEOUT_S)
        deadline = time.monotonic() + TIMEOUT_S
        while "cannot clean" not in (found := problems(of_cluster(node.bootstrap))):
            assert time.monotonic() < deadline, found
    finally:
        node.stop()

    assert "Node 1 cannot clean a compacted log, which therefore grows: changes-0 (" in found


# ---- other programs at a port --------------------------------------------------------------------


def test_a_web_server_is_no_listener() -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    web = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=web.serve_forever)
    thread.start()
    found = speaks(web.server_port, timeout_s=4.0)  # time for an answer to a Kafka request
    web.shutdown()
    thread.join()
    web.server_close()

    assert found is Speaks.HTTP


def test_a_listener_with_tls_is_recognized(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(write_certificates(tmp_path, "localhost") / "localhost.pem")

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True):
            """A handshake is all."""

    with server(answer) as port:
        assert speaks(port) is Speaks.TLS
        assert "requires TLS" in problems(of_cluster(f"127.0.0.1:{port}"))


def test_a_rest_api_with_tls_and_logins_is_checked_like_the_listeners(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    issued.write_to_path(str(tmp_path / "node.pem"))
    node = start_embedded(
        tmp_path / "logs",
        listeners="SASL_SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="SCRAM-SHA-512",
        ssl_keystore_location=tmp_path / "node.pem",
        ottla_rest_listeners=f"https://127.0.0.1:{free_port()}",
        ottla_rest_authentication="basic",
        ottla_add_scram="SCRAM-SHA-512=[name=admin,password=secret]",
    )
    store = StoreSettings(type="PEM", location=str(tmp_path / "ca.pem"), password=None)
    login = SaslLogin(mechanism="SCRAM-SHA-512", user="admin", password="secret")
    security = ClientSecurity(tls=ClientTls(truststore=store), login=login)

    address = [("127.0.0.1", node.broker.listeners[0].port)]
    facts = asyncio.run(ask_cluster(address, timeout_s=TIMEOUT_S, security=security))
    node.stop()

    assert list(facts.unreached) == [] and [one.node_id for one in facts.clocks] == [0]
    (rest,) = facts.rest
    assert list(rest.methods) == ["basic"] and rest.addresses[0].is_secure and not rest.has_authorizer
    (shown,) = facts.rest_endpoints
    assert shown.port == rest.addresses[0].port and shown.speaks is Speaks.TLS
    assert host_names(shown.certificate) == {"127.0.0.1"}


def test_a_port_with_another_protocol_or_without_an_answer_is_recognized() -> None:
    with server(lambda connection: connection.sendall(b"220 mail ready\r\n")) as port:
        assert speaks(port) is Speaks.OTHER
    with server(lambda connection: None) as port:
        assert speaks(port) is Speaks.SILENT
        assert "does not answer" in problems(of_cluster(f"127.0.0.1:{port}"))


# ---- a node on its own machine -------------------------------------------------------------------


def node_of(directory: Path, port: int) -> list[str]:
    return [f"log.dirs={directory}", f"listeners=PLAINTEXT://127.0.0.1:{port}", "node.id=1"]


def test_a_machine_on_which_a_node_could_start_has_no_problem(tmp_path: Path) -> None:
    port = free_port()

    assert "log directory" not in problems(of_node(*node_of(tmp_path, port)))
    assert "listener" not in problems(of_node(*node_of(tmp_path / "new", port)))
    assert os.listdir(tmp_path) == [], "the doctor leaves no file there"


def test_a_port_that_another_program_uses_is_reported(tmp_path: Path) -> None:
    with server(lambda connection: connection.sendall(b"220 mail ready\r\n")) as port:
        found = problems(of_node(*node_of(tmp_path, port)))

    assert f"another process, which speaks another protocol, uses port {port}" in found


def test_a_listener_at_an_address_of_another_machine_is_reported(tmp_path: Path) -> None:
    found = problems(of_node(f"log.dirs={tmp_path}", "listeners=PLAINTEXT://192.0.2.1:9092"))

    assert "this machine does not have the address 192.0.2.1" in found


def test_a_directory_of_another_cluster_and_node_is_reported(tmp_path: Path) -> None:
    node = start_ottla(tmp_path, "node.id=5")
    port = free_port()
    running = problems(of_node(*node_of(tmp_path / "ottla", port)))
    node.stop()

    stopped = problems(of_node(*node_of(tmp_path / "ottla", port), "cluster.id=AAAAAAAAAAAAAAAAAAAAAg"))

    assert "is locked by process" in running and "no node answers at the listeners" in running
    assert "but the configuration is for cluster AAAAAAAAAAAAAAAAAAAAAg" in stopped
    assert "belongs to node 5, but the configuration is for node 1" in stopped
    assert "is locked by" not in stopped


def test_a_log_directory_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "meta.properties").write_text("version=9\n")
    port = free_port()

    assert "is not a directory" in problems(of_node(*node_of(tmp_path / "file", port)))
    assert "meta.properties cannot be read" in problems(of_node(*node_of(tmp_path / "broken", port)))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 8 MiB, which only root may do."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(mount)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_disk_that_is_full_or_read_only_is_reported(small_disk: Path) -> None:
    port = free_port()
    (small_disk / "filler").write_bytes(bytes(8 * 1024**2 - 4096 * 16))

    full = problems(of_node(*node_of(small_disk, port)))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    read_only = problems(of_node(*node_of(small_disk, port)))

    assert "MiB of 8 MiB free" in full
    assert "is mounted read-only" in read_only


def test_users_without_acls_and_acls_without_users_are_noted(tmp_path: Path) -> None:
    server = start_ottla(
        tmp_path,
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:admin;User:ANONYMOUS",
        "ottla.add.scram=SCRAM-SHA-512=[name=admin,password=secret];SCRAM-SHA-512=[name=anna,password=secret]",
    )
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        entry = AclBinding(
            ResourceType.TOPIC,
            "numbers",
            ResourcePatternType.LITERAL,
            "User:gone",
            "*",
            AclOperation.READ,
            AclPermissionType.ALLOW,
        )
        admin.create_acls([entry])[entry].result(TIMEOUT_S)
        found = of_cluster(server.bootstrap)
    finally:
        server.stop()

    assert problems(found) == ""
    sentences = [one.sentence for one in found if one.subject == "access"]
    assert len(sentences) == 2 and "do not name User:anna, so it may do nothing" in sentences[0]
    assert "ACLs name User:gone, and there is no such SCRAM user" in sentences[1]


def test_listeners_without_tls_on_the_network_are_noted_and_warned_of_at_each_start(tmp_path: Path) -> None:
    port, rest = free_port(), free_port()
    exposed = (
        f"listeners=PLAINTEXT://0.0.0.0:{port}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        f"ottla.rest.listeners=http://0.0.0.0:{rest}",
    )
    node = of_node(f"log.dirs={tmp_path / 'data'}", *exposed)
    server = start_ottla(tmp_path, *exposed)
    try:
        cluster = of_cluster(f"127.0.0.1:{port}")
    finally:
        server.stop()

    plain = f"Other machines reach the listener PLAINTEXT (0.0.0.0:{port}) without TLS"
    for found in (node, cluster):
        assert problems(found) == "" and any(plain in one.sentence for one in found)
        assert any("there is no authorizer" in one.sentence for one in found)
        rest_sentences = [one.sentence for one in found if "reach the REST API" in one.sentence]
        assert (
            len(rest_sentences) == 2
            and "without TLS" in rest_sentences[0]
            and "requires no login" in rest_sentences[1]
        )
    assert server.output().count(f"WARNING {plain}") == 1
    assert server.output().count("WARNING Other machines reach the REST API") == 1


def test_a_certificate_that_expires_soon_is_reported_remotely_and_locally(tmp_path: Path) -> None:
    ca = trustme.CA()
    ends = datetime.now(UTC) + timedelta(days=9)
    issued = ca.issue_cert("127.0.0.1", "localhost", not_after=ends)
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "node.pem"))
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "node.pem").chmod(0o644)
    plain, encrypted = free_port(), free_port()
    settings = (
        f"listeners=PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{encrypted}",
        f"ssl.keystore.location={tmp_path / 'node.pem'}",
    )
    node = of_node(f"log.dirs={tmp_path / 'data'}", *settings)
    server = start_ottla(tmp_path, *settings)
    security, _ = read_client_security(
        {"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path / "ca.pem")}
    )
    try:
        remote = asyncio.run(
            diagnose_cluster([("127.0.0.1", encrypted)], timeout_s=TIMEOUT_S, security=security)
        )
    finally:
        server.stop()

    assert f"The certificate of the listener SSL expires in 8 days, on {ends:%Y-%m-%d}" in problems(node)
    assert f"can read {tmp_path / 'node.pem'}, which holds the private key" in problems(node)
    assert f"The certificate of 127.0.0.1:{encrypted} expires on {ends:%Y-%m-%d}" in problems(remote)


def test_the_certificate_of_a_rest_api_is_checked_remotely_and_locally(tmp_path: Path) -> None:
    ca, rest = trustme.CA(), free_port()
    issued = ca.issue_cert("other.example", not_after=datetime.now(UTC) + timedelta(days=9))
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "rest.pem"))
    port = free_port()
    settings = (
        f"listeners=PLAINTEXT://127.0.0.1:{port}",
        f"ottla.rest.listeners=https://127.0.0.1:{rest}",
        f"ottla.rest.advertised.listener=https://127.0.0.1:{rest}",
        f"ottla.rest.ssl.keystore.location={tmp_path / 'rest.pem'}",
    )
    node = problems(of_node(f"log.dirs={tmp_path / 'data'}", *settings))
    server = start_ottla(tmp_path, *settings)
    try:
        remote = problems(of_cluster(f"127.0.0.1:{port}"))
    finally:
        server.stop()

    assert "The certificate of the listener REST API expires in 8 days" in node
    assert "The certificate of the REST API was issued for other.example" in node
    assert f"The certificate of 127.0.0.1:{rest} expires on" in remote
    assert f"The certificate of 127.0.0.1:{rest} was issued for other.example" in remote


def test_a_rejected_certificate_and_acls_without_an_authorizer_are_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, own = trustme.CA(), tmp_path / "own.pem"
    issued = authority.issue_cert("127.0.0.1", common_name="node")
    issued.private_key_and_cert_chain_pem.write_to_path(str(own))
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl_keystore_location": own,
        "ottla_rest_listeners": f"http://127.0.0.1:{free_port()}",
    }
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    node = start_embedded(
        tmp_path / "data", **settings, authorizer_class_name=standard, super_users="User:ANONYMOUS"
    )
    allow = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:anna",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    for future in admin.create_acls([allow]).values():
        future.result(TIMEOUT_S)
    node.stop()

    node = start_embedded(tmp_path / "data", **settings)
    try:
        warned = caplog.text.count("The metadata holds 1 ACL, which has no effect here")
        own.write_text("damaged")
        node.call(lambda broker: broker.base.listener_tls.settings_changed())
        host, port = node.bootstrap.split(":")
        deadline, found = time.monotonic() + TIMEOUT_S, ""
        while "keeps its old certificate" not in found:
            assert time.monotonic() < deadline, found
            found = problems(asyncio.run(diagnose_cluster([(host, int(port))], timeout_s=TIMEOUT_S)))
    finally:
        node.stop()

    assert warned == 1
    assert "The listener SSL of node 0 keeps its old certificate" in found
    assert "Node 0: The metadata holds 1 ACL, which has no effect here" in found

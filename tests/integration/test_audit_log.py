"""The audit log of a node with logins and an authorizer: its lines, its file, floods, and no secrets."""

import json
import logging
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from confluent_kafka import KafkaError, Producer
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
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.node.broker import Broker
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from tests.compat.wire_client import build, message_class
from tests.integration.cluster.conftest import eventually
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded

pytestmark = pytest.mark.slow
TIMEOUT_S: Final = 60.0
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
CANARY: Final = "canary-7f3a9d"
FLOOD: Final = 3_000


class Node:
    """A node with a SASL listener, a PLAINTEXT listener, and an audit file."""

    def __init__(self, home: Path, **more: Any) -> None:
        self.folder = home / "audit"
        self.folder.mkdir()
        self.path = self.folder / "audit.log"
        self.embedded: EmbeddedBroker = start_embedded(
            home / "data",
            listeners="SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            sasl_enabled_mechanisms="SCRAM-SHA-512,PLAIN",
            ottla_sasl_plain_without_tls="true",
            inter_broker_listener_name="PLAINTEXT",
            ottla_add_scram=";".join(
                f"SCRAM-SHA-512=[name={user},password={user}-secret]" for user in ("admin", "anna")
            ),
            authorizer_class_name=STANDARD,
            auto_create_topics_enable="false",
            connection_failed_authentication_delay_ms=10,
            **{"ottla_audit_file": self.path, "super_users": "User:admin", **more},
        )
        self.admin = AdminClient(self.settings("admin"))

    def address(self, index: int) -> tuple[str, int]:
        def port(broker: Broker) -> int:
            return broker.listeners[index].port

        return "127.0.0.1", self.embedded.call(port)

    def settings(self, user: str, password: str = "", mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
        return {
            "bootstrap.servers": ":".join(map(str, self.address(0))),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password or f"{user}-secret",
            "log_level": 0,
        }

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]

    def stop(self) -> list[dict[str, Any]]:
        """Stop the node and return all lines without their times."""
        self.embedded.stop()
        return [
            {name: value for name, value in line.items() if name not in ("time", "first")}
            for line in self.lines()
        ]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.embedded.stop()


def done(requests: dict[Any, "Future[Any]"]) -> None:
    for each in requests.values():
        each.result(TIMEOUT_S)


def produced(settings: dict[str, Any], topic: str) -> int:
    """Produce a record and return its error code, 0 if it was stored."""
    errors: list[int] = []

    def delivered(error: Any, message: object) -> None:
        errors.append(error.code() if error else 0)

    producer = Producer({**settings, "enable.idempotence": False})
    producer.produce(topic, b"x", partition=0, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]


def fails_to_log_in(settings: dict[str, Any]) -> None:
    reported: list[KafkaError] = []
    producer = Producer({**settings, "error_cb": reported.append})

    def is_reported() -> bool:
        producer.poll(0.05)
        return any(one.code() == KafkaError._AUTHENTICATION for one in reported)

    eventually(is_reported, "the client reports the failed login")


def over_rest(method: str, url: str, body: object = None) -> tuple[int, Any]:
    """Send a REST request and return the status and the body of the answer."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data=content, method=method, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def may_describe(principal: str, topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )


def flood(address: tuple[str, int], api: ApiKey, version: int, fields: dict[str, Any], times: int) -> None:
    """Send one request many times over one connection, and read all responses."""
    request = build(message_class(api.name.lower(), "Request"), fields)
    frame = b"".join(codec.encode_request(api, version, 1, "flood", request))
    with socket.create_connection(address, TIMEOUT_S) as client, client.makefile("rb") as answers:
        for _ in range(0, times, 100):
            client.sendall(frame * 100)
            for _ in range(100):
                assert answers.read(int.from_bytes(answers.read(4)))


def test_a_denial_a_failed_login_and_a_change_are_logged(node: Node) -> None:
    done(node.admin.create_topics([NewTopic("orders", 1, 1)]))
    done(node.admin.create_acls([may_describe("User:anna", "orders")]))
    assert produced(node.settings("anna"), "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    fails_to_log_in(node.settings("anna", password="wrong", mechanism="PLAIN"))

    found = node.stop()
    origin = {"node": 0, "address": "127.0.0.1"}
    logins = [one for one in found if one["kind"] == "failed_login"]
    assert [one for one in found if one["kind"] != "failed_login"] == [
        {
            **origin,
            "kind": "change",
            "principal": "User:admin",
            "api": "CreateTopics",
            "resource_type": "Topic",
            "resource_name": "orders",
            "detail": "",
            "outcome": "NONE",
            "count": 1,
        },
        {
            **origin,
            "kind": "change",
            "principal": "User:admin",
            "api": "CreateAcls",
            "resource_type": "Topic",
            "resource_name": "orders",
            "detail": "ALLOW User:anna from * the operation DESCRIBE on the LITERAL name",
            "outcome": "NONE",
            "count": 1,
        },
        {
            **origin,
            "kind": "denied",
            "principal": "User:anna",
            "api": "Produce",
            "operation": "WRITE",
            "resource_type": "Topic",
            "resource_name": "orders",
            "rule": "DefaultDeny",
            "count": 1,
        },
    ]
    assert logins[0] == {
        **origin,
        "kind": "failed_login",
        "user": "anna",
        "listener": "SASL_PLAINTEXT",
        "mechanism": "PLAIN",
        "reason": "Authentication failed: Invalid username or password (wrong user or password)",
        "count": 1,
    }
    assert (node.path.stat().st_mode & 0o777) == 0o600


def test_a_flood_of_denials_is_few_lines_with_the_right_counts(node: Node) -> None:
    records = {"name": "orders", "partition_data": [{"index": each, "records": b""} for each in range(3)]}
    request = {"acks": 1, "timeout_ms": 1_000, "topic_data": [records]}
    began = time.monotonic()
    flood(node.address(1), ApiKey.PRODUCE, 9, request, FLOOD)
    took_s = time.monotonic() - began

    found = [one for one in node.stop() if one["kind"] == "denied"]
    assert {(one["principal"], one["api"], one["resource_name"]) for one in found} == {
        ("User:ANONYMOUS", "Produce", "orders")
    }
    assert sum(one["count"] for one in found) == FLOOD  # counted by requests, not by partitions
    assert len(found) <= 2 * (1 + took_s // 10)


def test_resources_that_a_list_hides_are_not_logged_as_denials(node: Node) -> None:
    done(node.admin.create_topics([NewTopic("hidden", 1, 1)]))
    anna = AdminClient(node.settings("anna"))
    assert not anna.list_topics(timeout=TIMEOUT_S).topics
    assert not anna.list_consumer_groups().result(TIMEOUT_S).valid

    assert [one["kind"] for one in node.stop()] == ["change"]


def test_a_full_file_is_rotated(tmp_path: Path) -> None:
    node = Node(tmp_path, ottla_audit_file_max_bytes=65_536, ottla_audit_files_max=3)
    bad = [NewTopic(f"no such name {number}", 1, 1) for number in range(400)]
    for each in node.admin.create_topics(bad).values():
        assert each.exception(TIMEOUT_S) is not None
    node.embedded.stop()

    sizes = {path.name: path.stat().st_size for path in node.folder.iterdir()}
    assert set(sizes) >= {"audit.log", "audit.log.1"} and len(sizes) <= 3
    assert all(size <= 65_536 for size in sizes.values())
    lines = [json.loads(line) for path in node.folder.iterdir() for line in path.read_bytes().splitlines()]
    assert {one["outcome"] for one in lines} == {"INVALID_TOPIC_EXCEPTION"} and len(lines) == 400


def test_a_request_for_thousands_of_topics_is_logged_by_its_first_ones_and_a_count(node: Node) -> None:
    bad = [NewTopic(f"no such name {number}", 1, 1) for number in range(6_000)]
    for each in node.admin.create_topics(bad).values():
        assert each.exception(TIMEOUT_S) is not None

    found = node.stop()
    assert [one["count"] for one in found if one["kind"] == "change"] == [1] * 500
    assert [(one["of"], one["count"]) for one in found if one["kind"] == "left_out"] == [("change", 5_500)]


def test_an_unwritable_file_stops_the_start_but_not_a_running_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "first").mkdir()
    with pytest.raises(BaseException, match=r"ottla\.audit\.file.*cannot be written: No such file"):
        Node(tmp_path / "first", ottla_audit_file=tmp_path / "no" / "such" / "folder")
    node = Node(tmp_path)
    away = node.folder.with_name("away")
    node.folder.rename(away)
    with caplog.at_level(logging.INFO, "ottla"):
        done(node.admin.create_topics([NewTopic("orders", 1, 1)]))
        eventually(lambda: "The audit file" in caplog.text, "the unwritable file is logged")
    assert "Topic:orders by request = CreateTopics" in caplog.text
    away.rename(node.folder)
    done(node.admin.create_topics([NewTopic("payments", 1, 1)]))

    found = node.stop()
    assert [(one["kind"], one["count"]) for one in found] == [("lost", 1), ("change", 1)]
    assert found[1]["resource_name"] == "payments"


def test_no_secret_is_logged(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ottla.audit"):
        new_user = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        request = UserScramCredentialUpsertion("berta", new_user, CANARY.encode(), CANARY.encode())
        done(node.admin.alter_user_scram_credentials([request]))
        jaas = (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'user_carl="{CANARY}" user_{CANARY}="x";'
        )
        changed = ConfigResource(
            ConfigResource.Type.BROKER,
            "0",
            incremental_configs=[
                ConfigEntry(
                    "listener.name.sasl_plaintext.plain.sasl.jaas.config",
                    jaas,
                    incremental_operation=AlterConfigOpType.SET,
                )
            ],
        )
        done(node.admin.incremental_alter_configs([changed]))
        fails_to_log_in(node.settings("carl", password=f"{CANARY}-not", mechanism="PLAIN"))
        fails_to_log_in(node.settings("berta", password=f"{CANARY}-not"))
        found = node.stop()

    changes = [one for one in found if one["kind"] == "change"]
    assert [(one["api"], one["resource_name"], one["detail"]) for one in changes] == [
        ("AlterUserScramCredentials", "berta", "SCRAM-SHA-512 set"),
        ("IncrementalAlterConfigs", "0", "listener.name.sasl_plaintext.plain.sasl.jaas.config"),
    ]
    assert {one["user"] for one in found if one["kind"] == "failed_login"} == {"carl", "berta"}
    everything = node.path.read_text() + caplog.text
    assert not re.search(CANARY, everything)


def test_a_change_over_rest_is_logged_with_its_path(tmp_path: Path) -> None:
    node = Node(tmp_path, ottla_rest_listeners="http://127.0.0.1:0", super_users="User:ANONYMOUS")
    host, port, *_ = node.embedded.call(lambda broker: broker.rest.addresses[0])
    url = f"http://{host}:{port}/v3/clusters"
    _, clusters = over_rest("GET", url)
    cluster = clusters["data"][0]["cluster_id"]
    made, _ = over_rest("POST", f"{url}/{cluster}/topics", {"topic_name": "orders"})
    over_rest("GET", f"{url}/{cluster}/topics")
    missing, _ = over_rest("DELETE", f"{url}/{cluster}/topics/no%0Asuch")

    found = [one for one in node.stop() if one["api"].startswith("REST")]
    assert (made, missing) == (201, 404)
    assert [(one["api"], one["resource_name"], one["outcome"], one["address"]) for one in found] == [
        ("REST POST", f"/v3/clusters/{cluster}/topics", "HTTP 201", "127.0.0.1"),
    ], "a failed request is no change, or a flood of them could push out other lines"


def test_a_rejected_certificate_is_a_failed_login(tmp_path: Path) -> None:
    ours, others = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name, authority in (("node", ours), ("untrusted", others)):
        issued = authority.issue_cert("127.0.0.1", common_name=name)
        issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    embedded = start_embedded(
        tmp_path / "data",
        listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        inter_broker_listener_name="PLAINTEXT",
        ssl_keystore_location=tmp_path / "node.pem",
        ssl_truststore_location=tmp_path / "ca.pem",
        ssl_client_auth="required",
        ottla_audit_file=tmp_path / "audit.log",
    )
    port = embedded.broker.listeners[0].port
    for certificate in (None, tmp_path / "untrusted.pem"):
        context = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        if certificate is not None:
            context.load_cert_chain(certificate)
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
        ):
            assert not client.recv(1)
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as scanner:
        scanner.sendall(b"\x16\x03\x01\x00\x02ab")  # fails, but not because of a certificate
        scanner.recv(100)  # an alert or the end of the connection: the node has seen it
    embedded.stop()

    found = [json.loads(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()]
    assert [(one["kind"], one["mechanism"], one["listener"], one["user"]) for one in found] == [
        ("failed_login", "SSL", "SSL", "")
    ] * 2
    assert "peer did not return a certificate" in found[0]["reason"]
    assert "its certificate is refused" in found[1]["reason"]

"""A node with an authorizer, and clients that are named by their certificates."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.compat.wire_client import WireClient
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.integration.test_audit_log import done

pytestmark = pytest.mark.slow
TIMEOUT_S: Final = 60.0
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class AuthorizedNode:
    """A node, its administrator, and its clients by name."""

    def __init__(self, home: Path) -> None:
        self.home = home
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(home / "ca.pem"))
        for name in ("node", "ann", "bob"):
            issued = authority.issue_cert("127.0.0.1", common_name=name)
            issued.private_key_and_cert_chain_pem.write_to_path(str(home / f"{name}.pem"))
        self.start()

    def start(self) -> None:
        """Start the node, or start it again."""
        home = self.home
        self.embedded: EmbeddedBroker = start_embedded(
            home / "logs",
            listeners="SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            ssl_keystore_location=home / "node.pem",
            ssl_truststore_location=home / "ca.pem",
            ssl_client_auth="required",
            ssl_principal_mapping_rules="RULE:^CN=([a-z]+).*$/$1/,DEFAULT",
            authorizer_class_name=STANDARD,
            super_users="User:ANONYMOUS",
            auto_create_topics_enable="false",
        )
        port = self.embedded.call(lambda broker: broker.listeners[1].port)
        self.unencrypted = f"127.0.0.1:{port}"
        self.admin = AdminClient({"bootstrap.servers": self.unencrypted})

    def settings(self, name: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.embedded.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.home / "ca.pem"),
            "ssl.certificate.location": str(self.home / f"{name}.pem"),
            "ssl.key.location": str(self.home / f"{name}.pem"),
            **{each.replace("_", "."): value for each, value in more.items()},
        }

    def grant(self, *bindings: AclBinding) -> None:
        done(self.admin.create_acls(list(bindings)))

    def revoke(self, *bindings: AclBinding) -> None:
        filters = [
            AclBindingFilter(
                one.restype,
                one.name,
                one.resource_pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission_type,
            )
            for one in bindings
        ]
        done(self.admin.delete_acls(filters))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedNode]:
    node = AuthorizedNode(tmp_path_factory.mktemp("authorizer"))
    done(node.admin.create_topics([NewTopic("orders", 1, 1), NewTopic("secrets", 1, 1)]))
    yield node
    node.embedded.stop()


def entry(
    name: str,
    operation: AclOperation,
    principal: str = "User:ann",
    kind: ResourceType = ResourceType.TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


def produced(producer: Producer, topic: str) -> int:
    """Produce a record and return its error code, 0 if it was stored."""
    errors: list[int] = []

    def delivered(error: Any, message: object) -> None:
        errors.append(error.code() if error else 0)

    producer.produce(topic, b"x", partition=0, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]


def test_only_a_user_with_write_access_can_write_until_it_is_revoked(node: AuthorizedNode) -> None:
    may_write = entry("orders", AclOperation.WRITE)
    node.grant(may_write)
    ann = Producer(node.settings("ann", acks="all", linger_ms=0))
    bob = Producer(node.settings("bob", acks="all", linger_ms=0))

    assert [produced(ann, "orders") for _ in range(20)] == [0] * 20
    assert produced(bob, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produced(ann, "secrets") == KafkaError.TOPIC_AUTHORIZATION_FAILED

    denied = entry("orders", AclOperation.WRITE, permission=AclPermissionType.DENY)
    node.grant(denied)
    assert produced(ann, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
    node.revoke(denied)
    again = Producer(node.settings("ann", acks="all"))  # librdkafka caches a denial for a while
    assert produced(again, "orders") == 0
    node.revoke(may_write)
    assert produced(again, "orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_consumer_needs_rights_on_its_group_and_topic_and_sees_no_others(node: AuthorizedNode) -> None:
    assert produced(Producer({"bootstrap.servers": node.unencrypted}), "orders") == 0
    reads = entry("orders", AclOperation.READ, "User:bob")
    joins = entry(
        "team-", AclOperation.READ, "User:bob", ResourceType.GROUP, pattern=ResourcePatternType.PREFIXED
    )
    node.grant(reads, joins)

    def consumer(group: str) -> Consumer:
        return Consumer(node.settings("bob", group_id=group, auto_offset_reset="earliest"))

    ours = consumer("team-1")
    ours.subscribe(["orders"])
    read = ours.poll(TIMEOUT_S)
    assert read is not None and read.error() is None and read.value() == b"x"
    ours.commit(read, asynchronous=False)
    assert set(ours.list_topics(timeout=TIMEOUT_S).topics) == {"orders"}
    ours.close()

    others = consumer("other")
    others.subscribe(["orders"])
    refused = others.poll(TIMEOUT_S)
    assert refused is not None and refused.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    others.close()


def test_hidden_and_missing_topics_get_the_same_error(node: AuthorizedNode) -> None:
    ann = AdminClient(node.settings("ann"))

    for topic in ("secrets", "no-such-topic"):
        found = ann.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        assert found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED and not found.partitions


def test_only_administrators_change_acls(node: AuthorizedNode) -> None:
    ann = AdminClient(node.settings("ann"))
    [future] = ann.create_acls([entry("secrets", AclOperation.ALL)]).values()

    with pytest.raises(KafkaException) as refused:
        future.result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_acls_hold_from_the_first_request_after_a_restart(node: AuthorizedNode) -> None:
    node.grant(entry("orders", AclOperation.WRITE), entry("secrets", AclOperation.WRITE, "User:bob"))
    node.embedded.stop()

    node.start()

    assert produced(Producer(node.settings("ann")), "orders") == 0
    assert produced(Producer(node.settings("ann")), "secrets") == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_client_that_resets_its_connection_at_once_is_denied_by_its_address(tmp_path: Path) -> None:
    """The node accepts such a connection when its address is gone, and could still serve its requests."""
    embedded = start_embedded(
        tmp_path / "logs",
        authorizer_class_name=STANDARD,
        super_users="User:admin",
        allow_everyone_if_no_acl_found="true",
    )
    try:
        with WireClient(embedded.bootstrap) as client:
            creations = [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "resource_pattern_type": 3,
                    "principal": "User:*",
                    "host": host,
                    "operation": 2,
                    "permission_type": permission,
                }
                for kind, name in ((2, "*"), (4, "kafka-cluster"))
                for host, permission in (("*", 3), ("127.0.0.1", 2))
            ]
            client.call("create_acls", 3, creations=creations)
            for number in range(100):
                topic = {"name": f"t-{number}", "num_partitions": 1, "replication_factor": 1}
                with WireClient(embedded.bootstrap) as leaving:
                    leaving.send("create_topics", 7, topics=[topic])
                    leaving.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        made = embedded.call(lambda broker: [*broker.services.metadata.image.topics.by_name])
        assert not [one for one in made if one.startswith("t-")]
    finally:
        embedded.stop()

"""Logins to the REST API: each request has exactly the rights of its caller."""

import base64
import http.client
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ottla.node.rest_api import login_waits
from ottla.node.security.sasl import failed_logins
from ottla.node.wire import codec
from ottla.node.wire.messages.act_for import ActForRequest
from ottla.node.wire.peer_api import PeerApi
from tests.integration.certificates import Authority
from tests.integration.embedded_broker import EmbeddedBroker, start_embedded
from tests.integration.rest.conftest import Api, Reply, eventually
from tests.integration.test_ssl_listener import receive_exactly

pytestmark = pytest.mark.slow
STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS: Final = {"admin": "admin-secret", "ann": "ann-secret", "bob": "bob-secret"}
TIMEOUT_S: Final = 60


def basic(user: str, password: str) -> dict[str, str]:
    proof = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {proof}"}


class RestNode:
    """A node with an authorizer, whose REST API takes passwords and certificates over TLS."""

    def __init__(self, home: Path) -> None:
        self.certificates = Authority(home)
        users = ",".join(f"SCRAM-SHA-512=[name={name},password={word}]" for name, word in USERS.items())
        self.node: EmbeddedBroker = start_embedded(
            home / "logs",
            ottla_rest_listeners="https://127.0.0.1:0",
            ottla_rest_ssl_keystore_location=self.certificates.issue("node"),
            ottla_rest_ssl_truststore_location=home / "ca.pem",
            ottla_rest_ssl_client_auth="requested",
            ottla_rest_ssl_principal_mapping_rules="RULE:^CN=([a-z]+).*$/$1/",
            ottla_rest_authentication="basic,certificate",
            ottla_rest_metrics_principals="User:prometheus",
            ottla_add_scram=users,
            authorizer_class_name=STANDARD,
            super_users="User:admin;User:ANONYMOUS",
            auto_create_topics_enable="false",
            connection_failed_authentication_delay_ms=0,
        )
        self.admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        self.url = self.node.broker.rest.addresses[0].url
        self.cluster_id = self.api("admin").get("/v3/clusters")["data"][0]["cluster_id"]
        self.v3 = f"/v3/clusters/{self.cluster_id}"

    def api(self, user: str | None, password: str | None = None, certificate: str | None = None) -> Api:
        headers = {} if user is None else basic(user, password or USERS[user])
        return Api(self.url, "any", tls=self.certificates.context(certificate), headers=headers)

    def grant(self, user: str, operation: AclOperation, topic: str) -> None:
        binding = AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for one in self.admin.create_acls([binding]).values():
            one.result(TIMEOUT_S)

    def forget_failed_logins(self) -> None:
        self.node.broker.base.failed_logins._of.clear()
        server = self.node.broker.rest._server
        assert server is not None
        server._authentication._waits._of.clear()

    def clear(self) -> None:
        """Delete all topics and ACLs."""
        topics = [one for one in self.admin.list_topics(timeout=TIMEOUT_S).topics if one[:2] != "__"]
        every = AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        deleted = [*self.admin.delete_acls([every]).values()]
        deleted += self.admin.delete_topics(topics).values() if topics else []
        for one in deleted:
            one.result(TIMEOUT_S)

    def create(self, *topics: str) -> None:
        made = self.admin.create_topics([NewTopic(one, 1, 1) for one in topics])
        for one in made.values():
            one.result(TIMEOUT_S)


@pytest.fixture(scope="module")
def rest_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestNode]:
    found = RestNode(tmp_path_factory.mktemp("rest-logins"))
    yield found
    found.node.stop()


@pytest.fixture(autouse=True)
def no_failed_logins(rest_node: RestNode) -> None:
    """Forget the failed logins of other tests, which come from the same address."""
    rest_node.forget_failed_logins()


@pytest.fixture
def cleared(rest_node: RestNode) -> Iterator[None]:
    """Delete the topics and ACLs of a test at its end."""
    yield
    rest_node.clear()


# ---- authentication ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v3/clusters",
        "/metrics",
        "/v1/node",
        "/debug/state",
        "/openapi.json",
        "/console/node",
        "/v1/health",
        "/v1/doctor",
    ],
)
def test_without_a_login_nothing_is_returned(rest_node: RestNode, path: str) -> None:
    reply = rest_node.api(None).ask("GET", path)

    assert reply.status == 401 and reply.json["error_code"] == 40101
    assert reply.headers["WWW-Authenticate"] == 'Basic realm="Ottla", charset="UTF-8"'


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/console/console.css"])
def test_probes_and_the_files_of_the_console_need_no_login(rest_node: RestNode, path: str) -> None:
    assert eventually(lambda: rest_node.api(None).ask("GET", path).status == 200)


@pytest.mark.parametrize(
    "header",
    [
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic " + base64.b64encode(b"ann").decode(),
        "Basic " + base64.b64encode(b"ann:").decode(),
        "Basic " + base64.b64encode(b":x").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(b"ann:ann-secreT").decode(),
        "Basic " + base64.b64encode(b"nobody:ann-secret").decode(),
        "Bearer a.b.c",
        "Digest username=ann",
        "ann-secret",
    ],
)
def test_invalid_credentials_are_rejected(rest_node: RestNode, header: str) -> None:
    api = Api(rest_node.url, "any", tls=rest_node.certificates.context(), headers={"Authorization": header})

    assert api.ask("GET", "/v3/clusters").status == 401


def test_a_script_in_a_browser_causes_no_password_dialog(rest_node: RestNode) -> None:
    reply = rest_node.api(None).ask("GET", "/v3/clusters", headers={"Sec-Fetch-Mode": "cors"})

    assert reply.status == 401 and reply.headers["WWW-Authenticate"].startswith("Session ")


@pytest.mark.usefixtures("cleared")
def test_a_certificate_names_its_caller(rest_node: RestNode) -> None:
    rest_node.create("of-carl", "of-nobody")
    rest_node.grant("carl", AclOperation.DESCRIBE, "of-carl")

    seen = rest_node.api(None, certificate="carl").get(f"{rest_node.v3}/topics")["data"]
    none = rest_node.api(None, certificate="42").ask("GET", f"{rest_node.v3}/topics")

    assert [one["topic_name"] for one in seen] == ["of-carl"]
    assert none.status == 403 and "No rule" in none.json["message"]
    assert rest_node.api(None, certificate="42").ask("GET", "/healthz").status == 200


# ---- authorization -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cleared")
def test_each_caller_sees_and_does_what_its_acls_allow(rest_node: RestNode) -> None:
    rest_node.create("of-ann", "of-bob")
    rest_node.grant("ann", AclOperation.ALL, "of-ann")
    rest_node.grant("bob", AclOperation.READ, "of-bob")
    record = {"value": {"type": "STRING", "data": "x"}}

    def sent(user: str, topic: str) -> Any:
        return rest_node.api(user).ask("POST", f"{rest_node.v3}/topics/{topic}/records", record)

    def topics(user: str) -> list[str]:
        return [one["topic_name"] for one in rest_node.api(user).get(f"{rest_node.v3}/topics")["data"]]

    assert topics("ann") == ["of-ann"] and topics("bob") == ["of-bob"]
    assert {"of-ann", "of-bob"} <= set(topics("admin"))
    assert sent("ann", "of-ann").json["error_code"] == 200
    assert sent("bob", "of-bob").json["error_code"] != 200
    assert sent("bob", "of-ann").status in (403, 404)
    assert rest_node.api("bob").ask("DELETE", f"{rest_node.v3}/topics/of-bob").status in (403, 404)
    assert rest_node.api("ann").ask("GET", f"{rest_node.v3}/topics/of-bob").status in (403, 404)
    read = rest_node.api("ann").get(f"{rest_node.v3}/topics/of-ann/records?offset=earliest")
    assert len(read["data"]) == 1
    assert rest_node.api("ann").ask("GET", f"{rest_node.v3}/topics/of-bob/records").status in (403, 404)


@pytest.mark.usefixtures("cleared")
def test_revoked_rights_end_on_open_connections(rest_node: RestNode) -> None:
    rest_node.create("lent")
    rest_node.grant("ann", AclOperation.DESCRIBE, "lent")
    connection = rest_node.api(None).connection("127.0.0.1", rest_node.node.broker.rest.addresses[0].port)

    def status() -> int:
        connection.request("GET", f"{rest_node.v3}/topics/lent", headers=basic("ann", USERS["ann"]))
        answer = connection.getresponse()
        answer.read()
        return answer.status

    before = status()

    gone = AclBindingFilter(
        ResourceType.TOPIC,
        "lent",
        ResourcePatternType.LITERAL,
        "User:ann",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for one in rest_node.admin.delete_acls([gone]).values():
        one.result(TIMEOUT_S)

    assert before == 200 and status() in (403, 404)
    connection.close()


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/v1/node",
        "/v1/rates",
        "/v1/cluster/history",
        "/v1/brokers/0/history",
        "/v1/doctor",
        "/debug/state",
    ],
)
def test_the_state_of_the_process_needs_the_right_to_describe_the_cluster(
    rest_node: RestNode, path: str
) -> None:
    refused = rest_node.api("ann").ask("GET", path)

    assert refused.status == 403 and "DESCRIBE" in refused.json["message"]
    assert rest_node.api("admin").ask("GET", path).status == 200


@pytest.mark.usefixtures("cleared")
def test_consumers_of_v2_have_the_rights_of_their_caller_and_serve_no_other_caller(
    rest_node: RestNode,
) -> None:
    rest_node.create("v2-secret")
    headers = {"Content-Type": "application/vnd.kafka.v2+json"}
    body = b'{"name": "one", "format": "json", "auto.offset.reset": "earliest"}'
    ann, bob = rest_node.api("ann"), rest_node.api("bob")
    at = "/consumers/v2-group/instances/one"

    made = ann.ask("POST", "/consumers/v2-group", content=body, headers=headers)
    subscribed = ann.ask("POST", f"{at}/subscription", content=b'{"topics": ["v2-secret"]}', headers=headers)
    read = ann.ask("GET", f"{at}/records?timeout=1000")
    sent = ann.ask(
        "POST",
        "/topics/v2-secret",
        content=b'{"records": [{"value": 1}]}',
        headers={"Content-Type": "application/vnd.kafka.json.v2+json"},
    )
    others = [bob.ask("GET", f"{at}/records").status, bob.ask("DELETE", at).status]
    ended = ann.ask("DELETE", at)

    assert made.status == 200 and subscribed.status == 204
    assert read.status == 403 and read.json["error_code"] == 40301
    assert sent.status in (403, 404)
    assert others == [404, 404]
    assert ended.status == 204
    assert rest_node.api(None).ask("POST", "/consumers/g", content=body, headers=headers).status == 401


def test_metrics_have_principals_of_their_own(rest_node: RestNode) -> None:
    prometheus = rest_node.api(None, certificate="prometheus")

    assert prometheus.ask("GET", "/metrics").status == 200
    assert prometheus.ask("GET", "/v1/node").status == 403


def test_changes_of_the_cluster_are_authorized_by_acls(rest_node: RestNode) -> None:
    path, body = (
        f"{rest_node.v3}/broker-configs:alter",
        {"data": [{"name": "log.cleaner.threads", "value": "2"}]},
    )

    assert rest_node.api("ann").ask("POST", path, body).status == 403
    assert rest_node.api("admin").ask("POST", path, body).status == 204


def test_no_kafka_client_acts_for_another_principal(rest_node: RestNode) -> None:
    """The error code says only that the client did not prove that it is a node."""
    host, _, port = rest_node.node.bootstrap.partition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_S) as client:
        hello = ActForRequest(
            step=0, node_id=0, cluster_id=rest_node.node.broker.base.state.cluster_id, nonce=bytes(32)
        )
        forged = ActForRequest(step=1, principal="User:admin", host="127.0.0.1", proof=bytes(32))
        codes = []
        for number, request in enumerate((hello, forged)):
            for piece in codec.encode_request(int(PeerApi.ACT_FOR), 0, number, "x", request):
                client.sendall(piece)
            size = struct.unpack(">i", receive_exactly(client, 4))[0]
            frame = memoryview(receive_exactly(client, size))
            codes.append(codec.decode_response(int(PeerApi.ACT_FOR), 0, frame)[1].error_code)

        def principals(broker: Any) -> set[tuple[str, str]]:
            found = [one.info for one in broker.listeners[0].connections]
            return {(one.access.principal, one.caller_host) for one in found if one.client_port == ours}

        ours = client.getsockname()[1]
        assert codes[0] == 0 and codes[1] == 31  # CLUSTER_AUTHORIZATION_FAILED
        assert rest_node.node.call(principals) == {("User:ANONYMOUS", "")}


# ---- passwords that change ---------------------------------------------------------------------------------


def test_a_changed_or_deleted_password_is_rejected_at_once(rest_node: RestNode) -> None:
    def alter(*changes: Any) -> None:
        for one in rest_node.admin.alter_user_scram_credentials(list(changes)).values():
            one.result(TIMEOUT_S)

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    alter(UserScramCredentialUpsertion("eve", info, b"first"))
    first = eventually(lambda: rest_node.api("eve", "first").ask("GET", "/v3/clusters").status == 200)
    alter(UserScramCredentialUpsertion("eve", info, b"second"))
    eventually(lambda: rest_node.api("eve", "first").ask("GET", "/v3/clusters").status == 401)
    second = rest_node.api("eve", "second").ask("GET", "/v3/clusters").status
    alter(UserScramCredentialDeletion("eve", ScramMechanism.SCRAM_SHA_256))
    eventually(lambda: rest_node.api("eve", "second").ask("GET", "/v3/clusters").status == 401)

    assert first and second == 200


def test_a_right_password_costs_its_hashes_once(rest_node: RestNode) -> None:
    server = rest_node.node.broker.rest._server
    assert server is not None
    before = len(server._authentication._known)

    for _ in range(3):
        assert rest_node.api("bob").ask("GET", "/v3/clusters").status == 200

    assert len(server._authentication._known) in (before, before + 1)


# ---- attackers ---------------------------------------------------------------------------------------------


def test_thousands_of_wrong_passwords_are_slowed_down_without_an_effect_on_others(
    rest_node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_logins, "MAX_DELAY_S", 0.5)
    rest_node.api("bob").get("/v3/clusters")
    stop = threading.Event()
    statuses: list[int] = []

    def attack(number: int) -> None:
        connection = rest_node.api(None).connection("127.0.0.1", rest_node.node.broker.rest.addresses[0].port)
        while not stop.is_set():
            try:
                connection.request("GET", "/v3/clusters", headers=basic(f"user-{number}", "wrong"))
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
            except (OSError, http.client.HTTPException):
                connection.close()
        connection.close()

    attackers = [threading.Thread(target=attack, args=(number,)) for number in range(16)]
    for one in attackers:
        one.start()
    time.sleep(8)
    probes = [rest_node.api(None).ask("GET", "/healthz").status for _ in range(5)]
    by_certificate = rest_node.api(None, certificate="carl").ask("GET", "/v3/clusters").status
    stop.set()
    for one in attackers:
        one.join()

    assert set(statuses) == {401, 429} and statuses.count(401) < 400
    assert probes == [200] * 5 and by_certificate == 200
    assert len(rest_node.node.broker.base.failed_logins) == 1


def test_one_user_is_locked_for_one_address_with_the_remaining_time(rest_node: RestNode) -> None:
    tried = [rest_node.api("ann", "wrong").ask("GET", "/v3/clusters") for _ in range(8)]

    locked = rest_node.api("ann").ask("GET", "/v3/clusters")

    assert [one.status for one in tried[:5]] == [401] * 5
    assert tried[-1].status == 429 and locked.status == 429
    assert int(locked.headers["Retry-After"]) >= 1
    assert rest_node.api("bob").ask("GET", "/v3/clusters").status == 200


def test_simultaneous_guesses_have_no_more_attempts_than_sequential_ones(rest_node: RestNode) -> None:
    with ThreadPoolExecutor(24) as threads:
        tried = list(
            threads.map(
                lambda number: rest_node.api("ann", f"wrong-{number}").ask("GET", "/v3/clusters").status,
                range(24),
            )
        )

    assert sorted(set(tried)) == [401, 429]
    assert tried.count(401) <= login_waits.FREE + 1


def test_a_client_that_is_connected_is_not_locked_out_by_others_at_its_address(rest_node: RestNode) -> None:
    connection = rest_node.api(None).connection("127.0.0.1", rest_node.node.broker.rest.addresses[0].port)

    def log_in(user: str, password: str) -> int:
        connection.request("GET", "/v3/clusters", headers=basic(user, password))
        answer = connection.getresponse()
        answer.read()
        return answer.status

    before = log_in("ann", USERS["ann"])
    guesses = [
        rest_node.api("ann", f"wrong-{number}").ask("GET", "/v3/clusters").status for number in range(8)
    ]

    assert before == 200 and guesses[-1] == 429
    assert rest_node.api("ann").ask("GET", "/v3/clusters").status == 429  # a new connection
    assert log_in("ann", USERS["ann"]) == 200
    assert (
        log_in("ann", "wrong") == 429
        and log_in("bob", USERS["bob"]) == 200
        and log_in("ann", USERS["ann"]) == 429
    )
    connection.close()


def test_giant_headers_are_rejected(rest_node: RestNode) -> None:
    api = rest_node.api(None)

    replies: list[Reply] = [
        api.ask("GET", "/v3/clusters", headers={"Authorization": "Basic " + "A" * 9_000}),
        api.ask("GET", "/v3/clusters", headers={"Cookie": "ottla-session-0=" + "A" * 9_000}),
    ]

    assert {one.status for one in replies} <= {400, 401, 431}


def test_two_authorization_headers_are_rejected(rest_node: RestNode) -> None:
    connection = rest_node.api(None).connection("127.0.0.1", rest_node.node.broker.rest.addresses[0].port)
    connection.putrequest("GET", "/v3/clusters")
    connection.putheader("Authorization", basic("ann", "ann-secret")["Authorization"])
    connection.putheader("Authorization", basic("bob", "bob-secret")["Authorization"])
    connection.endheaders()

    answer = connection.getresponse()
    answer.read()
    connection.close()

    assert answer.status == 400


def test_no_password_is_logged_or_returned(rest_node: RestNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    rest_node.api("ann").ask("GET", "/v3/clusters")
    rest_node.api("ann", "wr0ng-secret").ask("GET", "/v3/clusters")

    shown = json.dumps(rest_node.api("admin").get("/debug/state")) + caplog.text
    shown += rest_node.api("admin").ask("GET", "/metrics").content.decode()

    assert "ann-secret" not in shown and "wr0ng-secret" not in shown
    assert basic("ann", "ann-secret")["Authorization"].partition(" ")[2] not in shown


# ---- without an authorizer ---------------------------------------------------------------------------------


def test_guesses_from_very_many_addresses_are_bounded_and_lock_no_user_out(
    embedded: Callable[..., EmbeddedBroker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A trusted proxy forwards for these addresses."""
    monkeypatch.setattr(login_waits, "UNKNOWN_ADDRESS_BURST", 40)
    monkeypatch.setattr(login_waits, "UNKNOWN_ADDRESS_PER_SECOND", 0.001)
    node = embedded(
        ottla_rest_listeners="http://127.0.0.1:0",
        ottla_rest_authentication="basic",
        ottla_rest_trusted_proxies="127.0.0.1",
        ottla_add_scram="SCRAM-SHA-512=[name=ann,password=ann-secret]",
        connection_failed_authentication_delay_ms=0,
    )
    url = node.broker.rest.addresses[0].url

    def log_in(password: str, address: str) -> int:
        headers = {**basic("ann", password), "X-Forwarded-For": address}
        return Api(url, "any", headers=headers).ask("GET", "/v3/clusters").status

    at_home = log_in("ann-secret", "192.168.0.1")
    with ThreadPoolExecutor(16) as threads:
        tried = list(threads.map(lambda number: log_in(f"wrong-{number}", f"10.0.{number}.1"), range(200)))

    assert at_home == 200 and set(tried) == {401, 429}
    assert 0 < tried.count(401) <= 40
    assert log_in("ann-secret", "192.168.0.1") == 200
    assert log_in("ann-secret", "10.1.0.1") == 429
    assert "Passwords for user ann are guessed from many addresses" in caplog.text


def test_metrics_may_be_open_to_all_clients(embedded: Callable[..., EmbeddedBroker]) -> None:
    node = embedded(
        ottla_rest_listeners="http://127.0.0.1:0",
        ottla_rest_authentication="basic",
        ottla_rest_metrics_principals="User:*",
    )
    api = Api(node.broker.rest.addresses[0].url, "any")

    assert api.ask("GET", "/metrics").status == 200 and api.ask("GET", "/v1/node").status == 401


def test_each_failed_login_is_logged_without_its_password(
    rest_node: RestNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[tuple[str, ...]] = []
    doors = replace(rest_node.node.broker.view.rest, on_failed_login=lambda *one: failures.append(one))
    monkeypatch.setattr(rest_node.node.broker.view, "rest", doors)

    rest_node.api("ann", "wr0ng-secret").ask("GET", "/v3/clusters")
    rest_node.api("ann").ask("GET", "/v3/clusters")

    assert failures == [("ann", "127.0.0.1", "REST API", "BASIC", "wrong user or password")]


# ---- metrics -----------------------------------------------------------------------------------------------


def counts_of(rest_node: RestNode) -> dict[str, int]:
    """Return the counts of logins to the REST API by metric."""
    time.sleep(1.1)  # the metrics are cached for a second
    found: dict[str, int] = {}
    prefix = "kafka_server_socket_server_metrics_"
    for line in rest_node.api("admin").ask("GET", "/metrics").content.decode().splitlines():
        name, _, value = line.rpartition(" ")
        if name.startswith(prefix) and 'listener="REST API"' in name:
            found[name.removeprefix(prefix).partition("_total")[0]] = int(value)
        if name.startswith("ottla_rest_rejected_total") and 'kind="logins"' in name:
            found[name.partition('reason="')[2].partition('"')[0]] = int(value)
    return found


def test_logins_failures_and_lock_outs_are_counted(rest_node: RestNode) -> None:
    before = counts_of(rest_node)
    ann, wrong = rest_node.api("ann"), rest_node.api("bob", "wrong")
    for _ in range(2):
        ann.ask("GET", "/v3/clusters")
    while wrong.ask("GET", "/v3/clusters").status == 401:
        pass

    after = counts_of(rest_node)

    grown = {name: after[name] - before[name] for name in after}
    # Each request of these tests is a connection; the last one is for the metrics themselves.
    assert grown["successful_authentication"] == 3
    assert grown["failed_authentication"] == login_waits.FREE
    assert (grown["user"], grown["address"], grown["node"]) == (1, 0, 0)

"""No secret of a node is in what it shows: answers, logs at DEBUG, the audit file, lists of processes."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.wire_client import Closed
from tests.integration.canary_node import ADMIN, PASSWORDS, SCRAM, CanaryNode, found_in
from tests.integration.lone_command import ottla
from tests.integration.oauth_provider import SECRET, serve_keys

pytestmark = pytest.mark.slow
BROKER, BROKER_LOGGER = 4, 8
GUESS = "canary-guess-a7d1"
NEW_PASSWORD = "canary-new-password-22f0"
SECRET_SETTINGS = (
    "listener.name.clients.ssl.keystore.password",
    "listener.name.inline.ssl.keystore.key",
    "listener.name.clients.plain.sasl.jaas.config",
    "cluster.secret",
    "ottla.add.scram",
)
NAMES = {
    "topic_name": ("canary",),
    "partition_id": ("0",),
    "broker_id": ("0",),
    "consumer_group_id": ("readers",),
    "group_id": ("readers",),
    "group_name": ("readers",),
    "instance": ("nobody",),
    "consumer_id": ("nobody",),
    "user_name": (ADMIN,),
    "transactional_id": ("tx",),
    "offset": ("0",),
    "name": SECRET_SETTINGS,
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CanaryNode]:
    with serve_keys(tmp_path_factory.mktemp("provider")) as (url, authorities):
        started = CanaryNode(tmp_path_factory.mktemp("canaries"), url, authorities)
        started.secrets["OAuth client secret"] = SECRET.encode()
        yield started
        if started.process.poll() is None:
            started.stop()


def log_at_debug(node: CanaryNode) -> None:
    """Set all loggers of the node to DEBUG."""
    with node.administrator() as admin:
        change = {"name": "root", "config_operation": 0, "value": "DEBUG"}
        loggers = {"resource_type": BROKER_LOGGER, "resource_name": "0"}
        changes = [change, {**change, "name": "ottla"}]
        answer: Any = admin.call(
            "incremental_alter_configs", 1, resources=[{**loggers, "configs": changes}], validate_only=False
        )
        assert not answer.responses[0].error_code, answer


def log_in_in_every_way(node: CanaryNode) -> None:
    """Log in by each mechanism, with right and with wrong credentials."""
    for token in (node.bearer(), node.bearer(aud=GUESS), f"{node.bearer()}{GUESS}", "x.y.z"):
        node.secrets.setdefault("access token", node.bearer().rpartition(".")[2][:60].encode())
        client, _ = node.connect("OAUTHBEARER", b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01")
        client.close()
    for password in (PASSWORDS["PLAIN password"], PASSWORDS["PLAIN password"] + "x", GUESS):
        client, _ = node.connect("PLAIN", f"\0ann\0{password}".encode())
        client.close()
    # A password in the place of a user, and malformed messages.
    for mechanism, message in (
        ("PLAIN", PASSWORDS["PLAIN password"].encode()),
        ("PLAIN", b"\0".join((PASSWORDS["PLAIN password"].encode(),) * 4)),
        (SCRAM, f"n,,n={ADMIN},p={PASSWORDS['SCRAM password']}".encode()),
        ("OAUTHBEARER", f"n,,\x01auth=Basic {PASSWORDS['SCRAM password']}\x01\x01".encode()),
        (PASSWORDS["SCRAM password"], b""),
    ):
        try:
            client, _ = node.connect(mechanism, message)
            client.close()
        except Closed:
            continue


def ask_in_every_way(node: CanaryNode) -> None:
    """Log in to the REST API with right and wrong credentials; send secrets in right and in wrong places."""
    begun = node.ask(
        "/console/login", "POST", body={"user": ADMIN, "password": PASSWORDS["SCRAM password"]}, headers={}
    )
    assert begun.status == 200, begun
    cookie = begun.headers.split("Set-Cookie: ")[1].partition(";")[0]
    node.secrets["session cookie"] = cookie.partition("=")[2].encode()
    assert node.ask("/console/session", headers={"Cookie": cookie}).status == 200
    bearer = node.bearer()
    node.secrets["REST token"] = bearer.rpartition(".")[2][:60].encode()
    assert node.ask("/v1/users", headers={"Authorization": f"Bearer {bearer}"}).status == 200
    for headers in (
        {"Authorization": f"Bearer {bearer}{GUESS}"},
        {"Authorization": f"Basic {PASSWORDS['SCRAM password']}"},
        {"Authorization": f"{PASSWORDS['SCRAM password']} x"},
        {"Cookie": f"{cookie}x"},
    ):
        assert node.ask("/v1/users", headers=headers).status == 401
    assert node.ask("/v1/users", password=GUESS).status == 401
    bodies: tuple[Any, ...] = (
        {"password": NEW_PASSWORD},
        {"password": NEW_PASSWORD, "mechanism": "ROT13"},
        {"passwort": NEW_PASSWORD},
        {"password": [NEW_PASSWORD]},
        {"password": {NEW_PASSWORD: 1}},
        {"password": NEW_PASSWORD, "iterations": NEW_PASSWORD},
        NEW_PASSWORD,
    )
    for body in bodies:
        for method, path in (("PUT", "/v1/users/bert"), ("POST", "/v1/users"), ("POST", "/console/login")):
            node.ask(path, method, body=body)
    for name in SECRET_SETTINGS:
        for value in (NEW_PASSWORD, "", NEW_PASSWORD * 1_000):
            body = {"value": value}
            node.ask(f"/v3/clusters/{cluster_id(node)}/brokers/0/configs/{name}", "PUT", body=body)
    with node.administrator() as admin:
        for name in SECRET_SETTINGS:
            wrong = {"name": name, "config_operation": 0, "value": f"{NEW_PASSWORD} {GUESS}"}
            broker = {"resource_type": BROKER, "resource_name": "0", "configs": [wrong]}
            admin.call("incremental_alter_configs", 1, resources=[broker], validate_only=False)


def cluster_id(node: CanaryNode) -> str:
    [cluster] = json.loads(node.ask("/v3/clusters").content)["data"]
    return str(cluster["cluster_id"])


def run_commands(node: CanaryNode) -> dict[str, bytes]:
    """Run commands with a SCRAM user and with tokens of a provider, and return their output."""
    scram = node.client_properties(
        f"sasl.mechanism={SCRAM}",
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{ADMIN}" password="{PASSWORDS["SCRAM password"]}";',
    )
    outputs = {}
    for words in (
        ("topic", "create", "canary"),
        ("produce", "canary"),
        ("consume", "canary", "--until-end", "--group", "readers"),
        ("doctor",),
        ("user", "list"),
    ):
        ran = ottla(node.home, *words, "--command-config", str(scram), given="one\n")
        outputs[" ".join(words)] = (ran.stdout + ran.stderr).encode()
    provider = node.properties.read_text().split("jwks.endpoint.url=")[1].split("/keys")[0]
    for client in (ADMIN, "busy", "moved", "huge", "text"):
        oauth = node.client_properties(
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.oauthbearer.token.endpoint.url={provider}/token",
            "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            f'clientId="{client}" clientSecret="{SECRET}";',
        )
        ran = ottla(node.home, "topic", "list", "--command-config", str(oauth), "--timeout", "5")
        outputs[f"topic list as {client}"] = (ran.stdout + ran.stderr).encode()
    shown = ottla(node.home, "start", "--config", str(node.properties), "--print-settings")
    outputs["print-settings"] = (shown.stdout + shown.stderr).encode()
    return outputs


def test_the_search_finds_secrets_in_every_form(node: CanaryNode) -> None:
    assert set(found_in(node.properties.read_bytes(), node.secrets)) >= {*PASSWORDS, "PEM key"}
    for name, secret in node.secrets.items():
        assert name in found_in(b"x" + base64.b64encode(secret) + b"y", node.secrets)
        assert name in found_in(secret.hex().encode(), node.secrets)


def test_no_secret_is_in_an_answer_a_log_a_metric_an_audit_line_or_a_list_of_processes(
    node: CanaryNode,
) -> None:
    log_at_debug(node)
    log_in_in_every_way(node)
    texts = run_commands(node)
    ask_in_every_way(node)
    secrets = {**node.secrets, "guess": GUESS.encode(), "new password": NEW_PASSWORD.encode()}

    paths = node.all_gets({**NAMES, "cluster_id": (cluster_id(node),)})
    for path in [*paths, "/console/session", "/console/node", "/debug/state?part=node&limit=1000"]:
        texts[path] = node.ask(path).content
    texts |= node.processes()
    texts["log"] = node.log_file.read_bytes()
    texts["audit file"] = node.audit_file.read_bytes()
    texts["output"] = node.output.encode()
    for path in sorted(Path(node.home / "data").glob("__cluster_metadata-0/*.log")):
        dumped = ottla(node.home, "log", "dump", str(path))
        texts[f"dump of {path.name}"] = (dumped.stdout + dumped.stderr).encode()
    shown = {place: names for place, text in texts.items() if (names := found_in(text, secrets))}

    assert shown == {}
    assert {"/v1/node", "/metrics", "/debug/state?part=share-partitions", "/v1/users"} <= texts.keys()
    assert len(paths) > 60 and f"/proc/{node.process.pid}/environ" in texts
    assert b"FAILED_LOGIN" in texts["audit file"].upper().replace(b" ", b"_") and b"DEBUG" in texts["log"]


def test_a_stopping_node_shows_no_secret_either(node: CanaryNode) -> None:
    assert node.stop() == 0

    assert found_in(node.log_file.read_bytes() + node.output.encode(), node.secrets) == []

"""`ottla start --secure` as a user runs it: one flag, the printed command, and no secret anywhere else."""

import base64
import hmac
import json
import os
import shlex
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.logstore.words.topic_partition import uuid_from_text
from ottla.node.secure_setup.client_settings import ClientLogin
from ottla.node.security.cluster_key import cluster_key
from ottla.node.settings.first_users import parse_first_users
from ottla.node.settings.properties_file import parse_properties
from ottla.node.settings.secure_settings import SecureFiles, administrator_of
from tests.integration.canary_node import found_in
from tests.integration.lone_command import TIMEOUT_S, environment, ottla
from tests.ports import free_port

pytestmark = pytest.mark.slow
QUIET = {"log_level": 0}


class Node:
    """A node that was started with one flag in an empty folder."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.port = free_port()
        self.files = SecureFiles(home / "ottla-data-secure")
        self.log = home / "node.log"
        command = [sys.executable, "-P", "-m", "ottla", "start", "--secure", "--port", str(self.port)]
        rest = "ottla.rest.listeners=https://127.0.0.1:0"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--override", rest, *options],
                cwd=home,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        self.lines = [self.process.stdout.readline()]
        assert self.lines[0].startswith("READY "), self.log.read_text()
        self.lines += [self.process.stdout.readline() for _ in range(2)]
        self.rest = self.lines[0].split(" rest=")[1].split()[0]

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(TIMEOUT_S)
        assert self.process.stdout is not None
        self.lines.append(self.process.stdout.read())
        self.process.stdout.close()
        return code

    def login(self, password: str | None = None) -> ClientLogin:
        admin = administrator_of(parse_properties(self.files.client_properties.read_bytes()))
        return ClientLogin(
            bootstrap=f"localhost:{self.port}",
            authority=str(self.files.authority),
            user=admin.name,
            password=password or admin.password,
        )

    def ask(self, path: str, password: str | None = None, *, anonymous: bool = False) -> tuple[int, bytes]:
        """Send a REST request; it is by the administrator unless `anonymous` or a password is given."""
        login = self.login(password)
        request = urllib.request.Request(self.rest + path)
        if not anonymous:
            token = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        context = ssl.create_default_context(cafile=str(self.files.authority))
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    started = Node(tmp_path_factory.mktemp("secure"))
    yield started
    if started.process.poll() is None:
        started.stop()


def as_admin(node: Node) -> tuple[str, str]:
    return "--command-config", str(node.files.client_properties)


def test_the_printed_command_works_as_it_was_printed(node: Node) -> None:
    [command] = [line.strip() for line in node.lines if line.startswith("  ottla ")]
    # An earlier run of this test may have created it.
    ottla(node.home, "topic", "delete", "orders", "--if-exists", *as_admin(node))

    done = ottla(node.home, *shlex.split(command)[1:])

    assert (done.returncode, done.stdout) == (0, "created orders with 1 partition\n"), done.stderr
    assert done.stderr == ""


def test_confluent_kafka_accepts_the_values_of_the_file(node: Node) -> None:
    config: dict[str, Any] = {**node.login().of_librdkafka(), **QUIET}
    ottla(node.home, "topic", "create", "of-confluent", *as_admin(node))
    producer = Producer(config)
    producer.produce("of-confluent", b"hello")
    assert producer.flush(TIMEOUT_S) == 0

    consumer = Consumer({**config, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["of-confluent"])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()

    assert message is not None and message.value() == b"hello"


def test_clients_without_the_password_are_rejected(node: Node) -> None:
    wrong = AdminClient({**node.login("guessed-password").of_librdkafka(), **QUIET})
    plain = ottla(node.home, "topic", "list", "--bootstrap", f"localhost:{node.port}", "--timeout", "5")

    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=2)
    assert plain.returncode == 1 and "TLS" in plain.stderr
    assert node.ask("/v3/clusters", anonymous=True)[0] == 401
    assert node.ask("/v3/clusters", "guessed-password")[0] == 401


def test_topics_are_not_created_automatically(node: Node) -> None:
    outcomes: list[KafkaError | None] = []
    producer = Producer({**node.login().of_librdkafka(), **QUIET, "message.timeout.ms": 2000})
    producer.produce("of-itself", b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(TIMEOUT_S)

    assert len(outcomes) == 1 and outcomes[0] is not None
    assert "of-itself" not in ottla(node.home, "topic", "list", *as_admin(node)).stdout


def test_the_settings_of_the_flag_are_shown_without_secrets(node: Node) -> None:
    shown = ottla(node.home, "start", "--secure", "--print-settings")

    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer" in lines
    assert "cluster.secret=[hidden]" in lines and "ottla.add.scram=[hidden]" in lines
    assert node.login().password not in shown.stdout


# ---- secrets ---------------------------------------------------------------------------------------


def secrets_of(node: Node) -> dict[str, bytes]:
    """Return the secrets by name; each may be in its own file only."""
    found = {
        "password": node.login().password.encode(),
        "cluster.secret": node.files.cluster_secret.read_bytes().strip(),
    }
    for path in (node.files.authority_key, node.files.node(0)):
        lines = path.read_text().split("-----BEGIN PRIVATE KEY-----")[1].strip().splitlines()
        # The first line is identical for all keys of this kind.
        found[path.name] = lines[1].encode()
    [cluster] = json.loads(node.ask("/v3/clusters")[1])["data"]
    [user] = parse_first_users(f'SCRAM-SHA-512=[name="admin",password="{node.login().password}"]')
    key = hmac.digest(cluster_key(found["cluster.secret"].decode()), b"ottla login key 2", "sha256")
    kept = user.record(uuid_from_text(cluster["cluster_id"]), key)
    return {**found, "salt": kept.salt, "stored key": kept.stored_key, "server key": kept.server_key}


def test_the_search_for_secrets_finds_them(node: Node) -> None:
    secrets = secrets_of(node)

    assert found_in(node.files.client_properties.read_bytes(), secrets) == ["password"]
    assert found_in(node.files.node(0).read_bytes(), secrets) == ["node-0.pem"]
    metadata = b"".join(path.read_bytes() for path in node.home.glob("ottla-data/__cluster_metadata-0/*.log"))
    assert found_in(metadata, secrets) == ["salt", "stored key", "server key"]
    assert found_in(base64.b64encode(secrets["password"]), secrets) == ["password"]


def test_secrets_are_in_no_log_no_metric_no_answer_and_no_list_of_processes(node: Node) -> None:
    secrets = secrets_of(node)
    config: dict[str, Any] = {**node.login().of_librdkafka(), **QUIET}
    ottla(node.home, "topic", "create", "canary", *as_admin(node))
    ottla(node.home, "produce", "canary", *as_admin(node), given="one\n")
    ottla(node.home, "consume", "canary", "--until-end", "--group", "g", *as_admin(node))
    changed = ottla(node.home, "topic", "config", "canary", "--set", "retention.ms=1000", *as_admin(node))
    assert changed.returncode == 0, changed.stderr
    for password in ("guessed-password", secrets["password"].decode()[:-1]):
        with pytest.raises(KafkaException):
            AdminClient({**config, "sasl.password": password}).list_topics(timeout=1)
        assert node.ask("/v3/clusters", password)[0] == 401
    [cluster] = json.loads(node.ask("/v3/clusters")[1])["data"]
    place = f"/v3/clusters/{cluster['cluster_id']}"
    paths = [
        "/metrics",
        "/debug/state",
        "/v1/health",
        "/openapi.json",
        "/v3/clusters",
        f"{place}/brokers",
        f"{place}/brokers/0/configs",
        f"{place}/acls",
        "/v1/users",
    ]
    log_dump = [
        ottla(node.home, "log", "dump", str(path))
        for path in sorted((node.home / "ottla-data").glob("__cluster_metadata-0/*"))
        if path.suffix in (".log", ".checkpoint", ".snapshot")
    ]
    texts: dict[str, bytes] = {path: node.ask(path)[1] for path in paths}
    assert b"kafka_" in texts["/metrics"] and b"super.users" in texts[f"{place}/brokers/0/configs"]
    for process in Path("/proc").glob("[0-9]*"):
        for part in ("cmdline", "environ"):
            try:
                texts[f"{process}/{part}"] = (process / part).read_bytes()
            except OSError:  # the process has ended, or belongs to another user
                continue
    texts["log"] = node.log.read_bytes()
    texts["output"] = "".join(node.lines).encode()
    for number, dumped in enumerate(log_dump):
        texts[f"log dump {number}"] = (dumped.stdout + dumped.stderr).encode()

    shown = {place: names for place, text in texts.items() if (names := found_in(text, secrets))}

    assert shown == {}
    assert f"/proc/{node.process.pid}/cmdline" in texts


# ---- restarts --------------------------------------------------------------------------------------


def test_a_restart_keeps_the_keys_and_the_password(tmp_path: Path) -> None:
    first = Node(tmp_path)
    before = {path.name: path.read_bytes() for path in first.files.directory.iterdir()}
    assert first.stop() == 0

    second = Node(tmp_path)
    listed = ottla(tmp_path, "topic", "list", *as_admin(second), "--bootstrap", f"localhost:{second.port}")

    assert second.stop() == 0
    assert listed.returncode == 0, listed.stderr
    assert {path.name: path.read_bytes() for path in second.files.directory.iterdir()} == before
    # Without the flag, all clients could do what only the administrator could before.
    opened = ottla(tmp_path, "start", "--port", str(free_port()))
    assert opened.returncode == 1 and "Start it with --secure" in opened.stderr
    second.files.directory.rename(tmp_path / "keys-elsewhere")
    opened = ottla(tmp_path, "start", "--port", str(free_port()))
    assert opened.returncode == 1 and "set ottla.secure.dir to their new directory" in opened.stderr


def test_data_of_an_open_node_are_not_secured_without_an_administrator(tmp_path: Path) -> None:
    port = str(free_port())
    command = [sys.executable, "-P", "-m", "ottla", "start", "--port", port]
    with subprocess.Popen(
        [*command, "--override", "ottla.rest.listeners="],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as opened:
        assert opened.stdout is not None and opened.stdout.readline().startswith("READY ")
        opened.terminate()

    refused = ottla(tmp_path, "start", "--secure", "--port", port)

    assert refused.returncode == 1 and "no administrator who could log in" in refused.stderr
    assert not (tmp_path / "ottla-data-secure").exists()


def test_the_flag_is_rejected_with_its_opposite(tmp_path: Path) -> None:
    began = time.monotonic()
    refused = ottla(tmp_path, "start", "--secure", "--override", "ottla.secure=false")

    assert refused.returncode == 1 and "contradict each other" in refused.stderr
    assert time.monotonic() - began < TIMEOUT_S and os.listdir(tmp_path) == []

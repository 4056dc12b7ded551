"""`ottla user`, `ottla acl` and `ottla quota` against a node with logins, an authorizer and clients."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from ottla.node.client.acl_admin import AT_ONCE
from tests.compat.servers import ROOT
from tests.integration.secured_node import Commands, SecuredNode, secured_node

pytestmark = pytest.mark.slow
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    yield from secured_node(tmp_path_factory.mktemp("secured"))


@pytest.fixture
def admin(node: SecuredNode, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Commands:
    """Return a runner of commands as the administrator."""
    return Commands(node.properties(), monkeypatch, capfd)


def settings(node: SecuredNode, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    return {
        "bootstrap.servers": node.address("TLS"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(node.home / "ca.pem"),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def produced(client: dict[str, Any], topic: str) -> int:
    """Produce a record as a client and return its error code, 0 if it was stored."""
    errors: list[int] = []
    reported: list[KafkaError] = []
    producer = Producer({**client, "error_cb": reported.append, "message.timeout.ms": 20_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error.code() if error else 0))
    while not errors:
        producer.poll(0.05)
        if any(one.code() == KafkaError._AUTHENTICATION for one in reported):
            producer.purge()
            return int(KafkaError._AUTHENTICATION)
    return errors[0]


@pytest.mark.parametrize("name", ["anna", "a=b,c", "User: with=2C"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256"])
def test_a_user_logs_in_with_the_password_that_was_set_last(
    node: SecuredNode, admin: Commands, name: str, mechanism: str
) -> None:
    """`,` and `=` are escaped in SCRAM's messages only."""
    topic = f"of-{mechanism}".lower()
    admin("topic", "create", topic, "--if-not-exists")
    admin("acl", "create", "--allow", f"User:{name}", "--producer", "--topic", topic)
    first, second = "p=1,\u00fc", "other secret"

    admin("user", "create", name, "--mechanism", mechanism, "--password-file", "-", given=first)
    assert produced(settings(node, name, first, mechanism), topic) == 0

    admin("user", "password", name, "--password-file", "-", "--iterations", "8192", given=second + "\n")
    assert produced(settings(node, name, second, mechanism), topic) == 0
    assert produced(settings(node, name, first, mechanism), topic) == KafkaError._AUTHENTICATION

    users = json.loads(admin("user", "list", "--output", "json"))
    [mine] = [one for one in users if one["name"] == name]
    assert {"mechanism": mechanism, "iterations": 8192} in mine["mechanisms"]
    admin("user", "delete", name, "--mechanism", mechanism)
    assert produced(settings(node, name, second, mechanism), topic) == KafkaError._AUTHENTICATION


def test_a_generated_password_is_printed_once_and_works_for_both_mechanisms(
    node: SecuredNode, admin: Commands
) -> None:
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    created = json.loads(admin("user", "create", "robot", "--generate", "--output", "json", *both))

    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        robot = admin.of(node.properties("robot", created["password"], mechanism=mechanism))
        assert robot("topic", "list") == ""
    assert created["password"] not in admin("user", "list", "--output", "json")
    assert "has SCRAM-SHA-256 and SCRAM-SHA-512 already" in admin(
        "user", "create", "robot", "--generate", *both, code=1
    )
    assert admin("user", "create", "robot", "--generate", "--if-not-exists") == "robot already exists\n"
    assert admin("user", "delete", "robot") == "deleted robot\n"
    assert "There is no SCRAM user robot" in admin("user", "delete", "robot", code=1)
    assert admin("user", "delete", "robot", "--if-exists") == "robot does not exist\n"


def test_a_dry_run_creates_no_user_and_reads_no_password(admin: Commands) -> None:
    assert admin("user", "create", "ghost", "--dry-run") == "would create ghost with SCRAM-SHA-512\n"
    assert "ghost" not in admin("user", "list")


class OnTerminal:
    """A command that runs at a terminal of its own, and what it shows there."""

    def __init__(self, *words: str) -> None:
        run = [sys.executable, "-m", "ottla", *words]
        program = f"import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn({run!r})))"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "TERM": "dumb"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.shown = ""

    def answer(self, question: str, text: str) -> None:
        """Wait for a question and type the answer."""
        assert self.process.stdout is not None and self.process.stdin is not None
        while not self.shown.endswith(question):
            read = os.read(self.process.stdout.fileno(), 1).decode(errors="replace")
            assert read, self.shown
            self.shown += read
        self.process.stdin.write(f"{text}\n".encode())
        self.process.stdin.flush()

    def end(self) -> int:
        """Wait for the end of the command and return its exit code."""
        assert self.process.stdout is not None and self.process.stdin is not None
        self.shown += self.process.stdout.read().decode(errors="replace")
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(TIMEOUT_S)


def test_a_password_is_asked_for_twice_and_never_shown(node: SecuredNode, admin: Commands) -> None:
    config = ("--command-config", str(admin.config))
    terminal = OnTerminal("user", "create", "typist", *config)
    terminal.answer("New password of typist: ", "typed-secret")
    terminal.answer("Once more: ", "typed-secret")

    assert terminal.end() == 0, terminal.shown
    assert "created typist with SCRAM-SHA-512" in terminal.shown and "typed-secret" not in terminal.shown
    assert admin.of(node.properties("typist", "typed-secret"))("topic", "list") == ""
    admin("user", "delete", "typist")


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 1), ("y", 0, 0)])
def test_acls_are_shown_and_deleted_if_the_user_agrees(
    admin: Commands, answer: str, code: int, left: int
) -> None:
    admin("acl", "create", "--allow", "User:carl", "--operation", "read", "--topic", "shown")
    terminal = OnTerminal("acl", "delete", "--principal", "User:carl", "--command-config", str(admin.config))
    terminal.answer("Delete them? [y/N]: ", answer)

    assert terminal.end() == code, terminal.shown
    assert re.search(
        r"would delete 1 ACL\s+principal .*\s+User:carl +allow +read +topic +shown", terminal.shown
    )
    found = json.loads(admin("acl", "list", "--principal", "User:carl", "--output", "json"))
    assert len(found) == left


def test_the_rights_of_a_producer_and_a_consumer_are_what_these_clients_need(
    node: SecuredNode, admin: Commands
) -> None:
    tag = uuid4().hex[:8]
    pat_name, con_name, topic, group = f"pat-{tag}", f"con-{tag}", f"{tag}-orders", f"team-{tag}-1"
    for name in (pat_name, con_name):
        admin("user", "create", name, "--password-file", "-", given="secret")
    pat, con = settings(node, pat_name, "secret"), settings(node, con_name, "secret")
    admin("topic", "create", topic)
    assert produced(pat, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    rights = ("--producer", "--topic", topic, "--transactional-id", f"{pat_name}-1")
    admin("acl", "create", "--allow", f"User:{pat_name}", *rights)
    assert produced(pat, topic) == 0
    transactional = Producer({**pat, "transactional.id": f"{pat_name}-1"})
    transactional.init_transactions(TIMEOUT_S)
    transactional.begin_transaction()
    transactional.produce(topic, b"in a transaction")
    transactional.commit_transaction(TIMEOUT_S)

    prefixed = ("--topic", tag, "--group", f"team-{tag}-", "--pattern-type", "prefixed")
    admin("acl", "create", "--allow", f"User:{con_name}", "--consumer", *prefixed)
    consumer = Consumer({**con, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = consumer.poll(TIMEOUT_S)
    assert read is not None and read.error() is None and read.value() == b"x"
    consumer.close()

    own = admin.of(node.properties(con_name, "secret"))
    assert own("consume", topic, "--until-end", "-n", "1") == "x\n"
    assert own("topic", "list").split()[3:] == [topic, "1", "1"]
    allow = ("acl", "create", "--allow", f"User:{con_name}", "--operation")
    message = own(*allow, "all", "--topic", "*", code=1)
    assert "needs ALTER permission on the cluster" in message
    assert f"`ottla {' '.join(allow)} alter --cluster`" in message
    assert "needs ALTER permission" in own("user", "create", "x", "--generate", code=1)
    assert "needs DESCRIBE_CONFIGS permission" in own("quota", "list", code=1)
    assert "needs ALTER_CONFIGS permission" in own("quota", "delete", "--user", con_name, code=1)


@pytest.mark.parametrize("more", [(), ("--no-idempotent",)], ids=["idempotent", "plain"])
def test_a_user_with_write_access_alone_produces_without_an_error(
    node: SecuredNode, admin: Commands, more: tuple[str, ...]
) -> None:
    admin("user", "create", "writer", "--if-not-exists", "--password-file", "-", given="writer-secret")
    admin("topic", "create", "written", "--if-not-exists")
    admin("acl", "create", "--allow", "User:writer", "--operation", "write", "--topic", "written")
    writer = admin.of(node.properties("writer", "writer-secret"))
    before = node.embedded.call(lambda broker: broker.base.audit.counts()["denied"])

    writer("produce", "written", *more, given="one\n")

    assert node.embedded.call(lambda broker: broker.base.audit.counts()["denied"]) == before
    admin("acl", "delete", "--principal", "User:writer", "--yes")
    admin("topic", "delete", "written")
    admin("user", "delete", "writer")


def test_acl_check_predicts_the_results_of_a_client(node: SecuredNode, admin: Commands) -> None:
    prefix = f"watch-{uuid4().hex[:8]}"
    name, topic = f"eve-{prefix}", f"{prefix}-1"
    admin("user", "create", name, "--password-file", "-", given="secret")
    admin("topic", "create", topic)
    eve = settings(node, name, "secret")
    question = ("acl", "check", "--principal", f"User:{name}", "--operation", "write", "--topic", topic)
    local = ("--host", "127.0.0.1")

    assert admin.run(*question, *local).code == 1
    assert produced(eve, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    prefixed = ("--topic", prefix, "--pattern-type", "prefixed")
    admin("acl", "create", "--allow", "User:*", "--operation", "all", *prefixed)
    assert f"allow User:* all on topic names that begin with {prefix} from *" in admin(*question, *local)
    assert produced(eve, topic) == 0

    admin("acl", "create", "--deny", f"User:{name}", "--operation", "write", "--topic", topic, *local)
    ran = admin.run(*question, *local)
    assert ran.code == 1 and f"deny User:{name} write on topic {topic} from 127.0.0.1" in ran.out
    assert admin.run(*question, "--host", "10.1.1.1").code == 0
    assert produced(eve, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED

    # `localhost` is a name that the node does not advertise.
    elsewhere = node.address("TLS").replace("127.0.0.1", "localhost")
    ran = admin.of(node.properties(any_name=True)).run(
        "acl", "check", "--principal", "User:admin", "--cluster", "--bootstrap", elsewhere
    )
    assert ran.out.count("a super user (super.users)") == 7 and not ran.err


def test_a_deletion_of_a_name_spares_its_prefixes_unless_they_are_meant(admin: Commands) -> None:
    of = ("--allow", "User:dora", "--operation", "read", "--topic", "pre")
    admin("acl", "create", *of)
    admin("acl", "create", *of, "--pattern-type", "prefixed")
    named = ("--principal", "User:dora", "--topic", "pre")

    assert "would delete 1 ACL\n" in admin("acl", "delete", *named, "--dry-run")
    assert admin("acl", "delete", *named, "--yes") == "deleted 1 ACL\n"
    [left] = json.loads(admin("acl", "list", *named, "--output", "json"))
    assert left["pattern_type"] == "PREFIXED"
    longer = ("--topic", "prefix-1", "--pattern-type", "match", "--principal", "User:dora")
    assert json.loads(admin("acl", "list", *longer, "--output", "json")) == [left]
    assert admin("acl", "delete", "--principal", "User:dora", "--yes") == "deleted 1 ACL\n"


@pytest.mark.parametrize("words", [(), ("--pattern-type", "prefixed")])
def test_acl_delete_without_a_filter_is_rejected(admin: Commands, words: tuple[str, ...]) -> None:
    assert "Select the ACLs with" in admin("acl", "delete", "--yes", *words, code=2)


def test_many_acls_are_created_and_deleted_at_once(admin: Commands) -> None:
    topics = [word for number in range(AT_ONCE // 8 + 1) for word in ("--topic", f"many-{number}")]
    eight = ("--operation", "read,write,create,delete,alter,describe,describe_configs,alter_configs")
    count = len(topics) // 2 * 8
    assert count > AT_ONCE

    assert admin("acl", "create", "--allow", "User:many", *eight, *topics).startswith(
        f"created {count} ACLs\n"
    )
    assert len(json.loads(admin("acl", "list", "--principal", "User:many", "--output", "json"))) == count
    assert admin("acl", "delete", "--principal", "User:many", "--yes") == f"deleted {count} ACLs\n"


def test_quotas_are_set_listed_and_deleted_and_the_effective_one_is_shown(admin: Commands) -> None:
    assert (
        admin(
            "quota", "set", "--user-default", "producer_byte_rate=1000", "request_percentage=50", "--dry-run"
        )
        == "would change producer_byte_rate of default user to 1000\n"
        "would change request_percentage of default user to 50\n"
    )
    assert admin("quota", "list") == ""
    admin("quota", "set", "--user-default", "producer_byte_rate=1000", "request_percentage=50")
    admin("quota", "set", "--user", "anna", "--client-id", "app", "producer_byte_rate=2000")
    admin("quota", "set", "--ip", "10.0.0.1", "connection_creation_rate=5")

    assert [line.split() for line in admin("quota", "list").splitlines()[1:]] == [
        ["<default>", "-", "-", "producer_byte_rate", "1000"],
        ["<default>", "-", "-", "request_percentage", "50"],
        ["anna", "app", "-", "producer_byte_rate", "2000"],
        ["-", "-", "10.0.0.1", "connection_creation_rate", "5"],
    ]
    client = ("--effective", "--user", "anna", "--client-id", "app", "--output", "json")
    quotas = {
        one["name"]: (one["value"], one["entity"]) for one in json.loads(admin("quota", "list", *client))
    }
    assert quotas["producer_byte_rate"] == (2000, {"client-id": "app", "user": "anna"})
    assert quotas["request_percentage"] == (50, {"user": None})
    assert quotas["consumer_byte_rate"] == (None, None)

    assert "is not a valid IP address" in admin(
        "quota", "set", "--ip", "h", "connection_creation_rate=5", code=1
    )
    assert "addresses have connection_creation_rate" in admin("quota", "set", "--user", "a", "rate=5", code=1)
    admin("quota", "delete", "--user-default", "request_percentage")
    assert "has no quota request_percentage" in admin(
        "quota", "delete", "--user-default", "request_percentage", code=1
    )
    for words in (["--user-default"], ["--user", "anna", "--client-id", "app"], ["--ip", "10.0.0.1"]):
        admin("quota", "delete", *words)
    assert admin("quota", "list") == ""

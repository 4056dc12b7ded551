"""Every command of `ottla` over a listener with TLS and logins, and its error if it cannot connect."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from ottla.node.cli.app import app
from tests.integration.secured_node import Commands, SecuredNode, secured_node

pytestmark = pytest.mark.slow
TOPIC, GROUP = "orders", "team"

# The arguments of each command that takes --command-config, its exit code, and words of its output.
COMMANDS: Final[Mapping[str, tuple[Sequence[str], int, str]]] = {
    "topic create": ((TOPIC,), 0, f"created {TOPIC}"),
    "produce": ((TOPIC,), 0, ""),
    "consume": ((TOPIC, "--group", GROUP, "--until-end"), 0, "hello"),
    "topic list": ((), 0, TOPIC),
    "topic describe": ((TOPIC,), 0, TOPIC),
    "topic trim": ((TOPIC, "--before-offset", "0"), 0, f"{TOPIC}-0 begins now at offset 0"),
    "topic alter": ((TOPIC, "-p", "2"), 0, "now has 2 partitions"),
    "topic reassign": ((TOPIC,), 0, ""),
    "topic elect": ((TOPIC,), 0, ""),
    "topic config": ((TOPIC, "--set", "retention.ms=1000000000"), 0, "changed retention.ms"),
    "group list": ((), 0, GROUP),
    "group describe": ((GROUP,), 0, TOPIC),
    "group members": ((GROUP,), 0, ""),
    "group lag": ((GROUP,), 0, TOPIC),
    "group reset": ((GROUP, "--to-earliest", "--topic", TOPIC), 0, ""),
    "group config": ((GROUP,), 0, ""),
    "group delete-offsets": ((GROUP, "--topic", TOPIC), 0, ""),
    "group delete": ((GROUP,), 0, ""),
    "txn list": ((), 0, ""),
    "txn describe": (("no-such-id",), 1, "does not exist"),
    "txn producers": ((TOPIC,), 0, ""),
    "txn abort": (("no-such-id",), 1, "no-such-id"),
    "txn find-hanging": (("--all",), 0, ""),
    "cluster balance": ((), 0, "nothing moves"),
    "quorum status": ((), 0, "leader"),
    "quorum add": (("7",), 1, "7"),
    "quorum remove": (("7",), 1, "7"),
    "broker list": ((), 0, "127.0.0.1"),
    "cluster health": ((), 0, "healthy"),
    "cluster info": ((), 0, "controller 0"),
    "broker config": (("0", "--all"), 0, "log.retention.ms"),
    "broker log-dirs": ((), 0, "total bytes"),
    "broker drain": (("0",), 1, "it has no other replica"),
    "broker undrain": (("0",), 0, "moved back"),
    "broker throttle": ((), 0, "nothing is throttled"),
    "broker decommission": (("7",), 1, "There is no broker 7"),
    "client-metrics list": ((), 0, ""),
    "client-metrics config": (("some", "--set", "metrics=org.apache.kafka"), 0, "changed metrics"),
    "client-metrics delete": (("some",), 0, "deleted some"),
    "user create": (("zoe", "--generate"), 0, "created zoe"),
    "user list": ((), 0, "zoe"),
    "user password": (("zoe", "--generate"), 0, "changed the password of zoe"),
    "user delete": (("zoe",), 0, "deleted zoe"),
    "acl create": (("--allow", "User:zoe", "--producer", "--topic", TOPIC), 0, "created 3 ACLs"),
    "acl list": ((), 0, "User:zoe"),
    "acl check": (("--principal", "User:zoe", "--topic", TOPIC), 0, "allow User:zoe write"),
    "acl delete": (("--principal", "User:zoe", "--yes"), 0, "deleted 3 ACLs"),
    "quota set": (("--user", "zoe", "producer_byte_rate=1048576"), 0, "changed producer_byte_rate"),
    "quota list": ((), 0, "zoe"),
    "quota delete": (("--user", "zoe"), 0, "deleted producer_byte_rate"),
    "doctor": ((), 0, ""),
    "rest": (("GET", "/v1/users"), 0, "admin"),
    "perf produce": ((TOPIC, "-n", "10"), 0, "10 records sent"),
    "perf consume": ((TOPIC,), 0, "data.consumed.in.nMsg"),
    "perf latency": ((TOPIC, "-n", "2"), 0, "Percentiles: 50th"),
    "topic copy": ((TOPIC, f"{TOPIC}-copy", "--create-topic"), 0, "next offset"),
    "topic delete": ((TOPIC,), 0, f"deleted {TOPIC}"),
}
NOT_WALKED: Final = {"hand-over"}  # it signals a process on its own machine


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredNode]:
    yield from secured_node(tmp_path_factory.mktemp("secured"))


@pytest.fixture
def admin(node: SecuredNode, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Commands:
    """Return a runner of commands as the administrator."""
    return Commands(node.properties(), monkeypatch, capfd)


def commands_of_clients(command: Any, name: str = "") -> Iterator[str]:
    """Yield the names of all commands that take --command-config."""
    if hasattr(command, "commands"):
        for word, one in command.commands.items():
            yield from commands_of_clients(one, f"{name} {word}".strip())
    elif any("--command-config" in one.opts for one in command.params):
        yield name


def is_one_document(text: str) -> bool:
    """Return True if this is one line of JSON, which all commands print for programs."""
    try:
        return isinstance(json.loads(text), dict | list) and text.count("\n") == 1
    except ValueError:
        return False


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_every_command_works_over_tls_with_a_login(
    node: SecuredNode, admin: Commands, mechanism: str
) -> None:
    there = set(commands_of_clients(typer.main.get_command(app)))
    assert there == COMMANDS.keys() | NOT_WALKED, "give a new command its arguments here"
    logged_in = admin.of(node.properties(mechanism=mechanism))
    wrong: dict[str, Any] = {}

    for name, (arguments, code, words) in COMMANDS.items():
        more = ("--output", "json") if mechanism == "PLAIN" else ()
        ran = logged_in.run(*name.split(), *arguments, *more, given="hello\n", timeout_s=10)
        if more:
            is_right = is_one_document(ran.out) or (code != 0 and not ran.out)
            is_right = is_right and (ran.code == code or name == "doctor") and "warning" not in ran.err
        elif name == "doctor":  # it may find problems of this machine, but none of the connection
            is_right = "does not serve this client" not in ran.out and not ran.err
        else:
            is_right = ran.code == code and words in ran.out + ran.err and "warning" not in ran.err
        if not is_right:
            wrong[name] = ran

    assert not wrong


def test_the_file_may_be_named_by_an_environment_variable(
    admin: Commands, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from ottla.node.cli.app import main

    monkeypatch.setenv("OTTLA_CONFIG", str(admin.config))
    monkeypatch.setattr("sys.argv", ["ottla", "user", "list"])

    assert main() == 0 and "admin" in capfd.readouterr().out


@pytest.fixture(autouse=True)
def rest(node: SecuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_REST", node.rest)


def test_the_rest_api_rejects_a_wrong_password(node: SecuredNode, admin: Commands) -> None:
    ran = admin.of(node.properties(password="guessed")).run("rest", "GET", "/v1/users")

    assert ran.code == 1 and "(HTTP 401) The login comes from sasl.*" in ran.err


def test_the_rest_api_acts_for_the_user_of_a_profile(
    node: SecuredNode,
    admin: Commands,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    from ottla.node.cli.app import main

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("OTTLA_REST")
    path, users = "/v1/users/rest-user", ("rest", "GET", "/v1/users")
    made = ("profile", "create", "admin", "--from", str(admin.config), "--rest", node.rest, "--use")
    changed = ("rest", "PUT", path, "--data", '{"password": "secret"}')
    for words in (made, changed, users, ("rest", "DELETE", path)):
        monkeypatch.setattr("sys.argv", ["ottla", *words])
        assert main() == 0
    monkeypatch.setattr("sys.argv", ["ottla", *users, "--url", node.rest])
    without_profile = main()

    printed = capfd.readouterr()
    assert "rest-user" in printed.out and without_profile == 1
    assert "its certificate is not trusted" in printed.err and "warning" not in printed.err


def test_a_profile_logs_in(
    admin: Commands, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from ottla.node.cli.app import main

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for words in (("profile", "create", "admin", "--from", str(admin.config), "--use"), ("user", "list")):
        monkeypatch.setattr("sys.argv", ["ottla", *words])
        assert main() == 0

    assert "admin" in capfd.readouterr().out.splitlines()[-1]


# A mistake of a client, and words of the one sentence that is printed.
REFUSED: Final[Mapping[str, tuple[Mapping[str, str], Sequence[str]]]] = {
    "a wrong password": (
        {"password": "guessed"},
        (
            "refused the login of the user admin",
            "Check the user and the password, or the token: sasl.jaas.config",
        ),
    ),
    "a user that does not exist": (
        {"user": "nobody"},
        (
            "refused the login of the user nobody",
            "Check the user and the password, or the token: sasl.jaas.config",
        ),
    ),
    "a wrong password with PLAIN": (
        {"password": "guessed", "mechanism": "PLAIN"},
        (
            "refused the login of the user admin",
            "Check the user and the password, or the token: sasl.jaas.config",
        ),
    ),
    "an authority that is not trusted": (
        {"authority": "untrusted.pem"},
        ("its certificate is not trusted", "set ssl.truststore.location"),
    ),
    "a certificate that has expired": (
        {"listener": "EXPIRED", "protocol": "SSL"},
        ("its certificate has expired", "must be renewed, or the clock"),
    ),
    "no TLS where there is some": (
        {"protocol": "PLAINTEXT"},
        ("TLS", "set security.protocol to SSL or SASL_SSL"),
    ),
    "a login without TLS where there is some": (
        {"protocol": "SASL_PLAINTEXT"},
        ("TLS", "set security.protocol to SSL or SASL_SSL"),
    ),
    "TLS where there is none": (
        {"listener": "PLAINTEXT", "protocol": "SSL"},
        ("during the TLS handshake", "set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
    ),
    "TLS and a login where there is no TLS": (
        {"listener": "OPEN"},
        ("during the TLS handshake", "set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
    ),
    "no login where there must be one": (
        {"protocol": "SSL"},
        ("to clients that do not log in", "security.protocol, sasl.mechanism, sasl.jaas.config"),
    ),
    "a login where there are none": (
        {"listener": "SSL"},
        ("has no SASL", "set security.protocol to PLAINTEXT or SSL"),
    ),
    "a mechanism that is not offered": (
        {"listener": "OPEN", "protocol": "SASL_PLAINTEXT", "mechanism": "PLAIN"},
        ("does not offer PLAIN, but SCRAM-SHA-512, SCRAM-SHA-256", "set sasl.mechanism"),
    ),
}
KINDS: Final = (
    ("topic", "list"),
    ("produce", TOPIC),
    ("consume", TOPIC, "-e"),
    ("consume", TOPIC, "-g", GROUP),
    ("group", "lag", GROUP),
    ("txn", "list"),
    ("broker", "list"),
    ("acl", "list"),
)


@pytest.mark.parametrize("problem", REFUSED)
def test_a_rejected_client_gets_one_sentence_with_the_remedy(
    node: SecuredNode, admin: Commands, problem: str
) -> None:
    client, words = REFUSED[problem]
    refused = admin.of(node.properties(**client))
    wrong = []

    for command in KINDS:
        ran = refused.run(*command, given="hello\n", timeout_s=10)
        is_line = ran.err.startswith("ottla: ") and ran.err.count("\n") == 1 and not ran.out
        if ran.code != 1 or not is_line or not all(one in ran.err for one in words):
            wrong.append((command, ran))
    diagnosis = refused.run("doctor", timeout_s=5)

    assert not wrong
    assert diagnosis.code == 1 and "1 problem" in diagnosis.out and not diagnosis.err
    assert "guessed" not in "".join(diagnosis[1:])


def test_a_missing_file_of_settings_is_named(admin: Commands, tmp_path: Path) -> None:
    ran = admin.of(tmp_path / "none.properties").run("topic", "list")

    assert ran.code == 2 and ran.err.endswith("none.properties cannot be read: No such file or directory.\n")

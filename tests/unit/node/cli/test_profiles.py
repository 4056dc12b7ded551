"""Profiles: named connections to clusters, and the precedence of options, environment and profiles."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ottla.node.cli import profiles
from ottla.node.cli.app import app
from ottla.node.cli.command_config import CommandConfig, connection_of
from ottla.node.cli.failure import CommandError
from ottla.node.cli.profile_option import complete_profiles
from ottla.node.cli.profiles import Profiles, is_secret, profiles_path, read_profiles, write_profiles
from tests.unit.node.cli.conftest import Command

JAAS = 'a.ScramLoginModule required username="anna" password="apple-pie";'
PRODUCTION = {
    "bootstrap.servers": "prod:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": JAAS,
}


@pytest.fixture
def client_file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text("\n".join(f"{name}={value}" for name, value in PRODUCTION.items()) + "\nacks=all\n")
    return path


def test_a_profile_is_created_selected_shown_and_deleted(ottla: Command) -> None:
    made = ottla("profile", "create", "local", "--bootstrap", "localhost:19092")
    none = ottla("profile", "current", code=1)
    used = ottla("profile", "use", "local")
    listed = ottla.as_json("profile", "list")
    current = ottla("profile", "current")
    changed = ottla("profile", "set", "local", "-b", "localhost:29092")
    shown = ottla.as_json("profile", "show")
    gone = ottla("profile", "delete", "local")

    assert made == "created local; `ottla profile use local` selects it for all commands\n"
    assert none == "ottla: No profile is in use.\n" and (used, current) == ("local is in use\n", "local\n")
    assert listed == [
        {
            "profile": "local",
            "current": True,
            "bootstrap": "localhost:19092",
            "security": "PLAINTEXT",
            "rest": None,
        }
    ]
    assert changed == "changed bootstrap.servers of local\n"
    assert shown["settings"] == {"bootstrap.servers": "localhost:29092"}
    assert gone == "deleted local; no profile is in use any more\n"
    assert read_profiles() == Profiles(None, {})


def test_secrets_are_taken_from_a_file_and_never_shown(
    ottla: Command, client_file: Path, tmp_path: Path
) -> None:
    ottla("profile", "create", "prod", "--from", str(client_file), "ssl.truststore.location=ca.pem", "--use")

    shown = ottla("profile", "show") + str(ottla.as_json("profile", "show", "prod"))

    assert "(hidden)" in shown and "apple-pie" not in shown
    assert read_profiles().settings["prod"] == {
        **PRODUCTION,
        "ssl.truststore.location": str(Path("ca.pem").absolute()),
    }
    mode = profiles_path().stat().st_mode
    assert stat.S_IMODE(mode) == 0o600 and stat.S_IMODE(profiles_path().parent.stat().st_mode) == 0o700
    assert [one.name for one in profiles_path().parent.iterdir()] == ["profiles.json"]


def test_a_secret_among_the_arguments_is_rejected_and_read_from_standard_input(
    ottla: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    typed = tmp_path / "typed"
    typed.write_text(f"{JAAS}\n")
    words = ("profile", "create", "p", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN")

    message = ottla(*words, f"sasl.jaas.config={JAAS}", code=2)
    with typed.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        wrong = ottla(*words, "sasl.jaas.config", code=2)
    with typed.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        ottla(*words, "sasl.mechanism=SCRAM-SHA-512", "sasl.jaas.config")

    assert "is a secret, which others on this machine could see" in message and "apple-pie" not in message
    assert "Profile p: sasl.jaas.config" in wrong, "it is for another mechanism"
    assert read_profiles().settings["p"]["sasl.jaas.config"] == JAAS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "a/b"), "cannot be the name of a profile"),
        (("create", "p", "acks=all"), "'acks' is not a setting of a profile"),
        (("create", "p", "security.protocol=TLS"), "Profile p: security.protocol is 'TLS'"),
        (("create", "p", "-b", "http://x:1"), "is a URL"),
        (("create", "p", "sasl.username=x"), "is librdkafka's name"),
        (("create", "p", "--rest", "localhost:8082"), "'localhost:8082' is not the URL of a REST API"),
        (
            ("create", "p", "rest.url=https://x", "sasl.mechanism=PLAIN"),
            "Profile p: sasl.jaas.config is not set",
        ),
        (("set", "q", "-b", "x:1"), "There is no profile 'q'"),
        (("set", "q"), "Name a setting"),
        (("use",), "Give either the name of a profile or --none"),
        (("use", "q"), "There is no profile 'q'"),
        (("delete", "q"), "There is no profile 'q'"),
    ],
)
def test_an_invalid_profile_is_rejected(ottla: Command, words: tuple[str, ...], message: str) -> None:
    assert message in ottla("profile", *words, code=2)
    assert not profiles_path().exists()


def test_a_profile_is_not_overwritten(ottla: Command) -> None:
    ottla("profile", "create", "p", "-b", "a:1")

    assert "Profile p exists already" in ottla("profile", "create", "p", "-b", "b:1", code=1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"current": "p", "profiles": {}}',
        b'{"current": null, "profiles": {"p": {"a": 1}}}',
        b'{"current": [], "profiles": {}}',
        b'{"current": null, "profiles": {"../p": {}}}',
        b" " * ((1 << 20) + 1),
    ],
)
def test_a_file_of_another_format_is_reported(ottla: Command, content: bytes) -> None:
    profiles_path().parent.mkdir(parents=True)
    profiles_path().write_bytes(content)
    profiles_path().chmod(0o600)

    assert "profiles.json cannot be read" in ottla("profile", "list", code=2)
    assert complete_profiles("") == []


def test_a_file_that_others_can_read_is_warned_of(ottla: Command, capfd: pytest.CaptureFixture[str]) -> None:
    write_profiles(Profiles(None, {"p": {}}))
    profiles_path().chmod(0o644)

    read_profiles()

    assert "warning: others can read the profiles" in capfd.readouterr().err


def test_a_link_to_the_file_stays_a_link(ottla: Command, tmp_path: Path) -> None:
    profiles_path().parent.mkdir(parents=True)
    profiles_path().symlink_to(tmp_path / "dotfiles.json")

    write_profiles(Profiles(None, {"p": {}}))

    assert profiles_path().is_symlink() and read_profiles().settings == {"p": {}}


def test_names_are_completed(ottla: Command) -> None:
    write_profiles(Profiles(None, {"prod": {}, "preprod": {}, "local": {}}))

    assert complete_profiles("pr") == ["preprod", "prod"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sasl.jaas.config", True),
        ("ssl.key.password", True),
        ("ssl.keystore.key", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("ssl.keystore.location", False),
        ("bootstrap.servers", False),
    ],
)
def test_keys_passwords_and_logins_are_secrets_and_other_settings_are_not(name: str, expected: bool) -> None:
    assert is_secret(name) is expected


# ---- precedence ---------------------------------------------------------------------------------


def connections(ottla: Command, monkeypatch: pytest.MonkeyPatch, *words: str) -> CommandConfig:
    """Return the connection of a command with these arguments."""
    found: list[CommandConfig] = []

    def note(bootstrap: str | None, command_config: Path | None, timeout: float) -> None:
        found.append(connection_of(bootstrap, command_config))
        raise CommandError("seen")

    monkeypatch.setattr("ottla.node.cli.topic_app.client_of", note)
    monkeypatch.setattr("ottla.node.cli.topic_app.run", lambda command: command())
    ottla("topic", "list", *words, code=1)
    return found[0]


@pytest.fixture
def two_profiles(ottla: Command) -> None:
    write_profiles(Profiles("local", {"local": {"bootstrap.servers": "here:1"}, "prod": PRODUCTION}))


@pytest.mark.parametrize(
    ("words", "variables", "bootstrap", "protocol"),
    [
        ((), {}, "here:1", "PLAINTEXT"),
        ((), {"OTTLA_PROFILE": "prod"}, "prod:9092", "SASL_PLAINTEXT"),
        (("--profile", "local"), {"OTTLA_PROFILE": "prod"}, "here:1", "PLAINTEXT"),
        ((), {"OTTLA_BOOTSTRAP": "there:1"}, "there:1", "PLAINTEXT"),
        ((), {"OTTLA_BOOTSTRAP": "there:1", "OTTLA_PROFILE": "prod"}, "there:1", "SASL_PLAINTEXT"),
        (("--profile", "prod"), {"OTTLA_BOOTSTRAP": "there:1"}, "prod:9092", "SASL_PLAINTEXT"),
        (("--profile", "prod", "-b", "b:1"), {"OTTLA_BOOTSTRAP": "there:1"}, "b:1", "SASL_PLAINTEXT"),
        (("-b", "b:1"), {"OTTLA_PROFILE": "prod"}, "b:1", "SASL_PLAINTEXT"),
    ],
)
@pytest.mark.usefixtures("two_profiles")
def test_options_come_before_the_environment_and_that_before_profiles(
    ottla: Command,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variables: dict[str, str],
    bootstrap: str,
    protocol: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    found = connections(ottla, monkeypatch, *words)

    assert (found.bootstrap, found.security.protocol) == (bootstrap, protocol)


@pytest.mark.usefixtures("ottla")
def test_the_current_profile_sends_its_passwords_to_no_other_address(tmp_path: Path) -> None:
    write_profiles(Profiles("prod", {"prod": PRODUCTION}))
    empty = tmp_path / "empty.properties"
    empty.write_text("")

    assert connection_of(None, None).security.protocol == "SASL_PLAINTEXT"
    assert connection_of("elsewhere:1", None) == CommandConfig(bootstrap="elsewhere:1")
    assert connection_of(None, empty) == CommandConfig()
    assert connection_of(None, None, examines_node=True) == CommandConfig()


@pytest.mark.usefixtures("two_profiles")
def test_a_file_of_settings_replaces_the_security_of_a_profile(
    ottla: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = tmp_path / "plain.properties"
    plain.write_text("security.protocol=PLAINTEXT\n")

    found = connections(ottla, monkeypatch, "--profile", "prod", "--command-config", str(plain))

    assert found == CommandConfig(bootstrap="prod:9092")


@pytest.mark.usefixtures("two_profiles")
def test_a_missing_profile_is_reported(ottla: Command) -> None:
    assert "There is no profile 'x'" in ottla("topic", "list", "--profile", "x", code=2)


@pytest.mark.usefixtures("ottla")
def test_a_file_of_another_user_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    write_profiles(Profiles("prod", {"prod": PRODUCTION}))
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    assert profiles.read_current_profile() is None


def test_every_command_that_connects_takes_a_profile() -> None:
    def commands(command: Any, name: str) -> list[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            return [(name, command)]
        found = [(word, command.get_command(None, word)) for word in command.commands]
        return [one for word, child in found for one in commands(child, f"{name} {word}")]

    for name, command in commands(typer.main.get_command(app), "ottla"):
        options = {option for one in command.params for option in one.opts}
        assert "--profile" in options or "--command-config" not in options, name

"""`--command-config`: the addresses and the security of a command's connections."""

from pathlib import Path

import pytest

from ottla.node.cli.command_config import CommandConfig, read_command_config
from ottla.node.cli.command_options import LOCAL, client_of
from ottla.node.cli.failure import EXIT_USAGE, CommandError, explain
from ottla.node.secure_client.authentication import takes_no_logins
from ottla.node.secure_client.dial_refusals import handshake_cut, without_login


def file(directory: Path, text: str) -> Path:
    path = directory / "client.properties"
    path.write_text(text)
    return path


def test_without_a_file_nothing_is_secured() -> None:
    assert read_command_config(None) == CommandConfig() and CommandConfig().security.protocol == "PLAINTEXT"


def test_a_file_has_addresses_and_security(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(
        tmp_path,
        "bootstrap.servers = a:1,b:2\nsecurity.protocol = SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        'sasl.jaas.config=a.ScramLoginModule required \\\n  username="anna" password="secret";\n',
    )

    found = read_command_config(path)

    assert found.bootstrap == "a:1,b:2" and found.security.protocol == "SASL_SSL"
    assert found.security.login is not None and found.security.login.password == "secret"
    assert "secret" not in repr(found) and not capsys.readouterr().err


def test_settings_without_effect_are_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(tmp_path, "acks=all\nssl.truststore.location=/ca.pem\n")

    read_command_config(path)

    assert capsys.readouterr().err == (
        f"warning: these settings of {path} have no effect here (security.protocol is PLAINTEXT): acks, "
        "ssl.truststore.location\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "security.protocl=SSL",
            "security.protocl is not a security setting of a Kafka client; did you mean",
        ),
        ("security.protocol=SASL_SSL", "sasl.mechanism is not set"),
        ("ssl.ca.location=x", "use ssl.truststore.location"),
        (
            "metadata.broker.list=a:9092",
            "is a name of an older Apache Kafka; use bootstrap.servers.",
        ),
        ("\udcff", "is not UTF-8 text"),
    ],
)
def test_a_file_with_unsupported_settings_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(CommandError) as refused:
        read_command_config(path)

    assert str(path) in str(refused.value) and message in str(refused.value)
    assert refused.value.exit_code == EXIT_USAGE


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"none\.properties cannot be read: No such file"):
        read_command_config(tmp_path / "none.properties")


def test_an_address_of_the_command_line_comes_before_that_of_the_file(tmp_path: Path) -> None:
    path = file(tmp_path, "bootstrap.servers=file:1\n")

    assert client_of("line:2", path, 1.0).bootstrap == [("line", 2)]
    assert client_of(None, path, 1.0).bootstrap == [("file", 1)]
    assert client_of(None, None, 1.0).bootstrap == [("localhost", int(LOCAL.rpartition(":")[2]))]


@pytest.mark.parametrize("error", [takes_no_logins("h:1"), without_login("h:1"), handshake_cut("h:1")])
def test_connection_errors_say_where_the_settings_are(error: Exception) -> None:
    message = explain(error)  # type: ignore[arg-type]

    assert "--command-config" in message and message.endswith(".") and "?." not in message

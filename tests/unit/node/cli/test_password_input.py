"""Passwords come from a terminal, a file or standard input; invalid ones are rejected in a sentence."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.node.cli import password_input
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.password_input import password_in, take_password


class Terminal(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the answers to the questions for a password, one by one."""
    answers: list[str] = []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(password_input.getpass, "getpass", lambda question: answers.pop(0))
    yield answers


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (b"secret", "secret"),
        (b"secret\n", "secret"),
        (b"secret\r\n", "secret"),
        (b"\xef\xbb\xbfsecret\r\n", "secret"),
        (b" with spaces \n", " with spaces "),
        ("p\u00e4sswort".encode(), "p\u00e4sswort"),
        (b"x" * 1024 + b"\n", "x" * 1024),
    ],
)
def test_a_line_is_a_password_without_its_end(content: bytes, password: str) -> None:
    assert password_in(content, "f") == password


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b"one\ntwo\n", "single line"),
        (b"one\n\n", "single line"),
        (b"nul\0", "single line"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 1025, "longer than 1,024 bytes"),
    ],
)
def test_an_invalid_password_is_rejected_without_being_shown(content: bytes, message: str) -> None:
    with pytest.raises(CommandError, match=message) as refused:
        password_in(content, "the file")

    assert refused.value.exit_code == EXIT_USAGE and "xxx" not in str(refused.value)


def test_a_file_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").write_bytes(b"of-file\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"of-input\n")))

    assert take_password("anna", file=str(tmp_path / "p"), generate=False) == "of-file"
    assert take_password("anna", file="-", generate=False) == "of-input"
    with pytest.raises(CommandError, match=r"none cannot be read: No such file"):
        take_password("anna", file=str(tmp_path / "none"), generate=False)


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(CommandError, match="longer than"):
        take_password("anna", file="/dev/zero", generate=False)


def test_generated_passwords_are_long_and_all_different() -> None:
    one, other = (take_password("anna", file=None, generate=True) for _ in range(2))

    assert one != other and len(one) == 32
    with pytest.raises(CommandError, match="not both"):
        take_password("anna", file="-", generate=True)


def test_a_password_is_asked_for_twice_and_again_if_the_two_differ(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += ["secret", "sceret", "secret", "secret"]

    assert take_password("anna", file=None, generate=False) == "secret"
    assert capsys.readouterr().err == "The two passwords differ; try again.\n"

    typed += ["1", "2", "3", "4", "5", "6", "not asked again"]
    with pytest.raises(CommandError, match="same way twice"):
        take_password("anna", file=None, generate=False)
    assert typed == ["not asked again"]


def test_an_empty_password_is_rejected(typed: list[str]) -> None:
    typed += ["", ""]

    with pytest.raises(CommandError, match="it is empty"):
        take_password("anna", file=None, generate=False)


def test_without_a_terminal_no_password_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("secret\n"))

    with pytest.raises(CommandError, match="--password-file FILE"):
        take_password("anna", file=None, generate=False)

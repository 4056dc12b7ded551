"""Completion in shells: the scripts, and the candidates that they request."""

from pathlib import Path

import pytest

from ottla.node.cli.app import main
from ottla.node.cli.failure import CommandError
from ottla.node.cli.shell_completion import with_shell

PLACES = {
    "bash": ".bash_completions/ottla.sh",
    "zsh": ".zfunc/_ottla",
    "fish": ".config/fish/completions/ottla.fish",
}


def ottla(*words: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> int:
    monkeypatch.setattr("sys.argv", ["ottla", *words])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return main()


@pytest.mark.parametrize("shell", PLACES)
def test_the_script_that_is_shown_is_the_one_that_is_installed(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla("--show-completion", shell, monkeypatch=monkeypatch) == 0
    shown = capsys.readouterr().out
    assert ottla("completion", shell, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == shown
    assert (
        ottla("--install-completion", monkeypatch=monkeypatch, HOME=str(tmp_path), SHELL=f"/bin/{shell}") == 0
    )

    assert "_OTTLA_COMPLETE=complete_" in shown
    assert (tmp_path / PLACES[shell]).read_text().strip() == shown.strip()
    assert str(tmp_path / PLACES[shell]) in capsys.readouterr().out


def test_the_command_takes_the_users_own_shell_and_installs_its_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"HOME": str(tmp_path), "SHELL": "/bin/fish"}

    assert ottla("completion", monkeypatch=monkeypatch, **own) == 0
    shown = capsys.readouterr().out
    assert ottla("completion", "--install", monkeypatch=monkeypatch, **own) == 0
    assert (tmp_path / PLACES["fish"]).read_text().strip() == shown.strip()
    capsys.readouterr()
    assert ottla("completion", monkeypatch=monkeypatch, SHELL="/bin/tcsh") == 2
    assert "There is no completion for tcsh" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("ottla topic cr", {"create"}),
        ("ottla pipeline val", {"validate"}),
        ("ottla produce orders --compression ", {"none", "gzip", "snappy", "lz4", "zstd"}),
        ("ottla start --over", {"--override"}),
        ("ottla topic nothing", set()),
        ("ottla user pass", {"password"}),
        ("ottla acl c", {"create", "check"}),
        ("ottla acl list --pattern-type ", {"any", "match", "literal", "prefixed"}),
        ("ottla quota list --eff", {"--effective"}),
    ],
)
def test_commands_options_and_values_are_completed(
    line: str, answers: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"_OTTLA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}

    with pytest.raises(SystemExit) as end:
        ottla(monkeypatch=monkeypatch, **variables)

    assert end.value.code == 0
    assert set(capsys.readouterr().out.split()) == answers


def test_an_option_without_a_name_means_the_users_own_shell() -> None:
    own = {"SHELL": "/usr/bin/fish"}

    assert with_shell(["--show-completion"], own) == ["--show-completion", "fish"]
    assert with_shell(["--show-completion", "zsh"], own) == ["--show-completion", "zsh"]
    assert with_shell(["consume", "--show-completion"], own) == ["consume", "--show-completion"]


@pytest.mark.parametrize("environment", [{}, {"SHELL": "/bin/tcsh"}])
def test_a_shell_without_completion_is_reported_with_those_that_have_one(environment: dict[str, str]) -> None:
    with pytest.raises(CommandError, match=r"name one of bash, zsh, fish\.$"):
        with_shell(["--install-completion"], environment)

"""The command `ottla` in the process of a test, with a home directory of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.node.cli.app import main


class Command:
    """The command `ottla` in this process, with a home directory of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capfd = monkeypatch, capfd

    def __call__(self, *words: str, code: int = 0) -> str:
        self._monkeypatch.setattr("sys.argv", ["ottla", *words])
        ended = main()
        out, err = self._capfd.readouterr()
        assert ended == code, out + err
        return err if code else out

    def as_json(self, *words: str) -> Any:
        return json.loads(self(*words, "--output", "json"))


@pytest.fixture
def ottla(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OTTLA_PROFILE", "OTTLA_BOOTSTRAP", "OTTLA_CONFIG", "OTTLA_REST"):
        monkeypatch.delenv(name, raising=False)
    return Command(monkeypatch, capfd)

"""The sentence that says why a node does not start."""

import errno
import socket
from pathlib import Path

import pytest

from ottla.node.cli import serve
from ottla.node.cli.failure import CommandError
from ottla.node.process import run_node

REFUSED = "Cannot listen on listeners=PLAINTEXT://1.2.3.4:9092: "
REASONS = [
    (
        OSError(errno.EADDRINUSE, "taken"),
        REFUSED + "another process uses that port; choose another port with --port.",
    ),
    (
        PermissionError(errno.EACCES, "denied"),
        REFUSED + "no permission for that port; choose one above 1023.",
    ),
    (
        OSError(errno.EADDRNOTAVAIL, "while attempting to bind"),
        REFUSED + "this machine does not have that address; use one of its own.",
    ),
    (
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        REFUSED + "this machine does not have that address; use one of its own.",
    ),
    (
        PermissionError(errno.EACCES, "Permission denied", "/data"),
        "/data: Permission denied. Choose another data directory with --data.",
    ),
]


@pytest.mark.parametrize(("fault", "sentence"), REASONS)
def test_errors_of_the_system_are_reported_with_advice(
    fault: OSError, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(run_node, "run", fail)
    monkeypatch.setattr(serve.log_output, "begin", lambda *_: None)
    listeners = "listeners=PLAINTEXT://1.2.3.4:9092"

    with pytest.raises(CommandError) as refused:
        serve.start(None, port=None, data=tmp_path, log_format=None, overrides=[listeners])

    assert str(refused.value) == sentence


def test_control_characters_in_the_name_of_a_setting_are_shown_as_escapes(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as refused:
        serve.start(None, port=None, data=tmp_path, log_format=None, overrides=["x\x1b[31m=1"])

    assert str(refused.value) == r"Unknown setting x\x1b[31m."

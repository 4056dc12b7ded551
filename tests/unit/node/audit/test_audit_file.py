"""The file of the audit log: rotation, torn lines, full disks."""

import os
import stat
from pathlib import Path

import pytest

from ottla.node.audit.audit_file import AuditFile


def opened(folder: Path, *, max_bytes: int = 100, max_files: int = 3) -> AuditFile:
    file = AuditFile(folder / "audit.log", max_bytes=max_bytes, max_files=max_files)
    file.open()
    return file


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def lines(first: int, last: int) -> list[bytes]:
    return [b"%09d\n" % number for number in range(first, last)]


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b"old\n")
    (tmp_path / "audit.log").chmod(0o644)

    file = opened(tmp_path)
    file.write([b"new\n"])

    assert contents(tmp_path) == {"audit.log": b"old\nnew\n"}
    assert stat.S_IMODE((tmp_path / "audit.log").stat().st_mode) == 0o600


def test_a_full_file_is_rotated_and_the_oldest_one_is_deleted(tmp_path: Path) -> None:
    file = opened(tmp_path)

    assert file.write(lines(0, 25)) == 25
    assert file.write(lines(25, 35)) == 10
    found = contents(tmp_path)
    assert found == {
        "audit.log": b"".join(lines(30, 35)),
        "audit.log.1": b"".join(lines(20, 30)),
        "audit.log.2": b"".join(lines(10, 20)),
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_single_file_that_is_full_is_emptied(tmp_path: Path) -> None:
    file = opened(tmp_path, max_files=1)
    file.write(lines(0, 12))

    assert contents(tmp_path) == {"audit.log": b"".join(lines(10, 12))}


def test_a_line_longer_than_a_file_is_written_alone(tmp_path: Path) -> None:
    file = opened(tmp_path, max_bytes=5)

    assert file.write([b"x" * 50 + b"\n", b"y\n"]) == 2
    assert contents(tmp_path) == {"audit.log": b"y\n", "audit.log.1": b"x" * 50 + b"\n"}


def test_a_file_that_was_moved_or_removed_is_created_again(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.write([b"one\n"])
    (tmp_path / "audit.log").rename(tmp_path / "kept")
    file.write([b"two\n"])
    (tmp_path / "audit.log").unlink()
    file.write([b"three\n"])

    assert contents(tmp_path) == {"audit.log": b"three\n", "kept": b"one\n"}


def test_another_node_does_not_write_the_same_file(tmp_path: Path) -> None:
    opened(tmp_path)

    with pytest.raises(OSError, match="another node writes"):
        opened(tmp_path)


def test_a_named_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.log")
    reader = os.open(tmp_path / "audit.log", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        opened(tmp_path)
    os.close(reader)


def test_a_line_torn_by_a_crash_is_ended_before_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(b'{"kind":"den')
    opened(tmp_path).write([b"next\n"])

    assert contents(tmp_path) == {"audit.log": b'{"kind":"den\nnext\n'}


def test_a_full_disk_leaves_no_half_written_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, really = opened(tmp_path), os.write
    file.write([b"before\n"])
    left = 3

    def write(descriptor: int, content: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(28, "No space left on device")
        count = really(descriptor, bytes(content[:left]))
        left -= count
        return count

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        file.write([b"lost\n"])
    assert contents(tmp_path) == {"audit.log": b"before\n"}

    monkeypatch.undo()
    assert file.write([b"after\n"]) == 1
    assert contents(tmp_path) == {"audit.log": b"before\nafter\n"}

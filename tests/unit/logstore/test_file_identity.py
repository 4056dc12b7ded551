"""The identity that distinguishes a file from its copies."""

import os
import shutil
from pathlib import Path

import pytest

from ottla.logstore import file_identity
from ottla.logstore.disk import Disk, MemoryDisk, OsDisk
from ottla.logstore.file_identity import FileIdentity, identity_of_text


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (FileIdentity(1, 50), FileIdentity(1, 50), True),
        (FileIdentity(1, 50), FileIdentity(1, 60), False),  # the inode of a removed file was reused
        (FileIdentity(1, 50), FileIdentity(2, 50), True),  # a file system that renumbers its inodes
        (FileIdentity(1, 50), FileIdentity(1, 0), True),  # a kernel without birth times
        (FileIdentity(1, 0), FileIdentity(2, 0), False),
        (FileIdentity(1, 0), FileIdentity(2, 60), False),
    ],
)
def test_the_birth_time_decides_if_both_are_known_otherwise_the_inode(
    one: FileIdentity, other: FileIdentity, is_same: bool
) -> None:
    assert one.is_same(other) == other.is_same(one) == is_same


def test_an_identity_is_parsed_as_it_was_written() -> None:
    identity = FileIdentity(10002874, 1795790481615385516)

    assert identity_of_text(identity.as_text()) == identity
    for damaged in ("", "1", "1:2:3", "1:", ":1", "-1:2", "1:x", "1:\u0662"):
        with pytest.raises(ValueError, match="does not identify a file"):
            identity_of_text(damaged)


def write(disk: Disk, path: Path) -> None:
    """Write a file that contains its identity, with a later birth time than the existing one's."""
    before = disk.identity_of(path) if disk.exists(path) else None
    while True:
        disk.write_file_that_names_itself(path, lambda own: own.as_text().encode())
        if before is None or not before.is_same(disk.identity_of(path)):
            return


def copy(source: Path, target: Path) -> None:
    """Copy a file; the copy has a later birth time."""
    made, disk = OsDisk().identity_of(source), OsDisk()
    while not target.exists() or made.is_same(disk.identity_of(target)):
        target.unlink(missing_ok=True)
        shutil.copy2(source, target)


def named_in(disk: Disk, path: Path) -> FileIdentity:
    return identity_of_text(disk.read_file(path).decode())


@pytest.mark.parametrize("kind", ["os", "memory"])
def test_a_file_contains_its_identity_and_its_replacement_another(kind: str, tmp_path: Path) -> None:
    disk: Disk = OsDisk() if kind == "os" else MemoryDisk()
    path = tmp_path / "a" / "state"
    disk.make_directory(path.parent)

    write(disk, path)
    first = named_in(disk, path)
    write(disk, path)

    assert named_in(disk, path).is_same(disk.identity_of(path))
    assert not first.is_same(disk.identity_of(path))
    disk.rename(path.parent, tmp_path / "b")
    assert named_in(disk, tmp_path / "b" / "state").is_same(disk.identity_of(tmp_path / "b" / "state"))
    assert disk.list_directory(tmp_path / "b") == ["state"]


def test_a_change_of_mode_or_times_keeps_the_identity(tmp_path: Path) -> None:
    disk, path = OsDisk(), tmp_path / "state"
    write(disk, path)

    path.chmod(0o660)
    os.utime(path, (1, 1))

    assert named_in(disk, path).is_same(OsDisk().identity_of(path))


@pytest.mark.parametrize("has_birth_times", [True, False])
def test_a_copy_has_another_identity_with_and_without_birth_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_birth_times: bool
) -> None:
    if not has_birth_times:
        monkeypatch.setattr(file_identity, "_statx", None)
    disk, path = OsDisk(), tmp_path / "state"
    write(disk, path)

    copy(path, tmp_path / "copy")

    assert not named_in(disk, tmp_path / "copy").is_same(disk.identity_of(tmp_path / "copy"))


def test_a_backup_restored_over_a_newer_file_is_detected(tmp_path: Path) -> None:
    disk, path = OsDisk(), tmp_path / "state"
    write(disk, path)
    copy(path, tmp_path / "backup")
    write(disk, path)

    shutil.copyfile(tmp_path / "backup", path)  # keeps the inode

    assert not named_in(disk, path).is_same(disk.identity_of(path))

"""The two disks, which behave alike, and the faults of the one in memory."""

import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.logstore.disk import CACHED_AHEAD_BYTES, CACHED_FOR_S, Disk, FileSlice, MemoryDisk, OsDisk


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return OsDisk() if request.param == "os" else MemoryDisk()


def test_files_are_written_read_truncated_and_renamed(disk: Disk, tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    disk.make_directory(directory)
    file = disk.open(directory / "one", create=True)

    file.write_at(0, (b"hello ", memoryview(b"world")))
    file.sync()

    assert (file.size(), file.read_at(6, 99)) == (11, b"world")
    assert file.read_at_cached(0, 5) == b"hello"
    assert file.read_at_cached(6, 99) is None  # after a short read the caller must read again, and wait
    file.truncate(5)
    assert disk.read_file(directory / "one") == b"hello"
    disk.rename(directory / "one", directory / "two")
    assert disk.list_directory(directory) == ["two"]
    disk.write_file(directory / "two", b"new", sync=True)
    assert disk.open_to_read(directory / "two").read_at(0, 9) == b"new"
    disk.sync_directory(directory)
    disk.rename(tmp_path / "a", tmp_path / "c")
    assert disk.file_size(tmp_path / "c" / "b" / "two") == 3
    disk.remove(tmp_path / "c" / "b" / "two")
    disk.remove(tmp_path / "c" / "b" / "two")
    disk.remove_directory(tmp_path / "c")
    assert not disk.exists(tmp_path / "c")
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "c")


def test_a_slice_can_be_read_after_its_file_was_removed(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path)
    path = tmp_path / "one"
    disk.write_file(path, b"0123456789", sync=False)
    piece = FileSlice(disk.open_to_read(path), 2, 3)

    disk.remove(path)

    assert piece.read() == b"234"
    assert piece.read_cached() == b"234"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_private_files_are_restricted_to_their_owner_with_any_umask(tmp_path: Path) -> None:
    disk = OsDisk()
    before = os.umask(0)
    try:
        disk.make_directory(tmp_path / "new" / "private", is_private=True)
        disk.make_directory(tmp_path / "new" / "open")
        disk.open(tmp_path / "private", create=True, is_private=True)
        disk.write_file_that_names_itself(tmp_path / "named", lambda own: b"")
        disk.open(tmp_path / "open", create=True)
    finally:
        os.umask(before)

    assert [mode_of(tmp_path / "new" / name) for name in ("private", "open")] == [0o700, 0o777]
    assert [mode_of(tmp_path / name) for name in ("private", "named", "open")] == [0o600, 0o600, 0o644]


def test_an_existing_directory_is_restricted_only_on_request(tmp_path: Path) -> None:
    disk = OsDisk()
    tmp_path.chmod(0o755)

    disk.make_directory(tmp_path, is_private=True)
    left = mode_of(tmp_path)
    disk.close_to_others(tmp_path)

    assert (left, mode_of(tmp_path)) == (0o755, 0o700)


def test_the_number_of_open_files_is_limited(tmp_path: Path) -> None:
    disk = OsDisk(max_cached_files=2)
    for name in "abc":
        disk.write_file(tmp_path / name, name.encode(), sync=False)

    first = disk.open_to_read(tmp_path / "a")
    for name in "bca":
        disk.open_to_read(tmp_path / name)

    assert len(disk._cached) == 2
    assert disk.open_to_read(tmp_path / "a") is not first
    assert first.read_at(0, 1) == b"a"  # the holder of an open file can still read it


def test_cached_files_are_closed_when_descriptors_run_out(tmp_path: Path) -> None:
    disk = OsDisk()
    for number in range(40):
        disk.write_file(tmp_path / str(number), b"x", sync=False)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, limits[1]))
        for number in range(40):
            assert disk.open_to_read(tmp_path / str(number)).read_at(0, 1) == b"x"
        held = [disk.open(tmp_path / str(number)) for number in range(10)]
        disk.write_file(tmp_path / "new", b"y", sync=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(held) == 10


def test_the_kernel_is_asked_only_sometimes_if_a_range_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, is_cached, looked_up = 1000.0, True, []

    def ask(_: int, position: int, size: int) -> bool:
        looked_up.append((position, size))
        return is_cached

    monkeypatch.setattr("ottla.logstore.disk.is_cached", ask)
    monkeypatch.setattr("ottla.logstore.disk.time", SimpleNamespace(monotonic=lambda: now_s))
    file = OsDisk().open(tmp_path / "file", create=True)

    answers = [file.can_send(*part) for part in ((10, 90), (10, 90), (50, 50), (50, 51), (9, 2))]
    is_cached = False
    answers += [file.can_send(9, 2), file.can_send(50, 51)]
    now_s += CACHED_FOR_S
    answers.append(file.can_send(9, 2))

    assert answers == [True, True, True, True, True, True, False, False]
    assert looked_up == [(10, 90), (50, 51), (9, 2), (50, 51), (9, 2)]


def record_lookups(
    monkeypatch: pytest.MonkeyPatch, is_cached: Callable[[int], bool]
) -> list[tuple[int, int]]:
    """Record each (position, size) that is looked up in the page cache; `is_cached` answers by its end."""
    looked_up: list[tuple[int, int]] = []

    def ask(_: int, position: int, size: int) -> bool:
        looked_up.append((position, size))
        return is_cached(position + size)

    monkeypatch.setattr("ottla.logstore.disk.is_cached", ask)
    return looked_up


def test_a_sequential_reader_looks_up_the_page_cache_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = CACHED_AHEAD_BYTES + 1000
    cached_end = size
    looked_up = record_lookups(monkeypatch, lambda end: end <= cached_end)
    (tmp_path / "file").write_bytes(bytes(size))
    file = OsDisk().open(tmp_path / "file")

    assert file.can_send(100, 50)
    assert file.can_send(150, 50) and file.can_send(200, CACHED_AHEAD_BYTES - 50)
    assert looked_up == [(100, 50), (150, CACHED_AHEAD_BYTES)]
    assert file.can_send(150 + CACHED_AHEAD_BYTES, 10) and file.can_send(size - 20, 20)
    assert looked_up[2:] == [(150 + CACHED_AHEAD_BYTES, size - 150 - CACHED_AHEAD_BYTES)]

    cached_end = 600
    assert file.can_send(400, 100)
    assert file.can_send(500, 100) and not file.can_send(600, 1)
    assert looked_up[3:] == [
        (400, 100),  # not behind the last read: nothing ahead
        *((500, CACHED_AHEAD_BYTES), (500, 100)),
        *((600, CACHED_AHEAD_BYTES), (600, 1)),
    ]


def test_readers_in_turns_do_not_look_up_the_page_cache_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = record_lookups(monkeypatch, lambda _: True)
    (tmp_path / "file").write_bytes(bytes(2 * CACHED_AHEAD_BYTES))
    file = OsDisk().open(tmp_path / "file")

    turns = [(start + done, 100) for done in range(0, 1000, 100) for start in (5000, 20_000, 90_000)]
    assert all(file.can_send(position, size) for position, size in turns)

    assert looked_up == turns


def test_a_power_cut_loses_unsynced_writes() -> None:
    disk = MemoryDisk()
    disk.make_directory(Path("/d"))
    file = disk.open(Path("/d/f"), create=True)
    file.write_at(0, (b"safe",))
    file.sync()
    file.write_at(4, (b"lost",))

    disk.lose_power(keep_bytes=lambda _path, unsynced: unsynced - 1)

    assert disk.read_file(Path("/d/f")) == b"safelos"


def test_a_planned_fault_tears_a_write() -> None:
    disk = MemoryDisk()
    disk.make_directory(Path("/d"))
    file = disk.open(Path("/d/f"), create=True)
    disk.fail_at, disk.error, disk.torn_bytes = disk.steps + 1, errno.ENOSPC, 2

    with pytest.raises(OSError, match="No space"):
        file.write_at(0, (b"abcd",))

    assert file.read_at(0, 9) == b"ab"
    file.write_at(2, (b"cd",))
    assert file.read_at(0, 9) == b"abcd"

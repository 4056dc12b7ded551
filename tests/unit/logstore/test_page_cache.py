"""The look-up of file ranges in the kernel's page cache."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.logstore import page_cache
from ottla.logstore.page_cache import is_cached

SIZE = 5 * 4096 + 10
MIB = 1 << 20


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    with (tmp_path / "file").open("r+b") as file:
        if not is_cached(file.fileno(), 0, 1):
            pytest.skip("this kernel or file system does not tell which pages are cached")
        yield file.fileno()


def test_any_part_of_a_file_just_written_is_cached(fd: int) -> None:
    parts = [(0, SIZE), (0, 4096), (4095, 2), (4096, 4096), (SIZE - 1, 1)]

    assert all(is_cached(fd, position, size) for position, size in parts)


def test_a_range_beyond_the_end_is_not_cached(fd: int) -> None:
    assert not is_cached(fd, 0, SIZE + 1)
    assert not is_cached(fd, SIZE, 1)


def test_dropped_pages_are_not_cached(fd: int) -> None:
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # no readahead
    if is_cached(fd, 0, SIZE):
        pytest.skip("this file system keeps its pages")

    os.pread(fd, 1, 8192)

    assert is_cached(fd, 8192, 4096)
    assert not is_cached(fd, 0, SIZE)


def test_a_kernel_without_the_call_is_asked_once(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def refuse(*arguments: object) -> int:
        calls.append(arguments)
        page_cache.ctypes.set_errno(38)  # ENOSYS
        return -1

    monkeypatch.setattr(page_cache, "_syscall", refuse)
    monkeypatch.setattr(page_cache, "_is_served", True)

    assert not is_cached(fd, 0, 1)
    assert not is_cached(fd, 0, 1)
    assert len(calls) == 1


@pytest.mark.usefixtures("fd")  # skipped where the kernel does not tell
def test_each_megabyte_is_probed_from_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cachestat counts a page that is still being read as cached, so its content is probed."""
    size = 2 * MIB + 10
    (tmp_path / "large").write_bytes(bytes(size))
    being_read, probed = -1, []

    def probe(_: int, position: int) -> bool:
        probed.append(position)
        return position != being_read

    monkeypatch.setattr(page_cache, "_is_read", probe)

    with (tmp_path / "large").open("rb") as file:
        large = file.fileno()
        assert is_cached(large, 0, size)
        assert probed == [size - 1, size - 1 - MIB, size - 1 - 2 * MIB]
        being_read = size - 1 - MIB
        assert not is_cached(large, 0, size)
        assert is_cached(large, 0, MIB)

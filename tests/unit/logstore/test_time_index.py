"""The time index, in memory and in its file."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.time_index import TimeIndex, TimestampOffset

PATH = Path("/data/t-0/00000000000000000100.timeindex")
ROWS = [(1000, 104), (1500, 110), (9000, 250)]


@pytest.fixture(params=["memory", "file"])
def index(request: pytest.FixtureRequest) -> TimeIndex:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    index = TimeIndex(disk, PATH, 100)
    index.reset()
    for timestamp, offset in ROWS:
        index.append_if_later(timestamp, offset)
        index.append_if_later(timestamp - 1, offset + 1)
    index.write(sync=True)
    if request.param == "file":
        index.release()
    return index


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-1, (-1, 100)), (999, (-1, 100)), (1000, (1000, 104)), (8999, (1500, 110)), (10**6, (9000, 250))],
)
def test_a_look_up_finds_the_last_row_at_or_below(
    index: TimeIndex, timestamp: int, expected: tuple[int, int]
) -> None:
    assert index.lookup(timestamp) == TimestampOffset(*expected)


def test_the_file_has_kafkas_rows(index: TimeIndex) -> None:
    assert index._disk.read_file(PATH) == b"".join(
        timestamp.to_bytes(8, "big") + (offset - 100).to_bytes(4, "big") for timestamp, offset in ROWS
    )
    index.check_invariants()


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (104, 0), (111, 2), (999, 3)])
def test_truncation_keeps_the_rows_below(index: TimeIndex, offset: int, left: int) -> None:
    index.load()

    index.truncate_to(offset)

    assert index.rows_count == left


def test_a_row_without_a_timestamp_is_never_written(index: TimeIndex) -> None:
    index.reset()

    index.append_if_later(-1, 105)

    assert index.rows_count == 0


@pytest.mark.parametrize(("content", "is_good"), [(b"", True), (bytes(11), False), (b"\xff" * 12, False)])
def test_a_cheap_check_finds_a_file_that_is_not_an_index(content: bytes, is_good: bool) -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    disk.write_file(PATH, content, sync=True)

    assert (TimeIndex(disk, PATH, 100).problem() is None) is is_good

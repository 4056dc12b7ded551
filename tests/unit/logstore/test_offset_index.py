"""The offset index, in memory and in its file."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.offset_index import OffsetIndex, OffsetPosition
from ottla.logstore.words.errors import KafkaError

PATH = Path("/data/t-0/00000000000000000100.index")
ROWS = [(104, 500), (110, 900), (250, 1400)]


@pytest.fixture(params=["memory", "file"])
def index(request: pytest.FixtureRequest) -> OffsetIndex:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    index = OffsetIndex(disk, PATH, 100)
    index.reset()
    for offset, position in ROWS:
        index.append(offset, position)
    index.write(sync=True)
    if request.param == "file":
        index.release()
    return index


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, (100, 0)),
        (100, (100, 0)),
        (103, (100, 0)),
        (104, (104, 500)),
        (249, (110, 900)),
        (999, (250, 1400)),
    ],
)
def test_a_look_up_finds_the_last_row_at_or_below(
    index: OffsetIndex, offset: int, expected: tuple[int, int]
) -> None:
    assert index.lookup(offset) == OffsetPosition(*expected)


@pytest.mark.parametrize("index", ["memory"], indirect=True)
def test_the_first_row_above_an_offset_is_found_only_in_memory(index: OffsetIndex) -> None:
    positions = [index.position_after(offset) for offset in (0, 103, 104, 249, 250, 999)]
    index.release()

    assert positions == [500, 500, 900, 1400, None, None]
    assert index.position_after(0) is None


@pytest.mark.parametrize(
    ("position", "expected"), [(0, 104), (500, 104), (501, 110), (1400, 250), (1401, None)]
)
def test_the_first_row_from_a_position_on_is_found(
    index: OffsetIndex, position: int, expected: int | None
) -> None:
    assert index.first_offset_from(position) == expected


@pytest.mark.parametrize("rows", [511, 512, 513, 1025, 5000])
def test_a_closed_index_of_many_pages_finds_the_same_rows_as_memory(rows: int) -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    memory = OffsetIndex(disk, PATH, 100)
    memory.reset()
    for number in range(rows):
        memory.append(103 + 3 * number, 4096 * (number + 1))
    memory.write(sync=True)
    closed = OffsetIndex(disk, PATH, 100)

    for offset in range(100, 103 + 3 * rows + 3):
        assert closed.lookup(offset) == memory.lookup(offset)
    for position in range(0, 4096 * (rows + 2), 2048):
        assert closed.first_offset_from(position) == memory.first_offset_from(position)
        assert closed.position_before(position) == memory.position_before(position)


def test_reading_a_closed_index_that_was_cut_off_is_an_error(index: OffsetIndex) -> None:
    index.release()
    index._disk.write_file(PATH, index._disk.read_file(PATH)[:-3], sync=True)

    with pytest.raises(KafkaError, match="has no row 2"):
        index.lookup(999)


def test_the_file_has_kafkas_rows(index: OffsetIndex) -> None:
    content = index._disk.read_file(PATH)

    assert content == b"".join(
        (offset - 100).to_bytes(4, "big") + position.to_bytes(4, "big") for offset, position in ROWS
    )
    assert index.rows_count == 3
    assert index.last() == (250, 1400)


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (104, 0), (105, 1), (250, 2), (251, 3)])
def test_truncation_keeps_the_rows_below(index: OffsetIndex, offset: int, left: int) -> None:
    index.load()

    index.truncate_to(offset)

    assert index.rows_count == left
    index.check_invariants()


@pytest.mark.parametrize(
    ("content", "is_good"),
    [
        (b"", True),
        (bytes(7), False),
        (bytes(8), False),
        ((5).to_bytes(4, "big") + (999).to_bytes(4, "big"), True),
        ((5).to_bytes(4, "big") + (1000).to_bytes(4, "big"), False),
    ],
)
def test_a_cheap_check_finds_a_file_that_is_not_an_index(content: bytes, is_good: bool) -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    disk.write_file(PATH, content, sync=True)

    assert (OffsetIndex(disk, PATH, 100).problem(1000) is None) is is_good

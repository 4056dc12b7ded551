"""The rows of aborted transactions."""

import struct
from pathlib import Path

import pytest

from ottla.logstore import transaction_index
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.transaction_index import AbortedTransaction, TransactionIndex

PATH = Path("/data/t-0/00000000000000000000.txnindex")
ROWS = [AbortedTransaction(7, 0, 10, 5), AbortedTransaction(8, 5, 13, 14), AbortedTransaction(7, 20, 33, 34)]


@pytest.fixture(params=[0, 1, 2, 10])
def index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TransactionIndex:
    """Return an index that keeps at most `request.param` rows in memory."""
    monkeypatch.setattr(transaction_index, "MAX_ROWS_IN_MEMORY", request.param)
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    index = TransactionIndex(disk, PATH)
    for row in ROWS:
        index.append(row)
    index.check_invariants()
    return index


@pytest.mark.parametrize(
    ("start", "end", "found", "is_complete"),
    [
        (0, 5, [0], True),
        (0, 6, [0, 1], True),
        (11, 14, [1], True),
        (14, 20, [], True),
        (14, 21, [2], True),
        (34, 40, [], False),
        (0, 99, [0, 1, 2], False),
    ],
)
def test_transactions_that_overlap_a_range_are_collected(
    index: TransactionIndex, start: int, end: int, found: list[int], is_complete: bool
) -> None:
    assert index.collect(start, end) == ([ROWS[number] for number in found], is_complete)
    index.release()
    reopened = TransactionIndex(index._disk, PATH)
    assert index.collect(start, end) == reopened.collect(start, end) == index.collect(start, end)


def test_the_file_has_kafkas_rows(index: TransactionIndex) -> None:
    content = index._disk.read_file(PATH)

    assert content == b"".join(struct.pack(">hqqqq", 0, *row) for row in ROWS)
    assert TransactionIndex(index._disk, PATH).rows == ROWS


@pytest.mark.parametrize(("offset", "left"), [(10, 0), (11, 1), (33, 2), (34, 3)])
def test_truncation_drops_transactions_whose_marker_is_removed(
    index: TransactionIndex, offset: int, left: int
) -> None:
    index.truncate_to(offset)
    index.check_invariants()

    assert TransactionIndex(index._disk, PATH).rows == ROWS[:left]
    for row in ROWS[left:]:
        index.append(row)
        index.check_invariants()
    assert TransactionIndex(index._disk, PATH).rows == ROWS


def test_an_index_found_on_the_disk_can_be_appended_to(index: TransactionIndex) -> None:
    found = TransactionIndex(index._disk, PATH)
    last = AbortedTransaction(9, 34, 40, 41)

    found.append(last)

    found.check_invariants()
    assert TransactionIndex(index._disk, PATH).rows == [*ROWS, last]
    assert found.collect(34, 41) == ([last], True)
    with pytest.raises(AssertionError):
        TransactionIndex(index._disk, PATH).append(last)


@pytest.mark.parametrize("content", [bytes(33), struct.pack(">hqqqq", 1, 0, 0, 0, 0)])
def test_a_file_that_is_not_an_index_is_found(content: bytes) -> None:
    disk = MemoryDisk()
    disk.make_directory(PATH.parent)
    disk.write_file(PATH, content, sync=True)

    assert TransactionIndex(disk, PATH).problem(0) is not None

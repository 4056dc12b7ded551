"""Leader epochs and the offsets where they end (KIP-101, KIP-320)."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.leader_epoch_cache import EpochEntry, LeaderEpochCache

DIRECTORY = Path("/data/t-0")


def cache_of(*entries: tuple[int, int], disk: MemoryDisk | None = None) -> LeaderEpochCache:
    disk = disk or MemoryDisk()
    disk.make_directory(DIRECTORY)
    cache = LeaderEpochCache(disk, DIRECTORY)
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    cache.check_invariants()
    return cache


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(0, 0), (2, 10)], [(0, 0), (2, 10)]),
        ([(0, 0), (0, 10)], [(0, 0)]),
        ([(0, 10), (0, 5)], [(0, 5)]),
        ([(0, 0), (3, 10), (2, 12)], [(0, 0), (2, 12)]),  # a new entry replaces those that contradict it
        ([(0, 0), (1, 10), (2, 10)], [(0, 0), (2, 10)]),  # epoch 1 wrote nothing
        ([(0, 0), (1, 10), (2, 20), (3, 5)], [(0, 0), (3, 5)]),
    ],
)
def test_entries_stay_in_order(entries: list[tuple[int, int]], expected: list[tuple[int, int]]) -> None:
    assert list(cache_of(*entries).entries) == expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),  # older than all known epochs
        (1, (1, 10)),
        (2, (1, 10)),  # unknown: the epoch before it
        (3, (3, 30)),
        (4, (4, 99)),  # the current one ends at the log end
        (5, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_known_one_begins(epoch: int, expected: tuple[int, int]) -> None:
    assert cache_of((1, 5), (3, 10), (4, 30)).end_offset_for(epoch, 99) == expected


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 1), (9, 1), (10, 3), (29, 3), (30, 4), (999, 4)])
def test_an_offset_has_the_epoch_that_began_last_before_it(offset: int, epoch: int) -> None:
    assert cache_of((1, 5), (3, 10), (4, 30)).epoch_for_offset(offset) == epoch


def test_truncation_removes_epochs_at_either_end() -> None:
    cache = cache_of((1, 5), (3, 10), (4, 30))

    assert cache.truncate_from_end(30)
    assert not cache.truncate_from_end(30)
    assert list(cache.entries) == [(1, 5), (3, 10)] and cache.latest_epoch == 3
    assert cache.truncate_from_start(12)
    assert list(cache.entries) == [(3, 12)]
    assert not cache.truncate_from_start(3)
    cache.check_invariants()


def test_the_epochs_below_an_offset_are_replaced() -> None:
    cache = cache_of((1, 5), (3, 10), (4, 30))

    cache.replace([EpochEntry(2, 5)], 30)

    assert list(cache.entries) == [(2, 5), (4, 30)] and cache.latest_epoch == 4
    cache.check_invariants()


def test_no_epoch_is_known_after_all_are_replaced_by_none() -> None:
    cache = cache_of((1, 5), (3, 10))

    cache.replace([], 30)

    assert cache.entries == () and cache.latest_epoch == -1
    cache.check_invariants()


def test_the_file_has_kafkas_format_and_is_read_back() -> None:
    disk = MemoryDisk()
    cache = cache_of((1, 5), (3, 10), disk=disk)

    assert disk.read_file(cache.path) == b"0\n2\n1 5\n3 10\n"
    again = LeaderEpochCache(disk, DIRECTORY)
    again.load()
    assert again.entries == cache.entries

"""A segment, on a real disk and in memory: open, sealed, truncated, looked up."""

from pathlib import Path

import pytest

from ottla.logstore.disk import Disk, MemoryDisk, OsDisk, OsFile
from ottla.logstore.log_config import LogConfig
from ottla.logstore.record import build_batch
from ottla.logstore.record_batch import HEADER_SIZE
from ottla.logstore.segment import MAX_ALLOCATED_AHEAD_BYTES, MAX_RECENT_BATCHES, Segment, TimestampAndOffset
from ottla.logstore.words.errors import KafkaError

CONFIG = LogConfig(index_interval_bytes=200)
BATCHES = 40
OFFSETS_EACH = 3


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return OsDisk() if request.param == "os" else MemoryDisk()


def segment_of(disk: Disk, directory: Path, *, batches: int = BATCHES) -> Segment:
    """Return a segment of batches of three records from offset 100 on, with the times of `timestamp_of`."""
    disk.make_directory(directory)
    segment = Segment.create(disk, directory, 100, CONFIG, now_ms=0)
    for number in range(batches):
        first = 100 + OFFSETS_EACH * number
        rows = [(b"k", b"v", timestamp_of(first + index), ()) for index in range(OFFSETS_EACH)]
        batch = build_batch(rows, base_offset=first, partition_leader_epoch=number)
        position = segment.size_bytes
        segment.append([batch], len(batch))
        segment.index_batch(first + 2, max(row[2] for row in rows), position, CONFIG.index_interval_bytes)
    segment.check_invariants()
    return segment


def timestamp_of(offset: int) -> int:
    return 10 * (offset - 100) - (35 if offset % 5 == 0 else 0)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_every_offset_and_time_is_found(disk: Disk, tmp_path: Path, is_sealed: bool) -> None:
    segment = segment_of(disk, tmp_path)
    if is_sealed:
        segment.seal()
        segment = Segment.open(disk, tmp_path, 100)
    size = segment.size_bytes // BATCHES

    end = 100 + OFFSETS_EACH * BATCHES
    for offset in range(100, end):
        assert segment.position_of(offset) == (offset - 100) // OFFSETS_EACH * size
    assert segment.position_of(end) is None
    assert segment.find_end() == (end, segment.size_bytes)
    for timestamp in range(0, 1250, 7):
        expected = next((one for one in range(105, end) if timestamp_of(one) >= timestamp), None)
        found = segment.find_by_timestamp(timestamp, 105)
        assert found == (
            None
            if expected is None
            else TimestampAndOffset(timestamp_of(expected), expected, (expected - 100) // OFFSETS_EACH)
        )
    assert segment.find_largest_timestamp() == (1190, 219, 39)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_every_offset_is_found_among_large_and_small_batches(
    disk: Disk, tmp_path: Path, is_sealed: bool
) -> None:
    """There are more batches than positions in memory, and some follow a gap, as compaction leaves it."""
    disk.make_directory(tmp_path)
    segment = Segment.create(disk, tmp_path, 100, CONFIG, now_ms=0)
    sizes = [20_000, 100, 20_000, 20_000, 9_000, 100, 100, 50]
    expected: dict[int, int] = {}
    offset = 100
    for number in range(MAX_RECENT_BATCHES + 100):
        offset += 4 * (number % 7 == 3)
        rows = [(b"k", bytes(sizes[number % len(sizes)]), 0, ()), (b"k", b"v", 0, ())]
        batch, position = build_batch(rows, base_offset=offset), segment.size_bytes
        segment.append([batch], len(batch))
        segment.index_batch(offset + 1, 0, position, 4096)
        for one in range(max(expected, default=99) + 1, offset + 2):
            expected[one] = position
        offset += 2
    segment.check_invariants()
    if is_sealed:
        segment.seal()
        segment = Segment.open(disk, tmp_path, 100)

    assert {one: segment.position_of(one) for one in expected} == expected
    assert segment.position_of(offset) is None


def test_a_large_batch_is_found_by_its_header_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of large batches looks one up per megabyte, and must not read a page of the previous batch."""
    segment = Segment.create(OsDisk(), tmp_path, 100, CONFIG, now_ms=0)
    positions = []
    for number in range(MAX_RECENT_BATCHES + 10):
        batch = build_batch([(b"k", bytes(10_000), 0, ())] * 2, base_offset=100 + 2 * number)
        positions.append(segment.size_bytes)
        segment.append([batch], len(batch))
        segment.index_batch(101 + 2 * number, 0, positions[-1], 4096)
    reads: list[tuple[int, int]] = []
    read_at = OsFile.read_at

    def noted(file: OsFile, position: int, size: int) -> bytes:
        reads.append((position, size))
        return read_at(file, position, size)

    monkeypatch.setattr(OsFile, "read_at", noted)
    assert segment.find_batch(110) == (positions[5], positions[1])
    assert reads == [(positions[5], HEADER_SIZE)]


def test_a_reader_does_not_skip_a_batch_with_a_wrong_length(tmp_path: Path) -> None:
    disk = MemoryDisk()
    segment = segment_of(disk, tmp_path)
    segment.seal()
    disk.files[segment.path].content[9] ^= 1  # the first batch claims to be larger than the file

    segment = Segment.open(disk, tmp_path, 100)

    with pytest.raises(KafkaError, match="no whole batch at position 0"):
        segment.position_of(100)
    assert segment.position_of(100 + OFFSETS_EACH * BATCHES - 1) is not None


def test_a_sealed_segment_can_be_made_active_again(disk: Disk, tmp_path: Path) -> None:
    segment = segment_of(disk, tmp_path, batches=BATCHES + 1)
    rows = segment.time_index.rows_count
    segment.seal()
    segment = Segment.open(disk, tmp_path, 100)
    assert segment.problem() is None
    assert segment.time_index.rows_count == rows + 1  # one more, with the largest timestamp

    segment.activate(segment.find_end()[0])

    assert segment.time_index.rows_count == rows
    assert segment.largest == (1220, 222)
    segment.check_invariants()


def test_a_truncation_removes_index_rows_and_timestamps(disk: Disk, tmp_path: Path) -> None:
    segment = segment_of(disk, tmp_path)

    assert segment.truncate_to(161) > 0

    assert segment.find_end()[0] == 160
    assert segment.largest == (590, 159)
    segment.check_invariants()
    assert segment.truncate_to(999) == 0


def test_the_positions_in_memory_are_bounded_and_the_rest_is_found_by_the_index(tmp_path: Path) -> None:
    segment = segment_of(MemoryDisk(), tmp_path, batches=2 * MAX_RECENT_BATCHES)

    assert len(segment._recent_positions) <= MAX_RECENT_BATCHES
    size = segment.size_bytes // (2 * MAX_RECENT_BATCHES)
    for offset in (100, 101, 700, 100 + 3 * MAX_RECENT_BATCHES, 100 + 6 * MAX_RECENT_BATCHES - 1):
        assert segment.position_of(offset) == (offset - 100) // OFFSETS_EACH * size


def test_files_change_their_suffix_together(disk: Disk, tmp_path: Path) -> None:
    segment = segment_of(disk, tmp_path)
    segment.seal()

    segment.change_suffix(".deleted")

    assert disk.list_directory(tmp_path) == [
        f"00000000000000000100{kind}.deleted" for kind in (".index", ".log", ".timeindex")
    ]
    segment.remove()
    assert disk.list_directory(tmp_path) == []


def test_large_writes_allocate_space_ahead_which_the_seal_frees(disk: Disk, tmp_path: Path) -> None:
    disk.make_directory(tmp_path)
    segment = Segment.create(disk, tmp_path, 0, CONFIG, now_ms=0)
    file = segment.file

    segment.append([bytes(1000)], 1000)
    assert not file.reaches_beyond(1000), "small writes allocate no space ahead"
    for _ in range(4):
        segment.append([bytes(1 << 20), bytes(1000)], (1 << 20) + 1000)
    size = segment.size_bytes
    assert file.size() == disk.file_size(segment.path) == size, "the space ahead is not part of the size"
    if isinstance(disk, OsDisk) and not file.reaches_beyond(size):
        pytest.skip("this file system makes no space ahead")
    assert not file.reaches_beyond(size + size // 4 + 4096)
    segment.truncate_at(0, 0)
    assert not file.reaches_beyond(0)
    segment.append([bytes(1 << 20)], 1 << 20)
    assert file.reaches_beyond(segment.size_bytes), "after a cut, too"
    segment.index_batch(0, 0, 0, 4096)
    segment.seal()

    assert not disk.open_to_read(segment.path).reaches_beyond(segment.size_bytes)
    assert disk.file_size(segment.path) == segment.size_bytes == 1 << 20


def test_space_is_allocated_ahead_rarely_and_never_more_than_a_few_megabytes(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.make_directory(tmp_path)
    segment = Segment.create(disk, tmp_path, 0, CONFIG, now_ms=0)
    inode, ends = disk.files[segment.path], set()

    for _ in range(400):
        segment.append([bytes(1 << 16)], 1 << 16)
        ends.add(inode.allocated_bytes)

    assert segment.size_bytes <= inode.allocated_bytes <= segment.size_bytes + MAX_ALLOCATED_AHEAD_BYTES
    assert len(ends) < 30


def test_a_disk_that_cannot_allocate_ahead_still_accepts_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(
        "ottla.logstore.file_space.allocate", lambda fd, position, size: bool(sizes.append(size))
    )
    segment = Segment.create(OsDisk(), tmp_path, 0, CONFIG, now_ms=0)

    for number in range(40):
        segment.append([bytes([number]) * (1 << 16)], 1 << 16)

    assert len(sizes) == 1, "it is not asked again"
    assert segment.file.read_at(39 << 16, 1) == bytes([39])
    segment.seal()
    assert OsDisk().file_size(segment.path) == 40 << 16

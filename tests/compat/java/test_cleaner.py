"""Java as the reference: Kafka's cleaner, over copies of the same log, leaves the same batches as ours.

Offsets, records, timestamps, delete horizons, producers, emptied batches, file names and transaction indexes
are compared. The base timestamp of a batch is not: it only decides how the timestamps are encoded.
"""

import random
import shutil
from itertools import count
from pathlib import Path

import pytest

from ottla.logstore.cleaner import clean_group, groups_to_clean, index_dirty
from ottla.logstore.cleaner_manager import CleanerManager
from ottla.logstore.compression import Compression
from ottla.logstore.disk import OsDisk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_manager import LogManager
from ottla.logstore.partition_log import AppendOrigin, PartitionLog
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, iterate_records
from ottla.logstore.record_batch import check_batch, iterate_headers
from ottla.logstore.transaction_index import ROW
from ottla.logstore.verification import NOT_VERIFIED
from ottla.logstore.words.topic_partition import TopicPartition
from tests.compat.java.conftest import AskJava

NAME = TopicPartition("c", 0)
START_MS = 1_700_000_000_000
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=60_000,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=10_000,
    message_timestamp_after_max_ms=2**62,
)
# Seed of the log, slots of the key map (a prime: ours rounds down to one), rounds in ms after START_MS, and
# the first dirty offset. It is the base offset of a segment, since Kafka takes transactions that ended
# earlier in the same segment for open.
SCENARIOS = [
    pytest.param(1, 100_000, (900_000, 905_000, 911_000), 0, id="tombstones and markers over three rounds"),
    pytest.param(2, 31, (900_000,), 0, id="a map that is soon full"),
    pytest.param(13, 100_000, (900_000, 900_000), 6_665, id="two rounds at once over the last segment"),
]

pytestmark = [pytest.mark.java, pytest.mark.slow]


class OurLog:
    """A compacted log in a directory, and our cleaner for it."""

    def __init__(self, directory: Path, now_ms: int) -> None:
        self.now_ms = now_ms
        unique = count(1)
        self.manager = LogManager(
            log_dirs=(directory,),
            disk=OsDisk(),
            now_ms=lambda: self.now_ms,
            unique=lambda: next(unique).to_bytes(16, "big"),
        )
        self.manager.acquire()
        self.manager.claim(cluster_id=bytes(range(16)), node_id=1)
        self.manager.load(lambda _topic: CONFIG)
        self.log: PartitionLog = self.manager.get_or_create(NAME, bytes(range(16)), CONFIG)
        self.log.update_high_watermark(self.log.log_end_offset)

    def clean(self, map_keys: int, first_dirty: int) -> int:
        """Clean the log from the first dirty offset on, and return the offset that was reached."""
        self.manager.dirs[0].cleaned_offsets[NAME] = first_dirty
        cleaner = CleanerManager(self.manager)
        job = cleaner.next_job(self.now_ms)
        assert job is not None
        offset_map = index_dirty(
            job, buffer_bytes=24 * map_keys, load_factor=0.9, on_bytes=lambda _size: None
        )
        for group in groups_to_clean(job, offset_map):
            cleaner.swap(job, clean_group(job, group, offset_map, on_bytes=lambda _size: None))
        for path in self.log.take_deleted_paths():
            path.unlink()
        self.manager.close()
        return offset_map.latest_offset + 1


def fill(directory: Path, seed: int) -> int:
    """Write a log with everything that a compacted topic may contain, and return the time at its end."""
    chance, ours = random.Random(seed), OurLog(directory, START_MS)
    sequences: dict[int, int] = {}
    open_transactions: set[int] = set()

    def append(batch: bytearray, origin: AppendOrigin) -> None:
        ours.log.append_as_leader(
            batch, leader_epoch=0, now_ms=ours.now_ms, origin=origin, guard=NOT_VERIFIED
        )

    def end(producer_id: int) -> None:
        open_transactions.discard(producer_id)
        ours.log.append_marker(
            EndTransactionMarker(chance.choice(list(ControlType)), 0),
            producer_id=producer_id,
            producer_epoch=0,
            transaction_version=0,
            leader_epoch=0,
            now_ms=ours.now_ms,
        )

    for _ in range(2_000):
        ours.now_ms += chance.randrange(1, 50)
        kind = chance.choice(("plain",) * 5 + ("idempotent",) * 2 + ("transactional",) * 2 + ("end",))
        if kind == "end":
            if open_transactions:
                end(chance.choice(sorted(open_transactions)))
            continue
        producer_id = {"plain": -1, "idempotent": chance.randrange(1, 4)}.get(kind, chance.randrange(10, 13))
        records = [
            (
                b"key-%d" % chance.randrange(40),
                None if chance.random() < 0.2 else b"value" * chance.randrange(1, 4),
                ours.now_ms + chance.randrange(-100, 100),
                (("h", b"x"),) if chance.random() < 0.2 else (),
            )
            for _ in range(chance.randrange(1, 8))
        ]
        sequence = sequences.get(producer_id, 0)
        sequences[producer_id] = sequence + len(records)
        if kind == "transactional":
            open_transactions.add(producer_id)
        batch = build_batch(
            records,
            compression=chance.choice(list(Compression)),
            producer_id=producer_id,
            producer_epoch=-1 if producer_id < 0 else 0,
            base_sequence=-1 if producer_id < 0 else sequence,
            is_transactional=kind == "transactional",
        )
        append(batch, AppendOrigin.COORDINATOR if kind == "transactional" else AppendOrigin.CLIENT)
    for producer_id in sorted(open_transactions):
        end(producer_id)
    ours.log.roll(now_ms=ours.now_ms)
    ours.log.update_high_watermark(ours.log.log_end_offset)
    ours.manager.close()
    return ours.now_ms


def content_of(directory: Path) -> list[object]:
    """Return the content of a log directory, without the parts that may differ."""
    found: list[object] = []
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        found.append(path.name)
        for position, header in iterate_headers(content):
            batch = content[position : position + header.size_bytes]
            check_batch(batch)
            same = header._replace(crc=0, batch_length=0, base_timestamp=0)
            found.append((same, header.delete_horizon_ms, list(iterate_records(batch))))
    for path in sorted(directory.glob("*.txnindex")):
        if rows := list(ROW.iter_unpack(path.read_bytes())):
            found.append((path.name, rows))
    return found


def clean_with_kafka(ask_java: AskJava, directory: Path, now_ms: int, map_keys: int, first_dirty: int) -> int:
    """Clean the log once with Apache Kafka's cleaner, and return the offset that it reached."""
    settings = (str(CONFIG.segment_bytes), str(CONFIG.delete_retention_ms))
    work = (str(directory), str(now_ms), str(24 * map_keys), str(first_dirty))
    return int(ask_java("CleanerReference", *settings, *work).split()[-1])


@pytest.mark.parametrize(("seed", "map_keys", "rounds", "first_dirty"), SCENARIOS)
def test_kafkas_cleaner_leaves_the_same(
    ask_java: AskJava,
    tmp_path: Path,
    seed: int,
    map_keys: int,
    rounds: tuple[int, ...],
    first_dirty: int,
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    fill(ours, seed)

    for after_ms in rounds:
        # Each round starts from the same log, so that one difference is not reported twice.
        shutil.rmtree(theirs, ignore_errors=True)
        shutil.copytree(ours, theirs)
        now_ms = START_MS + after_ms
        got = OurLog(ours, now_ms).clean(map_keys, first_dirty)
        expected = clean_with_kafka(ask_java, theirs / "c-0", now_ms, map_keys, first_dirty)

        assert content_of(ours / "c-0") == content_of(theirs / "c-0")
        assert got == expected

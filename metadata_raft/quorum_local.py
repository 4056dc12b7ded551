"""A quorum of one on disk: what it has answered survives any kill and any loss of power.

The log is Apache Kafka's: `__cluster_metadata-0/OFFSET.log` holds the batches, `OFFSET-EPOCH.checkpoint` a
snapshot of all before OFFSET, and `kafka-dump-log --cluster-metadata-decoder` reads both. One batch is
written and synced at a time, so a batch that is not whole is the last one, was never answered, and is cut
off; anywhere else it is damage that a start refuses to step over. Once enough was written a snapshot is made
in a thread while the next segment grows; then the segments that it covers go.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from logstore.disk import Disk, DiskFile
from logstore.errors import ErrorCode, KafkaError
from logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, check_batch, read_header
from logstore.topic_partition import ZERO_UUID
from metadata_raft.delta import MetadataDelta, replay_batch
from metadata_raft.image import Endpoint, MetadataImage
from metadata_raft.quorum import QuorumListener, QuorumStatus, ReplicaStatus
from metadata_raft.record_codec import MAX_BATCH_BYTES, MetadataBatch, decode_batch, encode_batch
from metadata_raft.snapshot import decode_snapshot, encode_snapshot

METADATA_DIRECTORY: Final = "__cluster_metadata-0"
# Commands that wait for the disk, each with a client's request; beyond, clients are told to come again.
MAX_WAITING_BATCHES: Final = 10_000
# Between two batches of a snapshot its thread steps aside, so that the event loop gets its turn.
SNAPSHOT_PAUSE_SECONDS: Final = 0.001
_SEGMENT_NAME: Final = re.compile(r"(\d{20})\.log")
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_TEMPORARY_SUFFIX: Final = ".tmp"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """When snapshots are made: after so many bytes, or after so long if anything changed (0: never)."""

    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    max_snapshot_interval_ms: int = 3_600_000


class LoadedMetadata(NamedTuple):
    """What a directory held when the node started."""

    image: MetadataImage
    cut_bytes: int  # of a batch that was being written when the node died


class _Segment(NamedTuple):
    base_offset: int
    path: Path


class LocalQuorum:
    """The only voter, and so the leader, of its own metadata."""

    def __init__(
        self, directory: Path, disk: Disk, *, node_id: int, config: JournalConfig | None = None
    ) -> None:
        self.leader_id = node_id
        self.epoch = 0
        self._directory = directory
        self._disk = disk
        self._config = config or JournalConfig()
        self._listener: QuorumListener | None = None
        self._waiting: deque[MetadataBatch] = deque()
        self._wake = asyncio.Event()
        self._is_closed = False
        self._is_broken = False
        self._end_offset = 0  # of what was appended; the file may be behind
        self._image = MetadataImage()
        self._file: DiskFile | None = None
        self._position = 0
        self._bytes_since_snapshot = 0
        self._snapshot_ms = (
            0  # when the last one was made, by the controller's time; 0 before the first batch
        )
        # A thread of its own: the threads of the process may all be busy with long reads and compaction.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="metadata-log")
        self._roll_at: int | None = None  # the offset with which the next segment begins

    @property
    def is_leader(self) -> bool:
        return not self._is_broken

    # ---- start -----------------------------------------------------------------------------------------

    def load(self, empty: MetadataImage) -> LoadedMetadata:
        """Read what the directory holds, over `empty`, and begin a new epoch.

        KAFKA_STORAGE_ERROR names the file and position of anything that is damaged; OSError from the disk.
        """
        self._disk.make_directory(self._directory)
        self._disk.sync_directory(self._directory.parent)
        snapshots, segments = self._list_files()
        image = self._load_snapshot(snapshots[-1], empty) if snapshots else empty
        # A node that died between making a snapshot and removing what it covers left both.
        self._remove_files(snapshots[:-1], _covered(segments, image))
        image, cut_bytes = self._load_segments(segments, image)
        self.epoch = image.epoch + 1
        self._image, self._end_offset = image, image.version + 1
        return LoadedMetadata(image, cut_bytes)

    def _list_files(self) -> tuple[list[Path], list[_Segment]]:
        snapshots, segments = [], []
        for name in self._disk.list_directory(self._directory):
            path = self._directory / name
            if name.endswith(_TEMPORARY_SUFFIX):
                self._disk.remove(path)
            elif _SNAPSHOT_NAME.fullmatch(name):
                snapshots.append(path)
            elif match := _SEGMENT_NAME.fullmatch(name):
                segments.append(_Segment(int(match[1]), path))
        return snapshots, segments

    def _load_snapshot(self, path: Path, empty: MetadataImage) -> MetadataImage:
        match = _SNAPSHOT_NAME.fullmatch(path.name)
        assert match is not None
        try:
            content = self._disk.read_file(path)
            version, epoch = int(match[1]) - 1, int(match[2])
            return decode_snapshot(content, empty=empty, version=version, epoch=epoch)
        except KafkaError as error:
            raise _damaged(path, 0, error.detail) from None

    def _load_segments(self, segments: list[_Segment], image: MetadataImage) -> tuple[MetadataImage, int]:
        delta = MetadataDelta(image)
        last = MetadataBatch(image.version, image.epoch, image.timestamp_ms, ())
        next_offset, epoch, cut_bytes = image.version + 1, 0, 0
        for index, segment in enumerate(segments):
            is_last = index + 1 == len(segments)
            if segment in _covered(segments[index : index + 2], image):
                continue
            if segment.base_offset > next_offset:
                raise _damaged(segment.path, 0, f"the records from offset {next_offset} on are missing.")
            content = self._disk.read_file(segment.path)
            position, expected = 0, segment.base_offset
            for position, header in self._batches_of(segment.path, content, is_last=is_last):
                if header.base_offset != expected:
                    raise _damaged(
                        segment.path, position, f"offset {header.base_offset} follows {expected - 1}."
                    )
                if header.partition_leader_epoch < epoch:
                    raise _damaged(segment.path, position, f"an epoch below {epoch} follows it.")
                expected, epoch = header.next_offset, header.partition_leader_epoch
                # The snapshot has what stands before.
                if header.base_offset >= next_offset:
                    last = self._replay(delta, segment.path, content, position)
                    next_offset = expected
                    self._bytes_since_snapshot += header.size_bytes
                position += header.size_bytes
            if is_last:
                cut_bytes = len(content) - position
                file = self._disk.open(segment.path)
                if cut_bytes:
                    file.truncate(position)
                    file.sync()
                if expected == next_offset:
                    self._file, self._position = file, position
        if next_offset == image.version + 1:
            return image, cut_bytes
        after = delta.apply(version=next_offset - 1, epoch=last.epoch, timestamp_ms=last.timestamp_ms)
        return after, cut_bytes

    @staticmethod
    def _batches_of(path: Path, content: bytes, *, is_last: bool) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each whole batch; stops at the torn tail of the last segment."""
        position = 0
        while position < len(content):
            try:
                header = check_batch(content, position)
            except KafkaError as error:
                if not is_last or _has_batch_after(content, position):
                    raise _damaged(path, position, error.detail) from None
                return
            yield position, header
            position += header.size_bytes

    @staticmethod
    def _replay(delta: MetadataDelta, path: Path, content: bytes, position: int) -> MetadataBatch:
        """A batch whose CRC is right and whose records are not was written by something else than a node."""
        try:
            batch, _ = decode_batch(content, position)
            for record in batch.records:
                delta.replay(record)
        except KafkaError as error:
            raise _damaged(path, position, error.detail) from None
        return batch

    def _remove_files(self, snapshots: list[Path], segments: list[_Segment]) -> None:
        for path in (*snapshots, *(segment.path for segment in segments)):
            self._disk.remove(path)

    # ---- append ----------------------------------------------------------------------------------------

    def attach(self, listener: QuorumListener) -> None:
        self._listener = listener
        listener.handle_leadership(self.epoch)

    def status(self) -> QuorumStatus:
        end_offset = self._image.version + 1
        voter = ReplicaStatus(self.leader_id, ZERO_UUID, self._end_offset, -1, -1)
        return QuorumStatus(self.leader_id, self.epoch, end_offset, (voter,), ())

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        return None

    def append(self, batch: MetadataBatch) -> None:
        if self._is_broken or self._is_closed or batch.epoch != self.epoch:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum.")
        if len(self._waiting) >= MAX_WAITING_BATCHES:
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "Too many metadata changes wait for the disk."
            )
        assert batch.base_offset == self._end_offset, "a batch does not follow the log"
        self._end_offset = batch.last_offset + 1
        self._waiting.append(batch)
        self._wake.set()

    async def run(self) -> None:
        """Write, sync and announce batches in their order until `close`.

        A disk that fails ends it with the OSError: after a failed sync nobody can say what is on the disk.
        """
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            snapshot: asyncio.Task[None] | None = None
            while True:
                if not self._waiting:
                    if self._is_closed:
                        self._writer.shutdown(wait=False)
                        break
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                batch = self._waiting[0]
                try:
                    await loop.run_in_executor(self._writer, self._write, batch)
                except BaseException:
                    self._is_broken = True
                    self._listener.handle_resignation("The disk of the metadata log failed.")
                    raise
                self._waiting.popleft()
                self._image, changes = replay_batch(self._image, batch)
                self._listener.handle_commit(batch, self._image, changes)
                if (snapshot is None or snapshot.done()) and self._is_snapshot_due(batch.timestamp_ms):
                    snapshot = tasks.create_task(self._make_snapshot(self._image))

    def close(self) -> None:
        self._is_closed = True
        self._wake.set()

    def _write(self, batch: MetadataBatch) -> None:
        """In a thread, one at a time."""
        encoded = encode_batch(batch)
        if self._file is None or self._roll_at == batch.base_offset:
            path = self._directory / f"{batch.base_offset:020d}.log"
            self._file, self._position, self._roll_at = self._disk.open(path, create=True), 0, None
            self._file.write_at(0, (encoded,))
            self._file.sync()
            self._disk.sync_directory(self._directory)
        else:
            self._file.write_at(self._position, (encoded,))
            self._file.sync()
        self._position += len(encoded)
        self._bytes_since_snapshot += len(encoded)

    # ---- snapshots -------------------------------------------------------------------------------------

    def _is_snapshot_due(self, now_ms: int) -> bool:
        if not self._snapshot_ms:
            self._snapshot_ms = now_ms
        interval_ms = self._config.max_snapshot_interval_ms
        return self._bytes_since_snapshot >= self._config.max_record_bytes_between_snapshots or (
            bool(interval_ms) and now_ms - self._snapshot_ms >= interval_ms
        )

    async def _make_snapshot(self, image: MetadataImage) -> None:
        self._bytes_since_snapshot, self._snapshot_ms = 0, image.timestamp_ms
        # Nothing is being written at this moment, so the next batch can begin a segment of its own.
        self._roll_at = image.version + 1
        try:
            await asyncio.to_thread(self._write_snapshot, image)
        except OSError as error:
            # Nothing is lost: the segments stay, and the next snapshot may find room.
            log.error("No snapshot of the metadata could be written: %s", error)

    def _write_snapshot(self, image: MetadataImage) -> None:
        """In a thread of its own, beside the one that appends; it touches no file that is appended to."""
        path = self._directory / f"{image.version + 1:020d}-{image.epoch:010d}.checkpoint"
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        file = self._disk.open(temporary, create=True)
        file.truncate(0)
        position = 0
        for encoded in encode_snapshot(image):
            file.write_at(position, (encoded,))
            position += len(encoded)
            time.sleep(SNAPSHOT_PAUSE_SECONDS)
        file.sync()
        self._disk.rename(temporary, path)
        self._disk.sync_directory(self._directory)
        snapshots, segments = self._list_files()
        self._remove_files(
            [other for other in snapshots if other.name < path.name], _covered(segments, image)
        )


def _covered(segments: list[_Segment], image: MetadataImage) -> list[_Segment]:
    """The segments of which the snapshot `image` has every record; the last one never is among them."""
    return [
        segment for segment, following in pairwise(segments) if following.base_offset <= image.version + 1
    ]


def _is_whole(content: bytes, position: int) -> bool:
    """Whether length and CRC of the batch at `position` agree, whatever its records say."""
    try:
        check_batch(content, position)
    except KafkaError:
        return False
    return True


def _has_batch_after(content: bytes, position: int) -> bool:
    """Whether a whole batch stands anywhere behind `position`: then what is there is damage, no torn tail."""
    magic = bytes((MAGIC,))
    found = content.find(magic, position + 1 + 16)
    while found >= 0:
        start = found - 16
        if len(content) - start >= HEADER_SIZE:
            header = read_header(content, start)
            # Only what looks like one of ours is worth a CRC; random bytes would make this quadratic.
            is_likely = (
                HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= len(content) - start - LOG_OVERHEAD
                and header.size_bytes <= MAX_BATCH_BYTES
                and header.last_offset_delta == header.records_count - 1
                and header.base_offset > 0
            )
            if is_likely and _is_whole(content, start):
                return True
        found = content.find(magic, found + 1)
    return False


def _damaged(path: Path, position: int, problem: str) -> KafkaError:
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"The metadata log is damaged: {path} at position {position}: {problem} Restore it from a backup.",
    )

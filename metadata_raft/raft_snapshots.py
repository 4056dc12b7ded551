"""The snapshots of one voter: `OFFSET-EPOCH.checkpoint`, made in a worker thread, served in chunks, received.

A snapshot is in place from the moment its file has its name, and it has its name only after its content is
synced. The latest one is kept open, so whoever is being sent it gets it to the end while a newer one takes
its place. One that is damaged is named and refused; nothing is guessed in its stead. A voter that is not
alone sets it aside (`set_aside`), and is sent the leader's.
"""

import re
import time
from pathlib import Path
from typing import Final, NamedTuple

from ottla.logstore.disk import Disk, DiskFile
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.raft_journal import EMPTY_START, LogStart
from ottla.metadata_raft.snapshot import SnapshotContent, encode_snapshot, read_snapshot
from ottla.metadata_raft.voters import voters_of_image

# 200,000 partitions need some 20 MB; a leader that announces more than this is not believed.
MAX_SNAPSHOT_BYTES: Final = 1 << 30
# Between two batches of a snapshot its thread steps aside, so that the event loops get their turn.
PAUSE_SECONDS: Final = 0.001
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_TEMPORARY_SUFFIX: Final = ".tmp"
RESTORE: Final = " Restore it from a backup."
_DAMAGED_SUFFIX: Final = ".damaged"  # no start reads these


class StoredSnapshot(NamedTuple):
    """A snapshot on disk, open to be served."""

    start: LogStart  # of the log behind it
    image: MetadataImage
    file: DiskFile
    size_bytes: int


class SnapshotStore:
    """`write` and `install` block and run in a thread, one at a time; the rest belongs to the engine."""

    def __init__(self, directory: Path, disk: Disk, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._directory = directory
        self._disk = disk
        self._pause_seconds = pause_seconds
        self.latest: StoredSnapshot | None = None

    @property
    def start(self) -> LogStart:
        """Where the log begins."""
        return EMPTY_START if self.latest is None else self.latest.start

    def load(self, empty: MetadataImage) -> MetadataImage:
        """The image of the last snapshot, `empty` without one; KAFKA_STORAGE_ERROR names a damaged one."""
        for name in self._disk.list_directory(self._directory):
            if name.endswith(_TEMPORARY_SUFFIX):
                self._disk.remove(self._directory / name)
        paths = self._paths()
        if not paths:
            return empty
        path = paths[-1]
        content = self._disk.read_file(path)
        try:
            self.latest = self._stored(path, self._decode(path, content, empty), len(content))
        except KafkaError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"The metadata snapshot {path} is damaged: {error.detail}{RESTORE}",
            ) from None
        self._remove_below(path)
        return self.latest.image

    def last_end(self) -> tuple[int, int]:
        """Return (term, end offset) of the last snapshot on disk, as its name says."""
        match = _SNAPSHOT_NAME.fullmatch(self._paths()[-1].name)
        assert match is not None
        return int(match[2]), int(match[1])

    def set_aside(self) -> None:
        """Give the last snapshot on disk, which is damaged, a name under which no start finds it."""
        path = self._paths()[-1]
        self._disk.rename(path, path.with_name(path.name + _DAMAGED_SUFFIX))
        self._disk.sync_directory(self._directory)

    def _paths(self) -> list[Path]:
        names = self._disk.list_directory(self._directory)
        return [self._directory / name for name in names if _SNAPSHOT_NAME.fullmatch(name)]

    @staticmethod
    def _decode(path: Path, content: bytes, empty: MetadataImage) -> SnapshotContent:
        match = _SNAPSHOT_NAME.fullmatch(path.name)
        assert match is not None
        return read_snapshot(content, empty=empty, version=int(match[1]) - 1, epoch=int(match[2]))

    def _stored(self, path: Path, content: SnapshotContent, size_bytes: int) -> StoredSnapshot:
        image = content.image
        # A snapshot of the time before the quorum has no index; its lone voter may count offsets instead.
        index = image.version + 1 if content.raft_index < 0 else content.raft_index
        start = LogStart(index, image.epoch, image.version + 1, voters_of_image(image))
        return StoredSnapshot(start, image, self._disk.open(path), size_bytes)

    def _remove_below(self, path: Path) -> None:
        for other in self._paths():
            if other.name < path.name:
                self._disk.remove(other)

    # ---- making ----------------------------------------------------------------------------------------

    def write(self, image: MetadataImage, *, index: int) -> StoredSnapshot:
        """Store a snapshot of `image`, which the entry `index` made; durable when this returns."""
        path = self._path(image.version + 1, image.epoch)
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        file = self._disk.open(temporary, create=True, is_private=True)
        file.truncate(0)
        position = 0
        for encoded in encode_snapshot(image, index=index):
            file.write_at(position, (encoded,))
            position += len(encoded)
            if self._pause_seconds:
                time.sleep(self._pause_seconds)
        self._put_in_place(file, temporary, path)
        return self._stored(path, SnapshotContent(image, index), position)

    def install(self, content: bytes, *, end_offset: int, term: int, empty: MetadataImage) -> StoredSnapshot:
        """Store what a leader sent; CORRUPT_MESSAGE, and nothing stored, if it is not whole."""
        path = self._path(end_offset, term)
        decoded = self._decode(path, content, empty)
        if decoded.raft_index < 0 or not decoded.image.voters:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, "A snapshot from the leader has no index or no voters."
            )
        temporary = path.with_name(path.name + _TEMPORARY_SUFFIX)
        file = self._disk.open(temporary, create=True, is_private=True)
        file.truncate(0)
        file.write_at(0, (content,))
        self._put_in_place(file, temporary, path)
        return self._stored(path, decoded, len(content))

    def _path(self, end_offset: int, term: int) -> Path:
        return self._directory / f"{end_offset:020d}-{term:010d}.checkpoint"

    def _put_in_place(self, file: DiskFile, temporary: Path, path: Path) -> None:
        file.sync()
        self._disk.rename(temporary, path)
        self._disk.sync_directory(self._directory)
        self._remove_below(path)

    # ---- serving ---------------------------------------------------------------------------------------

    def read_chunk(self, snapshot: StoredSnapshot, position: int, size_bytes: int) -> bytes:
        """Some bytes of a snapshot, which may have been replaced meanwhile."""
        return snapshot.file.read_at(position, size_bytes)


class SnapshotReceiver:
    """Collects the chunks of one snapshot from the leader; anything that does not fit begins it anew."""

    def __init__(self) -> None:
        self._start: tuple[int, int, int] | None = None  # (term, index, end offset) of what is being received
        self._content = bytearray()

    def take(
        self, start: tuple[int, int, int], *, position: int, total_bytes: int, chunk: bytes
    ) -> bytes | None:
        """Take in one chunk; the whole content once it is there. `wanted` says which comes next."""
        if start != self._start:
            self._start, self._content = start, bytearray()
        fits = position == len(self._content) and position + len(chunk) <= total_bytes <= MAX_SNAPSHOT_BYTES
        if fits:
            self._content += chunk
        if not fits or len(self._content) < total_bytes:
            return None
        content = bytes(self._content)
        self.forget()
        return content

    @property
    def wanted(self) -> int:
        """The position of the next chunk."""
        return len(self._content)

    def forget(self) -> None:
        """Drop what was received."""
        self._start, self._content = None, bytearray()

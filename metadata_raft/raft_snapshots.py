"""Stores the snapshots of one voter, `OFFSET-EPOCH.checkpoint`, serves them in chunks, and receives them.

A snapshot is valid once its file has its name, and the file is renamed only after its content is synced. The
latest one is kept open, so a peer receives it to the end even if a newer one replaces it. A damaged one is an
error that names it; nothing is guessed. A voter that is not alone sets it aside (`set_aside`), and gets the
leader's.
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

# 200,000 partitions need some 20 MB; a snapshot that a leader announces as larger than this is rejected.
MAX_SNAPSHOT_BYTES: Final = 1 << 30
# The thread that writes a snapshot sleeps between batches, so that the event loops can run.
PAUSE_SECONDS: Final = 0.001
_SNAPSHOT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_TEMPORARY_SUFFIX: Final = ".tmp"
RESTORE: Final = " Restore it from a backup."
_DAMAGED_SUFFIX: Final = ".damaged"  # ignored at start


class StoredSnapshot(NamedTuple):
    """A snapshot on disk, open to be served."""

    start: LogStart  # of the log after it
    image: MetadataImage
    file: DiskFile
    size_bytes: int


class SnapshotStore:
    """The snapshots on disk. `write` and `install` block and run in a thread, one at a time."""

    def __init__(self, directory: Path, disk: Disk, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._directory = directory
        self._disk = disk
        self._pause_seconds = pause_seconds
        self.latest: StoredSnapshot | None = None

    @property
    def start(self) -> LogStart:
        """The start of the log."""
        return EMPTY_START if self.latest is None else self.latest.start

    def load(self, empty: MetadataImage) -> MetadataImage:
        """Return the image of the last snapshot, or `empty`; KAFKA_STORAGE_ERROR if it is damaged."""
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
        """Return (term, end offset) of the last snapshot on disk, from its name."""
        match = _SNAPSHOT_NAME.fullmatch(self._paths()[-1].name)
        assert match is not None
        return int(match[2]), int(match[1])

    def set_aside(self) -> None:
        """Rename the last snapshot on disk, which is damaged, so that no start reads it."""
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
        # A snapshot from before the quorum existed has no index; its lone voter may count offsets instead.
        index = image.version + 1 if content.raft_index < 0 else content.raft_index
        start = LogStart(index, image.epoch, image.version + 1, voters_of_image(image))
        return StoredSnapshot(start, image, self._disk.open(path), size_bytes)

    def _remove_below(self, path: Path) -> None:
        for other in self._paths():
            if other.name < path.name:
                self._disk.remove(other)

    # ---- writing ---------------------------------------------------------------------------------------

    def write(self, image: MetadataImage, *, index: int) -> StoredSnapshot:
        """Write a snapshot of `image`, whose last entry is `index`, durably."""
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
        """Store a snapshot from the leader, durably; CORRUPT_MESSAGE if it is not valid."""
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
        """Return bytes of a snapshot, which a newer one may have replaced."""
        return snapshot.file.read_at(position, size_bytes)


class SnapshotReceiver:
    """A buffer for the chunks of a snapshot from the leader; a chunk of another snapshot clears it."""

    def __init__(self) -> None:
        self._start: tuple[int, int, int] | None = None  # (term, index, end offset) of what is being received
        self._content = bytearray()

    def take(
        self, start: tuple[int, int, int], *, position: int, total_bytes: int, chunk: bytes
    ) -> bytes | None:
        """Add a chunk; return the content once it is complete, else None. `wanted` is the next position."""
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
        """Drop the received chunks."""
        self._start, self._content = None, bytearray()

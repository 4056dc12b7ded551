"""The offset checkpoints of all log directories, which are written only when they have changed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ottla.logstore.checkpoint import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from ottla.logstore.disk import Disk
from ottla.logstore.log_dir import LogDir, PendingFile, pending_checkpoint
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.volume import mutex
from ottla.logstore.words.topic_partition import TopicPartition


def _log_start_offset(log: PartitionLog) -> int | None:
    # Without an entry the log starts at the base offset of its first segment.
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None


_OFFSETS: Mapping[str, Callable[[PartitionLog], int | None]] = {
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: _log_start_offset,
    REPLICATION_OFFSET_CHECKPOINT: lambda log: log.high_watermark,
}


class GatheredOffsets:
    """The offsets of logs for some checkpoints, gathered on the loop for a few logs at a time."""

    def __init__(self, names: Sequence[str], number: int) -> None:
        self.names = names
        self.number = number
        # By directory and name. The directory is a text, because comparing paths takes ten times as long.
        self.offsets: dict[tuple[str, str], dict[TopicPartition, int]] = {}

    def add(self, log: PartitionLog) -> None:
        """Add the current offsets of a log."""
        place = str(log.directory).rpartition("/")[0]
        for name in self.names:
            offset = _OFFSETS[name](log)
            if offset is not None:
                self.offsets.setdefault((place, name), {})[log.topic_partition] = offset

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove the offsets of a log that was deleted meanwhile, as another log may have its name now."""
        for offsets in self.offsets.values():
            offsets.pop(topic_partition, None)


class LogCheckpoints:
    """The content of each checkpoint when it was last written, so that an idle node needs no fsync."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._newest: dict[Path, bytes] = {}
        self._written: dict[Path, bytes] = {}
        self._numbers: dict[Path, int] = {}  # the number of the gathering that has a file's newest content
        self._last_number = 0
        self._mutex = mutex()

    def changed(
        self, log_dirs: Sequence[LogDir], logs: Sequence[PartitionLog], names: Sequence[str] = ()
    ) -> list[PendingFile]:
        """Return the checkpoints of these names that have changed since they were written, for `write`.

        The default is recovery points, start offsets and high watermarks.
        """
        gathered = self.gather(names)
        for log in logs:
            gathered.add(log)
        return [
            file for file in self._files(log_dirs, gathered) if self._written.get(file.path) != file.content
        ]

    def gather(self, names: Sequence[str] = ()) -> "GatheredOffsets":
        """Begin to gather the offsets for checkpoints of these names, or of all three."""
        self._last_number += 1
        return GatheredOffsets(tuple(names) or tuple(_OFFSETS), self._last_number)

    def write_gathered(
        self, log_dirs: Sequence[LogDir], gathered: "GatheredOffsets"
    ) -> list[tuple[Path, OSError]]:
        """Write the checkpoints that have changed; return (log directory, error) of those that failed.

        Blocks; may run in any thread, as sorting and encoding the offsets of ten thousand logs takes 30 ms.
        """
        return self.write(self._files(log_dirs, gathered))

    def _files(self, log_dirs: Sequence[LogDir], gathered: "GatheredOffsets") -> list[PendingFile]:
        files: list[PendingFile] = []
        for log_dir in log_dirs:
            for name in gathered.names:
                offsets = gathered.offsets.get((str(log_dir.path), name), {})
                file = pending_checkpoint(log_dir, name, offsets)
                with self._mutex:
                    if self._numbers.get(file.path, 0) > gathered.number:
                        continue  # another thread has newer offsets
                    self._numbers[file.path] = gathered.number
                    self._newest[file.path] = file.content
                files.append(file)
        return files

    def write(self, pending: Iterable[PendingFile]) -> list[tuple[Path, OSError]]:
        """Write the files, or newer contents of them; return (log directory, error) of those that failed.

        Blocks; may run in any thread.
        """
        failed: list[tuple[Path, OSError]] = []
        for file in pending:
            with self._mutex:
                content = self._newest.get(file.path, file.content)  # another thread may have a newer one
                if self._written.get(file.path) == content:
                    continue
                try:
                    self._disk.write_file(file.path, content, sync=True)
                    self._written[file.path] = content
                except OSError as error:
                    failed.append((file.log_dir, error))
        return failed

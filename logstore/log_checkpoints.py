"""The offset checkpoints of all log directories: which of them changed since they were written, and how."""

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
from ottla.logstore.volume import turn


def _log_start_offset(log: PartitionLog) -> int | None:
    # Without an entry the log starts where its first segment does.
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None


_OFFSETS: Mapping[str, Callable[[PartitionLog], int | None]] = {
    RECOVERY_POINT_CHECKPOINT: lambda log: log.recovery_point,
    LOG_START_OFFSET_CHECKPOINT: _log_start_offset,
    REPLICATION_OFFSET_CHECKPOINT: lambda log: log.high_watermark,
}


class LogCheckpoints:
    """What was written, by file: an idle node needs no fsync every few seconds."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._newest: dict[Path, bytes] = {}
        self._written: dict[Path, bytes] = {}
        self._turn = turn()

    def changed(
        self, log_dirs: Sequence[LogDir], logs: Sequence[PartitionLog], names: Sequence[str] = ()
    ) -> list[PendingFile]:
        """The checkpoints of these names that differ from what was written, for `write`.

        By default recovery points, start offsets and high watermarks.
        """
        pending: list[PendingFile] = []
        for log_dir in log_dirs:
            place = str(log_dir.path)  # to compare the paths themselves takes ten times as long
            inside = [log for log in logs if str(log.directory).rpartition("/")[0] == place]
            for name in names or tuple(_OFFSETS):
                offset_of = _OFFSETS[name]
                offsets = {
                    log.topic_partition: offset for log in inside if (offset := offset_of(log)) is not None
                }
                file = pending_checkpoint(log_dir, name, offsets)
                self._newest[file.path] = file.content
                if self._written.get(file.path) != file.content:
                    pending.append(file)
        return pending

    def write(self, pending: Iterable[PendingFile]) -> list[tuple[Path, OSError]]:
        """Write the files, or newer ones; (log directory, error) of those that failed. Blocks, any thread."""
        failed: list[tuple[Path, OSError]] = []
        for file in pending:
            with self._turn:
                content = self._newest.get(file.path, file.content)  # it may be older than another thread's
                if self._written.get(file.path) == content:
                    continue
                try:
                    self._disk.write_file(file.path, content, sync=True)
                    self._written[file.path] = content
                except OSError as error:
                    failed.append((file.log_dir, error))
        return failed

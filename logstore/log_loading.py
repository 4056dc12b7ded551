"""The search for the logs of a log directory at start, and their opening, perhaps in several threads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ottla.logstore.checkpoint import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, read_partition_metadata
from ottla.logstore.disk import Disk
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_dir import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    NOT_LOGS,
    STRAY_SUFFIX,
    LogDir,
    PartitionDirectory,
    parse_directory_name,
    read_checkpoints,
    take_clean_shutdown_marker,
)
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.segment import LOG_SUFFIX
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLog:
    """A partition's directory that was found at start."""

    disk: Disk
    log_dir: LogDir
    partition: PartitionDirectory
    path: Path
    clean_shutdown: bool
    config: LogConfig
    now_ms: int

    @property
    def is_future(self) -> bool:
        """True if it is a copy that moves in from another log directory."""
        return self.partition.suffix == FUTURE_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLog:
    """The result of opening a log: the log, or the error."""

    found: FoundLog
    log: PartitionLog | None
    error: KafkaError | OSError | None = None


class ParallelMap(Protocol):
    """The builtin `map`, or the `map` of a thread pool."""

    def __call__(
        self, function: Callable[[FoundLog], OpenedLog], found: Iterable[FoundLog], /
    ) -> Iterable[OpenedLog]: ...


@dataclass(slots=True)
class DirectoryListing:
    """The content of a log directory: logs, deleted logs, and a sentence for each oddity."""

    logs: list[FoundLog] = field(default_factory=list)
    deleted: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def list_logs(
    disk: Disk, log_dir: LogDir, config_of: Callable[[str], LogConfig], *, now_ms: int
) -> DirectoryListing:
    """Remove the marker of a clean shutdown, read the checkpoints and list the logs.

    Blocks; OSError if the disk fails.
    """
    clean_shutdown = take_clean_shutdown_marker(disk, log_dir)
    listing = DirectoryListing(notes=read_checkpoints(disk, log_dir))
    for name in disk.list_directories(log_dir.path):
        if name in NOT_LOGS:
            continue
        partition = parse_directory_name(name)
        path = log_dir.path / name
        if partition is None:
            listing.notes.append(f"{path} does not have the name of a partition; it is ignored.")
        elif partition.suffix == DELETE_SUFFIX:
            listing.deleted.append(path)
        elif partition.suffix == STRAY_SUFFIX:
            listing.notes.append(f"{path} belongs to no topic; remove it if you do not need it.")
        elif not _may_be_log(disk, path):
            listing.notes.append(f"{path} has the name of a partition but contains no log; it is ignored.")
        else:
            listing.logs.append(
                FoundLog(
                    disk=disk,
                    log_dir=log_dir,
                    partition=partition,
                    path=path,
                    clean_shutdown=clean_shutdown,
                    config=config_of(partition.topic_partition.topic),
                    now_ms=now_ms,
                )
            )
    return listing


def _may_be_log(disk: Disk, path: Path) -> bool:
    """Return True if a directory has files of a log, or is empty; other programs may use such a name, too."""
    if disk.exists(path / PARTITION_METADATA):
        return True
    names = disk.list_directory(path)
    is_empty = not names and not disk.list_directories(path)
    return is_empty or any(name.endswith(LOG_SUFFIX) or name == LEADER_EPOCH_CHECKPOINT for name in names)


def open_log(found: FoundLog) -> OpenedLog:
    """Open a log, and recover it unless the shutdown was clean. Blocks; may run in any thread."""
    name, log_dir = found.partition.topic_partition, found.log_dir
    try:
        log = PartitionLog.open(
            disk=found.disk,
            directory=found.path,
            topic_partition=name,
            topic_id=read_partition_metadata(found.disk, found.path) or ZERO_UUID,
            config=found.config,
            now_ms=found.now_ms,
            clean_shutdown=found.clean_shutdown,
            # The offsets in the checkpoints are those of the log that is copied.
            log_start_offset=0 if found.is_future else log_dir.log_start_offsets.get(name, 0),
            recovery_point=0 if found.is_future else log_dir.recovery_points.get(name, 0),
            compacted_to=0 if found.is_future else log_dir.compacted_to(name),
        )
    except (KafkaError, OSError) as error:
        return OpenedLog(found=found, log=None, error=error)
    return OpenedLog(found=found, log=log)

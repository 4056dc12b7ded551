"""The logs of a node in all its log directories: found at start, created, deleted, checkpointed, closed.

One owner, the event loop, calls all methods, except those whose docstring says that they block. Long work is
handed out: `load` takes a `map` that may run in threads, and `gathered_writer` and `removals` return work for
a thread.

Start: `acquire` (locks), `identity` (the owner of the directories), `claim` (takes possession), `load`, and
when the metadata are known `set_strays_apart`. Stop: `close`.
"""

import errno
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ottla.logstore.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    write_partition_metadata,
)
from ottla.logstore.disk import Disk
from ottla.logstore.log_checkpoints import GatheredOffsets, LogCheckpoints
from ottla.logstore.log_config import LogConfig
from ottla.logstore.log_dir import (
    CLEAN_SHUTDOWN_FILE,
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    LogDir,
    PendingFile,
    clean_shutdown_content,
    clean_shutdown_epoch,
    directory_name,
    pending_checkpoint,
    storage_error,
    suffixed_name,
)
from ottla.logstore.log_loading import FoundLog, ParallelMap, list_logs, open_log
from ottla.logstore.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    check_owner,
    read_meta_properties,
    write_meta_properties,
)
from ottla.logstore.partition_log import PartitionLog
from ottla.logstore.producer_tally import ProducerTally
from ottla.logstore.removals import Removals
from ottla.logstore.volume import DirectoryLock
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition

NODE_DATA: Final = "data"  # the log directory in each directory that `ottla cluster up` makes
_RENAMED_TO_STRAY: Final = f"it is renamed to {STRAY_SUFFIX} and kept: remove it if you do not need it."


class LogManager:
    """The logs of this node by partition, and its log directories."""

    def __init__(
        self,
        *,
        log_dirs: Sequence[Path],
        disk: Disk,
        now_ms: Callable[[], int],
        unique: Callable[[], bytes],
        lock: Callable[[Path], DirectoryLock] | None = DirectoryLock,
        producer_bytes: int = 2**63 - 1,
        on_offline: Callable[[LogDir, list[TopicPartition]], None] | None = None,
    ) -> None:
        """Create the manager; `acquire` must follow.

        `on_offline` is called once for each directory that fails, with the partitions that were in it.
        `unique` returns 16 random bytes; `producer_bytes` limits the memory for the producer state of all
        logs. A `lock` of None is for disks that are not the operating system's.
        """
        if len(set(log_dirs)) != len(log_dirs) or not log_dirs:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "log.dirs must name at least one directory, each once."
            )
        self.disk = disk
        self.dirs = [LogDir(path) for path in log_dirs]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.future_logs: dict[TopicPartition, PartitionLog] = {}
        self.producer_tally = ProducerTally(producer_bytes)
        self.removals = Removals(disk, now_ms)
        # Sentences for the owner to log: notes are for information, warnings for an operator.
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self._on_offline = on_offline
        self._offline_partitions: dict[TopicPartition, LogDir] = {}
        self._preferred_dirs: dict[TopicPartition, LogDir] = {}
        self._now_ms = now_ms
        self._unique = unique
        self._lock = lock
        self._locks: list[DirectoryLock] = []
        self._checkpoints = LogCheckpoints(disk)
        # Deleted logs that may still be in the checkpoints; new logs must not inherit their offsets.
        self._stale_in_checkpoints: set[TopicPartition] = set()

    def take_notes(self) -> tuple[list[str], list[str]]:
        """Hand over the notes and the warnings since the last call."""
        taken = self.notes, self.warnings
        self.notes, self.warnings = [], []
        return taken

    # Start.

    def acquire(self) -> None:
        """Create and lock the directories and read their owners; take one that fails offline. Blocks.

        INVALID_CONFIG if another node has locked one, KAFKA_STORAGE_ERROR if all have failed.
        """
        for log_dir in self.dirs:
            try:
                self.disk.make_directory(log_dir.path, is_private=True)
                if self._lock is not None:
                    self._locks.append(self._lock(log_dir.path))
                log_dir.properties = read_meta_properties(self.disk, log_dir.path)
            except OSError as error:
                self.take_offline(log_dir, f"it cannot be used: {error}")
            except KafkaError:
                self.release()
                raise
        self._check_any_online()

    def identity(self) -> MetaProperties | None:
        """Return the cluster and node that own the directories; None if all are new.

        INCONSISTENT_CLUSTER_ID or INVALID_CONFIG if two directories belong to different clusters or nodes.
        """
        owned = [log_dir.properties for log_dir in self.dirs if log_dir.properties is not None]
        for log_dir in self.dirs:
            if log_dir.properties is not None:
                check_owner(
                    log_dir.properties, log_dir.path, cluster_id=owned[0].cluster_id, node_id=owned[0].node_id
                )
        return owned[0] if owned else None

    def clean_shutdown_epoch(self) -> int:
        """Return the broker epoch of the last run, if it ended cleanly and all directories agree, or -1.

        Blocks. It must be called before `load`, which removes the markers of the clean shutdown.
        """
        epochs = {clean_shutdown_epoch(self.disk, log_dir) for log_dir in self.dirs}
        return epochs.pop() if len(epochs) == 1 else -1

    def claim(self, *, cluster_id: bytes, node_id: int) -> None:
        """Take possession of the new directories, and reject those of another cluster or node. Blocks.

        INCONSISTENT_CLUSTER_ID or INVALID_CONFIG for a directory of another cluster or node.
        KAFKA_STORAGE_ERROR for a directory with logs but without meta.properties, whose loss must not turn
        the logs of one cluster into those of another; also for one that contains directories of other nodes,
        and if all directories have failed.
        """
        for log_dir in self.online_dirs:
            if log_dir.properties is not None:
                check_owner(log_dir.properties, log_dir.path, cluster_id=cluster_id, node_id=node_id)
                continue
            properties = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=self._unique())
            try:
                self._refuse_other_nodes(log_dir)
                if self._holds_logs(log_dir):
                    raise KafkaError(
                        ErrorCode.KAFKA_STORAGE_ERROR,
                        f"The log directory {log_dir.path} holds logs, but no meta.properties "
                        "that names their cluster and node: restore that file, or use an empty "
                        "directory.",
                    )
                write_meta_properties(self.disk, log_dir.path, properties)
            except OSError as error:
                self.take_offline(log_dir, f"meta.properties cannot be written: {error}")
            log_dir.properties = properties
        self._check_any_online()

    def holds_logs(self) -> bool:
        """Return True if any of the directories has a log. Blocks."""
        return any(self._holds_logs(log_dir) for log_dir in self.online_dirs)

    def _holds_logs(self, log_dir: LogDir) -> bool:
        """Return True if a log directory has a partition.metadata; the name of a directory is no proof."""
        return any(
            self.disk.exists(log_dir.path / name / PARTITION_METADATA)
            for name in self.disk.list_directories(log_dir.path)
        )

    def _refuse_other_nodes(self, log_dir: LogDir) -> None:
        """Reject a new log directory that contains those of other nodes, as `ottla cluster up` makes them."""
        for name in self.disk.list_directories(log_dir.path):
            inside = log_dir.path / name
            if any(
                self.disk.exists(directory / META_PROPERTIES) for directory in (inside, inside / NODE_DATA)
            ):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{log_dir.path} holds the data of other nodes ({name}): use an empty "
                    "directory (--data or log.dirs).",
                )

    def load(self, config_of: Callable[[str], LogConfig], *, parallel: ParallelMap = map) -> None:
        """Open every log in every directory; `config_of` returns a topic's settings. Blocks.

        After an unclean shutdown the logs are read from their recovery points on, so pass a thread pool's
        `map`. KAFKA_STORAGE_ERROR if a partition has two logs, or if all directories have failed.
        """
        found: list[FoundLog] = []
        now_ms = self._now_ms()
        for log_dir in self.online_dirs:
            try:
                listing = list_logs(self.disk, log_dir, config_of, now_ms=now_ms)
            except OSError as error:
                self.take_offline(log_dir, f"it cannot be read: {error}")
                continue
            found += listing.logs
            self.notes += listing.notes
            for path in listing.deleted:
                self.removals.add_directory(path, 0)
        for opened in parallel(open_log, found):
            log_dir = opened.found.log_dir
            if opened.log is None:
                self.take_offline(log_dir, f"{opened.found.path} cannot be opened: {opened.error}")
            elif log_dir.is_online:
                self._add_found(opened.found, opened.log)
        for log_dir in self.online_dirs:
            for offsets in (log_dir.recovery_points, log_dir.log_start_offsets, log_dir.high_watermarks):
                self._stale_in_checkpoints |= offsets.keys() - self.logs.keys()
        self._check_any_online()

    def _add_found(self, found: FoundLog, log: PartitionLog) -> None:
        name = found.partition.topic_partition
        logs = self.future_logs if found.is_future else self.logs
        other = logs.get(name)
        if other is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{name} is in two directories, {other.directory} and {log.directory}: remove the wrong one.",
            )
        self.notes += log.notes
        log.on_failure = self._on_log_failure
        log.count_producers_in(self.producer_tally)
        if not found.is_future:
            log.update_high_watermark(found.log_dir.high_watermarks.get(name, 0))
        logs[name] = log

    def set_strays_apart(self, is_known: Callable[[TopicPartition, bytes], bool]) -> list[TopicPartition]:
        """Rename logs that are not in the metadata (name, topic id) to `-stray`; return their names.

        Renamed logs are kept until an operator removes them.

        A copy that was moving in continues if the log that it copies exists. If that is missing, the node
        crashed while it put the copy in its place, which is finished here.
        """
        strays = [name for name, log in self.logs.items() if not is_known(name, log.topic_id)]
        for name in strays:
            directory = self.logs[name].directory
            self.notes.append(f"{directory} belongs to no topic any more; {_RENAMED_TO_STRAY}")
            self._retire(name, STRAY_SUFFIX)
        for name, future in tuple(self.future_logs.items()):
            log = self.logs.get(name)
            if log is not None and log.topic_id != future.topic_id:
                self.notes.append(
                    f"{future.directory} would have replaced the log of a deleted topic; it is deleted."
                )
                self.abandon_future(name)
            elif log is None and not self.offline_dirs:
                self._resolve_orphan_future(name, is_known(name, future.topic_id))
        return strays

    def _resolve_orphan_future(self, name: TopicPartition, is_known: bool) -> None:
        future = self.future_logs.pop(name)
        if not is_known or future.topic_id == ZERO_UUID:
            self.notes.append(f"{future.directory} belongs to no topic any more; {_RENAMED_TO_STRAY}")
            self.rename_away(future, STRAY_SUFFIX)
            return
        self.notes.append(
            f"{future.directory} had caught up with the log that it replaces, and is now in use."
        )
        self._put_in_place(future)
        # The offsets are in the checkpoints of the directory from which it moved.
        start = max(log_dir.log_start_offsets.get(name, 0) for log_dir in self.dirs)
        high_watermark = max(log_dir.high_watermarks.get(name, 0) for log_dir in self.dirs)
        future.update_high_watermark(max(start, high_watermark))
        future.increment_log_start_offset(min(start, future.high_watermark))
        self.logs[name] = future

    # Logs.

    def find(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition, or None; KAFKA_STORAGE_ERROR if its directory is offline."""
        log_dir = self._offline_partitions.get(topic_partition)
        if log_dir is not None:
            raise storage_error(log_dir, topic_partition)
        return self.logs.get(topic_partition)

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, *, is_new: bool = False
    ) -> PartitionLog:
        """Return the log of a partition; create a missing one in the directory with the fewest partitions.

        A directory that AlterReplicaLogDirs has named for the partition takes precedence.

        While a directory is offline, a log is created only if the partition `is_new`, as that of any other
        may be there; otherwise, and if the disk fails, KAFKA_STORAGE_ERROR. The log of an older topic of the
        same name is renamed to `-stray`.
        """
        log = self.find(topic_partition)
        if log is not None and log.topic_id not in (topic_id, ZERO_UUID):
            self.notes.append(
                f"{log.directory} belongs to a deleted topic of the same name; {_RENAMED_TO_STRAY}"
            )
            self._retire(topic_partition, STRAY_SUFFIX)
            log = None
        if log is not None:
            log.update_config(config)
            if log.topic_id == ZERO_UUID != topic_id:
                log.topic_id = topic_id
                write_partition_metadata(self.disk, log.directory, topic_id, sync=True)
            return log
        offline = next((log_dir for log_dir in self.dirs if not log_dir.is_online), None)
        if offline is not None and not is_new:
            raise storage_error(offline, topic_partition)
        if topic_partition in self._stale_in_checkpoints:
            self._stale_in_checkpoints.clear()
            self.report_failures(self.write_pending(self.pending_checkpoints()))
        log_dir = self._dir_for(topic_partition)
        path = log_dir.path / directory_name(topic_partition)
        log = self.logs[topic_partition] = self._create(log_dir, path, topic_partition, topic_id, config, 0)
        return log

    def _dir_for(self, topic_partition: TopicPartition) -> LogDir:
        preferred = self._preferred_dirs.pop(topic_partition, None)
        if preferred is not None and preferred.is_online:
            return preferred
        if len(self.dirs) == 1 and self.dirs[0].is_online:
            return self.dirs[0]
        counts = {log_dir.path: 0 for log_dir in self.online_dirs}
        for log in (*self.logs.values(), *self.future_logs.values()):
            counts[log.directory.parent] += 1
        if not counts:
            raise storage_error(self.dirs[0], topic_partition)
        return min(self.online_dirs, key=lambda log_dir: counts[log_dir.path])

    def _create(
        self,
        log_dir: LogDir,
        path: Path,
        topic_partition: TopicPartition,
        topic_id: bytes,
        config: LogConfig,
        start_offset: int,
    ) -> PartitionLog:
        try:
            self.disk.make_directory(path)
            # Not flushed to disk: a topic of a thousand partitions would wait for seconds. The metadata have
            # the id, and a file that a power cut left empty counts as missing.
            write_partition_metadata(self.disk, path, topic_id, sync=False)
            log = PartitionLog.open(
                disk=self.disk,
                directory=path,
                topic_partition=topic_partition,
                topic_id=topic_id,
                config=config,
                now_ms=self._now_ms(),
                clean_shutdown=True,
                log_start_offset=start_offset,
            )
        except (OSError, KafkaError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE):
                # The disk works: only the request for too many partitions fails.
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{path} cannot be created because this process has too many open files: "
                    "raise its limit (ulimit -n).",
                ) from error
            self.take_offline(log_dir, f"{path} cannot be created: {error}")
            raise storage_error(log_dir, topic_partition) from error
        log.on_failure = self._on_log_failure
        log.count_producers_in(self.producer_tally)
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Take the partition's logs out of service; their files are removed after file.delete.delay.ms."""
        self._preferred_dirs.pop(topic_partition, None)
        self._offline_partitions.pop(topic_partition, None)
        self.abandon_future(topic_partition)
        if topic_partition in self.logs:
            self._retire(topic_partition, DELETE_SUFFIX)

    def _retire(self, topic_partition: TopicPartition, suffix: str) -> None:
        log = self.logs.pop(topic_partition)
        self._stale_in_checkpoints.add(topic_partition)
        self._log_dir_of(log).cleaned_offsets.pop(topic_partition, None)
        self.rename_away(log, suffix)

    def rename_away(self, log: PartitionLog, suffix: str) -> None:
        """Rename a log's directory, so that it is not found again; with `-delete`, schedule its removal."""
        log.count_producers_in(ProducerTally())
        log_dir = self._log_dir_of(log)
        target = log_dir.path / suffixed_name(log.topic_partition, self._unique(), suffix)
        try:
            self.disk.rename(log.directory, target)
        except OSError as error:
            self.take_offline(log_dir, f"{log.directory} cannot be renamed: {error}")
            return
        log.move_to(target)
        if suffix == DELETE_SUFFIX:
            self.removals.add_directory(target, log.config.file_delete_delay_ms)

    # Between directories (AlterReplicaLogDirs).

    def move_to_dir(self, topic_partition: TopicPartition, path: Path) -> None:
        """Begin to move a partition to another log directory, or abandon a move if it is already there.

        LOG_DIR_NOT_FOUND for a path that is not in log.dirs, KAFKA_STORAGE_ERROR for one that is offline,
        REPLICA_NOT_AVAILABLE for a partition that is not on this node (if it comes, it will be created in
        that directory).
        """
        target = next((log_dir for log_dir in self.dirs if log_dir.path == path), None)
        if target is None:
            raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"{str(path)[:1000]} is not one of log.dirs.")
        if not target.is_online:
            raise storage_error(target)
        log = self.find(topic_partition)
        if log is None:
            self._preferred_dirs[topic_partition] = target
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{topic_partition} is not on this node.")
        future = self.future_logs.get(topic_partition)
        if future is not None and future.directory.parent == target.path:
            return
        self.abandon_future(topic_partition)
        if log.directory.parent == target.path:
            return
        name = suffixed_name(topic_partition, self._unique(), FUTURE_SUFFIX)
        self.future_logs[topic_partition] = self._create(
            target, target.path / name, topic_partition, log.topic_id, log.config, log.log_start_offset
        )

    def abandon_future(self, topic_partition: TopicPartition) -> None:
        """Abandon a move that is under way, if there is one."""
        future = self.future_logs.pop(topic_partition, None)
        if future is not None:
            self.rename_away(future, DELETE_SUFFIX)

    def swap_in_future(self, topic_partition: TopicPartition) -> PartitionLog:
        """Replace a log by its copy, which has caught up, and return the copy.

        KAFKA_STORAGE_ERROR if a disk fails; then the old log stays in use, if its own disk works.
        """
        old, new = self.logs[topic_partition], self.future_logs[topic_partition]
        old_dir, new_dir, place = self._log_dir_of(old), self._log_dir_of(new), old.directory
        deleted_directory = old_dir.path / suffixed_name(topic_partition, self._unique(), DELETE_SUFFIX)
        # At no moment do two directories have the log's name; after a crash between the two renames
        # `set_strays_apart` finishes the move.
        self._rename(old, deleted_directory)
        try:
            self._put_in_place(new)
        except KafkaError:
            self._rename(old, place)
            raise
        del self.future_logs[topic_partition]
        self.removals.add_directory(deleted_directory, old.config.file_delete_delay_ms)
        new.update_config(old.config)
        new.update_high_watermark(old.high_watermark)
        cleaned, cut = old_dir.cleaned_offsets.pop(topic_partition, None), old.take_lowest_cut()
        new.take_lowest_cut()  # truncations of the copy do not matter, as it now equals the old log
        if cleaned is not None:
            new_dir.cleaned_offsets[topic_partition] = cleaned if cut is None else min(cleaned, cut)
        old.count_producers_in(ProducerTally())
        self.logs[topic_partition] = new
        return new

    def _put_in_place(self, future: PartitionLog) -> None:
        self._rename(future, self._log_dir_of(future).path / directory_name(future.topic_partition))

    def _rename(self, log: PartitionLog, target: Path) -> None:
        log_dir = self._log_dir_of(log)
        try:
            self.disk.rename(log.directory, target)
        except OSError as error:
            self.take_offline(log_dir, f"{log.directory} cannot be renamed: {error}")
            raise storage_error(log_dir, log.topic_partition) from error
        log.move_to(target)

    # Failures.

    @property
    def online_dirs(self) -> list[LogDir]:
        """The directories that are in use."""
        return [log_dir for log_dir in self.dirs if log_dir.is_online]

    @property
    def offline_dirs(self) -> list[LogDir]:
        """The directories that have failed; if these are all, the node has nothing left to do."""
        return [log_dir for log_dir in self.dirs if not log_dir.is_online]

    def take_offline(self, log_dir: LogDir, reason: str) -> None:
        """Stop serving this directory; its logs reject all further operations."""
        if not log_dir.is_online:
            return
        log_dir.offline_reason = reason
        lost: list[TopicPartition] = []
        for logs in (self.logs, self.future_logs):
            for name, log in list(logs.items()):
                if log.directory.parent == log_dir.path:
                    del logs[name]
                    log.count_producers_in(ProducerTally())
                    if logs is self.logs:
                        lost.append(name)
                        self._offline_partitions[name] = log_dir
                    if log.failure is None:
                        log.flush_failed(OSError(reason))
        if self._on_offline is not None:
            self._on_offline(log_dir, lost)
        else:
            self.warnings.append(f"The log directory {log_dir.path} is offline: {reason}.")

    def _on_log_failure(self, log: PartitionLog, error: OSError) -> None:
        self.take_offline(self._log_dir_of(log), f"{log.directory.name}: {error}")

    def _log_dir_of(self, log: PartitionLog) -> LogDir:
        return next(log_dir for log_dir in self.dirs if log_dir.path == log.directory.parent)

    def directory_id_of(self, log: PartitionLog) -> bytes | None:
        """Return the 16-byte id of a log's directory."""
        return self._log_dir_of(log).directory_id

    def _check_any_online(self) -> None:
        if not self.online_dirs:
            reasons = "; ".join(f"{log_dir.path}: {log_dir.offline_reason}" for log_dir in self.dirs)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"No log directory can be used. {reasons}.")

    # Upkeep.

    def cleaned_offset(self, log: PartitionLog) -> int | None:
        """Return the cleaner's checkpoint of a log, below which it is clean, or None."""
        return self._log_dir_of(log).cleaned_offsets.get(log.topic_partition)

    def set_cleaned_offset(self, log: PartitionLog, offset: int) -> PendingFile:
        """Set the cleaner's checkpoint of a log; return the file to write."""
        log_dir = self._log_dir_of(log)
        log_dir.cleaned_offsets[log.topic_partition] = offset
        return pending_checkpoint(log_dir, CLEANER_OFFSET_CHECKPOINT, log_dir.cleaned_offsets)

    def pending_checkpoints(self, *names: str) -> list[PendingFile]:
        """Return the checkpoints of these names that have changed, for `write_pending`.

        The default is recovery points, start offsets and high watermarks.
        """
        return self._checkpoints.changed(self.online_dirs, tuple(self.logs.values()), names)

    def gather_offsets(self, *names: str) -> GatheredOffsets:
        """Begin to gather the offsets for checkpoints of these names, for `gathered_writer`."""
        return self._checkpoints.gather(names)

    def gathered_writer(self, gathered: GatheredOffsets) -> Callable[[], list[tuple[Path, OSError]]]:
        """Return a function that writes the checkpoints that have changed.

        It blocks, may run in any thread, and returns (log directory, error) of those that failed.
        """
        return partial(self._checkpoints.write_gathered, tuple(self.online_dirs), gathered)

    def write_pending(self, pending: Iterable[PendingFile]) -> list[tuple[Path, OSError]]:
        """Write the files; return (log directory, error) of those that failed. Blocks; for any thread."""
        return self._checkpoints.write(pending)

    def report_failures(self, failed: Iterable[tuple[Path, OSError]]) -> None:
        """Take directories offline in which work in a thread has failed."""
        for path, error in failed:
            for log_dir in self.dirs:
                if log_dir.path == path:
                    self.take_offline(log_dir, str(error))

    def collect_deleted_files(self, logs: Iterable[PartitionLog] | None = None) -> None:
        """Schedule the removal of files that these logs, or all, have dropped since the last call."""
        for log in (*self.logs.values(), *self.future_logs.values()) if logs is None else logs:
            if log.deleted_paths:
                self.removals.add_files(log.take_deleted_paths(), log.config.file_delete_delay_ms)

    # Stop.

    def close(self, *, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write the checkpoints and clean-shutdown markers, unlock. Blocks."""
        now_ms = self._now_ms()
        for log in (*self.logs.values(), *self.future_logs.values()):
            try:
                log.close(now_ms=now_ms)
            except KafkaError:
                continue  # Its directory is offline now, and gets no marker.
        self.report_failures(self.write_pending(self.pending_checkpoints()))
        for log_dir in self.online_dirs:
            try:
                self.disk.write_file(
                    log_dir.path / CLEAN_SHUTDOWN_FILE, clean_shutdown_content(broker_epoch), sync=True
                )
            except OSError as error:
                self.take_offline(log_dir, f"the clean-shutdown marker cannot be written: {error}")
        self.release()

    def release(self) -> None:
        """Unlock the directories."""
        for lock in self._locks:
            lock.release()
        self._locks.clear()

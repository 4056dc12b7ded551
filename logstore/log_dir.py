"""A log directory (`log.dirs`): the names of its partitions' directories, its markers, its checkpoints.

    TOPIC-PARTITION                    a log
    TOPIC-PARTITION.UUIDHEX-future     the copy of a log that moves in from another log directory
    TOPIC-PARTITION.UUIDHEX-delete     a deleted log, removed after file.delete.delay.ms
    TOPIC-PARTITION.UUIDHEX-stray      a log that is not in the cluster's metadata, kept for inspection

A directory that fails once is offline until the next start: if half of its partitions were in an unknown
state, that would be worse than KAFKA_STORAGE_ERROR for all of them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.logstore.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    encode_offsets,
    read_offsets,
)
from ottla.logstore.disk import Disk
from ottla.logstore.meta_properties import MetaProperties
from ottla.logstore.words.config_def import LONG_MAX
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition, check_topic_name

CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
FUTURE_SUFFIX: Final = "-future"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
MAX_DIRECTORY_NAME_LENGTH: Final = 255  # the limit of every common file system
MAX_PARTITION: Final = 2**31 - 1
# Directories of Kafka in a log directory that are not logs.
NOT_LOGS: Final = frozenset({"__cluster_metadata-0", "remote-log-index-cache"})
_LOG_NAME = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")
_SUFFIXED_NAME = re.compile(r"(.+-[0-9]+)\.([0-9a-f]{32})(-future|-delete|-stray)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """The parsed name of a directory: the partition, and "" or one of the three suffixes."""

    topic_partition: TopicPartition
    suffix: str = ""


def directory_name(topic_partition: TopicPartition) -> str:
    """Return the name of a partition's directory."""
    return str(topic_partition)


def suffixed_name(topic_partition: TopicPartition, unique: bytes, suffix: str) -> str:
    """Return the name with 16 unique bytes and a suffix; a long topic name is cut so that it fits."""
    tail = f"-{topic_partition.partition}.{unique.hex()}{suffix}"
    return topic_partition.topic[: MAX_DIRECTORY_NAME_LENGTH - len(tail)] + tail


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """Return the parsed name of a directory; None if it is not the name of a log."""
    suffix = ""
    if suffixed := _SUFFIXED_NAME.fullmatch(name):
        name, suffix = suffixed[1], suffixed[3]
    parts = _LOG_NAME.fullmatch(name)
    if parts is None or int(parts[2]) > MAX_PARTITION:
        return None
    try:
        check_topic_name(parts[1])
    except KafkaError:
        return None
    return PartitionDirectory(topic_partition=TopicPartition(parts[1], int(parts[2])), suffix=suffix)


@dataclass(slots=True)
class LogDir:
    """A log directory. `properties` is None as long as it has no owner."""

    path: Path
    properties: MetaProperties | None = None
    offline_reason: str | None = None
    # The offsets in the checkpoints at start; afterwards the logs themselves have them.
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    cleaned_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    has_lost_checkpoints: bool = False

    @property
    def is_online(self) -> bool:
        return self.offline_reason is None

    @property
    def directory_id(self) -> bytes | None:
        """The 16-byte id of this directory in the cluster."""
        return self.properties.directory_id if self.properties else None

    def compacted_to(self, topic_partition: TopicPartition) -> int:
        """Return the offset below which, at start, compaction may have left gaps between segments."""
        return LONG_MAX if self.has_lost_checkpoints else self.cleaned_offsets.get(topic_partition, 0)

    def checkpoint_path(self, name: str) -> Path:
        """Return the path of the checkpoint of that name."""
        return self.path / name


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFile:
    """A file to write in a thread; `log_dir` is the directory that goes offline if it fails."""

    log_dir: Path
    path: Path
    content: bytes


def read_checkpoints(disk: Disk, log_dir: LogDir) -> list[str]:
    """Read the four checkpoints; return a sentence for each that is unreadable and therefore ignored.

    Each can be rebuilt: without recovery points everything is read again, without start offsets the first
    segment decides, without high watermarks replication determines them, without cleaner offsets everything
    is dirty.
    """
    problems: list[str] = []

    def read(name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(disk, log_dir.checkpoint_path(name))
        except KafkaError as error:
            problems.append(f"{error.detail} It is rebuilt from the logs.")
            log_dir.has_lost_checkpoints = True
            return {}

    log_dir.recovery_points = read(RECOVERY_POINT_CHECKPOINT)
    log_dir.log_start_offsets = read(LOG_START_OFFSET_CHECKPOINT)
    log_dir.high_watermarks = read(REPLICATION_OFFSET_CHECKPOINT)
    log_dir.cleaned_offsets = read(CLEANER_OFFSET_CHECKPOINT)
    return problems


def pending_checkpoint(log_dir: LogDir, name: str, offsets: Mapping[TopicPartition, int]) -> PendingFile:
    """Return a checkpoint that is ready to be written."""
    return PendingFile(
        log_dir=log_dir.path, path=log_dir.checkpoint_path(name), content=encode_offsets(offsets)
    )


def clean_shutdown_content(broker_epoch: int) -> bytes:
    """Return the content of the marker of a clean shutdown (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def clean_shutdown_epoch(disk: Disk, log_dir: LogDir) -> int:
    """Return the broker epoch in the marker of a clean shutdown; -1 if there is no marker or no epoch."""
    try:
        content = json.loads(disk.read_file(log_dir.path / CLEAN_SHUTDOWN_FILE))
    except (OSError, ValueError, RecursionError):
        return -1
    epoch = content.get("brokerEpoch", -1) if isinstance(content, dict) else -1
    return epoch if type(epoch) is int and -1 <= epoch < 1 << 63 else -1


def take_clean_shutdown_marker(disk: Disk, log_dir: LogDir) -> bool:
    """Return True if the last shutdown was clean, and remove its marker, so that a crash is noticed."""
    path = log_dir.path / CLEAN_SHUTDOWN_FILE
    if not disk.exists(path):
        return False
    disk.remove(path)
    disk.sync_directory(log_dir.path)
    return True


def storage_error(log_dir: LogDir, topic_partition: TopicPartition | None = None) -> KafkaError:
    """Return the error for a log directory that is offline, or for a partition in it."""
    subject = f"The log of {topic_partition}" if topic_partition else "The log directory"
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{subject} is not available: {log_dir.path} went offline ({log_dir.offline_reason}).",
    )

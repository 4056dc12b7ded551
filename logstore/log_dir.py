"""One log directory (`log.dirs`): its partitions' directories by name, its markers, its checkpoints.

    TOPIC-PARTITION                    a log
    TOPIC-PARTITION.UUIDHEX-future     its copy that moves in from another log directory
    TOPIC-PARTITION.UUIDHEX-delete     what is left of a deleted one, removed after file.delete.delay.ms
    TOPIC-PARTITION.UUIDHEX-stray      one that the cluster's metadata does not know, kept to be looked at

A directory that fails once is offline until the next start: half of its partitions in an unknown state would
be worse than all of them answering KAFKA_STORAGE_ERROR.
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
MAX_DIRECTORY_NAME_LENGTH: Final = 255  # of every common file system
MAX_PARTITION: Final = 2**31 - 1
# What Kafka keeps beside the logs in the same directory.
NOT_LOGS: Final = frozenset({"__cluster_metadata-0", "remote-log-index-cache"})
_LOG_NAME = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})")
_SUFFIXED_NAME = re.compile(r"(.+-[0-9]+)\.([0-9a-f]{32})(-future|-delete|-stray)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDirectory:
    """What the name of a directory says: whose log, and "" or one of the three suffixes."""

    topic_partition: TopicPartition
    suffix: str = ""


def directory_name(topic_partition: TopicPartition) -> str:
    """The name of a partition's directory."""
    return str(topic_partition)


def suffixed_name(topic_partition: TopicPartition, unique: bytes, suffix: str) -> str:
    """The name with 16 unique bytes and a suffix; a long topic name is cut so that the whole fits."""
    tail = f"-{topic_partition.partition}.{unique.hex()}{suffix}"
    return topic_partition.topic[: MAX_DIRECTORY_NAME_LENGTH - len(tail)] + tail


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """What a directory's name says; None when it is not the name of a log."""
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
    """A log directory. `properties` is None until somebody has taken possession of it."""

    path: Path
    properties: MetaProperties | None = None
    offline_reason: str | None = None
    # What the checkpoints said at start; afterwards the logs themselves know.
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
        """Below which offset compaction may have been at work above the recovery point, at start."""
        return LONG_MAX if self.has_lost_checkpoints else self.cleaned_offsets.get(topic_partition, 0)

    def checkpoint_path(self, name: str) -> Path:
        """Where the checkpoint of that name is."""
        return self.path / name


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingFile:
    """A file to be written in a thread: what, where, and whose failure it would be."""

    log_dir: Path
    path: Path
    content: bytes


def read_checkpoints(disk: Disk, log_dir: LogDir) -> list[str]:
    """Take in the four checkpoints; one sentence for each that is unreadable and so counts for nothing.

    Each can be made again: without recovery points everything is read again, without start offsets the first
    segment decides, without high watermarks replication finds them, without cleaner offsets all is dirty.
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
    """A checkpoint ready to be written."""
    return PendingFile(
        log_dir=log_dir.path, path=log_dir.checkpoint_path(name), content=encode_offsets(offsets)
    )


def clean_shutdown_content(broker_epoch: int) -> bytes:
    """What the marker of a clean shutdown holds (KIP-966)."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def clean_shutdown_epoch(disk: Disk, log_dir: LogDir) -> int:
    """The epoch of the broker that ended cleanly here, -1 if none did or it did not say."""
    try:
        content = json.loads(disk.read_file(log_dir.path / CLEAN_SHUTDOWN_FILE))
    except (OSError, ValueError, RecursionError):
        return -1
    epoch = content.get("brokerEpoch", -1) if isinstance(content, dict) else -1
    return epoch if type(epoch) is int and -1 <= epoch < 1 << 63 else -1


def take_clean_shutdown_marker(disk: Disk, log_dir: LogDir) -> bool:
    """Whether the last shutdown was clean; the marker is gone afterwards, so that a crash shows."""
    path = log_dir.path / CLEAN_SHUTDOWN_FILE
    if not disk.exists(path):
        return False
    disk.remove(path)
    disk.sync_directory(log_dir.path)
    return True


def storage_error(log_dir: LogDir, topic_partition: TopicPartition | None = None) -> KafkaError:
    """The answer for a partition in a directory that is offline."""
    subject = f"The log of {topic_partition}" if topic_partition else "The log directory"
    return KafkaError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"{subject} is not available: {log_dir.path} went offline ({log_dir.offline_reason}).",
    )

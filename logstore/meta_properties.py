"""meta.properties: the cluster and node that own a log directory, in Kafka's KRaft format (version 1)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.logstore.disk import Disk
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import uuid_from_text, uuid_to_text

META_PROPERTIES: Final = "meta.properties"
VERSION: Final = 1
MAX_META_PROPERTIES_BYTES: Final = 64 * 1024  # the file has five short lines; anything larger is another file


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The owner of a log directory. Ids are 16 bytes; `directory_id` is the directory's own."""

    cluster_id: bytes
    node_id: int
    directory_id: bytes

    def encode(self) -> bytes:
        """Return the file's content."""
        lines = {
            "cluster.id": uuid_to_text(self.cluster_id),
            "directory.id": uuid_to_text(self.directory_id),
            "node.id": str(self.node_id),
            "version": str(VERSION),
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items()).encode()


def decode_meta_properties(content: bytes, path: Path) -> MetaProperties:
    """Return the owner that the file names; KAFKA_STORAGE_ERROR if it is malformed."""
    values: dict[str, str] = {}
    for line in content.decode("utf-8", "replace").splitlines():
        name, separator, value = line.partition("=")
        if separator and not name.lstrip().startswith(("#", "!")):
            # Java writes a backslash before '=' and ':' in a value.
            values[name.strip()] = value.strip().replace("\\", "")
    if values.get("version") != str(VERSION):
        raise _unreadable(path, f"version {VERSION} is expected")
    try:
        return MetaProperties(
            cluster_id=uuid_from_text(values.get("cluster.id", "")),
            node_id=int(values.get("node.id", "")[:10]),
            directory_id=uuid_from_text(values.get("directory.id", "")),
        )
    except (KafkaError, ValueError):
        raise _unreadable(path, "cluster.id, node.id or directory.id is missing or malformed") from None


def read_meta_properties(disk: Disk, directory: Path) -> MetaProperties | None:
    """Return the owner of a log directory; None if it is new."""
    path = directory / META_PROPERTIES
    try:
        if disk.file_size(path) > MAX_META_PROPERTIES_BYTES:
            raise _unreadable(path, "it is too large")
        return decode_meta_properties(disk.read_file(path), path)
    except FileNotFoundError:
        return None


def write_meta_properties(disk: Disk, directory: Path, properties: MetaProperties) -> None:
    """Write the owner of a log directory, durably."""
    disk.write_file(directory / META_PROPERTIES, properties.encode(), sync=True)


def check_owner(found: MetaProperties, directory: Path, *, cluster_id: bytes, node_id: int) -> None:
    """Reject a log directory that belongs to another cluster or node."""
    if found.cluster_id != cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"The log directory {directory} belongs to cluster {uuid_to_text(found.cluster_id)}, "
            f"but this node to {uuid_to_text(cluster_id)}: choose another directory in log.dirs.",
        )
    if found.node_id != node_id:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The log directory {directory} belongs to node {found.node_id}, but this is node "
            f"{node_id}: correct node.id or log.dirs.",
        )


def _unreadable(path: Path, problem: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The file {path} cannot be read: {problem}.")

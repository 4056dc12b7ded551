"""meta.properties: the owner of a log directory."""

from pathlib import Path

import pytest

from ottla.logstore.disk import MemoryDisk
from ottla.logstore.meta_properties import (
    MetaProperties,
    check_owner,
    decode_meta_properties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError

DIRECTORY = Path("/data")
OWNER = MetaProperties(cluster_id=bytes(range(16)), node_id=3, directory_id=bytes(range(1, 17)))


def test_properties_are_read_as_they_were_written() -> None:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)

    assert read_meta_properties(disk, DIRECTORY) is None
    write_meta_properties(disk, DIRECTORY, OWNER)
    assert read_meta_properties(disk, DIRECTORY) == OWNER


def test_a_file_written_by_kafka_is_read() -> None:
    content = (
        b"#\n#Sat Nov 21 10:00:48 UTC 2026\nnode.id=1\ndirectory.id=Pgcl1v9vkbFSfl9YCKXGMg\nversion=1\n"
        b"cluster.id=8cIgDh9dQHenaoZ-MMcbpQ\n"
    )

    assert decode_meta_properties(content, DIRECTORY).node_id == 1


@pytest.mark.parametrize("content", [b"", b"version=0\nbroker.id=1\n", b"version=1\nnode.id=1\n", b"\xff\0"])
def test_a_malformed_file_is_rejected_with_its_path(content: bytes) -> None:
    with pytest.raises(KafkaError, match="/data"):
        decode_meta_properties(content, DIRECTORY)


def test_another_cluster_or_node_is_rejected() -> None:
    check_owner(OWNER, DIRECTORY, cluster_id=OWNER.cluster_id, node_id=3)

    with pytest.raises(KafkaError) as caught:
        check_owner(OWNER, DIRECTORY, cluster_id=bytes(range(2, 18)), node_id=3)
    assert caught.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    with pytest.raises(KafkaError, match="belongs to node 3, but this is node 4"):
        check_owner(OWNER, DIRECTORY, cluster_id=OWNER.cluster_id, node_id=4)

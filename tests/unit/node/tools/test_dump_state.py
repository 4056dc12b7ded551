"""Internal logs are replayed to their state at any offset, and the first broken batch is found."""

import json
from pathlib import Path

import pytest

from ottla.groupcoord.group_records import OffsetCommitValue, OffsetRecord
from ottla.groupcoord.record_codec import encode_key, encode_value
from ottla.logstore.record import build_batch
from ottla.metadata_raft.image import MetadataImage
from ottla.metadata_raft.record_codec import MetadataBatch, encode_batch, encode_record
from ottla.metadata_raft.records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.metadata_raft.snapshot import decode_snapshot, encode_snapshot
from ottla.node.tools.dump_log import main as dump_log
from ottla.node.tools.dump_state import main
from ottla.node.tools.replayed_log import replayed

TOPIC_ID = bytes(range(16))
TOPIC = TopicRecord(name="orders", topic_id=TOPIC_ID)


def partition_of(topic_id: bytes) -> PartitionRecord:
    return PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[bytes(16)],
    )


PARTITION = partition_of(TOPIC_ID)
CONFIG = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000")


def directory_of(tmp_path: Path, topic: str, *batches: bytes) -> Path:
    directory = tmp_path / f"{topic}-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return directory


def changes(base_offset: int, *records: MetadataRecord) -> bytes:
    return bytes(encode_batch(MetadataBatch(base_offset, 1, 0, records)))


def commit(base_offset: int, partition: int, offset: int, *, value: bytes | None = None) -> bytes:
    record = OffsetRecord(
        "billing",
        "orders",
        partition,
        OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0),
    )
    written = encode_value(record) if value is None else value
    return bytes(build_batch([(encode_key(record), written, 0, ())], base_offset=base_offset))


def rows(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> list[dict[str, object]]:
    assert main([str(word) for word in words]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_metadata_are_dumped_as_the_records_that_would_create_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = directory_of(tmp_path, "__cluster_metadata", changes(0, TOPIC, PARTITION), changes(2, CONFIG))

    dumped = rows(capsys, "dump-metadata", "--json", directory)
    before = rows(capsys, "dump-metadata", "--json", "--until", 1, directory)

    assert [one["type"] for one in dumped] == ["TopicRecord", "PartitionRecord", "ConfigRecord"]
    assert dumped[2]["name"] == "retention.ms" and dumped[1]["leader"] == 1
    assert [one["type"] for one in before] == ["TopicRecord", "PartitionRecord"]


def test_no_tool_shows_the_credentials_of_a_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    credential = UserScramCredentialRecord(
        name="alice", mechanism=1, salt=b"pepper", stored_key=b"STORED", server_key=b"SERVER", iterations=4096
    )
    broken = bytes(build_batch([(None, encode_record(credential)[:-1], 0, ())]))
    (tmp_path / "damaged").mkdir()
    directory = directory_of(tmp_path, "__cluster_metadata", changes(0, credential))
    damaged = directory_of(tmp_path / "damaged", "__cluster_metadata", broken)

    dumped = rows(capsys, "dump-metadata", "--json", directory)
    assert dump_log(["--records", str(directory / f"{0:020d}.log")]) == 0
    assert dump_log(["--records", str(damaged / f"{0:020d}.log")]) == 0
    printed = capsys.readouterr().out

    assert [(one["type"], one["name"], one["stored_key"]) for one in dumped] == [
        ("UserScramCredentialRecord", "alice", "(secret)")
    ]
    assert printed.count("(secret)") >= 2 and "UserScramCredentialRecord" in printed
    for secret in (b"pepper", b"STORED", b"SERVER"):
        assert secret.decode() not in printed + str(dumped) and secret.hex() not in printed + str(dumped)


def test_a_replay_of_the_metadata_begins_with_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = directory_of(tmp_path, "__cluster_metadata", changes(0, TOPIC, PARTITION), changes(2, CONFIG))
    image = replayed(whole, until=1).state
    assert isinstance(image, MetadataImage)
    snapshot = b"".join(encode_snapshot(image))
    assert decode_snapshot(snapshot, empty=MetadataImage(), version=1, epoch=1).topics == image.topics
    (whole / f"{2:020d}-{1:010d}.checkpoint").write_bytes(snapshot)
    (whole / f"{0:020d}.log").write_bytes(changes(2, CONFIG))

    dumped = rows(capsys, "dump-metadata", "--json", whole)

    assert [one["type"] for one in dumped] == ["TopicRecord", "PartitionRecord", "ConfigRecord"]


def test_groups_are_dumped_with_their_committed_offsets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = directory_of(
        tmp_path, "__consumer_offsets", commit(0, 0, 5), commit(1, 0, 7), commit(2, 1, 1)
    )

    group, *offsets = rows(capsys, "dump-group", "--json", directory)
    _, first = rows(capsys, "dump-group", "--json", "--until", 0, directory)
    assert main(["dump-group", str(directory)]) == 0
    text = capsys.readouterr().out

    assert (group["group"], group["protocol"], group["members"]) == ("billing", "classic", [])
    assert [(one["partition"], one["offset"]) for one in offsets] == [(0, 7), (1, 1)]
    assert first["offset"] == 5
    assert text.startswith("group group: billing protocol: classic state: Empty")


def test_an_intact_log_is_replayed_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = directory_of(tmp_path, "__consumer_offsets", commit(0, 0, 5), commit(1, 0, 7))

    assert main(["replay", str(directory)]) == 0

    assert (
        capsys.readouterr().out
        == "2 batches up to offset 1 were replayed into 2 entries without a problem.\n"
    )


def test_the_first_broken_batch_of_a_log_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_no_topic = partition_of(bytes(16))
    metadata = directory_of(tmp_path, "__cluster_metadata", changes(0, TOPIC), changes(1, of_no_topic))
    groups = directory_of(
        tmp_path, "__consumer_offsets", commit(0, 0, 5), commit(1, 1, 0, value=b"\x00\x63"), commit(2, 0, 6)
    )

    assert main(["replay", str(metadata)]) == 1
    of_metadata = capsys.readouterr().out
    assert main(["replay", str(groups)]) == 1
    of_groups = capsys.readouterr().out

    assert "The batch at offset 1 cannot be replayed" in of_metadata
    assert of_groups.startswith("From offset 1 on: ")


def test_a_torn_log_is_dumped_up_to_the_tear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = directory_of(tmp_path, "__consumer_offsets", commit(0, 0, 5), commit(1, 0, 7)[:-3])

    dumped = rows(capsys, "dump-group", "--json", torn, code=1)

    assert [one.get("offset") for one in dumped] == [None, 5]


def test_other_directories_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for tool, topic, words in (
        ("dump-metadata", "orders", "is not the directory of a partition of __cluster_metadata"),
        ("dump-metadata", "__consumer_offsets", "use dump-group"),
        ("dump-group", "__cluster_metadata", "use dump-metadata"),
        ("replay", "__transaction_state", "No such file"),
    ):
        assert main([tool, str(tmp_path / f"{topic}-0")]) == 2
        assert words in capsys.readouterr().err

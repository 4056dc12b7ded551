"""dump-log prints intact, torn and overwritten files."""

import json
import struct
from pathlib import Path

import pytest

from ottla.logstore.checkpoint import encode_epochs, encode_partition_metadata
from ottla.logstore.compression import Compression
from ottla.logstore.producer_state import BatchMetadata, ProducerEntry, encode_snapshot
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, build_marker
from ottla.node.tools.dump_log import main

LOG = "00000000000000000000.log"


def batch(base_offset: int, *values: bytes, compression: Compression = Compression.NONE) -> bytes:
    records = [(b"k", value, 1000 + base_offset, (("h", b"1"),)) for value in values]
    return bytes(build_batch(records, base_offset=base_offset, compression=compression))


def partition(tmp_path: Path, content: bytes, name: str = "orders-0") -> Path:
    directory = tmp_path / name
    directory.mkdir()
    (directory / LOG).write_bytes(content)
    return directory / LOG


def dumped(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    code = main([str(one) for one in arguments])
    return code, capsys.readouterr().out.splitlines()


def test_batches_are_named_as_kafka_dump_log_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = partition(tmp_path, batch(0, b"a", b"b") + batch(2, b"c", compression=Compression.ZSTD))

    code, lines = dumped(capsys, path)

    assert code == 0
    assert lines[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    assert lines[2].startswith(
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1"
        " producerEpoch: -1 partitionLeaderEpoch: -1 isTransactional: false isControl: false"
        " deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1000 size: "
    )
    assert lines[2].endswith(" isvalid: true")
    assert " compresscodec: zstd " in lines[3]
    assert len(lines) == 4


@pytest.mark.parametrize("compression", Compression)
def test_records_are_printed_when_wanted(
    compression: Compression, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = partition(tmp_path, batch(7, b"two\nlines", b"\xff", compression=compression))

    code, lines = dumped(capsys, "--records", path)

    assert code == 0
    assert lines[3] == (
        "| offset: 7 CreateTime: 1007 keySize: 1 valueSize: 9 sequence: -1 headerKeys: [h]"
        " key: k payload: two\\nlines"
    )
    assert lines[4].endswith("payload: \\xff")


def test_a_torn_tail_is_reported_with_its_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = batch(0, b"a")
    for torn_bytes in (1, 60, 61, len(whole) - 1):
        path = partition(tmp_path, whole + batch(1, b"b")[:torn_bytes], f"torn-{torn_bytes}")

        code, lines = dumped(capsys, path)

        assert code == 1
        assert lines[2].startswith("baseOffset: 0 ")
        assert lines[3].startswith(f"Broken at byte {len(whole)}: ")
        assert len(lines) == 4


def test_after_damage_the_next_whole_batch_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third = batch(0, b"a"), batch(1, b"b" * 100), batch(2, b"c")
    path = partition(tmp_path, first + bytes(len(second)) + third)

    code, lines = dumped(capsys, path)

    assert code == 1
    assert lines[3] == (
        f"Broken at byte {len(first)}: zeros: never written;"
        f" the next whole batch is at byte {len(first + second)}."
    )
    assert lines[4].startswith("baseOffset: 2 ")


def test_a_wrong_crc_is_shown_and_the_rest_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray(batch(0, b"a") + batch(1, b"b"))
    content[65] ^= 1
    path = partition(tmp_path, bytes(content))

    code, lines = dumped(capsys, "--records", path)

    assert code == 1
    assert lines[2].endswith("isvalid: false")
    assert lines[3] == "Broken at byte 0: the CRC of the batch does not match."
    assert lines[5].endswith("payload: b")


def test_the_dump_of_any_bytes_ends_with_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = partition(tmp_path, bytes(range(256)) * 20)

    code, lines = dumped(capsys, path)

    assert code == 1
    assert lines[2].startswith("Broken at byte 0: ")


def test_nothing_is_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = partition(tmp_path, batch(0, b"a") + b"\0\0\0")
    before = path.read_bytes(), path.stat().st_mtime_ns

    dumped(capsys, path.parent)

    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(path.parent.iterdir()) == [path]


def test_markers_say_how_the_transaction_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marker = EndTransactionMarker(ControlType.ABORT, coordinator_epoch=3)
    path = partition(tmp_path, bytes(build_marker(marker, producer_id=9, producer_epoch=1, timestamp_ms=5)))

    _, lines = dumped(capsys, "--records", path)

    assert "isTransactional: true isControl: true" in lines[2]
    assert lines[3].endswith("endTxnMarker: ABORT coordinatorEpoch: 3")


def test_an_index_is_compared_with_its_segment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = batch(0, b"a"), batch(1, b"b")
    index = partition(tmp_path, first + second).with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 1, len(first)))
    assert dumped(capsys, index) == (0, [f"Dumping {index}", f"offset: 1 position: {len(first)}"])

    index.write_bytes(struct.pack(">ii", 1, 5))
    code, lines = dumped(capsys, index)

    assert code == 1
    assert lines[2] == f"Broken at byte 0: no batch begins at byte 5 of {LOG}."


def test_reserved_space_is_not_printed_as_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(struct.pack(">ii", 1, 256) + bytes(80))

    code, lines = dumped(capsys, index)

    assert code == 0
    assert lines[1:] == ["offset: 1 position: 256", "10 rows are reserved, but not written."]


def test_a_time_index_is_compared_with_its_segment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = partition(tmp_path, batch(0, b"a") + batch(1, b"b")).with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qi", 1000, 0) + struct.pack(">qi", 1002, 1) + b"\1")

    code, lines = dumped(capsys, index)

    assert code == 1
    assert lines[1:] == [
        "timestamp: 1000 offset: 0",
        "timestamp: 1002 offset: 1",
        "Broken at byte 12: the largest timestamp of that batch is 1001, not 1002.",
        "Broken at byte 24: 1 bytes are left after 2 rows of 12 bytes.",
    ]


def test_aborted_transactions_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "00000000000000000000.txnindex"
    index.write_bytes(struct.pack(">hqqqq", 0, 4, 10, 20, 21))

    assert dumped(capsys, index) == (
        0,
        [f"Dumping {index}", "version: 0 producerId: 4 firstOffset: 10 lastOffset: 20 lastStableOffset: 21"],
    )


def test_producers_of_a_snapshot_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = ProducerEntry(7, 1, -1, 1000, -1, 0, [BatchMetadata(9, 99, 4, 1000)])
    content = encode_snapshot([entry])
    path = tmp_path / "00000000000000000100.snapshot"
    path.write_bytes(content)
    row = (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty"
        " lastTimestamp: 1000 firstSequence: 5 lastSequence: 9 lastOffset: 99 offsetDelta: 4 timestamp: 1000"
    )
    assert dumped(capsys, path) == (0, [f"Dumping {path}", row])

    path.write_bytes(content[:-1])
    code, lines = dumped(capsys, path)

    assert code == 1
    assert lines[1] == "Broken at byte 2: the CRC of the snapshot does not match."


def test_text_files_are_read_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_bytes(encode_epochs([(0, 0), (3, 17)]))
    assert dumped(capsys, epochs)[1][1:] == ["epoch: 0 startOffset: 0", "epoch: 3 startOffset: 17"]

    metadata = tmp_path / "partition.metadata"
    metadata.write_bytes(encode_partition_metadata(b"0123456789abcdef"))
    assert dumped(capsys, metadata)[1][1:] == ["version: 0", "topic_id: MDEyMzQ1Njc4OWFiY2RlZg"]

    offsets = tmp_path / "recovery-point-offset-checkpoint"
    offsets.write_bytes(b"0\n2\norders 0 5\norders x 5\n")
    code, lines = dumped(capsys, offsets)

    assert code == 1
    assert lines[1:] == [
        "topic: orders partition: 0 offset: 5",
        "Broken at byte 15: 'orders x 5' is not of the form 'topic partition offset'.",
        "Broken at byte 26: the file should have 2 lines, but has 1.",
    ]


def test_json_has_one_object_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = partition(tmp_path, batch(0, b"a") + b"\1")

    code, lines = dumped(capsys, "--json", "--records", path)
    assert dumped(capsys, "--output", "json", "--records", path) == (code, lines)

    rows = [json.loads(line) for line in lines]
    assert code == 1
    assert [row["type"] for row in rows] == ["batch", "record", "broken"]
    assert rows[1]["payload"] == "a"
    assert rows[2]["byte"] == len(batch(0, b"a"))


def test_a_file_of_another_kind_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    assert main([str(tmp_path / "notes.txt")]) == 2
    assert main([str(tmp_path / LOG)]) == 2
    assert main([str(tmp_path)]) == 2

    complaints = capsys.readouterr().err.splitlines()
    assert [complaint.split(str(tmp_path))[1] for complaint in complaints] == [
        "/notes.txt is not a log file; --help lists the files that can be read.",
        f"/{LOG} does not exist.",
        " contains no log files; give the directory of a partition.",
    ]

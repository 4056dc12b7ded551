"""Reads each kind of file in a log directory into rows, as far as the file is readable.

A reader yields a `Row` for each entry in the order of the file, and a `Broken` at each error, after which it
continues if it finds the next entry. Nothing is written. Memory is bounded by the largest batch.
"""

import io
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from crc32c import crc32c

from ottla.logstore.offset_index import ROW as OFFSET_ROW
from ottla.logstore.record import Record, iterate_records, parse_marker
from ottla.logstore.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    TimestampType,
    computed_crc,
    read_header,
)
from ottla.logstore.time_index import ROW as TIME_ROW
from ottla.logstore.transaction_index import ROW as TRANSACTION_ROW
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, uuid_from_text
from ottla.node.tools.internal_records import Wording, as_text, wording_for

Value = str | int | bool | None | list[str]
BATCH, RECORD, ROW, NOTE = "batch", "record", "row", "note"
MAX_TEXT_BYTES: Final = 300 * 1024 * 1024  # a million partitions in one checkpoint
SEARCH_BYTES: Final = 1024 * 1024  # read at once in the search for the next whole batch

_SNAPSHOT_HEAD = struct.Struct(">hIi")  # version, CRC-32C of the bytes after it, count
_SNAPSHOT_CRC_START = 6
_SNAPSHOT_ROW = struct.Struct(">qhiqiqiq")
_NUMBER = re.compile(rb"-?[0-9]{1,19}")


class Row(NamedTuple):
    """One line of a dump: its kind, and its fields by kafka-dump-log's names."""

    kind: str
    fields: Mapping[str, Value]


class Broken(NamedTuple):
    """An error in the file, and the byte at which it begins."""

    position: int
    problem: str


Found = Iterator[Row | Broken]


# ---- .log ----------------------------------------------------------------------------------------


def read_log(path: Path, *, with_records: bool, base_offset: int | None = None) -> Found:
    """Read the batches of a segment, each followed by its records if wanted."""
    with path.open("rb") as file:
        wording = wording_for(path.absolute().parent.name) if with_records else None
        yield from _read_batches(file, wording, base_offset)


def _read_batches(file: BinaryIO, wording: Wording | None, base_offset: int | None) -> Found:
    position = 0
    last_offset = -1 if base_offset is None else base_offset - 1
    while True:
        size = file.seek(0, os.SEEK_END)  # a running node may append meanwhile
        if position >= size:
            return
        problem = None
        header, batch = _batch_at(file, position, size)
        if header is None:
            found = _next_batch(file, position + 1, size, last_offset)
            rest = "no whole batch follows" if found is None else f"the next whole batch is at byte {found}"
            yield Broken(position, f"{batch!s}; {rest}.")
            if found is None:
                return
            position = found
            continue
        assert isinstance(batch, bytes)
        is_valid = computed_crc(batch, 0, len(batch)) == header.crc
        yield Row(BATCH, _batch_fields(header, position, is_valid))
        if not is_valid:
            problem = "the CRC of the batch does not match"
        elif header.base_offset <= last_offset:
            problem = (
                f"the batch begins at offset {header.base_offset}, but the "
                f"previous one ends at offset {last_offset}"
            )
        if problem is not None:
            yield Broken(position, f"{problem}.")
        elif wording is not None:
            yield from _records(header, batch, position, wording)
        last_offset = max(last_offset, header.last_offset)
        position += header.size_bytes


def _batch_at(file: BinaryIO, position: int, size: int) -> tuple[BatchHeader, bytes] | tuple[None, str]:
    """Return the header and the bytes of the batch at a position, or None and the reason if there is none."""
    if size - position < HEADER_SIZE:
        return None, (
            f"{size - position} bytes are left, but the header of a batch alone takes {HEADER_SIZE}"
        )
    file.seek(position)
    start = file.read(HEADER_SIZE)
    header = read_header(start)
    if header.magic != MAGIC:
        if not any(start):
            return None, "zeros: never written"
        return None, (f"the format of the batch is {header.magic}, but only {MAGIC} is supported")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        return None, (f"the length of the batch is {header.batch_length}, which is too short for its header")
    if header.size_bytes > size - position:
        return None, (f"the batch is {header.size_bytes} bytes long, but only {size - position} are left")
    batch = start + file.read(header.size_bytes - HEADER_SIZE)
    if len(batch) < header.size_bytes:
        return None, "the file became shorter while it was read"
    return header, batch


def _next_batch(file: BinaryIO, position: int, size: int, last_offset: int) -> int | None:
    """Return the position of the next batch with a valid CRC, by a search of every byte, or None."""
    while position + HEADER_SIZE <= size:
        file.seek(position)
        window = file.read(SEARCH_BYTES + HEADER_SIZE)
        hit = window.find(MAGIC, 16)  # the magic byte is 16 bytes into a batch
        while hit >= 0 and hit - 16 + HEADER_SIZE <= len(window):
            start = position + hit - 16
            header = read_header(window, hit - 16)
            # The cheap checks come first: the CRC of a false hit could read the whole file each time.
            if (
                header.base_offset > last_offset
                and HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= size - start - LOG_OVERHEAD
                and 0 <= header.last_offset_delta < 2**31
                and 0 <= header.records_count <= header.last_offset_delta + 1
                and _has_good_crc(file, start, header)
            ):
                return start
            hit = window.find(MAGIC, hit + 1)
        if len(window) < SEARCH_BYTES + HEADER_SIZE:
            return None
        position += SEARCH_BYTES
    return None


def _has_good_crc(file: BinaryIO, position: int, header: BatchHeader) -> bool:
    file.seek(position)
    batch = file.read(header.size_bytes)
    return len(batch) == header.size_bytes and computed_crc(batch, 0, len(batch)) == header.crc


def _batch_fields(header: BatchHeader, position: int, is_valid: bool) -> dict[str, Value]:
    try:
        codec = header.compression.name.lower()
    except KafkaError:
        codec = f"unknown({header.attributes & 7})"
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.records_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "position": position,
        _timestamp_name(header): header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": codec,
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _timestamp_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime"


def _records(header: BatchHeader, batch: bytes, position: int, wording: Wording) -> Found:
    try:
        for record in iterate_records(batch):
            yield Row(RECORD, _record_fields(header, record, wording))
    except KafkaError as error:
        yield Broken(position, f"the records of the batch cannot be read: {error.detail}")


def _record_fields(header: BatchHeader, record: Record, wording: Wording) -> dict[str, Value]:
    delta = record.offset - header.base_offset
    sequence = -1 if header.base_sequence < 0 else (header.base_sequence + delta) & (2**31 - 1)
    fields: dict[str, Value] = {
        "offset": record.offset,
        _timestamp_name(header): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": sequence,
        "headerKeys": [name for name, _ in record.headers],
    }
    if header.is_control:
        marker = parse_marker(record)
        if marker is not None:
            fields |= {
                "endTxnMarker": marker.control_type.name,
                "coordinatorEpoch": marker.coordinator_epoch,
            }
        return fields
    key, payload = wording(record)
    if key is not None:
        fields["key"] = key
    if payload is not None:
        fields["payload"] = payload
    return fields


# ---- indexes -------------------------------------------------------------------------------------


def read_offset_index(path: Path, base_offset: int, log: Path | None) -> Found:
    """Read the rows of an `.index`, and compare them with its segment if that exists."""
    batches = dict(_headers(log)) if log is not None else None
    previous = None
    for position, (relative, target) in _rows(path, OFFSET_ROW, file_end := _FileEnd()):
        offset = base_offset + relative
        yield Row(ROW, {"offset": offset, "position": target})
        if previous is not None and (offset <= previous[0] or target <= previous[1]):
            yield Broken(
                position, f"the row does not come after the previous one, {previous[0]}:{previous[1]}."
            )
        elif batches is not None and (header := batches.get(target)) is None:
            yield Broken(position, f"no batch begins at byte {target} of {log and log.name}.")
        elif batches is not None and header is not None and header.last_offset != offset:
            yield Broken(
                position, f"the batch at byte {target} ends at offset {header.last_offset}, not at {offset}."
            )
        previous = offset, target
    yield from file_end.found


def read_time_index(path: Path, base_offset: int, log: Path | None) -> Found:
    """Read the rows of a `.timeindex`, and compare them with its segment if that exists."""
    batches = None if log is None else {header.last_offset: header for _, header in _headers(log)}
    previous = None
    for position, (timestamp, relative) in _rows(path, TIME_ROW, file_end := _FileEnd()):
        offset = base_offset + relative
        yield Row(ROW, {"timestamp": timestamp, "offset": offset})
        if previous is not None and (timestamp <= previous[0] or offset < previous[1]):
            yield Broken(
                position, f"the row does not come after the previous one, {previous[0]}:{previous[1]}."
            )
        elif batches is not None and (header := batches.get(offset)) is None:
            yield Broken(position, f"no batch ends at offset {offset} in {log and log.name}.")
        elif batches is not None and header is not None and header.max_timestamp != timestamp:
            yield Broken(
                position, f"the largest timestamp of that batch is {header.max_timestamp}, not {timestamp}."
            )
        previous = timestamp, offset
    yield from file_end.found


def read_transaction_index(path: Path) -> Found:
    """Read the aborted transactions of a `.txnindex`."""
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    for position, row in _rows(path, TRANSACTION_ROW, file_end := _FileEnd()):
        yield Row(ROW, dict(zip(names, row, strict=True)))
        if row[0] != 0:
            yield Broken(position, f"the version of the row is {row[0]}, but only 0 is supported.")
    yield from file_end.found


class _FileEnd:
    """The errors and notes about the end of a file, which its reader yields after the rows."""

    def __init__(self) -> None:
        self.found: list[Row | Broken] = []


def _rows(path: Path, row: struct.Struct, file_end: _FileEnd) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the position and the fields of each row; put what follows the last one into `file_end`.

    Zeros at the end are space that Apache Kafka has reserved.
    """
    content = path.read_bytes()
    written = len(content.rstrip(b"\0"))
    count = -(-written // row.size)
    whole = min(count, len(content) // row.size)
    for number in range(whole):
        yield number * row.size, row.unpack_from(content, number * row.size)
    if len(content) % row.size:
        problem = (
            f"{len(content) % row.size} bytes are left after "
            f"{len(content) // row.size} rows of {row.size} bytes."
        )
        file_end.found.append(Broken(len(content) - len(content) % row.size, problem))
    spare = len(content) // row.size - whole
    if spare:
        file_end.found.append(Row(NOTE, {"reservedRows": spare}))


def _headers(log: Path) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and the header of each batch of a segment, up to the first incomplete one."""
    with log.open("rb") as file:
        size = file.seek(0, io.SEEK_END)
        position = 0
        while size - position >= HEADER_SIZE:
            file.seek(position)
            header = read_header(file.read(HEADER_SIZE))
            if header.magic != MAGIC or not HEADER_SIZE <= header.size_bytes <= size - position:
                return
            yield position, header
            position += header.size_bytes


# ---- small files ---------------------------------------------------------------------------------


def read_producer_snapshot(path: Path) -> Found:
    """Read the producers of a `.snapshot`."""
    content = path.read_bytes()
    if len(content) < _SNAPSHOT_HEAD.size:
        yield Broken(0, f"{len(content)} bytes are too short for a producer snapshot.")
        return
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
    if version != 1:
        yield Broken(0, f"the version of the snapshot is {version}, but only 1 is supported.")
        return
    if crc32c(content[_SNAPSHOT_CRC_START:]) != crc:
        yield Broken(2, "the CRC of the snapshot does not match.")
    position = _SNAPSHOT_HEAD.size
    for _ in range(min(max(count, 0), (len(content) - position) // _SNAPSHOT_ROW.size)):
        yield Row(ROW, _producer_fields(_SNAPSHOT_ROW.unpack_from(content, position)))
        position += _SNAPSHOT_ROW.size
    if position != len(content) or position != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ROW.size:
        read = (position - _SNAPSHOT_HEAD.size) // _SNAPSHOT_ROW.size
        yield Broken(
            position,
            f"the snapshot should have {count} producers, but has {read}, and "
            f"{len(content) - position} bytes are left.",
        )


def _producer_fields(row: tuple[int, ...]) -> dict[str, Value]:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = row
    fields: dict[str, Value] = {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "coordinatorEpoch": coordinator_epoch,
        "currentTxnFirstOffset": first_offset if first_offset >= 0 else None,
        "lastTimestamp": timestamp,
    }
    if sequence >= 0 or offset >= 0:
        fields |= {
            "firstSequence": (sequence - delta) & (2**31 - 1) if sequence >= 0 else -1,
            "lastSequence": sequence,
            "lastOffset": offset,
            "offsetDelta": delta,
            "timestamp": timestamp,
        }
    return fields


def read_checkpoint(path: Path, names: tuple[str, ...]) -> Found:
    """Read a checkpoint in Kafka's format: version, count, and lines whose fields are called `names`."""
    with path.open("rb") as file:
        content = file.read(MAX_TEXT_BYTES)
    lines = content.split(b"\n")
    if not content.strip():
        return  # Kafka creates the file empty, before it first writes to it.
    if lines[0].strip() != b"0":
        yield Broken(0, f"the version is {as_text(lines[0][:40])!r}, but only 0 is supported.")
    position = len(lines[0]) + 1
    count = int(lines[1]) if len(lines) > 1 and _NUMBER.fullmatch(lines[1].strip()) else None
    if count is None:
        yield Broken(position, "the number of lines is missing.")
    position += len(lines[1]) + 1 if len(lines) > 1 else 0
    good = 0
    for line in lines[2:]:
        fields = line.split()
        numbers = fields[1:] if names[0] == "topic" else fields
        if len(fields) == len(names) and all(_NUMBER.fullmatch(field) for field in numbers):
            good += 1
            text = [as_text(field) for field in fields]
            yield Row(
                ROW,
                {name: one if name == "topic" else int(one) for name, one in zip(names, text, strict=True)},
            )
        elif fields:
            yield Broken(position, f"{as_text(line[:80])!r} is not of the form {' '.join(names)!r}.")
        position += len(line) + 1
    if count is not None and count != good:
        yield Broken(min(position, len(content)), f"the file should have {count} lines, but has {good}.")
    elif not content.endswith(b"\n"):
        yield Broken(len(content), "the last line does not end with a newline: the file may be cut off.")


def read_properties(path: Path, separator: str) -> Found:
    """Read the names and values of partition.metadata or meta.properties."""
    with path.open("rb") as file:
        content = file.read(MAX_TEXT_BYTES)
    position = 0
    for line in content.split(b"\n"):
        name, found, value = as_text(line).partition(separator)
        if found and not name.lstrip().startswith("#"):
            value = value.strip()
            yield Row(ROW, {name.strip(): value})
            if name.strip() == "topic_id" and not _is_topic_id(value):
                yield Broken(position, f"{value[:80]!r} is not a topic id.")
        elif line.strip() and not line.lstrip().startswith(b"#"):
            yield Broken(position, f"{as_text(line[:80])!r} is not of the form name{separator}value.")
        position += len(line) + 1


def _is_topic_id(text: str) -> bool:
    try:
        return uuid_from_text(text) != ZERO_UUID
    except KafkaError:
        return False

"""Fuzz targets for the state of a node: internal logs, metadata, messages of voters, files beside logs."""

import random
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, get_args

from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.group_records import (
    GroupMetadataRecord,
    GroupMetadataValue,
    OffsetCommitValue,
    OffsetRecord,
)
from ottla.groupcoord.offsets.offset_log_scan import OffsetLogScan
from ottla.groupcoord.record_codec import GroupRecord, encode_key, encode_value
from ottla.groupcoord.record_codec import decode_record as decode_group_record
from ottla.groupcoord.shard import GroupShard
from ottla.groupcoord.shard_load import load_shard
from ottla.groupcoord.share.share_group import ShareStates, TopicState, states_record
from ottla.groupcoord.share.share_member import ShareMember
from ottla.groupcoord.share_state.share_state import ShareState, Update
from ottla.groupcoord.share_state.share_state_config import ShareCoordinatorConfig
from ottla.groupcoord.share_state.share_state_records import SnapshotRecord, UpdateRecord
from ottla.groupcoord.share_state.share_state_records import decode_record as decode_share_state
from ottla.groupcoord.share_state.share_state_records import encode_record as encode_share_state
from ottla.groupcoord.share_state.share_state_scan import ShareStateScan
from ottla.groupcoord.share_state.share_state_shard import ShareStateShard
from ottla.groupcoord.share_state.share_state_words import SharePartitionKey, StateBatch
from ottla.groupcoord.transactions import transaction_scan
from ottla.groupcoord.transactions.transaction import begun, with_partitions
from ottla.groupcoord.transactions.transaction_config import TransactionConfig
from ottla.groupcoord.transactions.transaction_records import encode_key as encode_transaction_key
from ottla.groupcoord.transactions.transaction_records import encode_value as encode_transaction_value
from ottla.groupcoord.transactions.transaction_shard import TransactionShard
from ottla.logstore import checkpoint, log_dir
from ottla.logstore.compression import Compression
from ottla.logstore.disk import MemoryDisk
from ottla.logstore.log_check import check_of
from ottla.logstore.log_config import LogConfig
from ottla.logstore.meta_properties import MetaProperties, decode_meta_properties
from ottla.logstore.partition_log import FetchIsolation, PartitionLog
from ottla.logstore.producer_state import decode_snapshot as decode_producers
from ottla.logstore.record import ControlType, EndTransactionMarker, build_batch, build_marker
from ottla.logstore.record_batch import HEADER_SIZE, LOG_OVERHEAD, computed_crc
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import ZERO_UUID, TopicPartition
from ottla.metadata_raft import raft_messages
from ottla.metadata_raft.command_codec import decode_command, decode_reply, encode_command, encode_reply
from ottla.metadata_raft.commands import Command, CreateTopics, Reply
from ottla.metadata_raft.control_records import control_record
from ottla.metadata_raft.image import Endpoint, MetadataImage
from ottla.metadata_raft.raft_entry import check_entry, check_sequence, encode_entry, open_entry, voters_of
from ottla.metadata_raft.raft_guard import Peer
from ottla.metadata_raft.raft_handshake import (
    LINK,
    NONCE_BYTES,
    LinkIdentity,
    answer,
    check_proof,
    hello,
    prove,
    read_hello,
    read_welcome,
    welcome,
)
from ottla.metadata_raft.record_codec import (
    MetadataBatch,
    decode_batch,
    decode_record,
    encode_batch,
    encode_record,
)
from ottla.metadata_raft.snapshot import encode_snapshot, image_records, read_snapshot
from ottla.node.share.dead_letters import DeadLetters, Note, encode_note, read_note
from ottla.node.share.share_words import ArchivedRecords, ArchiveReason
from tests.fuzz.target import Target, try_all
from tests.property.random_messages import random_message
from tests.unit.metadata_raft.metadata_world import EMPTY, MetadataWorld

_NOW_MS: Final = 1_000_000


def _all_sealed(content: bytes) -> bytes:
    """Return the bytes with the CRC of each whole batch at their start corrected."""
    whole, position = bytearray(content), 0
    while len(whole) - position >= HEADER_SIZE:
        size = LOG_OVERHEAD + int.from_bytes(whole[position + 8 : position + 12], signed=True)
        if not HEADER_SIZE <= size <= len(whole) - position:
            break
        batch = memoryview(whole)[position : position + size]
        crc = computed_crc(batch, 0, size)
        batch.release()
        whole[position + 17 : position + 21] = crc.to_bytes(4)
        position += size
    return bytes(whole)


# ---- groups and transactions ------------------------------------------------------------------------------


def _group_logs() -> list[bytes]:
    offsets = [
        OffsetRecord("g", "t", one, OffsetCommitValue(offset=one * 7, commit_timestamp=1)) for one in range(3)
    ]
    members = GroupMetadataRecord("g", GroupMetadataValue(protocol_type="consumer", generation=1))
    rows = [(encode_key(one), encode_value(one), 0, ()) for one in (*offsets, members)]
    tombstone = (encode_key(members), None, 0, ())
    uncompressed = bytes(build_batch([*rows, tombstone]))
    compressed = bytes(build_batch(rows, compression=Compression.GZIP))
    transactional = bytes(
        build_batch(rows[:3], base_offset=5, producer_id=4, producer_epoch=0, is_transactional=True)
    )
    marker = bytes(
        build_marker(
            EndTransactionMarker(ControlType.COMMIT, 0),
            base_offset=8,
            producer_id=4,
            producer_epoch=0,
            timestamp_ms=1,
        )
    )
    return [
        uncompressed,
        compressed,
        transactional + marker,
        uncompressed + transactional + marker,
        *_consumer_group_logs(),
    ]


def _consumer_group_logs() -> list[bytes]:
    """Return logs with keys of every kind, and values that begin like valid ones."""
    keys = [struct.pack(">hh", kind, 1) + b"g" + struct.pack(">h", 1) + b"m" for kind in range(20)]
    values = [b"\0\0" + bytes(40), b"\0\1" + b"\2g" * 20, b"\0\0\0\0\0\1" + bytes(30)]
    return [bytes(build_batch([(key, value, 0, ()) for key in keys])) for value in values]


def _load_groups(content: bytes) -> None:
    scan = OffsetLogScan()
    scan.feed(content)
    shard = load_shard(scan.finish(), GroupShard(CoordinatorConfig(), lambda: "uuid"))
    assert len(shard.groups) <= len(content)


def _split(content: bytes) -> tuple[bytes, bytes]:
    length = content[0] if content else 0
    return content[1 : 1 + length], content[1 + length :]


def _joined(key: bytes, value: bytes | None) -> bytes:
    return bytes((len(key),)) + key + (value or b"")


def _group_records() -> list[bytes]:
    found = []
    for log in _group_logs():
        scan = OffsetLogScan()
        scan.feed(log)
        found += [_joined(key, value) for key, value in scan.finish().others]
    one = OffsetRecord("g", "t", 1, OffsetCommitValue(offset=7, commit_timestamp=1, metadata="m"))
    states = ShareStates({b"i" * 16: TopicState("t", frozenset({0, 2}))}, deleting={b"d" * 16: "gone"})
    member = ShareMember(member_id="m", topic_names=frozenset({"t"}), assigned={b"i" * 16: frozenset({0})})
    shared: list[GroupRecord] = [
        states_record("g", states),
        member.metadata_record("g"),
        member.current_assignment_record("g"),
    ]
    return [*found, *(_joined(encode_key(each), encode_value(each)) for each in (one, *shared))]


def _read_group_record(content: bytes) -> None:
    key, value = _split(content)
    for one in (value, None):
        record = decode_group_record(key, one)
        if record is not None:
            GroupShard(CoordinatorConfig(), lambda: "uuid").replay(record)


@cache
def _transaction_rows() -> list[tuple[bytes, bytes]]:
    rows = []
    for level in (0, 2):
        t = begun("id", 5, timeout_ms=1_000, now_ms=_NOW_MS)
        added = {TopicPartition("t", 0), TopicPartition("t", 3)}
        more = with_partitions(t, added, client_version=level, now_ms=_NOW_MS)
        key = encode_transaction_key(t.transactional_id)
        rows += [(key, encode_transaction_value(one, level)) for one in (t, more)]
    return rows


def _transaction_logs() -> list[bytes]:
    rows = [(key, value, 0, ()) for key, value in _transaction_rows()]
    return [bytes(build_batch([one])) for one in rows] + [
        bytes(build_batch(rows, compression=Compression.ZSTD))
    ]


def _load_transactions(content: bytes) -> None:
    scan = transaction_scan.TransactionScan()
    scan.feed(content)
    transaction_scan.load_shard(
        scan.finish(), TransactionShard(TransactionConfig(), level=2, coordinator_epoch=0)
    )


def _notes() -> list[bytes]:
    """Return notes on the dead letters of a share-partition: without letters, and with some."""
    records = (
        ArchivedRecords(5, 5, 1, ArchiveReason.REJECTED),
        ArchivedRecords(7, 9, 5, ArchiveReason.DELIVERY_LIMIT),
    )
    letters = DeadLetters(
        producer_id=7, producer_epoch=1, topic_id=bytes(range(16)), partition=0, records=records
    )
    one = replace(letters, records=records[:1])
    return [encode_note(Note(3, None)), encode_note(Note(4, letters)), encode_note(Note(5, one))]


def _read_note(content: bytes) -> None:
    """Read a note; written again, it must have the given bytes."""
    try:
        note = read_note(content)
    except ValueError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    assert not content or encode_note(note) == content


@cache
def _share_state_records() -> list[tuple[bytes, bytes | None]]:
    key = SharePartitionKey("g", bytes(range(16)), 1)
    batches = (StateBatch(5, 9, 0, 1), StateBatch(10, 10, 2, 2))
    state = ShareState(
        snapshot_epoch=1,
        state_epoch=2,
        leader_epoch=3,
        start_offset=5,
        delivery_complete_count=1,
        create_time_ms=_NOW_MS,
        write_time_ms=_NOW_MS,
        batches=batches,
        dead_letters=_notes()[1],
    )
    return [
        encode_share_state(one)
        for one in (
            SnapshotRecord(key, state),
            UpdateRecord(key, Update(1, 3, 7, -1, batches, _notes()[0])),
            SnapshotRecord(key, None),
        )
    ]


def _share_state_logs() -> list[bytes]:
    rows = [(key, value, 0, ()) for key, value in _share_state_records()]
    return [bytes(build_batch([one])) for one in rows] + [
        bytes(build_batch(rows[:2], compression=Compression.ZSTD)),
        b"\0".join(key + (value or b"") for key, value in _share_state_records()),
    ]


def _load_share_states(content: bytes) -> None:
    """Load the bytes as a log, and replay them as the key and value of one record."""

    def replayed(key: bytes, value: bytes) -> None:
        record = decode_share_state(key, value)
        if record is not None:
            shard = ShareStateShard(ShareCoordinatorConfig(), partitions_of=lambda topic_id: 2)
            shard.replay(record)
            shard.check_invariants()

    def loaded() -> None:
        scan = ShareStateScan(ShareStateShard(ShareCoordinatorConfig(), partitions_of=lambda topic_id: 2))
        scan.feed(content)
        shard, _ = scan.finish()
        shard.check_invariants()

    length = len(_share_state_records()[0][0])
    try_all((loaded, lambda: replayed(content[:length], content[length:])))


# ---- metadata ---------------------------------------------------------------------------------------------


@cache
def _image() -> MetadataImage:
    world = MetadataWorld()
    world.submit(CreateTopics(topics=[world.topic("t", 2, configs=[("retention.ms", "5")])]))
    return world.image


def _metadata_logs() -> list[bytes]:
    image = _image()
    batch = MetadataBatch(0, 1, _NOW_MS, list(image_records(image)))
    entries = [
        encode_entry(batch, 3),
        *(encode_entry(batch._replace(records=[one]), 3) for one in batch.records),
    ]
    return [bytes(encode_batch(batch)), b"".join(encode_snapshot(image, index=3)), *entries]


def _open_entry(log: bytes) -> None:
    check_entry(log)  # as the reader of the log does first
    open_entry(log)
    voters_of(log)


def _read_metadata_record(content: bytes) -> None:
    decode_record(content)


def _metadata_records() -> list[bytes]:
    return [encode_record(one) for one in image_records(_image())]


def _read_metadata_log(content: bytes) -> None:
    log = _all_sealed(content)
    try_all(
        (
            lambda: decode_batch(log),
            lambda: _open_entry(log),
            lambda: control_record(log),
            lambda: check_sequence([log], after_index=-1, after_term=0),
            lambda: read_snapshot(log, empty=EMPTY, version=len(content), epoch=_image().epoch),
        )
    )


# ---- voters and brokers -----------------------------------------------------------------------------------


def _identity(node_id: int) -> LinkIdentity:
    return LinkIdentity(
        b"a cluster of 16!", Peer(node_id, bytes([node_id]) * 16), Endpoint("host", 9_000 + node_id)
    )


_SECRET: Final = b"secret"
_GREETING: Final = hello(_identity(1), b"n" * NONCE_BYTES, purpose=LINK)


def _quorum_messages() -> list[bytes]:
    chance = random.Random("words")
    messages = [
        _GREETING,
        answer(read_hello(_GREETING, _identity(2)), _identity(2), b"m" * NONCE_BYTES, _SECRET),
        welcome([]),
    ]
    messages += [
        raft_messages.encode_message(random_message(cls, 0, chance)) for cls in raft_messages._KINDS.values()
    ]
    messages += [encode_command(random_message(cls, 0, chance)) for cls in get_args(Command)]
    return messages + [encode_reply(random_message(cls, 0, chance)) for cls in get_args(Reply)]


def _decode_messages(content: bytes) -> None:
    """Decode bytes as each message of voters and brokers."""
    try_all(
        (
            lambda: raft_messages.decode_message(content),
            lambda: read_hello(content, _identity(2)),
            lambda: prove(_GREETING, content, _identity(1), _SECRET, expected_id=2),
            lambda: check_proof(content, read_hello(_GREETING, _identity(2)), _GREETING, _SECRET),
            lambda: read_welcome(content),
            lambda: decode_command(content),
            lambda: decode_reply(content),
        )
    )


# ---- files ------------------------------------------------------------------------------------------------

_DIRECTORY: Final = Path("/data/t-0")
_END_OFFSET: Final = 80


def _open_log(disk: MemoryDisk, *, clean: bool, recovery_point: int = 0) -> PartitionLog:
    return PartitionLog.open(
        disk=disk,
        directory=_DIRECTORY,
        topic_partition=TopicPartition("t", 0),
        topic_id=ZERO_UUID,
        config=LogConfig(index_interval_bytes=1, segment_bytes=2_000),
        now_ms=_NOW_MS,
        clean_shutdown=clean,
        recovery_point=recovery_point,
        log_start_offset=0,
        compacted_to=0,
    )


@cache
def _sound_disk() -> MemoryDisk:
    """Return a disk with a log of some segments, from producers and two leader epochs."""
    disk = MemoryDisk()
    log = _open_log(disk, clean=True)
    for number in range(40):
        batch = build_batch(
            [(b"k", b"v" * 30, _NOW_MS + number, ())] * 2,
            producer_id=number % 3 - 1,
            producer_epoch=0,
            base_sequence=2 * (number // 3),
        )
        log.append_as_leader(batch, leader_epoch=number // 20, now_ms=_NOW_MS)
    assert log.log_end_offset == _END_OFFSET
    log.close(now_ms=_NOW_MS)
    return disk


@cache
def _file_names() -> list[Path]:
    return sorted(_sound_disk().files)


def _log_files() -> list[bytes]:
    disk = _sound_disk()
    return [
        bytes((number, clean)) + bytes(disk.files[path].content)[:4_000]
        for number, path in enumerate(_file_names())
        for clean in (0, 1)
    ]


def _open_damaged(content: bytes) -> None:
    """Open a log with these bytes in one of its files, read it, look up timestamps, and check it."""
    if len(content) < 2:
        return
    path = _file_names()[content[0] % len(_file_names())]
    disk = _sound_disk().copy()
    disk.write_file(path, content[2:], sync=True)
    is_clean = bool(content[1] & 1)
    # After a clean stop the checkpoint has the log end offset.
    log = _open_log(disk, clean=is_clean, recovery_point=_END_OFFSET if is_clean else content[1] >> 1)
    try:
        jobs: list[Callable[[], object]] = [
            lambda offset=offset: _read(log, offset)  # type: ignore[misc]
            for offset in (log.log_start_offset, log.log_end_offset - 1, 20, 40)
            if log.log_start_offset <= offset < log.log_end_offset
        ]
        jobs += [
            lambda: log.fetch_offset_for_timestamp(_NOW_MS + 20),
            lambda: log.fetch_offset_for_timestamp(-1),
            lambda: log.end_offset_for_epoch(0),
            lambda: list(check_of(log, disk).steps()),
            lambda: _append(log),
        ]
        try_all(jobs)
    finally:
        log.close(now_ms=_NOW_MS)


def _append(log: PartitionLog) -> None:
    for _ in range(3):
        batch = build_batch([(b"k", b"v" * 30, _NOW_MS, ())])
        log.append_as_leader(batch, leader_epoch=max(2, log.latest_epoch), now_ms=_NOW_MS)
    log.flush(now_ms=_NOW_MS)


def _read(log: PartitionLog, offset: int) -> bytes:
    found = log.read(offset, 1_000, isolation=FetchIsolation.LOG_END, minimum_one_batch=True)
    return found.slice.read()


_PATH: Final = Path("/data/file")


def _small_files() -> list[bytes]:
    owner = MetaProperties(cluster_id=b"c" * 16, node_id=3, directory_id=b"d" * 16)
    disk = _sound_disk()
    return [
        checkpoint.encode_offsets({TopicPartition("t", 0): 5, TopicPartition("u", 12): 2**62}),
        checkpoint.encode_epochs([(0, 0), (3, 40)]),
        checkpoint.encode_partition_metadata(b"t" * 16),
        owner.encode(),
        log_dir.clean_shutdown_content(7),
        *(bytes(file.content) for path, file in disk.files.items() if path.suffix == ".snapshot"),
        b"topic-with-dashes-12",
        b"topic-0.0123456789abcdef0123456789abcdef-delete",
    ]


def _read_small_file(content: bytes) -> None:
    name = content.decode("utf-8", "replace")
    try_all(
        (
            lambda: checkpoint.decode_offsets(content, _PATH),
            lambda: checkpoint.decode_epochs(content, _PATH),
            lambda: checkpoint.decode_partition_metadata(content, _PATH),
            lambda: decode_meta_properties(content, _PATH),
            lambda: decode_producers(content, 0),
            lambda: log_dir.parse_directory_name(name),
        )
    )


TARGETS: Final = (
    Target(
        name="group-log",
        reads="the log of a shard of groups, as a coordinator loads it",
        corpus=_group_logs,
        run=_load_groups,
    ),
    Target(
        name="group-records",
        reads="keys and values of __consumer_offsets, which are replayed",
        corpus=_group_records,
        run=_read_group_record,
    ),
    Target(
        name="transaction-log",
        reads="the log of a shard of transactions, as a coordinator loads it",
        corpus=_transaction_logs,
        run=_load_transactions,
    ),
    Target(
        name="share-state-log",
        reads="the log of a shard of share-partitions, as a coordinator loads it, and its records",
        corpus=_share_state_logs,
        run=_load_share_states,
    ),
    Target(
        name="dead-letter-note",
        reads="the note on dead letters in the state of a share-partition, as its leader reads it",
        corpus=_notes,
        run=_read_note,
    ),
    Target(
        name="metadata-log",
        reads="batches of the metadata log, entries of the quorum, snapshots",
        corpus=_metadata_logs,
        run=_read_metadata_log,
    ),
    Target(
        name="metadata-records",
        reads="records of the metadata log",
        corpus=_metadata_records,
        run=_read_metadata_record,
    ),
    Target(
        name="quorum-messages",
        reads="messages between voters and brokers, and the handshake before them",
        corpus=_quorum_messages,
        run=_decode_messages,
    ),
    Target(
        name="log-files",
        reads="a log with a damaged file: opened, read, searched by time, checked",
        corpus=_log_files,
        run=_open_damaged,
    ),
    Target(
        name="small-files",
        reads="checkpoints, files of ids, producer snapshots, names of directories",
        corpus=_small_files,
        run=_read_small_file,
    ),
)

"""Fuzz targets for batches and records: validation, reading and decompression."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from ottla.logstore import batch_validator, opened_records, pure_record_walk
from ottla.logstore.batch_validator import check_follower_batches, validate_at_once, validate_batch
from ottla.logstore.compression import Compression, compress, decompress, decompress_pieces
from ottla.logstore.log_config import LogConfig
from ottla.logstore.opened_records import OpenedRecords, find_record, open_records
from ottla.logstore.opener import BorrowedOpener
from ottla.logstore.record import (
    ControlType,
    EndTransactionMarker,
    NewRecord,
    build_batch,
    build_marker,
    iterate_records,
    marker_of_batch,
    records_from,
    records_of,
)
from ottla.logstore.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    check_batch,
    computed_crc,
    iterate_headers,
    read_header,
)
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from tests.fuzz.target import Target, try_all
from tests.property.mutated_records import Case, some_case
from tests.property.walk_twins import differences

_NOW_MS: Final = 1_700_000_000_000
_MAX_OPENED_BYTES: Final = 1 << 20
_CRC: Final = slice(17, 21)
_CODECS: Final = tuple(Compression)
_CONFIGS: Final = (
    LogConfig(),
    LogConfig(cleanup_policy=("compact",)),
    LogConfig(compression_type="gzip"),
    LogConfig(compression_type="uncompressed", cleanup_policy=("compact",)),
    LogConfig(validate_records=False),
    LogConfig(message_timestamp_type="LogAppendTime"),
    LogConfig(max_message_bytes=500),
    LogConfig(message_timestamp_after_max_ms=1_000, message_timestamp_before_max_ms=1_000),
)
_WINDOWS: Final = ((-(2**63), 2**63 - 1), (_NOW_MS - 1_000, _NOW_MS + 1_000), (0, 2**62))


# ---- the walk over records --------------------------------------------------------------------------------


def _walk_corpus() -> list[bytes]:
    chance = random.Random("walk")
    return [
        bytes((case.count & 0x7F, index, 0)) + case.content
        for index in range(40)
        for case in (some_case(chance),)
    ]


def _walk(content: bytes) -> None:
    """Compare the results of the compiled walk and its twin in Python."""
    if len(content) < 3:
        return
    count, kind, seed = content[:3]
    base = (_NOW_MS, -1, 0, 2**63 - 1)[kind & 3]
    case = Case(content[3:], count, base, *_WINDOWS[kind % len(_WINDOWS)], bool(kind & 128))
    found = differences(case, random.Random(seed))
    assert not found, found[0]


# ---- batches ----------------------------------------------------------------------------------------------

_ROWS: Final[tuple[list[NewRecord], ...]] = (
    [(b"key", b"value" * 20, _NOW_MS, (("h", b"x"),)), (b"k", None, _NOW_MS + 5, ())],
    [(None, b"", _NOW_MS - index, ()) for index in range(20)],
    [(b"k%d" % index, b"v" * 300, _NOW_MS, (("a", None), ("b", b""))) for index in range(12)],
)


def _batches() -> list[bytes]:
    found = [
        bytes(build_batch(rows, compression=codec, producer_id=producer, producer_epoch=0, base_sequence=0))
        for rows in _ROWS
        for codec in _CODECS
        for producer in (-1, 5)
    ]
    marker = build_marker(
        EndTransactionMarker(ControlType.COMMIT, 3), producer_id=5, producer_epoch=0, timestamp_ms=_NOW_MS
    )
    return [*found, bytes(marker)]


def sealed(batch: bytes) -> bytes:
    """Return the batch with a correct length and CRC, as an attacker would send it."""
    if len(batch) < HEADER_SIZE:
        return batch
    whole = bytearray(batch)
    whole[8:12] = (len(whole) - LOG_OVERHEAD).to_bytes(4)
    whole[_CRC] = computed_crc(whole, 0, len(whole)).to_bytes(4)
    return bytes(whole)


def _split(content: bytes) -> tuple[int, bytes]:
    """Return the low bits of the first byte, and the batch after it, sealed if the highest bit is 0."""
    if not content:
        return 0, b""
    kind, batch = content[0], content[1:]
    return kind & 0x7F, batch if kind & 0x80 else sealed(batch)


def _with_first_bytes(batches: list[bytes], kinds: int) -> list[bytes]:
    """Return inputs for `_split`: all batches to be sealed, and some to be left as they are."""
    to_seal = [bytes((index % kinds,)) + one for index, one in enumerate(batches)]
    return [*to_seal, *(bytes((0x80 | index % kinds,)) + one for index, one in enumerate(batches[::5]))]


@contextmanager
def _in_python() -> Iterator[None]:
    """Use the walk in Python, as in an installation without a compiler."""
    with (
        patch.object(batch_validator, "walk", pure_record_walk.walk),
        patch.object(batch_validator, "is_plain", pure_record_walk.is_plain),
        patch.object(opened_records, "find", pure_record_walk.find),
    ):
        yield


def _outcome_of(job: Callable[[], Any]) -> tuple[object, ...]:
    try:
        valid = job()
    except KafkaError as error:
        return error.code, error.detail
    return valid if valid is None else (valid.header, bytes(valid.batch))


def _validate(content: bytes) -> None:
    """Validate a client's batch at once and in full, compiled and in Python; the results must agree."""
    kind, batch = _split(content)
    config, version = _CONFIGS[kind % len(_CONFIGS)], 13 if kind & 8 else 3

    def in_full() -> Any:
        return validate_batch(bytearray(batch), config=config, now_ms=_NOW_MS, produce_version=version)

    checked = _outcome_of(in_full)
    at_once = _outcome_of(
        lambda: validate_at_once(bytearray(batch), config=config, now_ms=_NOW_MS, produce_version=version)
    )
    # A compressed batch is decompressed in pieces, so another of its errors may be found first.
    both_reject = (
        at_once is not None and isinstance(at_once[0], ErrorCode) and isinstance(checked[0], ErrorCode)
    )
    assert at_once is None or at_once == checked or both_reject, f"at once {at_once}, in full {checked}"
    with _in_python():
        pure = _outcome_of(in_full)
    assert pure == checked, f"in Python {pure}, compiled {checked}"
    if checked and isinstance(checked[0], ErrorCode):
        return
    if config.validate_records:
        # Every reader can read an accepted batch.
        stored = checked[1]
        assert isinstance(stored, bytes)
        header = check_batch(stored)
        assert len(list(iterate_records(stored))) == header.records_count


def _read_batches(content: bytes) -> None:
    """Read bytes as consumers, followers, lookups of timestamps and the tools do."""
    kind, batch = _split(content)
    jobs: tuple[Callable[[], object], ...] = (
        lambda: check_batch(batch),
        lambda: list(iterate_headers(batch)),
        lambda: list(iterate_records(batch)),
        lambda: list(records_from(batch, kind)),
        lambda: records_of([batch]),
        lambda: marker_of_batch(batch),
        lambda: check_follower_batches(memoryview(batch), kind - 1, TopicPartition("t", 0)),
        lambda: _find(batch, kind),
    )
    try_all(jobs)


def _find(batch: bytes, kind: int) -> None:
    header = read_header(batch)
    opened = open_records(header, batch, max_bytes=_MAX_OPENED_BYTES)
    find_record(
        opened,
        0,
        min(header.records_count, 10_000),
        base_timestamp=header.base_timestamp,
        timestamp=kind * 10**10,
    )


# ---- compressed records -----------------------------------------------------------------------------------


def _compressed_corpus(codec: Compression) -> Callable[[], list[bytes]]:
    def corpus() -> list[bytes]:
        contents = [b"", b"x", b"word " * 60, random.Random(1).randbytes(3_000), bytes(3 << 20)]
        found = [compress(codec, one) for one in contents]
        found += [found[2] * 2, found[1] * 30, found[2][:-3]]
        if codec is Compression.SNAPPY:
            found.append(found[2][20:])  # a single block, as some clients send it
        if codec is Compression.ZSTD:
            found.append(b"\x50\x2a\x4d\x18\x04\0\0\0skip" + found[2])
        return found

    return corpus


def _opener_of(codec: Compression) -> Callable[[bytes], None]:
    def run(content: bytes) -> None:
        """Decompress the bytes in each of the ways that the product does; the results must agree."""
        whole = _opened(lambda: bytes(decompress(codec, content, max_bytes=_MAX_OPENED_BYTES)))
        in_pieces = _opened(
            lambda: b"".join(
                decompress_pieces(codec, content, max_bytes=_MAX_OPENED_BYTES, piece_bytes=4_096)
            )
        )
        assert type(whole) is type(in_pieces), f"at once {_short(whole)}, in pieces {_short(in_pieces)}"
        if isinstance(whole, bytes):
            assert whole == in_pieces and len(whole) <= _MAX_OPENED_BYTES
        with BorrowedOpener() as opener:
            borrowed = opener.open(codec, content, _MAX_OPENED_BYTES)
            assert borrowed is None or bytes(borrowed) == whole, (
                f"with a borrowed opener {len(borrowed)} bytes, at once {_short(whole)}"
            )
        opened = OpenedRecords(codec, content, max_bytes=_MAX_OPENED_BYTES)
        while opened.more():
            opened.position = min(len(opened.content), opened.position + 4_096)

    return run


def _opened(job: Callable[[], bytes]) -> bytes | KafkaError:
    try:
        return job()
    except KafkaError as error:
        return error


def _short(one: bytes | KafkaError) -> str:
    return f"{len(one)} bytes" if isinstance(one, bytes) else f"{one.code.name}: {one.detail}"


TARGETS: Final = (
    Target(
        name="record-walk",
        reads="records of a batch, in the compiled walk and in its twin in Python",
        corpus=_walk_corpus,
        run=_walk,
    ),
    Target(
        name="produced-batches",
        reads="batches of producers, with many settings, at once and in full, in both walks",
        corpus=lambda: _with_first_bytes(_batches(), 16),
        run=_validate,
    ),
    Target(
        name="read-batches",
        reads="batches that a leader sent or that are in a log",
        corpus=lambda: _with_first_bytes([*_batches(), b"".join(_batches()[:3])], 7),
        run=_read_batches,
    ),
    *(
        Target(
            name=f"opened-{codec.name.lower()}",
            reads=f"records compressed with {codec.name.lower()}, at once and in pieces",
            corpus=_compressed_corpus(codec),
            run=_opener_of(codec),
        )
        for codec in _CODECS
        if codec is not Compression.NONE
    ),
)

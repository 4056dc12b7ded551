"""Arbitrary bytes of a peer or a disk: the record code accepts them or raises a KafkaError, nothing else."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.batch_validator import validate_batch
from ottla.logstore.checkpoint import decode_epochs
from ottla.logstore.compression import Compression, compress, decompress
from ottla.logstore.log_config import LogConfig
from ottla.logstore.producer_state import decode_snapshot
from ottla.logstore.record import NewRecord, build_batch, iterate_records, marker_of_batch, seal_batch
from ottla.logstore.record_batch import check_batch, iterate_headers, read_header
from ottla.logstore.words.errors import KafkaError

ROWS: list[NewRecord] = [(b"key", b"value" * 20, 1000, (("h", b"x"),)), (None, None, 5, ())]
OPEN_ALL = LogConfig(validate_records=True, compression_type="gzip", cleanup_policy=("compact",))
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4)


def changed(content: bytes, changes: list[tuple[float, int]], keep: float) -> bytes:
    mutable = bytearray(content)
    for place, byte in changes:
        mutable[int(place * len(mutable))] = byte
    return bytes(mutable[: int(keep * len(mutable)) + 1])


@pytest.mark.slow
@given(st.sampled_from(Compression), CHANGES, st.floats(0, 1))
def test_tampered_records_are_rejected_or_read(
    compression: Compression, changes: list[tuple[float, int]], keep: float
) -> None:
    batch = build_batch(ROWS, compression=compression)
    # With a correct CRC, as an attacker would send it.
    forged = seal_batch(read_header(batch), changed(bytes(batch[61:]), changes, keep))

    for job in (
        lambda: list(iterate_records(forged)),
        lambda: validate_batch(forged, config=OPEN_ALL, now_ms=1000),
        lambda: marker_of_batch(forged),
    ):
        try:
            job()
        except KafkaError:
            pass


@pytest.mark.slow
@given(
    st.binary(max_size=200) | st.builds(changed, st.just(bytes(build_batch(ROWS))), CHANGES, st.floats(0, 1))
)
def test_arbitrary_bytes_are_rejected_or_read_as_a_batch(content: bytes) -> None:
    for job in (
        lambda: check_batch(content),
        lambda: list(iterate_headers(content)),
        lambda: list(iterate_records(content)),
        lambda: validate_batch(content, config=LogConfig(), now_ms=1000),
        lambda: decode_snapshot(content, 0),
        lambda: decode_epochs(content, Path("file")),
    ):
        try:
            job()
        except KafkaError:
            pass


@pytest.mark.slow
@given(
    st.sampled_from([Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]),
    st.binary(max_size=60),
    CHANGES,
    st.booleans(),
)
def test_compressed_bytes_never_decompress_beyond_the_limit(
    compression: Compression, content: bytes, changes: list[tuple[float, int]], is_raw: bool
) -> None:
    data = content if is_raw else changed(compress(compression, content * 50), changes, 1.0)
    try:
        assert len(decompress(compression, data, max_bytes=1000)) <= 1000
    except KafkaError:
        pass

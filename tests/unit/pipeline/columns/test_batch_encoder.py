"""Record batches made of columns, read again by the log's own code."""

import numpy as np
import pyarrow as pa
import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record, iterate_records
from ottla.logstore.record_batch import check_batch
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.pipeline.columns.batch_encoder import EncodedBatch, encode_batches
from ottla.pipeline.columns.header_columns import HEADERS_TYPE
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.columns.row_columns import NOW, RowColumns
from ottla.pipeline.words import OptionError

NOW_MS = 1_700_000_000_000


def rows(
    values: list[bytes | None],
    keys: list[bytes | None] | None = None,
    headers: list[list[dict[str, object]] | None] | None = None,
    timestamps_ms: list[int] | None = None,
) -> RowColumns:
    return RowColumns(
        keys=None if keys is None else pa.array(keys, pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=None if headers is None else pa.array(headers, HEADERS_TYPE),
        timestamps_ms=None if timestamps_ms is None else np.array(timestamps_ms),
    )


def encode(
    columns: RowColumns,
    *,
    compression: Compression = Compression.NONE,
    producer: ProducerPair | None = None,
    base_sequence: int = -1,
    is_transactional: bool = False,
    max_batch_bytes: int = 900_000,
    max_row_bytes: int = 0,
) -> list[EncodedBatch]:
    return encode_batches(
        columns,
        compression=compression,
        level=None,
        producer=producer,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        max_batch_bytes=max_batch_bytes,
        max_row_bytes=max_row_bytes,
        now_ms=NOW_MS,
    )


def read(batches: list[EncodedBatch]) -> list[Record]:
    for batch in batches:
        assert check_batch(batch.data).records_count == batch.records_count
    return [
        record._replace(offset=record.offset + batch.first_row)
        for batch in batches
        for record in iterate_records(batch.data)
    ]


@pytest.mark.parametrize("compression", Compression)
def test_rows_come_out_as_they_went_in(compression: Compression) -> None:
    columns = rows(
        [b"v" * 100, None, b"", b"w"],
        [None, b"k", b"", b"l"],
        [[{"key": "a", "value": b"1"}, {"key": "", "value": None}], None, [], [{"key": "a", "value": b""}]],
        [5, NOW, 3, 70_000],
    )

    batches = encode(columns, compression=compression)

    assert read(batches) == [
        Record(0, 5, None, b"v" * 100, (("a", b"1"), ("", None))),
        Record(1, NOW_MS, b"k", None),
        Record(2, 3, b"", b""),
        Record(3, 70_000, b"l", b"w", (("a", b""),)),
    ]
    assert check_batch(batches[0].data).max_timestamp == NOW_MS


def test_rows_without_keys_headers_and_timestamps_are_encoded() -> None:
    assert read(encode(rows([b"a", None]))) == [Record(0, NOW_MS, None, b"a"), Record(1, NOW_MS, None, None)]


def test_slices_are_encoded_with_only_their_own_rows() -> None:
    whole = rows(
        [b"a", b"b", b"c", b"d"],
        [b"1", b"2", b"3", b"4"],
        [None, [{"key": "x", "value": b"y"}], None, [{"key": "z", "value": None}]],
    )
    assert whole.keys is not None and whole.headers is not None
    part = RowColumns(
        keys=whole.keys[1:3], values=whole.values[1:3], headers=whole.headers[1:3], timestamps_ms=None
    )

    assert [one[2:] for one in read(encode(part))] == [(b"2", b"b", (("x", b"y"),)), (b"3", b"c", ())]


def test_no_batch_is_larger_than_allowed_and_sequences_continue() -> None:
    columns = rows([bytes(size) for size in range(300)])

    batches = encode(
        columns,
        max_batch_bytes=1000,
        producer=ProducerPair(7, 3),
        base_sequence=2**31 - 100,
        is_transactional=True,
    )

    assert all(len(batch.data) <= 1000 for batch in batches)
    assert [record.value for record in read(batches)] == [bytes(size) for size in range(300)]
    headers = [check_batch(batch.data) for batch in batches]
    assert {(one.producer_id, one.producer_epoch, one.is_transactional) for one in headers} == {(7, 3, True)}
    sequence = 2**31 - 100
    for header in headers:
        assert header.base_sequence == sequence
        sequence = (sequence + header.records_count) % 2**31


def test_batches_are_filled() -> None:
    batches = encode(rows([bytes(100)] * 7800), max_batch_bytes=900_000)

    assert [batch.records_count for batch in batches] == [7800]
    assert len(encode(rows([bytes(100)] * 9000), max_batch_bytes=900_000)) == 2


def test_rows_that_just_fit_share_a_batch() -> None:
    columns = rows([bytes(10), bytes(10)])
    (together,) = encode(columns)

    assert len(encode(columns, max_batch_bytes=len(together.data))) == 1
    assert len(encode(columns, max_batch_bytes=len(together.data) - 1)) == 2


def test_very_many_small_rows_fit_into_one_batch() -> None:
    (batch,) = encode(rows([b"x"] * 40_000))

    assert [record.offset for record in iterate_records(batch.data)] == list(range(40_000))


def test_a_row_that_no_batch_can_hold_is_refused() -> None:
    with pytest.raises(KafkaError, match="takes 10") as refused:
        encode(rows([b"a", bytes(1000)]), max_batch_bytes=1000)

    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_row_that_takes_more_than_a_batch_has_one_of_its_own() -> None:
    values = [b"a", b"b", bytes(1000), bytes(500), b"c", b"d"]

    batches = encode(rows(values), max_batch_bytes=400, max_row_bytes=2000)

    assert [batch.records_count for batch in batches] == [2, 1, 1, 2]
    assert [record.value for record in read(batches)] == values
    with pytest.raises(KafkaError, match="which is 1000"):
        encode(rows(values), max_batch_bytes=400, max_row_bytes=1000)


def test_a_header_without_a_key_is_refused() -> None:
    for headers in ([[{"key": None, "value": b"x"}]], [[None]]):
        with pytest.raises(OptionError, match="headers"):
            encode(rows([b"a"], headers=headers))  # type: ignore[arg-type]


def test_no_rows_make_no_batch() -> None:
    assert encode(rows([])) == []
    assert encode(rows([], keys=[], headers=[], timestamps_ms=[])) == []

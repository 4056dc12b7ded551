"""A batch split in two: the halves have all of its records, with their sequence numbers."""

import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record, build_batch, iterate_records
from ottla.logstore.record_batch import check_batch
from ottla.pipeline.columns.batch_halves import split_in_halves


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP, Compression.ZSTD])
def test_halves_have_all_records_and_their_sequence_numbers(compression: Compression) -> None:
    records = [
        Record(index, 1_000 - index, None if index == 3 else b"k%d" % index, b"v" * index, (("h", None),))
        for index in range(5)
    ]
    whole = build_batch(
        records, compression=compression, producer_id=7, producer_epoch=2, base_sequence=2**31 - 2
    )

    first, second = split_in_halves(whole)

    headers = [check_batch(first), check_batch(second)]
    assert [one.records_count for one in headers] == [2, 3]
    assert [one.base_sequence for one in headers] == [2**31 - 2, 0]  # 2^31-1 is followed by 0
    assert [one.max_timestamp for one in headers] == [1_000, 998]
    assert {(one.producer_id, one.producer_epoch, one.compression) for one in headers} == {
        (7, 2, compression)
    }
    found = [*iterate_records(first), *iterate_records(second)]
    assert [one[1:] for one in found] == [one[1:] for one in records]

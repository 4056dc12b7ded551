"""The batch builder compared with `build_batch`, the slow but simple implementation."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.compression import Compression
from ottla.logstore.record import build_batch, iterate_records
from ottla.node.client.batch_builder import TABLE_SIZE, BatchBuilder

nullable = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=3), nullable), max_size=2).map(tuple)
records = st.lists(st.tuples(nullable, nullable, st.integers(-1, 2**45), headers), min_size=1, max_size=8)


@given(records=records, compression=st.sampled_from(Compression), sequence=st.integers(-1, 2**31 - 1))
def test_the_bytes_are_those_of_build_batch(
    records: list[tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]],
    compression: Compression,
    sequence: int,
) -> None:
    builder = BatchBuilder()
    for key, value, timestamp, its_headers in records:
        builder.append(key, value, timestamp, its_headers)

    built = builder.build(compression=compression, producer_id=5, producer_epoch=1, base_sequence=sequence)

    assert built == build_batch(
        records, compression=compression, producer_id=5, producer_epoch=1, base_sequence=sequence
    )
    if compression is Compression.NONE:
        assert len(built) == builder.size_bytes


def test_numbers_beyond_the_table_are_encoded_too() -> None:
    builder = BatchBuilder()
    count = TABLE_SIZE + 2
    for number in range(count):
        builder.append(None, b"", 1000 * number, ())
    builder.append(b"k" * TABLE_SIZE, b"v" * TABLE_SIZE, 5, ())

    built = builder.build(compression=Compression.NONE, producer_id=-1, producer_epoch=-1, base_sequence=-1)

    found = list(iterate_records(built))
    assert [record.offset for record in found] == list(range(count + 1))
    assert found[count - 1].timestamp == 1000 * (count - 1)
    assert (found[-1].key, found[-1].value) == (b"k" * TABLE_SIZE, b"v" * TABLE_SIZE)

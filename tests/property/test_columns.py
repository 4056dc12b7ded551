"""Columns against the record code of the log: each reads what the other writes."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.logstore.compression import Compression
from ottla.logstore.record import NewRecord, build_batch, iterate_records, seal_batch
from ottla.logstore.record_batch import HEADER_SIZE, read_header
from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.varint import append_varint
from ottla.pipeline.columns.record_places import find_places
from ottla.pipeline.columns.record_walk import Section, walk_records
from ottla.pipeline.columns.varints import read_varlongs, varint_sizes, write_varints
from tests.property.test_hostile_batches import CHANGES, changed
from tests.unit.pipeline.columns.fetches import open_all, rows_of

pytestmark = pytest.mark.slow

SHORT = st.none() | st.binary(max_size=12)
# Sizes around those at which a length takes one more byte.
LONG = st.builds(lambda size: bytes(size), st.sampled_from([50, 56, 57, 63, 64, 8000, 8180, 8190, 8200]))
HEADERS = st.lists(st.tuples(st.text(max_size=3), SHORT), max_size=5).map(tuple)
ROWS = st.lists(st.tuples(SHORT, SHORT | LONG, st.integers(0, 2**42), HEADERS), min_size=1, max_size=80)
BATCHES = st.lists(st.tuples(ROWS, st.sampled_from(Compression)), min_size=1, max_size=12)

# The number of records in a batch, and the bytes of its largest.
SHAPES = st.lists(st.tuples(st.integers(1, 200), st.integers(0, 20_000)), min_size=1, max_size=70)


@settings(max_examples=settings().max_examples // 3)
@given(BATCHES)
def test_columns_read_what_the_log_reads(batches: Sequence[tuple[list[NewRecord], Compression]]) -> None:
    built: list[bytes] = []
    base_offset = 3
    for rows, compression in batches:
        built.append(bytes(build_batch(rows, base_offset=base_offset, compression=compression)))
        base_offset += len(rows)

    fetched = open_all(b"".join(built), start=3)

    assert rows_of(fetched) == [record for batch in built for record in iterate_records(batch)]
    assert fetched.next_offset == base_offset


@settings(max_examples=settings().max_examples // 3)
@given(
    SHAPES,
    st.integers(1, 90),
)
def test_batches_walked_together_equal_batches_walked_one_by_one(
    shapes: Sequence[tuple[int, int]], min_lock_step: int
) -> None:
    content = b""
    sections = []
    for count, size in shapes:
        rows: list[NewRecord] = [(None, bytes(size // (place + 1)), 0, ()) for place in range(count)]
        records = bytes(build_batch(rows))[HEADER_SIZE:]
        sections.append(Section(len(content), len(content) + len(records), count))
        content += records
    view = np.frombuffer(content, np.uint8)

    together = walk_records(view, sections, min_lock_step=min_lock_step)

    alone = walk_records(view, sections, min_lock_step=2**31)
    found = find_places(view, sections)
    assert (together.starts == alone.starts).all() and (together.ends == alone.ends).all()
    assert (found.ends == together.ends).all()
    assert len(together.starts) == sum(count for count, _ in shapes)


@given(ROWS, st.sampled_from(Compression), CHANGES, st.floats(0, 1), st.integers(1, 60))
def test_tampered_records_are_read_as_by_the_log_or_rejected(
    rows: list[NewRecord],
    compression: Compression,
    changes: list[tuple[float, int]],
    keep: float,
    copies: int,
) -> None:
    batch = build_batch(rows, compression=compression)
    header = read_header(batch)
    forged = seal_batch(header, changed(bytes(batch[HEADER_SIZE:]), changes, keep))
    others = b"".join(
        build_batch([(b"k", b"v", 1, ())] * 3, base_offset=len(rows) + 3 * place) for place in range(copies)
    )
    try:
        expected = list(iterate_records(forged))
    except KafkaError:
        expected = None
    except UnicodeError:
        return

    try:
        seen = rows_of(open_all(bytes(forged) + others))
    except KafkaError:
        assert expected is None
        return

    # A varint may have more bits than its type: Java and columns drop them; the log rejects some.
    if expected is not None:
        assert [row[:4] for row in seen[: len(expected)]] == [row[:4] for row in expected]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 70_000), max_size=50))
def test_many_varints_are_written_and_read_as_by_the_log(numbers: list[int]) -> None:
    expected = []
    for number in numbers:
        one = bytearray()
        append_varint(one, number)
        expected.append(bytes(one))

    written = write_varints(np.array(numbers, np.int64))

    assert written.to_pylist() == expected
    sizes = varint_sizes(np.array(numbers, np.int64))
    assert sizes.tolist() == [len(one) for one in expected]
    content = np.frombuffer(b"".join(expected), np.uint8)
    read, after = read_varlongs(content, np.cumsum(sizes) - sizes)
    assert read.tolist() == numbers and after.tolist() == np.cumsum(sizes).tolist()

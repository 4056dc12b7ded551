"""Java as the reference for the pipeline's columns: each side reads what the other writes."""

import struct
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from ottla.logstore.compression import Compression
from ottla.logstore.record import Record
from ottla.pipeline.columns.batch_encoder import encode_batches
from ottla.pipeline.columns.header_columns import HEADERS_TYPE
from ottla.pipeline.columns.partitioner import Sticky, partitions_of
from ottla.pipeline.columns.row_columns import RowColumns
from tests.compat.java.conftest import AskJava
from tests.compat.java.jars import NEWEST_CLIENTS
from tests.unit.pipeline.columns.fetches import open_all, rows_of

ROWS = 500
LARGEST_PARTITION_COUNT = 1000

pytestmark = [pytest.mark.java, pytest.mark.slow]


def random_rows(random: Random) -> list[Record]:
    def some_bytes(most: int) -> bytes | None:
        return None if random.random() < 0.2 else random.randbytes(random.randrange(most))

    return [
        Record(
            offset,
            1_700_000_000_000 + random.randrange(-10_000, 10_000),
            some_bytes(20),
            some_bytes(random.choice([5, 200, 9000])),
            tuple((random.choice(["", "key", "clé"]), some_bytes(9)) for _ in range(random.randrange(4))),
        )
        for offset in range(ROWS)
    ]


def columns_of(rows: list[Record]) -> RowColumns:
    headers = [[{"key": key, "value": value} for key, value in row.headers] for row in rows]
    return RowColumns(
        keys=pa.array([row.key for row in rows], pa.binary()),
        values=pa.array([row.value for row in rows], pa.binary()),
        headers=pa.array(headers, HEADERS_TYPE),
        timestamps_ms=np.array([row.timestamp for row in rows]),
    )


def test_java_reads_our_batches_and_we_read_those_that_it_makes_of_them(ask_java: AskJava) -> None:
    rows = random_rows(Random(3))
    questions = b""
    for ours in Compression:
        batches = encode_batches(
            columns_of(rows),
            compression=ours,
            level=None,
            producer=None,
            base_sequence=-1,
            is_transactional=False,
            max_batch_bytes=100_000,
            now_ms=1,
        )
        content = b"".join(batch.data for batch in batches)
        javas = (ours + 1) % len(Compression)
        questions += struct.pack(">cbi", b"W", javas, len(content)) + content

    answers = ask_java("RecordReference", questions=questions, artifacts=NEWEST_CLIENTS)

    position = 0
    for _ in Compression:
        (length,) = struct.unpack_from(">i", answers, position)
        batch = answers[position + 4 : position + 4 + length]
        assert rows_of(open_all(batch)) == rows
        position += 4 + length
    assert position == len(answers)


def test_keys_go_to_the_partitions_of_javas_producer(ask_java: AskJava) -> None:
    random = Random(4)
    keys = [random.randbytes(length % 65) for length in range(LARGEST_PARTITION_COUNT)]
    counts = range(1, LARGEST_PARTITION_COUNT + 1)
    questions = b"".join(
        struct.pack(">cii", b"P", count, len(key)) + key for key, count in zip(keys, counts, strict=True)
    )

    answers = ask_java("RecordReference", questions=questions, artifacts=NEWEST_CLIENTS)

    column = pa.array(keys, pa.binary())
    ours = [
        int(partitions_of("t", len(keys), column, None, count, Sticky(0))[place])
        for place, count in enumerate(counts)
    ]
    assert ours == list(struct.unpack(f">{len(keys)}i", answers))

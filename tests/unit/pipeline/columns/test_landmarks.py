"""Large batches walked from many places: right guesses help, wrong ones change nothing."""

from random import Random

import numpy as np
import pytest

from ottla.logstore.record import NewRecord, Record, build_batch, iterate_records
from ottla.logstore.record_batch import HEADER_SIZE
from ottla.pipeline.columns.landmarks import find_landmarks
from tests.unit.pipeline.columns.fetches import open_all, rows_of

ROWS = 2000


def text(random: Random) -> bytes:
    return b"%0*d" % (random.randrange(50, 150), random.getrandbits(160))


def landmarks_of(batch: bytes, count: int = ROWS) -> dict[int, int]:
    """Return the position of each found record, by the number of records before it."""
    content = np.frombuffer(batch, np.uint8)
    positions, before = find_landmarks(content, HEADER_SIZE, len(batch), count)
    return dict(zip(before.tolist(), positions.tolist(), strict=True))


def positions_of(rows: list[NewRecord]) -> dict[int, int]:
    """Return the position of each record in the batch of all."""
    ends = [len(build_batch(rows[: place + 1])) for place in range(len(rows))]
    return dict(enumerate([HEADER_SIZE, *ends[:-1]]))


def test_records_are_found_in_the_middle_of_a_batch() -> None:
    random = Random(1)
    rows: list[NewRecord] = [(b"k", text(random), 1000 + place, ()) for place in range(300)]

    found = landmarks_of(bytes(build_batch(rows)), 300)

    assert found and found.items() <= positions_of(rows).items()


@pytest.mark.parametrize("kind", ["text", "random", "zeros", "headers"])
def test_large_batches_come_out_as_they_went_in(kind: str) -> None:
    random = Random(2)
    values = {
        "text": lambda: text(random),
        "random": lambda: random.randbytes(random.randrange(50, 150)),
        "zeros": lambda: bytes(random.randrange(50, 150)),
        "headers": lambda: b"",
    }
    headers = (("h", bytes(5)), ("g", None)) if kind == "headers" else ()
    rows: list[NewRecord] = [
        (b"%d" % random.randrange(99), values[kind](), random.randrange(2**40), headers) for _ in range(ROWS)
    ]
    batch = bytes(build_batch(rows, base_offset=7))

    assert rows_of(open_all(batch, start=7)) == list(iterate_records(batch))


def test_a_compacted_batch_does_not_mislead_the_walk() -> None:
    random = Random(3)
    for gap in (1, ROWS // 2):
        kept = [Record(place + place // gap, 1, b"k", text(random)) for place in range(ROWS)]
        batch = bytes(build_batch(kept, base_offset=0))

        assert rows_of(open_all(batch)) == kept


def test_values_that_look_like_records_do_not_mislead_the_walk() -> None:
    random = Random(4)
    inner: list[NewRecord] = [(b"k", text(random), 1, ()) for _ in range(600)]
    looks_like_records = bytes(build_batch(inner))[HEADER_SIZE:]
    parts = [looks_like_records[start : start + 500] for start in range(0, 60_000, 500)]
    rows: list[NewRecord] = [(b"k", parts[place % len(parts)], 1, ()) for place in range(ROWS)]
    batch = bytes(build_batch(rows))

    assert rows_of(open_all(batch)) == list(iterate_records(batch))

"""Small batches of rows joined: every row once and in order, and enough rows do not wait for more."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla.pipeline.sink.gathered_rows import gather


def batch_of(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.int64())})


def lengths_of(*sizes: int, enough_rows: int = 10, enough_bytes: int = 10_000) -> list[int]:
    values = iter(range(sum(sizes)))
    batches = [batch_of(*(next(values) for _ in range(size))) for size in sizes]

    gathered = [*gather(batches, enough_rows=enough_rows, enough_bytes=enough_bytes)]

    assert [value for batch in gathered for value in batch["value"].to_pylist()] == [*range(sum(sizes))]
    return [len(batch) for batch in gathered]


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ((), []),
        ((0, 0), []),
        ((3,), [3]),
        ((3, 0, 4), [7]),
        ((3, 6, 1), [10]),
        ((3, 6, 2, 1), [11, 1]),
        ((10, 11), [10, 11]),
        ((3, 30, 3), [3, 30, 3]),  # the large one is not copied
    ],
)
def test_batches_are_joined_until_they_are_enough(sizes: tuple[int, ...], lengths: list[int]) -> None:
    assert lengths_of(*sizes) == lengths


def test_bytes_are_enough_as_well() -> None:
    assert lengths_of(3, 2, 2, 2, enough_bytes=40) == [5, 4]


def test_enough_rows_do_not_wait_for_more() -> None:
    calls = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal calls
        for _ in range(5):
            calls += 1
            yield batch_of(1, 2)

    next(gather(batches(), enough_rows=4))

    assert calls == 2


def test_one_batch_is_passed_on_as_it_is() -> None:
    batch = batch_of(1, 2)

    assert next(gather([batch])) is batch

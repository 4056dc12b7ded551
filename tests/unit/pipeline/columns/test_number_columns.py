"""Columns of numbers equal those of `pa.array`, but pandas is not imported."""

import numpy as np
import pyarrow as pa
import pytest

from ottla.pipeline.columns.number_columns import flag_column, number_column, text_column


@pytest.mark.parametrize("rows", [0, 1, 8, 9, 1000])
def test_columns_are_those_that_arrow_makes(rows: int) -> None:
    numbers = np.arange(rows, dtype=np.int32) - 5
    is_null = numbers % 3 == 0

    column = number_column(numbers, pa.int32())
    with_nulls = number_column(numbers, pa.int32(), is_null=is_null)
    flags = flag_column(is_null)
    words = text_column("flüge", rows)

    for made in (column, with_nulls, flags, words):
        made.validate(full=True)
    assert column.equals(pa.array(numbers))
    assert with_nulls.equals(pa.array(numbers, mask=is_null))
    assert flags.equals(pa.array(is_null))
    assert words.to_pylist() == ["flüge"] * rows


def test_every_second_number_is_a_column_as_well() -> None:
    assert number_column(np.arange(10)[::2], pa.int64()).to_pylist() == [0, 2, 4, 6, 8]


def test_a_text_column_beyond_2_gib_is_refused() -> None:
    with pytest.raises(OverflowError):
        text_column("x" * 249, 2**31 // 249 + 1)

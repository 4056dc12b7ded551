"""Runs of offsets: found in rows, joined, thinned out."""

import numpy as np
import pytest

from ottla.pipeline.columns.offset_runs import OffsetRun, Steps, find_steps, make_runs
from ottla.pipeline.columns.varints import Int64s


def int64s(*numbers: int) -> Int64s:
    return np.array(numbers, np.int64)


def runs_of(*batches: tuple[Int64s, int], lag_max: int = 0, runs_max: int = 1000) -> list[tuple[int, ...]]:
    made = make_runs(
        [(find_steps(offsets), base) for offsets, base in batches], lag_max=lag_max, runs_max=runs_max
    )
    return [(*run,) for run in made]


@pytest.mark.parametrize(
    ("offsets", "sources", "counts"),
    [
        ([], [], []),
        ([7], [7], [1]),
        ([7, 8, 9], [7], [3]),
        ([7, 9, 10, 20], [7, 9, 20], [1, 2, 1]),
    ],
)
def test_a_step_begins_where_a_row_is_missing(
    offsets: list[int], sources: list[int], counts: list[int]
) -> None:
    steps = find_steps(int64s(*offsets))

    assert (steps.sources.tolist(), steps.counts.tolist()) == (sources, counts)


def test_batches_that_continue_in_both_logs_are_one_run() -> None:
    assert runs_of((int64s(0, 1, 2), 10), (int64s(3, 4), 13)) == [(0, 10, 5)]


def test_a_gap_in_either_log_begins_a_run() -> None:
    assert runs_of((int64s(0, 1), 10), (int64s(2, 3), 13)) == [(0, 10, 2), (2, 13, 2)]
    assert runs_of((int64s(0, 1, 5), 10)) == [(0, 10, 2), (5, 12, 1)]


def test_runs_of_less_than_the_lag_are_left_out_but_for_the_last() -> None:
    every_second = np.arange(0, 2000, 2, dtype=np.int64)

    runs = runs_of((every_second, 0), lag_max=100)

    assert runs[-1] == (1998, 999, 1)
    ends = [target + rows for _, target, rows in runs]
    assert max(np.diff([0, *ends])) <= 100
    assert len(runs) == 11


def test_there_are_never_more_runs_than_a_record_takes() -> None:
    every_second = np.arange(0, 200_000, 2, dtype=np.int64)

    assert 900 < len(runs_of((every_second, 0))) <= 1000


def test_without_rows_there_are_no_runs() -> None:
    assert make_runs([], lag_max=0, runs_max=10) == []
    assert make_runs([(Steps(int64s(4), int64s(2)), 8)], lag_max=0, runs_max=10) == [OffsetRun(4, 8, 2)]

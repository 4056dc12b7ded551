"""Offsets translated to the target: exact within runs, and never too late elsewhere."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.columns.offset_runs import OffsetRun
from ottla.pipeline.mirror.offset_map import RUNS_MAX, OffsetMap

T = TopicPartition("t", 0)


def map_of(*runs: tuple[int, int, int]) -> OffsetMap:
    offsets = OffsetMap()
    offsets.add(T, [OffsetRun(*run) for run in runs])
    return offsets


def test_an_offset_within_a_run_is_exact() -> None:
    offsets = map_of((10, 100, 5), (20, 106, 5))

    assert [offsets.translate(T, offset) for offset in (10, 12, 14, 20, 24)] == [100, 102, 104, 106, 110]


def test_an_offset_between_runs_is_where_the_one_before_ends() -> None:
    offsets = map_of((10, 100, 5), (20, 106, 5))

    assert [offsets.translate(T, offset) for offset in (15, 17, 19)] == [105, 105, 105]


def test_a_group_is_never_ahead_of_the_mirrored_rows() -> None:
    assert map_of((10, 100, 5)).translate(T, 10**12) == 105


def test_before_all_runs_nothing_is_known() -> None:
    assert map_of((10, 100, 5)).translate(T, 9) is None
    assert OffsetMap().translate(T, 0) is None
    assert map_of((10, 100, 5)).translate(TopicPartition("t", 1), 10) is None


def test_a_topic_that_was_created_again_in_the_source_begins_again() -> None:
    offsets = map_of((0, 0, 50), (0, 51, 10))

    assert [offsets.translate(T, offset) for offset in (0, 5, 30)] == [51, 56, 61]


def test_a_topic_that_was_created_again_in_the_target_begins_again() -> None:
    offsets = map_of((0, 0, 50), (50, 0, 10))

    assert [offsets.translate(T, offset) for offset in (10, 50, 55)] == [None, 0, 5]


def test_rows_that_were_copied_twice_are_read_twice() -> None:
    offsets = map_of((0, 0, 50), (30, 60, 40))

    assert [offsets.translate(T, offset) for offset in (29, 30, 45)] == [29, 60, 75]


def test_the_way_back_is_never_too_late_either() -> None:
    offsets = map_of((10, 100, 5), (20, 106, 5))

    assert [offsets.translate_back(T, offset) for offset in (99, 100, 103, 105, 106, 500)] == [
        0,
        10,
        13,
        15,
        20,
        25,
    ]


def test_more_runs_than_are_kept_cost_precision_and_no_row() -> None:
    offsets = OffsetMap()
    rows = 3 * RUNS_MAX
    for row in range(rows):
        offsets.add(T, [OffsetRun(2 * row, row, 1)])

    translated = [offsets.translate(T, 2 * row) or 0 for row in range(rows)]
    assert len(offsets._runs[T]) <= RUNS_MAX
    assert all(target <= row for row, target in enumerate(translated))
    assert translated == sorted(translated)
    assert translated[-1000:] == [*range(rows - 1000, rows)]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4), st.booleans()), max_size=20)
)
def test_no_row_is_left_out_whatever_runs_were_forgotten(steps: list[tuple[int, int, int, bool]]) -> None:
    offsets, there = OffsetMap(), {}
    source = target = 0
    for gap_before, gap_there, rows, is_synced in steps:
        source, target = source + gap_before, target + gap_there
        there |= {source + row: target + row for row in range(rows)}
        if is_synced:
            offsets.add(T, [OffsetRun(source, target, rows)])
        source, target = source + rows, target + rows

    for offset in range(source + 3):
        unread = [place for row, place in there.items() if row >= offset]
        translated = offsets.translate(T, offset)
        assert translated is None or all(translated <= place for place in unread)
    translated_all = [offsets.translate(T, offset) for offset in range(source + 3)]
    known = [one for one in translated_all if one is not None]
    assert known == sorted(known)

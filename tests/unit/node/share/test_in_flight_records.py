"""Ranges of offsets: cut where a part moves, merged where neighbours are alike, dropped from the front."""

from ottla.node.share.in_flight_records import ACQUIRED, AVAILABLE, InFlightRecords

ACKNOWLEDGED = 2


def made(*batches: tuple[int, int]) -> InFlightRecords:
    records = InFlightRecords()
    for first, last in batches:
        records.add(first, last, state=ACQUIRED, count=1, holder="m1", time_ms=5)
    records.check_invariants()
    return records


def ranges(records: InFlightRecords) -> list[tuple[int, int, int]]:
    records.check_invariants()
    return list(zip(records.firsts, records.lasts, records.states, strict=True))


def test_a_part_of_a_range_is_cut_out() -> None:
    records = made((0, 9))

    assert records.cut_out(3, 5) == (1, 2)

    assert ranges(records) == [(0, 2, ACQUIRED), (3, 5, ACQUIRED), (6, 9, ACQUIRED)]
    assert records.cut_out(3, 5) == (1, 2)
    assert records.cut_out(0, 9) == (0, 3)


def test_cutting_where_there_is_nothing_cuts_nothing() -> None:
    records = made((10, 19), (30, 39))

    assert records.cut_out(20, 29) == (1, 1)
    assert records.cut_out(-5, 100) == (0, 2)
    assert records.span(20, 29) == (1, 1)
    assert ranges(records) == [(10, 19, ACQUIRED), (30, 39, ACQUIRED)]


def test_neighbours_that_are_alike_are_merged_within_their_batch() -> None:
    records = made((0, 9), (10, 19))
    for offset in (2, 4, 6):
        records.cut_out(offset, offset)

    records.merge(0, len(records))

    assert ranges(records) == [(0, 9, ACQUIRED), (10, 19, ACQUIRED)]


def test_records_that_are_done_with_are_dropped_from_the_front() -> None:
    records = made((0, 9), (10, 19), (20, 29))
    for index in range(*records.cut_out(0, 14)):
        records.move(index, ACKNOWLEDGED, None, 0)
    assert records.leading_terminal() == 2

    records.drop_front(2)

    assert ranges(records) == [(15, 19, ACQUIRED), (20, 29, ACQUIRED)]
    assert list(records.batch_firsts) == [10, 20]


def test_a_record_whose_move_is_not_final_is_neither_done_with_nor_available() -> None:
    records = made((0, 9), (10, 19))
    records.begin_transition(0, ACKNOWLEDGED, 1)
    records.begin_transition(1, AVAILABLE, 2)

    assert records.leading_terminal() == 0
    assert records.first_available() is None

    records.transitions[1] = 0
    assert records.first_available() == 10

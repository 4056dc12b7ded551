"""The end times of locks; acknowledged records leave no stale entries for long."""

from ottla.node.share.acquisition_locks import AcquisitionLocks
from ottla.node.share.in_flight_records import ACQUIRED, InFlightRecords


def test_a_renewed_lock_ends_at_its_new_time() -> None:
    records = InFlightRecords()
    locks = AcquisitionLocks(records)
    for first, time_ms in ((0, 500), (10, 300), (20, 400)):
        records.add(first, first + 9, state=ACQUIRED, count=1, holder="m1", time_ms=time_ms)
        locks.add(time_ms, first, first + 9)
    assert locks.next_ms() == 300

    records.times_ms[1] = 600  # renewed
    locks.add(600, 10, 19)
    assert locks.next_ms() == 400
    assert locks.take_due(500) == [(20, 29), (0, 9)]
    assert locks.next_ms() == 600


def test_the_number_of_entries_is_limited_by_the_records() -> None:
    records = InFlightRecords()
    locks = AcquisitionLocks(records)
    records.add(0, 9, state=ACQUIRED, count=1, holder="m1", time_ms=1)

    for time_ms in range(1, 10_000):
        records.times_ms[0] = time_ms
        locks.add(time_ms, 0, 9)
        assert len(locks) <= 2 * len(records) + 64

    locks.check_invariants()
    assert locks.next_ms() == 9_999

"""Rates and quantiles compare with the oldest reading of a window, but never with one of the same moment."""

import weakref

from ottla.node.metrics.windows import MAX_READINGS, Window, counts_since


def test_a_reading_of_the_same_moment_gives_no_rate() -> None:
    window: Window[int] = Window(10.0)
    assert window.oldest(0.0) is None

    window.add(0.0, 1)

    assert window.oldest(0.5) is None
    assert window.oldest(2.0) == (2.0, 1)


def test_readings_older_than_the_window_are_removed_except_the_last() -> None:
    window: Window[int] = Window(10.0)
    for second in (0, 8, 16):
        window.add(float(second), second)

    assert window.oldest(17.0) == (9.0, 8)
    assert window.oldest(99.0) == (83.0, 16)


def test_readings_that_come_often_are_not_all_kept() -> None:
    class Reading:
        """A reading to which weak references are possible."""

    window: Window[Reading] = Window(10.0)
    kept: weakref.WeakSet[Reading] = weakref.WeakSet()

    for tick in range(10_000):
        reading = Reading()
        kept.add(reading)
        window.add(tick / 1000, reading)
    del reading

    assert 1 < len(kept) <= MAX_READINGS + 1


def test_counts_are_those_since_the_earlier_reading() -> None:
    now = {"a": [5, 7], "b": [1, 1]}

    assert counts_since(now, {"a": [5, 3]}) == {"a": [0, 4], "b": [1, 1]}
    assert counts_since(now, None) == now

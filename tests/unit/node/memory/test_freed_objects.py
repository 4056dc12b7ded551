"""Objects that are given back in masses do not hide new ones from the collector of garbage."""

import gc

from ottla.node.memory.freed_objects import MAX_HIDDEN, FreedObjects


def test_young_objects_are_looked_at_once_for_so_many_that_were_given_back() -> None:
    looks: list[int] = []
    freed = FreedObjects(lambda: looks.append(1))

    for _ in range(10 * MAX_HIDDEN // 100):
        freed.note(100)

    assert len(looks) == 10


def test_what_is_given_back_does_not_hide_more_young_objects_than_allowed() -> None:
    """The young ones that hide behind old ones, which go while they are made."""
    freed = FreedObjects()
    thresholds = gc.get_threshold()
    old: list[object] = [[] for _ in range(20 * MAX_HIDDEN)]
    kept: list[object] = []
    most = 0
    gc.collect()
    gc.set_threshold(1_000_000)  # as if those that go hid all of the others
    try:
        while old:
            del old[-100:]
            kept += [[] for _ in range(100)]
            freed.note(100)
            if not len(kept) % MAX_HIDDEN:
                most = max(most, len(gc.get_objects(generation=0)))
    finally:
        gc.set_threshold(*thresholds)

    assert len(kept) == 20 * MAX_HIDDEN
    assert most < 2 * MAX_HIDDEN

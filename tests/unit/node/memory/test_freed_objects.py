"""Many objects that are freed at once do not hide new ones from the garbage collector."""

import gc

from ottla.node.memory.freed_objects import MAX_HIDDEN, FreedObjects


def test_young_objects_are_collected_once_for_each_max_hidden_freed_objects() -> None:
    looks: list[int] = []
    freed = FreedObjects(lambda: looks.append(1))

    for _ in range(10 * MAX_HIDDEN // 100):
        freed.note(100)

    assert len(looks) == 10


def test_freed_objects_hide_no_more_young_objects_than_allowed() -> None:
    """Without the reports, the freed old objects would outweigh the new ones in CPython's count."""
    freed = FreedObjects()
    thresholds = gc.get_threshold()
    old: list[object] = [[] for _ in range(20 * MAX_HIDDEN)]
    kept: list[object] = []
    most = 0
    gc.collect()
    gc.set_threshold(1_000_000)  # no collection but those of `freed`
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

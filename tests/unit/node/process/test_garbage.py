"""Collections visit few objects at a time, and all garbage is still freed in the end."""

import gc
import subprocess
import sys

from ottla.node.process.garbage import (
    FREEZES_BEFORE_LOOK,
    FREEZES_BEFORE_SHORT_LOOK,
    GROWTH,
    SHORT_SHARE,
    Freezer,
    resident_bytes,
)

FULL = {"generation": 2}


def collected(freezer: Freezer, times: int) -> None:
    for _ in range(times):
        freezer("start", FULL)
        freezer("stop", FULL)


class Memory:
    """The memory of a process, of at most a thousand bytes, and the calls of its freezer."""

    def __init__(self) -> None:
        self.bytes = 100
        self.done: list[str] = []
        self.freezer = Freezer(
            1_000,
            lambda: self.bytes,
            freeze=lambda: self.done.append("frozen"),
            unfreeze=lambda: self.done.append("thawed"),
        )


def test_the_survivors_of_a_full_collection_are_frozen() -> None:
    memory = Memory()

    memory.freezer("stop", {"generation": 0})
    memory.freezer("stop", {"generation": 1})
    assert memory.done == []
    collected(memory.freezer, 2)
    assert memory.done == ["frozen"] * 2


def test_all_objects_are_collected_when_memory_is_short_but_not_each_time() -> None:
    memory = Memory()
    memory.bytes = int(SHORT_SHARE * 1_000) + 1

    collected(memory.freezer, 2 * (FREEZES_BEFORE_SHORT_LOOK + 1))

    assert memory.done == [*["frozen"] * FREEZES_BEFORE_SHORT_LOOK, "thawed"] * 2


def test_all_objects_are_collected_after_many_freezes_if_the_process_has_grown() -> None:
    memory = Memory()
    memory.bytes = int(GROWTH * 100)

    collected(memory.freezer, FREEZES_BEFORE_LOOK + 1)

    assert memory.done == [*["frozen"] * FREEZES_BEFORE_LOOK, "thawed"]


def test_a_process_that_has_not_grown_is_not_held_up() -> None:
    memory = Memory()
    memory.bytes = int(GROWTH * 100) - 1

    collected(memory.freezer, 2 * FREEZES_BEFORE_LOOK)
    assert "thawed" not in memory.done
    memory.bytes += 1
    collected(memory.freezer, FREEZES_BEFORE_LOOK + 1)
    assert memory.done.count("thawed") == 1, "it is compared with what it had at the last look"


def test_the_memory_of_a_process_is_known() -> None:
    assert resident_bytes() > 1_000_000


# A program for a separate process, since a process has only one garbage collector.
GROWING = """
import gc, weakref
from ottla.node.process import garbage

class Thing:
    pass

most = []
def look(phase, info):
    if phase == "start":
        most.append(sum(len(gc.get_objects(generation=one)) for one in range(info["generation"] + 1)))

garbage.freeze(1 << 62)
gc.callbacks.append(look)
kept = [[] for _ in range(400_000)]
print(max(most))

cycle = Thing()
cycle.itself = cycle
gone = weakref.ref(cycle)
more = [[] for _ in range(100_000)]
del cycle
still_there = gone() is not None
garbage.FREEZES_BEFORE_SHORT_LOOK = garbage.FREEZES_BEFORE_LOOK = garbage.GROWTH = 0
more += [[] for _ in range(100_000)]
print(still_there, gone() is None)
"""


def test_a_growing_heap_is_collected_in_pieces_and_a_frozen_cycle_is_freed_in_the_end() -> None:
    if sys.version_info >= (3, 14):
        return  # its collector is incremental
    ran = subprocess.run([sys.executable, "-c", GROWING], capture_output=True, text=True, check=True)
    most, found = ran.stdout.splitlines()

    assert int(most) < 20_000
    assert found == "True True"
    assert gc.isenabled()

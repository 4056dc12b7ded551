"""The collector of garbage of a node: it looks at new objects, and never at very many of them at once.

A collection looks at an object in 0.1 to 0.5 us, and nobody else has the interpreter meanwhile. A node has
sixty objects for each partition, so to look at all of them took 120 ms of the loop with 5,000 topics. Here
what has survived a collection is frozen: the next one does not look at it, and it goes when nothing refers to
it any more, as most things do. What does not go is a cycle that was frozen when it was in use. To find these,
all objects are looked at once when memory is short, or when the process has doubled and very many were
frozen since the last time: a node whose memory stays as it is has no cycles that matter.
"""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# Net allocations until the youngest objects are looked at, and then of the next older ones so many times.
# Some 13,000 objects are looked at when they get frozen, in 2 to 10 ms.
_COLLECTION_THRESHOLDS: Final = (700, 5, 2)
# Short memory is a reason to look at all after so many freezes, of 1.5 million objects.
FREEZES_BEFORE_SHORT_LOOK: Final = 120
# So many, of six million objects, are one if the process has doubled meanwhile.
FREEZES_BEFORE_LOOK: Final = 480
GROWTH: Final = 2.0
SHORT_SHARE: Final = 0.8  # of the memory that the process may have
_STATM: Final = Path("/proc/self/statm")
_OLDEST_GENERATION: Final = 2


class Freezer:
    """Called by the collector of garbage when it begins and ends; in any thread, one call at a time."""

    def __init__(
        self,
        max_bytes: int,
        resident: Callable[[], int],
        *,
        freeze: Callable[[], None] = gc.freeze,
        unfreeze: Callable[[], None] = gc.unfreeze,
    ) -> None:
        """The process has `resident` bytes of memory now, and may have `max_bytes`."""
        self._max_bytes = max_bytes
        self._resident = resident
        self._freeze = freeze
        self._unfreeze = unfreeze
        self._freezes = 0  # since all objects were looked at
        self._bytes_then = resident()

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Freeze what a full collection has left, or have the next one look at everything."""
        if phase != "stop" or info["generation"] != _OLDEST_GENERATION:
            return
        if self._is_due():
            self._freezes = 0
            self._bytes_then = self._resident()
            self._unfreeze()
        else:
            self._freezes += 1
            self._freeze()

    def _is_due(self) -> bool:
        if self._freezes < FREEZES_BEFORE_SHORT_LOOK:
            return False
        bytes_now = self._resident()
        return bytes_now > SHORT_SHARE * self._max_bytes or (
            self._freezes >= FREEZES_BEFORE_LOOK and bytes_now >= GROWTH * self._bytes_then
        )


def resident_bytes() -> int:
    """Return how much memory the process has; 0 where that cannot be known."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def freeze(max_bytes: int) -> None:
    """Keep what is there now out of collections, and later what survives one; the process may have so much
    memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    gc.callbacks.append(Freezer(max_bytes, resident_bytes))

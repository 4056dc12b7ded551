"""Keeps the collections of a node's garbage collector short, by freezing the objects that survive one.

A collection takes 0.1 to 0.5 us for each object, and no other code runs meanwhile. A node has sixty objects
for each partition, so a full collection with 5,000 topics held up the loop for 120 ms. So objects that
survive a full collection are frozen: later collections skip them, and reference counting frees most of them
once they are unused. Only a cycle that was frozen while it was in use would stay forever. To free such
cycles, everything is unfrozen and collected once when memory is short, or when the process has doubled and
very many objects were frozen since the last time. In a node whose memory does not grow, such cycles do not
matter.
"""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# The net allocations before a collection of the youngest generation, and the collections of one generation
# before one of the next. About 13,000 objects are collected and then frozen at a time, in 2 to 10 ms.
_COLLECTION_THRESHOLDS: Final = (700, 5, 2)
# After this many freezes (1.5 million objects), short memory causes a collection of all objects.
FREEZES_BEFORE_SHORT_LOOK: Final = 120
# After this many (six million objects), growth of the process by the factor `GROWTH` causes one.
FREEZES_BEFORE_LOOK: Final = 480
GROWTH: Final = 2.0
SHORT_SHARE: Final = 0.8  # of the memory that the process may have
_STATM: Final = Path("/proc/self/statm")
_OLDEST_GENERATION: Final = 2


class Freezer:
    """A callback that Python calls before and after a collection, in any thread, one call at a time."""

    def __init__(
        self,
        max_bytes: int,
        resident: Callable[[], int],
        *,
        freeze: Callable[[], None] = gc.freeze,
        unfreeze: Callable[[], None] = gc.unfreeze,
    ) -> None:
        """`resident` returns the memory of the process in bytes, and `max_bytes` is its limit."""
        self._max_bytes = max_bytes
        self._resident = resident
        self._freeze = freeze
        self._unfreeze = unfreeze
        self._freezes = 0  # since the last collection of all objects
        self._bytes_then = resident()

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        """Freeze the survivors of a full collection, or unfreeze all objects for the next one."""
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
    """Return the resident memory of the process in bytes, or 0 if it is unknown."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def freeze(max_bytes: int) -> None:
    """Freeze the present objects, and from now on the survivors of each full collection.

    `max_bytes` is the limit of the process's memory.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    gc.callbacks.append(Freezer(max_bytes, resident_bytes))

"""Triggers garbage collection when very many objects are freed.

CPython collects the young generation when some hundred more objects were created than freed. While a node
frees many old objects, such as those of a deleted topic, it may create as many new ones without a collection;
the next one then takes 40 ms, during which no other thread has the interpreter. Code that frees very many
objects reports their number here, and the young generation is collected about as often as if that many had
been created.
"""

import gc
from collections.abc import Callable
from typing import Final

# Freed objects after which to collect; such a collection takes less than a millisecond.
MAX_HIDDEN: Final = 2_000


def look_at_young() -> None:
    """Collect the youngest generation, and older ones as often as the collector itself would."""
    _, looks, middle_looks = gc.get_count()
    _, max_looks, max_middle_looks = gc.get_threshold()
    if looks <= max_looks:
        gc.collect(0)
    else:
        gc.collect(1 if middle_looks <= max_middle_looks else 2)


class FreedObjects:
    """Counts freed objects, on the node's loop."""

    def __init__(self, look: Callable[[], None] = look_at_young) -> None:
        self._look = look
        self._hidden = 0

    def note(self, objects: int) -> None:
        """Count objects freed just now."""
        self._hidden += objects
        if self._hidden >= MAX_HIDDEN:
            self._hidden = 0
            self._look()

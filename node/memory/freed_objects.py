"""Objects that are given back in masses, told to the collector of garbage.

CPython looks at the young objects when some hundred more were made than given back. So while a node gives
back many old ones, as those of a topic that goes, it may make as many new ones that nobody looks at; then one
look at all of them takes 40 ms in which nobody else has the interpreter. Whoever gives back masses says so
here, and the young objects are looked at about as often as if that many had been made.
"""

import gc
from collections.abc import Callable
from typing import Final

# Young objects that may be hidden; to look at them takes less than a millisecond.
MAX_HIDDEN: Final = 2_000


def look_at_young() -> None:
    """Have the collector look at the youngest objects, and at older ones as often as it would by itself."""
    _, looks, middle_looks = gc.get_count()
    _, max_looks, max_middle_looks = gc.get_threshold()
    if looks <= max_looks:
        gc.collect(0)
    else:
        gc.collect(1 if middle_looks <= max_middle_looks else 2)


class FreedObjects:
    """Counts what is given back, on the node's loop."""

    def __init__(self, look: Callable[[], None] = look_at_young) -> None:
        self._look = look
        self._hidden = 0

    def note(self, objects: int) -> None:
        """So many were given back just now."""
        self._hidden += objects
        if self._hidden >= MAX_HIDDEN:
            self._hidden = 0
            self._look()

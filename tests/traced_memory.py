"""What a piece of code allocates at most, in a process where others allocate too."""

import tracemalloc
from collections.abc import Callable

ATTEMPTS = 3  # all threads are traced: what another one takes in between is not there each time


def peak_bytes(act: Callable[[], object]) -> int:
    """What `act` has allocated at its highest, which may run several times."""
    return min(_peak_bytes(act) for _ in range(ATTEMPTS))


def _peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

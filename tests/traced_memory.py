"""The peak memory of a piece of code, in a process whose other threads allocate too."""

import tracemalloc
from collections.abc import Callable

ATTEMPTS = 3  # all threads are traced; allocations of others do not fall into every attempt


def peak_bytes(act: Callable[[], object]) -> int:
    """Return the peak of the memory that `act` allocates; `act` runs several times."""
    return min(_peak_bytes(act) for _ in range(ATTEMPTS))


def _peak_bytes(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

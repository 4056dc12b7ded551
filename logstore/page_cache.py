"""The look-up of a file range in the page cache, by cachestat(2) of Linux 6.5 and later.

The promise: after True, sending these bytes does not wait for a disk, unless memory pressure evicts some of
them in the next microseconds. Where the kernel cannot be asked, the result is False.
"""

import ctypes
import errno
import mmap
import os
import sys
from typing import Final

_CACHESTAT: Final = 451  # the same number on every architecture that CPython is released for
# cachestat also counts pages that are still being read. The kernel reads ahead in requests that are smaller
# than this and complete in order, so all pages have their content if one page of each such piece has it.
_PROBE_BYTES: Final = 1024 * 1024
_NOT_SERVED: Final = frozenset({errno.ENOSYS, errno.EPERM})  # an older kernel; a container that forbids it


class _Range(ctypes.Structure):
    """`struct cachestat_range`."""

    _fields_ = [("position", ctypes.c_uint64), ("size", ctypes.c_uint64)]


class _Counts(ctypes.Structure):
    """`struct cachestat`, in pages."""

    _fields_ = [
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    ]


_syscall = ctypes.CDLL(None, use_errno=True).syscall if sys.platform == "linux" else None
if _syscall is not None:
    _syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
_is_served = _syscall is not None and hasattr(os, "RWF_NOWAIT")


def is_cached(fd: int, position: int, size: int) -> bool:
    """Return True if all of `size` > 0 bytes from `position` on are in memory (1.3 us, and 0.6 a probe)."""
    global _is_served
    if not _is_served:
        return False
    assert _syscall is not None
    counts = _Counts()
    if _syscall(_CACHESTAT, fd, ctypes.byref(_Range(position, size)), ctypes.byref(counts), 0) != 0:
        if ctypes.get_errno() in _NOT_SERVED:
            _is_served = False
        return False
    end = position + size
    pages = (end - 1) // mmap.PAGESIZE - position // mmap.PAGESIZE + 1
    if int(counts.cached) != pages:
        return False
    # The last page first: readahead that is not complete lacks the pages at its end.
    return all(_is_read(fd, probed) for probed in range(end - 1, position - 1, -_PROBE_BYTES))


def _is_read(fd: int, position: int) -> bool:
    """Return True if the content of the page at `position` has been read."""
    try:
        return os.preadv(fd, (bytearray(1),), position, os.RWF_NOWAIT) == 1
    except OSError:
        return False

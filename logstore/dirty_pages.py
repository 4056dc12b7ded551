"""The amount of dirty pages in memory, from the kernel's /proc/vmstat.

Written bytes stay in the page cache as dirty pages until the disk has them. When these take up much of the
memory (`vm.dirty_ratio`, `vm.dirty_background_ratio`), the kernel blocks each writer inside its write, for up
to 200 ms at a time. A write in an event loop then blocks all clients of that loop. So connections that bring
in much data are paused a little before the kernel would block the loop. The disk stays just as busy, as the
kernel writes to it from `vm.dirty_background_ratio` on.

On systems without /proc/vmstat no connection is paused.
"""

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

VMSTAT: Final = Path("/proc/vmstat")
READ_EVERY_S: Final = 0.005  # A look costs 28 us.
# If the pages are still dirty after this long, other processes are writing to the disk without pause. Then
# the kernel's own throttling divides the disk, for NO_PAUSE_S.
MAX_PAUSE_S: Final = 2.0
NO_PAUSE_S: Final = 5.0
# Even a machine that writes little has some bytes under writeback at any time.
USUAL_WRITEBACK_BYTES: Final = 16 << 20
_VMSTAT_BYTES: Final = 16 * 1024


class DirtyPages:
    """The state of this machine's dirty pages, read at most every READ_EVERY_S."""

    __slots__ = (
        "_fd",
        "_is_writing_back",
        "_monotonic_s",
        "_near_since_s",
        "_next_read_s",
        "_no_pause_until_s",
    )

    def __init__(self, vmstat: Path = VMSTAT, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._next_read_s = 0.0
        self._is_writing_back = False
        self._near_since_s: float | None = None
        self._no_pause_until_s = 0.0
        try:
            self._fd = os.open(vmstat, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def must_pause(self) -> bool:
        """Return True if large writers should wait a moment before their next write."""
        now_s = self._read_vmstat()
        return self._near_since_s is not None and now_s >= self._no_pause_until_s

    def is_writing_back(self) -> bool:
        """Return True if the kernel is writing pages back or soon will: allocating blocks would then wait."""
        self._read_vmstat()
        return self._is_writing_back

    def _read_vmstat(self) -> float:
        now_s = self._monotonic_s()
        if self._fd < 0 or now_s < self._next_read_s:
            return now_s
        self._next_read_s = now_s + READ_EVERY_S
        try:
            content = os.pread(self._fd, _VMSTAT_BYTES, 0)
            dirty, writeback = _number(content, b"\nnr_dirty "), _number(content, b"\nnr_writeback ")
            background = _number(content, b"\nnr_dirty_background_threshold ")
            threshold = _number(content, b"\nnr_dirty_threshold ")
        except (OSError, ValueError):  # the file or a number is missing
            dirty = writeback = background = threshold = 0
        # Half of the threshold already counts: a request for blocks just before writeback begins waits for
        # all of it.
        self._is_writing_back = dirty > background // 2 or writeback * mmap.PAGESIZE > USUAL_WRITEBACK_BYTES
        # The kernel blocks no writer below the middle of its two thresholds; half-way to it counts as near.
        self._update_pressure(now_s, is_near=dirty + writeback > (3 * background + threshold) // 4)
        return now_s

    def _update_pressure(self, now_s: float, *, is_near: bool) -> None:
        if not is_near:
            self._near_since_s = None
        elif self._near_since_s is None:
            self._near_since_s = now_s
        elif now_s - self._near_since_s > MAX_PAUSE_S:
            self._no_pause_until_s = self._near_since_s = now_s + NO_PAUSE_S


def _number(content: bytes, name: bytes) -> int:
    start = content.index(name) + len(name)
    return int(content[start : content.index(b"\n", start)])

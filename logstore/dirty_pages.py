"""What waits in memory to be written to the disk, as the kernel tells it: /proc/vmstat.

What is written lies in the page cache until the disk has it. When much of the memory is such
(`vm.dirty_ratio`, `vm.dirty_background_ratio`) the kernel stops each writer within its write, for up to 200
ms a time, and who writes in an event loop stops with it everybody who is served there. So those who send much
are to rest a little earlier. The disk is as busy, as it is written to from `vm.dirty_background_ratio` on.

Where nobody tells, as on other systems than Linux, nothing is behind.
"""

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

VMSTAT: Final = Path("/proc/vmstat")
LOOK_EVERY_S: Final = 0.005  # A look costs 28 us.
# Who has rested so long in vain shares the disk with other processes, which write without rest. Then the
# kernel is to divide it, for a while.
MAX_REST_S: Final = 2.0
NO_REST_S: Final = 5.0
# What is on its way to the disk at any time of a machine that writes little.
USUAL_WRITEBACK_BYTES: Final = 16 << 20
_VMSTAT_BYTES: Final = 16 * 1024


class DirtyPages:
    """The dirty pages of this machine."""

    __slots__ = (
        "_fd",
        "_is_writing_back",
        "_look_at_s",
        "_monotonic_s",
        "_near_since_s",
        "_no_rest_until_s",
    )

    def __init__(self, vmstat: Path = VMSTAT, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._look_at_s = 0.0
        self._is_writing_back = False
        self._near_since_s: float | None = None
        self._no_rest_until_s = 0.0
        try:
            self._fd = os.open(vmstat, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def must_rest(self) -> bool:
        """Whether those who write much had better wait a moment before they write on."""
        now_s = self._look()
        return self._near_since_s is not None and now_s >= self._no_rest_until_s

    def is_writing_back(self) -> bool:
        """Whether the kernel is busy writing, or soon: who asks the file system for blocks then waits."""
        self._look()
        return self._is_writing_back

    def _look(self) -> float:
        now_s = self._monotonic_s()
        if self._fd < 0 or now_s < self._look_at_s:
            return now_s
        self._look_at_s = now_s + LOOK_EVERY_S
        try:
            told = os.pread(self._fd, _VMSTAT_BYTES, 0)
            dirty, writeback = _number(told, b"\nnr_dirty "), _number(told, b"\nnr_writeback ")
            background = _number(told, b"\nnr_dirty_background_threshold ")
            threshold = _number(told, b"\nnr_dirty_threshold ")
        except (OSError, ValueError):  # not told, or not any more
            dirty = writeback = background = threshold = 0
        # From half of where that begins: what is asked for just before waits for all that is then written.
        self._is_writing_back = dirty > background // 2 or writeback * mmap.PAGESIZE > USUAL_WRITEBACK_BYTES
        # Up to the middle of its two thresholds the kernel lets everybody write; half-way there it is time.
        self._remember(now_s, is_near=dirty + writeback > (3 * background + threshold) // 4)
        return now_s

    def _remember(self, now_s: float, *, is_near: bool) -> None:
        if not is_near:
            self._near_since_s = None
        elif self._near_since_s is None:
            self._near_since_s = now_s
        elif now_s - self._near_since_s > MAX_REST_S:
            self._no_rest_until_s = self._near_since_s = now_s + NO_REST_S


def _number(told: bytes, name: bytes) -> int:
    start = told.index(name) + len(name)
    return int(told[start : told.index(b"\n", start)])

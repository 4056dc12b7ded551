"""Allocation of blocks beyond the end of a file, by fallocate(2) with FALLOC_FL_KEEP_SIZE where there is one.

A later write then finds its blocks allocated; otherwise the file system allocates them page by page (ext4:
two fifths of the time of a large write). Only `du` and `df` show these blocks; truncating the file to its
size frees them.
"""

import ctypes
import os
import sys
from typing import Final

_KEEP_SIZE: Final = 1
_BLOCK_BYTES: Final = 512  # the unit of st_blocks, whatever the file system's is
# The last block of a file and the file system's own metadata are not space beyond the end. A small share of
# the file is not counted either, as it is not worth the wait until it is freed.
_USUAL_SURPLUS_BYTES: Final = 64 * 1024
_USUAL_SURPLUS_SHARE: Final = 512

_fallocate = (
    getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if sys.platform == "linux" and sys.maxsize > 2**32  # elsewhere off_t has another width
    else None
)


def allocate(fd: int, position: int, size: int) -> bool:
    """Allocate blocks for `size` > 0 bytes from `position` on; return False if that is not supported."""
    if _fallocate is None:
        return False
    answer = _fallocate(
        ctypes.c_int(fd), ctypes.c_int(_KEEP_SIZE), ctypes.c_int64(position), ctypes.c_int64(size)
    )
    return bool(answer == 0)


def reaches_beyond(status: os.stat_result, size: int) -> bool:
    """Return True if a file is longer than `size`, or has blocks beyond it."""
    usual_bytes = size + max(_USUAL_SURPLUS_BYTES, size // _USUAL_SURPLUS_SHARE)
    return status.st_size > size or status.st_blocks * _BLOCK_BYTES >= usual_bytes

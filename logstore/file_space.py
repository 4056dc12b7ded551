"""Blocks of a file beyond its end: fallocate(2) with FALLOC_FL_KEEP_SIZE, where there is one.

What is written there later finds its blocks, which a file system otherwise looks for page by page (ext4: two
fifths of a large write). Nobody sees it but `du` and `df`; truncating the file to its size gives them back.
"""

import ctypes
import os
import sys
from typing import Final

_KEEP_SIZE: Final = 1
_BLOCK_BYTES: Final = 512  # the unit of st_blocks, whatever the file system's is
# A file's last blocks, or what a file system keeps beside the content, are no space beyond the end; nor is
# what is too little of the whole to be worth the wait until it is given back.
_USUAL_REST_BYTES: Final = 64 * 1024
_USUAL_REST_SHARE: Final = 512

_fallocate = (
    getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if sys.platform == "linux" and sys.maxsize > 2**32  # elsewhere an offset has another width
    else None
)


def allocate(fd: int, position: int, size: int) -> bool:
    """Have blocks for `size` > 0 bytes from `position` on; False if this file can have none so."""
    if _fallocate is None:
        return False
    answer = _fallocate(
        ctypes.c_int(fd), ctypes.c_int(_KEEP_SIZE), ctypes.c_int64(position), ctypes.c_int64(size)
    )
    return bool(answer == 0)


def reaches_beyond(status: os.stat_result, size: int) -> bool:
    """Whether a file is longer than `size`, or has blocks beyond it."""
    usual_bytes = size + max(_USUAL_REST_BYTES, size // _USUAL_REST_SHARE)
    return status.st_size > size or status.st_blocks * _BLOCK_BYTES >= usual_bytes

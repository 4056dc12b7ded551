"""The identity of a file, which distinguishes it from a copy: its birth time, or else its inode.

No program that copies files sets the birth time, and renaming, chown and mounting elsewhere keep it. Some
file systems number their inodes afresh at each mount, so the inode decides only if one of the two birth times
is unknown. Two copies are not detected: a volume that is rolled back or cloned as a whole, which keeps both
numbers, and a file that is copied at the moment of its birth, as clocks of file systems tick every 1 to 10
ms.
"""

import ctypes
import os
import sys
from typing import Final, NamedTuple

_AT_EMPTY_PATH: Final = 0x1000
_STATX_BTIME: Final = 0x800
_PARTS: Final = 2


class FileIdentity(NamedTuple):
    """The identity of a file; `birth_time_ns` is 0 if the file system has no birth times."""

    inode: int
    birth_time_ns: int

    def is_same(self, other: "FileIdentity") -> bool:
        """Return True if both identify the same file, as far as that can be determined."""
        if self.birth_time_ns and other.birth_time_ns:
            return self.birth_time_ns == other.birth_time_ns
        return self.inode == other.inode

    def as_text(self) -> str:
        """Return the identity as text for `identity_of_text`."""
        return f"{self.inode}:{self.birth_time_ns}"


def identity_of_text(text: str) -> FileIdentity:
    """Return the identity that `as_text` wrote; ValueError for any other text."""
    numbers = text.split(":")
    if len(numbers) != _PARTS or not all(one.isascii() and one.isdigit() for one in numbers):
        raise ValueError(f"{text[:64]!r} does not identify a file.")
    return FileIdentity(*map(int, numbers))


class _Timestamp(ctypes.Structure):
    """`struct statx_timestamp`."""

    _fields_ = [("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_uint32), ("_reserved", ctypes.c_int32)]


class _Statx(ctypes.Structure):
    """`struct statx` of Linux, with the fields that are read here; the kernel fills 256 bytes."""

    _fields_ = [
        ("mask", ctypes.c_uint32),
        ("_to_times", ctypes.c_uint8 * 60),
        ("accessed", _Timestamp),
        ("btime", _Timestamp),
        ("_rest", ctypes.c_uint8 * 160),
    ]


assert ctypes.sizeof(_Statx) == 256

_statx = getattr(ctypes.CDLL(None), "statx", None) if sys.platform == "linux" else None
if _statx is not None:
    _statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)


def identity_of(fd: int) -> FileIdentity:
    """Return the identity of an open file."""
    return FileIdentity(os.fstat(fd).st_ino, _birth_time_ns(fd))


def _birth_time_ns(fd: int) -> int:
    found = _Statx()
    if _statx is None or _statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, ctypes.byref(found)) != 0:
        return 0
    if not found.mask & _STATX_BTIME:
        return 0
    return int(found.btime.seconds) * 1_000_000_000 + int(found.btime.nanoseconds)

"""What is done once in a Python worker of Spark, which lives on from task to task."""

import ctypes
import gc
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import Any, Final

# Numbers of glibc's mallopt, and what they are set to. Rows on their way through a task take some 10 MiB,
# which are given back and asked for again many times a second.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 64 * 1024 * 1024
_LARGEST_KEPT_BYTES: Final = 32 * 1024 * 1024  # the most that glibc takes

_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

_modules = 0  # that were there when this process settled last


def settle() -> None:
    """Keep the garbage collector from what was imported, and freed memory with the process; to be called in
    each task.

    Spark's workers collect after each task, plan and commit, and walk through all of pyarrow, numpy and Spark
    each time: some 40 ms of processor time, more than a small task takes altogether. A worker may read in its
    first tasks and write in later ones, and some is imported in the middle of a task, by Spark itself: so it
    is done again when there are more modules than last time. And memory that comes anew from the system is
    cleared page by page.
    """
    global _modules
    if len(sys.modules) == _modules:
        return
    if not _modules:
        _keep_memory()
    _modules = len(sys.modules)
    gc.freeze()  # what is garbage by now stays: little, as a worker has just collected


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other systems' C libraries go by rules of their own
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def ask_for_more() -> None:
    """Acknowledge what Java has sent, so that it sends the rest.

    A task reaches its worker in two small pieces. Java's side holds the second one back until the first is
    acknowledged (Nagle's algorithm), which this side puts off for 40 ms, as it has nothing to say yet. Spark
    hands its socket to nobody, so all of the process are asked; to others it is nothing but an early answer.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return  # other systems than Linux
    with suppress(OSError):  # no task fails because it is not a little faster
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # closed since, as the one by which the folder was listed
                _acknowledge(int(name))


class TravelsToTasks:
    """Acknowledges a task where it is unpickled: what Spark pickles into one has this as a base."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        ask_for_more()


def _acknowledge(descriptor: int) -> None:
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        with socket.socket(fileno=os.dup(descriptor)) as one:
            if one.family in _FAMILIES:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

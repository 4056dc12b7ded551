"""Settings of a Python worker of Spark, made once: a worker runs many tasks."""

import ctypes
import gc
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import Any, Final

# Numbers of glibc's mallopt, and the values set for them. Rows on their way through a task take some 10 MiB,
# which would be freed and allocated again many times a second.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 64 * 1024 * 1024
_LARGEST_KEPT_BYTES: Final = 32 * 1024 * 1024  # the most that glibc accepts

_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

_modules = 0  # the number of loaded modules when `tune_memory` last had an effect


def tune_memory() -> None:
    """Exempt imported modules from garbage collection, and keep freed memory; call it in each task.

    Spark's workers collect after each task, plan and commit, and walk through all of pyarrow, numpy and Spark
    each time: some 40 ms of processor time, more than a small task takes altogether. A worker may read in its
    first tasks and write in later ones, and Spark itself imports some modules in the middle of a task: so it
    is repeated when there are more modules than last time. And memory that comes new from the system is
    cleared page by page.
    """
    global _modules
    if len(sys.modules) == _modules:
        return
    if not _modules:
        _keep_memory()
    _modules = len(sys.modules)
    gc.freeze()  # present garbage stays: little, as a worker has just collected


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries have other rules
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def acknowledge_received() -> None:
    """Acknowledge what Java has sent, so that it sends the rest.

    A task reaches its worker in two small pieces. Java's side holds the second one back until the first is
    acknowledged (Nagle's algorithm), and this side delays that for 40 ms, as it has nothing to send yet.
    Spark does not expose its socket, so all sockets of the process are acknowledged; for others it is only an
    early answer.
    """
    if not hasattr(socket, "TCP_QUICKACK"):
        return  # systems other than Linux
    with suppress(OSError):  # no task fails because this optimisation does
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # closed since, as the one that listed the folder
                _acknowledge(int(name))


class PickledIntoTasks:
    """Acknowledges a task when it is unpickled: a base of all classes that Spark pickles into tasks."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge_received()


def _acknowledge(descriptor: int) -> None:
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        with socket.socket(fileno=os.dup(descriptor)) as one:
            if one.family in _FAMILIES:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

"""The CPU time of a process of a test or a benchmark."""

import time

# The kernel's CPUCLOCK_SCHED, of which clock_getcpuclockid(3) forms an id with a process id. It counts
# nanoseconds; /proc counts hundredths of a second.
_SCHED_CLOCK = 2


def cpu_seconds_of(pid: int) -> float:
    """Return user and system time of all threads of a process so far; OSError if there is no such process."""
    if pid <= 0:  # 0 means the calling process to the kernel
        raise ProcessLookupError(pid)
    return time.clock_gettime((~pid << 3) | _SCHED_CLOCK)

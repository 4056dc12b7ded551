"""What a process of a test, or of the benchmarks, has used."""

import time

# The kernel's CPUCLOCK_SCHED, as clock_getcpuclockid(3) makes an id of it and of a process: it counts
# nanoseconds, /proc hundredths of a second.
_SCHED_CLOCK = 2


def cpu_seconds_of(pid: int) -> float:
    """User and system time of a process so far, all threads; OSError if there is none of the id."""
    if pid <= 0:  # to the kernel 0 is whoever asks
        raise ProcessLookupError(pid)
    return time.clock_gettime((~pid << 3) | _SCHED_CLOCK)

"""The clocks of the pipeline, in milliseconds."""

import time


def monotonic_ms() -> int:
    """Return the time of a clock that never goes back; it has no meaning outside of the process."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return the milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000

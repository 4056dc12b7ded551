"""How long a request that changes metadata may wait for the controller."""

from typing import Final

# For a client that names no time: 0 and less would be over before a new leader could be found.
UNNAMED_TIMEOUT_MS: Final = 1_000
MAX_TIMEOUT_MS: Final = 60_000  # a client that names more holds a connection for nothing


def command_timeout_ms(timeout_ms: int) -> int:
    """Return the milliseconds that a request gives its command: never more than its client waits."""
    return min(timeout_ms, MAX_TIMEOUT_MS) if timeout_ms > 0 else UNNAMED_TIMEOUT_MS

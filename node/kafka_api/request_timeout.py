"""How long a request that changes metadata may wait for the controller."""

from typing import Final

# A client that names less has given up before a new leader could be found, one that names more holds a
# connection for nothing.
MIN_TIMEOUT_MS: Final = 1_000
MAX_TIMEOUT_MS: Final = 60_000


def command_timeout_ms(timeout_ms: int) -> int:
    """The time that a request gives its command, within limits."""
    return max(MIN_TIMEOUT_MS, min(timeout_ms, MAX_TIMEOUT_MS))

"""The limits of the time that a request which changes metadata may wait for the controller."""

from typing import Final

# For clients that give no timeout: 0 and less would expire before a new leader could be found.
UNNAMED_TIMEOUT_MS: Final = 1_000
MAX_TIMEOUT_MS: Final = 60_000  # a client with a longer timeout would only hold a connection


def command_timeout_ms(timeout_ms: int) -> int:
    """Return the timeout of a request's command in milliseconds, at most as long as its client waits."""
    return min(timeout_ms, MAX_TIMEOUT_MS) if timeout_ms > 0 else UNNAMED_TIMEOUT_MS

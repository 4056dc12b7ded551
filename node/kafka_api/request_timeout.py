"""The limits of the time that a request which changes metadata may wait for the controller."""

from typing import Final

# For timeouts of 0 and less, which would expire before a new leader could be found.
UNNAMED_TIMEOUT_MS: Final = 1_000
MAX_TIMEOUT_MS: Final = 60_000  # a client with a longer timeout would only hold a connection


def command_timeout_ms(timeout_ms: int) -> int:
    """Return the timeout of a request's command, in milliseconds.

    It is that of the request, at most `MAX_TIMEOUT_MS`, or `UNNAMED_TIMEOUT_MS` if the request has none.
    """
    return min(timeout_ms, MAX_TIMEOUT_MS) if timeout_ms > 0 else UNNAMED_TIMEOUT_MS

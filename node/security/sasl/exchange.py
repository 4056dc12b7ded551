"""The protocol of an authentication by any SASL mechanism."""

from typing import Protocol


class Exchange(Protocol):
    """The server's side of one authentication on a connection."""

    is_slow: bool  # `respond` takes more than a millisecond, so it is called in a thread
    is_complete: bool
    user: str  # the claimed user, "" before the client names one; proven once `is_complete`
    expires_ms: int | None  # the time at which the client's credential expires, None for never

    def respond(self, token: bytes) -> bytes:
        """Return the answer to the client's next message; SaslError if the authentication fails."""
        ...
